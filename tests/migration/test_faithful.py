"""A policy that `migrate` prints keeps what its peer keeps, on clusters of every size."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slack.cluster.quantity import amount, format_quantity
from slack.migration.findings import CannotMigrate, KeepsNothing
from slack.migration.policies import group_by_nodes, policies_of, rooms_in, warnings_of
from slack.migration.proportional_autoscaler import MOST_STEPS
from slack.planner.policy.crd import crd
from slack.planner.policy.spec import parse_policy
from tests.cases import run_for_each
from tests.cli.migrate.test_migrate import buffer, pause, pod_template, proportional
from tests.cluster.build import node
from tests.planner.scenes import plan_of

Json = dict[str, Any]
NODE_CPU = 8
"""As a person says it; a node has a little less for pods."""
MILLIS = st.integers(7600, 8000)
COVERLESS = {"mode": "None"}


def spec_of(*manifests: Json) -> tuple[Json, list[str]]:
    groups = group_by_nodes(rooms_in(manifests, NODE_CPU * 1000))
    (document,) = policies_of(groups)
    parse_policy(document, source="migrated")
    spec: Json = document["spec"]
    return spec, warnings_of(groups)


def kept(spec: Json, nodes: int, millis: int = NODE_CPU * 1000) -> tuple[int, int]:
    """Return cpu and memory that the policy wants on empty nodes of about 8 cpu and 32Gi."""
    cluster = [node(f"n{i}", f"{millis}m", "32Gi") for i in range(nodes)]
    desired = plan_of(*cluster, **{**spec, "cover": COVERLESS}).desired
    return int(desired[0]), int(desired[1])


ENTRIES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40)), min_size=1, max_size=6, unique_by=lambda e: e[0])
SIZES = st.tuples(st.integers(1, 8), st.integers(0, 8)).map(lambda each: (each[0] * 100, each[1] << 28))


def by_entries(entries: list[tuple[int, int]], size: int) -> int:
    """Return replicas as the proportional autoscaler's ladder does: the last entry reached, else the first."""
    ordered = sorted(entries)
    return next((count for at, count in reversed(ordered) if at <= size), ordered[0][1])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ENTRIES | st.none(), ENTRIES | st.none(), SIZES, st.integers(0, 20), st.integers(1, 9), MILLIS)
def test_ladders(
    cores: list[tuple[int, int]] | None,
    nodes: list[tuple[int, int]] | None,
    size: tuple[int, int],
    fixed: int,
    cluster: int,
    millis: int,
) -> None:
    """By cores, by nodes and by both, alone and beside a Deployment of a fixed size for the same nodes."""
    given = {"coresToReplicas": cores, "nodesToReplicas": nodes}
    ladder = {key: [list(entry) for entry in entries] for key, entries in given.items() if entries}
    if not ladder:
        return
    requests = {"cpu": f"{size[0]}m", **({"memory": str(size[1])} if size[1] else {})}
    beside = [pause("fixed", fixed, requests)] if fixed else []
    spec, said = spec_of(pause("op", None, requests), *proportional("op", ladder=ladder), *beside)
    counts = [by_entries(cores, math.ceil(cluster * millis / 1000))] if cores else []
    counts += [by_entries(nodes, cluster)] if nodes else []
    replicas = max(counts) + fixed
    for found, one in zip(kept(spec, cluster, millis), size, strict=True):
        assert abs(found - replicas * one) <= one
    assert size[1] or any("request no memory" in text for text in said)
    most = max([count for _, count in [*(cores or []), *(nodes or [])]])
    ceiling = spec["extraCapacity"].get("ceiling", {})
    assert amount("cpu", ceiling.get("cpu", "0")) >= replicas * size[0]
    assert amount("cpu", ceiling.get("cpu", "0")) <= (most + fixed) * size[0]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(1, 0, 0, 0, True, (100, 1 << 28), 2, 8000)
@given(
    st.integers(1, 40),
    st.integers(0, 6),
    st.integers(0, 3),
    st.integers(0, 60),
    st.booleans(),
    SIZES,
    st.integers(1, 9),
    MILLIS,
)
def test_lines(
    cores: int, nodes: int, least: int, more: int, no_single: bool, size: tuple[int, int], cluster: int, millis: int
) -> None:
    """`replicas = max(cores / coresPerReplica, nodes / nodesPerReplica)`, from min to max."""
    most = max(least, 1) + more
    line: Json = {"coresPerReplica": cores, "max": most, "preventSinglePointFailure": no_single}
    line |= {"min": least} if least else {}
    line |= {"nodesPerReplica": nodes} if nodes else {}
    requests = {"cpu": f"{size[0]}m", **({"memory": str(size[1])} if size[1] else {})}
    spec, said = spec_of(pause("op", 1, requests), *proportional("op", linear=line))
    wanted = [math.ceil(math.ceil(cluster * millis / 1000) / cores), *([math.ceil(cluster / nodes)] if nodes else [])]
    replicas = max(min(max(wanted), most), least or 1)
    if no_single and cluster > 1:
        replicas = max(replicas, 2)
    cpu, memory = kept(spec, cluster, millis)
    named = no_single and least < 2 and any("preventSinglePointFailure" in text for text in said)
    assert abs(cpu - replicas * size[0]) <= size[0] or named
    assert abs(memory - replicas * size[1]) <= size[1] or named
    assert amount("cpu", spec["extraCapacity"]["ceiling"]["cpu"]) == max(most, 2 if no_single else 1) * size[0]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 40),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(30, 9000),
    st.integers(1, 3),
    SIZES,
    st.integers(1, 8) | st.integers(9, 3000),
)
def test_lines_of_many_replicas_and_without_a_maximum(
    cores: int, nodes: int | None, most: int | None, least: int, size: tuple[int, int], cluster: int
) -> None:
    """The same amount, or a third more as is told, or less beyond the last step as is told, on up to 24,000 cores."""
    line: Json = {"coresPerReplica": cores, "min": least}
    line |= {"max": most} if most else {}
    line |= {"nodesPerReplica": nodes} if nodes else {}
    requests = {"cpu": f"{size[0]}m", "memory": str(max(size[1], 1 << 20))}
    manifests = [pause("op", 1, requests), *proportional("op", linear=line)]
    rooms = rooms_in(manifests, NODE_CPU * 1000)
    spec, said = spec_of(*manifests)
    millis = cluster * NODE_CPU * 1000
    ladder = spec["extraCapacity"]["ladder"]
    floor = [step["floor"] for step in ladder if amount("cpu", step["fromAllocatable"]["cpu"]) <= millis][-1]
    found = amount("cpu", floor["cpu"]) // size[0]
    assert amount("memory", floor["memory"]) == found * max(size[1], 1 << 20)
    wanted = max([math.ceil(cluster * NODE_CPU / cores), *([math.ceil(cluster / nodes)] if nodes else [])])
    wanted = max(wanted if most is None else min(wanted, most), least)
    text = " ".join(said)
    if most and most - least < MOST_STEPS:
        assert "a third" not in text
        assert found == wanted
    elif wanted <= least + 81:
        assert 0 <= found - wanted <= (wanted >= least + 16)
    else:
        assert f"up to {least + 81} replicas" in text
        last = rooms[0].ladder[-1][1]["cpu"] // size[0]
        assert last > 5000 or last == most
        assert wanted <= found <= math.ceil(wanted * 4 / 3) or (found == last < wanted and f"{last} replicas" in text)
    assert len(ladder) <= MOST_STEPS
    assert amount("cpu", spec["extraCapacity"].get("ceiling", {}).get("cpu", "0")) == (most or 0) * size[0]


def test_a_line_without_a_maximum_keeps_what_theirs_keeps_and_tells_how_the_difference_grows() -> None:
    manifests = [
        pause("op", 1, {"cpu": "200m", "memory": "128Mi"}),
        *proportional("op", linear={"coresPerReplica": 1}),
    ]
    spec, said = spec_of(*manifests)
    assert kept(spec, 5) == (40 * 200, 40 * 128 << 20)
    assert "ceiling" not in spec["extraCapacity"]
    (longer, last) = said
    assert (
        "up to 82 replicas (16.4 cpu, 10.2Gi memory) the policy keeps what it does, or one placeholder more" in longer
    )
    assert "From 82001m cpu of nodes on" in longer
    assert "up to a third more of each resource: 22 cpu, 13.8Gi memory for 83 to 110 replicas" in longer
    assert "theirs has no maximum and keeps 200m cpu, 128Mi memory more for each further replica" in last


def test_two_lines_for_the_same_nodes_have_no_more_steps_than_a_policy_takes() -> None:
    """Of steps that are put together the larger is kept: never less than theirs."""
    two = list[Json]()
    for space, cores in (("a", 2), ("b", 3)):
        scaler = proportional("op", linear={"coresPerReplica": cores, "max": 60})
        for each in scaler:
            each["metadata"]["namespace"] = space
        two += [pause("op", 1, {"cpu": "100m", "memory": "64Mi"}, namespace=space), *scaler]
    spec, said = spec_of(*two)
    assert len(spec["extraCapacity"]["ladder"]) <= MOST_STEPS
    assert any("a policy has 64 steps at most" in text for text in said)
    for nodes in range(1, 30):
        theirs = sum(max(1, min(60, math.ceil(nodes * NODE_CPU / cores))) for cores in (2, 3)) * 100
        assert theirs <= kept(spec, nodes)[0] <= theirs + 300


def test_a_policy_takes_as_many_steps_as_are_printed() -> None:
    version = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert version["extraCapacity"]["properties"]["ladder"]["maxItems"] == MOST_STEPS


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), SIZES), min_size=1, max_size=5), st.integers(1, 14))
def test_fixed_sizes_and_some_at_zero(deployments: list[tuple[int, tuple[int, int]]], cluster: int) -> None:
    manifests = [
        pause(f"d{i}", count, {"cpu": f"{size[0]}m", "memory": str(size[1])})
        for i, (count, size) in enumerate(deployments)
    ]
    if not any(count for count, _ in deployments):
        with pytest.raises(CannotMigrate, match="no replicas"):
            rooms_in(manifests, None)
        return
    spec, said = spec_of(*manifests)
    assert kept(spec, cluster) == tuple(sum(count * size[r] for count, size in deployments) for r in (0, 1))
    assert sum("no replicas" in text for text in said) == sum(not count for count, _ in deployments)


@settings(deadline=None)
@given(st.integers(0, 20) | st.none(), st.none() | st.integers(0, 9000), SIZES, st.integers(1, 8))
def test_buffers_of_a_template(replicas: int | None, limit: int | None, size: tuple[int, int], cluster: int) -> None:
    if replicas is None and limit is None:
        return
    given: Json = {} if replicas is None else {"replicas": replicas}
    given |= {} if limit is None else {"limits": {"cpu": format_quantity("cpu", limit)}}
    template = pod_template({"cpu": f"{size[0]}m", "memory": str(size[1])})
    count = min(each for each in (replicas, None if limit is None else limit // size[0]) if each is not None)
    manifests = [buffer(podTemplateRef={"name": "box"}, **given), template]
    if not count:
        with pytest.raises(KeepsNothing, match="no pods"):
            rooms_in(manifests, None)
        return
    spec, _ = spec_of(*manifests)
    assert kept(spec, cluster) == (count * size[0], count * size[1])


@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 10))
def test_bounds_of_a_percentage_never_cut_it_while_the_workload_grows(percent: int, pods: int, grown: int) -> None:
    api = pause("api", pods, {"cpu": "500m", "memory": "1Gi"}, namespace="shop")
    api["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/api:1"
    api["spec"]["template"]["spec"]["priorityClassName"] = ""
    spec, _ = spec_of(buffer(scalableRef={"kind": "Deployment", "name": "api"}, percentage=percent), api)
    wanted = math.ceil(percent * pods * grown / 100)
    assert amount("cpu", spec["reserve"]["ceiling"]["cpu"]) >= wanted * 500
    assert int(spec["reserve"]["ceiling"]["pods"]) >= wanted
    assert math.ceil(spec["reserve"].get("maxShare", 1) * pods * grown) >= wanted


def test_limits_alone_of_a_workload_are_as_many_pods_as_they_hold() -> None:
    api = pause("api", 8, {"cpu": "500m", "memory": "1Gi"}, namespace="shop", priorityClassName="")
    api["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/api:1"
    ref = {"kind": "Deployment", "name": "api"}
    (found,) = rooms_in([buffer(scalableRef=ref, limits={"cpu": "1700m"}), api], None)
    assert 'resource-slack.io/reserve="3"' in " ".join(found.notes)


@pytest.mark.parametrize(("pods", "reserve"), [(100, "50"), (245, "50"), (246, "20%"), (251, "20%")])
def test_of_replicas_and_percentage_the_larger_is_printed(pods: int, reserve: str) -> None:
    """20 % of 100 pods are 20, so a buffer that asks for 50 too has 50."""
    api = pause("api", pods, {"cpu": "500m", "memory": "1Gi"}, namespace="shop", priorityClassName="")
    api["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/api:1"
    ref = {"kind": "Deployment", "name": "api"}
    (found,) = rooms_in([buffer(scalableRef=ref, percentage=20, replicas=50), api], None)
    assert f'resource-slack.io/reserve="{reserve}"' in " ".join(found.notes)
    assert any("keeps the larger of 20 % and 50" in text for text in found.warnings)


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 0), (2, 0), (3, 3), (4, 3)])
def test_a_ladder_may_begin_at_no_replicas(nodes: int, replicas: int) -> None:
    ladder = {"nodesToReplicas": [[1, 0], [3, 3]]}
    spec, _ = spec_of(pause("op", None, {"cpu": "1", "memory": "1Gi"}), *proportional("op", ladder=ladder))
    assert kept(spec, nodes) == (replicas * 1000, replicas << 30)


def test_an_image_without_a_tag_and_a_namespace_of_the_system_are_read() -> None:
    op = pause("op", 1, {"cpu": "200m", "memory": "256Mi"}, namespace="kube-system")
    op["spec"]["template"]["spec"]["containers"][0]["image"] = "k8s.gcr.io/pause"
    auto, sizes = proportional("op", linear={"coresPerReplica": 16})
    auto["metadata"]["namespace"] = sizes["metadata"]["namespace"] = "kube-system"
    spec, said = spec_of(op, auto, sizes)
    assert kept(spec, 5) == (3 * 200, 3 * 256 << 20)
    assert any("theirs has no maximum" in text for text in said)


@run_for_each(
    ("kind", "target", "found"),
    [
        ("Deployment", "Deployment/op", True),
        ("Deployment", "deployments/other, deployment/op", True),
        ("ReplicaSet", "replicaset/op", True),
        ("ReplicationController", "replicationcontroller/op", True),
        ("StatefulSet", "deployment/op", False),
    ],
)
def test_an_autoscaler_sets_what_its_target_names_by_kind_and_name(kind: str, target: str, found: bool) -> None:
    manifests = json.loads(json.dumps(proportional("op", linear={"coresPerReplica": 8, "max": 9})))
    flags = manifests[0]["spec"]["template"]["spec"]["containers"][0]["command"]
    flags[1] = f"--target={target}"
    (kept,) = rooms_in([{**pause("op", 1), "kind": kind}, *manifests], None)
    assert bool(kept.ladder) is found


def test_pause_pods_that_a_proportional_autoscaler_scales_keep_capacity_whatever_their_priority() -> None:
    plain = pause("op", None, priorityClassName="")
    assert rooms_in([plain], None) == []
    (kept,) = rooms_in([plain, *proportional("op", ladder={"coresToReplicas": [[1, 2]]})], None)
    assert kept.ladder


@run_for_each(
    ("image", "command"),
    [
        (
            "mirror.example/cpa:1",
            ["sh", "-c", "exec /cluster-proportional-autoscaler --target=deployment/op --configmap=c"],
        ),
        ("mirror.example/cpa:1", ["/cpa", "--target", "deployment/op", "--configmap", "c"]),
    ],
)
def test_an_autoscaler_is_known_by_what_it_runs_too(image: str, command: list[str]) -> None:
    (auto, sizes) = proportional("op", linear={"coresPerReplica": 8, "max": 9})
    auto["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": image, "command": command}]
    sizes["metadata"]["name"] = "c"
    (kept,) = rooms_in([pause("op", 1), auto, sizes], None)
    assert len(kept.ladder) == 9


@run_for_each(
    ("selector", "labels", "said"),
    [
        ({}, "", ""),
        ({"pool": "a", "tier": "b"}, "tier=b, pool=a", ""),
        ({"pool": "a"}, "", "all nodes of the cluster; the policy counts those of its spec.nodeSelector (pool=a)"),
        ({"pool": "a"}, "pool=b", "counts the nodes with pool=b alone"),
        ({}, "pool=b", "counts the nodes with pool=b alone"),
    ],
)  # fmt: skip
def test_an_autoscaler_that_counts_other_nodes_than_the_policy_is_told(selector: Json, labels: str, said: str) -> None:
    (auto, sizes) = proportional("op", ladder={"coresToReplicas": [[1, 1], [64, 3]]})
    if labels:
        auto["spec"]["template"]["spec"]["containers"][0]["command"].append(f"--nodelabels={labels}")
    (kept,) = rooms_in([pause("op", 1, nodeSelector=selector), auto, sizes], None)
    found = [text for text in kept.warnings if "counts" in text]
    assert len(found) == bool(said)
    assert said in "".join(found)


@run_for_each(
    ("data", "said"),
    [
        ({"linear": {"coresPerReplica": 1}, "ladder": {"coresToReplicas": [[1, 9]]}}, "these have ladder, linear"),
        ({"line": {"coresPerReplica": 1}}, "these have line"),
    ],
)
def test_settings_that_an_autoscaler_does_not_take_change_nothing(data: Json, said: str) -> None:
    (kept,) = rooms_in([pause("op", 3), *proportional("op", **data)], None)
    assert (kept.room["cpu"], kept.ladder) == (3000, ())
    assert any(said in text and "the replicas that op has now are kept" in text for text in kept.warnings)


@run_for_each(
    ("field", "value"),
    [
        ("replicas", "three"),
        ("replicas", -1),
        ("replicas", 1.5),
        ("ladder", {"coresToReplicas": [[1, -3]]}),
        ("ladder", {"coresToReplicas": [[-1, 3]]}),
        ("ladder", {"nodesToReplicas": [[float("nan"), 3]]}),
        ("linear", {"coresPerReplica": 1, "min": 5, "max": 3}),
        ("linear", {"min": 2, "max": 3}),
        ("percentage", "35%"),
        ("percentage", -5),
    ],
)
def test_sizes_that_are_none_are_refused(field: str, value: object) -> None:
    manifests = [pause("op", 1)]
    if field == "percentage":
        ref = {"kind": "Deployment", "name": "op"}
        manifests = [pause("op", 1, namespace="shop"), buffer(scalableRef=ref, percentage=value)]
    elif field == "replicas":
        manifests[0]["spec"]["replicas"] = value
    else:
        manifests += proportional("op", **{field: value})
    with pytest.raises(CannotMigrate, match=r"expected|less than|no coresPerReplica"):
        rooms_in(manifests, 8000)


@run_for_each(
    "size", [{"podTemplateRef": {"name": "box"}, "replicas": 0}, {"scalableRef": {"name": "a"}, "percentage": 0}]
)
def test_a_buffer_of_no_pods_keeps_nothing(size: Json) -> None:
    with pytest.raises(KeepsNothing, match="no pods"):
        rooms_in([buffer(**size), pod_template({"cpu": "1"})], None)


def test_who_scales_a_workload_at_zero_is_told_with_it() -> None:
    ref = {"name": "op"}
    scaler = {"kind": "ScaledObject", "metadata": {"name": "s", "namespace": "op"}, "spec": {"scaleTargetRef": ref}}
    with pytest.raises(
        KeepsNothing, match=r"it has no replicas.*ScaledObject op/s sets the replicas of op from 0 to 100"
    ):
        rooms_in([pause("op", 0), scaler], None)


def test_placeholders_of_the_operator_itself_are_none_to_migrate() -> None:
    own = {**pause("slack-default-1"), "kind": "ReplicaSet"}
    own["metadata"]["labels"] = {"resource-slack.io/placeholder": "true"}
    assert rooms_in([own], None) == []


def test_differences_of_a_pods_own_placement_are_told() -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["y"]}]}]
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    one = pause("a", nodeSelector={"pool": "x"}, affinity=wanted, nodeName="n1", schedulerName="volcano")
    said = " ".join(warnings_of(group_by_nodes(rooms_in([one, pause("b", nodeSelector={"pool": "y"})], None))))
    assert "want different values of pool" in said
    assert "bound to the node n1" in said
    assert "of several schedulers (default-scheduler, volcano); all placeholders of the policy are of volcano" in said


def test_several_targets_have_the_same_size() -> None:
    auto = proportional("a,deployment/b", ladder={"coresToReplicas": [[0, 2], [16, 4]]})
    spec, _ = spec_of(pause("a", None, {"cpu": "1", "memory": "1Gi"}), pause("b", None, {"cpu": "500m"}), *auto)
    assert kept(spec, 1) == (3000, 2 << 30)
    assert kept(spec, 2) == (6000, 4 << 30)


def test_an_autoscaler_sets_what_is_in_its_namespace() -> None:
    auto = proportional("op", ladder={"coresToReplicas": [[0, 9]]})
    elsewhere = pause("op", 2, namespace="other", nodeSelector={"pool": "b"})
    mine, other = group_by_nodes(rooms_in([pause("op", 1), elsewhere, *auto], None))
    assert [bool(group[0].ladder) for group in (mine, other)] == [True, False]


def test_equal_names_in_two_namespaces_become_policies_of_two_names() -> None:
    manifests = [
        pause("op", 1, namespace=space, nodeSelector={"pool": pool}) for space, pool in (("a", "x"), ("b", "y"))
    ]
    more = pause("op", 1, namespace="b", nodeSelector={"pool": "z"})
    names = [policy["metadata"]["name"] for policy in policies_of(group_by_nodes(rooms_in([*manifests, more], None)))]
    assert names == ["op", "b-op", "op-2"]


def test_a_replica_set_of_a_listed_deployment_counts_once() -> None:
    owned = {**pause("op-7c9", 3), "kind": "ReplicaSet"}
    owned["metadata"] = {**owned["metadata"], "ownerReferences": [{"kind": "Deployment", "name": "op"}]}
    assert [found.name for found in rooms_in([pause("op", 3), owned], None)] == ["op"]
    assert [found.name for found in rooms_in([owned], None)] == ["op-7c9"]


def test_memory_alone_is_kept_and_what_comes_beside_it_is_named() -> None:
    like = buffer(podTemplateRef={"name": "box"}, replicas=3)
    for manifests in ([pause("op", 3, {"memory": "2Gi"})], [like, pod_template({"memory": "2Gi"})]):
        spec, said = spec_of(*manifests)
        assert kept(spec, 4)[1] == 6 << 30
        assert any("request no cpu" in text for text in said)
