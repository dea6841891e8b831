"""The order of a pod's containers, out of its manifest."""

from typing import Any

import pytest

from slack.throttler.injection import DEPENDS_ON
from slack.throttler.pods import InvalidPod, read_pod

STUDY_NEEDS = {"app_a": [], "app_b": ["app_a"], "app_c": ["app_b"], "app_d": ["app_b"], "app_e": ["app_c", "app_d"]}


def study(**needs: list[str]) -> dict[str, Any]:
    """The study's own JSON; as printed with app_b=["mag"]."""
    containers = [
        {"name": name, "image": f"me/{name}", "livenessProbe": {"exec": {"command": "/check"}}, "dependsOn": needed}
        for name, needed in (STUDY_NEEDS | needs).items()
    ]
    manifest = {"version": "v1beta1", "id": "app", "containers": containers}
    state = {"kind": "Pod", "apiVersion": "v1beta1", "id": "app", "desiredState": {"manifest": manifest}}
    return state | {"labels": {"name": "app"}}


def pod(text: object, *names: str) -> dict[str, Any]:
    metadata = {"name": "app", "annotations": {DEPENDS_ON: text}}
    spec = {"containers": [{"name": name} for name in names]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def refused(document: object) -> str:
    with pytest.raises(InvalidPod) as found:
        read_pod(document, source="pod.yaml")
    return found.value.problems[0]


def test_the_study_s_own_json_is_refused_for_mag() -> None:
    problem = "desiredState.manifest.containers: dependsOn: app_b: depends on 'mag', and no container is called so"
    assert refused(study(app_b=["mag"])) == problem


def test_the_study_s_graph_is_put_in_order() -> None:
    found = read_pod(study(), source="pod.json")
    assert found.name == "app"
    assert found.graph.levels() == (("app_a",), ("app_b",), ("app_c", "app_d"), ("app_e",))


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", ("spec", "template")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template")),
        ("PodTemplate", ("template",)),
        ("Rollout", ("spec", "template")),
        ("ScaledJob", ("spec", "jobTargetRef", "template")),
    ],
)
def test_a_workload_s_template_is_a_pod(kind: str, path: tuple[str, ...]) -> None:
    inner: dict[str, Any] = {part: value for part, value in pod('{"b": ["a"]}', "b", "a").items() if part != "kind"}
    for part in reversed(path):
        inner = {part: inner}
    levels = read_pod({"kind": kind, "metadata": {"name": "x"}} | inner, source="x").graph.levels()
    assert levels == (("a",), ("b",))
    assert refused({"kind": kind}) == f"{'.'.join(path)}: is missing"


FIELD = f"metadata.annotations[{DEPENDS_ON}]"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (pod('{"b": ["x"]}', "a", "b"), f"{FIELD}: b: depends on 'x', and no container is called so"),
        (pod('{"a": ["b"], "b": ["a"]}', "a", "b"), f"{FIELD}: a: depends on itself: a -> b -> a"),
        (pod({"b": ["a"]}, "a", "b"), f"{FIELD}: is no text; write it in quotes"),
        (pod("{}", "a", "a"), "spec.containers: a: two containers are called so"),
        (pod("{}", ""), "spec.containers[0].name: is missing"),
        (pod("{}"), "spec.containers: is no list of containers"),
        ({"kind": "Service"}, "kind: 'Service' is no Pod, nor a workload with a template of one"),
        ([], "expected a Pod, found list"),
        (study(app_b="app_a"), "desiredState.manifest.containers[1].dependsOn: is no list of containers"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_put_in_order_is_refused_by_field(document: object, problem: str) -> None:
    assert refused(document) == problem


def with_init(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"spec": document["spec"] | {"initContainers": [{"name": "migrate"}, {"name": "mesh"}]}}


@pytest.mark.parametrize("text", ['{"app": ["migrate"]}', '{"migrate": ["app"]}', '{"app": ["mesh"]}'])
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "CloneSet"])
def test_an_init_container_that_a_dependency_names_is_called_one(text: str, kind: str) -> None:
    document = with_init(pod(text, "app"))
    if kind != "Pod":
        document = {"kind": kind, "metadata": {"name": "x"}, "spec": {"template": document}}
    assert "it is an init container: those start before all containers" in refused(document)


def test_a_workload_of_an_unknown_kind_has_its_template_where_a_deployment_has_it() -> None:
    document = {"kind": "CloneSet", "metadata": {"name": "x"}, "spec": {"template": pod('{"b": ["a"]}', "b", "a")}}
    assert read_pod(document, source="x").graph.levels() == (("a",), ("b",))


def test_a_rollout_without_a_template_says_where_it_is() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    document = {"kind": "Rollout", "metadata": {"name": "x"}, "spec": {"workloadRef": reference}}
    assert refused(document).startswith("spec.workloadRef: the pods' template is in Deployment web")


def test_without_an_annotation_all_may_start_at_once() -> None:
    document = pod("{}", "a", "b")
    del document["metadata"]["annotations"]
    assert read_pod(document, source="x").graph.levels() == (("a", "b"),)


HOST: dict[str, Any] = {"hostNetwork": True}


def test_a_pod_that_is_never_gated_is_told_so_before_anything_is_said_of_its_order() -> None:
    """The webhook admits it as it is: a graph that cannot be kept harms nobody there."""
    good, cycle = pod('{"b": ["a"]}', "b", "a"), pod('{"a": ["b"], "b": ["a"]}', "a", "b")
    for document, problem in (
        (good, "has no effect on a pod that is never gated"),
        (cycle, "a: depends on itself: a -> b -> a"),
    ):
        document["spec"] |= HOST
        found = read_pod(document, source="x")
        assert (found.never_gated or "").startswith("it is on its node's network")
        assert found.without_effect == (f"{FIELD}: {problem}",)


def test_an_annotation_in_the_wrong_place_refuses_no_workload_whose_pods_are_never_gated() -> None:
    misplaced = {"name": "x", "annotations": {DEPENDS_ON: "{}"}}
    template = pod("{}", "a")
    del template["metadata"]["annotations"]
    document = {"kind": "Deployment", "metadata": misplaced, "spec": {"template": template}}
    problem = f"{FIELD}: has no effect on a Deployment; put it into spec.template.metadata.annotations"
    assert refused(document) == problem
    template["spec"] |= HOST
    assert read_pod(document, source="x").without_effect == (problem,)
