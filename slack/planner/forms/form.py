"""What differs between bound and unbound placeholders: the protocol that both forms implement.

The planner, the operator and the simulator ask a form, so that no other module has a branch for one of the two. A form
is a value: it holds no state, and equal forms are equal.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from slack.cluster.classes import Requirement
from slack.cluster.hold import Hold

NodeTerms = tuple[tuple[Requirement, ...], ...]
Manifest = dict[str, Any]


class Form(Protocol):
    """How placeholders of one form are created, observed, shrunk and removed."""

    @property
    def hold(self) -> Hold:
        """Return its name for users."""

    # -- create: the pod template ------------------------------------------------------------------------------------

    def scheduler_name(self, own: str) -> str:
        """Return the schedulerName of the pods; `own` is the scheduler of the policy or workload."""

    def labels(self) -> dict[str, str]:
        """Return labels that only pods of this form have."""

    def annotations(self, reserved_for: str) -> dict[str, str]:
        """Return the annotations of the pods; `reserved_for` is the mirrored workload, '' for none."""

    def tolerations(self) -> list[Manifest]:
        """Return tolerations in addition to those of the shape."""

    def node_terms(self, terms: NodeTerms) -> NodeTerms:
        """Return the required node affinity, made of that of the shape."""

    def anti_affinity(self) -> list[Manifest]:
        """Return required pod anti-affinity terms in addition to those of the shape."""

    def soft_spread(self, selector: Mapping[str, str], hard_keys: Collection[str]) -> list[Manifest]:
        """Return the soft topology spread constraints.

        Args:
            selector: labels of the pods that spread together.
            hard_keys: topology keys that already have a hard constraint.
        """

    # -- observe: where a placeholder stands, and who decides that ---------------------------------------------------

    @property
    def is_scheduled(self) -> bool:
        """Whether a scheduler binds the pods, and so evaluates their spread and affinity, or reports that none fits.

        Pods that are not scheduled stay pending. The operator writes the condition that a scheduler would write, our
        packing says where they fit (`slack.cluster.unbound_room`), and zones are divided among them by the planner.
        """

    @property
    def occupies_nodes(self) -> bool:
        """Whether the pods stand on nodes: real pods must preempt them, and pods of no higher priority stay out.

        Otherwise the capacity is free, and every pod may use it, whatever its priority, policy or scheduler.
        """

    @property
    def may_name_hosts(self) -> bool:
        """Whether the pods may require a host name where Karpenter makes the nodes."""

    @property
    def is_answered_once(self) -> bool:
        """Whether an autoscaler's scale-up is said once for all pods, as these are not created anew."""

    @property
    def refusal_seconds(self) -> float:
        """Return for how long an autoscaler's refusal also counts for pods that begin to wait after it."""

    # -- shrink and remove -------------------------------------------------------------------------------------------

    @property
    def marks_victims(self) -> bool:
        """Whether the pods that leave are chosen by node, and marked with a deletion cost."""

    @property
    def stops_runaways(self) -> bool:
        """Whether pods beyond the plan ask for nodes, so that their creation must be stopped."""

    def deletes_changed(self, *, retiring: bool) -> bool:
        """Tell whether pods that admission has made otherwise are deleted; `retiring`: their shape is given up."""

    # -- words for status and explain --------------------------------------------------------------------------------

    @property
    def standing_verb(self) -> str:
        """Return the verb of "2 of 3 placeholders ... on nodes"."""

    @property
    def other_scheduler_note(self) -> str:
        """Return why pods of another scheduler are not covered."""

    @property
    def low_priority_note(self) -> str:
        """Return what else is to be said of pods whose priority is not above the placeholders'; '' for nothing."""

    @property
    def silence_hint(self) -> str:
        """Return what else may keep an autoscaler from answering; '' for nothing."""
