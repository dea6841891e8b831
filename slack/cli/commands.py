"""The commands of `resource-slack`, and the program that runs them. A command's module is loaded when it is run."""

import sys
from typing import Annotated

import typer

from slack.cli.command_table import ENTRIES, EPILOG, program
from slack.cli.terminal.candidates import ASK, completion_answer
from slack.cli.terminal.lazy import LazyGroup
from slack.cli.terminal.output import output_checked


class _Program(LazyGroup):
    entries = ENTRIES


app = typer.Typer(
    name="resource-slack",
    cls=_Program,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from slack.cli.terminal.formats import TABLE
        from slack.cli.version import print_version

        print_version(TABLE)
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Keep spare capacity on autoscaled Kubernetes clusters, so that pods start without waiting for a node."""


def run() -> None:
    """Run the command line."""
    with output_checked():
        if sys.argv[1:2] == [ASK]:
            complete(sys.argv[2:])
            return
        app(prog_name=program(sys.argv[0]))


def complete(words: list[str]) -> None:
    """Print what may follow these words, as shells and kubectl ask for it."""
    sys.stdout.write(completion_answer(app, words))
