"""What the ResourceQuotas of a buffer's namespace leave for its chunks.

As Cluster Autoscaler 1.37 allocates them (capacitybuffer/controller/resourcequotas.go): hard less used less what
earlier buffers have taken, by requests only, within the quota's scopes. Beyond that each chunk counts as a pod, since a
namespace without a pod left starts none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

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


@dataclass(frozen=True, slots=True)
class _Quota:
    """A quota as it was read; what buffers take of it is counted elsewhere."""

    name: str
    left: Mapping[str, int]
    requirements: Sequence[wire.ScopeRequirement]


@dataclass(slots=True)
class Allowance:
    """What is left of one quota while buffers are gone through one after the other."""

    quota: _Quota
    left: dict[str, int]


class QuotaMemory:
    """Quotas as they were read, while they are the same objects."""

    def __init__(self) -> None:
        """Begin with no memory."""
        self._read: dict[tuple[str, str], tuple[wire.ResourceQuota, _Quota]] = {}

    def read(self, quotas: Iterable[wire.ResourceQuota]) -> dict[str, list[_Quota]]:
        """Return them by namespace, by name there; others are forgotten."""
        before, self._read = self._read, {}
        found: dict[str, list[_Quota]] = {}
        for quota in quotas:
            key = (quota.metadata.namespace or "", quota.metadata.name)
            known = before.get(key)
            if known is None or known[0] is not quota:
                known = (quota, _Quota(key[1], _left(quota), _requirements(quota)))
            self._read[key] = known
            found.setdefault(key[0], []).append(known[1])
        for of in found.values():
            of.sort(key=lambda quota: quota.name)
        return found


@dataclass(slots=True)
class QuotaLedger:
    """ResourceQuotas by namespace, and what of them is left while buffers are gone through one after the other."""

    _of: dict[str, list[Allowance]] = field(default_factory=dict)

    @classmethod
    def from_quotas(cls, quotas: Iterable[wire.ResourceQuota], memory: QuotaMemory | None = None) -> "QuotaLedger":
        """Begin with what pods have left of them."""
        read = (memory or QuotaMemory()).read(quotas)
        return cls({name: [Allowance(quota, dict(quota.left)) for quota in of] for name, of in read.items()})

    def __contains__(self, namespace: str) -> bool:
        """Whether a namespace has a quota."""
        return namespace in self._of

    def matching(self, namespace: str, spec: wire.PodSpec, requests: Mapping[str, int]) -> list[Allowance]:
        """Return the namespace's quotas that count a chunk.

        Args:
            namespace: of the buffer.
            spec: of a chunk; its requests are not read.
            requests: of a chunk, in thousandths of base units.
        """
        return [
            own
            for own in self._of.get(namespace, ())
            if all(_is_in_scope(requirement, spec, requests) for requirement in own.quota.requirements)
        ]


def count_allowed(quotas: Iterable[Allowance], usage: Mapping[str, int], count: int) -> tuple[int, tuple[str, ...]]:
    """Return how many of `count` chunks quotas allow, and the names of those that allow fewer.

    Args:
        quotas: that count the chunk.
        usage: of a chunk, see `quota_usage`.
        count: how many are asked for.
    """
    fewer, blocking = count, []
    for own in quotas:
        most = _most(own.left, usage)
        if most < count:
            blocking.append(own.quota.name)
        fewer = min(fewer, most)
    return fewer, tuple(blocking)


def take(quotas: Iterable[Allowance], usage: Mapping[str, int], count: int) -> None:
    """Take off what so many chunks use."""
    for own in quotas:
        for name in own.left:
            if name in usage:
                own.left[name] -= count * usage[name]


def _most(left: Mapping[str, int], usage: Mapping[str, int]) -> int:
    return min((max(amount, 0) // usage[name] for name, amount in left.items() if name in usage), default=LARGEST_COUNT)


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
            return _looks_elsewhere(spec)
        case _:
            return False


def _looks_elsewhere(spec: wire.PodSpec) -> bool:
    """Say whether a chunk's affinity to pods, or against pods, names namespaces."""
    if not bytes(spec.affinity).strip():
        return False
    affinity = msgspec.json.decode(bytes(spec.affinity)) or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
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
