"""One pod event, from the bytes of its line to aggregates that are up to date: the decoder and the operator's sink.

Usage:
    python -m benchmarks.events                  # at 1/25, 1/5 and the whole of 5,000 nodes and 150,000 pods
    python -m benchmarks.events --share 0.04 --profile

The cluster is listed first; then come the lines of a churn (rollouts, jobs, failing probes), one by one, as a quiet
watch brings them. Afterwards the aggregates are recomputed from the rows, so that the figures are of right ones.
"""

import argparse
import cProfile
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from statistics import quantiles

from benchmarks.decoding import SHARES, top_lines
from benchmarks.generator import Size, node_pages, pod_pages, scaled, watch_lines
from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.wire import Node, Pod
from slack.kube.watch import EventType, PageDecoder, WatchDecoder
from slack_operator.sinks import NodeSink, PodSink
from slack_operator.view import View

EVENTS = 20_000
RENDERED = 250
"""Lines that are made ahead, so that making them does not drive our data out of the caches between any two."""
TARGET_MICROSECONDS = 50.0


def listed(size: Size) -> tuple[View, PodSink]:
    """Return the operator's view of a generated cluster, and the sink that its pods come through."""
    view = View("resource-slack", lambda: None)
    nodes, pods = NodeSink(view), PodSink(view)
    node_decoder, pod_decoder = PageDecoder(Node), PageDecoder(Pod)
    nodes.begin()
    for page in node_pages(size):
        nodes.apply([(EventType.ADDED, node) for node in node_decoder.decode(page)[0]])
    nodes.end()
    pods.begin()
    for page in pod_pages(size):
        pods.apply([(EventType.ADDED, pod) for pod in pod_decoder.decode(page)[0]])
    pods.end()
    return view, pods


def applied(sink: PodSink, lines: Iterator[bytes], profile: cProfile.Profile | None) -> list[float]:
    """Return the CPU seconds of each line."""
    decoder, taken = WatchDecoder(Pod), list[float]()
    while batch := list(islice(lines, RENDERED)):
        with profile if profile is not None else nullcontext():
            for line in batch:
                began = time.thread_time_ns()
                events = [event for event in decoder.feed(line) if isinstance(event, tuple)]
                sink.apply(events)
                taken.append((time.thread_time_ns() - began) / 1e9)
                if len(events) != 1:
                    raise RuntimeError(f"a line was read as {len(events)} events")
    return taken


def measure(size: Size, events: int, profile: cProfile.Profile | None) -> Row:
    """Measure one size."""
    say(f"{size.pods} pods: listing")
    view, sink = listed(size)
    say(f"{size.pods} pods: {events} events")
    taken = applied(sink, watch_lines(size, events=events), profile)
    view.columns.check()
    cuts = quantiles(taken, n=100)
    mean = sum(taken) / len(taken)
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "events": events,
        "mean us": mean * 1e6,
        "p50 us": cuts[49] * 1e6,
        "p99 us": cuts[98] * 1e6,
        "a second on one core": 1 / mean,
    }


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a size."""
    asked = _arguments(arguments)
    report = Report(
        f"one pod event, from its line to up-to-date aggregates; CPU time (wanted: under {TARGET_MICROSECONDS:.0f} us)"
    )
    profile = cProfile.Profile() if asked.profile else None
    for share in asked.share or SHARES:
        report.rows.append(measure(scaled(share), asked.events, profile))
    if profile is not None:
        report.notes += ["", *top_lines(profile)]
    show([report], asked.output)
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Apply pod events one by one.")
    options.add_argument("--share", type=float, action="append", help="of 150,000 pods; may be given several times")
    options.add_argument("--events", type=int, default=EVENTS)
    options.add_argument("--profile", action="store_true", help="say where our time goes (and is slower meanwhile)")
    found = options.parse_args(arguments)
    if any(not 0 < share <= 1 for share in found.share or ()):
        options.error("--share: must be above 0 and at most 1")
    if found.events < 100:
        options.error("--events: must be at least 100")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
