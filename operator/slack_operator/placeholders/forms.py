"""Which form each policy's placeholders have: bound or unbound, since when, and why. Owned by the planning loop."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from slack.cluster.hold import Hold
from slack.planner.policy.spec import Policy
from slack.schema.conditions import Condition
from slack_operator.placeholders.subjects import Subject, bound_not_allowed


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """An autoscaler that keeps nodes for unbound placeholders, and how it was recognised."""

    name: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Form:
    """What `spec.hold` has come to."""

    hold: Hold
    """Bound or Unbound."""
    reason: str
    """CamelCase."""
    why: str
    """A sentence for people."""
    since: float
    """Unix seconds."""


class Forms:
    """Decides the form of each policy, and remembers since when it has it."""

    def __init__(
        self,
        *,
        scheduler: str,
        default: Hold = Hold.AUTO,
        bound_allowed: bool = True,
        recognised: Callable[[], Autoscaler | None],
        wall: Callable[[], float],
    ) -> None:
        """Nothing is decided yet.

        Args:
            scheduler: the schedulerName of unbound placeholders.
            default: of policies that name no form.
            bound_allowed: whether placeholders may be bound at all.
            recognised: the autoscaler that is there; None where none is known that keeps nodes for unbound pods.
            wall: Unix seconds.
        """
        self._scheduler = scheduler
        self._default = default
        self._bound_allowed = bound_allowed
        self._recognised = recognised
        self._wall = wall
        self._forms: dict[str, Form] = {}
        self._resolved: dict[str, tuple[Policy, Policy]] = {}
        """By policy: as it was written, and with its form; the same value while neither changes."""

    def resolved(self, subjects: Sequence[Subject]) -> tuple[Subject, ...]:
        """Return the subjects with the form of their placeholders."""
        return tuple(
            replace(subject, policy=self._with_form(subject.policy), refused=self._refused(subject.policy))
            for subject in subjects
        )

    def _refused(self, policy: Policy) -> Condition | None:
        """Say that a policy asks for what this operator may not do; None where it does not."""
        if self._bound_allowed or (policy.spec.hold or self._default) is not Hold.BOUND:
            return None
        which = "spec.hold: Bound" if policy.spec.hold else "--hold=Bound"
        return bound_not_allowed(which)

    def of(self, policy: str) -> Form | None:
        """Return a policy's form; None before it was planned for."""
        return self._forms.get(policy)

    @property
    def any_bound(self) -> bool:
        """Whether some policy has bound placeholders."""
        return any(form.hold is Hold.BOUND for form in self._forms.values())

    def keep_only(self, policies: Collection[str]) -> None:
        """Forget policies that are no more."""
        self._forms = {name: form for name, form in self._forms.items() if name in policies}
        self._resolved = {name: pair for name, pair in self._resolved.items() if name in policies}

    def _with_form(self, policy: Policy) -> Policy:
        hold, reason, why = self._decide(policy)
        known = self._forms.get(policy.name)
        since = self._wall() if known is None or known.hold is not hold else known.since
        self._forms[policy.name] = Form(hold, reason, why, since)
        scheduler = self._scheduler if hold is Hold.UNBOUND else ""
        before = self._resolved.get(policy.name)
        if before is not None and before[0] is policy and before[1].unbound_scheduler == scheduler:
            return before[1]
        resolved = policy.model_copy(update={"unbound_scheduler": scheduler})
        self._resolved[policy.name] = policy, resolved
        return resolved

    def _decide(self, policy: Policy) -> tuple[Hold, str, str]:
        if not self._bound_allowed:
            return Hold.UNBOUND, "BoundNotAllowed", "--no-bound: this operator keeps unbound placeholders only"
        wanted, where = policy.spec.hold or self._default, "spec.hold" if policy.spec.hold else "--hold"
        if wanted is not Hold.AUTO:
            return wanted, "Configured", f"{where} says so"
        autoscaler = self._recognised()
        if autoscaler is not None:
            return Hold.UNBOUND, "AutoscalerRecognised", f"{autoscaler.name} is there ({autoscaler.evidence})"
        return Hold.BOUND, "NoAutoscaler", "neither Cluster Autoscaler nor Karpenter was recognised"
