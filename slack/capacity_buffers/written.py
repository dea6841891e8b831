"""PodTemplates and CapacityBuffers of a plan: for clusters whose autoscaler serves these itself.

Only `podTemplateRef` and `replicas` are written, as other fields have changed their meaning. A new shape is a new pair.
"""

from typing import Any

from slack.capacity_buffers.api import GROUP, KIND, VERSIONS
from slack.cluster.labels import LABEL_MANAGED_BY, LABEL_POLICY, LABEL_SHAPE, MANAGED_BY
from slack.planner.model.result import Plan, ShapePlan
from slack.planner.objects.manifests import DEFAULT_IMAGE, pod_spec, replica_set_name

Json = dict[str, Any]


def buffer_list(plan: Plan, namespace: str) -> Json:
    """Return a v1 List with a PodTemplate and a CapacityBuffer for each shape of a plan.

    Args:
        plan: what is wanted.
        namespace: of the objects.
    """
    items = [item for own in plan.items for shape in own.shapes for item in _pair(own.policy, shape, namespace)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _pair(policy: str, plan: ShapePlan, namespace: str) -> list[Json]:
    if plan.count <= 0:
        return []
    shape = plan.shape.bound_twin
    labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_POLICY: policy, LABEL_SHAPE: shape.name}
    name = replica_set_name(policy, shape)

    def metadata() -> Json:  # values of their own: YAML would print shared ones as anchors
        return {"name": name, "namespace": namespace, "labels": dict(labels)}

    spec = pod_spec(policy, shape, DEFAULT_IMAGE)
    hard = [each for each in spec.pop("topologySpreadConstraints", ()) if each["whenUnsatisfiable"] == "DoNotSchedule"]
    if hard:
        spec["topologySpreadConstraints"] = hard
    return [
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": metadata(),
            "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
        },
        {
            "apiVersion": f"{GROUP}/{VERSIONS[0]}",
            "kind": KIND,
            "metadata": metadata(),
            "spec": {"podTemplateRef": {"name": name}, "replicas": plan.count},
        },
    ]
