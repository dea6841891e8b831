"""The way of one pod event: the modules that it passes from the decoder through the operator's sink to the columns.

Usage:
    python -m benchmarks.event_path              # the mean of a churn, and the longest way of each sort of event
    python -m benchmarks.event_path --steps      # and every stay of it, with the functions called there

A stay is what is called in one module of ours until another module's function is called; a return is a stay in a
module where the event has been before. Fewer of both, and a reader follows an event in fewer files.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from statistics import mean
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.events import _sort, listed
from benchmarks.generator import scaled, watch_lines
from benchmarks.report import Report, parser, show
from slack.cluster.wire import Pod
from slack.kube.watch import WatchDecoder

if TYPE_CHECKING:  # only what the benchmark of events has, too, so that this file runs beside older code as it is
    from slack_operator.placeholders.view.cluster_view import ClusterView
    from slack_operator.placeholders.view.sinks import PodSink

SHARE = 0.01
EVENTS = 2_000
OURS = ("slack.", "slack_operator.")


class Stay(NamedTuple):
    """What is called in one module before another's turn comes."""

    module: str
    functions: tuple[str, ...]


class Calls:
    """The calls of functions of ours while it is entered, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __enter__(self) -> "Calls":
        self.seen.clear()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def stays(self) -> list[Stay]:
        """Return the calls, those that follow each other in one module together."""
        return [
            Stay(module, tuple(function for _, function in calls))
            for module, calls in groupby(self.seen, key=lambda call: call[0])
        ]

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(OURS):
            self.seen.append((module, frame.f_code.co_qualname))


def returns(stays: Sequence[Stay]) -> int:
    """Return how many stays are in a module where the event has been before."""
    return len(stays) - len({stay.module for stay in stays})


def ways(view: "ClusterView", sink: "PodSink", lines: Sequence[bytes]) -> list[tuple[str, list[Stay]]]:
    """Return each event's sort and way."""
    decoder, calls, texts = WatchDecoder(Pod), Calls(), view.columns.kinds.texts
    found: list[tuple[str, list[Stay]]] = []
    for line in lines:
        known = len(texts)
        with calls:
            (event,) = [item for item in decoder.feed(line) if isinstance(item, tuple)]
            sink.apply([event])
        new = ", its kind not said in these words before" if len(texts) > known else ""
        found.append((f"{_sort(*event)}{new}", calls.stays()))
    return found


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a sort of event."""
    asked = _arguments(arguments)
    view, sink = listed(scaled(SHARE))
    found = ways(view, sink, list(watch_lines(scaled(SHARE), events=EVENTS)))
    report = Report("the way of one pod event, from its line to the columns")
    stays, back = mean(len(way) for _, way in found), mean(returns(way) for _, way in found)
    report.rows.append({"event": "all: the mean", "events": len(found), "stays": stays, "returns": back})
    for sort in sorted({sort for sort, _ in found}):
        of_sort = [way for its, way in found if its == sort]
        longest = max(of_sort, key=len)
        report.rows.append({"event": sort, "events": len(of_sort), "stays": len(longest), "returns": returns(longest)})
        if asked.steps:
            report.notes += ["", f"{sort}:"]
            report.notes += [f"    {stay.module}: {', '.join(stay.functions)}" for stay in longest]
    show([report], asked.output)
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Follow pod events through the modules.")
    options.add_argument("--steps", action="store_true", help="print every stay")
    return options.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
