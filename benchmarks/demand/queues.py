"""Many queues: `python -m benchmarks.demand.queues [--queues 5000] [--broker URL] [--seconds 15]`.

A tenth of them has messages. Measured of this process: the time of a tick (lag of all, and the rules), its share of a
core at 300 ms a tick, its memory; beside a read of the lag a queue, one after the other.
"""

import argparse
import asyncio
import resource
import secrets
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.demand.real import broker
from slack.demand.broker import QueueSettings
from slack.demand.model import PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput
from slack_operator.demand.brokers.nats import NatsBroker
from slack_operator.demand.brokers.nats_connection import JetStreamReply
from slack_operator.demand.brokers.nats_layout import consumer_name
from slack_operator.demand.brokers.opening import open_message_queue

TICK_SECONDS = 0.3
_MADE_AT_ONCE = 20
_ONE_BY_ONE = 500


async def measure(url: str, count: int, seconds: float) -> dict[str, float]:
    """Make the queues, tick for so long, and take them away again."""
    opened = await open_message_queue(url)
    namespace = f"bench-{secrets.token_hex(4)}"
    pools = [
        PoolSettings(
            key=QueueKey(namespace, f"a{number}"),
            subject=f"act.{namespace}.a{number}.64",
            revision="r1",
            max_containers=4,
        )
        for number in range(count)
    ]
    for start in range(0, count, _MADE_AT_ONCE):
        some = pools[start : start + _MADE_AT_ONCE]
        await asyncio.gather(*(opened.ensure(QueueSettings(name=pool.subject)) for pool in some))
    for pool in pools[::10]:
        await opened.publish(pool.subject, b"x")
    scheduler = PoolScheduler(epoch="bench")
    scheduler.configure(pools, [QuotaSettings(namespace=namespace, max_containers=0)])
    whole, reads = [], []
    began, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        at = time.perf_counter()
        lags = await opened.lag(f"act.{namespace}.")
        reads.append(time.perf_counter() - at)
        scheduler.tick(TickInput(now_seconds=time.time(), lags=lags, containers=()))
        whole.append(time.perf_counter() - at)
        await asyncio.sleep(max(TICK_SECONDS - whole[-1], 0.0))
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    found = {
        "tick_ms": statistics.median(whole) * 1000,
        "read_ms": statistics.median(reads) * 1000,
        "core_percent": share * 100,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "queues_told": len(lags),
    }
    if isinstance(opened, NatsBroker):
        at = time.perf_counter()
        for pool in pools[:_ONE_BY_ONE]:
            await opened.connection.api(f"CONSUMER.INFO.ACT_all.{consumer_name(pool.subject)}", None, JetStreamReply)
        found["one_by_one_ms"] = (time.perf_counter() - at) * 1000 * count / min(_ONE_BY_ONE, count)
    for start in range(0, count, _MADE_AT_ONCE):
        await asyncio.gather(*(opened.delete(pool.subject) for pool in pools[start : start + _MADE_AT_ONCE]))
    await opened.close()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was measured beside its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker")
    parser.add_argument("--queues", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=15.0)
    given = parser.parse_args(arguments)
    with broker(given.broker) as url:
        found = asyncio.run(measure(url, given.queues, given.seconds))
    print(f"{Path(__file__).stem}: {given.queues} queues, a tenth with messages, {found['queues_told']:.0f} told")
    print(f"tick {found['tick_ms']:.1f} ms (target 50), of it {found['read_ms']:.1f} ms the read of all queues")
    print(f"{found['core_percent']:.1f} % of a core (target 25), {found['peak_mib']:.0f} MiB at the most (target 400)")
    if "one_by_one_ms" in found:
        print(f"a read a queue: {found['one_by_one_ms']:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
