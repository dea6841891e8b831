"""Which form each policy's placeholders have: bound or unbound, since when, and why. Owned by the planning loop."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from slack.cluster.hold import Hold
from slack.planner.model.result import ExistingShape
from slack.planner.objects.adoption import existing_shapes
from slack.planner.policy.spec import Policy
from slack.schema.conditions import Condition
from slack_operator.placeholders.autoscalers import Recognition
from slack_operator.placeholders.cluster_view import Observation
from slack_operator.placeholders.subjects import Subject, bound_not_allowed, owners_of


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
        recognised: Callable[[], Recognition | None],
        wall: Callable[[], float],
    ) -> None:
        """Nothing is decided yet.

        Args:
            scheduler: the schedulerName of unbound placeholders.
            default: of policies that name no form.
            bound_allowed: whether placeholders may be bound at all.
            recognised: the autoscaler that is there; None before anybody has looked.
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

    def unready(self) -> str | None:
        """Say why no form can be decided yet; None when it can."""
        return "autoscalers are not looked for yet" if self._recognised() is None else None

    def resolved(self, subjects: Sequence[Subject], seen: Observation) -> tuple[Subject, ...]:
        """Return the subjects with the form of their placeholders."""
        before = self._before(subjects, seen)
        return tuple(
            replace(
                subject,
                policy=self._with_form(subject.policy, before[subject.policy.name]),
                refused=self._refused(subject.policy),
            )
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

    def _before(self, subjects: Sequence[Subject], seen: Observation) -> dict[str, Hold | None]:
        """Return each policy's last form; of one that is new to this process the form of its ReplicaSets."""
        there: tuple[ExistingShape, ...] = ()
        if any(subject.policy.name not in self._forms for subject in subjects):
            there = existing_shapes(seen.present.sets.values(), owners_of(subjects))
        return {
            (name := subject.policy.name): form.hold if (form := self._forms.get(name)) else _form_of(there, name)
            for subject in subjects
        }

    def _with_form(self, policy: Policy, before: Hold | None) -> Policy:
        hold, reason, why = self._decide(policy, before)
        known = self._forms.get(policy.name)
        since = self._wall() if known is None or known.hold is not hold else known.since
        self._forms[policy.name] = Form(hold, reason, why, since)
        scheduler = self._scheduler if hold is Hold.UNBOUND else ""
        resolved = self._resolved.get(policy.name)
        if resolved is not None and resolved[0] is policy and resolved[1].unbound_scheduler == scheduler:
            return resolved[1]
        anew = policy.model_copy(update={"unbound_scheduler": scheduler})
        self._resolved[policy.name] = policy, anew
        return anew

    def _decide(self, policy: Policy, before: Hold | None) -> tuple[Hold, str, str]:
        if not self._bound_allowed:
            return Hold.UNBOUND, "BoundNotAllowed", "--no-bound: this operator keeps unbound placeholders only"
        wanted, where = policy.spec.hold or self._default, "spec.hold" if policy.spec.hold else "--hold"
        if wanted is not Hold.AUTO:
            return wanted, "Configured", f"{where} says so"
        found = self._recognised() or Recognition(None)
        if found.autoscaler is not None:
            name, evidence = found.autoscaler.name, found.autoscaler.evidence
            return Hold.UNBOUND, "AutoscalerRecognised", f"{name} is there: {evidence}"
        if before is Hold.UNBOUND and not found.lasting:
            return Hold.UNBOUND, "AutoscalerUnclear", f"no autoscaler is recognised for the moment: {found.note}"
        return Hold.BOUND, "NoAutoscaler", f"neither Cluster Autoscaler nor Karpenter was recognised: {found.note}"


def _form_of(there: Iterable[ExistingShape], policy: str) -> Hold | None:
    """Return the form of a policy's ReplicaSets, without those that are given up; None where there is none."""
    forms = {bool(each.shape.unbound_scheduler) for each in there if each.policy == policy and not each.retiring}
    if not forms:
        return None
    return Hold.UNBOUND if True in forms else Hold.BOUND
