"""Asking a Prometheus: an address as users give it, one instant query, and what its errors mean.

Errors name --prometheus, the address without its password, and the server's own words.
"""

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slack.cli.problems import UserError

_TIMEOUT_SECONDS = 60.0
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
        server = PrometheusServer.of("http://localhost:9090")
        server.vector("up", time.time())
    """

    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str) -> "PrometheusServer":
        """Read --prometheus; http://me:password@host is HTTP's basic authentication.

        Raises:
            UserError: it is no http or https address.
        """
        parts = urllib.parse.urlsplit(url)
        try:
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # the port is no number, or beyond 65535
            known = False
        _, at, place = parts.netloc.rpartition("@")
        if not known:
            shown = parts._replace(netloc=place).geturl()
            raise UserError(f"--prometheus: {shown!r} is no address such as http://localhost:9090")
        address = parts._replace(netloc=place, query="", fragment="").geturl().rstrip("/")
        if not at:
            return cls(address, {})
        both = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
        return cls(address, {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"})

    def ask(self, query: str, at: float) -> bytes:
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
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # the scheme was checked
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                said = _said(error.read())
            kind = TooMuch if any(words in said for words in _TOO_MUCH) else UserError
            raise kind(f"--prometheus: {self.address}: {error.code} {said or error.reason}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise UserError(f"--prometheus: {self.address}: no answer: {why}") from None
        return body

    def vector(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Return the labels and values that an instant query gives; errors as of `ask`."""
        body = self.ask(query, at)
        try:
            answer: Any = json.loads(body)
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise ValueError(answer.get("error") or "no vector")
            return [(one["metric"], _value(one["value"])) for one in answer["data"]["result"]]
        except json.JSONDecodeError:
            raise UserError(f"--prometheus: {self.address}: the answer is not Prometheus' (no JSON)") from None
        except (KeyError, TypeError, AttributeError):
            raise UserError(
                f"--prometheus: {self.address}: the answer is not Prometheus' (parts are missing)"
            ) from None
        except ValueError as error:
            raise UserError(f"--prometheus: {self.address}: the answer is not Prometheus' ({error})") from None


def _value(pair: Any) -> float:
    """Return the number of Prometheus' [time, "number"]."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("a value in it is no pair of a time and a number")
    try:
        return float(pair[1])
    except (ValueError, TypeError):
        raise ValueError(f"a value in it is no number: {str(pair[1])[:_LONGEST_SAID]!r}") from None


def _said(body: bytes) -> str:
    """Return the server's own words."""
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""
