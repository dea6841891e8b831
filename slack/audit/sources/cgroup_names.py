"""What a cgroup's path says of it: its level, the pod's uid, the container's id and the runtime.

The kubelet makes `kubepods/<qos>/pod<uid>/` (pkg/kubelet/cm, cgroupfs driver) or the same as nested slices, where the
dashes of a uid are underscores; the runtime puts a directory per container below. Guaranteed pods have no QoS level,
static pods have 32 hexadecimal digits for a uid, and a kubelet with a `cgroupRoot` has all that below it, in slices
with the root's name in front of each. A node in a container (kind) has the outer container in front.
"""

import re
from typing import NamedTuple

from slack.audit.findings.sample import CgroupLevel, CgroupTarget

_QOS = ("burstable", "besteffort")
_KUBEPODS = re.compile(r"(?:.+-)?kubepods(?:\.slice)?")
_QOS_SLICE = re.compile(r"(?:.+-)?kubepods-(?:burstable|besteffort)\.slice").fullmatch
_POD = re.compile(r"pod(?P<uid>[0-9A-Za-z._-]+)").fullmatch
_POD_SLICE = re.compile(r"(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod(?P<uid>[0-9A-Za-z._]+)\.slice").fullmatch
# A runtime with the cgroupfs driver below a kubelet with the systemd one: slice:prefix:id as one directory's name.
_COLONS = re.compile(
    r"(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod(?P<uid>[0-9A-Za-z._]+)\.slice:(?P<prefix>[^:]+):(?P<id>[^:]+)"
)
_ID = re.compile(r"[0-9a-f]{12,64}")
_RUNTIMES = {
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "docker": "docker",
    "libpod": "podman",
}
_MONITORS = ("crio-conmon-", "libpod-conmon-", "kata_overhead")
"""cgroups of what watches over a container, not of a container; of Kata the parts of a sandbox outside of its guest."""
_KATA = "kata_"
"""Before a container's id in a pod's cgroup (Kata with the cgroupfs driver)."""
_ECS_ID = re.compile(r"[0-9a-f]{32}-[0-9]+")
"""A container of a Fargate task: the task's id and a number."""


class CgroupName(NamedTuple):
    """What a path says."""

    level: CgroupLevel
    pod_uid: str = ""
    """As the API has it, with dashes; of a static pod the hash of its manifest."""
    container_id: str = ""
    """Without `containerd://`."""
    runtime: str = ""
    """containerd, cri-o, docker or podman; '' where the path does not tell."""


def name_of(path: str) -> CgroupName | None:
    """Return what the path of a cgroup says; None for monitors of containers, which nobody audits.

    Usage:
        name_of("/kubepods/burstable/pod8d2c.../3f0a...").level  # Level.CONTAINER
    """
    parts = [part for part in path.split("/") if part]
    if not parts:
        return CgroupName(CgroupLevel.NODE)
    if ("-conmon-" in path or "kata_overhead" in path) and any(part.startswith(_MONITORS) for part in parts):
        return None
    # The outermost one: below its own cgroup a container may make any names, those of other pods too.
    for place, part in enumerate(parts):
        if "kubepods" not in part:
            continue
        if _KUBEPODS.fullmatch(part):
            return _in_kubepods(parts[place + 1 :])
        if _COLONS.fullmatch(part):
            return _in_colons(parts[place:])
    container_id, runtime = _container(parts[-1])
    if not runtime and len(parts) > 1 and container_id:
        runtime = _RUNTIMES.get(parts[-2], "")
    if not runtime and parts[0] == "ecs" and len(parts) > 2 and (container_id or _ECS_ID.fullmatch(parts[-1])):
        container_id, runtime = parts[-1], "docker"  # the ECS agent: /ecs/TASK/CONTAINER
    return CgroupName(CgroupLevel.OTHER, "", container_id if runtime else "", runtime)


def target_of(path: str, node: str = "", above: CgroupTarget | None = None) -> CgroupTarget | None:
    """Return the cgroup of this path with all that the path says; None as `name_of`.

    `above`, the one that it is directly in, saves work: most cgroups of a node are containers in a pod.
    """
    if above is not None and above.level is CgroupLevel.POD:
        part = path.rpartition("/")[2]
        if part.startswith(_MONITORS):
            return None
        return CgroupTarget(CgroupLevel.CONTAINER, path, node, above.pod_uid, _container(part)[0] or part)
    name = name_of(path)
    if name is None:
        return None
    return CgroupTarget(name.level, path, node, pod_uid=name.pod_uid, container_id=name.container_id)


def _in_colons(parts: list[str]) -> CgroupName:
    """Return the name of a container whose directory says pod, runtime and id, and of what is below it."""
    found = _COLONS.fullmatch(parts[0])
    assert found is not None
    level = CgroupLevel.CONTAINER if len(parts) == 1 else CgroupLevel.OTHER
    return CgroupName(level, found["uid"].replace("_", "-"), found["id"], _RUNTIMES.get(found["prefix"], ""))


def _in_kubepods(parts: list[str]) -> CgroupName:
    """Return the name of what is below a kubepods."""
    if not parts:
        return CgroupName(CgroupLevel.KUBEPODS)
    if parts[0] in _QOS or _QOS_SLICE(parts[0]):
        parts = parts[1:]
        if not parts:
            return CgroupName(CgroupLevel.QOS)
    if _COLONS.fullmatch(parts[0]):
        return _in_colons(parts)
    if found := _POD(parts[0]):
        uid = found["uid"]
    elif found := _POD_SLICE(parts[0]):
        uid = found["uid"].replace("_", "-")
    else:
        return CgroupName(CgroupLevel.OTHER)
    if len(parts) == 1:
        return CgroupName(CgroupLevel.POD, uid)
    container_id, runtime = _container(parts[1])
    # Deeper ones are the container's own: crun's /container, or what systemd in a container makes.
    return CgroupName(
        CgroupLevel.CONTAINER if len(parts) == 2 else CgroupLevel.OTHER, uid, container_id or parts[1], runtime
    )


def _container(part: str) -> tuple[str, str]:
    """Return the id and the runtime that a container's directory tells; '' for what it does not."""
    if _ID.fullmatch(part):
        return part, ""
    part = part.removesuffix(".scope").removeprefix(_KATA)
    prefix, _, rest = part.rpartition("-")
    if _ID.fullmatch(rest) and prefix in _RUNTIMES:
        return rest, _RUNTIMES[prefix]
    return (part, "") if _ID.fullmatch(part) else ("", "")
