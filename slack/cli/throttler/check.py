"""`throttler check`: what a policy comes to on a node, or in which order a pod's containers start."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.files import documents, name_of, read_bytes
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, wide_columns
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack.throttler.config import ThrottlePolicySpec
    from slack.throttler.limits import Limits
    from slack.throttler.pods import PodOrder

_EXAMPLE = "a ThrottlePolicy such as examples/throttlepolicy.yaml, a MinionConfig, or a Pod"
_NODE_SIZES = (1, 2, 4, 6, 8, 16, 32, 48, 64, 96, 128)
"""Cores of the nodes whose slots are printed: a fraction that suits one size may give another a single slot."""
_MOST_BYTES = 4 << 20
_File = Annotated[
    Path | None,
    typer.Option(
        "--filename", "-f", help="A ThrottlePolicy, a MinionConfig, a Pod or a workload; - is stdin.", metavar="FILE"
    ),
]
_Cores = Annotated[
    float, typer.Option("--cores", help="Of the node that a policy's numbers are for.", min=0.001, max=65536)
]
_MEANINGS = {
    "slots": ("containers start at once", "no limit"),
    "namespace_slots": ("of these of one namespace", "all"),
    "max_load1": ("load average is below", "not looked at"),
    "max_cpu": ("CPU use is below", "not looked at"),
    "max_cpu_pressure": ("CPU pressure is below", "not looked at"),
    "max_io_pressure": ("I/O pressure is below", "not looked at"),
    "force_after_seconds": ("a start is forced after", "never"),
    "gap_seconds": ("from start to start at least", "0 s"),
    "start_timeout_seconds": ("a container is late after", "never"),
    "delete_late": ("then its pod is evicted", "no"),
    "no_probe_hold_seconds": ("without a probe a slot is held for", "0 s"),
    "fail_open_after_seconds": ("without an agent all start after", "never"),
    "average_over_seconds": ("CPU use is taken over", "-"),
    "gate_restarts": ("restarts wait too", "no"),
    "by_priority": ("a higher priority starts first", "no"),
}


@with_kubectl_flags
def check(filename: _File = None, cores: _Cores = 2, output: Output = TABLE) -> None:
    """Check a policy, or the dependencies of a pod; offline.

    A ThrottlePolicy, or the MinionConfig of the original study, is shown with its numbers on a node of this size, and
    with the slots of nodes of other sizes. A Pod, or a workload with a template, is shown with the order in which its
    containers start, or why it is never gated. An order that has no effect is named. A List is checked item by item.
    Objects without pods are skipped and named, such as a Service, or a Rollout whose template is in a Deployment.
    Exit code 0; 2: it is refused, with the field.

    [bold]Examples[/bold]

        resource-slack throttler check -f examples/throttlepolicy.yaml --cores 8

        resource-slack throttler check -f m1_config.json -o json

        kubectl get pod app -o json | resource-slack throttler check -f -
    """
    if filename is None:
        raise UserError(f"--filename: give {_EXAMPLE}")
    source = name_of(filename)
    found = list(documents(read_bytes(filename, _MOST_BYTES), source=source, example=_EXAMPLE))
    if not found:
        raise UserError(f"{source}: it is empty; give {_EXAMPLE}")
    from slack.throttler.pods import documents_of

    named = [pair for document in found for pair in documents_of(document, source=source)]
    checkable = [(item, name) for item, name in named if not _why_beside(item)]
    for item, name in named if checkable else ():
        if why := _why_beside(item):
            typer.echo(f"{name}: skipped: {why}", err=True)
    items = [_check(item, name, cores) for item, name in checkable or named]
    if output.for_machines:
        print_document({"apiVersion": API_VERSION, "kind": "ThrottlerCheck", "items": items}, output)
        return
    with wide_columns(output):
        for item in items:
            _show(item)


def _why_beside(document: Any) -> str:
    """Return why nothing can be checked of an object beside others, such as a Service; '' if it can."""
    from slack.throttler.config import KIND, MINION_KIND
    from slack.throttler.pods import has_pods, template_elsewhere

    kind = document.get("kind") if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or kind in (KIND, MINION_KIND):
        return ""
    if not has_pods(document):
        return f"a {kind} has no pods, or no template of pods that is known here"
    elsewhere = template_elsewhere(document)
    return f"the template of the pods of this {kind} is in {elsewhere}" if elsewhere else ""


def _check(document: Any, source: str, cores: float) -> dict[str, Any]:
    from slack.throttler.config import KIND, MINION_KIND, parse_minion_config, parse_throttle_policy
    from slack.throttler.pods import read_pod

    kind = document.get("kind") if isinstance(document, Mapping) else None
    if kind == KIND:
        policy = parse_throttle_policy(document, source=source)
        return _policy(kind, policy.name, policy.spec, cores)
    if kind == MINION_KIND:
        return _policy(kind, "", parse_minion_config(document, source=source), cores)
    order = read_pod(document, source=source)
    for text in order.without_effect:
        typer.echo(f"{source}: {text}", err=True)
    return _pod(order)


def _policy(kind: str, name: str, spec: "ThrottlePolicySpec", cores: float) -> dict[str, Any]:
    limits: Limits = spec.limits(cores)
    return {
        "kind": kind,
        "name": name,
        "cores": cores,
        "limits": asdict(limits),
        "slots_by_cores": [{"cores": size, "slots": spec.limits(size).slots} for size in _NODE_SIZES],
        "levels": None,
        "never_gated": None,
    }


def _pod(order: "PodOrder") -> dict[str, Any]:
    levels = [list(level) for level in order.graph.levels()]
    return {
        "kind": order.kind,
        "name": order.name,
        "cores": None,
        "limits": None,
        "slots_by_cores": None,
        "levels": None if order.never_gated else levels,
        "never_gated": order.never_gated,
    }


def _show(item: Mapping[str, Any]) -> None:
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table

    name = f" {item['name']}" if item["name"] else ""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    if item["never_gated"] is not None:
        typer.echo(f"{item['kind']}{name}: never gated, so its containers start at once: {item['never_gated']}")
        return
    if item["limits"] is None:
        typer.echo(f"{item['kind']}{name}: its containers start in this order")
        for number, level in enumerate(item["levels"], 1):
            table.add_row(str(number), ", ".join(level))
    else:
        typer.echo(f"{item['kind']}{name}: on a node of {item['cores']:g} cores")
        for field, (meaning, without) in _MEANINGS.items():
            table.add_row(meaning, _field_text(field, item["limits"][field], without))
        sizes = item["slots_by_cores"]
        if item["limits"]["slots"] is not None:
            table.add_row("slots by cores of the node", ", ".join(f"{row['cores']}: {row['slots']}" for row in sizes))
    print_table(console(), table)


def _field_text(field: str, value: Any, without: str) -> str:
    if value is None:
        return without
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_seconds"):
        return f"{value:g} s"
    return f"{value:.0%}" if field.startswith("max_") and field != "max_load1" else f"{value:g}"
