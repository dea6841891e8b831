"""What a pod is given: once, without a change of what runs in it; its security level and class of quality stay."""

import copy
from typing import Any

import pytest

from e2e.harness.json_patch import patched
from slack.throttler.graph import BadGraph
from slack.throttler.injection import (
    DEPENDS_ON,
    ENABLED,
    FIRST_DOORBELL_PORT,
    GATE,
    PERMITS,
    TOKEN,
    VARIABLE,
    GateOptions,
    exempt,
    gated,
    patch,
)

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


@pytest.mark.parametrize(
    ("spec", "annotations", "why"),
    [
        ({"hostNetwork": True}, {}, "network"),
        ({"priorityClassName": "system-node-critical"}, {}, "system-node-critical"),
        ({"os": {"name": "windows"}}, {}, "Linux"),
        ({}, {ENABLED: "false"}, ENABLED),
    ],
)
def test_a_pod_that_is_never_gated_is_left_alone_and_it_is_said_why(spec: Json, annotations: Json, why: str) -> None:
    pod = a_pod(WEB, annotations=annotations, **spec)
    assert why in (exempt(pod) or "")
    assert patch(pod, OPTIONS) == []


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


def test_dependencies_that_cannot_be_kept_are_refused_with_the_members_of_the_cycle() -> None:
    annotations = {DEPENDS_ON: '{"web": ["log"], "log": ["web"]}'}
    with pytest.raises(BadGraph, match="web -> log -> web"):
        patch(a_pod(WEB, LOG, annotations=annotations), OPTIONS)
    with pytest.raises(BadGraph, match="mag"):
        patch(a_pod(WEB, LOG, annotations={DEPENDS_ON: '{"web": ["mag"]}'}), OPTIONS)
    assert patch(a_pod(WEB, LOG, annotations={DEPENDS_ON: '{"web": ["log"]}'}), OPTIONS)


def test_the_doorbell_takes_no_port_of_the_pods_own() -> None:
    pod = a_pod({**WEB, "ports": [{"containerPort": FIRST_DOORBELL_PORT}]})
    assert a_gate(pod)["readinessProbe"]["httpGet"]["port"] == FIRST_DOORBELL_PORT + 1


def test_quantities_that_cannot_be_read_are_left_to_the_api_server() -> None:
    odd = {"limits": {"cpu": "x", "memory": "y"}, "requests": {"cpu": "z"}}
    assert "limits" not in a_gate(a_pod({**WEB, "resources": odd}))["resources"]
