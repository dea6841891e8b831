"""Turns what a migration has found into SlackPolicies: one for each set of nodes, since two may not share any."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slack.cluster.amounts import IN_BYTES, LEAST_BYTES
from slack.cluster.labels import API_VERSION
from slack.cluster.quantity import format_quantity
from slack.migration.capacity_buffers import is_buffer, room_of_buffer
from slack.migration.findings import DEFAULT_SCHEDULER, Json, KeepsNothing, KeptRoom, object_name
from slack.migration.overprovisioners import is_placeholder, only_runs_pause, room_of_deployment
from slack.migration.proportional_autoscaler import MOST_STEPS
from slack.planner.model.amount_text import resources_text
from slack.planner.policy.spec import KIND, parse_policy
from slack.planner.wanted.fill_stable import MOST_PLACEHOLDERS

_LONGEST_NAME = 63
_WIDTH = 116
_SAME_RATIO = 1.0001
"""Up to so many times as much is the same amount, given in other units; a hundredth is more than one of many
placeholders."""


def rooms_in(manifests: Sequence[Json], node_cpu_millis: int | None, chosen: Json | None = None) -> list[KeptRoom]:
    """Read what keeps room.

    Args:
        manifests: all that was given, what explains the rest too.
        node_cpu_millis: cpu of a node, for ladders that count nodes; None when it was not told.
        chosen: only this one of them, whether it looks as if it kept room or not.

    Raises:
        CannotMigrate: when the size or the pods of one of them cannot be told, or none of them keeps any room.
    """
    rooms: list[KeptRoom] = []
    without: list[KeepsNothing] = []
    for manifest in manifests if chosen is None else [chosen]:
        try:
            if is_buffer(manifest):
                rooms.append(room_of_buffer(manifest, manifests))
            elif chosen is not None or is_placeholder(manifest, manifests):
                rooms.append(room_of_deployment(manifest, manifests, node_cpu_millis))
        except KeepsNothing as error:
            without.append(error)
    if without and not rooms:
        raise without[0]
    if without:
        rooms[0] = replace(rooms[0], warnings=(*rooms[0].warnings, *map(str, without)))
    return rooms


def pause_pods_of_usual_priority(manifests: Sequence[Json]) -> list[str]:
    """Return names of what runs pause and may keep capacity, though its pods have the priority of others."""
    return [object_name(manifest) for manifest in manifests if only_runs_pause(manifest, manifests)]


def group_by_nodes(rooms: Sequence[KeptRoom]) -> list[list[KeptRoom]]:
    """Group what goes to the same nodes: two policies for the same nodes would be a conflict."""
    groups: dict[tuple[tuple[str, str], ...], list[KeptRoom]] = {}
    for kept in rooms:
        groups.setdefault(tuple(sorted(kept.placement.node_selector.items())), []).append(kept)
    return list(groups.values())


def policies_of(groups: Sequence[Sequence[KeptRoom]]) -> list[Json]:
    """Return a SlackPolicy for each group. Policies are cluster-wide, so each has a name that no other one has."""
    taken: set[str] = set()
    documents = []
    for group in groups:
        first = group[0]
        names = [
            first.name,
            f"{first.namespace}-{first.name}",
            *(f"{first.name}-{n}" for n in range(2, len(groups) + 2)),
        ]
        name = next(name for name in map(_short, names) if name not in taken)
        taken.add(name)
        documents.append(policy_of(group, name))
    return documents


def _short(name: str) -> str:
    """Return a name that is valid for a policy; the end tells long ones apart."""
    return name if len(name) <= _LONGEST_NAME else name[-_LONGEST_NAME:].lstrip("-.")


def policy_of(group: Sequence[KeptRoom], name: str | None = None) -> Json:
    """Return the SlackPolicy for what goes to one set of nodes, checked as the command and the API server check it.

    Args:
        group: what goes there.
        name: of the policy; that of the first of them if None.

    Raises:
        InvalidPolicy: when what was found does not make a policy.
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
    if "nodes" in spec["extraCapacity"] or all(kept.mirrors for kept in group):
        spec["cover"] = {"mode": "None"}  # nothing but these nodes, or the annotated workloads' own placeholders
    scheduler = _scheduler(group)
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    if reserve := _reserve(group):
        spec["reserve"] = reserve
    metadata = {"name": name or _short(group[0].name)}
    document: Json = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    parse_policy(document, source=group[0].source)
    return document


def _scheduler(group: Sequence[KeptRoom]) -> str | None:
    """Return the scheduler of a policy's placeholders; None for the default one."""
    return next((kept.placement.scheduler for kept in group if kept.placement.scheduler is not None), None)


def is_of_nodes(group: Sequence[KeptRoom]) -> bool:
    """Whether a policy says its size in whole nodes: of several objects only the amounts can be added."""
    return len(group) == 1 and group[0].nodes is not None and not group[0].placement.per_zone


def _size(group: Sequence[KeptRoom]) -> Json:
    if is_of_nodes(group):
        return {"nodes": group[0].nodes}
    size: Json = {"minRate": 0}
    floor, ceiling = _sum(kept.room for kept in group), _sum(_most(kept) for kept in group)
    if floor:
        size["floor"] = _texts(floor)
    if ceiling and _bounded(group):
        size["ceiling"] = _texts(ceiling)
    if ladder := _ladder(group):
        size["ladder"] = [
            {
                "fromAllocatable": {"cpu": format_quantity("cpu", at)},
                "minRate": 0,
                **({"floor": _texts(amount)} if amount else {}),
            }
            for at, amount in ladder
        ]
    return size


def _ladder(group: Sequence[KeptRoom]) -> list[tuple[int, Mapping[str, int]]]:
    """Return the steps of all ladders as one; what is fixed is a part of each step, for a floor replaces a floor."""
    ladders = [kept.ladder for kept in group if kept.ladder]
    fixed = [kept.room for kept in group if not kept.ladder]
    starts = sorted({at for ladder in ladders for at, _ in ladder})
    return _thin_out([(start, _sum([*fixed, *(_at(ladder, start) for ladder in ladders)])) for start in starts])


def _thin_out(steps: list[tuple[int, Mapping[str, int]]]) -> list[tuple[int, Mapping[str, int]]]:
    """Return no more steps than a policy may have: of two neighbours at large sizes, the larger amount of each."""
    while (over := len(steps) - MOST_STEPS) > 0:
        first = len(steps) - 2 * min(over, len(steps) // 2)
        pairs = zip(steps[first::2], steps[first + 1 :: 2], strict=True)
        steps = [*steps[:first], *((at, _larger(amount, following)) for (at, amount), (_, following) in pairs)]
    return steps


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _at(ladder: Sequence[tuple[int, Mapping[str, int]]], millis: int) -> Mapping[str, int]:
    return next((amount for at, amount in reversed(ladder) if at <= millis), {})


def _most(kept: KeptRoom) -> Mapping[str, int]:
    """Return the most that an object keeps; nothing where it has no bound."""
    return kept.ceiling or ({} if kept.mirrors or kept.ladder else kept.room)


def _bounded(group: Sequence[KeptRoom]) -> bool:
    """Whether each has a bound, and one of them a ceiling: one for the whole policy would cut what has none."""
    return any(kept.ceiling for kept in group) and all(_most(kept) for kept in group)


def _reserve(group: Sequence[KeptRoom]) -> Json:
    """Return bounds of reservations under which the annotated workloads get what their buffers asked for."""
    mirrors = [kept for kept in group if kept.mirrors]
    reserve: Json = {}
    share = max((kept.most_share for kept in mirrors), default=1.0)
    if share > 1:
        reserve["maxShare"] = share
    if mirrors and all(kept.reserve for kept in mirrors):
        reserve["ceiling"] = _texts(_sum(kept.reserve for kept in mirrors))
    return reserve


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
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
        if is_of_nodes(group):
            said.append(
                f"{group[0].source}: the policy keeps whole nodes: all that they have but their DaemonSets, which is "
                "more than its pods request"
            )
        if not _bounded(group):
            said += [f"{kept.source}: its limits or maximum are not kept" for kept in group if kept.ceiling]
        if len({at for kept in group for at, _ in kept.ladder}) > MOST_STEPS:
            names = ", ".join(kept.source for kept in group if kept.ladder)
            said.append(
                f"{names}: a policy has {MOST_STEPS} steps at most, so some at large sizes of the cluster are one, "
                "which keeps the most of them"
            )
        schedulers = sorted({kept.placement.scheduler or DEFAULT_SCHEDULER for kept in group})
        if len(schedulers) > 1:
            names = ", ".join(kept.source for kept in group)
            said.append(
                f"{names}: are of several schedulers ({', '.join(schedulers)}); all placeholders of the policy are of "
                f"{_scheduler(group)}"
            )
        said += _told_of_ceiling(group)
        said += _told_of_ratios(group)
    return list(dict.fromkeys(said))


def _told_of_ceiling(group: Sequence[KeptRoom]) -> list[str]:
    """Say how a ceiling in two resources may keep less than what the placeholders of others do."""
    ceiling = _sum(_most(kept) for kept in group)
    if not ceiling or not _bounded(group) or all(kept.mirrors for kept in group):
        return []
    names = ", ".join(kept.source for kept in group if kept.ceiling)
    ratio = (
        "Where these use cpu and memory in another ratio than the ceiling has, one resource reaches it first, and the "
        "policy keeps less of the other. "
    )
    return [
        f"{names}: the ceiling ({resources_text(ceiling.items())}) holds in each resource, and placeholders are cut "
        f"like the pods that run here. {ratio if len(ceiling) > 1 else ''}A ceiling below one such pod may keep "
        "nothing. `resource-slack plan` shows what is kept; without extraCapacity.ceiling it is not less than theirs"
    ]


def _told_of_ratios(group: Sequence[KeptRoom]) -> list[str]:
    """Say how much more of each resource is kept where placeholders of several ratios become one amount."""
    more = excess_by_ratio(group)
    if not more or (_bounded(group) and not _ladder(group)):  # a floor that is the ceiling is never exceeded
        return []
    names = ", ".join(kept.source for kept in group if _proportion(kept))
    amounts = " and ".join(f"{factor:.2f} times their {name}" for name, factor in more.items())
    return [
        f"{names}: their placeholders use cpu and memory in different ratios, and the policy cuts its placeholders "
        f"like the pods that run here. If all of these are like one of them, it keeps up to {amounts}, to have enough "
        "of both. `resource-slack plan` shows what is kept; a ceiling bounds it"
    ]


def excess_by_ratio(group: Sequence[KeptRoom]) -> dict[str, float]:
    """Return by resource how many times as much a policy may keep, in hundredths, where that is more than theirs.

    Each amount is reached in every resource by placeholders of one object's ratio: the one that needs the most.
    """
    shapes = [shape for shape in map(_proportion, group) if shape]
    found: dict[str, float] = {}
    for total in [amount for _, amount in _ladder(group)] or [_sum(kept.room for kept in group)]:
        for shape in shapes:
            if any(not shape.get(name) for name in total):
                continue  # placeholders without a resource never reach it
            number = max((amount / shape[name] for name, amount in total.items()), default=0.0)
            for name, amount in total.items():
                found[name] = max(found.get(name, 1.0), number * shape[name] / amount)
    return {
        name: math.ceil(round(factor * 100, 6)) / 100 for name, factor in sorted(found.items()) if factor > _SAME_RATIO
    }


def _proportion(kept: KeptRoom) -> Mapping[str, int]:
    """Return in which ratio an object keeps resources; nothing where it keeps none by itself."""
    return {} if kept.mirrors else (kept.ladder[-1][1] if kept.ladder else kept.room)


def comments(group: Sequence[KeptRoom]) -> list[str]:
    """Return what became of what, as lines of YAML comments."""
    lines = []
    for kept in group:
        lines += _wrap(f"From {kept.source}:", "")
        notes = kept.notes
        if is_of_nodes(group):
            notes = (f"{kept.nodes} pods, each on a node of its own -> spec.extraCapacity.nodes", *notes[1:])
        for note in notes:
            lines += _wrap(f"- {note}", "  ")
        if kept.reserve:
            lines += _wrap("- its bound -> spec.reserve, which bounds all reservations of the policy", "  ")
        if kept.ceiling and _bounded(group):
            lines += _wrap("- limits or maximum -> spec.extraCapacity.ceiling, for all that the policy keeps", "  ")
    if not is_of_nodes(group) and not all(kept.mirrors for kept in group):
        lines += _wrap(
            "The floor is the same room; its pieces are cut to the pods that run here, so that each of those "
            "that come often finds room at once. If no such pod is larger than their placeholders, and some are like "
            "them, the policy keeps as much as they do, give or take one piece. Pods that are larger, or that use cpu "
            "and memory in another ratio, make it keep more, or less where the ceiling binds. Of one size there are at "
            f"most {MOST_PLACEHOLDERS} pieces. `resource-slack plan` "
            "shows the amount for a cluster; spec.cover.exclude leaves pods out.",
            "",
        )
    return lines


def _wrap(text: str, indent: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)]
