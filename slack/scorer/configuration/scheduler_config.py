"""KubeSchedulerConfiguration v1 for a scheduler that asks our extender. Pure: values in, the document out.

Extenders are global in kube-scheduler: they apply to all profiles of one scheduler. The scorer sends 0 to `scale` with
weight 1, and kube-scheduler multiplies that by ten: a scale of 10 counts as much as one plugin of weight 1. Plugins
that the Trimaran proposal names as conflicts are turned off under their names in 1.36: the scores (not the filter) of
NodeResourcesFit, which spreads or packs by requests, and of NodeResourcesBalancedAllocation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONFLICTING_SCORES = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
"""NodeResourcesLeastAllocated and NodeResourcesMostAllocated of the proposal are strategies of NodeResourcesFit now."""
HTTP_TIMEOUT = "200ms"
"""The default of 5 s would hold up every pod for that long when the extender hangs: the cycle is serial."""

CLIENT_QPS, CLIENT_BURST = 50, 100
"""Of the scheduler's requests to the API server."""


@dataclass(frozen=True, slots=True)
class ExtenderTls:
    """Files on the scheduler's machine."""

    authority: str
    certificate: str
    key: str
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """What differs between one scheduler and another."""

    url: str = "http://127.0.0.1:8888"
    scheduler_name: str = "resource-slack"
    tls: ExtenderTls | None = None
    filters: bool = False
    weight: int = 1
    http_timeout: str = HTTP_TIMEOUT
    percentage_of_nodes: int | None = None
    kubeconfig: str | None = None
    client_qps: int = CLIENT_QPS
    client_burst: int = CLIENT_BURST
    lease_name: str | None = None
    """None: no leader election, which is right for one replica that never runs twice. A lease needs a name of its own:
    `kube-scheduler` is that of the cluster's own scheduler, and only one of the two would schedule."""
    lease_namespace: str = "kube-system"


def scheduler_configuration(options: SchedulerOptions) -> Mapping[str, Any]:
    """Return the document."""
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    document["clientConnection"] = {"qps": options.client_qps, "burst": options.client_burst}
    if options.kubeconfig is not None:
        document["clientConnection"]["kubeconfig"] = options.kubeconfig
    document["leaderElection"] = _election(options)
    if options.percentage_of_nodes is not None:
        document["percentageOfNodesToScore"] = options.percentage_of_nodes
    disabled = [{"name": name} for name in CONFLICTING_SCORES]
    document["profiles"] = [
        {"schedulerName": options.scheduler_name, "plugins": {"score": {"disabled": disabled}}},
    ]
    document["extenders"] = [_extender(options)]
    return document


def _election(options: SchedulerOptions) -> Mapping[str, Any]:
    if options.lease_name is None:
        return {"leaderElect": False}
    return {
        "leaderElect": True,
        "resourceName": options.lease_name,
        "resourceNamespace": options.lease_namespace,
    }


def _extender(options: SchedulerOptions) -> Mapping[str, Any]:
    extender: dict[str, Any] = {"urlPrefix": options.url.rstrip("/"), "prioritizeVerb": "prioritize"}
    if options.filters:
        extender["filterVerb"] = "filter"
        extender["preemptVerb"] = "preempt"  # preemption does not ask /filter, and would evict pods for nothing
    extender |= {
        "weight": options.weight,
        "nodeCacheCapable": True,  # names go over the wire, not nodes: thirty to fifty times less
        "ignorable": True,  # pods go on being scheduled without us
        "httpTimeout": options.http_timeout,
    }
    tls = options.tls
    if tls is not None:
        extender["enableHTTPS"] = True
        extender["tlsConfig"] = {
            "caFile": tls.authority,
            "certFile": tls.certificate,
            "keyFile": tls.key,
            **({"serverName": tls.server_name} if tls.server_name else {}),
        }
    return extender
