"""Patches that are ready: valid YAML and JSON that change exactly what they say, applied to real objects' form."""

import copy
import json
import shlex
from typing import Any

import msgspec
import pytest
import yaml

from slack.audit.advice import patches
from slack.audit.advice.patches import Patch, PatchKind
from slack.audit.sources.pods import facts_of_pod
from tests.audit.build import API, a_pod, pod_facts, present

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "api", "namespace": "shop"},
    "spec": {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [
                    {"name": "log", "image": "busybox"},
                    {
                        "name": "api",
                        "image": "api:1.4",
                        "env": [{"name": "MODE", "value": "fast"}],
                        "resources": {"limits": {"cpu": "400m", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
                    },
                ],
                "initContainers": [{"name": "mesh", "resources": {"limits": {"cpu": "0.5"}}}],
            }
        },
    },
}


def merged(base: Any, patch: Any) -> Any:
    """A strategic merge as the API server does it for these lists: by name; null deletes."""
    if isinstance(patch, dict) and isinstance(base, dict):
        result = dict(base)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result.get(key), value)
        return result
    if isinstance(patch, list) and all(isinstance(item, dict) and "name" in item for item in patch):
        result_list = list(base or [])
        for entry in patch:
            at = next((i for i, item in enumerate(result_list) if item["name"] == entry["name"]), None)
            if at is None:
                result_list.append(entry)
            else:
                result_list[at] = merged(result_list[at], entry)
        return result_list
    if isinstance(patch, dict):
        return merged({}, patch)
    return patch


def stepped(document: Any, steps: list[dict[str, Any]]) -> Any:
    """RFC 6902 with test, add and remove."""
    result = copy.deepcopy(document)
    for step in steps:
        *way, last = step["path"].strip("/").split("/")
        place = result
        for word in way:
            place = place[int(word)] if isinstance(place, list) else place[word]
        if step["op"] == "test":
            assert place[last] == step["value"]
        elif step["op"] == "add":
            place[last] = step["value"]
        else:
            assert step["op"] == "remove"
            del place[last]
    return result


def applied(patch: Patch) -> dict[str, Any]:
    document = yaml.safe_load(present(patch.merge_yaml))
    assert (document["kind"], document["metadata"]) == ("Deployment", {"name": "api", "namespace": "shop"})
    result = merged(DEPLOYMENT, document)["spec"]["template"]["spec"]
    assert isinstance(result, dict)
    return result


def raised(**changes: Any) -> Patch:
    pod = pod_facts(**changes)
    return patches.raise_limit(pod, pod.containers[0], 480)


def test_a_raise_changes_the_limit_of_that_container_and_nothing_else() -> None:
    result = applied(raised())
    expected = copy.deepcopy(DEPLOYMENT["spec"]["template"]["spec"])
    expected["containers"][1]["resources"]["limits"]["cpu"] = "480m"
    assert result == expected


def test_a_raise_writes_the_request_out_so_that_it_does_not_follow_the_limit() -> None:
    (entry,) = yaml.safe_load(present(raised().merge_yaml))["spec"]["template"]["spec"]["containers"]
    assert entry["resources"] == {"limits": {"cpu": "480m"}, "requests": {"cpu": "100m"}}


def test_a_raise_for_the_living_pod_goes_through_resize() -> None:
    words = shlex.split(raised().command)
    assert words[:8] == ["kubectl", "-n", "shop", "patch", "pod", "api-6d4b75cb6d-x2x7p", "--subresource", "resize"]
    assert json.loads(words[9]) == {"spec": {"containers": [{"name": "api", "resources": {"limits": {"cpu": "480m"}}}]}}


def test_the_json_patch_of_a_raise_tests_the_containers_name_first() -> None:
    spec = {"spec": {"containers": [{"name": "api", "resources": {"limits": {"cpu": "400m"}}}]}}
    steps = json.loads(present(raised().json_patch))
    assert stepped(spec, steps)["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "480m"
    spec["spec"]["containers"][0]["name"] = "injected"
    with pytest.raises(AssertionError):
        stepped(spec, steps)


def test_a_guaranteed_pods_request_moves_with_its_limit() -> None:
    patch = raised(qos="Guaranteed", request=400)
    resources = {"limits": {"cpu": "480m"}, "requests": {"cpu": "480m"}}
    assert (patch.cpu_limit_millis, patch.cpu_request_millis) == (480, 480)
    assert json.loads(shlex.split(patch.command)[9])["spec"]["containers"][0]["resources"] == resources
    assert applied(patch)["containers"][1]["resources"]["requests"] == {"cpu": "480m"}
    spec = {"spec": {"containers": [{"name": "api", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}}]}}
    assert stepped(spec, json.loads(present(patch.json_patch)))["spec"]["containers"][0]["resources"] == resources


def test_an_init_container_that_ends_is_raised_in_its_template_only() -> None:
    pod = facts_of_pod(a_pod())
    sidecar = pod.container("mesh")
    assert sidecar is not None
    patch = patches.raise_limit(pod, msgspec.structs.replace(sidecar, sidecar=False), 600)
    assert (patch.command, patch.json_patch) == (None, None)
    assert applied(patch)["initContainers"][0]["resources"]["limits"] == {"cpu": "600m"}


def test_a_sidecar_is_an_init_container_in_all_forms() -> None:
    pod = facts_of_pod(a_pod())
    mesh = pod.container("mesh")
    assert mesh is not None
    patch = patches.raise_limit(pod, mesh, 600)
    assert applied(patch)["initContainers"][0]["resources"]["limits"] == {"cpu": "600m"}
    assert "initContainers" in shlex.split(patch.command)[9]
    assert json.loads(present(patch.json_patch))[0]["path"] == "/spec/initContainers/0/name"


def test_a_pods_own_limit_is_raised_in_spec_resources() -> None:
    patch = patches.raise_pod_limit(pod_facts(pod_limit=200), 300)
    assert applied(patch)["resources"] == {"limits": {"cpu": "300m"}}
    assert json.loads(shlex.split(patch.command)[9]) == {"spec": {"resources": {"limits": {"cpu": "300m"}}}}
    pod = {"spec": {"resources": {"limits": {"cpu": "200m"}}}}
    assert stepped(pod, json.loads(present(patch.json_patch)))["spec"]["resources"]["limits"] == {"cpu": "300m"}


def test_a_removal_is_for_the_template_only_and_keeps_the_request() -> None:
    pod = pod_facts()
    patch = patches.remove_limit(pod, pod.containers[0])
    assert patch is not None
    assert patch.command is None
    assert "resize" not in present(patch.merge_yaml) + present(patch.json_patch)
    assert applied(patch)["containers"][1]["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m"}}
    document = copy.deepcopy(DEPLOYMENT)
    document["spec"]["template"]["spec"]["containers"].reverse()
    after = stepped(document, json.loads(present(patch.json_patch)))
    assert after["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}


def test_a_variable_is_added_to_those_that_are_there() -> None:
    pod = pod_facts()
    patch = patches.environment(pod, pod.containers[0], "GOMAXPROCS", "1")
    assert patch is not None
    assert applied(patch)["containers"][1]["env"] == [
        {"name": "MODE", "value": "fast"},
        {"name": "GOMAXPROCS", "value": "1"},
    ]


@pytest.mark.parametrize(
    ("owner", "static", "why"),
    [
        (("", ""), False, "no owner"),
        (("Job", "nightly"), False, "Job shop/nightly cannot be changed"),
        (("Rollout", "api"), False, "owner Rollout shop/api"),
        (("ReplicaSet", "api-6d4b75cb6d"), False, "ReplicaSet shop/api-6d4b75cb6d is named like a Deployment's"),
        (("Node", "node-1"), True, "static pod"),
    ],
)
def test_where_no_template_can_be_changed_it_says_why(owner: tuple[str, str], static: bool, why: str) -> None:
    pod = pod_facts(owner=owner, static=static)
    patch = patches.raise_limit(pod, pod.containers[0], 480)
    assert patch.merge_yaml is None
    assert why in present(patches.no_template(pod))
    assert bool(patch.command) is not static
    assert patches.remove_limit(pod, pod.containers[0]) is None
    assert patches.environment(pod, pod.containers[0], "A", "1") is None


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"])
def test_owners_with_templates_are_patched_as_what_they_are(kind: str) -> None:
    pod = pod_facts(owner=(kind, "api"))
    document = yaml.safe_load(present(patches.raise_limit(pod, pod.containers[0], 1500).merge_yaml))
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    assert (document["apiVersion"], document["kind"], document["metadata"]["name"]) == (version, kind, "api")


def test_the_kubelets_drop_ins_are_whole_documents() -> None:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    assert yaml.safe_load(present(patches.quota_off().merge_yaml)) == {**head, "cpuCFSQuota": False}
    assert yaml.safe_load(present(patches.shorter_period(10).merge_yaml)) == {
        **head,
        "featureGates": {"CustomCPUCFSQuotaPeriod": True},  # without it an older kubelet does not start
        "cpuCFSQuotaPeriod": "10ms",
    }


def test_a_burst_is_written_to_the_file_of_the_hierarchy() -> None:
    v1, v2 = (patches.burst(API, 20_000, hierarchy) for hierarchy in ("v1", "v2"))
    assert v1.command == f"echo 20000 > /sys/fs/cgroup/cpu{API.path}/cpu.cfs_burst_us"
    assert v2.command == f"echo 20000 > /sys/fs/cgroup{API.path}/cpu.max.burst"
    assert (v1.kind, v1.burst_us) == (PatchKind.BURST, 20_000)
