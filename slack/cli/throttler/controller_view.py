"""What the throttler's controller knows, asked for with the rights of whoever asks. Each way to fail is one sentence.

The lease says which pod leads; the API server's proxy leads there. It keeps `Authorization` to itself, so that the
controller gets, in a header of its own, a token of the viewer's account that lives for ten minutes: who may make one is
RBAC's to say. `--controller` goes there directly, as through a port-forward.
"""

import re
import ssl
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from slack.cli.inputs.http_fetch import FetchedAnswer, TooLong, fetch, parsed_address
from slack.cli.inputs.objects import item
from slack.cli.terminal.problems import UserError
from slack.kube.deadline import Deadline
from slack.kube.errors import ApiError, InvalidAnswer, decode_answer
from slack.kube.paths import resource_path
from slack.process.values import is_loopback
from slack.throttler.protocol import AUDIENCE, InvalidThrottlerMessage
from slack.throttler.reports.messages import MAX_VIEW_BYTES, REPORTS_PATH, VIEWER_HEADER, View, decode_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slack.kube.connection import Connection

REPORTS_PORT: Final = 7473
TOKEN_SECONDS: Final = 600
_RENEWED_BEFORE_SECONDS = 60.0
_FLAG = "--controller"
_SECONDS = 30.0
_MOST_TOKEN_BYTES = 12 << 10
_SAID = 200
_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


LEASE = "resource-slack-throttler"
"""Of all releases of a namespace."""


class NoView(UserError):
    """The controller's view cannot be had; the text says what lacks, and what would be right."""


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """Which controller, and how to get there."""

    namespace: str
    name: str
    """Of the release's throttler; the viewer's account is called after it."""
    controller: str | None = None
    """Its address, where it is asked directly."""
    server_name: str | None = None
    """What its certificate is for, where that is not the address's host."""
    ca_file: Path | None = None
    token_file: Path | None = None

    @property
    def needs_api_server(self) -> bool:
        """Whether it cannot be asked without an API server."""
        return self.controller is None or self.token_file is None


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


_TOKEN = msgspec.json.Decoder(_TokenRequest)


class ControllerView:
    """Asks one controller, as often as one likes; its token is kept while it lives."""

    def __init__(self, where: ControllerAddress) -> None:
        """Check what was given; nobody is asked yet.

        Raises:
            UserError: flags that cannot be.
        """
        self.where = where
        self._token = ""
        self._token_until = 0.0
        self._address = "" if where.controller is None else _address(where.controller)
        given = {
            "--controller-name": where.server_name,
            "--ca-file": where.ca_file,
            "--token-file": where.token_file,
        }
        for flag, value in given.items():
            if value is not None and where.controller is None:
                raise UserError(f"{flag}: goes with {_FLAG}; without it the API server leads to the controller")
        self._trust = _trust(where) if self._address.startswith("https:") else None

    def read(self, connection: "Connection | None", query: "Mapping[str, str]") -> View:
        """Return what the controller knows.

        Args:
            connection: to the API server; None where `needs_api_server` is not.
            query: `node`, or `namespace` and `pod`.

        Raises:
            NoView: it cannot be had.
            KubeError: the API server does not answer.
        """
        body = self._direct(connection, query) if self.where.controller else self._proxied(_needed(connection), query)
        try:
            return decode_view(body)
        except InvalidThrottlerMessage as error:
            source = self._source(connection)
            raise NoView(f"{source}: the answer is no view of a throttler's controller: {error}") from None

    def _source(self, connection: "Connection | None") -> str:
        return f"{_FLAG}: {self._address}" if connection is None or self._address else connection.address

    def _direct(self, connection: "Connection | None", query: "Mapping[str, str]") -> bytes:
        source = f"{_FLAG}: {self._address}"
        request = urllib.request.Request(
            f"{self._address}{REPORTS_PATH}?{urlencode(query)}", headers={VIEWER_HEADER: self._bearer(connection)}
        )
        deadline = Deadline(f"the controller at {self._address}", lambda text: typer.echo(text, err=True))
        try:
            answer = fetch(
                source,
                request,
                deadline,
                most_bytes=MAX_VIEW_BYTES,
                timeout_seconds=_SECONDS,
                trust=self._trust,
            )
        except TooLong:
            raise NoView(f"{source}: the answer is longer than {MAX_VIEW_BYTES >> 20} MiB") from None
        except UserError as error:
            raise NoView(str(error)) from None
        if answer.status != 200:
            raise NoView(f"{source}: {self._refused(answer.status, _said(answer))}")
        return answer.body

    def _proxied(self, connection: "Connection", query: "Mapping[str, str]") -> bytes:
        namespace = self.where.namespace
        pod = self._leader(connection)
        path = resource_path("v1", "pods", namespace=namespace) + f"/{quote(f'https:{pod}:{REPORTS_PORT}', safe=':')}"
        headers = {VIEWER_HEADER: self._bearer(connection)}
        try:
            return connection.request("GET", f"{path}/proxy{REPORTS_PATH}", query=query, more_headers=headers)
        except ApiError as error:
            why = self._not_reached(error, pod)
            if why is None:
                raise
            raise NoView(f"{connection.address}: {why}") from None

    def _not_reached(self, error: ApiError, pod: str) -> str | None:
        """Say why the proxy brought nothing; None where it is the API server that is ill."""
        of = f"pod {pod} in {self.where.namespace}"
        if error.status == 403 and "pods/proxy" in error.message:
            return f"not allowed to ask {of}: needs get of pods/proxy in {self.where.namespace}; {self._role()}"
        if error.status == 404 and "pods" in error.message and "not found" in error.message:
            return f"{of} holds the lease and is not there any more; another leads within seconds, then ask again"
        if error.status in (502, 503, 504) and error.message.startswith(("error trying", "no endpoints")):
            return (
                f"{of}, the controller that leads, is not reached at port {REPORTS_PORT}: does it run, and does a "
                f"network policy let the API server to it? {error.message[:_SAID]}"
            )
        if error.status in (400, 401, 403, 404, 503):
            return self._refused(error.status, error.message)
        return None

    def _refused(self, status: int, said: str) -> str:
        """Put the controller's own refusal into words."""
        if status in (401, 403):
            return (
                f"the controller, or who is on the way to it, refuses: {said}; it takes tokens of ServiceAccount "
                f"{self._account} in {self.where.namespace} for the audience {AUDIENCE}"
            )
        if status == 503:
            return f"the controller does not answer now: {said}; it does once it leads"
        if status == 404:
            return f"it knows no {REPORTS_PATH}: is it the reports port of a throttler's controller of this version?"
        return f"{status} {said}"

    def _leader(self, connection: "Connection") -> str:
        """Return the name of the pod that leads."""
        namespace, name = self.where.namespace, LEASE
        where = f"{connection.address}: lease {name} in namespace {namespace}"
        try:
            lease = item(connection, resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name))
        except ApiError as error:
            if error.status != 403:
                raise
            raise NoView(
                f"{where}: not allowed to see it: needs get of leases in coordination.k8s.io; {self._role()}"
            ) from None
        if lease is None:
            raise NoView(
                f"{where}: there is none: is the throttler installed (throttler.enabled=true)? Where its release is in "
                "another namespace, give --throttler-namespace"
            )
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if not holder:
            raise NoView(f"{where}: nobody holds it: does a pod of the throttler's controller run?")
        pod = str(holder).rpartition("_")[0] or str(holder)
        if not _POD_NAME.fullmatch(pod):
            raise NoView(f"{where}: its holder {str(holder)[:_SAID]!r} is no pod")
        return pod

    def _bearer(self, connection: "Connection | None") -> str:
        """Return a token that the controller takes."""
        if self.where.token_file is not None:
            return _read_token(self.where.token_file)
        if time.monotonic() >= self._token_until:
            self._token = self._request_token(_needed(connection))
            self._token_until = time.monotonic() + TOKEN_SECONDS - _RENEWED_BEFORE_SECONDS
        return self._token

    def _request_token(self, connection: "Connection") -> str:
        namespace = self.where.namespace
        path = resource_path("v1", "serviceaccounts", namespace=namespace, name=self._account) + "/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS},
        }
        of = f"{connection.address}: ServiceAccount {self._account} in namespace {namespace}"
        try:
            answer = connection.request("POST", path, body=body, verb="create")
        except ApiError as error:
            if error.status == 403:
                lacks = "needs create of serviceaccounts/token"
                raise NoView(f"{of}: not allowed to make a token of it: {lacks}; {self._role()}") from None
            if error.not_found:
                raise NoView(f"{of}: there is none: does the throttler's release have another name?") from None
            raise
        token = decode_answer(f"POST {path}", answer, _TOKEN).status.token
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidAnswer(f"POST {path}: the answer has no token")
        return token

    @property
    def _account(self) -> str:
        return f"{self.where.name}-viewer"

    def _role(self) -> str:
        return f"the release's Role {self._account} has what is needed"


def _needed(connection: "Connection | None") -> "Connection":
    if connection is None:
        raise UserError(f"{_FLAG}: without --token-file a kubeconfig is needed, to ask for a token")
    return connection


def _address(url: str) -> str:
    parts = parsed_address(_FLAG, url, f"https://127.0.0.1:{REPORTS_PORT}")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.username is not None or parts.query or parts.fragment or parts.path not in ("", "/"):
        raise UserError(f"{_FLAG}: {shown}: should be a scheme, a host and a port, and nothing else")
    if parts.scheme == "http" and not is_loopback(str(parts.hostname)):
        raise UserError(f"{_FLAG}: {shown} would send the token in the clear; use https (http is for loopback only)")
    return shown


class _Named(ssl.SSLContext):
    """Trust in a server under another name than its address has, as behind a port-forward."""

    name = ""

    def wrap_socket(self, *args: object, **kwargs: object) -> ssl.SSLSocket:
        """Ask for the name, and hold the certificate to it."""
        return super().wrap_socket(*args, **{**kwargs, "server_hostname": self.name})  # type: ignore[arg-type]


def _trust(where: ControllerAddress) -> ssl.SSLContext:
    context = _Named(ssl.PROTOCOL_TLS_CLIENT) if where.server_name else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(context, _Named):
        context.name = str(where.server_name)
    try:
        if where.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cafile=where.ca_file)
    except ssl.SSLError:
        raise UserError(f"--ca-file: {where.ca_file}: has no certificate in PEM") from None
    except OSError as error:
        raise UserError(f"--ca-file: {where.ca_file}: {(error.strerror or str(error)).lower()}") from None
    return context


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
    except OSError as error:
        raise UserError(f"--token-file: {path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise UserError(f"--token-file: {path}: holds no token")
    return token


def _said(answer: FetchedAnswer) -> str:
    words = answer.body[:_SAID].decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in words).split()) or answer.reason
