"""What is asked of a Prometheus that scrapes kube-state-metrics, and how that spells names.

kube-state-metrics writes keys of labels and names of resources with underscores. Known ones are turned back; others
stay as they are spelled there, on pods and nodes alike, so that a selector still finds its label.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slack.cluster.labels import ARCH, HOSTNAME, INSTANCE_TYPE, NODE_GROUPS, OS, REGION, ZONE

_READY = 'kube_node_status_condition{condition="Ready",status="true"} == 1'
_FINISHED = 'kube_pod_status_phase{phase=~"Succeeded|Failed"} == 1'
QUERIES: Mapping[str, str] = {
    "pod_created": "last_over_time(kube_pod_created[{window}])",
    "pod_scheduled": "last_over_time(kube_pod_status_scheduled_time[{window}])",
    "pod_finished": "min_over_time(timestamp(" + _FINISHED + ")[{window}:{step}])",
    "pod_completed": "last_over_time(kube_pod_completion_time[{window}])",
    "pod_requests": "last_over_time(kube_pod_container_resource_requests[{window}])",
    "pod_init_requests": "last_over_time(kube_pod_init_container_resource_requests[{window}])",
    "pod_sidecars": 'last_over_time(kube_pod_init_container_info{restart_policy="Always"}[{window}])',
    "pod_info": "last_over_time(kube_pod_info[{window}])",
    "pod_selectors": "last_over_time(kube_pod_nodeselectors[{window}])",
    # Admission gives two tolerations to every pod, which say nothing about lasting taints and are most of the series.
    "pod_tolerations": "last_over_time(kube_pod_tolerations"
    '{key!~"node[.]kubernetes[.]io/(not-ready|unreachable)"}[{window}])',
    "tolerations_known": "count(last_over_time(kube_pod_tolerations[{window}]))",
    "pod_priority": "max by (namespace, pod, exported_namespace, exported_pod, priority) "
    "(last_over_time(kube_pod_resource_request[{window}]))",
    "pod_last_seen": "max_over_time(timestamp(kube_pod_created)[{window}:{step}])",
    "replicaset_owner": 'last_over_time(kube_replicaset_owner{owner_is_controller="true"}[{window}])',
    "job_owner": 'last_over_time(kube_job_owner{owner_is_controller="true"}[{window}])',
    "node_created": "last_over_time(kube_node_created[{window}])",
    "node_allocatable": "last_over_time(kube_node_status_allocatable[{window}])",
    "node_labels": "last_over_time(kube_node_labels[{window}])",
    "node_taints": "max_over_time(timestamp(kube_node_spec_taint)[{window}:{step}])",
    "node_ready": "min_over_time(timestamp(" + _READY + ")[{window}:{step}])",
    "node_last_seen": "max_over_time(timestamp(kube_node_created)[{window}:{step}])",
}
"""Instant queries, asked at the end of each window, whose length takes the place of `{window}`; `{step}` is as long as
the scrape interval. kube_pod_resource_request is kube-scheduler's (/metrics/resources), all others kube-state-metrics'.
"""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One series' value."""

    labels: Mapping[str, str]
    value: float

    def label(self, name: str) -> str:
        """Return a label of the object; Prometheus renames it where the scraped target has one of that name."""
        return self.labels.get(f"exported_{name}") or self.labels.get(name, "")


def spell_label(key: str) -> str:
    """Return a label's key as kube-state-metrics spells it."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain).lower()


_KNOWN_LABELS = {
    spell_label(key): key
    for key in (
        HOSTNAME,
        ARCH,
        OS,
        INSTANCE_TYPE,
        REGION,
        ZONE,
        *NODE_GROUPS,
        "eks.amazonaws.com/capacityType",
        "cloud.google.com/gke-spot",
        "kubernetes.azure.com/scalesetpriority",
        "karpenter.sh/capacity-type",
    )
}
_KNOWN_RESOURCES = {
    "ephemeral_storage": "ephemeral-storage",
    "nvidia_com_gpu": "nvidia.com/gpu",
    "amd_com_gpu": "amd.com/gpu",
}


def label_map(labels: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return an object's label map from the labels of its series that begin with `prefix`."""
    found = {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix) and value}
    return {_KNOWN_LABELS.get(key, key): value for key, value in found.items()}


def resource(name: str) -> str:
    """Return a resource's name."""
    return _KNOWN_RESOURCES.get(name, name)


def units(name: str, value: float) -> int:
    """Return millicores or base units; kube-state-metrics gives cores and bytes as floats."""
    return round(value * 1000) if name == "cpu" else round(value)
