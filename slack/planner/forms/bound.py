"""Bound placeholders: a scheduler binds them to nodes, and real pods preempt them there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slack.cluster.hold import Hold
from slack.cluster.labels import (
    ANNOTATION_SAFE_TO_EVICT,
    ANNOTATION_SCALE_UP_DELAY,
    ANNOTATIONS_AGAINST_INJECTION,
    HOSTNAME,
    ZONE,
)
from slack.planner.forms.form import Manifest, NodeTerms

SCALE_UP_DELAY = "3s"
"""Before the Cluster Autoscaler makes a node for a placeholder: what is beyond the plan is taken away sooner."""
_LOST_NODE_SECONDS = 10
_SOFT_SKEW = 5
"""Karpenter takes preferences for musts (--preference-policy=Respect, its default): with a skew of 1 it makes a node
for every placeholder (measured: 29 nodes for 29). Five is the default granularity, the chunks of an average node."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The form of placeholders that stand on nodes; see `Form` for what each member decides."""

    hold = Hold.BOUND
    is_scheduled = True
    occupies_nodes = True
    may_name_hosts = True
    is_answered_once = False
    refusal_seconds = 1.0
    """Placeholders that are created anew are refused anew."""
    marks_victims = True
    stops_runaways = True
    standing_verb = "are"
    other_scheduler_note = "two schedulers do not see each other's nominations"
    low_priority_note = ""
    silence_hint = ""

    def scheduler_name(self, own: str) -> str:
        """Return the scheduler of the policy or workload."""
        return own

    def labels(self) -> dict[str, str]:
        """Return no labels."""
        return {}

    def annotations(self, reserved_for: str) -> dict[str, str]:
        """Return what keeps autoscalers from holding a node for a placeholder, and from adding one too soon."""
        return {
            ANNOTATION_SAFE_TO_EVICT: "true",
            ANNOTATION_SCALE_UP_DELAY: SCALE_UP_DELAY,
            **ANNOTATIONS_AGAINST_INJECTION,
        }

    def tolerations(self) -> list[Manifest]:
        """Return tolerations by which the placeholders of a lost node move soon.

        Not at once: the NoExecute taint of a node that gets ready goes up to 5 s after its NoSchedule taint (the node
        monitor's period), and until then they would be bound and evicted in turns.
        """
        return [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _LOST_NODE_SECONDS,
            }
            for state in ("not-ready", "unreachable")
        ]

    def node_terms(self, terms: NodeTerms) -> NodeTerms:
        """Return the terms of the shape."""
        return terms

    def anti_affinity(self) -> list[Manifest]:
        """Return no terms."""
        return []

    def soft_spread(self, selector: Mapping[str, str], hard_keys: Collection[str]) -> list[Manifest]:
        """Return a soft spread over zones and hosts: one node's loss, or one burst, does not take all slack."""
        return [
            {
                "maxSkew": _SOFT_SKEW,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(selector)},
            }
            for key in (ZONE, HOSTNAME)
            if key not in hard_keys
        ]

    def deletes_changed(self, *, retiring: bool) -> bool:
        """Tell that they are deleted: the ReplicaSet makes them as planned, or has another shape in their place."""
        return True
