"""`version`: which resource-slack this is."""

import platform
from importlib import metadata

import typer

from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document


@with_kubectl_flags
def version(output: Output = TABLE) -> None:
    """Print the version.

    [bold]Example[/bold]

        resource-slack version -o json
    """
    print_version(output)


def print_version(output: Output) -> None:
    """Print which resource-slack this is, for people or for programs."""
    own = metadata.version("resource-slack")
    if output.for_machines:
        from slack.cluster.labels import API_VERSION

        shown = {"apiVersion": API_VERSION, "kind": "Version", "version": own, "python": platform.python_version()}
        print_document(shown, output)
    else:
        typer.echo(f"resource-slack {own} (Python {platform.python_version()})")
