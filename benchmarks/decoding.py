"""Pages of a list of pods: into the columns, into the official client's objects, into lightkube's. CPU time.

Usage:
    python -m benchmarks.decoding                  # at 1/25, 1/5 and the whole of 150,000 pods
    python -m benchmarks.decoding --share 0.04 --profile

Ours decodes every page, into several columns side by side, of which the median counts; the others, which are slower by
far, decode a sample of the same pages and are scaled by pods. Each has seen a page before it is timed, each gets pages
that lie ready, and each keeps what it makes: who lists a cluster wants to have it in the end. With --discard the others
throw their objects away page by page, which spares their garbage collector.
"""

import argparse
import cProfile
import gc
import importlib
import io
import pstats
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from statistics import median

from kubernetes import client

from benchmarks.generator import Size, node_pages, pod_pages, scaled
from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.columns import ClusterColumns
from slack.cluster.wire import Node, Pod
from slack.kube.paging import PageDecoder
from slack.kube.watch import EventType

SHARES = (1 / 25, 1 / 5, 1.0)
SAMPLE_PAGES = 8
READY_PAGES = 12
"""Rendered ahead, for a page that was just rendered leaves the processor's caches full of what rendering needs."""
RUNS = 3
PROFILE_LINES = 12

Decode = Callable[[bytes], Sequence[object]]
"""From a page's body to its pods."""


class IntoColumns:
    """What the reflector does with a page and its pods."""

    def __init__(self, size: Size) -> None:
        self.columns = ClusterColumns("resource-slack")
        self._pages = PageDecoder(Pod)
        nodes = PageDecoder(Node)
        for page in node_pages(size):
            items, _, _, _ = nodes.decode(page)
            self.columns.apply_nodes([(EventType.ADDED, node) for node in items])
        self.columns.begin_pods()

    def __call__(self, page: bytes) -> None:
        """Apply a page."""
        items, bad, _, _ = self._pages.decode(page)
        if bad:
            raise ValueError(f"cannot read {bad[0].name}: {bad[0].why}")
        self.columns.apply_pods([(EventType.ADDED, item) for item in items])


def apply_all(apply: IntoColumns, pages: Sequence[bytes]) -> None:
    """Apply one page after the other."""
    for page in pages:
        apply(page)


def official() -> Decode:
    """Return the official client's way: its deserializer, as `list_pod_for_all_namespaces` calls it."""
    api = client.ApiClient(client.Configuration())

    def decode(page: bytes) -> Sequence[object]:
        found: list[object] = api.deserialize(page.decode(), "V1PodList", "application/json").items
        return found

    return decode


def lightkube() -> Decode | None:
    """Return lightkube's way, as `client.list(Pod)` decodes a page; None where it is not installed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            decoders = importlib.import_module("lightkube.core.decoders")
            pod = importlib.import_module("lightkube.resources.core_v1").Pod
    except ImportError:
        return None

    def decode(page: bytes) -> Sequence[object]:
        _, _, items = decoders.decode_list(page, pod)
        return list(items)

    return decode


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of an action."""
    began = time.process_time()
    action()
    return time.process_time() - began


def sampled(decode: Decode, pages: Sequence[bytes], *, keep: bool) -> float:
    """Return seconds a pod: the median of some runs over the sample."""
    decode(pages[0])  # what is imported or compiled at first use
    gc.collect()
    gc.freeze()  # the columns beside them are none of their garbage collector's business

    def run() -> float:
        kept: list[Sequence[object]] = []
        pods = 0

        def take() -> None:
            nonlocal pods
            for page in pages:
                made = decode(page)
                pods += len(made)
                if keep:
                    kept.append(made)

        return cpu_seconds(take) / pods

    return median(run() for _ in range(RUNS))


def measure(
    size: Size, others: dict[str, Decode], profile: cProfile.Profile | None = None, *, keep: bool = True
) -> Row:
    """Measure one size; `keep` says whether the others keep their objects."""
    IntoColumns(size)(next(iter(pod_pages(size))))  # what is imported or compiled at first use
    ours = [IntoColumns(size) for _ in range(RUNS)]
    taken = [0.0] * RUNS
    pages_in_all = -(-size.pods // 500)
    wanted = {place * pages_in_all // SAMPLE_PAGES for place in range(SAMPLE_PAGES)}
    sample: list[bytes] = []
    data = 0
    rendered = enumerate(pod_pages(size))
    while ready := list(islice(rendered, READY_PAGES)):
        data += sum(len(page) for _, page in ready)
        sample += [page for number, page in ready if number in wanted]
        for place, apply in enumerate(ours):
            with profile if profile is not None and place == 0 else nullcontext():
                taken[place] += cpu_seconds(partial(apply_all, apply, [page for _, page in ready]))
    for way in ours:
        way.columns.end_pods()
    if len(ours[0].columns.pods.rows) != size.pods:
        raise RuntimeError(f"{len(ours[0].columns.pods.rows)} of {size.pods} pods are in the columns")
    mine = median(taken[1:] if profile else taken) / size.pods
    row: dict[str, str | int | float | None] = {
        "pods": size.pods,
        "a pod KiB": data / size.pods / 1024,
        "ours us": mine * 1e6,
        "ours s": mine * size.pods,
    }
    for name, decode in others.items():
        say(f"{size.pods} pods: {name}, {len(sample)} pages")
        theirs = sampled(decode, sample, keep=keep)
        row |= {f"{name} us": theirs * 1e6, f"{name} s": theirs * size.pods, f"{name} / ours x": theirs / mine}
    return row


def top_lines(profile: cProfile.Profile) -> list[str]:
    """Return where the time went: functions by their own time."""
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    lines = [line for line in text.getvalue().splitlines() if line.strip()]
    return lines[next(place for place, line in enumerate(lines) if "ncalls" in line) :]


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a size."""
    asked = _arguments(arguments)
    others: dict[str, Decode] = {"official": official()}
    light = lightkube()
    if light is None:
        say("lightkube is not installed: it is left out")
    else:
        others["lightkube"] = light
    report = Report("pages of 500 pods: into the columns, and into the objects of other clients; CPU time a pod")
    profile = cProfile.Profile() if asked.profile else None
    for share in asked.share or SHARES:
        size = scaled(share)
        say(f"{size.pods} pods: {RUNS} columns")
        report.rows.append(measure(size, others, profile, keep=not asked.discard))
    report.notes.append(
        f"(us: a pod, s: all pods; ours: every pod, the median of {RUNS} columns; others: {SAMPLE_PAGES * 500} pods,"
        f" the median of {RUNS} runs, scaled to all)"
    )
    if light is None:
        report.notes.append("(lightkube is not installed)")
    if profile is not None:
        report.notes += ["", *top_lines(profile)]
    show([report], asked.output)
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Decode pages of pods with three clients.")
    options.add_argument("--share", type=float, action="append", help="of 150,000 pods; may be given several times")
    options.add_argument("--profile", action="store_true", help="say where our time goes (and is slower meanwhile)")
    options.add_argument("--discard", action="store_true", help="the others throw their objects away page by page")
    found = options.parse_args(arguments)
    if any(not 0 < share <= 1 for share in found.share or ()):
        options.error("--share: must be above 0 and at most 1")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
