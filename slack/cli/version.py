"""`version`: which resource-slack this is."""

import json
import platform
from importlib import metadata
from typing import Annotated

import typer


def version(
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.", metavar="FORMAT")] = "text",
) -> None:
    """Print the version.

    [bold]Example[/bold]

        resource-slack version -o json
    """
    own = metadata.version("resource-slack")
    if output == "json":
        typer.echo(json.dumps({"version": own, "python": platform.python_version()}))
    else:
        typer.echo(f"resource-slack {own} (Python {platform.python_version()})")
