"""`migrate`: worked examples, with manifests as the charts and people write them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from slack.cli.commands import app
from slack.planner.policy.spec import parse_policy
from tests.cli.conftest import Run
from tests.cli.test_documents import as_declared, golden
from tests.kube.fake_api import FakeApi, Reply

Json = dict[str, Any]
BOX = {"cpu": "1000m", "memory": "1000Mi"}


def pause(
    name: str, replicas: int | None = 3, requests: Json | None = None, namespace: str = "op", **spec: Any
) -> Json:
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.9", "resources": {"requests": requests or BOX}}
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"priorityClassName": "overprovisioning", "containers": [container], **spec}}},
    }
    return made if replicas is None else {**made, "spec": {"replicas": replicas, **made["spec"]}}


def priority(value: int, name: str = "overprovisioning", **more: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def proportional(target: str, **data: Any) -> list[Json]:
    command = ["/cluster-proportional-autoscaler", f"--target=deployment/{target}", "--configmap=sizes"]
    container = {"name": "cpa", "image": "registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.9.0"}
    autoscaler = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cpa", "namespace": "op"},
        "spec": {"template": {"spec": {"containers": [{**container, "command": command}]}}},
    }
    texts = {key: json.dumps(value) for key, value in data.items()}
    return [autoscaler, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sizes"}, "data": texts}]


def buffer(name: str = "web", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": metadata, "spec": spec}


def pod_template(requests: Json, **spec: Any) -> Json:
    containers = [{"name": "a", "resources": {"requests": requests}}]
    template = {"spec": {"containers": containers, **spec}}
    metadata = {"name": "box", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


class Answer:
    """What `migrate` said to some manifests; every policy is checked as users' files are."""

    def __init__(self, path: Path, *manifests: Json, args: tuple[str, ...] = ()) -> None:
        path.write_text(yaml.safe_dump_all(manifests))
        found = CliRunner().invoke(app, ["migrate", "-f", str(path), *args])
        self.code, self.comments, self.warnings = found.exit_code, found.stdout, found.stderr
        self.policies = (
            [policy for policy in yaml.safe_load_all(found.stdout) if policy] if found.exit_code == 0 else []
        )
        for policy in self.policies:
            parse_policy(policy, source="migrated")

    @property
    def spec(self) -> Json:
        (only,) = self.policies
        spec: Json = only["spec"]
        return spec


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "release.yaml"


def test_a_release_with_replicas_becomes_a_floor_of_the_same_room(file: Path) -> None:
    """deliveryhero's chart: Deployments of fixed size, a class of -1, and one that is the cluster's default."""
    where: Json = {
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
    }
    default = priority(0, "default", globalDefault=True)
    found = Answer(file, priority(-1), default, pause("op-default", 3, **where))
    assert found.spec == {
        "nodeSelector": {"pool": "web"},
        "tolerations": where["tolerations"],
        "extraCapacity": {"minRate": 0, "floor": {"cpu": "3", "memory": "3000Mi"}},
    }
    assert found.policies[0]["metadata"]["name"] == "op-default"
    assert "# - 3 replicas x requests -> spec.extraCapacity.floor" in found.comments
    assert "priorityClassName overprovisioning (-1) -> the operator's own class" in found.comments
    assert "terminationGracePeriodSeconds 30 (the default) -> 0" in found.comments
    assert "PriorityClass default is the cluster's default" in found.warnings


def test_deployments_for_the_same_nodes_become_one_policy(file: Path) -> None:
    found = Answer(file, pause("small", 2), pause("gpu", 1, {**BOX, "nvidia.com/gpu": 1}))
    assert found.spec["extraCapacity"]["floor"] == {"cpu": "3", "memory": "3000Mi", "nvidia.com/gpu": "1"}
    assert "go to the same nodes" in found.warnings


def test_deployments_for_other_nodes_become_policies_of_their_own(file: Path) -> None:
    found = Answer(file, pause("a", nodeSelector={"pool": "a"}), pause("b", nodeSelector={"pool": "b"}))
    assert [policy["spec"]["nodeSelector"]["pool"] for policy in found.policies] == ["a", "b"]
    listed = CliRunner().invoke(app, ["migrate", "-f", str(file), "-o", "json"])
    assert [item["metadata"]["name"] for item in json.loads(listed.stdout)["items"]] == ["a", "b"]


def test_a_ladder_by_nodes_becomes_steps_when_a_node_is_known(file: Path) -> None:
    """codecentric's chart: replicas are left to the proportional autoscaler, CronJobs switch its ladder."""
    steps = proportional("op", ladder={"nodesToReplicas": [[0, 8], [8, 4], [16, 0]]})
    night: Json = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "night"},
        "spec": {"schedule": "0 18 * * 1-5", "jobTemplate": {"volumes": [{"configMap": {"name": "night"}}]}},
    }
    manifests = (pause("op", None, {"cpu": "500m", "memory": "512Mi"}), *steps, night)
    found = Answer(file, *manifests, args=("--node-cpu", "4"))
    assert found.spec["extraCapacity"] == {
        "minRate": 0,
        "ceiling": {"cpu": "4", "memory": "4Gi"},
        "ladder": [
            {"fromAllocatable": {"cpu": "0"}, "minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}},
            {"fromAllocatable": {"cpu": "30"}, "minRate": 0, "floor": {"cpu": "2", "memory": "2Gi"}},
            {"fromAllocatable": {"cpu": "62"}, "minRate": 0},
        ],
    }
    assert "CronJob night (0 18 * * 1-5)" in found.warnings
    unknown = Answer(file, *manifests)
    assert unknown.spec["extraCapacity"] == {"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}}
    assert "--node-cpu" in unknown.warnings


def test_a_ladder_by_cores_becomes_steps_by_what_nodes_have(file: Path) -> None:
    steps = proportional("op", ladder={"coresToReplicas": [[20, 2], [100, 5]]})
    found = Answer(file, pause("op", None, {"cpu": "1", "memory": "1Gi"}), *steps)
    assert found.spec["extraCapacity"]["ladder"] == [
        {"fromAllocatable": {"cpu": "0"}, "minRate": 0, "floor": {"cpu": "2", "memory": "2Gi"}},
        {"fromAllocatable": {"cpu": "99001m"}, "minRate": 0, "floor": {"cpu": "5", "memory": "5Gi"}},
    ]


def test_a_line_by_cores_becomes_steps_with_floor_and_ceiling(file: Path) -> None:
    """The Cluster Autoscaler's FAQ: a replica of one core for so many cores, from min to max."""
    line = proportional("op", linear={"coresPerReplica": 5, "min": 1, "max": 50})
    found = Answer(file, pause("op", 1, {"cpu": "1", "memory": "1Gi"}), *line)
    size = found.spec["extraCapacity"]
    steps = size.pop("ladder")
    assert size == {
        "minRate": 0,
        "floor": {"cpu": "1", "memory": "1Gi"},
        "ceiling": {"cpu": "50", "memory": "50Gi"},
    }
    assert len(steps) == 50
    assert steps[-1] == {
        "fromAllocatable": {"cpu": "245001m"},
        "minRate": 0,
        "floor": {"cpu": "50", "memory": "50Gi"},
    }
    assert "the ceiling (50 cpu, 50Gi memory) holds in each resource" in found.warnings


def test_a_priority_that_the_autoscaler_ignores_is_told(file: Path) -> None:
    """The recipe in Kubernetes' own documentation has -1000."""
    found = Answer(file, priority(-1000, "placeholder"), pause("op", priorityClassName="placeholder"))
    assert "below the Cluster Autoscaler's cut-off of -10" in found.warnings


def test_what_has_no_counterpart_is_told_and_not_guessed(file: Path) -> None:
    needs: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}] * 2}}
    affinity = {"podAntiAffinity": {"x": 1}, "nodeAffinity": needs}
    blanket = [{"operator": "Exists"}]
    found = Answer(file, pause("op", affinity=affinity, tolerations=blanket, schedulerName="other"))
    assert "podAntiAffinity has no counterpart" in found.warnings
    assert "nodeAffinity is more than labels" in found.warnings
    assert "toleration without a key is left out" in found.warnings
    assert found.spec["schedulerName"] == "other"
    assert "tolerations" not in found.spec


def test_node_affinity_of_single_labels_and_a_hard_zone_spread_are_kept(file: Path) -> None:
    expressions = [{"key": "pool", "operator": "In", "values": ["web"]}]
    needs = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    }
    spread = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]
    found = Answer(file, pause("op", affinity={"nodeAffinity": needs}, topologySpreadConstraints=spread))
    assert (found.spec["nodeSelector"], found.spec["perDomain"]) == ({"pool": "web"}, "Zone")
    assert not found.warnings


def test_preferred_nodes_are_told(file: Path) -> None:
    prefers = [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}}
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefers}}
    found = Answer(file, pause("op", affinity=affinity))
    assert "the nodes that it prefers (nodeAffinity) are not kept" in found.warnings
    assert "nodeSelector" not in found.spec


def test_a_buffer_of_a_pod_template_becomes_a_floor_within_its_limits(file: Path) -> None:
    template = pod_template({"cpu": "900m", "memory": "1Gi"}, nodeSelector={"pool": "web"})
    found = Answer(file, buffer(podTemplateRef={"name": "box"}, replicas=10, limits={"cpu": "4"}), template)
    assert found.spec == {
        "nodeSelector": {"pool": "web"},
        "extraCapacity": {"minRate": 0, "floor": {"cpu": "3600m", "memory": "4Gi"}},  # 4 of 900m fit 4 cores
    }
    only = Answer(file, buffer(podTemplateRef={"name": "box"}, limits={"cpu": "1", "memory": "64Gi"}), template)
    assert only.spec["extraCapacity"]["floor"] == {"cpu": "900m", "memory": "1Gi"}


def test_a_buffer_that_follows_a_workload_becomes_an_annotation(file: Path) -> None:
    api = pause("api", 8, namespace="shop", nodeSelector={"pool": "web"})
    api["spec"]["template"]["spec"] |= {"containers": [{"name": "api", "image": "api:1"}], "priorityClassName": ""}
    follows = buffer(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "api"}, percentage=25)
    found = Answer(file, follows, api)
    text = " ".join(found.comments.replace("#", "").split())
    assert 'kubectl annotate deployment api -n shop resource-slack.io/reserve="25%"' in text
    assert found.spec == {"nodeSelector": {"pool": "web"}, "extraCapacity": {"minRate": 0}, "cover": {"mode": "None"}}
    assert "spec.reserve.ceiling is left at a tenth" in found.warnings
    absent = Answer(file, follows)
    assert "Deployment shop/api is not here" in absent.warnings


@pytest.mark.parametrize(
    ("manifests", "said"),
    [
        ([{"kind": "Service", "metadata": {"name": "a"}}], "nothing in it keeps capacity"),
        ([pause("op", requests={"cpu": 0, "memory": None})], "its pods request nothing"),
        ([pause("op", 0)], "no replicas"),
        ([pause("op", requests={"cpu": "many", "memory": "1Gi"})], "'many'"),
        ([buffer(replicas=1)], "either spec.podTemplateRef or spec.scalableRef"),
        ([buffer(podTemplateRef={"name": "box"}, replicas=1)], "PodTemplate box is not here"),
        ([buffer(podTemplateRef={"name": "box"}), pod_template({"cpu": "1"})], "spec.replicas or spec.limits"),
        (
            [buffer(podTemplateRef={"name": "box"}, limits={"memory": "1Gi"}), pod_template({"cpu": "1"})],
            "names nothing that the pods request (cpu)",
        ),
        ([buffer(scalableRef={"kind": "Deployment", "name": "a"})], "spec.percentage or spec.replicas"),
        ([{"kind": "Deployment", "metadata": {"name": "a"}, "spec": []}], "spec: expected fields, found list"),
        ([{"kind": "Deployment"}], "metadata.name: is missing"),
        ([pause("op"), *proportional("op", ladder=[1])], "expected an object such as"),
    ],
)
def test_what_cannot_be_migrated_is_bad_input_and_names_the_object(
    file: Path, manifests: list[Json], said: str
) -> None:
    found = Answer(file, *manifests)
    assert found.code == 2
    assert said in found.warnings
    assert found.warnings.startswith("error: ")


def test_manifests_come_from_stdin_too(run: Run) -> None:
    found = run("migrate", "-f", "-", stdin=json.dumps({"kind": "List", "items": [pause("op")]}))
    assert (found.code, found.stderr) == (0, "")
    assert yaml.safe_load(found.stdout)["metadata"]["name"] == "op"


def test_a_release_is_read_from_the_cluster(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        user = {"name": "a", "user": {}}
        cluster = {"name": "a", "cluster": {"server": api.connection().host}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        config = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "a"}
        (tmp_path / "config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        api.put("/apis/apps/v1/namespaces/op/deployments/op", spec=pause("op")["spec"])
        api.put("/apis/apps/v1/namespaces/op/deployments/real", spec={"replicas": 1, "template": {"spec": {}}})
        api.put("/apis/scheduling.k8s.io/v1/priorityclasses/overprovisioning", value=-1)
        found = run("migrate", "-n", "op", "--kubeconfig", tmp_path / "config")
        absent = run("migrate", "deploy/none", "-n", "op", "--kubeconfig", tmp_path / "config")
        api.script("list", Reply.status(403, "Forbidden"))
        refused = run("migrate", "-n", "op", "--kubeconfig", tmp_path / "config")
    assert (found.code, found.stderr) == (0, "")
    assert yaml.safe_load(found.stdout)["spec"]["extraCapacity"]["floor"] == {"cpu": "3", "memory": "3000Mi"}
    assert "overprovisioning (-1)" in found.stdout
    assert (absent.code, "there is none of this name" in absent.stderr) == (2, True)
    assert (refused.code, "403" in refused.stderr) == (2, True)


def test_one_policy_and_several_are_as_the_published_schema_says(file: Path) -> None:
    one, several = (pause("a", 3),), (pause("a", 3, nodeSelector={"pool": "a"}), pause("b", 2))
    for name, manifests in (("migrate", one), ("migrate.list", several)):
        file.write_text(yaml.safe_dump_all((priority(-1), *manifests)))
        found = CliRunner().invoke(app, ["migrate", "-f", str(file), "-o", "json"])
        assert found.exit_code == 0, found.output
        shown = json.loads(found.stdout)
        as_declared("migrate", shown)
        golden(name, shown)


def test_pause_pods_of_the_usual_priority_are_migrated_only_by_name(tmp_path: Path) -> None:
    shop = pause("shop", 14, namespace="default", priorityClassName="")
    alone = Answer(tmp_path / "shop.yaml", shop)
    assert alone.code == 2
    assert "the pods of Deployment default/shop run pause, but have the priority of other pods" in alone.warnings
    assert "add KIND/NAME" in alone.warnings
    assert Answer(tmp_path / "named.yaml", shop, args=("deploy/shop",)).code == 0
    assert "there is none of this name" in Answer(tmp_path / "no.yaml", shop, args=("deploy/no",)).warnings
    beside = Answer(tmp_path / "two.yaml", shop, pause("op"), priority(-10))
    assert beside.code == 0
    assert "note: left out: the pods of Deployment default/shop run pause" in beside.warnings
    below = pause("spare", 2, priorityClassName="low")
    assert Answer(tmp_path / "low.yaml", below, priority(0, "low"), priority(9, "usual", globalDefault=True)).code == 0
    assert Answer(tmp_path / "same.yaml", below, priority(0, "low")).code == 2
