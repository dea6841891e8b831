"""What keeps room, read from values alone; `migrate` itself is tested in tests/cli/migrate."""

from typing import Any

import pytest

from slack.migration.findings import CannotMigrate, KeepsNothing
from slack.migration.policies import comments, group_by_nodes, policy_of, rooms_in, warnings_of
from tests.cli.migrate.test_migrate import buffer, pause, pod_template, priority, proportional
from tests.cluster.build import Json


def test_a_release_and_a_buffer_for_the_same_nodes_become_one_policy() -> None:
    box = pod_template({"cpu": "500m"}, nodeSelector={"pool": "web"})
    manifests = [
        pause("slack", 2, {"cpu": "1"}, nodeSelector={"pool": "web"}),
        buffer(podTemplateRef={"name": "box"}, replicas=3),
        box,
    ]
    (group,) = group_by_nodes(rooms_in(manifests, None))
    assert [kept.name for kept in group] == ["slack", "web"]
    assert policy_of(group)["spec"] == {
        "nodeSelector": {"pool": "web"},
        "extraCapacity": {"minRate": 0, "floor": {"cpu": "3500m"}},
    }
    (warning,) = [text for text in warnings_of([group]) if "the same nodes" in text]
    assert warning.startswith("Deployment op/slack (2 x 1 cpu), CapacityBuffer shop/web: go to the same nodes")
    assert "# - 3 pods of PodTemplate box -> spec.extraCapacity.floor" in comments(group)


def test_only_what_is_chosen_is_read_and_that_however_it_looks() -> None:
    real = pause("web", 2, image="x", priorityClassName="none")
    real["spec"]["template"]["spec"]["containers"][0]["image"] = "shop/web:1"
    assert rooms_in([real], None) == []
    assert [kept.name for kept in rooms_in([real, pause("slack")], None, chosen=real)] == ["web"]


def test_a_size_that_cannot_be_told_is_refused_by_the_objects_name() -> None:
    with pytest.raises(CannotMigrate, match=r"^CapacityBuffer shop/web: expected either spec\.podTemplateRef or"):
        rooms_in([buffer()], None)
    with pytest.raises(CannotMigrate, match=r"^ConfigMap sizes: expected an object such as"):
        rooms_in([pause("slack"), *proportional("slack", ladder=[1])], None)


def test_a_priority_class_is_found_by_its_name() -> None:
    (kept,) = rooms_in([pause("slack"), priority(-20)], None)
    assert any("is below the Cluster Autoscaler's cut-off of -10" in text for text in kept.warnings)


def one_per_node(count: int | None, requests: Json, labels: Json | None = None, **term: Any) -> Json:
    """Return a Deployment of pause pods that avoid one another on a node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "spare"}}} | term
    avoid = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pause("spare", count, requests, affinity=avoid)
    made["spec"]["template"]["metadata"] = {"labels": {"app": "spare"} if labels is None else labels}
    return made


@pytest.mark.parametrize("count", [1, 3, None])
def test_one_pod_on_each_node_that_takes_most_of_it_becomes_whole_nodes(count: int | None) -> None:
    (group,) = group_by_nodes(rooms_in([one_per_node(count, {"cpu": "3500m", "memory": "12Gi"})], 4000))
    spec = policy_of(group)["spec"]
    assert spec == {"extraCapacity": {"nodes": count or 1}, "cover": {"mode": "None"}}
    assert any(
        f"{count or 1} pods, each on a node of its own -> spec.extraCapacity.nodes" in c for c in comments(group)
    )
    assert not any("floor" in line for line in comments(group))
    assert any("all that they have but their DaemonSets" in text for text in warnings_of([group]))


@pytest.mark.parametrize(
    ("manifest", "node_cpu_millis"),
    [
        (one_per_node(3, {"cpu": "3500m"}), None),
        (one_per_node(3, {"cpu": "1"}), 4000),
    ],
    ids=["of nodes of unknown size", "two fit a node"],
)
def test_pods_that_may_be_a_part_of_a_node_stay_a_floor_and_a_person_is_told(
    manifest: Json, node_cpu_millis: int | None
) -> None:
    (group,) = group_by_nodes(rooms_in([manifest], node_cpu_millis))
    assert "floor" in policy_of(group)["spec"]["extraCapacity"]
    assert any("write extraCapacity.nodes: 3 in place of it" in text for text in warnings_of([group]))


@pytest.mark.parametrize(
    "manifest",
    [
        one_per_node(3, {"cpu": "3500m"}, labels={"app": "other"}),
        one_per_node(3, {"cpu": "3500m"}, topologyKey="topology.kubernetes.io/zone"),
        one_per_node(3, {"cpu": "3500m"}, labelSelector=None),
        pause("spare", 3, {"cpu": "3500m"}),
    ],
    ids=["avoids others", "one per zone", "a null selector", "avoids nobody"],
)
def test_pods_that_may_share_a_node_are_no_nodes(manifest: Json) -> None:
    (group,) = group_by_nodes(rooms_in([manifest], 4000))
    assert policy_of(group)["spec"]["extraCapacity"]["floor"] == {"cpu": "10500m"}
    assert not any("extraCapacity.nodes" in text for text in warnings_of([group]))


def test_beside_another_object_for_the_same_nodes_whole_nodes_are_an_amount() -> None:
    (group,) = group_by_nodes(rooms_in([one_per_node(2, {"cpu": "3"}), pause("slack", 2, {"cpu": "1"})], 4000))
    assert policy_of(group)["spec"]["extraCapacity"] == {"minRate": 0, "floor": {"cpu": "8"}}


def _of_kind(kind: str, name: str, **template: Any) -> Json:
    manifest = pause(name, **template)
    spec: Json = {"template": manifest["spec"]["template"]}
    return {**manifest, "kind": kind, "spec": {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec}


@pytest.mark.parametrize("kind", ["Job", "DaemonSet", "CronJob"])
def test_work_of_a_low_priority_is_no_placeholder_whatever_its_kind(kind: str) -> None:
    work = _of_kind(kind, "report")
    pod_spec = (work["spec"].get("jobTemplate") or work)["spec"]
    pod_spec = (pod_spec.get("spec") or pod_spec)["template"]["spec"]
    pod_spec["containers"][0] |= {"image": "shop/report:1", "command": ["/run"]}
    assert rooms_in([work, priority(-20)], None) == []
    pod_spec["containers"][0]["command"] = ["/bin/sh", "-c", "sleep infinity"]
    if kind == "Job":
        assert [kept.name for kept in rooms_in([work, priority(-20)], None)] == ["report"]
    else:
        with pytest.raises(KeepsNothing, match=f"^{kind} op/report: its? "):
            rooms_in([work, priority(-20)], None)


def test_a_daemon_set_that_pulls_images_keeps_no_room() -> None:
    puller = _of_kind("DaemonSet", "puller", priorityClassName="none")
    assert rooms_in([puller], None) == []


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("HorizontalPodAutoscaler", {"maxReplicas": 9}, "from 1 to 9"),
        ("HorizontalPodAutoscaler", {"minReplicas": 0, "maxReplicas": 9}, "from 0 to 9"),
        ("ScaledObject", {}, "from 0 to 100"),
        ("ScaledObject", {"minReplicaCount": 2, "maxReplicaCount": 5, "triggers": None}, "from 2 to 5"),
    ],
)
def test_an_autoscaler_of_this_workload_alone_is_told(kind: str, spec: Json, said: str) -> None:
    def told(namespace: str = "op", **ref: str) -> str:
        scaler = {
            "kind": kind,
            "metadata": {"name": "s", "namespace": namespace},
            "spec": {**spec, "scaleTargetRef": ref},
        }
        (kept,) = rooms_in([pause("slack"), scaler], None)
        return " ".join(kept.warnings)

    assert f"{kind} op/s sets the replicas of slack {said}" in told(name="slack")
    assert said in told(name="slack", kind="Deployment")
    assert said not in told(name="slack", kind="StatefulSet") + told(name="web") + told("shop", name="slack")


@pytest.mark.parametrize(
    ("mode", "data"), [("ladder", {"coresToReplicas": [[1, 1]]}), ("linear", {"coresPerReplica": 4, "max": 3})]
)
def test_cordoned_nodes_that_count_are_told(mode: str, data: Json) -> None:
    for included in (False, True):
        autoscaler = proportional("slack", **{mode: {**data, "includeUnschedulableNodes": included}})
        (kept,) = rooms_in([pause("slack"), *autoscaler], None)
        assert any("cordoned nodes count there" in text for text in kept.warnings) is included


def test_a_ladder_by_cores_counts_them_rounded_up_as_theirs_does() -> None:
    """16 nodes of 3970m have 63.52 cores: 64."""
    (kept,) = rooms_in([pause("slack"), *proportional("slack", ladder={"coresToReplicas": [[1, 1], [64, 3]]})], None)
    assert [at for at, _ in kept.ladder] == [0, 63_001]


@pytest.mark.parametrize(
    ("own", "flag", "found"),
    [
        (None, "slack", True),
        ("slack", "slack", True),
        ("slack", None, True),
        (None, None, True),
        ("op", "slack", False),
    ],
)
def test_an_object_without_a_namespace_is_of_the_one_that_the_autoscaler_names(
    own: str | None, flag: str | None, found: bool
) -> None:
    op = pause("op", None)
    autoscaler, sizes = proportional("op", ladder={"coresToReplicas": [[1, 1], [9, 4]]})
    op["metadata"], sizes["metadata"] = {"name": "op"}, {"name": "sizes"}
    autoscaler["metadata"] = {"name": "cpa"}
    if own:
        op["metadata"]["namespace"] = own
    if flag:
        container = autoscaler["spec"]["template"]["spec"]["containers"][0]
        container["command"] = [*container["command"], f"--namespace={flag}"]
    (kept,) = rooms_in([op, autoscaler, sizes], None)
    assert bool(kept.ladder) is found
