"""The API server of a command: asked first who it is, waited for with an end, and named in every complaint.

GET /version comes first because it is small: who does not answer it in time is not there, and what is no API server (a
login page, a proxy, half an answer) says so before anything else is read. Who may not ask it goes on.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import typer

from slack.cli.terminal.problems import UserError
from slack.kube.access import REQUESTS_SHOWN, ClusterAccess

if TYPE_CHECKING:
    from slack.kube.connection import Connection


@contextmanager
def api_server(access: ClusterAccess) -> Iterator["Connection"]:
    """Connect for the time of a command; what goes wrong inside is said with the server's address.

    Raises:
        KubeError: there is no usable configuration, no answer in time, or none that an API server gives.
    """
    from slack.kube.deadline import Deadline
    from slack.kube.errors import KubeError
    from slack.kube.kubeconfig import connect_with

    with closing(connect_with(access)) as connection:
        seconds = access.request_timeout_seconds
        if seconds != 0:
            server = f"the API server at {connection.address}"
            connection.deadline = Deadline(server, _say, first_answer_seconds=seconds, silent_seconds=seconds)
        if access.verbosity >= REQUESTS_SHOWN:
            connection.trace = _say
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


def chosen_namespace(namespace: str | None, access: ClusterAccess, *, everywhere: bool = False) -> str | None:
    """Return the namespace that a command works in: the one given, else that of the context; None for all.

    Raises:
        UserError: one and all were asked for.
    """
    if everywhere:
        if namespace is not None:
            raise UserError("--all-namespaces: not together with --namespace; leave one of the two out")
        return None
    return namespace or context_namespace(access)


def context_namespace(access: ClusterAccess) -> str:
    """Return the namespace of the kubeconfig's context, in a pod the pod's, else default."""
    from slack.kube.kubeconfig_files import current_namespace

    return current_namespace(access)
