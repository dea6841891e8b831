"""`help`: the help text of a command, as `--help` prints it."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slack.cli.terminal.problems import UserError, help_text


def help(  # noqa: A001 - the function of a command has the command's name
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Command, with its subcommand if it has one.", metavar="COMMAND", show_default=False),
    ] = None,
) -> None:
    """Print the help text of a command.

    [bold]Examples[/bold]

        kubectl slack help status

        resource-slack help plan
    """
    root = ctx.find_root()
    below: Any = root.command
    inside: Any = root
    for number, word in enumerate(command or ()):
        found = below.commands.get(word) if isinstance(below, TyperGroup) else None
        if found is None:
            known = ", ".join(below.list_commands(inside)) if isinstance(below, TyperGroup) else ""
            there = f"; there are: {known}" if known else ""
            raise UserError(f"{' '.join((command or ())[: number + 1])}: no such command{there}")
        below, inside = found, found.context_class(found, parent=inside, info_name=word)
    typer.echo(help_text(below, inside), nl=False)
