"""Flags of the commands that ask the throttler's controller."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_NAME = "resource-slack-throttler"
ThrottlerNamespace = Annotated[
    str,
    typer.Option("--throttler-namespace", help="Namespace of the throttler's release.", metavar="NAME"),
]
ThrottlerName = Annotated[
    str,
    typer.Option(
        "--throttler-name",
        help="The throttler's full name in its release; the viewer's account is called after it.",
        metavar="NAME",
    ),
]
Controller = Annotated[
    str | None,
    typer.Option(
        "--controller",
        help="Ask the controller here, as through a port-forward to its port 7473, not through the API server.",
        metavar="URL",
    ),
]
ControllerName = Annotated[
    str | None,
    typer.Option("--controller-name", help="What its certificate is for, where not the URL's host.", metavar="NAME"),
]
CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", help="Who signs its certificate.", metavar="FILE"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="A token of the viewer's account for it; without, the API server is asked for one.",
        metavar="FILE",
    ),
]
