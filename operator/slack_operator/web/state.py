"""What the page shows, made of the last turn. Values only: nothing is worked out here that the plan has not said.

`Board` stands between two threads: the planning loop hands each turn over, which costs it a few references and one
sample of the history; the server makes the documents from it, when somebody looks and at most once a second.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from slack.cluster.snapshot import CPU, MEMORY
from slack.planner.outcome import Condition, ConditionType, PolicyPlan
from slack.planner.output import resources_document
from slack_operator.status import is_trouble, rfc3339, with_times
from slack_operator.turn import Turn
from slack_operator.web.history import Figures, History, Timeline

MAX_SHAPES = 32
MAX_WORKLOADS = 5
MAX_UNCOVERED = 16


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    """Part of what the page reads as JSON."""


class ConditionView(_Document, frozen=True):
    """One condition, as status has it."""

    type: str
    status: str
    trouble: bool
    reason: str
    message: str
    since: str


class AmountView(_Document, frozen=True):
    """One resource: cpu in millicores, everything else in base units."""

    resource: str
    desired: int
    planned: int
    reserved: int


class ShapeView(_Document, frozen=True):
    """Placeholders of one shape."""

    name: str
    role: str
    requests: dict[str, int]
    count: int
    bound: int
    pending: int
    workloads: list[str]
    retiring: bool


class UncoveredView(_Document, frozen=True):
    """Pods without room, and why."""

    pod: str
    reason: str


class PolicyView(_Document, frozen=True):
    """One policy."""

    name: str
    built_in: bool
    dry_run: bool
    planned: bool
    """Whether there are figures: a policy whose spec cannot be used has none."""
    ready: bool
    idle: str
    """Why there is nothing to keep room for yet, '' when there is something."""
    rate: float
    nodes: int
    amounts: list[AmountView]
    bound: int
    pending: int
    burst: int
    instant: float | None
    displaced: dict[str, int]
    """By cause, since this process began."""
    conditions: list[ConditionView]
    shapes: list[ShapeView]
    more_shapes: int
    uncovered: list[UncoveredView]
    more_uncovered: int


class DisplacedView(_Document, frozen=True):
    """One placeholder that left its node without our doing."""

    number: int
    at: float
    policy: str
    cause: str
    pod: str
    node: str


class State(_Document, frozen=True):
    """All that the page shows but nodes and timeline."""

    version: int
    """Grows with every turn."""
    now: float
    """Unix time here when this was made: the reader's clock may be another."""
    at: float | None
    """Unix time of the figures; None before the first."""
    seen: float | None
    """Unix time of the last turn, with or without figures."""
    leading: bool
    leader: str
    """The pod or host that leads; '' when nobody is known to."""
    identity: str
    stale: str
    namespace: str
    port: int
    """Where a process of the same settings serves its page."""
    operator_version: str
    interval_seconds: float
    nodes: int
    nodes_version: int
    policies: list[PolicyView]
    displaced: list[DisplacedView]
    """The latest ones, the newest first; none where another process leads, which alone knows what it took away."""


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while the process runs, and who leads, which is asked for."""

    identity: str
    namespace: str
    operator_version: str
    interval_seconds: float
    leader: Callable[[], str] = field(default=lambda: "")


class Board:
    """The last turn, and the last one with figures. `show` is the planning loop's; all else is anybody's."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.history = History()
        self._lock = threading.Lock()
        self._version = 0
        self._turn: Turn | None = None
        self._figures: Turn | None = None
        self._listeners: list[Callable[[], None]] = []

    def listen(self, on_turn: Callable[[], None]) -> None:
        """Be told of every turn, on the planning loop's thread: return at once."""
        self._listeners.append(on_turn)

    def show(self, turn: Turn) -> None:
        """Take a turn."""
        with self._lock:
            self._version += 1
            self._turn = turn
            if turn.look is not None:
                self._figures = turn
        if turn.items:
            self.history.add(turn.at, {item.policy: _figures(item) for item in turn.items})
        for told in self._listeners:
            told()

    def last(self) -> tuple[int, Turn | None, Turn | None]:
        """Return the version, the last turn and the last one with figures."""
        with self._lock:
            return self._version, self._turn, self._figures

    def timeline(self) -> Timeline:
        """Return the history."""
        return self.history.timeline()


def _figures(plan: PolicyPlan) -> Figures:
    return Figures(
        int(plan.desired[CPU]),
        int(plan.reserved[CPU]),
        int(plan.desired[MEMORY]),
        int(plan.reserved[MEMORY]),
        plan.pending,
    )


def pod_of(identity: str) -> str:
    """Give the pod (or host) of a lease's holder: `<pod>_<random>`."""
    return identity.rpartition("_")[0] or identity


def state_of(
    version: int,
    turn: Turn | None,
    figures: Turn | None,
    about: About,
    *,
    now: float,
    nodes_version: int,
    port: int,
) -> State:
    """Build the state.

    Args:
        version: of the last turn.
        turn: the last one.
        figures: the last one that saw the cluster; older than `turn` while the view is stale.
        about: the process.
        now: Unix time.
        nodes_version: of the document of nodes that goes with it.
        port: where the page is served.
    """
    look = figures.look if figures is not None else None
    return State(
        version=version,
        now=now,
        at=figures.at if figures is not None else None,
        seen=turn.at if turn is not None else None,
        leading=turn is not None and turn.leading,
        leader=pod_of(about.leader()),
        identity=pod_of(about.identity),
        stale=turn.stale if turn is not None else "the first look at the cluster is not through yet",
        namespace=about.namespace,
        port=port,
        operator_version=about.operator_version,
        interval_seconds=about.interval_seconds,
        nodes=len(look.snapshot.nodes.names) if look is not None else 0,
        nodes_version=nodes_version,
        policies=_policies(figures) if figures is not None else [],
        displaced=_displaced(figures) if figures is not None and figures.leading else [],
    )


def _policies(turn: Turn) -> list[PolicyView]:
    planned = [
        _policy(item, turn, seen=subject.entry.status, built_in=not subject.entry.uid)
        for subject, item in zip(turn.subjects, turn.items, strict=True)
    ]
    refused = [
        PolicyView(
            name=entry.name,
            built_in=False,
            dry_run=False,
            planned=False,
            ready=False,
            idle="",
            rate=0.0,
            nodes=0,
            amounts=[],
            bound=0,
            pending=0,
            burst=0,
            instant=None,
            displaced={},
            conditions=_conditions(turn.extra.get(entry.name, ()), entry.status, turn.at),
            shapes=[],
            more_shapes=0,
            uncovered=[],
            more_uncovered=0,
        )
        for entry in turn.invalid
    ]
    return sorted([*planned, *refused], key=lambda one: one.name)


def _policy(plan: PolicyPlan, turn: Turn, *, seen: Mapping[str, object], built_in: bool) -> PolicyView:
    extra = turn.extra.get(plan.policy, ())
    replaced = {str(one.type) for one in extra}
    conditions = [*(one for one in plan.conditions if str(one.type) not in replaced), *extra]
    counts = turn.look.displaced if turn.look is not None else {}
    ready = all(one.status for one in conditions if one.type == ConditionType.READY)
    return PolicyView(
        name=plan.policy,
        built_in=built_in,
        dry_run=plan.dry_run,
        planned=True,
        ready=ready,
        idle=_idle(plan, turn, ready=ready, built_in=built_in),
        rate=plan.rate,
        nodes=plan.nodes,
        amounts=[
            AmountView(name, int(desired), int(planned), int(reserved))
            for name, desired, planned, reserved in zip(
                plan.resources, plan.desired, plan.planned, plan.reserved, strict=True
            )
            if name in ("cpu", "memory") or desired or planned or reserved
        ],
        bound=sum(shape.bound for shape in plan.shapes),
        pending=plan.pending,
        burst=plan.burst_chunks,
        instant=turn.instant.get(plan.policy),
        displaced={cause: count for (policy, cause), count in sorted(counts.items()) if policy == plan.policy},
        conditions=_conditions(conditions, seen, turn.at),
        shapes=[
            ShapeView(
                name=shape.shape.name,
                role=str(shape.role),
                requests=resources_document(shape.shape.requests),
                count=shape.count,
                bound=shape.bound,
                pending=shape.pending,
                workloads=list(shape.workloads[:MAX_WORKLOADS]),
                retiring=shape.retiring,
            )
            for shape in plan.shapes[:MAX_SHAPES]
        ],
        more_shapes=max(0, len(plan.shapes) - MAX_SHAPES),
        uncovered=[UncoveredView(one.pod, one.reason) for one in plan.uncovered[:MAX_UNCOVERED]],
        more_uncovered=max(0, len(plan.uncovered) - MAX_UNCOVERED),
    )


def _idle(plan: PolicyPlan, turn: Turn, *, ready: bool, built_in: bool) -> str:
    """Say why a plan has nothing to keep room for, '' when it has something.

    A policy that somebody wrote and that has none of the nodes that are there is no such case: its labels may be wrong.
    """
    nodes = len(turn.look.snapshot.nodes.names) if turn.look is not None else 0
    if plan.shapes or any(plan.desired):
        return ""
    if nodes == 0:
        return "the cluster has no node"
    if plan.nodes == 0 and built_in:
        return "no node of the cluster can be used"
    if ready and plan.rate > 0 and not _has_pods(plan.policy, turn):
        return "the policy's nodes run no pod with requests"
    return ""


def _has_pods(policy: str, turn: Turn) -> bool:
    if turn.look is None:
        return False
    nodes = turn.look.snapshot.nodes
    rows = [row for row, name in enumerate(nodes.names) if turn.policy_of_node.get(name) == policy]
    return bool(nodes.real[rows].any())


def _conditions(conditions: Sequence[Condition], seen: Mapping[str, object], at: float) -> list[ConditionView]:
    """Give conditions as status has them; times are those that stand there."""
    return [
        ConditionView(
            one["type"], one["status"], is_trouble(one), one["reason"], one["message"], one["lastTransitionTime"]
        )
        for one in with_times(conditions, seen, rfc3339(at))
    ]


def _displaced(turn: Turn) -> list[DisplacedView]:
    recent = turn.look.displacements if turn.look is not None else ()
    return [
        DisplacedView(one.number, turn.at - (turn.clock - one.at), one.policy, one.cause, one.pod, one.node)
        for one in reversed(recent)
    ]
