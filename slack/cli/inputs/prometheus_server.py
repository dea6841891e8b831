"""Asking a Prometheus: an address as users give it, one instant query, and what its errors mean.

Errors name --prometheus, the address without its password, and the server's own words.
"""

import base64
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import typer

from slack.cli.inputs.http_fetch import TooLong, fetch, parsed_address
from slack.cli.terminal.problems import UserError
from slack.kube.deadline import Deadline

QUERY_SECONDS = 60.0
"""For one query, once the server is known to be there."""
_MOST_BYTES = 256 * 1024 * 1024
_MOST_GREETING_BYTES = 1024 * 1024
_TOO_MUCH = ("too many samples", "timed out", "memory")
"""What a Prometheus says (promql/engine.go) when a smaller question may do."""
_LONGEST_SAID = 40
_LONGEST_URL = 4000
"""Bytes; proxies in front of a Prometheus refuse longer ones from 8 KiB on."""


class TooMuch(UserError):
    """The query was too large for the server."""


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """Where to ask, and what to say of oneself; `address` is without the password.

    Usage:
        server = PrometheusServer.from_url("http://localhost:9090")
        server.vector("up", time.time())
    """

    address: str
    deadline: Deadline = field(repr=False, compare=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_url(cls, url: str) -> "PrometheusServer":
        """Read --prometheus; http://me:password@host is HTTP's basic authentication.

        Raises:
            UserError: it is no http or https address.
        """
        parts = parsed_address("--prometheus", url, "http://localhost:9090")
        _, at, place = parts.netloc.rpartition("@")
        address = parts._replace(netloc=place, query="", fragment="").geturl().rstrip("/")
        deadline = Deadline(f"the Prometheus at {address}", _say, silent_seconds=QUERY_SECONDS)
        if not at:
            return cls(address, deadline)
        both = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
        return cls(address, deadline, {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"})

    def greet(self) -> None:
        """See that a Prometheus is there, by what takes it no time: what it has to count for long comes later.

        Raises:
            UserError: there is no answer in time, or another's.
        """
        self._vector("vector(1)", time.time(), _MOST_GREETING_BYTES)
        self.deadline.answered()

    def ask(self, query: str, at: float, most_bytes: int = _MOST_BYTES) -> bytes:
        """Return the whole answer to an instant query at a time (Unix seconds). A long query is posted, as a form.

        Raises:
            TooMuch: a smaller question may do.
            UserError: any other error, or no answer.
        """
        asked = urllib.parse.urlencode({"query": query, "time": f"{at:.3f}"})
        url = f"{self.address}/api/v1/query"
        request = urllib.request.Request(f"{url}?{asked}", headers=dict(self.headers))
        if len(asked) > _LONGEST_URL:
            request = urllib.request.Request(url, data=asked.encode(), headers=dict(self.headers))
        source = f"--prometheus: {self.address}"
        try:
            answer = fetch(source, request, self.deadline, most_bytes=most_bytes, timeout_seconds=QUERY_SECONDS)
        except TooLong:
            raise TooMuch(f"{source}: the answer is longer than {most_bytes >> 20} MiB") from None
        if 200 <= answer.status < 300:
            return answer.body
        said = _error_text(answer.body)
        kind = TooMuch if any(words in said for words in _TOO_MUCH) else UserError
        raise kind(f"{source}: {answer.status} {said or answer.reason}")

    def vector(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Return the labels and values that an instant query gives; errors as of `ask`."""
        return self._vector(query, at, _MOST_BYTES)

    def _vector(self, query: str, at: float, most_bytes: int) -> list[tuple[dict[str, str], float]]:
        body = self.ask(query, at, most_bytes)
        try:
            answer: Any = json.loads(body)
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise ValueError(answer.get("error") or "no vector")
            return [(_labels(series["metric"]), _value(series["value"])) for series in answer["data"]["result"]]
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise UserError(f"--prometheus: {self.address}: the answer is not Prometheus' (no JSON)") from None
        except (KeyError, TypeError, AttributeError):
            raise UserError(
                f"--prometheus: {self.address}: the answer is not Prometheus' (parts are missing)"
            ) from None
        except ValueError as error:
            raise UserError(f"--prometheus: {self.address}: the answer is not Prometheus' ({error})") from None


def _labels(metric: Any) -> dict[str, str]:
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise ValueError("a series in it has no labels")
    return metric


def _value(pair: Any) -> float:
    """Return the number of Prometheus' [time, "number"]."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("a value in it is no pair of a time and a number")
    try:
        return float(pair[1])
    except (ValueError, TypeError):
        raise ValueError(f"a value in it is no number: {str(pair[1])[:_LONGEST_SAID]!r}") from None


def _error_text(body: bytes) -> str:
    """Return the server's own words."""
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _say(text: str) -> None:
    typer.echo(text, err=True)
