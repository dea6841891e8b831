"""Scores as tables for people."""

from typing import Any

from rich.table import Table

from slack.cli.terminal.console import console, print_table

_NODES_SHOWN = 20
RULES = {
    "Measured": "nodes score by their load; a node whose load is not known has the minimum",
    "TooFewMeasured": "the load of too few nodes is known: all nodes score the same",
    "SpreadOnAllocations": "the load of no node is known: the emptiest node by requests scores best",
    "BestFitOnAllocations": "the load of no node is known: the fullest node by requests that has space scores best",
    "NoLoad": "the load of no node is known: all nodes score the same",
    "Placeholder": "a placeholder is no load: all nodes score the same",
}


def print_scores(document: dict[str, Any], *, wide: bool) -> None:
    """Print one decision; wide has every figure."""
    out = console()
    predicted = document["predicted"]
    out.print(
        f"pod {document['pod']}: {predicted['cpu_millis']}m of CPU predicted; "
        f"{document['rule']}: {RULES[document['rule']]}"
    )
    nodes = document["items"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    algorithms = [own["name"] for own in nodes[0]["algorithms"]] if nodes else []
    for title in ("NODE", "SCORE", "LOAD", *algorithms, *(("FIGURES",) if wide else ())):
        table.add_column(title, justify="left" if title in ("NODE", "LOAD", "FIGURES") else "right", overflow="fold")
    for node in nodes[: None if wide else _NODES_SHOWN]:
        cells = [node["node"], str(node["score"]), node["state"], *(str(own["score"]) for own in node["algorithms"])]
        table.add_row(*cells, *((_figures(node),) if wide else ()))
    print_table(out, table)
    if not wide and len(nodes) > _NODES_SHOWN:
        out.print(f"and {len(nodes) - _NODES_SHOWN} more nodes; -o wide has all of them, with every figure")
    if document["unmatched"]:
        out.print(f"names in the load that no node has: {', '.join(document['unmatched'])}")


def print_lines(document: dict[str, Any], *, wide: bool) -> None:
    """Print what became of recorded decisions."""
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("POD", "NODES", "BEST", "SCORE", "RECORDED", "SCORE", "CHANGED"):
        table.add_column(title, justify="right" if title in ("NODES", "SCORE", "CHANGED") else "left", overflow="fold")
    for item in document["items"]:
        if wide or item["best"] != item["recorded_best"]:
            names = ("pod", "nodes", "best", "best_score", "recorded_best", "recorded_best_score", "changed_nodes")
            table.add_row(*(str(item[name]) for name in names))
    if table.row_count:
        print_table(out, table)
    out.print(
        f"{document['decisions']} decisions: {document['other_best']} with another best node, "
        f"{document['other_scores']} with another score"
    )


def _figures(node: dict[str, Any]) -> str:
    own = [
        f"{algorithm['name']}.{term}={value:g}"
        for algorithm in node["algorithms"]
        for term, value in algorithm["terms"].items()
        if value is not None
    ]
    return " ".join([*(f"{term}={value:g}" for term, value in node["terms"].items() if value is not None), *own])
