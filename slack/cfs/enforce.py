"""What enforcement does next: findings, a policy, and what was done so far give actions, and reasons for doing nothing.

Invariants: a limit is only ever raised, or put back to what it was, never removed; nothing is done that was not shown
as a dry run for as long as the policy wants; all raises of a namespace together stay below its bound. What stands
raised is read from the pods themselves (`slack.cfs.standing`), so a restart forgets nothing of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from slack.cfs.finding import Mark, Severity
from slack.cfs.hindrance import Candidate, hindrance
from slack.cfs.pods import ContainerFacts, PodFacts
from slack.cfs.policy import AuditPolicySpec, Mode, ResizeSpec
from slack.cfs.standing import Key, Standing
from slack.cluster.quantity import cpu_millis, format_cpu

COOL_DOWN_SECONDS = 3600.0
"""Between two attempts at one container."""
HOUR_SECONDS = 3600.0
LEAST_STEP = 1.05
"""A smaller raise is not worth a resize."""
LARGEST_STEP = 2.0
BURST_SECONDS = 900.0
"""How long an order holds when the controller falls silent."""
REFUSED_SECONDS = 300.0
"""Between two attempts at putting a limit back."""
LEAST_LOST = 0.05
"""Who loses a smaller share of its time keeps its limit, whatever the policy calls a high finding."""
_ROUND_MILLIS = 10


class What(StrEnum):
    """Kinds of actions."""

    RAISE = "raise"
    BURST = "burst"
    REVERT = "revert"
    FORGET = "forget"
    """Take the annotation away: the limit is not ours any more."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to one container."""

    what: What
    pod: PodFacts
    container: ContainerFacts
    from_millis: int
    to_millis: int
    dry: bool = False
    """Only show it: a dry run at the API server, a line in status."""
    burst_us: int = 0

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name

    @property
    def name(self) -> str:
        """namespace/pod/container."""
        return f"{self.pod.namespace}/{self.pod.name}/{self.container.name}"

    @property
    def texts(self) -> tuple[str, str]:
        """Before and after, for people."""
        if self.what is What.BURST:
            return "no burst", f"burst {self.burst_us / 1000:g} ms"
        return format_cpu(self.from_millis), format_cpu(self.to_millis)


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A finding that nothing is done about."""

    name: str
    reason: str


@dataclass(slots=True)
class Ledger:
    """What one process remembers beside what the pods show. Owned by the deciding thread; times are those of `now`."""

    shown: dict[Key, float] = field(default_factory=dict)
    """Since when an action is shown that was not done yet; ends with the finding."""
    tried: dict[Key, float] = field(default_factory=dict)
    """When something was last really sent."""
    waiting: dict[Key, float] = field(default_factory=dict)
    """Sent, and not yet known what came of it."""
    raises: dict[str, list[float]] = field(default_factory=dict)
    """When limits were raised, by namespace, within the last hour: of pods that are gone, too."""
    refused: dict[Key, float] = field(default_factory=dict)
    """When putting a limit back was refused."""
    bursts: dict[Key, Action] = field(default_factory=dict)
    """Orders that agents are given."""

    def keep(self, wanted: set[Key], now: float) -> None:
        """Forget findings that are over, and attempts that are long ago."""
        self.shown = {key: at for key, at in self.shown.items() if key in wanted}
        self.tried = {key: at for key, at in self.tried.items() if now - at < COOL_DOWN_SECONDS}
        self.refused = {key: at for key, at in self.refused.items() if now - at < REFUSED_SECONDS}
        recent = {name: [at for at in times if now - at < HOUR_SECONDS] for name, times in self.raises.items()}
        self.raises = {name: times for name, times in recent.items() if times}

    def may_put_back(self, key: Key, now: float) -> bool:
        """Whether it was not refused a moment ago."""
        return now - self.refused.get(key, float("-inf")) >= REFUSED_SECONDS


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what not, with the reasons."""

    actions: tuple[Action, ...]
    left_alone: tuple[LeftAlone, ...]
    wanted: frozenset[Key]
    """Containers that something is or would be done about: what `Ledger.keep` is told."""


@dataclass(slots=True)
class _Budget:
    """What one namespace may still take."""

    added_millis: int
    raises: int


def decide(
    spec: AuditPolicySpec,
    candidates: Iterable[Candidate],
    standing: Sequence[Standing],
    ledger: Ledger,
    now: float,
) -> Decision:
    """Return the next actions of one policy.

    Args:
        spec: of the policy.
        candidates: of its namespaces, with findings of severity high, the worst first.
        standing: raises in its namespaces.
        ledger: read only.
        now: Unix seconds, by a clock that does not jump.
    """
    if spec.mode is Mode.REVERT:
        return Decision(tuple(_revert(standing, ledger, now)), (), frozenset())
    if not spec.enforces:
        return Decision((), (), frozenset())
    raised = {one.key: one for one in standing}
    budgets: dict[str, _Budget] = {}
    actions: list[Action] = []
    left: list[LeftAlone] = []
    wanted: set[Key] = set()
    for one in candidates:
        if one.finding.severity < Severity.HIGH or Mark.BOUNDARY in one.finding.marks:
            continue
        namespace = one.pod.namespace
        if namespace not in budgets:
            budgets[namespace] = _budget(spec.enforce.resize, namespace, standing, ledger, now)
        action, reason = _one(one, spec, raised.get(one.key), budgets[namespace], ledger)
        if action is not None:
            wanted.add(one.key)
            action, reason = _timed(action, spec, budgets[namespace], ledger, now, raised.get(one.key))
        if action is not None:
            actions.append(action)
        elif reason:
            left.append(LeftAlone(f"{namespace}/{one.pod.name}/{one.container.name}", reason))
    return Decision(tuple(actions), tuple(left), frozenset(wanted))


def _revert(standing: Iterable[Standing], ledger: Ledger, now: float) -> Iterator[Action]:
    for one in standing:
        if not one.pod.deleting and ledger.may_put_back(one.key, now):
            yield putting_back(one)


def putting_back(one: Standing) -> Action:
    """Return what undoes a raise."""
    what = What.REVERT if one.ours else What.FORGET
    before, after = one.container.cpu_limit_millis or 0, cpu_millis(one.former.limit)
    return Action(what, one.pod, one.container, before, after)


def _budget(
    resize: ResizeSpec | None, namespace: str, standing: Iterable[Standing], ledger: Ledger, now: float
) -> _Budget:
    if resize is None:
        return _Budget(0, 0)
    here = [one for one in standing if one.pod.namespace == namespace]
    recent = max(raised_lately(here, now), len(ledger.raises.get(namespace, ())))
    return _Budget(resize.max_added_per_namespace - sum(one.added_millis for one in here), resize.max_per_hour - recent)


def raised_lately(standing: Iterable[Standing], now: float) -> int:
    """Count the raises of the last hour; a time that lies further ahead was written by a clock that was wrong."""
    return sum(abs(now - one.former.at) < HOUR_SECONDS and not one.undone for one in standing)


def _one(
    one: Candidate, spec: AuditPolicySpec, raised: Standing | None, budget: _Budget, ledger: Ledger
) -> tuple[Action | None, str]:
    """Return what would be done about a finding, or why nothing."""
    reason = hindrance(one)
    if reason:
        return None, reason
    if Mark.AT_LIMIT in one.finding.marks:
        if spec.enforce.resize is None:
            return None, "needs a higher limit, and enforce.resize is not set"
        if (one.finding.lost_ratio or 0.0) < LEAST_LOST:
            return None, f"loses less than {LEAST_LOST:.0%} of its time"
        return _raise(one, spec.enforce.resize, raised, budget)
    if Mark.BURSTY in one.finding.marks:
        return _burst(one, spec, ledger)
    return None, "neither uses its limit up nor runs in bursts: see the report's advice"


def _raise(one: Candidate, resize: ResizeSpec, raised: Standing | None, budget: _Budget) -> tuple[Action | None, str]:
    limit = one.container.cpu_limit_millis or 0
    need = ((one.finding.use_cores or 0.0) + (one.finding.lost_cores or 0.0)) * 1000 * resize.factor
    goal = min(need, limit * LARGEST_STEP)
    bounds = [
        (resize.max_limit_per_container, "maxLimitPerContainer is reached"),
        (limit + budget.added_millis, "maxAddedPerNamespace is used up"),
    ]
    if one.node_cpus:
        bounds.append((one.node_cpus * 1000, "the node has no more CPUs"))
    bound, why = min(bounds, key=lambda found: found[0])
    to = int(min(goal, bound)) // _ROUND_MILLIS * _ROUND_MILLIS
    if to < limit * LEAST_STEP:
        return None, why if bound < goal else "would gain less than a twentieth"
    if raised is not None and not (raised.ours or raised.undone):
        return None, "somebody changed the limit after it was raised"
    return Action(What.RAISE, one.pod, one.container, limit, to), ""


def _burst(one: Candidate, spec: AuditPolicySpec, ledger: Ledger) -> tuple[Action | None, str]:
    if not spec.enforce.burst:
        return None, "runs in bursts, and enforce.burst is not set"
    if one.key in ledger.bursts:
        return None, ""
    quota = one.finding.window.quota_us
    if not one.node_writes_bursts or not quota:
        return None, "the node's agent runs without --write-burst"
    return Action(What.BURST, one.pod, one.container, 0, 0, burst_us=quota), ""


def _timed(
    action: Action, spec: AuditPolicySpec, budget: _Budget, ledger: Ledger, now: float, raised: Standing | None
) -> tuple[Action | None, str]:
    """Show first, do when it was shown for long enough, and not too often."""
    shown = ledger.shown.get(action.key)
    if shown is None:
        return _dry(action), ""
    if spec.mode is Mode.DRY_RUN or action.key in ledger.waiting:
        return None, ""
    after = spec.enforce.resize.after.total_seconds() if spec.enforce.resize else BURST_SECONDS
    if now - shown < after:
        return None, ""
    last = ledger.tried.get(action.key, float("-inf"))
    if raised is not None and raised.ours and action.what is What.RAISE:  # by a controller before this one, perhaps
        last = max(last, min(raised.former.at, now))
    if now - last < COOL_DOWN_SECONDS:
        return None, "was tried within the last hour"
    if action.what is What.RAISE:
        if budget.raises <= 0:
            return None, "maxPerHour is used up"
        budget.raises -= 1
        budget.added_millis -= action.to_millis - action.from_millis
    return action, ""


def _dry(action: Action) -> Action:
    return replace(action, dry=True)
