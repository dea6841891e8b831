"""Names of pods for an audit, fetched beside the sampling: from the API server, a kubelet, or a file of its /pods.

An audit works without them, so nothing here ends one but a --kubelet-pods, --kubeconfig or --context that was asked
for and is not there: a cluster that does not answer in time is one line on stderr, and uids stand for names.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.options import SourceOptions
from slack.cli.inputs.api_server import greet
from slack.cli.inputs.files import STDIN
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.audit.sources.pod_index import PodNames
    from slack.audit.sources.pod_objects import AuditedPod
    from slack.kube.connection import Connection

_PATIENCE_SECONDS = {SourceKind.CGROUPS: 3.0, SourceKind.CADVISOR: 60.0, SourceKind.PROMETHEUS: 20.0}
"""After the sampling is done. A cluster of 150,000 pods takes a while to list; one node's do not."""
_WITHOUT = {
    SourceKind.CGROUPS: "uids stand for names (--no-names, --kubelet-pods FILE|URL)",
    SourceKind.CADVISOR: "owners of pods are not known, so there are no patches for them",
    SourceKind.PROMETHEUS: "owners of pods are not known, so there are no patches for them "
    "(--no-names, --kubeconfig FILE)",
}
_KUBELET_SECONDS = 5.0
_API_SECONDS = 8.0
"""Until the first answer."""
_MIB = 1 << 20
_LONGEST_MIB = 64
"""Of a kubelet's /pods: 500 pods with all they can carry are some 10 MiB."""


class BackgroundNames(AbstractContextManager["BackgroundNames"]):
    """Fetches names in a thread of its own that ends with the process at the latest. Used by one thread."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._thread: threading.Thread | None = None
        self._found: PodNames | None = None
        self._problem: str | None = None
        self._told = ""
        self._server = "the API server"
        self.known: PodNames | None = None
        """What is known so far; None for nothing."""

    def __enter__(self) -> Self:
        options = self._options
        if options.kubelet_pods is not None:
            self.known = _from_kubelet(options.kubelet_pods)  # a mistake in it is told before anything is waited for
        elif options.names:
            if options.access.is_chosen:
                _check_cluster(options)
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave a thread that still waits for an answer to its end: it is a daemon and holds nothing open for us."""

    def settled(self) -> bool:
        """Wait a little, and say whether it is known by now who the pods are, or that nobody knows."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS[self._options.kind])
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> "PodNames | None":
        """Return the names, after a short wait; tell once why there are none."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS[self._options.kind])
            late = self._thread.is_alive()
            self._take(f"{self._server}: it has not named the pods in time" if late else self._problem)
        return self.known

    def refresh(self) -> None:
        """Take what has come by now, and ask again: pods come and go while one watches."""
        if self._options.kubelet_pods is not None:
            try:
                self.known = _from_kubelet(self._options.kubelet_pods)
            except UserError as error:
                self._tell(str(error))
        elif self._thread is not None and not self._thread.is_alive():
            self._take(self._problem)
            self._start()

    def _start(self) -> None:
        self._problem = None
        self._thread = threading.Thread(target=self._fetch, name="names", daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        from slack.kube.errors import KubeError

        try:
            self._found = self._from_api()
        except (KubeError, ValueError, OSError) as error:  # OSError: a kubeconfig of another user
            self._problem = str(error)
        else:
            if not len(self._found) and self._options.kind is SourceKind.CGROUPS:
                self._problem = f"the API knows no pod on a node {_node(self._options)!r}; name it with --node"

    def _from_api(self) -> "PodNames":
        from slack.kube.deadline import Deadline
        from slack.kube.errors import KubeError
        from slack.kube.kubeconfig import connect_with

        with closing(connect_with(self._options.access)) as connection:
            self._server = connection.address
            connection.deadline = Deadline(connection.address, lambda _: None, first_answer_seconds=_API_SECONDS)
            try:
                greet(connection)  # a server that is not there says so at once
                return _listed(connection, self._options)
            except KubeError as error:
                error.server = connection.address
                raise

    def _take(self, problem: str | None) -> None:
        if problem is None:
            self.known = self._found or self.known
        else:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            typer.echo(f"names: {problem}; {_WITHOUT[self._options.kind]}", err=True)
            self._told = problem


def _node(options: SourceOptions) -> str:
    """Return what this machine is called as a node: --node, NODE_NAME as the downward API gives it, its host name."""
    return options.nodes[0] if options.nodes else os.environ.get("NODE_NAME") or socket.gethostname().lower()


def _check_cluster(options: SourceOptions) -> None:
    """Check a kubeconfig and a context that somebody named; nothing is sent.

    Raises:
        UserError, KubeError: when they are not there, or cannot be read.
    """
    from slack.kube.kubeconfig import connect_with

    try:
        connect_with(options.access).close()
    except (ValueError, OSError) as error:
        access = options.access
        flag = "--kubeconfig" if access.kubeconfig is not None else "--context"
        raise UserError(f"{flag}: {access.kubeconfig or access.context}: {error}") from None


def _listed(connection: "Connection", options: SourceOptions) -> "PodNames":
    """List pods: of one node, of the chosen ones, or all."""
    from slack.audit.sources.pod_index import PodNames
    from slack.audit.sources.pod_objects import AuditedPod
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path

    names = PodNames()
    nodes = (_node(options),) if options.kind is SourceKind.CGROUPS else options.nodes
    for selector in [f"spec.nodeName={node}" for node in nodes] or [""]:
        for pod in list_all(connection, resource_path("v1", "pods"), AuditedPod, field_selector=selector):
            names.put(pod)
    return names


def _from_kubelet(source: str) -> "PodNames":
    """Read a kubelet's /pods from its address or from a file.

    Raises:
        UserError: when it cannot be read, or is no list of pods.
    """
    from slack.audit.sources.pod_index import PodNames

    return PodNames(_decoded(source, _fetched(source) if "://" in source else _read(Path(source))))


def _read(path: Path) -> bytes:
    """Return a file's content, or stdin's for `-`, up to the bound."""
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
            return _bounded(str(path), file.read)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _bounded(source: str, read: Callable[[int], bytes]) -> bytes:
    body = read(_LONGEST_MIB * _MIB + 1)
    if len(body) > _LONGEST_MIB * _MIB:
        raise UserError(_too_long(source))
    return body


def _too_long(source: str) -> str:
    return f"--kubelet-pods: {source}: is longer than {_LONGEST_MIB} MiB; expected one node's /pods"


def _decoded(source: str, body: bytes) -> "list[AuditedPod]":
    from slack.audit.sources.pod_objects import decode_pods

    try:
        return decode_pods(body)
    except ValueError as error:
        raise UserError(
            f"--kubelet-pods: {source}: {error}; expected a kubelet's /pods or kubectl get pods -o json"
        ) from None


def _fetched(url: str) -> bytes:
    import urllib.request

    from slack.cli.inputs.http_fetch import TooLong, fetch, parsed_address
    from slack.kube.deadline import Deadline

    parsed_address("--kubelet-pods", url, "http://127.0.0.1:10255/pods")
    source = f"--kubelet-pods: {url}"
    deadline = Deadline(f"the kubelet at {url}", lambda text: typer.echo(text, err=True))
    request = urllib.request.Request(url)
    try:
        answer = fetch(source, request, deadline, most_bytes=_LONGEST_MIB * _MIB, timeout_seconds=_KUBELET_SECONDS)
    except TooLong:
        raise UserError(_too_long(url)) from None
    if not 200 <= answer.status < 300:
        raise UserError(f"{source}: {answer.status} {answer.reason}")
    return answer.body
