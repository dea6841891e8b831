"""`throttler check` and `throttler simulate`: what they print, for people and for programs, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT, Run
from tests.cli.test_documents import as_declared, golden
from tests.examples import by_profile
from tests.throttler.test_config import STUDY
from tests.throttler.test_pods import study

STORM = ROOT / "examples" / "starting" / "storm.yaml"
POLICY = ROOT / "examples" / "throttlepolicy.yaml"


def printed(run: Run, *args: str | Path) -> Any:
    found = run("throttler", *map(str, args), "-o", "json")
    assert found.code == 0, found.stderr
    return json.loads(found.stdout)


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(document))
    return path


def test_a_policy_is_told_with_what_it_comes_to(run: Run) -> None:
    shown = printed(run, "check", "-f", POLICY, "--cores", "8")
    as_declared("throttler-check", shown)
    golden("throttler-check", shown)
    assert shown["items"][0]["limits"]["slots"] == 24


def test_the_study_s_minion_config_is_read_as_printed(run: Run, tmp_path: Path) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, STUDY)))
    assert found.code == 0
    assert "MinionConfig: on a node of 2 cores\ncontainers start at once            6\n" in found.stdout


def test_a_pod_is_told_with_the_order_of_its_starts(run: Run, tmp_path: Path) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, study())))
    assert [line.rstrip() for line in found.stdout.splitlines()] == [
        "Pod app: its containers start in this order",
        "1  app_a",
        "2  app_b",
        "3  app_c, app_d",
        "4  app_e",
    ]


def deployment(name: str = "web", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Deployment whose `web` starts after its `cache`, if its template is read."""
    depends = {"throttler.resource-slack.io/depends-on": '{"web": ["cache"]}'}
    containers = [{"name": "web"}, {"name": "cache"}]
    template = {"metadata": {"annotations": depends}, "spec": {"containers": containers} | spec}
    metadata = {"name": name, "namespace": "shop", "annotations": annotations or {}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


def test_a_workload_is_told_by_its_own_kind_and_name(run: Run, tmp_path: Path) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, deployment())))
    assert found.stdout.splitlines()[0] == "Deployment web: its containers start in this order"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"hostNetwork": True}, "it is on its node's network"),
        ({"os": {"name": "windows"}}, "it is not for Linux"),
        ({"priorityClassName": "system-node-critical"}, "its priority class is system-node-critical"),
    ],
)
def test_a_pod_that_is_never_gated_has_no_order(run: Run, tmp_path: Path, spec: dict[str, Any], why: str) -> None:
    path = written(tmp_path, deployment(**spec))
    (item,) = printed(run, "check", "-f", path)["items"]
    assert (item["levels"], why in item["never_gated"]) == (None, True)
    assert (
        f"Deployment web: never gated, so its containers start at once: {why}"
        in run("throttler", "check", "-f", str(path)).stdout
    )


def test_a_pod_that_is_never_gated_is_not_refused_for_its_order(run: Run, tmp_path: Path) -> None:
    document = deployment(hostNetwork=True)
    document["spec"]["template"]["metadata"]["annotations"] = {"throttler.resource-slack.io/depends-on": "web <- db"}
    path = written(tmp_path, document)
    found = run("throttler", "check", "-f", str(path))
    assert (found.code, found.stdout.splitlines()[0][:30]) == (0, "Deployment web: never gated, s")
    assert "spec.template.metadata.annotations[throttler.resource-slack.io/depends-on]: is no JSON" in found.stderr


def test_a_pod_that_opts_out_or_is_in_a_namespace_that_is_left_out_has_no_order(run: Run, tmp_path: Path) -> None:
    out = deployment()
    out["spec"]["template"]["metadata"]["annotations"]["throttler.resource-slack.io/enabled"] = "false"
    system = deployment()
    system["metadata"]["namespace"] = "kube-system"
    items = printed(run, "check", "-f", written(tmp_path, {"kind": "List", "items": [out, system]}))["items"]
    assert ["is false" in items[0]["never_gated"], "kube-system" in items[1]["never_gated"]] == [True, True]


def test_a_list_is_checked_item_by_item(run: Run, tmp_path: Path) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}}
    lists = [
        {"apiVersion": "v1", "kind": "List", "items": [deployment("one"), deployment("two")]},
        {"apiVersion": "v1", "kind": "PodList", "items": [pod]},
    ]
    shown = [
        [(item["kind"], item["name"]) for item in printed(run, "check", "-f", written(tmp_path, each))["items"]]
        for each in lists
    ]
    assert shown == [[("Deployment", "one"), ("Deployment", "two")], [("Pod", "a")]]


def test_objects_without_pods_in_a_list_are_skipped_and_named(run: Run, tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}}
    mixed = written(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [service, deployment()]})
    found = run("throttler", "check", "-f", mixed)
    assert found.code == 0
    assert "items[0]: skipped: a Service has no pods" in found.stderr
    assert "Deployment web" in found.stdout
    alone = written(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [service]})
    assert run("throttler", "check", "-f", alone).code == 2


def test_a_rollout_beside_the_deployment_that_has_its_template_is_skipped_and_named(run: Run, tmp_path: Path) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"workloadRef": reference}}
    both = written(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [rollout, deployment()]})
    found = run("throttler", "check", "-f", both)
    assert found.code == 0, found.stderr
    assert "items[0]: skipped: the template of the pods of this Rollout is in Deployment web" in found.stderr
    assert "Deployment web" in found.stdout


def test_a_list_in_a_list_is_checked_too(run: Run, tmp_path: Path) -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [deployment("two")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [deployment("one"), inner]}
    assert [item["name"] for item in printed(run, "check", "-f", written(tmp_path, outer))["items"]] == ["one", "two"]
    for _ in range(10):
        outer = {"apiVersion": "v1", "kind": "List", "items": [outer]}
    found = run("throttler", "check", "-f", written(tmp_path, outer))
    assert found.code == 2
    assert "is in 8 lists; write one list" in found.stderr


@pytest.mark.parametrize(
    ("kind", "version", "path"),
    [
        ("CronJob", "batch/v1", ("jobTemplate", "spec", "template")),
        ("Rollout", "argoproj.io/v1alpha1", ("template",)),
        ("Job", "batch/v1", ("template",)),
        ("ScaledJob", "keda.sh/v1alpha1", ("jobTargetRef", "template")),
        ("CloneSet", "apps.kruise.io/v1alpha1", ("template",)),
    ],
)
@pytest.mark.parametrize("named", ["cache", "migrate", "mesh"])
def test_a_dependency_is_checked_in_each_kind_and_on_init_containers(
    run: Run, tmp_path: Path, kind: str, version: str, path: tuple[str, ...], named: str
) -> None:
    """An init container that stays, a sidecar, is named as other init containers are."""
    spec: Any = {
        "metadata": {"annotations": {"throttler.resource-slack.io/depends-on": json.dumps({"web": [named]})}},
        "spec": {
            "initContainers": [{"name": "migrate"}, {"name": "mesh", "restartPolicy": "Always"}],
            "containers": [{"name": "web"}, {"name": "cache"}],
        },
    }
    for part in reversed(path):
        spec = {part: spec}
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "shop"}, "spec": spec}
    found = run("throttler", "check", "-f", written(tmp_path, document), "-o", "json")
    if named == "cache":
        assert found.code == 0, found.stderr
        assert json.loads(found.stdout)["items"][0]["levels"] == [["cache"], ["web"]]
        return
    place = ".".join(("spec", *path))
    assert (found.code, found.stdout) == (2, "")
    assert f"{place}.metadata.annotations[throttler.resource-slack.io/depends-on]: web: depends on '{named}'" in (
        found.stderr
    )
    assert "it is an init container: those start before all containers and are never gated" in found.stderr


def test_a_kind_of_another_api_group_is_not_taken_for_the_one_of_its_name(run: Run, tmp_path: Path) -> None:
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": []}}
    kruise = {"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "spec": {}}
    mixed = written(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [volcano, kruise, deployment()]})
    found = run("throttler", "check", "-f", mixed)
    assert found.code == 0, found.stderr
    assert "items[0]: skipped: a Job has no pods, or no template of pods that is known here" in found.stderr
    assert "items[1]: skipped: a Rollout has no pods" in found.stderr


def test_the_slots_of_nodes_of_other_sizes_are_told(run: Run, tmp_path: Path) -> None:
    policy = {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "ThrottlePolicy",
        "metadata": {"name": "default"},
        "spec": {"maxStartingContainersPerCore": "1/3"},
    }
    path = written(tmp_path, policy)
    shown = printed(run, "check", "-f", path)
    as_declared("throttler-check", shown)
    slots = {row["cores"]: row["slots"] for row in shown["items"][0]["slots_by_cores"]}
    assert (slots[1], slots[6], slots[96]) == (1, 2, 32)
    assert "1: 1, 2: 1, 4: 1, 6: 2, 8: 2, 16: 5" in run("throttler", "check", "-f", str(path)).stdout


MISPLACED = deployment(annotations={"throttler.resource-slack.io/depends-on": '{"web": ["cache"]}'})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            MISPLACED,
            "metadata.annotations[throttler.resource-slack.io/depends-on]: has no effect on a Deployment; put it into "
            "spec.template.metadata.annotations",
        ),
        ({"kind": "List", "items": [deployment(), MISPLACED]}, "items[1]: metadata.annotations["),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "spec": {
                    "jobTemplate": {
                        "metadata": {"annotations": {"throttler.resource-slack.io/depends-on": "{}"}},
                        "spec": {"template": {"spec": {"containers": [{"name": "web"}]}}},
                    }
                },
            },
            "spec.jobTemplate.metadata.annotations[throttler.resource-slack.io/depends-on]: has no effect on a CronJob",
        ),
        ({"kind": "List", "items": []}, "items: is no list of objects, or has none"),
        ({"kind": "List", "items": [3]}, "items[0]: expected a Pod, found int"),
        (study(app_b=["mag"]), "app_b: depends on 'mag', and no container is called so"),
        (STUDY | {"throttling": {"maxCPU": "180%"}}, "throttling.maxCPU: must be a percentage above 0% and at most"),
        (STUDY | {"throttling": {"minRate": "2", "maxRate": "1"}}, "throttling: minRate is above maxRate"),
        ({"kind": "Service"}, "kind: 'Service' is no Pod"),
    ],
)
def test_what_is_refused_is_told_with_the_field_and_exit_code_2(
    run: Run, tmp_path: Path, document: object, problem: str
) -> None:
    found = run("throttler", "check", "-f", str(written(tmp_path, document)))
    assert (found.code, found.stdout) == (2, "")
    assert problem in found.stderr


def test_the_storm_is_played_under_each_limit(run: Run) -> None:
    shown = printed(run, "simulate", STORM, "--compare", "none,2,4,6")
    as_declared("throttler-simulate", shown)
    golden("throttler-simulate", shown)
    assert [(item["name"], item["failures"], item["ready"]) for item in shown["items"]] == [
        ("none", 36, 0),
        ("2", 0, 12),
        ("4", 0, 12),
        ("6", 0, 12),
    ]


def test_people_see_a_line_a_limit(run: Run) -> None:
    found = run("throttler", "simulate", str(STORM), "--compare", "none,6")
    rows = [line.split() for line in found.stdout.splitlines()]
    assert rows[1:] == [
        ["none", "0/12", "36", "12", "never", "never"],
        ["6", "12/12", "0", "6", "10.5", "s", "7.7", "s"],
    ]


@pytest.mark.parametrize("name", ["storm", "cache", "unlucky"])
def test_each_example_is_played_as_it_is(run: Run, name: str) -> None:
    (item,) = printed(run, "simulate", ROOT / "examples" / "starting" / f"{name}.yaml")["items"]
    assert item["name"] == "policy"
    assert item["ready"] == item["containers"]


def test_a_picture_has_a_row_a_container_and_the_same_bytes_each_time(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pictures = [tmp_path / f"{name}.svg" for name in by_profile("a", "ab")]
    for path in pictures:
        found = run("throttler", "simulate", str(STORM), "--compare", "none,6", "--picture", str(path))
        assert found.code == 0, found.stderr
    first, *again = (path.read_bytes() for path in pictures)
    assert all(other == first for other in again)
    assert first.count(b"storm/app-11") >= 2


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("check",), "--filename: give a ThrottlePolicy such as"),
        (("simulate",), "FILE: give a scenario such as"),
        (("simulate", str(STORM), "--compare", "none,two"), "--compare: 'two' is neither none nor a whole number"),
        (("simulate", str(STORM), "--compare", "2,2"), "--compare: give up to 16 limits, each once"),
        (("simulate", str(STORM), "--compare", "0"), "--compare: '0' is neither none nor"),
        (("simulate", str(STORM), "--picture", "storm.gif"), "--picture: storm.gif ends in neither .png nor .svg"),
        (("simulate", str(POLICY)), "unknown field"),
        (("check", "-f", str(STORM)), "kind: None is no Pod"),
    ],
)
def test_bad_input_is_told(run: Run, args: tuple[str, ...], problem: str) -> None:
    found = run("throttler", *args)
    assert found.code == 2
    assert problem in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), ["--tls-cert-file: needed", "--tls-key-file: needed"]),
        (("--gates-listen", "7472"), ["--gates-listen: '7472' is no address"]),
        (("--node", "A b"), ["--node: 'A b' is no name of a node"]),
    ],
)
def test_an_agent_that_cannot_serve_gates_ends_before_it_begins_and_names_the_flag(
    run: Run, args: tuple[str, ...], said: list[str]
) -> None:
    found = run("throttler", "agent", *args)
    assert found.code == 2
    for text in said:
        assert text in found.stderr
