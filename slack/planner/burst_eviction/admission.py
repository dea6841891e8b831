"""What admission will make of a promised pod: defaults of LimitRanges, and whether they and ResourceQuotas let it in.

As kube-apiserver 1.36 does it (plugin/pkg/admission/limitranger, pkg/quota/v1/evaluator/core/pods.go). What webhooks
do, and the overhead of a RuntimeClass, is not known here; pods say it themselves when they appear.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.quantity import QuantityError, amount, format_quantity, manifest_text
from slack.cluster.requests import effective_requests
from slack.cluster.wire import ABSENT, Container, PodSpec, Quantities

_MUST_SAY = {
    "cpu": ("requests", "cpu"),
    "requests.cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
"""Quotas that refuse a pod of which a container says nothing, and what it has to say."""
_PLAIN = ("cpu", "memory", "ephemeral-storage")
"""Resources that a quota may name without `requests.`, as it may hugepages."""


def with_defaults(spec: PodSpec, ranges: Iterable[wire.LimitRange]) -> PodSpec:
    """Return the spec with what LimitRanges of its namespace give containers that say nothing."""
    items = [
        item
        for own in ranges
        for item in (own.spec.limits if own.spec is not None else None) or ()
        if item.type == "Container" and (item.default or item.default_request)
    ]
    if not items:
        return spec
    return msgspec.structs.replace(
        spec,
        containers=[_container_with(container, items) for container in spec.containers or ()],
        init_containers=[_container_with(container, items) for container in spec.init_containers or ()],
    )


def within(spec: PodSpec, ranges: Iterable[wire.LimitRange]) -> bool:
    """Say whether LimitRanges let in a pod that has their defaults already: each container, and the pod as a whole.

    Their ratios of limits to requests are not looked at.

    Raises:
        ValueError: when a quantity cannot be read.
    """
    items = [
        item
        for own in ranges
        for item in (own.spec.limits if own.spec is not None else None) or ()
        if item.type in ("Container", "Pod") and (item.min or item.max)
    ]
    if not items:
        return True
    own = [_resources(container) for container in (*(spec.containers or ()), *(spec.init_containers or ()))]
    limits = [_amounts(found.get("limits")) for found in own]
    containers = [(most | _amounts(found.get("requests")), most) for found, most in zip(own, limits, strict=True)]
    pod = [(effective_requests(spec), effective_requests(_limits_only(spec)))]
    return all(
        _is_within(item, requests, limits)
        for item in items
        for requests, limits in (pod if item.type == "Pod" else containers)
    )


def _is_within(item: wire.LimitRangeItem, requests: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    least, most = _amounts(item.min), _amounts(item.max)
    return all(
        name in requests and low <= requests[name] and low <= limits.get(name, low) for name, low in least.items()
    ) and all(
        name in limits and limits[name] <= high and requests.get(name, high) <= high for name, high in most.items()
    )


def _amounts(quantities: Quantities | None) -> dict[str, int]:
    return {name: amount(name, manifest_text(value)) for name, value in (quantities or {}).items()}


def _container_with(container: Container, items: Sequence[wire.LimitRangeItem]) -> Container:
    resources = _resources(container)
    limits = dict(resources.get("limits") or {})
    # Before admission the API server has made requests of limits.
    requests = limits | dict(resources.get("requests") or {})
    for item in items:
        limits = dict(item.default or {}) | limits
        requests = dict(item.default_request or {}) | requests
    merged = resources | {"limits": limits, "requests": requests}
    return msgspec.structs.replace(container, resources=msgspec.Raw(msgspec.json.encode(merged)))


def _resources(container: Container) -> dict[str, Any]:
    raw = container.resources
    found = msgspec.json.decode(raw) if raw != ABSENT else None
    return found if isinstance(found, dict) else {}


_LIMITED = tuple(name for name, (part, _) in _MUST_SAY.items() if part == "limits")


class Quotas:
    """ResourceQuotas by namespace, and what is left of them while promises are gone through one after the other."""

    def __init__(self, quotas: Iterable[wire.ResourceQuota]) -> None:
        self._of: dict[str, list[tuple[wire.ResourceQuota, dict[str, int]]]] = {}
        for quota in quotas:
            self._of.setdefault(quota.metadata.namespace or "", []).append((quota, _left(quota)))

    def granted(self, namespace: str, spec: PodSpec, count: int) -> int:
        """Return how many of `count` such pods get in; what they use is taken off what is left.

        Args:
            namespace: of the pods.
            spec: of one of them, with the defaults of LimitRanges.
            count: how many are promised.

        Raises:
            ValueError: when a quantity cannot be read.
        """
        matching = [left for quota, left in self._of.get(namespace, ()) if _matches(quota, spec)]
        if not matching:
            return count
        usage = _usage(spec)
        for left in matching:
            if any(_unsaid(spec, name) for name in left):
                return 0
            for name in left.keys() & usage.keys():
                count = min(count, max(left[name], 0) // usage[name])
        for left in matching:
            for name in left.keys() & usage.keys():
                left[name] -= count * usage[name]
        return count

    def against(self, namespace: str, requests: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which quotas admit no further pod, and of which that is not known, each with the reason.

        What is known of the pod is what it requests; a limit is no less than that, and a quota of limits for cpu or
        memory admits no pod without one. How large its limits are, its class, and whether it has a deadline are not
        known.

        Args:
            namespace: of the pod.
            requests: of the pod, in effect.
        """
        usage = {"pods": 1, "count/pods": 1} | {
            key: value
            for name, value in requests.items()
            for key in (f"requests.{name}", *([name] if _is_plain(name) else []))
        }
        usage |= {name: max(requests.get(name.removeprefix("limits."), 0), 1) for name in _LIMITED}
        refused, unsure = [], []
        for quota, left in self._of.get(namespace, ()):
            name = f"ResourceQuota {namespace}/{quota.metadata.name}"
            lacking = [key for key in sorted(left.keys() & usage.keys()) if left[key] < usage[key]]
            limited = [key for key in sorted(left) if key.startswith("limits.")]
            if lacking:
                rest = ", ".join(f"{_format_amount(key, left[key])} {key}" for key in lacking)
                text = f"{name} admits no further pod: it has {rest} left"
                known = {"NotBestEffort"} if requests.get("cpu") or requests.get("memory") else set()
                if _scopes(quota) <= known:
                    refused.append(text)
                else:
                    unsure.append(f"{text}; whether the pod is in its scopes is not checked")
            elif limited:
                unsure.append(f"{name} bounds {', '.join(limited)}, which is not checked")
        return tuple(refused), tuple(unsure)


def _scopes(quota: wire.ResourceQuota) -> set[str]:
    own = quota.spec or wire.QuotaSpec()
    selected = (own.scope_selector.match_expressions if own.scope_selector is not None else None) or ()
    return {*(own.scopes or ()), *(requirement.scope_name for requirement in selected)}


def _is_plain(name: str) -> bool:
    """Say whether a quota may name a resource without `requests.`."""
    return name in _PLAIN or name.startswith("hugepages-")


def _format_amount(name: str, value: int) -> str:
    return format_quantity(name.removeprefix("requests.").removeprefix("limits."), max(value, 0))


def _left(quota: wire.ResourceQuota) -> dict[str, int]:
    status, spec = quota.status or wire.QuotaStatus(), quota.spec or wire.QuotaSpec()
    hard = status.hard or spec.hard or {}
    used = status.used or {}
    found = {}
    for name, text in hard.items():
        try:
            found[name] = _amount(name, text) - _amount(name, used.get(name, 0))
        except QuantityError:
            continue  # the API server would not have taken it
    return found


def _amount(name: str, value: str | float | None) -> int:
    resource = name.removeprefix("requests.").removeprefix("limits.")
    return amount(resource, manifest_text(value))


def _usage(spec: PodSpec) -> dict[str, int]:
    """Return what one pod uses of each name that a quota may have; none of it 0."""
    usage = {"pods": 1, "count/pods": 1}
    for name, value in effective_requests(spec).items():
        usage[f"requests.{name}"] = value
        if _is_plain(name):
            usage[name] = value
    usage |= {f"limits.{name}": value for name, value in effective_requests(_limits_only(spec)).items()}
    return {name: value for name, value in usage.items() if value > 0}


def _limits_only(spec: PodSpec) -> PodSpec:
    """Return the spec as if it requested its limits: what of them is in effect follows the same rules."""

    def of(containers: list[Container] | None) -> list[Container]:
        return [
            msgspec.structs.replace(
                own, resources=msgspec.Raw(msgspec.json.encode({"requests": _resources(own).get("limits") or {}}))
            )
            for own in containers or ()
        ]

    return msgspec.structs.replace(
        spec, containers=of(spec.containers), init_containers=of(spec.init_containers), resources=ABSENT
    )


def _unsaid(spec: PodSpec, name: str) -> bool:
    """Say whether a quota for `name` refuses the pod, as one of its containers says nothing of it."""
    if name not in _MUST_SAY or spec.resources != ABSENT:
        return False
    part, resource = _MUST_SAY[name]
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        resources = _resources(container)
        said = {**(resources.get("limits") or {}), **(resources.get(part) or {})}
        if resource not in said:
            return True
    return False


def _matches(quota: wire.ResourceQuota, spec: PodSpec) -> bool:
    """Say whether all scopes of a quota are the pod's."""
    own = quota.spec or wire.QuotaSpec()
    requirements = [wire.ScopeRequirement(scope_name=name, operator="Exists") for name in own.scopes or ()]
    requirements += (own.scope_selector.match_expressions if own.scope_selector is not None else None) or ()
    return all(_in_scope(requirement, spec) for requirement in requirements)


def _in_scope(requirement: wire.ScopeRequirement, spec: PodSpec) -> bool:
    name, values = spec.priority_class_name or "", requirement.values or []
    match requirement.scope_name:
        case "Terminating":
            return spec.active_deadline_seconds is not None
        case "NotTerminating":
            return spec.active_deadline_seconds is None
        case "BestEffort":
            return _best_effort(spec)
        case "NotBestEffort":
            return not _best_effort(spec)
        case "PriorityClass":
            match requirement.operator:
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
                case "DoesNotExist":
                    return not name
                case _:
                    return bool(name)
        case "CrossNamespacePodAffinity":
            # Rather too often: what such a quota refuses is not promised.
            return b'"namespaces"' in bytes(spec.affinity) or b'"namespaceSelector"' in bytes(spec.affinity)
        case _:
            return False


def _best_effort(spec: PodSpec) -> bool:
    if spec.resources != ABSENT and _asks(msgspec.json.decode(spec.resources) or {}):
        return False
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    return not any(_asks(_resources(container)) for container in containers)


def _asks(resources: Mapping[str, Quantities | None]) -> bool:
    """Say whether cpu or memory is requested or limited."""
    return any(
        amount(name, manifest_text(value)) > 0
        for part in ("requests", "limits")
        for name, value in (resources.get(part) or {}).items()
        if name in ("cpu", "memory")
    )
