"""Gathers the commands of `resource-slack`, nothing else."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from slack.cli import (
    audit,
    completion,
    crd,
    explain,
    migrate,
    monitoring,
    operator,
    plan,
    record,
    reference,
    simulate,
    status,
    tune,
    uninstall,
    version,
)
from slack.cli.completing import ASK, answered
from slack.cli.problems import Command, output_checked

app = typer.Typer(
    name="resource-slack",
    epilog="Start with a dry run: kubectl get nodes,pods -A -o json | resource-slack plan --snapshot -\n\n"
    "Is my slack there? kubectl slack status",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.version("text")
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Pods that start at once on autoscaled Kubernetes clusters, at the least cost."""


LOOK, SIZE, CLUSTER, SELF = "Look (reads only)", "Choose a size", "In the cluster", "About the command itself"
"""Panels of the help text, in the order in which people need them."""
for _panel, _commands in (
    (LOOK, (status.status, plan.plan, explain.explain)),
    (SIZE, (simulate.simulate, tune.tune, record.record, migrate.migrate)),
    (CLUSTER, (operator.operator, crd.crd, uninstall.uninstall)),
    (SELF, (completion.completion, reference.reference, version.version)),
):
    for _command in _commands:
        app.command(cls=Command, rich_help_panel=_panel)(_command)
app.add_typer(audit.app, name="audit", rich_help_panel=LOOK)
app.add_typer(monitoring.app, name="monitoring", rich_help_panel=CLUSTER)


def program(argv0: str) -> str:
    """Return how the program is called in help texts: `kubectl slack` when kubectl runs it as its plugin."""
    return "kubectl slack" if Path(argv0).name.startswith("kubectl-slack") else "resource-slack"


def run() -> None:
    """Run the command line."""
    with output_checked():
        if sys.argv[1:2] == [ASK]:
            sys.stdout.write(answered(sys.argv[2:]))
            return
        app(prog_name=program(sys.argv[0]))
