"""Both sides one after the other: the same broker, the same proxies, the same clients, the same delay of creation."""

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.demand.measuring.endpoint import Endpoint
from benchmarks.demand.measuring.load import Clients, LoadMeasurement, Side
from benchmarks.demand.measuring.old_side import OldSide
from benchmarks.demand.measuring.pools_side import PoolsSide
from benchmarks.demand.measuring.processes import Processes
from slack.demand.broker import MessageQueue
from slack.demand.model import Creation, Guards
from slack_operator.demand.brokers.opening import open_message_queue

ACK_WAIT_SECONDS = 30.0
Tell = Callable[[str, float, int], None]
"""Hears which side runs, the seconds that have passed, and how many messages were run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of a comparison."""

    actions: int = 10
    nodes: int = 3
    slots: int = 4
    clients: int = 10
    run_seconds: float = 0.002
    creation_seconds: tuple[float, float] = (0.7, 1.3)
    """What a creation takes beside the process's own start, anywhere between; 0 and 0: nothing."""
    seconds: float = 15.0
    cut_seconds: float = 6.0
    seed: int = 1
    guards: Guards | None = None
    log_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPair:
    """What both sides did at one point."""

    setting: Setting
    old: LoadMeasurement
    ours: LoadMeasurement

    @property
    def ratio(self) -> float:
        """How many times as many messages were run by ours; the old side is taken to have run one at the least."""
        counted = self.setting.seconds - self.setting.cut_seconds
        return self.ours.per_second / max(self.old.per_second, 1 / counted)


async def compare(url: str, credentials_file: Path | None, setting: Setting, tell: Tell) -> MeasuredPair:
    """Run the old scheduler's rules, then ours.

    Raises:
        BrokerRefused: the URL is no good, or the broker has no queues.
        BrokerUnreachable: it is not there.
    """
    return MeasuredPair(
        setting=setting,
        old=await measure(url, credentials_file, setting, tell, old=True),
        ours=await measure(url, credentials_file, setting, tell, old=False),
    )


async def measure(
    url: str, credentials_file: Path | None, setting: Setting, tell: Tell, *, old: bool
) -> LoadMeasurement:
    """Run one side in a namespace of its own, which is gone afterwards."""
    broker = await open_message_queue(url, credentials_file, name="benchmark")
    namespace = f"bench-{secrets.token_hex(4)}"
    clients = Clients(setting.actions, setting.clients, setting.seed)
    side: Side | None = None

    def ended(body: bytes) -> None:
        clients.ended(body)
        if side is not None:
            side.ended(body)

    endpoint = Endpoint(setting.run_seconds, clients.began, ended)
    await endpoint.start()
    random_source = random.Random(setting.seed)
    failures: list[tuple[str, str]] = []

    def flags(creation: Creation) -> list[str]:
        given = [] if credentials_file is None else [f"--broker-credentials-file={credentials_file}"]
        return [
            *(f"--broker-url={url}", f"--queues={creation.subject}", f"--container={creation.id}"),
            *(f"--target={endpoint.url}", f"--ack-wait={ACK_WAIT_SECONDS:g}s", "--idle-timeout=0s"),
            *("--listen=127.0.0.1:0", *given),
        ]

    processes = Processes(
        flags,
        lambda creation_id, reason: failures.append((creation_id, reason)),
        delay_seconds=lambda: random_source.uniform(*setting.creation_seconds),
        log_file=setting.log_file,
    )
    try:
        side = _old(broker, processes, namespace, setting) if old else _ours(broker, processes, namespace, setting)
        await side.start()
        name = "old rules" if old else "ours"
        return await clients.run(
            side, setting.seconds, setting.cut_seconds, lambda passed, messages: tell(name, passed, messages)
        )
    finally:
        if side is not None:
            await side.stop()
        processes.close()
        endpoint.close()
        await broker.close()


def _old(broker: MessageQueue, processes: Processes, namespace: str, setting: Setting) -> Side:
    return OldSide(
        broker,
        processes,
        namespace=namespace,
        nodes=setting.nodes,
        slots=setting.slots,
        ack_wait_seconds=ACK_WAIT_SECONDS,
        seed=setting.seed,
    )


def _ours(broker: MessageQueue, processes: Processes, namespace: str, setting: Setting) -> PoolsSide:
    return PoolsSide(
        broker,
        processes,
        namespace=namespace,
        actions=setting.actions,
        nodes=setting.nodes,
        slots=setting.slots,
        ack_wait_seconds=ACK_WAIT_SECONDS,
        guards=setting.guards,
    )
