"""What an ActivationPool says of the pods that it may need soon, as a value: read from its JSON, and bounded.

A pool's status is written by whoever may write it, and the nodes are paid for by others. So nothing of it is taken
further than the pool itself could go: no more pods than `spec.limits.maxContainers` leaves beside those that are there,
nothing of a time that is not now, and what nobody renews fades.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.constraints import needed_features, parse_constraints
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.requests import effective_requests
from slack.cluster.snapshot import Amounts, Workload

KIND = "ActivationPool"
SHORT_KIND = SHORT_KINDS[KIND]
FRESH_SECONDS = 180.0
"""So long demand counts in full after it was observed: longer than a controller takes to be replaced (17 s), or to
write its status when little changes."""
FADING_SECONDS = 600.0
"""From then on it counts less and less, and after so long for nothing."""
DEFAULT_MOST = 20
"""Of `spec.limits.maxContainers`: the CRD has it, a file may not."""
PROXY_REQUESTS: Mapping[str, str] = MappingProxyType({"cpu": "10m", "memory": "48Mi"})
"""What the proxy requests that a pool's pods have beside the containers of its template."""
MOST_PODS = 5000
"""Of one pool: more than a node of the largest cluster each is a mistake, or worse."""


class _Expression(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _AmongPods(msgspec.Struct, rename="camel"):
    """A term about other pods, or about their spread: what of it is looked into. Nobody has checked a template."""

    topology_key: str
    label_selector: _Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: _Selector | None = None


_PROXY = wire.Container(resources=msgspec.Raw(msgspec.json.encode({"requests": dict(PROXY_REQUESTS)})))
_among_pods_decoder = msgspec.json.Decoder(list[_AmongPods])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool: what a pod of it is, and how many may be needed before a node could come."""

    workload: Workload
    requests: Amounts
    """Of one pod: cpu in millicores, everything else in base units."""
    constraints: Constraints
    labels: Mapping[str, str]
    """Of its pods."""
    spec: wire.PodSpec
    """Of its pods, for the quotas of its namespace."""
    most: int
    """`spec.limits.maxContainers`."""
    slack_pods: int
    """`status.demand.slackPods`: pods beyond those that are there or wanted now."""
    wanted: int
    """`status.demand.wanted`: those."""
    observed_at_seconds: float | None
    """Unix time."""
    uid: str = ""
    problem: str | None = field(default=None)
    """Why nothing can be kept for it."""

    def announced(self, there: int, now: float) -> int:
        """Return how many pods' room it asks for now.

        Args:
            there: its pods that are there, pending ones too: these bring their nodes themselves.
            now: Unix seconds.
        """
        if self.problem is not None:
            return 0
        left = self.most - max(self.wanted, there, 0)
        return max(min(math.ceil(self.slack_pods * self.freshness(now)), left, MOST_PODS), 0)

    def freshness(self, now: float) -> float:
        """Return the share of its demand that still counts, 1 to 0; what was observed in the future counts nothing."""
        if self.observed_at_seconds is None:
            return 0.0
        age = now - self.observed_at_seconds
        if age < -FRESH_SECONDS:
            return 0.0
        return min(max(1 - (age - FRESH_SECONDS) / FADING_SECONDS, 0.0), 1.0)


def read_pool(item: wire.ActivationPoolObject) -> Pool | None:
    """Return what a pool says; None for one that is being deleted, or announces nothing to anybody.

    One that cannot be read is a pool with a problem, which names the field.
    """
    metadata = item.metadata
    if metadata.deletion_timestamp is not None:
        return None
    workload = Workload(metadata.namespace or "", SHORT_KIND, metadata.name)
    try:
        spec, demand = item.spec, item.status.demand
        if demand is None or (spec.demand is not None and spec.demand.publish is False):
            return None
        return _read(workload, metadata.uid or "", spec, demand)
    except (msgspec.DecodeError, ValueError) as error:
        return Pool(
            workload=workload,
            requests=(),
            constraints=Constraints(),
            labels={},
            spec=wire.PodSpec(),
            most=0,
            slack_pods=0,
            wanted=0,
            observed_at_seconds=None,
            uid=metadata.uid or "",
            problem=str(error),
        )


def _read(workload: Workload, uid: str, spec: wire.PoolSpec, demand: wire.PoolDemand) -> Pool:
    most = spec.limits.max_containers if spec.limits is not None else None
    template = spec.template or wire.PodTemplate()
    pod = (template.spec or wire.PodSpec()).detach()
    if spec.proxy is None or spec.proxy.mode in (None, "sidecar"):
        pod.containers = [*(pod.containers or ()), _PROXY]
    constraints = parse_constraints(
        bytes(pod.node_selector),
        bytes(pod.affinity),
        bytes(pod.tolerations),
        bytes(pod.topology_spread_constraints),
        pod.scheduler_name,
        pod.runtime_class_name,
        needed_features(pod),
    )
    for text in (constraints.anti_affinity, constraints.pod_affinity, constraints.topology_spread):
        _among_pods_decoder.decode(text or "[]")
    return Pool(
        workload=workload,
        requests=tuple(sorted(effective_requests(pod).items())),
        constraints=constraints,
        labels=(template.metadata.labels if template.metadata is not None else None) or {},
        spec=pod,
        most=DEFAULT_MOST if most is None else most,
        slack_pods=demand.slack_pods,
        wanted=demand.wanted,
        observed_at_seconds=None if demand.observed_at is None else demand.observed_at.timestamp(),
        uid=uid,
    )
