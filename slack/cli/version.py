"""`version`: which resource-slack this is."""

import platform
from importlib import metadata

import typer

from slack.cli.terminal.formats import OutputFormat, OutputKind, print_document


def version(output: OutputFormat = OutputKind.TABLE) -> None:
    """Print the version.

    [bold]Example[/bold]

        resource-slack version -o json
    """
    own = metadata.version("resource-slack")
    if output.for_machines:
        from slack.cluster.labels import API_VERSION

        shown = {"apiVersion": API_VERSION, "kind": "Version", "version": own, "python": platform.python_version()}
        print_document(shown, output)
    else:
        typer.echo(f"resource-slack {own} (Python {platform.python_version()})")
