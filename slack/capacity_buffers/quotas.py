"""What the ResourceQuotas of a buffer's namespace leave for its chunks.

As Cluster Autoscaler 1.37 allocates them (capacitybuffer/controller/resourcequotas.go): hard less used less what
earlier buffers have taken, by requests only, within the quota's scopes. Beyond that each chunk counts as a pod, since a
namespace without a pod left starts none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.capacity_buffers.sizes import LARGEST_COUNT
from slack.cluster import wire
from slack.cluster.quantity import QuantityError, manifest_thousandths

_ONE = 1000
"""Thousandths of a pod."""


def quota_usage(requests: Mapping[str, int]) -> dict[str, int]:
    """Return what one chunk uses of each name that a quota may have, in thousandths; none of it 0."""
    usage = {"pods": _ONE, "count/pods": _ONE}
    for resource, amount in requests.items():
        if amount > 0:
            usage[resource] = usage[f"requests.{resource}"] = amount
    return usage


@dataclass(slots=True)
class _Quota:
    name: str
    left: dict[str, int]
    requirements: Sequence[wire.ScopeRequirement]


@dataclass(slots=True)
class QuotaLedger:
    """ResourceQuotas by namespace, and what of them is left while buffers are gone through one after the other."""

    _of: dict[str, list[_Quota]] = field(default_factory=dict)

    @classmethod
    def of(cls, quotas: Iterable[wire.ResourceQuota]) -> "QuotaLedger":
        """Begin with what pods have left of them."""
        ledger = cls()
        for quota in sorted(quotas, key=lambda quota: (quota.metadata.namespace or "", quota.metadata.name)):
            found = _Quota(quota.metadata.name, _left(quota), _requirements(quota))
            ledger._of.setdefault(quota.metadata.namespace or "", []).append(found)
        return ledger

    def __contains__(self, namespace: str) -> bool:
        """Whether a namespace has a quota."""
        return namespace in self._of

    def count_allowed(
        self, namespace: str, spec: wire.PodSpec, requests: Mapping[str, int], count: int
    ) -> tuple[int, tuple[str, ...]]:
        """Return how many of `count` chunks the namespace's quotas allow, and the names of those that allow fewer.

        Args:
            namespace: of the buffer.
            spec: of a chunk; its requests are not read.
            requests: of a chunk, in thousandths of base units.
            count: how many are asked for.
        """
        usage = quota_usage(requests)
        fewer, blocking = count, []
        for quota in self._matching(namespace, spec, requests):
            most = _most(quota, usage)
            if most < count:
                blocking.append(quota.name)
            fewer = min(fewer, most)
        return fewer, tuple(blocking)

    def take(self, namespace: str, spec: wire.PodSpec, requests: Mapping[str, int], count: int) -> None:
        """Take off what so many chunks use."""
        usage = quota_usage(requests)
        for quota in self._matching(namespace, spec, requests):
            for name in quota.left.keys() & usage.keys():
                quota.left[name] -= count * usage[name]

    def _matching(self, namespace: str, spec: wire.PodSpec, requests: Mapping[str, int]) -> list[_Quota]:
        return [
            quota
            for quota in self._of.get(namespace, ())
            if all(_is_in_scope(requirement, spec, requests) for requirement in quota.requirements)
        ]


def _most(quota: _Quota, usage: Mapping[str, int]) -> int:
    fits = [max(quota.left[name], 0) // usage[name] for name in quota.left.keys() & usage.keys()]
    return min((*fits, LARGEST_COUNT))


def _left(quota: wire.ResourceQuota) -> dict[str, int]:
    status, spec = quota.status or wire.QuotaStatus(), quota.spec or wire.QuotaSpec()
    used = status.used or {}
    found = {}
    for name, text in (status.hard or spec.hard or {}).items():
        try:
            found[name] = manifest_thousandths(text) - manifest_thousandths(used.get(name, 0))
        except QuantityError:
            continue  # the API server would not have taken it
    return found


def _requirements(quota: wire.ResourceQuota) -> list[wire.ScopeRequirement]:
    own = quota.spec or wire.QuotaSpec()
    found = [wire.ScopeRequirement(scope_name=name, operator="Exists") for name in own.scopes or ()]
    return found + list((own.scope_selector.match_expressions if own.scope_selector is not None else None) or ())


def _is_in_scope(requirement: wire.ScopeRequirement, spec: wire.PodSpec, requests: Mapping[str, int]) -> bool:
    """Say whether a chunk is in a scope; no chunk has a deadline, whatever its template says."""
    name, values = spec.priority_class_name or "", requirement.values or []
    best_effort = not (requests.get("cpu") or requests.get("memory"))
    match requirement.scope_name:
        case "Terminating":
            return False
        case "NotTerminating":
            return True
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "PriorityClass":
            return _is_selected(requirement.operator or "", name, values)
        case "CrossNamespacePodAffinity":
            return b'"namespaces"' in bytes(spec.affinity) or b'"namespaceSelector"' in bytes(spec.affinity)
        case _:
            return False


def _is_selected(operator: str, name: str, values: Sequence[str]) -> bool:
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)
