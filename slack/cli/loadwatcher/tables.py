"""What a load watcher knows, as a table and as a document; nothing is decided here."""

from typing import Any

from rich.table import Table

from slack.cli.terminal.console import console, print_table
from slack.cluster.labels import API_VERSION
from slack.loadwatcher.nodes_seen import NodeSeen, NodesSeen, Use
from slack.loadwatcher.payload import OPTIONAL, REQUIRED, WINDOWS


def document(seen: NodesSeen) -> dict[str, Any]:
    """Return the answer for machines."""
    newest = max(seen.reports.values(), key=lambda report: report.window.end)
    verdicts = seen.verdicts
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeLoadList",
        "source": newest.source,
        "window_end_unix_seconds": newest.window.end,
        "error": None if verdicts is None else verdicts.error,
        "unmatched": [] if verdicts is None else list(verdicts.unmatched),
        "items": [_item(node) for node in seen.nodes()],
    }


def _item(node: NodeSeen) -> dict[str, Any]:
    return {
        "node": node.name,
        "age_seconds": None if node.age_seconds is None else round(node.age_seconds, 1),
        "verdicts": list(node.verdicts),
        "windows": [
            {
                "window": window.value,
                "type": kind.value,
                "average_percent": use.average,
                "deviation_percent": use.deviation,
            }
            for (kind, window), use in node.uses.items()
        ],
    }


def print_nodes(seen: NodesSeen, *, wide: bool) -> None:
    """Print a line a node, and what is wrong as a whole."""
    out = console()
    nodes = seen.nodes()
    there = {kind for node in nodes for kind, _ in node.uses}
    kinds = [kind for kind in (*REQUIRED, *OPTIONAL) if kind in REQUIRED or (wide and kind in there)]
    windows = [window for window in WINDOWS if window in seen.reports]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("NODE", no_wrap=True)
    for kind in kinds:
        for window in windows:
            table.add_column(f"{kind.upper()} {window}", justify="right", no_wrap=True)
    table.add_column("AGE", justify="right", no_wrap=True)
    table.add_column("VERDICT")
    for node in nodes:
        cells = [_use(node.uses.get((kind, window))) for kind in kinds for window in windows]
        verdict = node.verdict if seen.verdicts is not None else "-"
        table.add_row(_printable(node.name), *cells, _age(node.age_seconds), _printable(verdict))
    print_table(out, table)
    if seen.verdicts is not None and seen.verdicts.error is not None:
        out.print(f"the last fetch failed: {seen.verdicts.error}", markup=False, soft_wrap=True)


def _use(use: Use | None) -> str:
    if use is None or use.average is None:
        return "-"
    return f"{use.average:.1f}%" if use.deviation is None else f"{use.average:.1f}% ±{use.deviation:.1f}"


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f}s"


def _printable(text: str) -> str:
    """Return a name of a provider's, or a node's, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in text)
