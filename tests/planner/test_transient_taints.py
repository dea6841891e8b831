"""Taints that come and go with a node's life: what runs there stays in the base, and no toleration is advised."""

from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.classes import LIFECYCLE_TAINTS
from tests.cluster.build import node
from tests.examples import examples
from tests.planner.scenes import plan_of, replicas


@examples(200)
@given(
    st.sampled_from(
        [
            *LIFECYCLE_TAINTS,
            "node.cilium.io/agent-not-ready",
            "cni.istio.io/not-ready",
            "ebs.csi.aws.com/agent-not-ready",
            "startup-taint.cluster-autoscaler.kubernetes.io/x",
        ]
    )
    | st.from_regex(r"node\.kubernetes\.io/[a-z]{1,12}", fullmatch=True),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    st.text("abc", max_size=3),
)
def test_pods_on_a_node_with_a_transient_taint_stay_in_the_base_and_nobody_is_told_to_tolerate_it(
    key: str, effect: str, value: str
) -> None:
    own = {"key": key, "effect": effect, "value": value}
    nodes = [node("n1", "8", "32Gi", taints=[own]), node("n2", "8", "32Gi")]
    item = plan_of(*nodes, *replicas(4, "web", "1", "1Gi", node="n1"))
    assert item.base[0] == 4000
    assert not any("tolerat" in condition.message for condition in item.conditions)
