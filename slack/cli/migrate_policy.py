"""Turns what a migration has found into SlackPolicies: one for each set of nodes, since two may not share any."""

from collections.abc import Mapping, Sequence
from typing import Any

from slack.cli.migrate_found import Found, Json
from slack.cluster.quantity import format_quantity
from slack.planner.policy import API_VERSION, KIND, parse_policy

_LONGEST_NAME = 63
_WIDTH = 116


def merged(found: Sequence[Found]) -> list[list[Found]]:
    """Group what goes to the same nodes: two policies for the same nodes would be a conflict."""
    groups: dict[tuple[tuple[str, str], ...], list[Found]] = {}
    for one in found:
        groups.setdefault(tuple(sorted(one.where.node_selector.items())), []).append(one)
    return list(groups.values())


def policy_of(group: Sequence[Found]) -> Json:
    """Return the SlackPolicy for what goes to one set of nodes, checked as the command and the API server check it.

    Raises:
        BadPolicy: when what was found does not make a policy.
    """
    spec: dict[str, Any] = {}
    where = [one.where for one in group]
    if where[0].node_selector:
        spec["nodeSelector"] = dict(where[0].node_selector)
    tolerations = [dict(t) for i, one in enumerate(where) for t in one.tolerations if not _known(t, where[:i])]
    if tolerations:
        spec["tolerations"] = tolerations
    if any(one.per_zone for one in where):
        spec["perDomain"] = "Zone"
    spec["extraCapacity"] = _size(group)
    if all(one.mirrors for one in group):
        spec["cover"] = {"mode": "None"}  # nothing but the annotated workloads' own placeholders
    scheduler = next((one.scheduler for one in where if one.scheduler != "default-scheduler"), None)
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    name = group[0].name[:_LONGEST_NAME].rstrip("-.")
    document: Json = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    parse_policy(document, source=group[0].source)
    return document


def _known(toleration: Mapping[str, str], others: Sequence[Any]) -> bool:
    return any(toleration in other.tolerations for other in others)


def _size(group: Sequence[Found]) -> Json:
    rates = [one.rate for one in group if one.rate is not None]
    ladder = next((one.ladder for one in group if one.ladder), ())
    size: Json = {"minRate": sum(rates) if rates else 0}
    floor, ceiling = _sum([one.room for one in group]), _sum([one.ceiling for one in group])
    if floor:
        size["floor"] = _texts(floor)
    if ceiling and _bounded(group):
        size["ceiling"] = _texts(ceiling)
    if ladder:
        size["ladder"] = list(ladder)
    return size


def _bounded(group: Sequence[Found]) -> bool:
    """Whether each has a ceiling: one for the whole policy would otherwise cut what has none."""
    return all(one.ceiling for one in group)


def _sum(amounts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in amounts:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return {name: value for name, value in total.items() if value}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_quantity(name, value) for name, value in amounts.items()}


def warnings_of(groups: Sequence[Sequence[Found]]) -> list[str]:
    """Return what a person has to look at, each thing once."""
    said = [warning for group in groups for one in group for warning in one.warnings]
    for group in groups:
        if len(group) > 1:
            names = ", ".join(one.source for one in group)
            said.append(f"{names}: go to the same nodes, so one policy holds the room of all of them")
        if not _bounded(group):
            said += [f"{one.source}: its limits or maximum are not kept" for one in group if one.ceiling]
        if sum(bool(one.ladder) for one in group) > 1:
            said.append(f"{group[0].source}: only the first of its ladders is kept")
    return list(dict.fromkeys(said))


def comments(group: Sequence[Found]) -> list[str]:
    """Return what became of what, as lines of YAML comments."""
    lines = []
    for one in group:
        lines += _wrapped(f"From {one.source}:", "")
        for note in one.notes:
            lines += _wrapped(f"- {note}", "  ")
        if one.ceiling and _bounded(group):
            lines += _wrapped("- limits or maximum -> spec.extraCapacity.ceiling, for all that the policy keeps", "  ")
    if not all(one.mirrors for one in group):
        lines += _wrapped(
            "The floor or rate is the same room; its pieces are cut to the pods that run here, so that each of those "
            "that come often finds room at once. Where those are larger than all of it, more is kept; "
            "spec.cover.exclude leaves them out.",
            "",
        )
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)]
