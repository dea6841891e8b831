"""What the labels of a cAdvisor series say of a cgroup, in a kubelet's answer or in Prometheus.

The kubelet writes id (the cgroup's path), name (the container's id, with CRI-O and Docker a name made of others),
namespace, pod, container and image (pkg/kubelet/server/server.go, containerPrometheusLabelsFunc). Prometheus may have
renamed them to exported_*, and some installations drop id: then names stand for the path, which are as stable.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from sys import intern

from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.sources.cgroup_names import target_of as target_of_path

_DOCKER_SANDBOX = "POD"
_SANDBOX_NAME = "k8s_POD_"
"""What the names of sandboxes begin with, with Docker and CRI-O: k8s_POD_NAME_NAMESPACE_UID_ATTEMPT."""
_OF_PODS = (CgroupLevel.POD, CgroupLevel.CONTAINER, CgroupLevel.OTHER)
"""Levels at which a cgroup can be that of a pod."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")
OWN_LABELS = {
    "namespace": "container_label_io_kubernetes_pod_namespace",
    "pod": "container_label_io_kubernetes_pod_name",
    "container": "container_label_io_kubernetes_container_name",
}
"""What a standalone cAdvisor (`--store_container_labels`) calls the names: labels of the container itself."""


def label(labels: Mapping[str, str], name: str) -> str:
    """Return a label of the cgroup. Sources in this order:

    1. The container's own labels, as a standalone cAdvisor has them: all three names from there, or none. A sandbox has
       no name of a container among them, and the plain label is that of the scraped target.
    2. `exported_*`, which Prometheus makes if the scraped target has a label of that name.
    3. The plain label.
    """
    if name in OWN_LABELS and labels.get(OWN_LABELS["pod"]):
        return labels.get(OWN_LABELS[name], "")
    return labels.get(f"exported_{name}") or labels.get(name, "")


def names_the_scraped(labels: Mapping[str, str]) -> bool:
    """Say whether the names are those of the pod that was scraped, and not of the cgroup.

    Prometheus adds `namespace`, `pod` and often `container` of its target to each series of a standalone cAdvisor. That
    shows at two sorts of cgroups: a kubelet gives no container to a pod as a whole, and no pod to what is above pods.
    """
    if any(labels.get(f"exported_{name}") or labels.get(own) for name, own in OWN_LABELS.items()):
        return False
    found = target_of_path(label(labels, "id"), "") if label(labels, "id").startswith("/") else None
    if found is None or found.level is CgroupLevel.CONTAINER:
        return False
    return bool(labels.get("container")) or (found.level not in _OF_PODS and bool(labels.get("pod")))


def without_names(target: CgroupTarget) -> CgroupTarget:
    """Return a target that is known by its path alone."""
    found = target_of_path(target.path, target.node)
    level = CgroupLevel.OTHER if found is None else found.level
    return replace(target, level=level, namespace="", pod="", container="")


def target_of(labels: Mapping[str, str], node: str = "") -> CgroupTarget | None:
    """Return the cgroup of a series; None for a pod's sandbox and for what no name says anything of."""
    path = label(labels, "id")
    namespace, pod, container = label(labels, "namespace"), label(labels, "pod"), label(labels, "container")
    runtime_name = label(labels, "name")
    if container == _DOCKER_SANDBOX or runtime_name.startswith(_SANDBOX_NAME):
        return None
    if pod and runtime_name and not container:
        return None
    if path.startswith("/"):
        found = target_of_path(path, node)
        if found is None:
            return None
    elif pod:
        found = CgroupTarget(CgroupLevel.OTHER, by_names(labels), node)
    else:
        return None
    level, container_id = found.level, found.container_id
    if level is CgroupLevel.OTHER and pod:  # a tree that is not the kubelet's own, or no path
        level = CgroupLevel.CONTAINER if container else CgroupLevel.POD
    if level is CgroupLevel.CONTAINER and not container_id and _CONTAINER_ID.fullmatch(runtime_name):
        container_id = runtime_name
    if level not in _OF_PODS:
        namespace = pod = ""
    if level is not CgroupLevel.CONTAINER and level is not CgroupLevel.OTHER:
        container = ""  # of the scraped target
    # A cluster has half a million of these twice, before and after: their texts are kept once.
    return CgroupTarget(
        level,
        intern(found.path),
        node,
        pod_uid=intern(found.pod_uid),
        container_id=intern(container_id),
        namespace=intern(namespace),
        pod=intern(pod),
        container=intern(container),
    )


def by_names(labels: Mapping[str, str]) -> str:
    """Return what stands for the path where there is none: /namespace/pod or /namespace/pod/container.

    >>> by_names({"namespace": "shop", "pod": "api-x", "container": "api"})
    '/shop/api-x/api'
    """
    names = (label(labels, name) for name in ("namespace", "pod", "container"))
    return "/" + "/".join(name for name in names if name)
