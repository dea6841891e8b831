"""The one word that says how a policy's slack is: the same in `kubectl get`, `status`, on the page and in alerts.

It is a reason of one of the policy's conditions, so that it can be searched for and has its remedy: what is wrong comes
first, the cause before what follows from it; where nothing is, what SlackSatisfied says, which may be a calm lack.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slack.health.reasons import advice_on, reason
from slack.process.reasons import Level

UNKNOWN = "Unknown"
"""Before anything was planned."""
_CAUSES = (
    "Ready",
    "ViewStale",
    "OwnershipContested",
    "LargeSlack",
    "LimitReached",
    "AutoscalerIgnoresPlaceholders",
    "SlackSatisfied",
    "Feasible",
    "Covered",
    "PreemptionStuck",
    "HistoryLost",
    "ReleaseBlocked",
    "SoftTaintBlocked",
    "ImagesNotPulled",
)
"""Condition types, causes before what follows from them."""
_WORDS = {
    "Reserved": "all wanted capacity is reserved",
    "Refilling": "refilling: placeholders wait for nodes",
    "CeilingReached": "capped at the ceiling, as you asked",
    "DryRun": "dry run: nothing is written for it",
    "NoNodesYet": "the cluster has no nodes yet: placeholders are created with the first",
    UNKNOWN: "not seen by the operator yet",
}

_BRIEFLY = {
    "RefillLasts": "some capacity has been missing for a quarter of an hour",
    "PlaceholdersPending": "a placeholder waits longer than a node takes to start",
    "NotPlanned": "the plan has less than desired",
    "DomainConflict": "an older policy has its nodes",
    "BadPriorityClass": "its PriorityClass is not usable",
    "HostnameRefused": "its placeholders would name hosts, which Karpenter refuses",
    "NoEligibleNode": "it selects no usable node",
    "InvalidSpec": "its spec is not usable",
    "BoundNotAllowed": "it asks for bound placeholders, which are switched off",
    "NoPrices": "maxCostPerHour has no effect because no prices are configured",
    "NotPermitted": "the operator has no right to read the cluster",
    "WriteRefused": "a write of the operator is refused",
    "WrittenBack": "something keeps changing the operator's objects",
    "CoverageMissed": "some arriving pods fit into no placeholder's space",
    "MaxShapesReached": "it needs more sizes of placeholders than it allows",
    "ShapeFitsNowhere": "a placeholder fits no node",
    "AutoscalerLimit": "the autoscaler is at its maximum",
    "NoNodeGroupFits": "no node group fits the placeholder",
    "QuotaExceeded": "a quota refuses placeholders",
    "PlaceholdersFail": "a kubelet refuses placeholders",
    "NoWord": "no autoscaler answers",
    "NotTold": "its placeholders cannot be reported to an autoscaler",
    "MoreThanDoubles": "it more than doubles the cluster",
    "NotWhole": "the operator does not see the whole cluster",
    "RescueFailed": "a pod hangs after a preemption, and freeing it was refused",
    "RescueDisabled": "a pod hangs after a preemption, and nothing frees it",
    "DeletionHeldUp": "finalizers keep an object that was deleted",
    "HistoryUnusable": "the saved history is not usable",
    "HistoryNotKept": "what it learns is not saved",
    "WarmNotEnabled": "it asks for images to be pulled, which is switched off",
    "WarmRefused": "the API server refuses what pulling images needs",
    "ImagePullFailed": "an image cannot be pulled ahead",
    "TaintNotPermitted": "the operator has no right to write the taints of nodes",
    "ReleaseNotPermitted": "placeholders hold a node that the operator is not allowed to release",
}
"""What is wrong, in a few words; the reason's meaning has all of it."""


@dataclass(frozen=True, slots=True)
class SlackState:
    """How a policy's slack is."""

    name: str
    """The reason."""
    level: Level
    words: str
    remedy: str
    """What to do about it; '' if there is nothing to do."""
    also: tuple[str, ...] = ()
    """Other reasons that need someone, each once."""

    @property
    def column(self) -> str:
        """All reasons that need someone, the cause first, as in the column of `kubectl get`."""
        return ",".join((self.name, *self.also))

    @property
    def calm(self) -> bool:
        """Whether nobody has to do anything."""
        return self.level is not Level.TROUBLE

    @property
    def brief(self) -> str:
        """The reason with a few words, of what is wrong; of a newer version's the reason alone."""
        return f"{self.name}: {_BRIEFLY[self.name]}" if self.name in _BRIEFLY else self.name


def slack_state(conditions: Iterable[tuple[str, str, bool]], namespace: str = "NAMESPACE") -> SlackState:
    """Return the state.

    Args:
        conditions: type, reason, and whether it says that something is not as one would like it.
        namespace: of the placeholders, for the remedy's commands.
    """
    given = list(conditions)
    found = {kind: name for kind, name, wrong in given if wrong}
    troubles = {found[kind]: kind for kind in reversed(_CAUSES) if kind in found and _is_trouble(found[kind])}
    if troubles:
        name, *also = reversed(troubles)
        known = reason(name)
        words = f"{troubles[name]}: {name}" if known is None else known.meaning
        return SlackState(name, Level.TROUBLE, words, advice_on(name, namespace), tuple(also))
    room = next((name for kind, name, _ in given if kind == "SlackSatisfied"), UNKNOWN)
    if room == "Reserved" and found.get("Covered") == "CeilingReached":
        room = "CeilingReached"
    known = reason(room)
    level = Level.NOTE if known is None else known.level
    remedy = "" if level is Level.GOOD else advice_on(room, namespace)
    return SlackState(room, level, _WORDS.get(room) or (room if known is None else known.meaning), remedy)


def _is_trouble(name: str) -> bool:
    """Whether a reason needs someone; one of a newer version may."""
    known = reason(name)
    return known is None or known.level is Level.TROUBLE
