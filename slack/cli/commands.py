"""Gathers the commands of `resource-slack`, nothing else."""

import sys
from pathlib import Path

import typer

from slack.cli import crd, explain, operator, plan, record, reference, simulate, tune, uninstall, version
from slack.cli.problems import Command, output_checked

app = typer.Typer(
    name="resource-slack",
    help="Pods that start at once on autoscaled Kubernetes clusters, at the least cost.",
    epilog="Start with a dry run: kubectl get nodes,pods -A -o json | resource-slack plan --snapshot -",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    plan.plan,
    explain.explain,
    simulate.simulate,
    tune.tune,
    record.record,
    operator.operator,
    uninstall.uninstall,
    crd.crd,
    reference.reference,
    version.version,
):
    app.command(cls=Command)(_command)


def program(argv0: str) -> str:
    """Return how the program is called in help texts: `kubectl slack` when kubectl runs it as its plugin."""
    return "kubectl slack" if Path(argv0).name.startswith("kubectl-slack") else "resource-slack"


def run() -> None:
    """Run the command line."""
    with output_checked():
        app(prog_name=program(sys.argv[0]))
