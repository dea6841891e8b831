"""Taints that come and go with a node's life: what runs there stays in the base, and no toleration is advised."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.classes import KNOWN_TAINTS, LIFECYCLE_TAINTS
from slack.cluster.columns import ClusterColumns
from slack.planner.plan import plan
from slack.process.slack_values import taint_keys
from tests.cases import run_for_each
from tests.cluster.build import NAMESPACE, NOW, apply, node
from tests.examples import examples
from tests.planner.scenes import as_existing, plan_of, policy_of, replicas, snapshot_of

TRANSIENT = st.sampled_from(
    [
        *sorted(LIFECYCLE_TAINTS),
        "node.cilium.io/agent-not-ready",
        "cni.istio.io/not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "node.gardener.cloud/critical-components-not-ready",
        "node.cluster.x-k8s.io/uninitialized",
        "startup-taint.cluster-autoscaler.kubernetes.io/x",
        "readiness.k8s.io/NetworkReady",
        "nidhogg.uswitch.com/kube-system.kube2iam",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/rebalance-recommendation",
        "remediator.aks.microsoft.com/unschedulable",
    ]
) | st.from_regex(r"node\.kubernetes\.io/[a-z]{1,12}", fullmatch=True)


@examples(200)
@given(
    TRANSIENT,
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


@examples(150)
@given(
    st.lists(TRANSIENT, min_size=1, max_size=3),
    st.sampled_from(["NoSchedule", "NoExecute"]),
    st.sampled_from(
        [
            {"extraCapacity": {"minRate": 0.5}},
            {"extraCapacity": {"minRate": 0, "floor": {"cpu": "3", "memory": "3Gi"}}},
            {"extraCapacity": {"minRate": 0, "nodes": 1}},
            {"extraCapacity": {"replicas": 2}},
            {"extraCapacity": {"minRate": 0.1, "base": "Allocatable"}},
            {
                "extraCapacity": {
                    "minRate": 0,
                    "ladder": [{"fromAllocatable": {"cpu": "10"}, "minRate": 0, "floor": {"cpu": "2"}}],
                }
            },
            {"extraCapacity": {"minRate": 0.5}, "perDomain": "Zone"},
        ]
    ),
)
def test_what_is_wanted_stays_while_every_node_has_a_transient_taint(
    keys: list[str], effect: str, spec: dict[str, Any]
) -> None:
    pods = replicas(4, "web", "1", "1Gi", node="n1")
    zones = [{"topology.kubernetes.io/zone": zone} for zone in ("a", "b")]
    before = plan_of(*(node(f"n{i + 1}", "8", "32Gi", labels=zones[i]) for i in range(2)), *pods, **spec)
    taints = [{"key": key, "effect": effect} for key in keys]
    nodes = [node(f"n{i + 1}", "8", "32Gi", labels=zones[i], taints=taints) for i in range(2)]
    for existing in ((), as_existing(before)):
        item = plan_of(*nodes, *pods, existing=existing, **spec)
        assert item.base.tolist() == before.base.tolist()
        assert item.desired.tolist() == before.desired.tolist()
        assert {(s.shape.name, s.count) for s in item.shapes} == {(s.shape.name, s.count) for s in before.shapes}
        assert before.shapes
        assert not any("tolerat" in condition.message for condition in item.conditions)


@examples(100)
@given(
    st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8}){1,2}", fullmatch=True),
    st.sampled_from(["", "db-", "team-a-", "agents-"]),
    st.sampled_from(["not-ready", "unregistered", "uninitialized", "not-ready-yet", "unschedulable", "ready"]),
)
def test_a_taint_of_an_owner_lasts_whatever_its_name_ends_with(domain: str, before: str, end: str) -> None:
    taint = {"key": f"{domain}.example/{before}{end}", "effect": "NoSchedule", "value": "yes"}
    tolerating = {"tolerations": [{"key": taint["key"], "operator": "Exists"}]}
    nodes = [node("n1", "8", "32Gi", taints=[taint]), node("n2", "8", "32Gi")]
    pods = [*replicas(4, "db", "1", "1Gi", node="n1", **tolerating), *replicas(2, "web", "1", "1Gi", node="n2")]
    assert snapshot_of(*nodes, *pods).nodes.ready.tolist() == [True, True]
    assert plan_of(*nodes, *pods).base[0] == 2000
    own = [{"key": taint["key"], "value": "yes"}]
    assert plan_of(*nodes, *pods, tolerations=own).base[0] == 6000


@run_for_each(
    ("entries", "key", "transient"),
    [
        ("", "team.example/db-not-ready", False),
        ("team.example/db-not-ready", "team.example/db-not-ready", True),
        ("team.example/*, other", "team.example/db-not-ready", True),
        ("team.example/d*", "team.example/other", False),
        ("other", "other", True),
        ("", "team.example/agent-not-ready", True),
        ("!team.example/agent-not-ready", "team.example/agent-not-ready", False),
        ("team.example/*,!team.example/pool", "team.example/pool", False),
    ],
)
def test_an_owner_says_which_further_taints_are_transient_and_which_last(
    entries: str, key: str, transient: bool
) -> None:
    nodes = [node("n1", "8", "32Gi", taints=[{"key": key, "effect": "NoSchedule"}]), node("n2", "8", "32Gi")]
    columns = ClusterColumns(NAMESPACE, taint_keys=taint_keys(entries) or KNOWN_TAINTS)
    apply(columns, "ADDED", *nodes, *replicas(4, "web", "1", "1Gi", node="n1"))
    snapshot = columns.snapshot(NOW)
    (item,) = plan(snapshot, [policy_of()], now=NOW).items
    assert item.base[0] == (4000 if transient else 0)
    assert snapshot.nodes.ready.tolist() == [not transient, True]


@run_for_each(
    "entries",
    ["a b", "!team.example/*", "!", "*", "team.example/", "-a", "!node.kubernetes.io/unreachable", "TEAM.example/x"],
)
def test_what_is_no_key_of_a_taint_is_refused(entries: str) -> None:
    with pytest.raises(ValueError, match=re.escape(entries.strip())):
        taint_keys(entries)
