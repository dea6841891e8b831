"""What enforcement does next: findings, a policy, and what was done so far give actions, and reasons for doing nothing.

Invariants: a limit is only ever raised, or put back to what it was, never removed; nothing is done that was not shown
as a dry run for as long as the policy wants; all raises of a namespace together stay below its bound. What stands
raised is read from the pods themselves (an annotation keeps the former limit), so a restart forgets nothing of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from slack.cfs.finding import Finding, Mark, Severity
from slack.cfs.pods import ContainerFacts, PodFacts
from slack.cfs.policy import SPECIAL_NAMESPACES, AuditPolicySpec, Mode, ResizeSpec
from slack.cluster.quantity import QuantityError, cpu_millis, format_cpu

ANNOTATION_FORMER = "audit.resource-slack.io/former-limits"
"""On a pod: what its containers' limits were before they were raised."""
COOL_DOWN_SECONDS = 3600.0
"""Between two attempts at one container."""
HOUR_SECONDS = 3600.0
LEAST_STEP = 1.05
"""A smaller raise is not worth a resize."""
LARGEST_STEP = 2.0
BURST_SECONDS = 900.0
"""How long an order holds when the controller falls silent."""
_ROUND_MILLIS = 10

Key = tuple[str, str]
"""A pod's uid and a container's name."""


class Former(msgspec.Struct, frozen=True, omit_defaults=True):
    """One container in the annotation."""

    limit: str
    """Before the first raise."""
    raised: str
    """What it was raised to."""
    at: float
    """Unix time of the last raise."""
    policy: str = ""


_FORMER = msgspec.json.Decoder(dict[str, Former])


def read_former(text: str) -> dict[str, Former]:
    """Read the annotation; whoever edits it may have broken it, and then there is nothing to put back."""
    try:
        found = _FORMER.decode(text)
        return {name: one for name, one in found.items() if cpu_millis(one.limit) > 0 and cpu_millis(one.raised) > 0}
    except (msgspec.DecodeError, UnicodeError, RecursionError, QuantityError):
        return {}


def write_former(former: Mapping[str, Former]) -> str | None:
    """Return the annotation's text; None when there is nothing to keep."""
    return msgspec.json.encode(dict(former)).decode() if former else None


@dataclass(frozen=True, slots=True)
class Standing:
    """A container whose limit was raised, as its pod shows it now."""

    pod: PodFacts
    container: ContainerFacts
    former: Former

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name

    @property
    def ours(self) -> bool:
        """Whether the limit still is what we made it; else somebody has set another since."""
        return self.container.cpu_limit_millis == cpu_millis(self.former.raised)

    @property
    def added_millis(self) -> int:
        """What the raise adds."""
        return max(0, cpu_millis(self.former.raised) - cpu_millis(self.former.limit)) if self.ours else 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container with a finding, and what else decides."""

    finding: Finding
    pod: PodFacts
    container: ContainerFacts
    kernel_affected: bool = False
    node_cpus: int | None = None
    resize_under_way: bool = False
    node_writes_bursts: bool = False

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name


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
    """What one process remembers beside what the pods show. Owned by the deciding thread; times are Unix seconds."""

    shown: dict[Key, float] = field(default_factory=dict)
    """Since when an action is shown that was not done yet; ends with the finding."""
    tried: dict[Key, float] = field(default_factory=dict)
    """When something was last really sent."""
    waiting: dict[Key, float] = field(default_factory=dict)
    """Sent, and not yet known what came of it."""
    bursts: dict[Key, Action] = field(default_factory=dict)
    """Orders that agents are given."""

    def keep(self, wanted: set[Key], now: float) -> None:
        """Forget findings that are over, and attempts that are long ago."""
        self.shown = {key: at for key, at in self.shown.items() if key in wanted}
        self.tried = {key: at for key, at in self.tried.items() if now - at < COOL_DOWN_SECONDS}


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
        now: Unix seconds.
    """
    if spec.mode is Mode.REVERT:
        return Decision(tuple(_revert(standing)), (), frozenset())
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
            action, reason = _timed(action, spec, budgets[namespace], ledger, now)
        if action is not None:
            actions.append(action)
        elif reason:
            left.append(LeftAlone(f"{namespace}/{one.pod.name}/{one.container.name}", reason))
    return Decision(tuple(actions), tuple(left), frozenset(wanted))


def _revert(standing: Iterable[Standing]) -> Iterator[Action]:
    for one in standing:
        if one.pod.deleting:
            continue
        what = What.REVERT if one.ours else What.FORGET
        before, after = cpu_millis(one.former.raised), cpu_millis(one.former.limit)
        yield Action(what, one.pod, one.container, before, after)


def _budget(
    resize: ResizeSpec | None, namespace: str, standing: Iterable[Standing], ledger: Ledger, now: float
) -> _Budget:
    if resize is None:
        return _Budget(0, 0)
    here = [one for one in standing if one.pod.namespace == namespace]
    recent = sum(now - one.former.at < HOUR_SECONDS for one in here)
    return _Budget(resize.max_added_per_namespace - sum(one.added_millis for one in here), resize.max_per_hour - recent)


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
        return _raise(one, spec.enforce.resize, raised, budget)
    if Mark.BURSTY in one.finding.marks:
        return _burst(one, spec, ledger)
    return None, "neither uses its limit up nor runs in bursts: see the report's advice"


def hindrance(one: Candidate) -> str:
    """Say why nothing may be done about a finding at all; '' when something may."""
    pod, container, finding = one.pod, one.container, one.finding
    blamed = finding.blamed
    rules: tuple[tuple[bool, str], ...] = (
        (pod.namespace in SPECIAL_NAMESPACES, f"nothing is changed in {pod.namespace}"),
        (pod.deleting, "the pod is being deleted"),
        (pod.static, "a static pod: only its file on the node changes it"),
        (pod.qos_class == "Guaranteed", "the pod's class is Guaranteed, where limits equal requests"),
        (container.init and not container.sidecar, "an init container, which ends by itself"),
        (container.resize_restarts, "its resizePolicy would restart the container"),
        (
            Mark.INHERITED in finding.marks,
            f"the quota of {f'the {blamed.level}' if blamed else 'a level'} above stops it, not its own",
        ),
        (pod.cpu_limit_millis is not None, "the pod has a limit of its own in spec.resources"),
        (one.kernel_affected, "the node's kernel has a bug of CPU quotas, which a higher limit does not cure"),
        (one.resize_under_way, "a resize of the pod is under way"),
        (finding.window.quota_changed, "its limit changed within the window"),
        (container.cpu_limit_millis is None, "the pod's spec has no limit for it"),
        (_not_actuated(one), "the limit in the pod's spec is not the one in force"),
    )
    return next((reason for holds, reason in rules if holds), "")


def _not_actuated(one: Candidate) -> bool:
    spec, found = one.container.cpu_limit_millis, one.finding.limit_cores
    return spec is not None and found is not None and abs(spec - found * 1000) > max(10.0, 0.02 * spec)


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
    if raised is not None and not raised.ours:
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
    action: Action, spec: AuditPolicySpec, budget: _Budget, ledger: Ledger, now: float
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
    if now - ledger.tried.get(action.key, float("-inf")) < COOL_DOWN_SECONDS:
        return None, "was tried within the last hour"
    if action.what is What.RAISE:
        if budget.raises <= 0:
            return None, "maxPerHour is used up"
        budget.raises -= 1
        budget.added_millis -= action.to_millis - action.from_millis
    return action, ""


def _dry(action: Action) -> Action:
    return Action(
        action.what, action.pod, action.container, action.from_millis, action.to_millis, True, action.burst_us
    )
