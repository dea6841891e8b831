"""What a pod is given: once, without a change of what runs in it; its security level and class of quality stay."""

import contextlib
import copy
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.harness.json_patch import patched
from slack.cluster.quantity import thousandths
from slack.throttler.graph import InvalidGraph
from slack.throttler.injection import (
    DEPENDS_ON,
    ENABLED,
    FIRST_DOORBELL_PORT,
    GATE,
    PERMITS,
    PERMITS_IN,
    TOKEN,
    VARIABLE,
    GateOptions,
    NameTaken,
    exempt,
    gated,
    patch,
    patch_by_config_map,
)
from slack.throttler.podspec.gate_container import PROBE_SECONDS
from slack.throttler.podspec.shape import InvalidManifest
from slack_operator.throttler.gate import probe_server
from tests.cases import run_for_each

ROOT = Path(__file__).parents[2]
OPTIONS = GateOptions(image="slack:1", agent_port=7474, agent_name="agent", authority="PEM")
Json = dict[str, Any]


def a_pod(*containers: Json, annotations: Json | None = None, **spec: object) -> Json:
    """Return a pod as a user sends it."""
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": list(containers), **spec}}


def a_gate(pod: Json) -> Json:
    """Return the gate that a pod was given."""
    return next(entry for entry in patched(pod, patch(pod, OPTIONS))["spec"]["initContainers"] if entry["name"] == GATE)


WEB: Json = {"name": "web", "image": "web:1", "startupProbe": {"exec": {"command": ["up"]}}, "command": ["/web"]}
LOG: Json = {"name": "log", "image": "log:1", "env": [{"name": "LEVEL", "value": "info"}]}


def test_every_container_waits_for_its_own_file_and_is_else_as_it_was() -> None:
    pod = a_pod(WEB, LOG)
    before = copy.deepcopy(pod)
    result = patched(pod, patch(pod, OPTIONS))
    assert pod == before
    for old, new in zip((WEB, LOG), result["spec"]["containers"], strict=True):
        reference = next(entry for entry in new["env"] if entry["name"] == VARIABLE)["valueFrom"]["fileKeyRef"]
        assert reference == {"volumeName": PERMITS, "path": f"{old['name']}.env", "key": "GO", "optional": False}
        assert {**new, "env": [entry for entry in new["env"] if entry["name"] != VARIABLE]} == {"env": [], **old}
    assert [volume["name"] for volume in result["spec"]["volumes"]] == [PERMITS, TOKEN]


def test_a_patch_applied_twice_changes_nothing() -> None:
    pod = a_pod(WEB, LOG, volumes=[{"name": "data", "emptyDir": {}}], initContainers=[{"name": "init"}])
    once = patched(pod, patch(pod, OPTIONS))
    assert gated(once)
    assert not gated(pod)
    assert patch(once, OPTIONS) == []
    assert [entry["name"] for entry in once["spec"]["initContainers"]] == [GATE, "init"]


def test_a_container_that_was_added_after_the_gate_is_gated_with_the_next_patch() -> None:
    pod = a_pod(WEB)
    once = patched(pod, patch(pod, OPTIONS))
    once["spec"]["containers"].append(copy.deepcopy(LOG))
    twice = patched(once, patch(once, OPTIONS))
    told = {entry["name"]: entry.get("value") for entry in twice["spec"]["initContainers"][0]["env"]}
    assert told["THROTTLER_CONTAINERS"] == "web,log"
    assert patch(twice, OPTIONS) == []
    assert any(entry["name"] == VARIABLE for entry in twice["spec"]["containers"][1]["env"])


def system(operator: str, *values: str) -> Json:
    """Return a term of a node affinity that asks for an operating system."""
    return {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": list(values)}]}


def on_nodes(*terms: Json) -> Json:
    """Return what a pod's spec has if it must be on nodes of one of these terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "annotations", "why"),
    [
        ({"hostNetwork": True}, {}, "network"),
        ({"priorityClassName": "system-node-critical"}, {}, "system-node-critical"),
        ({"os": {"name": "windows"}}, {}, "Linux"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, {}, "Linux"),
        ({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}, {}, "Linux"),
        (on_nodes(system("In", "windows")), {}, "Linux"),
        (on_nodes(system("NotIn", "linux"), system("In", "windows")), {}, "Linux"),
        ({}, {ENABLED: "false"}, ENABLED),
    ],
)
def test_a_pod_that_is_never_gated_is_left_alone_and_it_is_said_why(spec: Json, annotations: Json, why: str) -> None:
    pod = a_pod(WEB, annotations=annotations, **spec)
    assert why in (exempt(pod) or "")
    assert patch(pod, OPTIONS) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"}},
        {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
        on_nodes(system("In", "windows", "linux")),
        on_nodes(system("NotIn", "windows")),
        on_nodes(system("In", "windows"), system("Exists")),
        on_nodes({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["windows"]}]}),
        {"affinity": {"nodeAffinity": {}}},
    ],
)
def test_a_pod_that_may_run_on_linux_is_gated(spec: Json) -> None:
    pod = a_pod(WEB, **spec)
    assert exempt(pod) is None
    assert patch(pod, OPTIONS)


def test_the_gate_passes_the_restricted_level_of_pod_security() -> None:
    security = a_gate(a_pod(WEB))["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "runAsUser" not in security
    assert a_gate(a_pod(WEB, securityContext={"runAsUser": 0}))["securityContext"]["runAsUser"] > 0


def test_a_pods_class_of_quality_of_service_stays() -> None:
    guaranteed = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}
    assert "resources" not in a_gate(a_pod(WEB)), "best effort"
    burstable = a_gate(a_pod({**WEB, "resources": {"requests": {"cpu": "1"}}}))["resources"]
    assert "limits" not in burstable
    resources = a_gate(a_pod({**WEB, "resources": guaranteed}))["resources"]
    assert resources["limits"] == resources["requests"]
    assert "resources" not in a_gate(a_pod({**WEB, "resources": guaranteed}, resources={"limits": {"cpu": "2"}}))


LIMITED: Json = {"requests": {"cpu": "5m"}, "limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("own", "init", "limits"),
    [
        ([LIMITED], [], {"cpu", "memory"}),
        ([LIMITED, {"limits": {"memory": "1Gi"}}], [], {"memory"}),
        ([LIMITED, {"requests": {"cpu": "1"}}], [], set()),
        ([LIMITED], [{}], set()),
        ([LIMITED], [LIMITED], {"cpu", "memory"}),
    ],
)
def test_the_gate_has_a_limit_of_each_resource_that_all_of_the_pods_own_containers_limit(
    own: list[Json], init: list[Json], limits: set[str]
) -> None:
    containers = [{**WEB, "name": f"c{number}", "resources": each} for number, each in enumerate(own)]
    before = [{"name": f"i{number}", "resources": each} for number, each in enumerate(init)]
    resources = a_gate(a_pod(*containers, initContainers=before))["resources"]
    assert set(resources.get("limits", ())) == limits
    assert set(resources["requests"]) == {"cpu", "memory"}


def test_a_gate_requests_what_limit_ranges_commonly_ask_of_a_container() -> None:
    requests = a_gate(a_pod({**WEB, "resources": LIMITED}))["resources"]["requests"]
    assert thousandths(requests["cpu"]) >= thousandths("10m")
    assert thousandths(requests["memory"]) >= thousandths("32Mi")


def test_a_dependency_on_an_init_container_is_refused_as_one() -> None:
    pod = a_pod(WEB, annotations={DEPENDS_ON: '{"web": ["migrate"]}'}, initContainers=[{"name": "migrate"}])
    with pytest.raises(InvalidGraph, match="is an init container"):
        patch(pod, OPTIONS)


def a_gate_with(resources: Json, requests: Json | None = None, limits: Json | None = None) -> Json:
    """Return the resources of a pod's gate; requests and limits are those of the options."""
    pod = a_pod({**WEB, "resources": resources})
    options = dataclasses.replace(OPTIONS, requests=requests or {}, limits=limits or {})
    gate: Json = patched(pod, patch(pod, options))["spec"]["initContainers"][0]
    return dict(gate.get("resources", {}))


def test_resources_that_are_given_are_taken_as_they_are_but_a_guaranteed_pod_stays_so() -> None:
    given: Json = {"requests": {"cpu": "20m"}, "limits": {"memory": "64Mi"}}
    assert a_gate_with({}, **given) == given
    assert a_gate_with(LIMITED, **given) == {
        "requests": {"cpu": "20m", "memory": "32Mi"},
        "limits": {"cpu": "100m", "memory": "64Mi"},
    }
    both = {"cpu": "20m", "memory": "64Mi"}
    assert a_gate_with({"limits": {"cpu": "1", "memory": "1Gi"}}, **given) == {"requests": both, "limits": both}


def test_what_is_not_given_goes_with_what_is() -> None:
    """A quota on limits, or one on requests, asks for each of every container; no request is above its limit."""
    requests = {"cpu": "50m", "memory": "64Mi"}
    assert a_gate_with(LIMITED, requests=requests) == {
        "requests": requests,
        "limits": {"cpu": "100m", "memory": "64Mi"},
    }
    small = {"ephemeral-storage": "1Mi"}
    assert a_gate_with({"requests": {"ephemeral-storage": "1Gi"}}, limits=small) == {"requests": small, "limits": small}
    assert a_gate_with(LIMITED, limits={"cpu": "5m"}) == {
        "requests": {"cpu": "5m", "memory": "32Mi"},
        "limits": {"cpu": "5m", "memory": "32Mi"},
    }


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": "1"}},
        {"requests": {"cpu": "0"}, "limits": {"cpu": "0", "memory": "0"}},
        {"requests": {"hugepages-2Mi": "0"}},
    ],
)
def test_a_pod_whose_class_is_best_effort_by_its_amounts_stays_so(resources: Json) -> None:
    assert a_gate_with(resources) == {}


def test_a_gate_has_a_small_disk_if_all_containers_have_one() -> None:
    """Else a LimitRange gives it the greatest amount that it allows."""
    disk = {"ephemeral-storage": "64Mi"}
    assert a_gate_with({"requests": {"ephemeral-storage": "1Gi"}}) == {"requests": disk}
    assert a_gate_with({"limits": {"ephemeral-storage": "1Gi"}}) == {"requests": disk, "limits": disk}
    guaranteed = a_gate_with({"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}})
    assert guaranteed["limits"] == guaranteed["requests"] == {"cpu": "50m", "memory": "32Mi"} | disk
    assert "ephemeral-storage" not in a_gate_with({"limits": {"cpu": "1"}})["requests"]


def test_dependencies_that_cannot_be_kept_are_refused_with_the_members_of_the_cycle() -> None:
    annotations = {DEPENDS_ON: '{"web": ["log"], "log": ["web"]}'}
    with pytest.raises(InvalidGraph, match="web -> log -> web"):
        patch(a_pod(WEB, LOG, annotations=annotations), OPTIONS)
    with pytest.raises(InvalidGraph, match="mag"):
        patch(a_pod(WEB, LOG, annotations={DEPENDS_ON: '{"web": ["mag"]}'}), OPTIONS)
    assert patch(a_pod(WEB, LOG, annotations={DEPENDS_ON: '{"web": ["log"]}'}), OPTIONS)


def test_the_doorbell_takes_no_port_of_the_pods_own() -> None:
    pod = a_pod({**WEB, "ports": [{"containerPort": FIRST_DOORBELL_PORT}]})
    assert a_gate(pod)["readinessProbe"]["httpGet"]["port"] == FIRST_DOORBELL_PORT + 1


def test_a_gate_that_answers_late_on_a_busy_node_leaves_its_pod_ready() -> None:
    probe = a_gate(a_pod(WEB))["readinessProbe"]
    assert (probe["periodSeconds"], probe["timeoutSeconds"]) == (1, PROBE_SECONDS)
    assert PROBE_SECONDS >= probe_server._REQUEST_SECONDS
    static = (ROOT / "examples" / "static-pod.yaml").read_text()
    assert f"timeoutSeconds: {PROBE_SECONDS}\n" in static
    policy = (ROOT / "charts/resource-slack/templates/throttler/_admissionpolicy.tpl").read_text()
    assert f"timeoutSeconds: {PROBE_SECONDS}," in policy


def test_quantities_that_cannot_be_read_are_left_to_the_api_server() -> None:
    odd = {"limits": {"cpu": "x", "memory": "y"}, "requests": {"cpu": "z"}}
    resources = a_gate(a_pod({**WEB, "resources": odd}))["resources"]
    assert resources["requests"] != resources["limits"], "it is not called Guaranteed"


def test_the_copy_of_a_static_pod_is_left_alone() -> None:
    pod = a_pod(WEB, annotations={"kubernetes.io/config.mirror": "0123"})
    assert "static pod" in (exempt(pod) or "")
    assert patch(pod, OPTIONS) == []
    assert patch_by_config_map(pod, "start-1") == []


OURS: Json = {"fileKeyRef": {"volumeName": PERMITS, "path": "web.env", "key": "GO"}}
THEIRS: Json = {"fileKeyRef": {"volumeName": PERMITS, "path": "log.env", "key": "GO"}}


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (a_pod({**WEB, "env": [{"name": VARIABLE, "value": "1"}]}), "spec.containers[0].env[0].name"),
        (a_pod(LOG, {**WEB, "env": [LOG["env"][0], {"name": VARIABLE, "valueFrom": THEIRS}]}), "containers[1].env[1]"),
        (a_pod(WEB, volumes=[{"name": PERMITS, "hostPath": {"path": "/"}}]), "spec.volumes[0].name"),
        (a_pod(WEB, volumes=[{"name": "a"}, {"name": TOKEN, "emptyDir": {}}]), "spec.volumes[1].name"),
        (a_pod(WEB, {"name": GATE}), "spec.containers[1].name"),
        (a_pod(WEB, initContainers=[{"name": GATE, "image": "mine"}]), "spec.initContainers[0].name"),
    ],
)
def test_what_a_user_has_under_a_name_of_ours_is_refused_with_the_field_and_never_written_over(
    pod: Json, field: str
) -> None:
    with pytest.raises(NameTaken, match=re.escape(field)):
        patch(pod, OPTIONS)


@pytest.mark.parametrize("source", [None, {}, {"fileKeyRef": None}])
def test_what_a_webhook_with_an_older_api_has_lost_of_ours_is_put_back(source: Json | None) -> None:
    """amazon-eks-pod-identity-webhook 208: without restartPolicy the gate would have to end before the pod starts."""
    pod = a_pod(WEB, LOG, initContainers=[{"name": "mesh", "restartPolicy": "Always"}])
    whole = patched(pod, patch(pod, OPTIONS))
    lost = copy.deepcopy(whole)
    del lost["spec"]["initContainers"][0]["restartPolicy"]
    for container in lost["spec"]["containers"]:
        (entry,) = (entry for entry in container["env"] if entry["name"] == VARIABLE)
        entry.pop("valueFrom")
        if source is not None:
            entry["valueFrom"] = source
    assert patched(lost, patch(lost, OPTIONS)) == whole


def test_a_pod_that_carries_its_gate_by_hand_is_as_it_was_made() -> None:
    by_hand = patched(a_pod(WEB), patch(a_pod(WEB), OPTIONS))
    by_hand["spec"]["volumes"][0]["emptyDir"] = {"medium": "Memory", "sizeLimit": "1Mi"}
    by_hand["spec"]["containers"][0]["env"][0]["valueFrom"] = OURS
    assert patch(by_hand, OPTIONS) == []


def test_a_pod_may_wait_for_keys_of_a_config_map_without_gate_and_volumes() -> None:
    pod = a_pod(WEB, LOG)
    result = patched(pod, patch_by_config_map(pod, "start-1"))
    assert result["metadata"]["annotations"] == {PERMITS_IN: "start-1"}
    assert "volumes" not in result["spec"]
    assert not gated(result)
    keys = [container["env"][-1]["valueFrom"]["configMapKeyRef"] for container in result["spec"]["containers"]]
    assert keys == [{"name": "start-1", "key": name, "optional": False} for name in ("web", "log")]
    assert patch_by_config_map(result, "start-2") == [], "the one that it has"
    noted = a_pod(WEB, annotations={"a/b": "c"})
    after = patched(noted, patch_by_config_map(noted, "start-1"))
    assert after["metadata"]["annotations"] == {"a/b": "c", PERMITS_IN: "start-1"}
    with pytest.raises(NameTaken, match="annotations"):
        patch_by_config_map(a_pod(WEB, annotations={PERMITS_IN: "start-of-another"}), "start-1")


@run_for_each(
    ("pod", "field"),
    [
        ([], "the pod"),
        ({"spec": []}, "spec"),
        ({"metadata": {"annotations": {ENABLED: True}}, "spec": {}}, "metadata.annotations"),
        ({"spec": {"containers": ["web"]}}, "spec.containers"),
        ({"spec": {"containers": [{"name": 1}]}}, "spec.containers"),
        (a_pod({**WEB, "env": "PATH"}), "env"),
        (a_pod({**WEB, "ports": [{"containerPort": "http"}]}), "ports"),
        (a_pod({**WEB, "resources": {"limits": []}}), "resources.limits"),
        (a_pod(WEB, volumes={"name": "a"}), "spec.volumes"),
        (a_pod(WEB, initContainers=[None]), "spec.initContainers"),
    ],
)
def test_what_is_no_pod_is_told_with_the_field(pod: Any, field: str) -> None:
    with pytest.raises(InvalidManifest, match=re.escape(field)):
        patch(pod, OPTIONS)


_WORDS = st.sampled_from(
    [
        *("metadata", "annotations", "spec", "containers", "initContainers", "volumes", "name", "env", "ports"),
        *("containerPort", "resources", "limits", "requests", "cpu", "memory", "os", "securityContext", "hostNetwork"),
        *("valueFrom", "value", "restartPolicy", "emptyDir", ENABLED, DEPENDS_ON, PERMITS_IN, VARIABLE, GATE),
    ]
)
_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(pod=_JUNK, spec=st.dictionaries(_WORDS, _JUNK, max_size=5), annotations=_JUNK)
def test_garbage_has_a_patch_that_can_be_applied_or_an_error_of_ours(pod: Any, spec: Json, annotations: Any) -> None:
    for found in (pod, {"metadata": {"annotations": annotations}, "spec": spec}):
        with contextlib.suppress(InvalidManifest, InvalidGraph, NameTaken):
            patched(found, patch(found, OPTIONS))
        with contextlib.suppress(InvalidManifest, InvalidGraph, NameTaken):
            patched(found, patch_by_config_map(found, "start-1"))


def test_a_pod_whose_containers_leave_no_port_is_left_alone() -> None:
    ports = [{"containerPort": port} for port in range(FIRST_DOORBELL_PORT, 65_536)]
    pod = a_pod({**WEB, "ports": ports})
    assert "every port" in (exempt(pod) or "")
    assert patch(pod, OPTIONS) == []
