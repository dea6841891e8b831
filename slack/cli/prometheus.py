"""Asking a Prometheus for what kube-state-metrics saw, window by window. Decides nothing: `slack.simulator.history`.

Windows of an hour keep each answer small; a day of a large cluster would exceed the server's sample limit at once.
Where an hour does too, the window is halved.
"""

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from slack.cli.problems import UserError
from slack.cli.progress import Steps
from slack.simulator.history import SCRAPE_SECONDS, History
from slack.simulator.state_metrics import QUERIES, Sample
from slack.simulator.traceformat import Trace

_WINDOW_SECONDS = 3600.0
_SHORTEST_WINDOW_SECONDS = 60.0
_TIMEOUT_SECONDS = 60.0
_TOO_MUCH = ("too many samples", "timed out", "memory")
"""What a Prometheus says (promql/engine.go) when a shorter window may do."""
_NEEDED = ("pod_created", "node_created", "node_allocatable")


@dataclass(frozen=True, slots=True)
class _Server:
    """Where to ask, and what to say of oneself; `address` is without the password."""

    address: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, url: str) -> "_Server":
        """Read --prometheus; http://me:password@host is HTTP's basic authentication."""
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


class _TooMuch(UserError):
    """The query was too large for the server."""


def history(url: str, span: timedelta, now: float, placeholder_namespace: str) -> tuple[Trace, tuple[str, ...]]:
    """Read the last `span` before `now` (Unix seconds); return it with notes on what is not known.

    Raises:
        UserError: when the server gives no answer, an error, or has no kube-state-metrics.
    """
    server = _Server.of(url)
    now = float(int(now))
    started = now - span.total_seconds()
    scrape = _scrape_seconds(server, now)
    found = History(started, placeholder_namespace, scrape)
    answered: set[str] = set()
    with Steps() as steps:
        tell = steps.add(f"reading {server.address}")
        # From one scrape before: what ended soon after the start was seen last before it.
        at, window = started - scrape, _WINDOW_SECONDS
        while at < now:
            end = min(at + window, now)
            try:
                answers = _window(server, at, end, max(1, round(scrape)))
            except _TooMuch:
                if window / 2 < _SHORTEST_WINDOW_SECONDS:
                    raise
                window /= 2
                continue
            for name, samples in answers.items():
                found.add(name, samples)
                answered |= {name} if samples else set()
            at = end
            tell(max(0.0, at - started) / (now - started))
    missing = [QUERIES[name].split("(")[-1].split("[")[0] for name in _NEEDED if name not in answered]
    if missing:
        raise UserError(
            f"--prometheus: {server.address} has no {', '.join(missing)} in the last {span}; "
            f"is kube-state-metrics scraped, and its history that long?"
        )
    return found.trace(now), found.notes()


def _window(server: _Server, start: float, end: float, step: int) -> Mapping[str, list[Sample]]:
    length = f"{max(1, round(end - start))}s"
    return {
        name: _samples(server, _ask(server, query.replace("{window}", length).replace("{step}", f"{step}s"), end))
        for name, query in QUERIES.items()
    }


def _scrape_seconds(server: _Server, now: float) -> float:
    """Return how often kube-state-metrics is scraped, seen at the node that is there longest."""
    oldest = _samples(server, _ask(server, "bottomk(1, kube_node_created)", now))
    if not oldest:
        return SCRAPE_SECONDS
    name = json.dumps(oldest[0].labels.get("node", ""))
    body = _ask(server, f"kube_node_created{{node={name}}}[10m]", now)
    try:
        times = [float(at) for one in json.loads(body)["data"]["result"][:1] for at, _ in one["values"]]
    except (ValueError, KeyError, TypeError):
        return SCRAPE_SECONDS
    between = sorted(after - before for before, after in pairwise(times))
    return min(max(between[len(between) // 2], 1.0), SCRAPE_SECONDS) if between else SCRAPE_SECONDS


def _ask(server: _Server, query: str, at: float) -> bytes:
    asked = urllib.parse.urlencode({"query": query, "time": f"{at:.3f}"})
    request = urllib.request.Request(f"{server.address}/api/v1/query?{asked}", headers=dict(server.headers))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # the scheme was checked
            body: bytes = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            said = _said(error.read())
        kind = _TooMuch if any(words in said for words in _TOO_MUCH) else UserError
        raise kind(f"--prometheus: {server.address}: {error.code} {said or error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise UserError(f"--prometheus: {server.address}: no answer: {why}") from None
    return body


def _said(body: bytes) -> str:
    """Return the server's own words."""
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""


def _samples(server: _Server, body: bytes) -> list[Sample]:
    try:
        answer: Any = json.loads(body)
        if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
            raise ValueError(answer.get("error") or "no vector")
        return [Sample(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(
            f"--prometheus: {server.address}: the answer is not Prometheus' ({error or 'cut off'})"
        ) from None
