"""How many placeholders of each sort a policy has: nearly all that a plan reads of them.

Counts follow from the placeholders alone, so a plan keeps them while these are the same. Time is no part of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slack.cluster.snapshot import Amounts, Placeholder

Placeholders = tuple[Placeholder, ...]


@dataclass(frozen=True, slots=True)
class Alike:
    """Placeholders of one policy that a plan does not tell apart."""

    shape: str
    requests: Amounts | None
    """As in `Placeholder`."""
    on_node: bool
    """They are on nodes, or fit there."""
    held: bool
    """Their capacity is held, as in `Placeholder`."""
    unschedulable: bool
    unbound: bool
    count: int
    oldest_seconds: float
    """When the oldest was created; Unix time."""


def by_policy(placeholders: Placeholders) -> tuple[tuple[str, Placeholders], ...]:
    """Return the placeholders of each policy, in the order that they have."""
    found: dict[str, list[Placeholder]] = {}
    for pod in placeholders:
        found.setdefault(pod.policy, []).append(pod)
    return tuple((policy, tuple(pods)) for policy, pods in found.items())


def alike_of(placeholders: Placeholders) -> tuple[Alike, ...]:
    """Count a policy's placeholders, sorts in the order in which they occur."""
    counts: dict[tuple[str, Amounts | None, bool, bool, bool], int] = {}
    oldest: dict[tuple[str, Amounts | None, bool, bool, bool], float] = {}
    for pod in placeholders:
        key = pod.shape, pod.requests, pod.node >= 0, pod.unschedulable, pod.unbound
        count = counts.get(key)
        if count is None:
            counts[key], oldest[key] = 1, pod.created_seconds
            continue
        counts[key] = count + 1
        if pod.created_seconds < oldest[key]:
            oldest[key] = pod.created_seconds
    return tuple(
        Alike(
            shape=shape,
            requests=requests,
            on_node=on_node,
            held=on_node and (unschedulable or not unbound),
            unschedulable=unschedulable,
            unbound=unbound,
            count=count,
            oldest_seconds=oldest[shape, requests, on_node, unschedulable, unbound],
        )
        for (shape, requests, on_node, unschedulable, unbound), count in counts.items()
    )


def requested(alike: Iterable[Alike]) -> Mapping[tuple[str, Amounts], int]:
    """Return how many placeholders of a shape request what, of those that request something else than their shape."""
    found: dict[tuple[str, Amounts], int] = {}
    for each in alike:
        if each.requests is not None:
            found[each.shape, each.requests] = found.get((each.shape, each.requests), 0) + each.count
    return found
