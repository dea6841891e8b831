"""A plan as objects for an autoscaler that serves CapacityBuffers itself."""

from slack.capacity_buffers.written import buffer_list
from slack.planner.plan import plan
from tests.cluster.build import NOW, node, pod
from tests.planner.scenes import policy_of, snapshot_of


def test_each_shape_is_a_template_and_a_buffer_of_its_count() -> None:
    pods = [pod(f"web-{i}", owner=("ReplicaSet", "web-1"), node="n1") for i in range(6)]
    made = plan(
        snapshot_of(node("n1", cpu="16", memory="64Gi"), *pods),
        [policy_of("web", extraCapacity={"minRate": 0.5})],
        now=NOW,
    )

    found = buffer_list(made, "resource-slack")

    shapes = [shape for item in made.items for shape in item.shapes if shape.count]
    assert found["kind"] == "List"
    assert len(found["items"]) == 2 * len(shapes) > 0
    for shape, template, buffer in zip(shapes, found["items"][::2], found["items"][1::2], strict=True):
        assert buffer["spec"] == {"podTemplateRef": {"name": template["metadata"]["name"]}, "replicas": shape.count}
        assert (buffer["apiVersion"], buffer["kind"]) == ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer")
        spec = template["template"]["spec"]
        assert spec["priorityClassName"] == "resource-slack"
        assert "topologySpreadConstraints" not in spec
        assert spec["containers"][0]["resources"]["requests"]
