"""The API server of a command: asked first who it is, waited for with an end, and named in every complaint.

GET /version comes first because it is small: who does not answer it in time is not there, and what is no API server (a
login page, a proxy, half an answer) says so before anything else is read. Who may not ask it goes on.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from slack.kube.connection import Connection


@contextmanager
def api_server(kubeconfig: Path | None, context: str | None) -> Iterator["Connection"]:
    """Connect for the time of a command; what goes wrong inside is said with the server's address.

    Raises:
        KubeError: there is no usable configuration, no answer in time, or none that an API server gives.
    """
    from slack.kube.deadline import Deadline
    from slack.kube.errors import KubeError
    from slack.kube.kubeconfig import connect

    with closing(connect(kubeconfig, context)) as connection:
        connection.deadline = Deadline(f"the API server at {connection.address}", _say)
        try:
            greet(connection)
            yield connection
        except KubeError as error:
            error.server = connection.address
            raise


def greet(connection: "Connection") -> None:
    """See that an API server is there.

    Raises:
        KubeError: none is, it is out of order, or it knows nobody of these credentials.
    """
    from slack.kube.errors import ApiError

    try:
        connection.server_version()
    except ApiError as error:
        if error.status not in (403, 404):  # who may not see it, or a proxy that hides it
            raise
    if connection.deadline is not None:
        connection.deadline.answered()


def _say(text: str) -> None:
    typer.echo(text, err=True)
