"""Asking a Prometheus for what kube-state-metrics saw, window by window; `slack.simulator.traces.history` reads it.

Windows of an hour keep each answer small; a day of a large cluster would exceed the server's sample limit at once.
Where an hour does too, the window is halved. What has been read stays when the server, or the person, ends it midway.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from slack.cli.inputs.prometheus_server import PrometheusServer, TooMuch
from slack.cli.terminal.problems import UserError
from slack.cli.terminal.progress import ProgressSteps
from slack.simulator.traces.format import Trace
from slack.simulator.traces.history import SCRAPE_SECONDS, TraceHistory
from slack.simulator.traces.state_metrics import QUERIES, MetricSample

_WINDOW_SECONDS = 3600.0
_SHORTEST_WINDOW_SECONDS = 60.0
_NEEDED = ("pod_created", "node_created", "node_allocatable")


class PrometheusHistory(NamedTuple):
    """What was read."""

    trace: Trace
    notes: tuple[str, ...]
    """On what is not known."""
    ended_by: UserError | KeyboardInterrupt | None
    """What kept the rest from being read; None when all was."""


def history(url: str, span: timedelta, now: float, placeholder_namespace: str) -> PrometheusHistory:
    """Read the last `span` before `now` (Unix seconds), or its beginning where the server fails midway.

    Raises:
        UserError: when the server gives no answer, an error at once, or has no kube-state-metrics.
    """
    server = PrometheusServer.from_url(url)
    server.greet()
    now = float(int(now))
    started = now - span.total_seconds()
    scrape = _scrape_seconds(server, now)
    found = TraceHistory(started, placeholder_namespace, scrape)
    answered: set[str] = set()
    ended_by: UserError | KeyboardInterrupt | None = None
    with ProgressSteps() as steps:
        tell = steps.add_step(f"reading {server.address}")
        # From one scrape before: what ended soon after the start was seen last before it.
        at, window = started - scrape, _WINDOW_SECONDS
        while at < now:
            end = min(at + window, now)
            try:
                answers = _window(server, at, end, max(1, round(scrape)))
            except (UserError, KeyboardInterrupt) as error:
                if isinstance(error, TooMuch) and window / 2 >= _SHORTEST_WINDOW_SECONDS:
                    window /= 2
                    continue
                if not answered.issuperset(_NEEDED) or at <= started:
                    raise
                ended_by = error
                break
            for name, samples in answers.items():
                found.add_answer(name, samples)
                answered |= {name} if samples else set()
            at = end
            tell(max(0.0, at - started) / (now - started))
    missing = [QUERIES[name].split("(")[-1].split("[")[0] for name in _NEEDED if name not in answered]
    if missing:
        raise UserError(
            f"--prometheus: {server.address} has no {', '.join(missing)} in the last {span}; "
            f"is kube-state-metrics scraped, and its history that long?"
        )
    return PrometheusHistory(found.trace(at), found.notes(), ended_by)


def _window(server: PrometheusServer, start: float, end: float, step: int) -> Mapping[str, list[MetricSample]]:
    length = f"{max(1, round(end - start))}s"
    return {
        name: _samples(server, query.replace("{window}", length).replace("{step}", f"{step}s"), end)
        for name, query in QUERIES.items()
    }


def _scrape_seconds(server: PrometheusServer, now: float) -> float:
    """Return how often kube-state-metrics is scraped, seen at the node that is there longest."""
    oldest = _samples(server, "bottomk(1, kube_node_created)", now)
    if not oldest:
        return SCRAPE_SECONDS
    name = json.dumps(oldest[0].labels.get("node", ""))
    body = server.ask(f"kube_node_created{{node={name}}}[10m]", now)
    try:
        times = [float(at) for series in json.loads(body)["data"]["result"][:1] for at, _ in series["values"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return SCRAPE_SECONDS
    between = sorted(after - before for before, after in pairwise(times))
    return min(max(between[len(between) // 2], 1.0), SCRAPE_SECONDS) if between else SCRAPE_SECONDS


def _samples(server: PrometheusServer, query: str, at: float) -> list[MetricSample]:
    return [MetricSample(labels, value) for labels, value in server.vector(query, at)]
