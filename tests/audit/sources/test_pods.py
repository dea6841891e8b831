"""Names for cgroups, from the kubelet's /pods, lists of the API server, and objects of a watch."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.sources.pod_index import PodNames
from slack.audit.sources.pod_objects import AuditedPod, decode_pods
from slack.audit.sources.pods import bare_container_id, facts_of_pod
from tests.audit.build import API, PODS_JSON, SIDECAR, UID, a_pod
from tests.audit.build import POD as POD_TARGET


def pod(changes: dict[str, Any]) -> AuditedPod:
    """The pod of PODS_JSON with other metadata."""
    document = json.loads(PODS_JSON)["items"][0]
    document["metadata"].update(changes)
    return msgspec.convert(document, AuditedPod)


def test_what_is_kept_of_a_pod() -> None:
    facts = facts_of_pod(a_pod())
    assert (facts.namespace, facts.name, facts.uid, facts.node) == ("shop", "api-6d4b75cb6d-x2x7p", UID, "node-1")
    assert (facts.owner_kind, facts.owner_name, facts.qos_class) == ("Deployment", "api", "Burstable")
    assert (facts.latency_class, facts.static, facts.deleting) == (True, False, False)
    assert (facts.cpu_limit_millis, facts.cpu_request_millis) == (None, None)
    assert facts.container_ids == ("3a" * 32, "", "5b" * 32, "")


def test_what_is_kept_of_its_containers() -> None:
    api, log, mesh, migrate = facts_of_pod(a_pod()).containers
    assert (api.name, api.cpu_limit_millis, api.cpu_request_millis) == ("api", 400, 100)
    assert (api.image, api.command) == ("registry.example/shop/api:1.4", ("/usr/bin/java", "-jar", "a.jar"))
    assert (api.init, api.sidecar, api.resize_restarts, api.index) == (False, False, False, 0)
    assert (log.cpu_limit_millis, log.cpu_request_millis, log.index) == (None, None, 1)
    assert (mesh.init, mesh.sidecar, mesh.resize_restarts, mesh.cpu_limit_millis, mesh.index) == (
        True,
        True,
        True,
        500,
        0,
    )
    assert (migrate.init, migrate.sidecar) == (True, False)


def test_a_pods_own_limit_is_kept() -> None:
    document = json.loads(PODS_JSON)["items"][0]
    document["spec"]["resources"] = {"limits": {"cpu": "200m"}, "requests": {"cpu": "0.1"}}
    facts = facts_of_pod(msgspec.convert(document, AuditedPod))
    assert (facts.cpu_limit_millis, facts.cpu_request_millis) == (200, 100)


def owned(kind: str, name: str, labels: dict[str, str], controller: bool | None = True) -> tuple[str, str]:
    owner = {"kind": kind, "name": name, "controller": controller}
    facts = facts_of_pod(pod({"ownerReferences": [owner], "labels": labels}))
    return facts.owner_kind, facts.owner_name


def test_a_replicaset_belongs_to_a_deployment_where_their_hash_agrees() -> None:
    assert owned("ReplicaSet", "api-6d4b", {"pod-template-hash": "6d4b"}) == ("Deployment", "api")
    assert owned("ReplicaSet", "api-6d4b", {}) == ("ReplicaSet", "api-6d4b")
    assert owned("ReplicaSet", "api-6d4b", {"pod-template-hash": "77"}) == ("ReplicaSet", "api-6d4b")
    assert owned("StatefulSet", "db", {}) == ("StatefulSet", "db")


def test_the_owner_is_the_one_that_controls() -> None:
    assert owned("StatefulSet", "db", {}, controller=None) == ("StatefulSet", "db")
    assert owned("StatefulSet", "db", {}, controller=False) == ("", "")
    assert facts_of_pod(pod({"ownerReferences": None})).owner_kind == ""


def test_a_static_pod_is_found_by_the_uid_in_its_cgroups_path() -> None:
    """Its mirror in the API has another uid; the path has the hash of its file."""
    hashed = "0123456789abcdef0123456789abcdef"
    mirror = pod({"uid": "mirror", "name": "etcd-node-1", "annotations": {"kubernetes.io/config.hash": hashed}})
    names = PodNames([mirror])
    target = CgroupTarget(CgroupLevel.POD, f"/kubepods/burstable/pod{hashed}", pod_uid=hashed)
    assert names.named(target).pod == "etcd-node-1"
    assert names.by_uid("mirror") is names.by_uid(hashed)
    facts = names.by_uid(hashed)
    assert facts is not None
    assert facts.static


def test_a_container_gets_all_names() -> None:
    named = PodNames([a_pod()]).named(replace(API, pod_uid=""))
    assert (named.namespace, named.pod, named.container, named.pod_uid) == ("shop", "api-6d4b75cb6d-x2x7p", "api", UID)
    assert named.path == API.path


def test_a_pods_cgroup_gets_the_pods_names_and_no_container() -> None:
    named = PodNames([a_pod()]).named(POD_TARGET)
    assert (named.namespace, named.pod, named.container) == ("shop", "api-6d4b75cb6d-x2x7p", "")


def test_a_sidecar_is_found_by_its_id_with_any_runtime_in_front() -> None:
    names = PodNames([a_pod()])
    assert names.named(SIDECAR).container == "mesh"
    found = names.by_container_id("containerd://" + "5b" * 32)
    assert found is not None
    assert found[1].name == "mesh"
    assert bare_container_id("docker://ab") == bare_container_id("ab") == "ab"


def test_a_container_that_just_restarted_has_the_pods_name_at_least() -> None:
    named = PodNames([a_pod()]).named(replace(API, container_id="ff" * 32))
    assert (named.pod, named.container) == ("api-6d4b75cb6d-x2x7p", "")


def test_a_systemd_path_has_the_uid_with_underscores() -> None:
    assert PodNames([a_pod()]).named(replace(POD_TARGET, pod_uid=UID.replace("-", "_"))).namespace == "shop"


def test_a_target_of_names_alone_finds_its_limits() -> None:
    target = CgroupTarget(
        CgroupLevel.CONTAINER, "shop/api", namespace="shop", pod="api-6d4b75cb6d-x2x7p", container="api"
    )
    found, container = PodNames([a_pod()]).facts_of(target)
    assert found is not None
    assert container is not None
    assert container.cpu_limit_millis == 400


def test_an_unknown_target_stays_as_it_is() -> None:
    stranger = CgroupTarget(CgroupLevel.CONTAINER, "/kubepods/podx/y", pod_uid="x", container_id="y")
    assert PodNames([a_pod()]).named(stranger) is stranger


def test_a_change_replaces_and_a_deletion_forgets() -> None:
    names = PodNames([a_pod()])
    document = json.loads(PODS_JSON)["items"][0]
    document["status"]["containerStatuses"][0]["containerID"] = "containerd://new"
    names.put(msgspec.convert(document, AuditedPod))
    assert len(names) == 1
    assert names.by_container_id(API.container_id) is None
    assert names.by_container_id("new") is not None
    names.drop(UID)
    names.drop(UID)
    assert (len(names), names.by_uid(UID), names.by_name("shop", "api-6d4b75cb6d-x2x7p")) == (0, None, None)
    assert names.by_container_id("new") is None


def test_the_next_pod_of_a_name_outlives_the_deletion_of_the_last() -> None:
    names = PodNames([a_pod(), pod({"uid": "next"})])
    names.drop(UID)
    found = names.by_name("shop", "api-6d4b75cb6d-x2x7p")
    assert found is not None
    assert found.uid == "next"
    assert names.by_container_id(API.container_id) is not None


def test_a_whole_list_forgets_the_others() -> None:
    names = PodNames([a_pod(), pod({"uid": "next", "name": "other"})])
    names.keep_only(["next"])
    assert [pod.uid for pod in names.pods()] == ["next"]


def test_pods_of_one_workload_share_their_containers() -> None:
    names = PodNames([a_pod(), pod({"uid": "next", "name": "other"})])
    first, second = names.pods()
    assert first.containers[0] is second.containers[0]


def test_nulls_as_go_writes_them_and_odd_quantities_cost_no_pod() -> None:
    body = b"""{"items": [{"metadata": {"name": "a", "labels": null, "annotations": null, "ownerReferences": null},
      "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "lots"}, "requests": null}}],
      "initContainers": null}, "status": null}, {"metadata": {}}]}"""
    first, second = (facts_of_pod(pod) for pod in decode_pods(body))
    assert (first.containers[0].cpu_limit_millis, second.name) == (None, "")
    assert decode_pods(b'{"items": null}') == []


@pytest.mark.parametrize(
    "body", [b"", b"Unauthorized", b"[]", b'{"items": 3}', b'{"items": [{"metadata": 1}]}', b"\xff"]
)
def test_what_is_no_list_of_pods_says_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="no list of pods"):
        decode_pods(body)


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_that(body: bytes) -> None:
    try:
        pods = decode_pods(body)
    except ValueError:
        return
    assert all(isinstance(pod, AuditedPod) for pod in pods)


def test_the_uid_in_the_path_counts_and_not_a_name_that_is_another_pods() -> None:
    """As a standalone cAdvisor's series have the names of the cAdvisor."""
    names = PodNames([pod({"uid": "u-cadvisor", "name": "cadvisor-7k2p9", "namespace": "monitoring"})])
    foreign = CgroupTarget(
        CgroupLevel.CONTAINER, "/kubepods/podu-api/c", pod_uid="u-api", namespace="monitoring", pod="cadvisor-7k2p9"
    )
    assert names.facts_of(foreign) == (None, None)
    by_name = CgroupTarget(
        CgroupLevel.CONTAINER, "/monitoring/cadvisor-7k2p9", namespace="monitoring", pod="cadvisor-7k2p9"
    )
    assert names.facts_of(by_name)[0] is not None


def test_a_name_alone_is_no_pods_where_several_clusters_may_have_one() -> None:
    """Prometheus without the label id: db-0 of one cluster must not get the figures of another's db-0."""
    names = PodNames([pod({"uid": "u", "name": "db-0", "namespace": "shop"})])
    target = CgroupTarget(
        CgroupLevel.CONTAINER, "/shop/db-0/db", "node-1", namespace="shop", pod="db-0", container="db"
    )
    assert names.facts_of(target)[0] is not None
    assert names.facts_of(replace(target, node="eu/node-1")) == (None, None)


@pytest.mark.parametrize("first", ["mirror", "tenant"])
def test_no_annotation_of_a_tenant_takes_the_cgroup_of_a_static_pod(first: str) -> None:
    marks = {"kubernetes.io/config.hash": "f00d"}
    found = {
        "mirror": pod({"uid": "m", "name": "etcd", "annotations": {**marks, "kubernetes.io/config.mirror": "f00d"}}),
        "tenant": pod({"uid": "t", "name": "evil", "annotations": marks}),
    }
    names = PodNames([found.pop(first), *found.values()])
    known = names.by_uid("f00d")
    assert known is not None
    assert known.name == "etcd"


def test_variables_of_threads_are_kept_and_what_cannot_be_read_is_said() -> None:
    def variables(**fields: object) -> object:
        body = json.dumps({"items": [{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", **fields}]}}]})
        (found,) = decode_pods(body.encode())
        return facts_of_pod(found).containers[0].variables

    options = {"name": "JAVA_TOOL_OPTIONS", "value": "-javaagent:/a.jar"}
    other, secret = {"name": "PASSWORD", "value": "x"}, {"name": "GOMAXPROCS", "valueFrom": {"fieldRef": {}}}
    assert variables(env=[options, other]) == (("JAVA_TOOL_OPTIONS", "-javaagent:/a.jar"),)
    assert variables(env=[secret]) == (("GOMAXPROCS", None),)
    assert variables(env=[other]) == ()
    assert variables(envFrom=[{"configMapRef": {"name": "m"}}]) is None
    both = variables(env=[options], envFrom=[{"configMapRef": {"name": "m"}}])
    assert both == (
        ("JAVA_TOOL_OPTIONS", "-javaagent:/a.jar"),
        ("GOMAXPROCS", None),
        ("UV_THREADPOOL_SIZE", None),
        ("WEB_CONCURRENCY", None),
    )


def test_a_runtime_classs_overhead_is_kept() -> None:
    body = json.dumps({"items": [{"metadata": {"name": "a"}, "spec": {"overhead": {"cpu": "250m", "memory": "1Mi"}}}]})
    (found,) = decode_pods(body.encode())
    assert facts_of_pod(found).overhead_millis == 250
