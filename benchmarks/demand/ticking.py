"""`python -m benchmarks.demand.ticking`: what one tick over 5,000 queues costs, by how many of them are active.

The rules alone: counters and containers are at hand, as a broker's one read and a watch leave them. An active queue has
a container and messages that wait; the others have nothing. CPU time of this process, not the wall's.
"""

import resource
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.report import Report, Row, parser, say, show
from slack.demand.broker import QueueLag
from slack.demand.model import ContainerState, PoolContainer, PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput

QUEUES, NAMESPACES, TICK_SECONDS = 5000, 50, 0.3
ACTIVE = (0, 100, 250, 500, 5000)


def _pools() -> list[PoolSettings]:
    keys = [QueueKey(f"n{number % NAMESPACES}", f"a{number}") for number in range(QUEUES)]
    return [
        PoolSettings(
            key=key,
            subject=f"act.{key.namespace}.{key.action}.128",
            revision="r1",
            max_containers=20,
            stale_seconds=0.3,
        )
        for key in keys
    ]


def _container(pool: PoolSettings) -> PoolContainer:
    return PoolContainer(
        id=f"c-{pool.key.action}",
        namespace=pool.key.namespace,
        pool=pool.key.action,
        revision="r1",
        subject=pool.subject,
        state=ContainerState.READY,
        created_at_seconds=0.0,
        ready_at_seconds=1.0,
    )


def ticks(active: int, count: int) -> list[float]:
    """Return the CPU seconds of each of `count` ticks with so many queues active."""
    pools = _pools()
    scheduler = PoolScheduler(epoch="b")
    scheduler.configure(pools, [QuotaSettings(namespace=f"n{n}", max_containers=100) for n in range(NAMESPACES)])
    containers = [_container(pool) for pool in pools[:active]]
    idle = QueueLag(backlog=0, in_flight=0, delivered_total=0, published_total=0)
    took = []
    for tick in range(count):
        busy = QueueLag(backlog=3, in_flight=1, delivered_total=3 * tick, published_total=3 * tick + 4)
        lags = {pool.subject: busy if number < active else idle for number, pool in enumerate(pools)}
        observation = TickInput(now_seconds=100 + tick * TICK_SECONDS, lags=lags, containers=containers)
        began = time.process_time()
        scheduler.tick(observation)
        took.append(time.process_time() - began)
    return took


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    options = parser("a tick over 5,000 queues")
    options.add_argument("--ticks", type=int, default=30, help="of each row; the median and the longest are printed")
    asked = options.parse_args(arguments)
    rows: list[Row] = []
    for active in ACTIVE:
        say(f"ticking: {active} of {QUEUES} active")
        took = ticks(active, asked.ticks)
        rows.append(
            {
                "active queues": active,
                "tick ms": 1000 * median(took),
                "longest ms": 1000 * max(took),
                "of a core %": 100 * sum(took) / len(took) / TICK_SECONDS,
                "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    show(
        [Report(f"a tick over {QUEUES} queues, each {TICK_SECONDS} s (wanted: 50 ms, 25 %, 400 MiB)", rows)],
        asked.output,
    )


if __name__ == "__main__":
    main()
