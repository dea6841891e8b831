"""`resource-slack demand proxy`: its settings and its parts, and when it ends.

One thread has the event loop with broker, slots and reports; another serves /healthz, /readyz and /metrics. It ends
with 0 when it was told to, was idle for its time or had its number of messages, and with 1 when what runs messages
ended.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from slack.demand.broker import BrokerError, BrokerRefused, Duration, MessageQueue
from slack.demand.reports import REPORT_GAP_SECONDS, REPORT_INTERVAL_SECONDS, encode_report
from slack.process import arguments, running
from slack.process.health import HealthServer
from slack.process.logs import fields
from slack.process.running import listen
from slack.process.settings import flag
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import Supervisor
from slack.supervision.tasks import SupervisedTask
from slack.supervision.workers import UnawaitedWorkers
from slack_operator.demand.brokers.opening import open_message_queue
from slack_operator.demand.proxy.counts import ProxyCounts
from slack_operator.demand.proxy.metrics import ProxyMetrics
from slack_operator.demand.proxy.runner import Runner, RunnerGone, WaitRunner
from slack_operator.demand.proxy.settings import DemandProxySettings, RunMode
from slack_operator.demand.proxy.slots import Slots, SlotSettings

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 0.1
GOODBYE_SECONDS: Final = 0.4
"""How long a broker that answered may take for the last report, and for what was pulled and is given back. One that has
hung since answers nothing; what was not given back is another's after the ack wait."""
GONE_SECONDS: Final = 0.2
"""The same for a broker that did not answer last: it has nothing to be given back."""
RESOLVERS: Final = 2
HEALTHY_SECONDS: Final = 30.0
"""Without a turn of a task, which has one each half second, the proxy counts as stuck."""


class ProxyProcess:
    """All parts of one process."""

    def __init__(self, settings: DemandProxySettings, stopping: Stopping) -> None:
        self._settings = settings
        self._stopping = stopping
        self._heart = Heartbeat("the task that watches", HEALTHY_SECONDS)
        self._supervisor = Supervisor()
        self._slots: Slots | None = None
        self.metrics = ProxyMetrics(settings.slots)
        self.counts = ProxyCounts(
            settings.container_id, settings.slots, on_wait=self.metrics.on_wait, on_run=self.metrics.on_run
        )
        self.metrics.follow(self.counts)
        self.health = HealthServer(
            *host_port(settings.listen), healthy=self.unhealthy, ready=self.unready, registry=self.metrics.registry
        )

    def unhealthy(self) -> str | None:
        """Return which task is dead or stuck; None if all work."""
        return self._supervisor.unhealthy()

    def unready(self) -> str | None:
        """Say why no messages are pulled."""
        return self._slots.trouble if self._slots is not None else "no broker yet"

    def start(self) -> None:
        """Serve probes.

        Raises:
            CannotStart: the address cannot be bound.
        """
        listen(self.health, flag("listen"), self._settings.listen)
        self._supervisor.watch(self.health)

    def run(self) -> None:
        """Pull and run messages until the end."""
        with asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(UnawaitedWorkers(RESOLVERS, name="names"))
            runner.run(self._run())

    async def _run(self) -> None:
        settings = self._settings
        assert settings.broker_url is not None, "the settings ask for it"
        try:
            broker = await self._opened(settings.broker_url)
        except BrokerRefused as refused:
            log.error("%s", refused)
            self._stopping.request(str(refused), exit_code=2)
            return
        if broker is None:
            return
        runner = _runner(settings)
        slots = self._slots = Slots(
            broker, runner, _slot_settings(settings), self.counts, lambda: say_ready(settings.container_id)
        )
        watching = SupervisedTask(self._watch(slots), heart=self._heart)
        heart = Heartbeat("the task that reports", HEALTHY_SECONDS)
        reporting = SupervisedTask(self._report(broker, slots, heart), heart=heart)
        for part in (watching, reporting, slots):
            self._supervisor.watch(part)
        try:
            await slots.run()
            self._stopping.request("it has had its messages")
        except RunnerGone as gone:
            log.error("%s", gone)
            self._stopping.request(str(gone), exit_code=1)
        finally:
            await watching.end()
            await reporting.end()
            await runner.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS if slots.reachable else GONE_SECONDS):
                    await self._say(broker, slots)
                    await broker.close()

    async def _opened(self, url: str) -> MessageQueue | None:
        """Open the broker; None if the end was asked for meanwhile.

        Raises:
            BrokerRefused: the URL or the credentials are no good.
        """
        name = f"proxy {self._settings.container_id}"
        opening = asyncio.ensure_future(open_message_queue(url, self._settings.broker_credentials_file, name=name))
        while not opening.done() and not self._stopping.requested:
            await asyncio.wait({opening}, timeout=WATCH_SECONDS)
        if opening.done():
            return opening.result()
        opening.cancel()
        return None

    async def _watch(self, slots: Slots) -> None:
        """Drain when the end is asked for, or nothing has come for the time that it waits."""
        idle_timeout = self._settings.idle_timeout
        while not slots.draining:
            self._heart.beat()
            if 0 < idle_timeout <= self.counts.idle_seconds and slots.ready:
                self._stopping.request(f"no message for {idle_timeout:g} s")
            if self._stopping.requested:
                slots.drain()
            await asyncio.sleep(WATCH_SECONDS)
        while True:
            self._heart.beat()
            await asyncio.sleep(WATCH_SECONDS)

    async def _report(self, broker: MessageQueue, slots: Slots, heart: Heartbeat) -> None:
        """Report what changed, at most each half second, and each five seconds that all is as it was."""
        told: tuple[int, int, bool] | None = None
        told_at = 0.0
        while True:
            state = (self.counts.busy, self.counts.total, slots.draining)
            if slots.ready and (state != told or time.monotonic() - told_at >= REPORT_INTERVAL_SECONDS):
                await self._say(broker, slots)
                told, told_at = state, time.monotonic()
            heart.beat()
            await asyncio.sleep(REPORT_GAP_SECONDS)

    async def _say(self, broker: MessageQueue, slots: Slots) -> None:
        report = encode_report(self.counts.report(draining=slots.draining))
        with contextlib.suppress(BrokerError):  # one may be lost, and the next says more
            await broker.report(self._settings.queues[0], report)

    def stop(self) -> None:
        """Close the probes' socket."""
        self.health.stop()
        log.info("ended", extra=fields(messages=self.counts.total))


def _slot_settings(settings: DemandProxySettings) -> SlotSettings:
    return SlotSettings(
        queues=settings.queues,
        slots=settings.slots,
        ack_wait_seconds=Duration(settings.ack_wait),
        max_deliver=settings.max_deliver,
        longest_run_seconds=settings.longest_run,
        messages=settings.messages,
    )


def _runner(settings: DemandProxySettings) -> Runner:
    if settings.mode is RunMode.WAIT:
        return WaitRunner(settings.wait)
    if settings.mode is RunMode.SIDECAR:
        from slack_operator.demand.proxy.loopback import LoopbackRunner

        return LoopbackRunner(settings.target)
    from slack_operator.demand.proxy.command import LinesRunner, ServedRunner

    assert settings.command is not None, "the settings ask for it"
    if settings.protocol == "http":
        return ServedRunner(settings.command, settings.target)
    return LinesRunner(settings.command)


def build(settings: DemandProxySettings, stopping: Stopping) -> ProxyProcess:
    """Make the process; nothing of it is started."""
    return ProxyProcess(settings, stopping)


def run(settings: DemandProxySettings) -> int:
    """Run the proxy until it ends; returns the process's exit code."""
    return running.run(settings, build)


def become(flags: Mapping[str, object], config: Path | None = None) -> NoReturn:
    """Turn this process into a proxy with these settings, those that are None left out: without the command line's own
    libraries, which every pod would hold for nothing."""
    words = arguments.words({**flags, "config": config})
    # -P: what lies in the working directory must not stand in for a module
    os.execv(sys.executable, [sys.executable, "-P", "-m", "slack_operator.demand.proxy.process", *words])


_NOTIFY_SECONDS: Final = 1.0


def say_ready(container: str) -> None:
    """Send one datagram to NOTIFY_SOCKET, as services do for systemd (sd_notify(3)); do nothing if it is not set."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.settimeout(_NOTIFY_SECONDS)  # who does not read must not hold up messages
            told.sendto(f"READY=1\nX_CONTAINER={container}\n".encode(), address)
    except OSError:
        return


if __name__ == "__main__":
    # NATS's library would load it, if it is there, for websockets: 12 MiB in every pod, for nothing.
    sys.modules.setdefault("aiohttp", None)  # type: ignore[arg-type]  # None is how an import is forbidden
    sys.exit(arguments.main(DemandProxySettings, run))
