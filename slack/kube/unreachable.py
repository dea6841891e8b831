"""Why no answer came, in words that a person can act upon: urllib3's own texts are for those who wrote it."""

from __future__ import annotations

import http.client
import re
import ssl

import urllib3

from slack.kube.errors import Unreachable

TRANSPORT_ERRORS = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError)
_LONGEST = 300
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
"""OpenSSL's reasons when what comes back is no TLS at all."""


def unreachable(request: str, error: BaseException) -> Unreachable:
    """Return a transport's error as ours.

    Args:
        request: what was asked for.
        error: one of `TRANSPORT_ERRORS`.
    """
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)  # urllib3 counts it among the timeouts
    timed_out = isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError) and not refused
    return Unreachable(f"{request}: {why(error)}", timed_out=timed_out)


def why(error: BaseException) -> str:
    """Return what a transport's error means, without whom it is of."""
    if isinstance(error, urllib3.exceptions.ProxyError):
        return f"the proxy (HTTPS_PROXY, proxy-url): {why(error.original_error)}"
    tls = _cause(error, ssl.SSLError)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {tls.verify_message or tls.reason}"
    if isinstance(tls, ssl.SSLError) and any(name in str(tls).upper().replace(" ", "_") for name in _NO_TLS):
        return f"it does not speak TLS; is its address one with http://? ({tls.reason or tls})"
    if _cause(error, http.client.RemoteDisconnected) is not None:
        return "it closed the connection without an answer"
    if isinstance(incomplete := _cause(error, http.client.IncompleteRead), http.client.IncompleteRead):
        return f"the answer broke off after {_bytes_of(incomplete)} bytes"
    if _cause(error, ConnectionResetError) is not None:
        return "it reset the connection; does it want https://?"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError | urllib3.exceptions.ConnectTimeoutError) and (
        seconds := re.search(r"(read|connect) timeout=([\d.]+)", str(error))
    ):
        return f"no {'answer' if seconds[1] == 'read' else 'connection'} for {float(seconds[2]):g} s"
    text = str(error) or type(error).__name__
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        text = text.rpartition(": ")[2]
    text = text.partition("] ")[2] or text if text.startswith("[Errno") else text
    return text[:_LONGEST]


def _bytes_of(error: http.client.IncompleteRead) -> int:
    return error.partial if isinstance(error.partial, int) else len(error.partial)  # urllib3 counts, http.client keeps


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """Return what of this kind is behind an error: its cause, or what a library has wrapped."""
    for _ in range(8):
        if error is None or isinstance(error, kind):
            return error
        wrapped = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        error = error.__cause__ or wrapped or error.__context__
    return None
