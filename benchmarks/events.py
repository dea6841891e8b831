"""One pod event, from the bytes of its line to aggregates that are up to date: the decoder and the operator's sink.

Usage:
    python -m benchmarks.events                  # at 1/25, 1/5 and the whole of 5,000 nodes and 150,000 pods
    python -m benchmarks.events --share 0.04 --profile

The cluster is listed first; then come the lines of a churn (rollouts, jobs, failing probes), one by one, as a quiet
watch brings them. Afterwards the aggregates are recomputed from the rows, so that the figures are of right ones.
A second table says which events are dear. Its last line is a bare loop as long as the median event: what its slowest
hundredth takes longer is the machine's doing and not ours.
"""

import argparse
import cProfile
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from enum import StrEnum
from itertools import islice
from statistics import mean, median, quantiles
from typing import NamedTuple

from benchmarks.decoding import SHARES, top_lines
from benchmarks.generator import Size, node_pages, pod_pages, scaled, watch_lines
from benchmarks.report import Report, Row, parser, say, show
from benchmarks.verify import verify
from slack.cluster.wire import Node, Pod
from slack.kube.paging import PageDecoder
from slack.kube.watch import EventType, WatchDecoder
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NodeSink, PodSink

EVENTS = 20_000
RENDERED = 2_000
"""Lines that are made ahead: making them drives our data out of the caches, which the next few dozen events pay for."""
LOOPS = 5_000
TARGET_MICROSECONDS = 50.0


class Sort(StrEnum):
    """What an event says, or what befell us while we read it."""

    CREATED = "created"
    BOUND = "bound to a node"
    STATUS = "another status, nothing that counts"
    LEAVING = "marked for deletion, or its containers ended"
    FINISHED = "finished"
    DELETED = "deleted"
    NEW_TEXT = "any, its kind not said in these words before"
    COLLECTED = "any, with a garbage collection"


class Taken(NamedTuple):
    """One event."""

    sort: Sort
    seconds: float
    """CPU."""


def listed(size: Size) -> tuple[ClusterView, PodSink]:
    """Return the operator's view of a generated cluster, and the sink that its pods come through."""
    view = ClusterView("resource-slack", lambda: None)
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


def applied(view: ClusterView, sink: PodSink, lines: Iterator[bytes], profile: cProfile.Profile | None) -> list[Taken]:
    """Return what each line took."""
    decoder, taken, texts = WatchDecoder(Pod), list[Taken](), view.columns.kinds.texts
    while batch := list(islice(lines, RENDERED)):
        with profile if profile is not None else nullcontext():
            for line in batch:
                known, collections = len(texts), _collections()
                began = time.thread_time_ns()
                events = [event for event in decoder.feed(line) if isinstance(event, tuple)]
                sink.apply(events)
                seconds = (time.thread_time_ns() - began) / 1e9
                if len(events) != 1:
                    raise RuntimeError(f"a line was read as {len(events)} events")
                if _collections() != collections:
                    sort = Sort.COLLECTED
                elif len(texts) > known:
                    sort = Sort.NEW_TEXT
                else:
                    sort = _sort(*events[0])
                taken.append(Taken(sort, seconds))
    return taken


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _sort(event: EventType, pod: Pod) -> Sort:
    if event is EventType.DELETED:
        return Sort.DELETED
    if event is EventType.ADDED:
        return Sort.CREATED
    if pod.metadata.deletion_timestamp is not None:
        return Sort.LEAVING
    if pod.status is not None and pod.status.phase == "Succeeded":
        return Sort.FINISHED
    return Sort.BOUND if pod.status is not None and pod.status.phase == "Pending" else Sort.STATUS


def loop_seconds(like: float) -> list[float]:
    """Return what a loop takes, time after time, that needs no memory and takes as long as `like`, half of the time."""

    def once(steps: int) -> float:
        began = time.thread_time_ns()
        for _ in range(steps):
            pass
        return (time.thread_time_ns() - began) / 1e9

    steps = max(1, int(10_000 * like / median(once(10_000) for _ in range(100))))
    return [once(steps) for _ in range(LOOPS)]


def measure(size: Size, events: int, profile: cProfile.Profile | None) -> tuple[Row, list[Row]]:
    """Measure one size: all events, and by sort."""
    say(f"{size.pods} pods: listing")
    lines = watch_lines(size, events=events)
    gc.collect()
    gc.freeze()  # what the generator keeps is nothing that an operator's collector would walk through
    view, sink = listed(size)
    say(f"{size.pods} pods: {events} events")
    taken = applied(view, sink, lines, profile)
    gc.unfreeze()
    verify(view.columns)
    seconds = [change.seconds for change in taken]
    row = {"nodes": size.nodes, "pods": size.pods, "events": events, **_figures(seconds)}
    row["a second on one core"] = 1 / mean(seconds)
    by_sort: list[Row] = []
    for sort in Sort:
        of_sort = [change.seconds for change in taken if change.sort is sort]
        if of_sort:
            share = 100 * sum(of_sort) / sum(seconds)
            by_sort.append(
                {"pods": size.pods, "event": sort, "events": len(of_sort), "of the time %": share, **_figures(of_sort)}
            )
    loop = loop_seconds(median(seconds))
    by_sort.append(
        {"pods": size.pods, "event": "(a bare loop)", "events": LOOPS, "of the time %": None, **_figures(loop)}
    )
    return row, by_sort


def _figures(seconds: Sequence[float]) -> dict[str, str | int | float | None]:
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [*seconds] * 99
    return {"mean us": mean(seconds) * 1e6, "p50 us": cuts[49] * 1e6, "p99 us": cuts[98] * 1e6}


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a size."""
    asked = _arguments(arguments)
    report = Report(
        f"one pod event, from its line to up-to-date aggregates; CPU time (wanted: under {TARGET_MICROSECONDS:.0f} us)"
    )
    sorts = Report("by what the event says")
    profile = cProfile.Profile() if asked.profile else None
    for share in asked.share or SHARES:
        row, by_sort = measure(scaled(share), asked.events, profile)
        report.rows.append(row)
        sorts.rows += by_sort
    if profile is not None:
        sorts.notes += ["", *top_lines(profile)]
    show([report, sorts], asked.output)
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
