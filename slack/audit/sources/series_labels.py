"""What the labels of a cAdvisor series say of a cgroup, in a kubelet's answer or in Prometheus.

The kubelet writes id (the cgroup's path), name (the container's id, with CRI-O and Docker a name made of others),
namespace, pod, container and image (pkg/kubelet/server/server.go, containerPrometheusLabelsFunc). Prometheus may have
renamed them to exported_*, and some installations drop id: then names stand for the path, which are as stable.
"""

import re
from collections.abc import Mapping
from sys import intern

from slack.audit.findings.sample import Level, Target
from slack.audit.sources.cgroup_names import target_of as target_of_path

_DOCKER_SANDBOX = "POD"
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


def label(labels: Mapping[str, str], name: str) -> str:
    """Return a label of the cgroup; Prometheus renames it where the scraped target has one of that name."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def target_of(labels: Mapping[str, str], node: str = "") -> Target | None:
    """Return the cgroup of a series; None for a pod's sandbox and for what no name says anything of."""
    path = label(labels, "id")
    namespace, pod, container = label(labels, "namespace"), label(labels, "pod"), label(labels, "container")
    runtime_name = label(labels, "name")
    if container == _DOCKER_SANDBOX or (pod and runtime_name and not container):
        return None
    if path.startswith("/"):
        found = target_of_path(path, node)
        if found is None:
            return None
    elif pod:
        found = Target(Level.OTHER, by_names(labels), node)
    else:
        return None
    level, container_id = found.level, found.container_id
    if level is Level.OTHER and pod:  # a tree that is not the kubelet's own, or no path
        level = Level.CONTAINER if container else Level.POD
    if level is Level.CONTAINER and not container_id and _CONTAINER_ID.fullmatch(runtime_name):
        container_id = runtime_name
    # A cluster has half a million of these twice, before and after: their texts are kept once.
    return Target(
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
