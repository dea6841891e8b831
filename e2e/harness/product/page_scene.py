"""A page with something on each of its parts: two policies, one of them in trouble, empty nodes, a spike, a day.

Served by the operator's own server over a made-up cluster; the docs' pictures are taken of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from e2e.harness.ports import LOOPBACK
from e2e.harness.product.synthetic_cluster import POOLS, Synthetic
from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.node_prices import LabelPrice, NodePrices
from slack.cluster.snapshot import Workload
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span
from slack.planner.model.pool import Pool
from slack.planner.model.result import UncoveredPods
from slack.planner.objective.amount import SizingReason
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.runtime.load_source import LoadSource
from slack_operator.web.load import LoadBoard
from slack_operator.web.page_state import About, PageState
from slack_operator.web.server import WebServer

NODES, EMPTY = 44, 4
PRICES = NodePrices("EUR", labels=tuple(LabelPrice((("pool", pool),), 0.40) for pool in POOLS))
REFUSED = StatusCondition("LimitReached", True, "AutoscalerLimit", "max node group size reached (12) of the group web")
WHY = SizingReason(
    objective=0.99,
    known=True,
    quantile=0.993,
    window_seconds=95.0,
    pattern="hour of the day",
    late_today=3,
    started_today=412,
)


def explained(turn: Reconciliation) -> Reconciliation:
    """The turn with a policy that has learnt how much it needs."""
    items = (replace(item, why=WHY) if item.policy == "batch" else item for item in turn.items)
    return replace(turn, items=tuple(items))


def in_trouble(turn: Reconciliation) -> Reconciliation:
    """The turn with a policy whose autoscaler refuses."""
    return replace(turn, extra={**turn.extra, "web": (REFUSED,)})


def with_pools(turn: Reconciliation) -> Reconciliation:
    """The turn with two ActivationPools that were seen: one announces what is planned for, of the other too little."""
    assert turn.observation is not None
    pools = [
        Pool(
            workload=Workload("media", "actpool", name),
            requests=(("cpu", 1000), ("memory", 1 << 30)),
            constraints=Constraints(),
            labels={},
            spec=wire.PodSpec(),
            most=100,
            slack_pods=announced,
            wanted=wanted,
            observed_at_seconds=turn.at - 12,
        )
        for name, wanted, announced in (("thumbnail", 14, 9), ("transcode", 3, 40))
    ]
    left_out = UncoveredPods("media/actpool/transcode", "ResourceQuotas of namespace media let in 12 more of its pods")
    first, *others = turn.items
    items = (replace(first, uncovered=(*first.uncovered, left_out)), *others)
    return replace(turn, observation=replace(turn.observation, pools=tuple(pools)), items=items)


def loads(names: Sequence[str], end: float) -> LoadReport:
    """What nodes use over five minutes: less than is requested, on some more; of the last one nothing is known."""

    def node(number: int) -> NodeLoadFigures:
        figures = {
            MetricType.CPU: (5.0 + 37 * number % 29, 3.5),
            MetricType.MEMORY: (12.0 + 29 * number % 31, 0.4),
        }
        return NodeLoadFigures(
            tuple(
                Metric(kind, kind, rollup, value)
                for kind, values in figures.items()
                for rollup, value in zip((Rollup.AVG, Rollup.STD), values, strict=True)
            ),
            {},
            {},
        )

    nodes = {name: node(number) for number, name in enumerate(names[:-1])}
    return LoadReport(int(end), Span(RollupWindow.FIVE_MINUTES, int(end) - 300, int(end)), "made-up", nodes)


def load_board(report: LoadReport | None, failing: str | None = None) -> LoadBoard:
    """Load as it stands after a report, without a watcher that is asked."""
    source = LoadSource("http://127.0.0.1:1", 60.0, lambda: None)
    source.reports = {} if report is None else {report.window.duration: report}
    source.failing = failing
    return LoadBoard(source)


@contextmanager
def scene(at: float, *, trouble: bool, load_age: float | None = None, failing: str | None = None) -> Iterator[str]:
    """Give the address of a page whose last figures are of a Unix time.

    Args:
        at: Unix time.
        trouble: whether one of its policies is in trouble.
        load_age: how old what nodes use is, in seconds; None: no load watcher is named.
        failing: why the load watcher does not tell more.
    """
    cluster = Synthetic(NODES, empty=EMPTY, prices=PRICES)
    board = PageState(About("resource-slack-7d9f_x", "resource-slack", "1.2.3", 10.0, lambda: "resource-slack-7d9f_x"))
    for step in range(120, 0, -1):
        turn = cluster.reconcile(at - 10 * step, displace=2 if step % 40 == 20 else 0, refill=step % 40 == 12)
        board.show(turn)
    turn = explained(cluster.reconcile(at, displace=3 if trouble else 0, refill=not trouble))
    board.show(with_pools(in_trouble(turn)) if trouble else turn)
    load = None
    if load_age is not None:
        assert turn.observation is not None
        load = load_board(loads(turn.observation.snapshot.nodes.names, at + 1 - load_age), failing)
    server = WebServer(LOOPBACK, 0, board=board, load=load, clock=lambda: at + 1)
    server.start()
    try:
        yield f"http://{LOOPBACK}:{server.port}"
    finally:
        server.stop()
