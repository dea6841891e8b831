"""What `throttler status` says to people: policies, then each node where somebody waits or starts, and a verdict.

A cluster of 500 nodes in a storm has thousands of rows: without `wide` the nodes that matter most come first, and what
is left out is counted.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slack.cli.terminal.counts import count_text
from slack.health.ages import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Mapping[str, Any]

NODES_SHOWN = 12
ROWS_SHOWN = 8
_NAMES_SHOWN = 5
_MOVING = ("failed", "pending", "starting", "blocked", "downloading")
_COUNTED = ("starting", "pending", "blocked", "failed")


def print_status(shown: Json, *, wide: bool, whole: bool, headers: bool = True) -> None:
    """Print it.

    Args:
        shown: the document.
        wide: everything, however long.
        headers: tables have headings.
        whole: also nodes where nobody waits, as when one is asked for by name.
    """
    from slack.cli.terminal.console import console

    out = console()
    _policies(out, shown["policies"], wide=wide, headers=headers)
    nodes = [node for node in shown["nodes"] if whole or _moving(node)]
    nodes.sort(key=lambda node: (-node["counts"]["failed"], _oldest(node), node["name"]))
    for node in nodes if wide or whole else nodes[:NODES_SHOWN]:
        _node(out, node, shown["at_unix_seconds"], most=None if wide or whole else ROWS_SHOWN, headers=headers)
    hidden = nodes[NODES_SHOWN:] if not (wide or whole) else []
    if hidden:
        said = _sums(hidden)
        _line(out, f"and {count_text(len(hidden), 'node')} more with {said}; -o wide shows all, --node NAME one")
        out.print()
    _silent(out, shown, wide=wide)
    for text in shown["not_seen"]:
        _line(out, f"not seen  {text}", style="dim")
    _verdict(out, shown)


def _policies(out: "Console", policies: Sequence[Json], *, wide: bool, headers: bool) -> None:
    from slack.cli.terminal.console import print_table

    if not policies:
        return
    headings = ["POLICY", "READY", "NODES", "REPORTING", "SILENT", *(name.upper() for name in _COUNTED), "FORCED"]
    table = _table(*headings, *(("OPENED", "LONGEST WAIT", "REASON") if wide else ()))
    for policy in policies:
        counts = policy["counts"] or {}
        ready = {True: "True", False: "False"}.get(policy["ready"], "-")
        nodes = [_figure(policy[f"nodes_{what}"]) for what in ("selected", "reporting", "silent")]
        cells = [policy["name"], ready, *nodes, *(_figure(counts.get(name)) for name in _COUNTED)]
        cells.append(_figure(policy["forced"]))
        if wide:
            waits = policy["longest_wait_seconds"]
            cells += [_figure(policy["opened"]), "-" if waits is None else duration(waits), policy["reason"] or "-"]
        _row(table, cells)
    print_table(out, table, headers=headers)
    for policy in policies:
        if policy["ready"] is False:
            _line(out, f"! {policy['name']}: {policy['message'] or policy['reason']}", style="red")
    out.print()


def _node(out: "Console", node: Json, now: float, most: int | None, *, headers: bool) -> None:
    from slack.cli.terminal.console import print_table

    of = "no limit" if node["slots"] is None else f"of {count_text(node['slots'], 'slot')}"
    policy = f"policy {node['policy']}" if node["policy"] else "no policy: nothing is held back"
    counts = {name: node["counts"][name] for name in _MOVING if node["counts"][name]}
    others = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "starting")
    head = f"{node['name']}  {policy}; {node['counts']['starting']} starting, {of}"
    _line(out, head + (f"; {others}" if others else ""), style="bold")
    rows = node["containers"][:most]
    if rows:
        table = _table("  STATE", "SINCE", "PLACE", "CONTAINER", "WHY")
        for row in rows:
            since = row["since_unix_seconds"]
            name = f"{row['namespace']}/{row['pod']} {row['container']}"
            age = "-" if since is None else duration(now - since)
            _row(table, [f"  {row['state']}", age, _figure(row["position"]), name, why(row, now)])
        print_table(out, table, headers=headers)
    left = len(node["containers"]) - len(rows) + node["left_out"]
    if left:
        _line(out, f"  and {left} more" + ("" if most is None else f"; --node {node['name']} shows them"))
    out.print()


def why(row: Json, now: float) -> str:
    """Say in a few words why a container is where it is, and when that ends."""
    words = [row["reason"]] if row["reason"] else []
    words += ["forced by minRate"] if row["forced"] else []
    until = row["until_unix_seconds"]
    if until is not None:
        left = duration(until - now)
        words += [f"forced in {left}" if row["state"] == "pending" else f"late in {left}"]
    return "; ".join(words) or "-"


def _silent(out: "Console", shown: Json, *, wide: bool) -> None:
    now = shown["at_unix_seconds"]
    silent = [
        node["name"]
        + (f" (for {duration(now - node['heard_unix_seconds'])})" if node["heard_unix_seconds"] is not None else "")
        for node in shown["silent"]
        if not node["reason"]
    ]
    blind = [f"{node['name']} ({node['reason']})" for node in shown["silent"] if node["reason"]]
    for names, what, hint in (
        (silent, "do not report", "does the agents' pod run there?"),
        (blind, "do not see the pods of their nodes", "may they list and watch pods, and does the API server answer?"),
    ):
        if names:
            most = len(names) if wide else _NAMES_SHOWN
            more = f" and {len(names) - most} more" if len(names) > most else ""
            which = ", ".join(names[:most])
            _line(out, f"! the agents of {count_text(len(names), 'node')} {what}: {which}{more}", "red")
            _line(out, f"  -> {hint} Containers there start after failOpenAfter")


def _verdict(out: "Console", shown: Json) -> None:
    waiting = _sums([node for node in shown["nodes"] if _moving(node)])
    text = waiting or "nobody waits"
    if not shown["nodes"] and not shown["silent"]:
        text = "no agent reports"
    _line(out, f"verdict   {text}{'' if shown['good'] else '; something is wrong'}", _colour(shown["good"]))


def _sums(nodes: Sequence[Json]) -> str:
    sums = {name: sum(node["counts"][name] for node in nodes) for name in _MOVING}
    return ", ".join(f"{count} {name}" for name, count in sums.items() if count)


def _moving(node: Json) -> bool:
    return any(node["counts"][name] for name in _MOVING)


def _oldest(node: Json) -> float:
    """Since when the one has waited that waits longest."""
    waiting = (row["since_unix_seconds"] for row in node["containers"] if row["state"] == "pending")
    return min((since for since in waiting if since is not None), default=float("inf"))


def _table(*headings: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in ("WHY", "REASON"))
    return table


def _row(table: "Table", cells: Sequence[str]) -> None:
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))  # markup in a name is no markup


def _line(out: "Console", text: str, style: str = "") -> None:
    out.print(text, style=style or None, markup=False, soft_wrap=True)


def _figure(value: int | None) -> str:
    return "-" if value is None else str(value)


def _colour(good: bool) -> str:
    return "bold green" if good else "bold red"
