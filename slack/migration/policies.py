"""Turns what a migration has found into SlackPolicies: one for each set of nodes, since two may not share any."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from slack.cluster.amounts import IN_BYTES, LEAST_BYTES
from slack.cluster.labels import API_VERSION
from slack.cluster.quantity import format_quantity
from slack.cluster.rates import MOST_WITHOUT_CEILING
from slack.migration.capacity_buffers import is_buffer, room_of_buffer
from slack.migration.findings import Json, KeptRoom
from slack.migration.overprovisioners import is_placeholder, room_of_deployment
from slack.planner.policy.spec import KIND, parse_policy

_LONGEST_NAME = 63
_WIDTH = 116


def rooms_in(manifests: Sequence[Json], node_cpu_millis: int | None, chosen: Json | None = None) -> list[KeptRoom]:
    """Read what keeps room.

    Args:
        manifests: all that was given, what explains the rest too.
        node_cpu_millis: cpu of a node, for ladders that count nodes; None when it was not told.
        chosen: only this one of them, whether it looks as if it kept room or not.

    Raises:
        CannotMigrate: when the size or the pods of one of them cannot be told.
    """
    rooms = []
    for manifest in manifests if chosen is None else [chosen]:
        if is_buffer(manifest):
            rooms.append(room_of_buffer(manifest, manifests))
        elif chosen is not None or is_placeholder(manifest, manifests):
            rooms.append(room_of_deployment(manifest, manifests, node_cpu_millis))
    return rooms


def merged(rooms: Sequence[KeptRoom]) -> list[list[KeptRoom]]:
    """Group what goes to the same nodes: two policies for the same nodes would be a conflict."""
    groups: dict[tuple[tuple[str, str], ...], list[KeptRoom]] = {}
    for kept in rooms:
        groups.setdefault(tuple(sorted(kept.placement.node_selector.items())), []).append(kept)
    return list(groups.values())


def policy_of(group: Sequence[KeptRoom]) -> Json:
    """Return the SlackPolicy for what goes to one set of nodes, checked as the command and the API server check it.

    Raises:
        BadPolicy: when what was found does not make a policy.
    """
    spec: dict[str, Any] = {}
    placements = [kept.placement for kept in group]
    if placements[0].node_selector:
        spec["nodeSelector"] = dict(placements[0].node_selector)
    tolerations: list[dict[str, str]] = []
    for placement in placements:  # each once, but for what one object has twice
        known = list(tolerations)
        tolerations += [dict(toleration) for toleration in placement.tolerations if toleration not in known]
    if tolerations:
        spec["tolerations"] = tolerations
    if any(placement.per_zone for placement in placements):
        spec["perDomain"] = "Zone"
    spec["extraCapacity"] = _size(group)
    if all(kept.mirrors for kept in group):
        spec["cover"] = {"mode": "None"}  # nothing but the annotated workloads' own placeholders
    scheduler = next((placement.scheduler for placement in placements if placement.scheduler is not None), None)
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    name = group[0].name[:_LONGEST_NAME].rstrip("-.")
    document: Json = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    parse_policy(document, source=group[0].source)
    return document


def _size(group: Sequence[KeptRoom]) -> Json:
    rates = [kept.rate for kept in group if kept.rate is not None]
    ladder = next((kept.ladder for kept in group if kept.ladder), ())
    size: Json = {"minRate": min(sum(rates), MOST_WITHOUT_CEILING) if rates else 0}
    floor, ceiling = _sum([kept.room for kept in group]), _sum([kept.ceiling for kept in group])
    if floor:
        size["floor"] = _texts(floor)
    if ceiling and _bounded(group):
        size["ceiling"] = _texts(ceiling)
    if ladder:
        size["ladder"] = list(ladder)
    return size


def _bounded(group: Sequence[KeptRoom]) -> bool:
    """Whether each has a ceiling: one for the whole policy would otherwise cut what has none."""
    return all(kept.ceiling for kept in group)


def _sum(amounts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            total[name] = total.get(name, 0) + value
    return {name: value for name, value in total.items() if value >= (LEAST_BYTES if name in IN_BYTES else 1)}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_quantity(name, value) for name, value in amounts.items()}


def warnings_of(groups: Sequence[Sequence[KeptRoom]]) -> list[str]:
    """Return what a person has to look at, each thing once."""
    said = [warning for group in groups for kept in group for warning in kept.warnings]
    for group in groups:
        if len(group) > 1:
            names = ", ".join(kept.source for kept in group)
            said.append(f"{names}: go to the same nodes, so one policy holds the room of all of them")
        if not _bounded(group):
            said += [f"{kept.source}: its limits or maximum are not kept" for kept in group if kept.ceiling]
        if sum(bool(kept.ladder) for kept in group) > 1:
            said.append(f"{group[0].source}: only the first of its ladders is kept")
    return list(dict.fromkeys(said))


def comments(group: Sequence[KeptRoom]) -> list[str]:
    """Return what became of what, as lines of YAML comments."""
    lines = []
    for kept in group:
        lines += _wrapped(f"From {kept.source}:", "")
        for note in kept.notes:
            lines += _wrapped(f"- {note}", "  ")
        if kept.ceiling and _bounded(group):
            lines += _wrapped("- limits or maximum -> spec.extraCapacity.ceiling, for all that the policy keeps", "  ")
    if not all(kept.mirrors for kept in group):
        lines += _wrapped(
            "The floor or rate is the same room; its pieces are cut to the pods that run here, so that each of those "
            "that come often finds room at once. Where those are larger than all of it, more is kept; "
            "spec.cover.exclude leaves them out.",
            "",
        )
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)]
