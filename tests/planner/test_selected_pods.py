"""Plans and explanations follow what selectors match, not what their texts look like."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slack.cluster.selectors import matches
from slack.planner.explain import WorkloadExplanation, explain, target
from slack.planner.explain_text import lines
from slack.planner.model.shape import Role
from slack.planner.objects.manifests import PRIORITY
from slack.planner.plan import plan
from tests.cluster.build import NOW, Json, node, pod, workload
from tests.planner import scenes
from tests.planner.scenes import GI, replicas, sizes

HOST = "kubernetes.io/hostname"
NODES = [node(f"w{i}", "8", "32Gi", labels={HOST: f"w{i}"}) for i in range(3)]


def apart(*terms: Json) -> Json:
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **t} for t in terms]
        }
    }


def pods(
    name: str, on: list[str], labels: dict[str, str], ns: str = "db", revision: str = "1", **spec: Any
) -> list[Json]:
    owner = ("ReplicaSet", f"{name}-{revision}")
    own = {"pod-template-hash": revision, **labels}
    return [
        pod(f"{name}-{revision}-{i}", ns, "1", "2Gi", node=where, owner=owner, labels=own, **spec)
        for i, where in enumerate(on)
    ]


def explained(name: str, *objects: Json, ns: str = "db", **spec: Any) -> WorkloadExplanation:
    snapshot, policies = scenes.snapshot_of(*objects), [scenes.policy_of(**spec)]
    made = plan(snapshot, policies, now=NOW)
    return explain(snapshot, made, policies, target("deploy", name, ns), priorities={"": PRIORITY})


def no_node_left(found: WorkloadExplanation) -> bool:
    return any("each of its 3 nodes has one of its pods" in text for text in found.warnings)


WEB = replicas(9, "web", "1", "2Gi", node="w0")
HELM = {"app.kubernetes.io/name": "redis", "app.kubernetes.io/instance": "prod"}


def test_labels_of_charts_that_do_not_name_the_workload_are_matched() -> None:
    there = pods("prod-redis", ["w0", "w1", "w2"], HELM, affinity=apart({"labelSelector": {"matchLabels": HELM}}))
    assert no_node_left(explained("prod-redis", *NODES, *WEB, *there))
    two = there[:2]
    assert not no_node_left(explained("prod-redis", *NODES, *WEB, *two))


def test_a_selector_that_names_the_workload_but_matches_others_is_not_against_its_own_pods() -> None:
    term = {"labelSelector": {"matchLabels": {"not-near": "redis"}}}
    there = pods("redis", ["w0", "w1", "w2"], {"app": "redis"}, affinity=apart(term))
    assert not no_node_left(explained("redis", *NODES, *WEB, *there))


def test_pods_of_an_earlier_revision_count_unless_the_term_is_of_one_revision() -> None:
    term: Json = {"labelSelector": {"matchLabels": {"app": "redis"}}}

    def found(term: Json) -> WorkloadExplanation:
        affinity = apart(term)
        old = pods("redis", ["w0", "w1"], {"app": "redis"}, revision="1", affinity=affinity)
        new = pods("redis", ["w2"], {"app": "redis"}, revision="2", affinity=affinity)
        new[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
        return explained("redis", *NODES, *WEB, *old, *new)

    assert no_node_left(found(term))
    assert not no_node_left(found({**term, "matchLabelKeys": ["pod-template-hash"]}))


SELECTORS: st.SearchStrategy[Json | None] = st.one_of(
    st.none(),
    st.just({}),
    st.sampled_from(["a", "b"]).map(lambda value: {"matchLabels": {"app": value}}),
    st.tuples(st.sampled_from(["app", "tier"]), st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])).map(
        lambda own: {
            "matchExpressions": [
                {"key": own[0], "operator": own[1], **({"values": ["a"]} if own[1] in ("In", "NotIn") else {})}
            ]
        }
    ),
)
TERMS = st.fixed_dictionaries(
    {"labelSelector": SELECTORS},
    optional={
        "namespaceSelector": SELECTORS,
        "namespaces": st.lists(st.sampled_from(["db", "batch"]), max_size=2),
        "matchLabelKeys": st.sampled_from([[], ["pod-template-hash"], ["tier"]]),
        "mismatchLabelKeys": st.sampled_from([[], ["pod-template-hash"]]),
    },
)


@given(term=TERMS, labels=st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"])))
@settings(max_examples=60, deadline=None)
def test_no_node_is_left_exactly_if_the_pods_term_matches_its_own_pods(term: Json, labels: dict[str, str]) -> None:
    there = pods("redis", ["w0", "w1", "w2"], labels, affinity=apart(term))
    own = ("db", {**labels, "pod-template-hash": "1"})
    assert no_node_left(explained("redis", *NODES, *WEB, *there)) == matches(term, own, own, {})


@given(term=TERMS, labels=st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"])))
@settings(max_examples=60, deadline=None)
def test_a_mirror_avoids_the_pods_that_its_workload_avoids(term: Json, labels: dict[str, str]) -> None:
    """The term of the mirror, in another namespace and without labels, matches what the workload's own matches."""
    reserve = {"resource-slack.io/reserve": "1"}
    own = workload("Deployment", "redis", "db", annotations=reserve, labels=labels, affinity=apart(term))
    item = scenes.plan_of(*scenes.with_pods(*NODES, own), reserve=scenes.FREELY)
    (mirror,) = [shape.shape for shape in item.shapes if shape.role is Role.MIRROR]
    first = next(t for t in json.loads(mirror.anti_affinity) if "resource-slack.io/reserved-for" not in str(t))
    subject = ("db", {**labels, "pod-template-hash": "1"})
    for namespace in ("db", "batch", "else"):
        for other in ({}, {"app": "a"}, {"app": "b", "tier": "a"}, {"pod-template-hash": "1", "app": "a"}):
            pair = (namespace, other)
            assert matches(first, ("resource-slack", {}), pair, {}) == matches(term, subject, pair, {})


def test_empty_selectors_of_a_mirrored_workload_stay() -> None:
    """They match every namespace and every pod; without them the term would match nothing."""
    noisy: Json = {"labelSelector": {"matchLabels": {"noisy": "true"}}, "namespaceSelector": {}}
    batch: Json = {"labelSelector": {}, "namespaces": ["batch"]}
    reserve = {"resource-slack.io/reserve": "1"}
    api = workload("Deployment", "api", annotations=reserve, labels={"app": "api"}, affinity=apart(noisy, batch))
    item = scenes.plan_of(*scenes.with_pods(*NODES, api), reserve=scenes.FREELY)
    (mirror,) = [shape.shape for shape in item.shapes if shape.role is Role.MIRROR]
    terms = json.loads(mirror.anti_affinity)
    assert sorted(terms, key=str) == sorted(({"topologyKey": HOST, **noisy}, {"topologyKey": HOST, **batch}), key=str)


def test_a_mirror_is_as_large_as_a_vpa_has_made_the_pods_and_explain_says_so() -> None:
    reserve = {"resource-slack.io/reserve": "1"}
    api = workload("Deployment", "api", cpu="500m", memory="1Gi", annotations=reserve, replicas=4)
    there = replicas(4, "api-1", "2", "4Gi", node="w0", labels={"pod-template-hash": "1"})
    only: Json = {"extraCapacity": {"minRate": 0}, "cover": {"mode": "None"}}
    assert sizes(scenes.plan_of(*NODES, api, *there, **only)) == [(1, 2000, 4 * GI)]
    found = explained("api", *NODES, api, *there, ns="shop", **only)
    assert "sized by its newest live pods, such as shop/api-1-0" in "\n".join(lines(found))
    fresh = explained("api", *NODES, api, ns="shop", **only, reserve=scenes.FREELY)
    assert all("live pods" not in line for line in lines(fresh))


def _in(key: str, value: str) -> Json:
    return {"key": key, "operator": "In", "values": [value]}


@pytest.mark.parametrize(
    ("term", "labels", "expected"),
    [
        # Pods that carry a term about a label which they do not have avoid none of their own.
        ({"labelSelector": {"matchExpressions": [_in("custom", "x")]}}, {"app": "test"}, False),
        # As many replicas as nodes: the next revision's pod waits.
        ({"labelSelector": {"matchExpressions": [_in("app", "test")]}}, {"app": "test"}, True),
        # The term is about another version of the same application.
        (
            {"labelSelector": {"matchExpressions": [_in("app", "test"), _in("version", "2")]}},
            {"app": "test", "version": "1"},
            False,
        ),
        # An empty list of namespaces is the pod's own namespace.
        ({"labelSelector": {"matchLabels": {"app": "test"}}, "namespaces": []}, {"app": "test"}, True),
    ],
)
def test_terms_that_users_were_surprised_by(term: Json, labels: dict[str, str], expected: bool) -> None:
    there = pods("test", ["w0", "w1", "w2"], labels, affinity=apart(term))
    assert no_node_left(explained("test", *NODES, *WEB, *there)) == expected


def test_a_spread_with_an_empty_selector_counts_no_pods_and_is_not_mirrored() -> None:
    reserve = {"resource-slack.io/reserve": "1"}
    spread = [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    api = workload("Deployment", "api", annotations=reserve, labels={"app": "api"}, topologySpreadConstraints=spread)
    item = scenes.plan_of(*scenes.with_pods(*NODES, api), reserve=scenes.FREELY)
    assert [own.shape.topology_spread for own in item.shapes if own.role is Role.MIRROR] == [""]
