"""What a pod requests in effect, to the unit, as kube-scheduler 1.36 counts it.

The rule is component-helpers' resource.PodRequests (v0.36.0, resource/helpers.go) with UseStatusResources, which the
NodeResourcesFit plugin sets: containers and native sidecars are summed, init containers raise the total to the most
that is needed while one of them runs, pod-level requests take the place of the sum, overhead comes on top. Sums are
made in thousandths, as the API server stores them, and rounded up once at the end.

`pods` is not among them: every pod takes one slot, which is counted apart.
"""

from collections.abc import Callable, Mapping

from slack.cluster.quantity import QuantityError, rounded, thousandths
from slack.cluster.wire import Container, ContainerStatus, PodSpec, PodStatus, Quantities, Resources

_Amounts = dict[str, int]
"""Thousandths of a base unit by resource name."""

LARGEST_REQUEST = 1 << 53
"""Nothing real is larger (9 PB); capped there, a thousand such pods still add up within an int64 column."""
_NOTHING: _Amounts = {}


class RequestError(ValueError):
    """A quantity in a pod or node that cannot be read; the message gives the field's path and the text."""


def effective_requests(
    spec: PodSpec | None, status: PodStatus | None = None, *, non_missing: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return what a pod requests: cpu in millicores, other resources in base units; resources at 0 are left out.

    Where a limit is given without a request, the request is the limit: the API server defaults so, a file may not.

    Args:
        spec: of the pod, or of a template.
        status: of the pod; without it, in-place resizes are not seen.
        non_missing: requests that a container without one is taken to have, by resource (the scheduler's scoring
            uses 100m and 200Mi; its filters, and so our planner, use none).

    Raises:
        RequestError: when a quantity cannot be read.
    """
    if spec is None:
        return {}
    infeasible = status is not None and _resize_infeasible(status)
    defaults = _amounts("non_missing", non_missing) if non_missing else _NOTHING
    granted = _statuses(status)

    def of(container: Container, path: str, resizable: bool) -> _Amounts:
        wanted = _requested(container.resources, path)
        held = granted.get(container.name) if resizable and granted else None
        if held is not None and held.resources is not None and not _granted_as_asked(held, container):
            wanted = _resized(wanted, held.resources.requests, held.allocated_resources, infeasible, path)
        return {**defaults, **wanted} if defaults else wanted

    total = _containers(spec, of)
    _apply_pod_level(total, spec, status, infeasible)
    if spec.overhead:
        _add(total, _amounts("spec.overhead", spec.overhead))
    return {
        name: min(rounded(name, value), LARGEST_REQUEST)
        for name, value in total.items()
        if value > 0 and name != "pods"
    }


def allocatable_amounts(quantities: Quantities | None) -> dict[str, int]:
    """Return a node's allocatable: cpu in millicores, other resources in base units, `pods` included.

    Raises:
        RequestError: when a quantity cannot be read.
    """
    return {
        name: min(rounded(name, value), LARGEST_REQUEST)
        for name, value in _amounts("status.allocatable", quantities).items()
    }


def _containers(spec: PodSpec, of: Callable[[Container, str, bool], _Amounts]) -> _Amounts:
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
    level = spec.resources
    if level is None or not (level.requests or level.limits):
        return
    requests = _amounts("spec.resources.requests", level.requests)
    for name, limit in _amounts("spec.resources.limits", level.limits).items():
        # core/v1 defaults.go, defaultPodRequests: the containers' sum comes before the pod's limit, but for hugepages.
        if name not in requests and (name not in total or name.startswith("hugepages-")):
            requests[name] = limit
    effective = requests
    if requests and status is not None and status.resources is not None:
        effective = _resized(
            requests, status.resources.requests, status.allocated_resources, infeasible, "spec.resources"
        )
    for name in requests:
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = effective.get(name, 0)


def _requested(resources: Resources | None, path: str) -> _Amounts:
    if resources is None:
        return _NOTHING
    if not resources.limits:
        return _amounts(path, resources.requests) if resources.requests else _NOTHING
    if not resources.requests:
        return _amounts(path, resources.limits)
    return _amounts(path, resources.limits | resources.requests)


def _resized(
    wanted: _Amounts, actuated: Quantities | None, allocated: Quantities | None, infeasible: bool, path: str
) -> _Amounts:
    """Upstream's determineEffectiveRequests: the most of all, without the wish when the node can never grant it."""
    most = {} if infeasible else dict(wanted)
    _raise_to(most, _amounts(path, actuated))
    _raise_to(most, _amounts(path, allocated))
    return most


def _granted_as_asked(held: ContainerStatus, container: Container) -> bool:
    """Say whether nothing is being resized, as for nearly all pods: then the request is the request."""
    asked = container.resources.requests if container.resources else None
    granted = held.resources.requests if held.resources else None
    return granted == asked and held.allocated_resources in (asked, None)


def _statuses(status: PodStatus | None) -> dict[str, ContainerStatus]:
    if status is None:
        return {}
    found = {one.name: one for one in status.container_statuses or ()}
    for one in status.init_container_statuses or ():
        found[one.name] = one
    return found


def _resize_infeasible(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _amounts(path: str, quantities: Mapping[str, str | int | float] | None) -> _Amounts:
    try:
        return {
            name: thousandths(text if isinstance(text, str) else str(text))
            for name, text in (quantities or _NOTHING).items()
        }
    except QuantityError as error:
        raise RequestError(f"{path}: {error}") from None


def _add(total: _Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: _Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        if value > total.get(name, 0):
            total[name] = value
