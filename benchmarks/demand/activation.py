"""From publication to the start of the run: `python -m benchmarks.demand.activation [--broker URL]`.

Warm: one message at a time to a container that waits for it. Cold: the first message of an action that has none, beside
what the creation of a container takes here.
"""

import argparse
import asyncio
import secrets
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks.demand.measuring.endpoint import Endpoint
from benchmarks.demand.measuring.load import at
from benchmarks.demand.measuring.pools_side import PoolsSide
from benchmarks.demand.measuring.processes import Processes
from benchmarks.demand.real import broker
from slack.demand.broker import QueueSettings
from slack.demand.model import Creation, QueueKey
from slack_operator.demand.brokers.opening import open_message_queue

MESSAGES = 500
RUNS = 5


class _Stopwatch:
    def __init__(self) -> None:
        self.began_at = 0.0
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    def on_began(self, _: bytes) -> None:
        self.began_at = time.perf_counter()
        self.began.set()

    def on_ended(self, _: bytes) -> None:
        self.ended.set()

    async def one(self, side: PoolsSide, action: int) -> float:
        """Publish a message, and return the seconds until its run began."""
        self.began.clear()
        self.ended.clear()
        published = time.perf_counter()
        await side.publish(action, b"x")
        await asyncio.wait_for(self.began.wait(), 60)
        await self.ended.wait()
        return self.began_at - published


async def measure(url: str) -> tuple[list[float], float, float]:
    """Return the warm seconds, the first message's, and what the creation of its container took."""
    watch = _Stopwatch()
    endpoint = Endpoint(0.0, watch.on_began, watch.on_ended)
    await endpoint.start()
    opened = await open_message_queue(url)
    namespace = f"bench-{secrets.token_hex(4)}"

    def flags(creation: Creation) -> list[str]:
        return [
            *(f"--broker-url={url}", f"--queues={creation.subject}", f"--container={creation.id}"),
            *(f"--target={endpoint.url}", "--idle-timeout=0s", "--listen=127.0.0.1:0"),
        ]

    with Processes(flags) as processes:
        alone = f"act.{namespace}.alone.64"
        await opened.ensure(QueueSettings(name=alone))
        creation = Creation(id="alone", key=QueueKey(namespace, "alone"), revision="r1", subject=alone)
        created = time.perf_counter()
        processes.create([creation])
        while not any(container.ready_at_seconds for container in processes.seen()):  # noqa: ASYNC110  # it is polled
            await asyncio.sleep(0.001)
        created = time.perf_counter() - created
        side = PoolsSide(opened, processes, namespace=namespace, actions=1, nodes=1, slots=2, ack_wait_seconds=30)
        await side.start()
        await asyncio.sleep(0.3)
        first = await watch.one(side, 0)
        warm = [await watch.one(side, 0) for _ in range(MESSAGES)]
        await side.stop()
        await opened.delete(alone)
    endpoint.close()
    await opened.close()
    return warm, first, created


def main(arguments: Sequence[str] | None = None) -> int:
    """Print medians of five."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker")
    given = parser.parse_args(arguments)
    with broker(given.broker) as url:
        found = [asyncio.run(measure(url)) for _ in range(RUNS)]
    p50, p99 = (statistics.median(at(sorted(warm), share) for warm, _, _ in found) * 1000 for share in (0.5, 0.99))
    first = statistics.median(seconds for _, seconds, _ in found) * 1000
    created = statistics.median(seconds for _, _, seconds in found) * 1000
    print(f"warm: publish to start of the run p50 {p50:.2f} ms (target 2), p99 {p99:.2f} ms (target 10)")
    print(f"first message of a new action: {first:.0f} ms; a creation takes {created:.0f} ms, and a tick is 100 ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
