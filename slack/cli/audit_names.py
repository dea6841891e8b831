"""Names of pods for an audit, fetched beside the sampling: from the API server, a kubelet, or a file of its /pods.

An audit works without them, so nothing here ends one but a --kubelet-pods, --kubeconfig or --context that was asked
for and is not there: a cluster that does not answer in time is one line on stderr, and uids stand for names.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from slack.cli.audit_options import Kind, Where
from slack.cli.inputs import STDIN
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.cfs.pods import Pod, PodNames

_PATIENCE_SECONDS = {Kind.CGROUPS: 3.0, Kind.CADVISOR: 60.0, Kind.PROMETHEUS: 20.0}
"""After the sampling is done. A cluster of 150,000 pods takes a while to list; one node's do not."""
_WITHOUT = {
    Kind.CGROUPS: "uids stand for names (--no-names, --kubelet-pods FILE|URL)",
    Kind.CADVISOR: "owners of pods are not known, so there are no patches for them",
    Kind.PROMETHEUS: "owners of pods are not known, so there are no patches for them (--no-names, --kubeconfig FILE)",
}
_KUBELET_SECONDS = 5.0
_API_SECONDS = (2.0, 10.0)
_MIB = 1 << 20
_LONGEST_MIB = 64
"""Of a kubelet's /pods: 500 pods with all they can carry are some 10 MiB."""


class NamesAtWork(AbstractContextManager["NamesAtWork"]):
    """Fetches names in a thread of its own that ends with the process at the latest. Used by one thread."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._thread: threading.Thread | None = None
        self._found: PodNames | None = None
        self._problem: str | None = None
        self._told = ""
        self.known: PodNames | None = None
        """What is known so far; None for nothing."""

    def __enter__(self) -> Self:
        where = self._where
        if where.kubelet_pods is not None:
            self.known = _from_kubelet(where.kubelet_pods)  # a mistake in it is told before anything is waited for
        elif where.names:
            if where.kubeconfig is not None or where.context is not None:
                _check_cluster(where)
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave a thread that still waits for an answer to its end: it is a daemon and holds nothing open for us."""

    def wait(self) -> "PodNames | None":
        """Return the names, after a little patience; tell once why there are none."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS[self._where.kind])
            late = self._thread.is_alive()
            self._take("the API server has not named the pods in time" if late else self._problem)
        return self.known

    def refresh(self) -> None:
        """Take what has come by now, and ask again: pods come and go while one watches."""
        if self._where.kubelet_pods is not None:
            try:
                self.known = _from_kubelet(self._where.kubelet_pods)
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
            self._found = _from_api(self._where)
        except (KubeError, ValueError, OSError) as error:  # OSError: a kubeconfig of another user
            self._problem = str(error)
        else:
            if not len(self._found) and self._where.kind is Kind.CGROUPS:
                self._problem = f"the API knows no pod on a node {_node(self._where)!r}; name it with --node"

    def _take(self, problem: str | None) -> None:
        if problem is None:
            self.known = self._found or self.known
        else:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            typer.echo(f"names: {problem}; {_WITHOUT[self._where.kind]}", err=True)
            self._told = problem


def _node(where: Where) -> str:
    """Return what this machine is called as a node: --node, NODE_NAME as the downward API gives it, its host name."""
    return where.nodes[0] if where.nodes else os.environ.get("NODE_NAME") or socket.gethostname().lower()


def _check_cluster(where: Where) -> None:
    """Check a kubeconfig and a context that somebody named; nothing is sent.

    Raises:
        UserError, KubeError: when they are not there, or cannot be read.
    """
    from slack.kube.kubeconfig import connect

    try:
        connect(where.kubeconfig, where.context).close()
    except (ValueError, OSError) as error:
        flag = "--kubeconfig" if where.kubeconfig is not None else "--context"
        raise UserError(f"{flag}: {where.kubeconfig or where.context}: {error}") from None


def _from_api(where: Where) -> "PodNames":
    """List pods: of one node, of the chosen ones, or all."""
    from slack.cfs.pods import Pod, PodNames
    from slack.kube.kubeconfig import connect

    nodes = (_node(where),) if where.kind is Kind.CGROUPS else where.nodes
    connection = connect(where.kubeconfig, where.context)
    try:
        connection.request("GET", "/version", timeout=_API_SECONDS)  # a server that is not there says so at once
        from slack.cli.cluster import Page, listed

        names = PodNames()
        for selector in [f"spec.nodeName={node}" for node in nodes] or [""]:
            for pod in listed(connection, "v1", "pods", Page[Pod], selector):
                names.put(pod)
        return names
    finally:
        connection.close()


def _from_kubelet(source: str) -> "PodNames":
    """Read a kubelet's /pods from its address or from a file.

    Raises:
        UserError: when it cannot be read, or is no list of pods.
    """
    from slack.cfs.pods import PodNames

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
        raise UserError(f"--kubelet-pods: {source}: is longer than {_LONGEST_MIB} MiB; expected one node's /pods")
    return body


def _decoded(source: str, body: bytes) -> "list[Pod]":
    from slack.cfs.pods import decode_pods

    try:
        return decode_pods(body)
    except ValueError as error:
        raise UserError(
            f"--kubelet-pods: {source}: {error}; expected a kubelet's /pods or kubectl get pods -o json"
        ) from None


def _fetched(url: str) -> bytes:
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"--kubelet-pods: {url!r} is no address such as http://127.0.0.1:10255/pods")
    try:
        with urllib.request.urlopen(url, timeout=_KUBELET_SECONDS) as answer:
            return _bounded(url, answer.read)
    except urllib.error.HTTPError as error:
        with error:
            raise UserError(f"--kubelet-pods: {url}: {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"--kubelet-pods: {url}: no answer: {getattr(error, 'reason', None) or error}") from None
