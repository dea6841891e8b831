"""What a pod requests in effect, to the unit, as kube-scheduler 1.36 counts it.

The rule is component-helpers' resource.PodRequests (v0.36.0, resource/helpers.go) with UseStatusResources, which the
NodeResourcesFit plugin sets: containers and native sidecars are summed, init containers raise the total to the most
that is needed while one of them runs, pod-level requests take the place of the sum, overhead comes on top. Sums are
made in thousandths, as the API server stores them, and rounded up once at the end.

`pods` is not among them: every pod takes one slot, which is counted apart. Nor are extended resources that a device
claim serves (KEP-5004): the device is in no node's allocatable.
"""

from collections.abc import Callable, Mapping

import msgspec

from slack.cluster.quantity import QuantityError, manifest_thousandths, rounded
from slack.cluster.wire import ABSENT, Container, ContainerStatus, PodSpec, PodStatus, Quantities

_Amounts = dict[str, int]
"""Thousandths of a base unit by resource name."""

LARGEST_REQUEST = 1 << 53
"""Nothing real is larger (9 PB); capped there, a thousand such pods still add up within an int64 column."""
_NOTHING: _Amounts = {}
_ABSENT = (ABSENT, msgspec.Raw(b"null"))
_PENDING_RESIZE = b"PodResizePending"
"""A condition's type; looked for in the raw text first, as nearly no pod has it."""


class ResourceRequirements(msgspec.Struct, gc=False):
    """ResourceRequirements."""

    requests: Quantities | None = None
    limits: Quantities | None = None


_NO_RESOURCES = ResourceRequirements()
_resources_decoder = msgspec.json.Decoder(ResourceRequirements | None)
_quantities_decoder = msgspec.json.Decoder(Quantities | None)


class RequestError(ValueError):
    """A quantity in a pod or node that cannot be read; the message gives the field's path and the text."""


def effective_requests(spec: PodSpec | None, status: PodStatus | None = None) -> dict[str, int]:
    """Return what a pod requests: cpu in millicores, other resources in base units; resources at 0 are left out.

    Where a limit is given without a request, the request is the limit: the API server defaults so, a file may not.

    Args:
        spec: of the pod, or of a template.
        status: of the pod; without it, in-place resizes and claims for extended resources are not seen.

    Raises:
        RequestError: when a quantity cannot be read.
    """
    if spec is None:
        return {}
    infeasible = status is not None and _resize_infeasible(status)
    granted = _statuses(status)

    def of(container: Container, path: str, resizable: bool) -> _Amounts:
        asked = resources_of(container.resources, path)
        wanted = _requested(asked, path)
        held = granted.get(bytes(container.name)) if resizable and granted else None
        if held is not None:
            actuated = resources_of(held.resources, path)
            allocated = _quantities(held.allocated_resources, path)
            # nothing is being resized, as for nearly all pods: then the request is the request
            as_asked = actuated.requests == asked.requests and allocated in (asked.requests, None)
            if held.resources not in _ABSENT and not as_asked:
                wanted = _resized(wanted, actuated.requests, allocated, infeasible, path)
        return wanted

    total = summed_containers(spec, of)
    _apply_pod_level(total, spec, status, infeasible)
    _add(total, overhead_of(spec))
    left_out: tuple[str, ...] = ("pods",)
    if status is not None and status.extended_resource_claim_status is not None:
        left_out += status.claimed
    return {
        name: min(rounded(name, value), LARGEST_REQUEST)
        for name, value in total.items()
        if value > 0 and name not in left_out
    }


def request_text(spec: PodSpec, status: PodStatus, *more: msgspec.Raw) -> bytes:
    """Return all that `effective_requests` reads of a pod, as one text: from equal texts follow equal requests.

    And what `slack.cluster.constraints.needed_features` reads of its containers, for one pass over them is enough.

    The pods of a workload have few such texts, so parsing once per text is parsing once per workload.

    Args:
        spec: of the pod.
        status: of the pod.
        more: what else is to tell texts apart.
    """
    # NUL is in no JSON text, so the parts cannot run into each other; the empty ones tell the lists apart.
    parts: list[msgspec.Raw | bytes] = [*more]
    for container in spec.containers or ():
        parts += (container.name, container.resources, container.restart_policy_rules)
    parts.append(b"")
    for container in spec.init_containers or ():
        policy = (container.restart_policy or "").encode()
        parts += (container.name, container.resources, container.restart_policy_rules, policy)
    parts += (b"", spec.overhead, spec.resources, status.allocated_resources, status.resources)
    for statuses in (status.container_statuses, status.init_container_statuses):
        parts.append(b"")
        for container_status in statuses or ():
            parts += (container_status.name, container_status.allocated_resources, container_status.resources)
    if _PENDING_RESIZE in bytes(status.conditions_json) and _resize_infeasible(status):
        parts.append(b"infeasible")
    if status.extended_resource_claim_status is not None:
        parts += (b"claimed", *(name.encode() for name in status.claimed))
    return b"\0".join(parts)


def allocatable_amounts(quantities: Quantities | None) -> dict[str, int]:
    """Return a node's allocatable: cpu in millicores, other resources in base units, `pods` included.

    Raises:
        RequestError: when a quantity cannot be read.
    """
    return {
        name: min(rounded(name, value), LARGEST_REQUEST)
        for name, value in amounts_of("status.allocatable", quantities).items()
    }


def effective_limits(spec: PodSpec | None) -> dict[str, int]:
    """Return what a pod may use at most: units as of `effective_requests`; resources without a limit are left out.

    The rule is component-helpers' resource.PodLimits: as for requests, and overhead only on what has a limit. A sum of
    some containers' limits is no bound where others have none; upstream takes it for one.

    Raises:
        RequestError: when a quantity cannot be read.
    """
    if spec is None:
        return {}
    total = summed_containers(spec, lambda own, path, _: amounts_of(path, resources_of(own.resources, path).limits))
    level = resources_of(spec.resources, "spec.resources")
    total = total | amounts_of("spec.resources.limits", level.limits)
    overhead = overhead_of(spec)
    return {
        name: min(rounded(name, value + overhead.get(name, 0)), LARGEST_REQUEST)
        for name, value in total.items()
        if value > 0
    }


def overhead_of(spec: PodSpec) -> _Amounts:
    """Return what a pod's sandbox takes, in thousandths of base units.

    Raises:
        RequestError: when a quantity cannot be read.
    """
    return amounts_of("spec.overhead", _quantities(spec.overhead, "spec.overhead"))


def summed_containers(spec: PodSpec, of: Callable[[Container, str, bool], _Amounts]) -> _Amounts:
    """Return what a pod's containers come to, native sidecars and the steps of init containers minded.

    Args:
        spec: of the pod.
        of: amounts of a container, its path and whether it runs on beside others.
    """
    total: _Amounts = {}
    for index, container in enumerate(spec.containers or ()):
        _add(total, of(container, f"spec.containers[{index}]", True))
    if not spec.init_containers:
        return total
    sidecars: _Amounts = {}
    most: _Amounts = {}
    # KEP-753: while init container i runs, it and the sidecars that were started before it are there.
    for index, container in enumerate(spec.init_containers):
        sidecar = container.restart_policy == "Always"
        own = of(container, f"spec.initContainers[{index}]", sidecar)
        if sidecar:
            _add(total, own)
            _add(sidecars, own)
            _raise_to(most, sidecars)
        else:
            during = dict(own)
            _add(during, sidecars)
            _raise_to(most, during)
    _raise_to(total, most)
    return total


def _apply_pod_level(total: _Amounts, spec: PodSpec, status: PodStatus | None, infeasible: bool) -> None:
    """Put pod-level requests (KEP-2837) in the place of the containers' sum, for the resources that support it."""
    level = resources_of(spec.resources, "spec.resources")
    if not (level.requests or level.limits):
        return
    requests = amounts_of("spec.resources.requests", level.requests)
    for name, limit in amounts_of("spec.resources.limits", level.limits).items():
        # core/v1 defaults.go, defaultPodRequests: the containers' sum comes before the pod's limit, but for hugepages.
        if name not in requests and (name not in total or name.startswith("hugepages-")):
            requests[name] = limit
    effective = requests
    if requests and status is not None and status.resources not in _ABSENT:
        actuated = resources_of(status.resources, "status.resources").requests
        allocated = _quantities(status.allocated_resources, "status.allocatedResources")
        effective = _resized(requests, actuated, allocated, infeasible, "spec.resources")
    for name in requests:
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = effective.get(name, 0)


def resources_of(raw: msgspec.Raw, path: str) -> ResourceRequirements:
    """Read the resources of a container or pod.

    Raises:
        RequestError: when they have another form than the API's.
    """
    try:
        return _resources_decoder.decode(raw) or _NO_RESOURCES if raw != ABSENT else _NO_RESOURCES
    except msgspec.DecodeError as error:
        raise RequestError(f"{path}: resources: {error}") from None


def _quantities(raw: msgspec.Raw, path: str) -> Quantities | None:
    try:
        return _quantities_decoder.decode(raw) if raw != ABSENT else None
    except msgspec.DecodeError as error:
        raise RequestError(f"{path}: {error}") from None


def _requested(resources: ResourceRequirements, path: str) -> _Amounts:
    if not resources.limits:
        return amounts_of(path, resources.requests) if resources.requests else _NOTHING
    if not resources.requests:
        return amounts_of(path, resources.limits)
    return amounts_of(path, resources.limits | resources.requests)


def _resized(
    wanted: _Amounts, actuated: Quantities | None, allocated: Quantities | None, infeasible: bool, path: str
) -> _Amounts:
    """Upstream's determineEffectiveRequests: the most of all, without the wish when the node can never grant it."""
    most = {} if infeasible else dict(wanted)
    _raise_to(most, amounts_of(path, actuated))
    _raise_to(most, amounts_of(path, allocated))
    return most


def _statuses(status: PodStatus | None) -> dict[bytes, ContainerStatus]:
    if status is None:
        return {}
    found = {bytes(container_status.name): container_status for container_status in status.container_statuses or ()}
    for container_status in status.init_container_statuses or ():
        found[bytes(container_status.name)] = container_status
    return found


def _resize_infeasible(status: PodStatus) -> bool:
    if _PENDING_RESIZE not in bytes(status.conditions_json):
        return False
    pending = (condition.reason for condition in status.conditions if condition.type == _PENDING_RESIZE.decode())
    return next(pending, None) == "Infeasible"


def amounts_of(path: str, quantities: Quantities | None) -> _Amounts:
    """Read quantities, in thousandths of base units.

    Raises:
        RequestError: when one cannot be read.
    """
    try:
        return {name: manifest_thousandths(value) for name, value in (quantities or {}).items()}
    except QuantityError as error:
        raise RequestError(f"{path}: {error}") from None


def _add(total: _Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: _Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        if value > total.get(name, 0):
            total[name] = value
