"""`python -m benchmarks.demand.reporting`: what one turn of the pool reporter costs, by the number of pools.

Three pools share a namespace, each namespace has a quota, and each pool has one container. Nothing is sent: the time is
that of the statuses alone. The exit code is 1 if a pool costs more than twice as much at 100 times as many pools.
"""

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.labels import API_VERSION
from slack.demand.broker import QueueLag
from slack.demand.model import ContainerState, PoolContainer, PoolSettings
from slack.demand.policy import ActivationPool, ActivationQuota, parse_pool, parse_quota
from slack.demand.tick import TickResult
from slack.kube.apply import Writer
from slack.kube.events import EventRecorder
from slack_operator.demand.loop import TickReport
from slack_operator.demand.pool_registry import PoolRegistry
from slack_operator.demand.pool_reporter import PoolReporter
from slack_operator.demand.tick_state import TickState
from slack_operator.runtime.desired import Desired

POOLS: Final = (300, 3_000, 30_000)
POOLS_A_NAMESPACE: Final = 3
MOST_RATIO: Final = 2.0
"""Of the time per pool at the most pools to that at the fewest."""


class UnsentWrites(Writer):
    """Takes writes and sends none."""

    def __init__(self) -> None:
        """No connection is needed."""

    def apply(self, path: str, manifest: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
        """Send nothing."""
        return {}


def books(pools: int, kind: type[PoolRegistry] = PoolRegistry) -> PoolRegistry:
    """Return so many pools, and a quota per namespace."""
    namespaces = [f"n{number}" for number in range(pools // POOLS_A_NAMESPACE)]
    wanted: Desired[ActivationPool] = Desired(lambda: None, parse_pool, "activationpool")
    quotas: Desired[ActivationQuota] = Desired(lambda: None, parse_quota, "activationquota")
    container = {"name": "action", "image": "a:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    wanted.replace_all(
        (
            _document("ActivationPool", namespace, f"a{number}", spec)
            for namespace in namespaces
            for number in range(POOLS_A_NAMESPACE)
        ),
        events_before=0,
    )
    quotas.replace_all(
        (_document("ActivationQuota", namespace, "quota", {"maxContainers": 30}) for namespace in namespaces),
        events_before=0,
    )
    return kind(wanted, quotas, broker="nats", tick_seconds=0.3)


def _document(kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{namespace}-{name}", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def turn(pools: Sequence[PoolSettings]) -> TickReport:
    """Return a tick at which each pool has a container and messages."""
    return TickReport(
        at_seconds=100.0,
        unix_seconds=100.0,
        tick_seconds=0.3,
        took_seconds=0.0,
        lags={pool.subject: QueueLag(backlog=3, in_flight=1, delivered_total=10, published_total=13) for pool in pools},
        broker_problem=None,
        containers=[_container(pool) for pool in pools],
        result=TickResult(),
        targets={},
    )


def _container(pool: PoolSettings) -> PoolContainer:
    return PoolContainer(
        id=f"c-{pool.key.action}",
        namespace=pool.key.namespace,
        pool=pool.key.action,
        revision=pool.revision,
        subject=pool.subject,
        state=ContainerState.READY,
        created_at_seconds=0.0,
        ready_at_seconds=1.0,
    )


def turn_seconds(pools: int, turns: int) -> list[float]:
    """Return the CPU seconds of each of so many turns."""
    kept, board, writer = books(pools), TickState(), UnsentWrites()
    board.turn = turn(kept.wanted().pools)
    reporter = PoolReporter(
        books=kept,
        board=board,
        writer=writer,
        recorder=EventRecorder(writer, component="benchmark"),
        may_write=lambda: True,
    )
    took = []
    for _ in range(turns):
        began = time.process_time()
        reporter.write_due()
        took.append(time.process_time() - began)
    return took


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; return 1 if the cost of a pool grows with the number of pools."""
    options = parser("a turn of the pool reporter")
    options.add_argument("--turns", type=int, default=3, help="of each row; the median is printed")
    asked = options.parse_args(arguments)
    rows: list[Row] = []
    costs: list[float] = []
    for pools in POOLS:
        say(f"reporting: {pools} pools")
        seconds = median(turn_seconds(pools, asked.turns))
        costs.append(seconds / pools)
        rows.append(
            {
                "pools": pools,
                "quotas": pools // POOLS_A_NAMESPACE,
                "turn s": seconds,
                "per pool us": 1e6 * costs[-1],
                "per pool, to the first row ratio": costs[-1] / costs[0],
            }
        )
    show([Report(f"a turn of the pool reporter (wanted: a ratio of {MOST_RATIO:g} at most)", rows)], asked.output)
    return 0 if costs[-1] <= MOST_RATIO * costs[0] else 1


if __name__ == "__main__":
    raise SystemExit(main())
