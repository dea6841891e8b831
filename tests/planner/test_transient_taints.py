"""Taints that come and go with a node's life: what runs there stays in the base, and no toleration is advised."""

from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.classes import LIFECYCLE_TAINTS
from tests.cluster.build import node
from tests.examples import examples
from tests.planner.scenes import plan_of, replicas, snapshot_of


@examples(200)
@given(
    st.sampled_from(
        [
            *LIFECYCLE_TAINTS,
            "node.cilium.io/agent-not-ready",
            "cni.istio.io/not-ready",
            "ebs.csi.aws.com/agent-not-ready",
            "startup-taint.cluster-autoscaler.kubernetes.io/x",
            "readiness.k8s.io/NetworkReady",
            "nidhogg.uswitch.com/kube-system.kube2iam",
            "aws-node-termination-handler/spot-itn",
            "aws-node-termination-handler/rebalance-recommendation",
            "remediator.aks.microsoft.com/unschedulable",
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


@examples(50)
@given(
    st.sampled_from(
        [
            "karpenter.sh/disruption",
            "karpenter.sh/disrupted",
            "cloud.google.com/impending-node-termination",
            "aws-node-termination-handler/spot-itn",
            "remediator.aks.microsoft.com/unschedulable",
            "ToBeDeletedByClusterAutoscaler",
        ]
    ),
    st.sampled_from(["NoSchedule", "NoExecute"]),
)
def test_a_node_that_is_taken_away_takes_no_placeholder_and_stays_ready(key: str, effect: str) -> None:
    nodes = [node("n1", "8", "32Gi", taints=[{"key": key, "effect": effect}]), node("n2", "8", "32Gi")]
    found = snapshot_of(*nodes).nodes
    assert found.ready.tolist() == [True, True]
    assert found.schedulable.tolist() == [False, True]
