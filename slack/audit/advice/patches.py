"""An advice as something ready to use: a command, a JSON patch, and strategic-merge YAML for the repository.

Everything is text for people or their tools; nothing here is sent. A resize cannot remove a limit (the API server
refuses that), so a removal exists for templates only. Requests are written out beside a limit wherever they are known,
because a request that was left out follows the limit. A value that was not read is never overwritten: a variable is
added only if the container is known not to have it.
"""

import json
import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from slack.audit.findings.sample import CgroupTarget
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts
from slack.cluster.quantity import format_cpu

_API_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
}
_LIKE_A_DEPLOYMENTS = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")
"""A name and the template's hash in the letters that it is written with (apimachinery's SafeEncodeString)."""
PERIOD_GATE = "CustomCPUCFSQuotaPeriod"
_KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


class PatchKind(StrEnum):
    """What it changes."""

    RAISE_LIMIT = "raise-limit"
    RAISE_POD_LIMIT = "raise-pod-limit"
    REMOVE_LIMIT = "remove-limit"
    """In the owner's template only; pods are made anew."""
    ENVIRONMENT = "environment"
    """A variable of the runtime, in the owner's template."""
    BURST = "burst"
    QUOTA_OFF = "quota-off"
    """cpuCFSQuota: false for a pool of nodes."""
    SHORTER_PERIOD = "shorter-period"


@dataclass(frozen=True, slots=True)
class Patch:
    """One change in up to three forms; a form that makes no sense is None."""

    kind: PatchKind
    about: str
    """What is changed, such as `Deployment shop/api, container web`."""
    command: str | None
    """A line for a shell, such as `kubectl patch pod ... --subresource resize`: at once, for as long as the pod is."""
    json_patch: str | None
    """RFC 6902 as JSON text: of a raise for the pod's `resize` subresource, else for the owner. It begins with a test
    of the container's name, so that it fails rather than changes another one."""
    merge_yaml: str | None
    """Strategic-merge YAML of the owner (or a KubeletConfiguration drop-in), for GitOps."""
    container: str = ""
    cpu_limit_millis: int | None = None
    """The new limit of a raise."""
    cpu_request_millis: int | None = None
    """The new request, where it has to move with the limit (Guaranteed pods)."""
    burst_us: int | None = None


def raise_limit(pod: AuditedPodFacts, container: AuditedContainerFacts, cpu_limit_millis: int) -> Patch:
    """Return the raise of a container's limit; a Guaranteed pod's request moves with it, or the class would change."""
    moved = cpu_limit_millis if pod.qos_class == "Guaranteed" else None
    resources = _resources(cpu_limit_millis, moved)
    place = f"/spec/{_list_of(container)}/{container.index}"
    steps = [
        {"op": "test", "path": f"{place}/name", "value": container.name},
        *(
            {"op": "add", "path": f"{place}/resources/{kind}/cpu", "value": cpu["cpu"]}
            for kind, cpu in resources.items()
        ),
    ]
    entry = {"name": container.name, "resources": resources}
    pinned = {"name": container.name, "resources": _resources(cpu_limit_millis, moved or container.cpu_request_millis)}
    # of init containers, only sidecars can be resized
    resizes = not pod.static and (container.sidecar or not container.init)
    return Patch(
        kind=PatchKind.RAISE_LIMIT,
        about=_about(pod, container),
        command=_resize(pod, {_list_of(container): [entry]}) if resizes else None,
        json_patch=json.dumps(steps) if resizes else None,
        merge_yaml=_template(pod, {_list_of(container): [pinned]}),
        container=container.name,
        cpu_limit_millis=cpu_limit_millis,
        cpu_request_millis=moved,
    )


def raise_pod_limit(pod: AuditedPodFacts, cpu_limit_millis: int) -> Patch:
    """Return the raise of spec.resources.limits.cpu, the pod's own limit (resizable since 1.36)."""
    moved = cpu_limit_millis if pod.qos_class == "Guaranteed" else None
    resources = _resources(cpu_limit_millis, moved)
    steps = [
        {"op": "add", "path": f"/spec/resources/{kind}/cpu", "value": cpu["cpu"]} for kind, cpu in resources.items()
    ]
    pinned = _resources(cpu_limit_millis, moved or pod.cpu_request_millis)
    return Patch(
        kind=PatchKind.RAISE_POD_LIMIT,
        about=_about(pod, None),
        command=_resize(pod, {"resources": resources}) if not pod.static else None,
        json_patch=json.dumps(steps) if not pod.static else None,
        merge_yaml=_template(pod, {"resources": pinned}),
        cpu_limit_millis=cpu_limit_millis,
        cpu_request_millis=moved,
    )


def remove_limit(pod: AuditedPodFacts, container: AuditedContainerFacts) -> Patch | None:
    """Return the removal of a container's limit from its owner's template; None where there is no such template."""
    if no_template(pod):
        return None
    resources: dict[str, dict[str, str | None]] = {"limits": {"cpu": None}}
    if container.cpu_request_millis is not None:
        resources["requests"] = {"cpu": format_cpu(container.cpu_request_millis)}
    place = f"/spec/template/spec/{_list_of(container)}/{container.index}"
    steps = [
        {"op": "test", "path": f"{place}/name", "value": container.name},
        {"op": "remove", "path": f"{place}/resources/limits/cpu"},
    ]
    return Patch(
        kind=PatchKind.REMOVE_LIMIT,
        about=_about(pod, container),
        command=None,
        json_patch=json.dumps(steps),
        merge_yaml=_template(pod, {_list_of(container): [{"name": container.name, "resources": resources}]}),
        container=container.name,
    )


def no_variable(container: AuditedContainerFacts | None, name: str) -> str | None:
    """Return why a variable cannot be added without the loss of a value; None if it can."""
    if container is None:
        return "the container is not known, and so neither whether it sets the variable already"
    if container.variables is None:
        return f"envFrom may set {name} already, and what it sets cannot be read here"
    for known, value in container.variables:
        if known == name:
            if value is None:
                return f"{name} is set already (from another object), or envFrom may set it: change it by hand"
            return f"{name} is set already ({repr(value) if value else 'empty'}): change it by hand, and keep its rest"
    return None


def environment(pod: AuditedPodFacts, container: AuditedContainerFacts, name: str, value: str) -> Patch | None:
    """Return a variable for a container, in its owner's template; None where there is no such template, or where a
    value could be lost."""
    if no_template(pod) or no_variable(container, name):
        return None
    entry = {"name": container.name, "env": [{"name": name, "value": value}]}
    return Patch(
        kind=PatchKind.ENVIRONMENT,
        about=f"{_about(pod, container)}, variable {name}",
        command=None,
        json_patch=None,  # where env is absent the list must be made, where it is not it must not be replaced
        merge_yaml=_template(pod, {_list_of(container): [entry]}),
        container=container.name,
    )


def burst(target: CgroupTarget, quota_us: int, hierarchy: str) -> Patch:
    """Return the write of a burst credit of one quota, the most that the kernel takes, for a root shell of the node.

    A source that does not see the hierarchy says ''; then it is taken for v2, as most nodes are.
    """
    if hierarchy in ("v1", "hybrid"):
        file = f"/sys/fs/cgroup/cpu{target.path}/cpu.cfs_burst_us"
    else:
        file = f"/sys/fs/cgroup{target.path}/cpu.max.burst"
    return Patch(
        kind=PatchKind.BURST,
        about=f"cgroup {target.path}" + (f" on node {target.node}" if target.node else ""),
        command=f"echo {quota_us} > {shlex.quote(file)}",
        json_patch=None,
        merge_yaml=None,
        container=target.container,
        burst_us=quota_us,
    )


def quota_off() -> Patch:
    """Return the kubelet's drop-in that makes a pool of nodes ignore CPU limits."""
    return _drop_in(PatchKind.QUOTA_OFF, {"cpuCFSQuota": False})


def shorter_period(period_ms: int) -> Patch:
    """Return the kubelet's drop-in for a shorter period, with the feature gate that it needs.

    Without the gate a kubelet of a version that has it off refuses its configuration, and does not start
    (pkg/kubelet/apis/config/validation: cpuCFSQuotaPeriod). A gate that is on already may be named.
    """
    fields = {"featureGates": {PERIOD_GATE: True}, "cpuCFSQuotaPeriod": f"{period_ms}ms"}
    return _drop_in(PatchKind.SHORTER_PERIOD, fields)


def no_template(pod: AuditedPodFacts) -> str | None:
    """Return why a pod's template cannot be patched; None when it can."""
    if pod.static:
        return "a static pod: change its file on the node"
    if not pod.owner_kind:
        return "the pod has no owner whose template could be changed: change what creates it"
    if pod.owner_kind == "Job":
        return f"the template of Job {pod.namespace}/{pod.owner_name} cannot be changed: change what creates the Job"
    if pod.owner_kind not in _API_VERSIONS:
        return f"owner {pod.owner_kind} {pod.namespace}/{pod.owner_name} is of a kind whose template is not known here"
    if pod.owner_kind == "ReplicaSet" and _LIKE_A_DEPLOYMENTS.search(pod.owner_name):
        # its pods have no label pod-template-hash to tell which Deployment
        return (
            f"ReplicaSet {pod.namespace}/{pod.owner_name} is named like a Deployment's, which would undo a change of "
            "it: change the Deployment"
        )
    return None


def _resources(cpu_limit_millis: int, cpu_request_millis: int | None) -> dict[str, dict[str, str]]:
    resources = {"limits": {"cpu": format_cpu(cpu_limit_millis)}}
    if cpu_request_millis is not None:
        resources["requests"] = {"cpu": format_cpu(cpu_request_millis)}
    return resources


def _list_of(container: AuditedContainerFacts) -> str:
    return "initContainers" if container.init else "containers"


def _about(pod: AuditedPodFacts, container: AuditedContainerFacts | None) -> str:
    whose = (
        f"{pod.owner_kind} {pod.namespace}/{pod.owner_name}" if pod.owner_kind else f"Pod {pod.namespace}/{pod.name}"
    )
    return f"{whose}, container {container.name}" if container else f"{whose}, the pod as a whole"


def _resize(pod: AuditedPodFacts, spec: dict[str, Any]) -> str:
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    words = ["kubectl", "-n", pod.namespace, "patch", "pod", pod.name, "--subresource", "resize", "--patch", patch]
    return shlex.join(words)


def _template(pod: AuditedPodFacts, spec: dict[str, Any]) -> str | None:
    if no_template(pod) is not None:
        return None
    document = {
        "apiVersion": _API_VERSIONS[pod.owner_kind],
        "kind": pod.owner_kind,
        "metadata": {"name": pod.owner_name, "namespace": pod.namespace},
        "spec": {"template": {"spec": spec}},
    }
    return yaml.safe_dump(document, sort_keys=False)


def _drop_in(kind: PatchKind, fields: dict[str, Any]) -> Patch:
    return Patch(
        kind=kind,
        about="KubeletConfiguration of the node pool: a file *.conf in the kubelet's --config-dir, then restart it",
        command=None,
        json_patch=None,
        merge_yaml=yaml.safe_dump({**_KUBELET, **fields}, sort_keys=False),
    )
