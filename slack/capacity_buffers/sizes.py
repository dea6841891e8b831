"""How many chunks a buffer asks for, by the rules of Cluster Autoscaler 1.37 (capacitybuffer/translators/replicas.go).

`min(max(replicas, ceil(percentage * n / 100)), limits)`; limits alone mean as many as they hold. Karpenter 1.14 has the
same rule. They differ in what is misconfigured: limits of resources that no chunk requests, and no size at all, are
errors here, as in Cluster Autoscaler.
"""

from collections.abc import Mapping

from slack.capacity_buffers.api import BufferSpec
from slack.cluster.quantity import QuantityError, manifest_thousandths
from slack.cluster.wire import Quantities
from slack.errors import InvalidInput

LARGEST_COUNT = (1 << 31) - 1
"""Of the API's int32."""


class InvalidSize(InvalidInput):
    """A spec that gives no size; the message says why."""


def percentage_of(percentage: int, replicas: int) -> int:
    """Return so many percent of an object's replicas, rounded up; never negative."""
    if percentage <= 0 or replicas <= 0:
        return 0
    return min(-(-percentage * replicas // 100), LARGEST_COUNT)


def chunks_within(limits: Quantities, requests: Mapping[str, int]) -> int:
    """Return how many chunks fit within limits, by the scarcest resource.

    Args:
        limits: by resource; one that a chunk does not request says nothing.
        requests: of a chunk, in thousandths of base units.

    Raises:
        InvalidSize: when a limit is no quantity, or no limit is of a resource that a chunk requests.
    """
    fits = []
    for resource, quantity in limits.items():
        requested = requests.get(resource, 0)
        if requested <= 0:
            continue
        try:
            limit = manifest_thousandths(quantity)
        except QuantityError as error:
            raise InvalidSize(f"spec.limits.{resource}: {error}") from None
        most = limit // requested if limit >= 0 else -(-limit // requested)  # cut towards 0, as in Go
        if most >= 0:
            fits.append(most)
    if not fits:
        named = ", ".join(sorted(limits)) or "nothing"
        raise InvalidSize(f"spec.limits: a chunk requests none of these resources: {named}")
    return min(*fits, LARGEST_COUNT)


def size_of(spec: BufferSpec, requests: Mapping[str, int], replicas: int | None) -> int:
    """Return how many chunks a buffer asks for.

    Args:
        spec: of the buffer.
        requests: of a chunk, in thousandths of base units.
        replicas: of the object that `scalableRef` names; None for a `podTemplateRef`, whose percentage says nothing.

    Raises:
        InvalidSize: when the spec gives no size.
    """
    wanted: int | None = None
    if spec.replicas is not None:
        wanted = max(spec.replicas, 0)
    if spec.percentage is not None and replicas is not None:
        wanted = max(wanted or 0, percentage_of(spec.percentage, replicas))
    if spec.limits is not None:
        most = chunks_within(spec.limits, requests)
        return most if wanted is None else min(wanted, most)
    if wanted is None:
        raise InvalidSize("none of spec.replicas, spec.percentage and spec.limits gives a size")
    return wanted
