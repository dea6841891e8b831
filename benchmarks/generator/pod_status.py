"""status of a pod at each stage of its life, as the scheduler and the kubelet write it, with slots."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.generator.fields import roots
from benchmarks.generator.size import Json
from benchmarks.generator.slots import number, slot
from benchmarks.generator.states import Stage

_TRUE, _FALSE = "True", "False"


def scheduler_fields(status: Json) -> Json:
    """Return what the scheduler owns of a pod that it found no node for."""
    return roots(status={"conditions": status["conditions"]})


def kubelet_fields(status: Json) -> Json:
    """Return what the kubelet owns: all but the QoS class, and of PodScheduled the generation only."""
    tree = roots(status={key: value for key, value in status.items() if key != "qosClass"})
    conditions = {key: value for key, value in tree["f:status"]["f:conditions"].items() if key != "."}
    conditions['k:{"type":"PodScheduled"}'] = {"f:observedGeneration": {}}
    tree["f:status"]["f:conditions"] = conditions
    return tree


def _created(spec: Json) -> Json:
    return {"phase": "Pending", "qosClass": _qos_class(spec)}


def _unschedulable(spec: Json) -> Json:
    counted = f"0/{slot('nodes')} nodes are available:"
    message = (
        f"{counted} {slot('nodes')} Insufficient cpu. no new claims to deallocate, preemption: {counted} "
        f"{slot('nodes')} No preemption victims found for incoming pod."
    )
    condition = _condition("PodScheduled", _FALSE, "changed", reason="Unschedulable", message=message)
    return {"phase": "Pending", "conditions": [condition], "qosClass": _qos_class(spec)}


def _bound(spec: Json) -> Json:
    condition = _condition("PodScheduled", _TRUE, "created")
    del condition["observedGeneration"]
    return {"phase": "Pending", "conditions": [condition], "qosClass": _qos_class(spec)}


def _starting(spec: Json) -> Json:
    names = " ".join(container["name"] for container in spec["containers"])
    waits = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    conditions = _conditions({"PodReadyToStartContainers": {}, "Ready": waits, "ContainersReady": waits})
    state = {"waiting": {"reason": "ContainerCreating"}}
    return _kubelets("Pending", conditions, spec, state, ready=False, addressed=False)


def _running(spec: Json) -> Json:
    return _kubelets("Running", _conditions({}), spec, {"running": {"startedAt": slot("changed")}})


def _unready(spec: Json) -> Json:
    waits = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{_first(spec)}]"}
    conditions = _conditions({"Ready": waits, "ContainersReady": waits})
    return _kubelets("Running", conditions, spec, {"running": {"startedAt": slot("changed")}}, ready=False)


def _succeeded(spec: Json) -> Json:
    done = {"reason": "PodCompleted"}
    conditions = _conditions({"PodReadyToStartContainers": {}, "Ready": done, "ContainersReady": done})
    return _kubelets("Succeeded", conditions, spec, _terminated("container_0"), ready=False)


STATUS: Mapping[Stage, Callable[[Json], Json]] = {
    Stage.CREATED: _created,
    Stage.UNSCHEDULABLE: _unschedulable,
    Stage.BOUND: _bound,
    Stage.STARTING: _starting,
    Stage.RUNNING: _running,
    Stage.UNREADY: _unready,
    Stage.SUCCEEDED: _succeeded,
    Stage.TERMINATING: _running,
    Stage.ENDED: _running,
}
"""From the stored spec to the status of each stage."""


def _condition(kind: str, status: str, time: str, **reason: str) -> Json:
    return {
        "type": kind,
        "observedGeneration": 1,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": slot(time),
    } | reason


def _conditions(false: Mapping[str, Mapping[str, str]]) -> list[Json]:
    """Return the kubelet's conditions in its order; those that are false with reasons."""
    times = {"Initialized": "created", "PodScheduled": "created"}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return [
        _condition(kind, _FALSE if kind in false else _TRUE, times.get(kind, "changed"), **false.get(kind, {}))
        for kind in kinds
    ]


def _kubelets(
    phase: str, conditions: list[Json], spec: Json, state: Json, *, ready: bool = True, addressed: bool = True
) -> Json:
    status: Json = {"observedGeneration": 1, "phase": phase, "conditions": conditions}
    status |= {"hostIP": slot("host_ip"), "hostIPs": [{"ip": slot("host_ip")}]}
    if addressed:
        status |= {"podIP": slot("pod_ip"), "podIPs": [{"ip": slot("pod_ip")}]}
    status["startTime"] = slot("created")
    count = len(spec["containers"])
    if before := spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(container, count + place, state if container.get("restartPolicy") else None, ready)
            for place, container in enumerate(before)
        ]
    # Of a pod that is not ready it is the first container that is not, unless none of them has started.
    status["containerStatuses"] = [
        _container(container, place, state, ready or (place > 0 and "running" in state))
        for place, container in enumerate(spec["containers"])
    ]
    return status | {"qosClass": _qos_class(spec)}


def _container(container: Json, place: int, state: Json | None, ready: bool) -> Json:
    created = state is None or "waiting" not in state
    repository, _, tag = container["image"].rpartition(":")
    identifier = f"containerd://{slot(f'container_{place}')}"
    if state is None:  # an init container that has ended
        state, ready = _terminated(f"container_{place}"), True
    status: Json = {"name": container["name"], "state": state, "lastState": {}, "ready": ready}
    status |= {"restartCount": number("restarts") if place == 0 and created else 0, "image": container["image"]}
    status["imageID"] = f"{repository}@sha256:{(tag.encode().hex() * 64)[:64]}" if created else ""
    status |= {"containerID": identifier} if created else {}
    status["started"] = "running" in state
    if not created:
        return status
    status |= {"allocatedResources": container["resources"]["requests"], "resources": container["resources"]}
    status["volumeMounts"] = [_mount(mount) for mount in container["volumeMounts"]]
    user = 10001 if "securityContext" in container else 0
    return status | {"user": {"linux": {"uid": user, "gid": 0, "supplementalGroups": [0]}}}


def _mount(mount: Mapping[str, Any]) -> Json:
    kept: Json = {"name": mount["name"], "mountPath": mount["mountPath"]}
    return kept | ({"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else {})


def _terminated(container: str) -> Json:
    return {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": slot("created"),
            "finishedAt": slot("changed"),
            "containerID": f"containerd://{slot(container)}",
        }
    }


def _first(spec: Json) -> str:
    name: str = spec["containers"][0]["name"]
    return name


def _qos_class(spec: Json) -> str:
    every = [*spec.get("initContainers", ()), *spec["containers"]]
    resources = [container["resources"] for container in every]
    same = all(
        resource.get("limits", {}).get(kind) == resource["requests"][kind]
        for resource in resources
        for kind in ("cpu", "memory")
    )
    return "Guaranteed" if same else "Burstable"
