"""What enforcement does next: findings, a policy, and what was done so far give actions, and reasons for doing nothing.

Invariants: a limit is only ever raised, or put back to what it was, never removed; putting back never raises a limit,
and never writes one above the policy's `maxLimitPerContainer`; nothing is done that was not shown as a dry run for as
long as the policy wants; all raises of a namespace together stay below its bound. Which limits are raised, and what
they were, comes from a record that only the controller writes (`slack.audit.enforcement.raised_limits`). Nothing that a
pod says about itself, such as an annotation, has a part in a decision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from slack.audit.api.policy import AuditPolicySpec, Mode, ResizeSpec
from slack.audit.enforcement.exemptions import Candidate, exemption
from slack.audit.enforcement.raised_limits import Key, RaisedLimit
from slack.audit.findings.finding import Mark, Severity
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts
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


class ActionKind(StrEnum):
    """Kinds of actions."""

    RAISE = "raise"
    BURST = "burst"
    REVERT = "revert"
    FORGET = "forget"
    """Delete the record's entry: the limit is not the one that the controller set any more."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to one container."""

    kind: ActionKind
    pod: AuditedPodFacts
    container: AuditedContainerFacts
    from_millis: int
    to_millis: int
    dry: bool = False
    """Only show it: a dry run at the API server, a line in status."""
    burst_us: int = 0
    reason: str = ""
    """Why a record's entry is deleted without a change of the limit."""

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
        if self.kind is ActionKind.BURST:
            return "no burst", f"burst {self.burst_us / 1000:g} ms"
        return format_cpu(self.from_millis), format_cpu(self.to_millis)


@dataclass(frozen=True, slots=True)
class SkippedFinding:
    """A finding that nothing is done about."""

    name: str
    reason: str


@dataclass(slots=True)
class ActionHistory:
    """What one process remembers in addition to the record. Owned by the deciding thread; times are those of `now`."""

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
class EnforcementDecision:
    """What to do now, and what not, with the reasons."""

    actions: tuple[Action, ...]
    left_alone: tuple[SkippedFinding, ...]
    wanted: frozenset[Key]
    """Containers that something is or would be done about: what `ActionHistory.keep` is told."""


@dataclass(slots=True)
class _Budget:
    """What one namespace may still take."""

    added_millis: int
    raises: int


def decide(
    spec: AuditPolicySpec,
    candidates: Iterable[Candidate],
    raised_limits: Sequence[RaisedLimit],
    history: ActionHistory,
    now: float,
) -> EnforcementDecision:
    """Return the next actions of one policy.

    Args:
        spec: of the policy.
        candidates: of its namespaces, with findings of severity high, the worst first.
        raised_limits: raises in its namespaces.
        history: read only.
        now: Unix seconds, by a clock that does not jump.
    """
    if spec.mode is Mode.REVERT:
        return _revert(spec.enforce.resize or ResizeSpec(), raised_limits, history, now)
    if not spec.enforces:
        return EnforcementDecision((), (), frozenset())
    raised = {raised.key: raised for raised in raised_limits}
    budgets: dict[str, _Budget] = {}
    actions: list[Action] = []
    left: list[SkippedFinding] = []
    wanted: set[Key] = set()
    for candidate in candidates:
        if candidate.finding.severity < Severity.HIGH or Mark.BOUNDARY in candidate.finding.marks:
            continue
        namespace = candidate.pod.namespace
        if namespace not in budgets:
            budgets[namespace] = _budget(spec.enforce.resize, namespace, raised_limits, history, now)
        found = _action_for(candidate, spec, raised.get(candidate.key), budgets[namespace], history)
        if isinstance(found, Action):
            wanted.add(candidate.key)
            found = _timed(found, spec, budgets[namespace], history, now, raised.get(candidate.key))
        if isinstance(found, Action):
            actions.append(found)
        elif found is not None:
            left.append(SkippedFinding(f"{namespace}/{candidate.pod.name}/{candidate.container.name}", found))
    return EnforcementDecision(tuple(actions), tuple(left), frozenset(wanted))


def _revert(
    resize: ResizeSpec, raised_limits: Iterable[RaisedLimit], history: ActionHistory, now: float
) -> EnforcementDecision:
    """Put every limit back; one that was above what the policy lets anybody write is left alone."""
    actions: list[Action] = []
    left: list[SkippedFinding] = []
    for raised in raised_limits:
        if raised.pod.deleting or not history.may_put_back(raised.key, now):
            continue
        action = revert_action(raised)
        if (reason := above_bound(action, resize)) is not None:
            left.append(SkippedFinding(action.name, reason))
            continue
        actions.append(action)
    return EnforcementDecision(tuple(actions), tuple(left), frozenset())


def above_bound(action: Action, resize: ResizeSpec) -> str | None:
    """Return why a limit is not put back: it was above what the policy lets anybody write. None if it may be."""
    if action.kind is not ActionKind.REVERT or action.to_millis <= resize.max_limit_per_container:
        return None
    most = format_cpu(resize.max_limit_per_container)
    return f"its limit was {action.texts[1]}, above maxLimitPerContainer {most}"


def revert_action(raised: RaisedLimit) -> Action:
    """Return what undoes a raise: a lower limit, or the end of the record's entry where there is nothing to lower."""
    current, former = raised.container.cpu_limit_millis or 0, cpu_millis(raised.former.limit)
    if raised.ours and former < current:
        return Action(ActionKind.REVERT, raised.pod, raised.container, current, former)
    if raised.undone:
        reason = "the limit is the former one"
    elif raised.ours:
        reason = "not put back: the recorded limit is above the one in force"
    else:
        reason = "not put back: somebody has set another limit since"
    return Action(ActionKind.FORGET, raised.pod, raised.container, current, current, reason=reason)


def _budget(
    resize: ResizeSpec | None, namespace: str, raised_limits: Iterable[RaisedLimit], history: ActionHistory, now: float
) -> _Budget:
    if resize is None:
        return _Budget(0, 0)
    here = [raised for raised in raised_limits if raised.pod.namespace == namespace]
    recent = max(raises_last_hour(here, now), len(history.raises.get(namespace, ())))
    return _Budget(
        resize.max_added_per_namespace - sum(raised.added_millis for raised in here), resize.max_per_hour - recent
    )


def raises_last_hour(raised_limits: Iterable[RaisedLimit], now: float) -> int:
    """Count the raises of the last hour; a time that lies further ahead was written by a clock that was wrong."""
    return sum(abs(now - limit.former.at) < HOUR_SECONDS and not limit.undone for limit in raised_limits)


def _action_for(
    candidate: Candidate, spec: AuditPolicySpec, raised: RaisedLimit | None, budget: _Budget, history: ActionHistory
) -> Action | str | None:
    """Return what would be done about a finding, or why nothing; None where it is done already."""
    reason = exemption(candidate)
    if reason is not None:
        return reason
    if candidate.at_limit:
        if spec.enforce.resize is None:
            return "needs a higher limit, and enforce.resize is not set"
        if (candidate.finding.lost_ratio or 0.0) < LEAST_LOST:
            return f"loses less than {LEAST_LOST:.0%} of its time"
        return _raise(candidate, spec.enforce.resize, raised, budget)
    if Mark.BURSTY in candidate.finding.marks:
        return _burst(candidate, spec, history)
    return "neither uses its limit up nor runs in bursts: see the report's advice"


def _raise(candidate: Candidate, resize: ResizeSpec, raised: RaisedLimit | None, budget: _Budget) -> Action | str:
    limit = candidate.container.cpu_limit_millis or 0
    need = ((candidate.finding.use_cores or 0.0) + (candidate.finding.lost_cores or 0.0)) * 1000 * resize.factor
    goal = min(need, limit * LARGEST_STEP)
    bounds = [
        (resize.max_limit_per_container, "maxLimitPerContainer is reached"),
        (limit + budget.added_millis, "maxAddedPerNamespace is used up"),
    ]
    if candidate.node_cpus:
        bounds.append((candidate.node_cpus * 1000, "the node has no more CPUs"))
    bound, why = min(bounds, key=lambda found: found[0])
    to = int(min(goal, bound)) // _ROUND_MILLIS * _ROUND_MILLIS
    if to < limit * LEAST_STEP:
        return why if bound < goal else "would gain less than a twentieth"
    if raised is not None and not (raised.ours or raised.undone):
        return "somebody changed the limit after it was raised"
    return Action(ActionKind.RAISE, candidate.pod, candidate.container, limit, to)


def _burst(candidate: Candidate, spec: AuditPolicySpec, history: ActionHistory) -> Action | str | None:
    if not spec.enforce.burst:
        return "runs in bursts, and enforce.burst is not set"
    if candidate.key in history.bursts:
        return None
    quota = candidate.finding.window.quota_us
    if not candidate.node_writes_bursts or not quota:
        return "the node's agent runs without --write-burst"
    return Action(ActionKind.BURST, candidate.pod, candidate.container, 0, 0, burst_us=quota)


def _timed(
    action: Action,
    spec: AuditPolicySpec,
    budget: _Budget,
    history: ActionHistory,
    now: float,
    raised: RaisedLimit | None,
) -> Action | str | None:
    """Show first, do when it was shown for long enough, and not too often; None while it waits."""
    shown = history.shown.get(action.key)
    if shown is None:
        return replace(action, dry=True)
    if spec.mode is Mode.DRY_RUN or action.key in history.waiting:
        return None
    after = spec.enforce.resize.after.total_seconds() if spec.enforce.resize else BURST_SECONDS
    if now - shown < after:
        return None
    last = history.tried.get(action.key, float("-inf"))
    if raised is not None and raised.ours and action.kind is ActionKind.RAISE:
        # a controller before this one may have raised it
        last = max(last, min(raised.former.at, now))
    if now - last < COOL_DOWN_SECONDS:
        return "was tried within the last hour"
    if action.kind is ActionKind.RAISE:
        if budget.raises <= 0:
            return "maxPerHour is used up"
        budget.raises -= 1
        budget.added_millis -= action.to_millis - action.from_millis
    return action
