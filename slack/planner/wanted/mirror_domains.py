"""Mirrors of workloads that spread over zones, in the unbound form: divided among the zones by us.

A topology spread constraint counts pods of its own namespace only, so it sees no pod of the workload. Bound mirrors are
at least spread among themselves by the scheduler. Unbound ones are packed by autoscalers, which would bring a node
in a zone that the workload's next pod may not take. So a node selector puts each mirror into a zone that the constraint
leaves to the next pods, and the constraint is left out. The same holds for any topology key but the host's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slack.cluster.classes import NodeClass, admits
from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.membership import Domain
from slack.planner.model.shape import Shape, WantedShape


def divided_mirror(
    snapshot: Snapshot,
    domain: Domain,
    spread: Sequence[Mapping[str, Any]],
    mirror: WantedShape,
    replicas: Mapping[Shape, int],
) -> tuple[WantedShape, ...]:
    """Divide a mirror among the zones that its workload spreads over; it stays whole if it spreads over none.

    Args:
        snapshot: the cluster.
        domain: of the policy.
        spread: the workload's hard constraints that count its own pods, see `own_spread`.
        mirror: of all zones, with the kinds of the workload's pods.
        replicas: how many mirrors there are of each shape.

    Returns:
        One for each zone, some of them with no placeholder.
    """
    classes = [snapshot.node_classes[c] for c in np.flatnonzero(domain.owned)]
    classes += [template.node_class for template in domain.templates]
    constraint = widest_spread(classes, spread, mirror.shape)
    if constraint is None:
        return (mirror,)
    key, max_skew, values = constraint
    shapes = {value: pinned(mirror.shape, key, value) for value in values}
    counts = shares(
        mirror.count,
        pods=_pods_by_value(snapshot, mirror, key, values),
        there={value: replicas.get(shape, 0) for value, shape in shapes.items()},
        max_skew=max_skew,
    )
    return tuple(replace(mirror, shape=shape, count=counts[value]) for value, shape in shapes.items())


def pinned(shape: Shape, key: str, value: str) -> Shape:
    """Return the shape for one zone."""
    return replace(shape, node_selector=tuple(sorted({*shape.node_selector, (key, value)})))


def shares(count: int, *, pods: Mapping[str, int], there: Mapping[str, int], max_skew: int) -> dict[str, int]:
    """Divide placeholders as the constraint lets the next pods in.

    Of the zones that may have the next pod, it goes to one that has a placeholder already, so that none moves without
    need; then to the one with the fewest pods.

    Args:
        count: of placeholders.
        pods: of the workload, by zone; all zones.
        there: placeholders that are there, by zone.
        max_skew: of the constraint.
    """
    placed, left, found = dict(pods), dict(there), dict.fromkeys(pods, 0)
    for _ in range(count):
        least = min(placed.values())
        allowed = [zone for zone in placed if placed[zone] + 1 - least <= max_skew] or list(placed)
        zone = min(allowed, key=lambda each: (left.get(each, 0) <= 0, placed[each], each))
        placed[zone] += 1
        found[zone] += 1
        left[zone] = left.get(zone, 0) - 1
    return found


def widest_spread(
    classes: Iterable[NodeClass], spread: Sequence[Mapping[str, Any]], shape: Shape
) -> tuple[str, int, Sequence[str]] | None:
    """Return key, greatest skew and values of the constraint that divides nodes into most zones; None where none does.

    Args:
        classes: of the nodes that count.
        spread: hard constraints of the workload.
        shape: of one placeholder.
    """
    if not spread:
        return None
    labels = [dict(each.labels) for each in classes if admits(shape.constraints, each)]
    found: list[tuple[str, int, Sequence[str]]] = []
    for constraint in spread:
        key = str(constraint.get("topologyKey", ""))
        values = sorted({each[key] for each in labels if each.get(key)})
        if key != HOSTNAME and values and key not in dict(shape.node_selector):
            found.append((key, int(constraint.get("maxSkew", 1)), values))
    return max(found, key=lambda each: (len(each[2]), each[0]), default=None)


def _pods_by_value(snapshot: Snapshot, mirror: WantedShape, key: str, values: Iterable[str]) -> dict[str, int]:
    """Count the workload's pods in each zone."""
    found, presence = dict.fromkeys(values, 0), snapshot.presence
    own = np.isin(presence.kind, mirror.kinds)
    for node_class, count in zip(presence.node_class[own].tolist(), presence.count[own].tolist(), strict=True):
        value = dict(snapshot.node_classes[node_class].labels).get(key, "")
        if value in found:
            found[value] += count
    return found
