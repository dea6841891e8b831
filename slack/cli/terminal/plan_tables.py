"""Plans as people read them; nothing is decided here."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slack.cli.terminal.console import console, print_table
from slack.cluster.snapshot import IntArray
from slack.planner.model.amount_text import resources_text
from slack.planner.model.result import ConditionType, Plan, PolicyPlan, ShapePlan
from slack.planner.model.whys import why_of

_WORKLOADS_SHOWN = 3
_UNCOVERED_SHOWN = 10
_GOOD_WHEN_FALSE = {
    ConditionType.PINS_NODES,
    ConditionType.LIMIT_REACHED,
    ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS,
    ConditionType.LARGE_SLACK,
}
_ALARMING = "MoreThanDoubles"
_NOT_YET = {"Refilling", "PlaceholdersPending", "DryRun"}
"""Of a plan that nobody has carried out this is no news."""


def print_plan(
    plan: Plan,
    built_in_rate: float | None,
    *,
    spared: Mapping[str, str | None],
    wide: bool = False,
    headers: bool = True,
) -> None:
    """Print every policy's plan.

    Args:
        plan: what is planned.
        built_in_rate: the rate of the built-in policy where that is what is planned for.
        spared: by policy, what the pods of a day would have waited without slack, in words.
        wide: every workload and everything that is not covered, however many.
        headers: tables have headings.
    """
    out = console()
    if built_in_rate is not None:
        text = (
            f"There is no SlackPolicy. This plan is for the built-in policy with --extra-capacity-min-rate "
            f"{built_in_rate:g}. An operator keeps it only with --built-in-policy."
        )
        out.print(text, style="dim", soft_wrap=True)
    for number, item in enumerate(plan.items):
        if number:
            out.print()
        _policy(out, item, spared.get(item.policy), wide=wide, headers=headers)


def _vector(vector: IntArray, resources: Sequence[str]) -> str:
    return resources_text((name, int(value)) for name, value in zip(resources, vector, strict=True)).replace(
        "no requests", "nothing"
    )


def _policy(out: Console, item: PolicyPlan, spared: str | None, *, wide: bool, headers: bool) -> None:
    mode = " (dryRun)" if item.dry_run else ""
    out.print(Text(f"Policy {item.policy}{mode}", style="bold"))
    sets = f"  ({'; '.join(map(str, item.wanted_by))})" if item.wanted_by else ""
    out.print(f"  nodes    {item.nodes}")
    out.print(Text(f"  wanted   {_vector(item.asked, item.resources)}{sets}"), soft_wrap=True)
    why = why_of(item)
    if item.why is not None and why is not None:
        out.print(Text(f"  why      for {item.why.objective * 100:.4g} %: {why}"), soft_wrap=True)
    if item.binding:
        limits = ", ".join(map(str, item.binding))
        out.print(Text(f"  limit    {limits}", style="yellow"), soft_wrap=True)
    out.print(f"  planned  {_vector(item.planned, item.resources)}")
    if item.buffered is not None:
        out.print(f"  of that  {_vector(item.buffered, item.resources)}  (in CapacityBuffers)")
    if item.cost is not None:
        out.print(Text(f"  costs    {item.cost}"), soft_wrap=True)
    if spared is not None:
        out.print(Text(f"  spared   {spared}"), soft_wrap=True)
    shapes = [shape for shape in item.shapes if shape.count or shape.change.remove]
    if shapes:
        print_table(out, _shapes(shapes, wide=wide), headers=headers)
    if item.uncovered:
        out.print("  No capacity is kept for:")
        most = len(item.uncovered) if wide else _UNCOVERED_SHOWN
        for uncovered in item.uncovered[:most]:
            out.print(Text(f"    {uncovered.pod}: {uncovered.reason}"), soft_wrap=True)
        if len(item.uncovered) > most:
            out.print(f"    and {len(item.uncovered) - most} more (-o wide has them all)")
    # Where a policy is blocked, several conditions say so in the same words: once is enough for people.
    said: dict[str, list[str]] = {}
    for condition in item.conditions:
        if condition.reason == _ALARMING:
            text = f"  this more than doubles the cluster: {condition.message}"
            out.print(Text(text, style="bold red"), soft_wrap=True)
        elif condition.reason not in _NOT_YET and condition.status == (condition.type in _GOOD_WHEN_FALSE):
            said.setdefault(f"={condition.status} {condition.reason}: {condition.message}", []).append(condition.type)
    for text, types in said.items():
        out.print(Text(f"  {', '.join(types)}{text}", style="yellow"), soft_wrap=True)


def _shapes(shapes: Sequence[ShapePlan], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("  SHAPE", no_wrap=True)
    table.add_column("ROLE", no_wrap=True)
    table.add_column("COUNT", justify="right", no_wrap=True)
    table.add_column("EACH", no_wrap=True)
    table.add_column("CHANGE", no_wrap=True)
    table.add_column("FOR")
    for shape in shapes:
        table.add_row(
            f"  {shape.shape.name}",
            str(shape.role),
            str(shape.count),
            resources_text(shape.shape.requests),
            _change(shape),
            _workloads(shape.workloads, len(shape.workloads) if wide else _WORKLOADS_SHOWN),
        )
    return table


def _change(shape: ShapePlan) -> str:
    parts = [
        f"+{shape.change.add}" if shape.change.add else "",
        f"-{shape.change.remove}" if shape.change.remove else "",
    ]
    return " ".join(part for part in parts if part) or "none"


def _workloads(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
