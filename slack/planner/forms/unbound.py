"""Unbound placeholders: no scheduler binds them, and autoscalers keep capacity free for them.

The operator reports each one as unschedulable, with the condition that a scheduler would write. Cluster Autoscaler and
Karpenter then keep a node for it, and real pods start in that capacity without preempting anything.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slack.cluster.classes import Requirement
from slack.cluster.hold import Hold
from slack.cluster.labels import (
    ANNOTATION_RESERVED_FOR,
    ANNOTATION_WHY_PENDING,
    ANNOTATIONS_AGAINST_INJECTION,
    HOSTNAME,
    LABEL_HOLD,
    LABEL_RELEASE,
    SOFT_TAINT,
    UNBOUND,
)
from slack.planner.forms.form import Manifest, NodeTerms

CONDITIONS_PER_SECOND = 200
"""How many pods per second the operator reports as unschedulable at most."""
WHY_PENDING = (
    "Pending on purpose. This is not an error, and nothing has to be done: this pod never runs.\n"
    "The autoscaler keeps capacity free for it, and real pods start in that capacity.\n"
    "Whether the capacity is there: kubectl get slackpolicies"
)
"""`kubectl describe pod` prints annotations, but not the message of a condition; of a line the first 138 characters."""
_NOT_RELEASED = Requirement(LABEL_RELEASE, "DoesNotExist", ())
"""An unbound placeholder holds no capacity on a node that has this label: one write lets the node go."""
_NOT_MARKED: Manifest = {
    "labelSelector": {"matchExpressions": [{"key": LABEL_RELEASE, "operator": "Exists"}]},
    "topologyKey": HOSTNAME,
}
"""Nor on a node with a marker pod, which is in the same namespace."""
_SOFT_TAINT: Manifest = {"key": SOFT_TAINT, "operator": "Exists", "effect": "PreferNoSchedule"}
_MAY_USE = "no capacity is kept for its pods, but they may use what is kept free for others"


@dataclass(frozen=True, slots=True)
class Unbound:
    """The form of placeholders that stay pending; see `Form` for what each member decides."""

    scheduler: str
    """A schedulerName that no scheduler has."""
    yields_to_markers: bool = False
    """Whether they hold no capacity on a node with a marker pod."""
    tolerates_soft_taint: bool = False
    """Whether they tolerate the taint of nodes that hold some: Karpenter puts no pod without a toleration there."""

    hold = Hold.UNBOUND
    is_scheduled = False
    occupies_nodes = False
    may_name_hosts = False
    """Karpenter adds no node for a pod with any requirement on the label (provisioner.go, Validate)."""
    is_answered_once = True
    refusal_seconds = 300.0
    """Cluster Autoscaler repeats a refusal of the same pod no sooner (utils/kubernetes/factory.go)."""
    marks_victims = False
    """They are alike to the packing: whichever leaves, the last nodes that are filled become free."""
    stops_runaways = False
    """Those beyond the plan ask nobody for a node: they are not reported as unschedulable."""
    standing_verb = "fit"
    other_scheduler_note = _MAY_USE
    low_priority_note = f": {_MAY_USE}"

    @property
    def silence_hint(self) -> str:
        """Return which flag makes Cluster Autoscaler ignore such pods."""
        return (
            " Is its --allowed-scheduler-names (Cluster Autoscaler 1.35 and later) not set, or does it have "
            f"{self.scheduler}? Either of the two makes it ignore these pods, without an Event and without a node."
        )

    def scheduler_name(self, own: str) -> str:
        """Return the name that no scheduler has."""
        return self.scheduler

    def labels(self) -> dict[str, str]:
        """Return the label by which monitoring leaves out pods that are pending on purpose."""
        return {LABEL_HOLD: UNBOUND}

    def annotations(self, reserved_for: str) -> dict[str, str]:
        """Return why the pod is pending, and which workload it mirrors."""
        mirrored = {ANNOTATION_RESERVED_FOR: reserved_for} if reserved_for else {}
        return {ANNOTATION_WHY_PENDING: WHY_PENDING, **mirrored, **ANNOTATIONS_AGAINST_INJECTION}

    def tolerations(self) -> list[Manifest]:
        """Return the one for nodes that hold some; they are on no node that could be lost."""
        return [_SOFT_TAINT] if self.tolerates_soft_taint else []

    def node_terms(self, terms: NodeTerms) -> NodeTerms:
        """Return the terms, each without released nodes; from the first day, as pods cannot be changed later."""
        return tuple((*term, _NOT_RELEASED) for term in terms or ((),))

    def anti_affinity(self) -> list[Manifest]:
        """Return the term about marker pods where these release nodes, as it costs autoscalers time for each pod."""
        return [_NOT_MARKED] if self.yields_to_markers else []

    def soft_spread(self, selector: Mapping[str, str], hard_keys: Collection[str]) -> list[Manifest]:
        """Return none: Karpenter packs pending pods in each pass, and would spread them over too many nodes."""
        return []

    def deletes_changed(self, *, retiring: bool) -> bool:
        """Tell that those of a shape that is given up stay: admission would make them the same again."""
        return not retiring
