"""Asking a Prometheus for what kube-state-metrics saw, window by window. Decides nothing: `slack.simulator.history`.

Windows of an hour keep each answer small; a day of a large cluster would exceed the server's sample limit at once.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import timedelta
from typing import Any

from slack.cli.problems import UserError
from slack.cli.progress import Steps
from slack.simulator.history import QUERIES, History, Sample
from slack.simulator.traceformat import Trace

_WINDOW_SECONDS = 3600
_TIMEOUT_SECONDS = 60.0
_NEEDED = ("pod_created", "node_created", "node_allocatable")


def history(url: str, span: timedelta, now: float, placeholder_namespace: str) -> Trace:
    """Read the last `span` before `now` (Unix seconds).

    Raises:
        UserError: when the server gives no answer, an error, or has no kube-state-metrics.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"--prometheus: {url!r} is no address such as http://localhost:9090")
    started = now - span.total_seconds()
    found = History(started, placeholder_namespace)
    counts = dict.fromkeys(QUERIES, 0)
    with Steps() as steps:
        tell = steps.add(f"reading {parts.netloc}")
        at = started
        while at < now:
            end = min(at + _WINDOW_SECONDS, now)
            for name, query in QUERIES.items():
                samples = _ask(url, query.replace("{window}", f"{max(1, round(end - at))}s"), end)
                counts[name] += len(samples)
                found.add(name, samples)
            at = end
            tell((at - started) / (now - started))
    missing = [QUERIES[name].split("(")[-1].split("[")[0] for name in _NEEDED if not counts[name]]
    if missing:
        raise UserError(
            f"--prometheus: {url} has no {', '.join(missing)} in the last {span}; "
            f"is kube-state-metrics scraped, and its history that long?"
        )
    return found.trace(now)


def _ask(url: str, query: str, at: float) -> list[Sample]:
    asked = urllib.parse.urlencode({"query": query, "time": f"{at:.3f}"})
    request = f"{url.rstrip('/')}/api/v1/query?{asked}"
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # the scheme was checked
            body = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            raise UserError(f"--prometheus: {url}: {error.code} {_said(error.read()) or error.reason}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise UserError(f"--prometheus: {url}: no answer: {why}") from None
    return _samples(url, body)


def _said(body: bytes) -> str:
    """Return the server's own words."""
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""


def _samples(url: str, body: bytes) -> list[Sample]:
    try:
        answer: Any = json.loads(body)
        if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
            raise ValueError(answer.get("error") or "no vector")
        return [Sample(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"--prometheus: {url}: the answer is not Prometheus' ({error or 'cut off'})") from None
