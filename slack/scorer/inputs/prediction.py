"""What a pod is expected to use before any metrics show it, and what the pod that is to be placed asks for.

By container: its limit, its request times a multiplier, or its request, as `Prediction.use` says; what requests nothing
counts for the default. Unlike upstream, init containers, native sidecars and pod-level resources are minded, as the
scheduler minds them for requests. Halves of a millicore are rounded away from zero: 3m times 1.5 is 5m.
"""

import math

from slack.cluster.requests import (
    ResourceRequirements,
    amounts_of,
    effective_limits,
    effective_requests,
    overhead_of,
    resources_of,
    summed_containers,
)
from slack.cluster.wire import Container, PodSpec, PodStatus
from slack.scorer.model import RESOURCES, PodDemand
from slack.scorer.rules import PodUse, Prediction

_BYTE = 1000
"""Amounts are in thousandths: millicores, and thousandths of bytes."""


def predicted_use(spec: PodSpec, prediction: Prediction) -> tuple[float, float]:
    """Return the millicores and bytes that a pod is expected to use, overhead included.

    Raises:
        RequestError: when a quantity of the pod cannot be read.
    """
    defaults = {
        "cpu": prediction.default_cpu_millis,
        "memory": prediction.default_memory_bytes * _BYTE,
    }

    def of(container: Container, path: str, _: bool) -> dict[str, int]:
        return defaults | _predicted_use(resources_of(container.resources, path), path, prediction)

    total = summed_containers(spec, of)
    total |= _predicted_use(resources_of(spec.resources, "spec.resources"), "spec.resources", prediction)
    overhead = overhead_of(spec)
    cpu, memory = (total.get(name, 0) + overhead.get(name, 0) for name in RESOURCES)
    return float(cpu), math.ceil(memory / _BYTE)


def demand_of(
    spec: PodSpec | None, prediction: Prediction, *, status: PodStatus | None = None, placeholder: bool = False
) -> PodDemand:
    """Return what a pod asks for.

    Args:
        spec: of the pod.
        prediction: how its use is predicted.
        status: of the pod, for in-place resizes.
        placeholder: it is one of slack's own.

    Raises:
        RequestError: when a quantity of the pod cannot be read.
    """
    if spec is None:
        return PodDemand(placeholder=placeholder)
    requests, limits = effective_requests(spec, status), effective_limits(spec)
    cpu, memory = (requests.get(name, 0) for name in RESOURCES)
    return PodDemand(
        requests=(cpu, memory),
        limits=(max(limits.get("cpu", 0), cpu), max(limits.get("memory", 0), memory)),
        predicted=predicted_use(spec, prediction),
        placeholder=placeholder,
    )


def _predicted_use(resources: ResourceRequirements, path: str, prediction: Prediction) -> dict[str, int]:
    """Return amounts of what says anything, in thousandths; a limit without a request is the request, too."""
    limits = amounts_of(f"{path}.limits", resources.limits)
    requests = limits | amounts_of(f"{path}.requests", resources.requests)
    expected = {}
    for name in RESOURCES:
        if prediction.use is PodUse.LIMITS and name in limits:
            expected[name] = limits[name]
        elif name in requests:
            factor = 1.0 if prediction.use is PodUse.REQUESTS else prediction.multiplier
            expected[name] = math.floor(requests[name] * factor + 0.5)
    return expected
