"""Two scrapes of a full node's cAdvisor read into samples, beside prometheus-client's own parser in the same run.

Usage:
    python -m benchmarks.scraping                # 500 pods of two containers

Both get the same two bodies, a minute apart, and must find the same counters. CPU time of this process, the median of
some runs; memory is what Python's allocator held at most beside the body (tracemalloc, in runs of their own). A body
that comes in chunks, as it does from a kubelet, is measured too: it is never whole in memory.
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.generator.scrapes import full_node, scrape
from benchmarks.report import Report, Value, parser, say, show
from slack.audit.sources.cadvisor import CadvisorScrape

NOW = 1_795_298_000.0
APART_SECONDS = 60.0
RUNS = 5
CHUNK_BYTES = 64 * 1024
TARGET_SECONDS = 1.0
_MIB = 2**20
_FAMILIES = {
    "container_cpu_cfs_periods_total": 1.0,
    "container_cpu_cfs_throttled_periods_total": 1.0,
    "container_cpu_cfs_throttled_seconds_total": 1e9,
    "container_cpu_usage_seconds_total": 1e9,
    "container_spec_cpu_quota": 1.0,
}

Counters = Mapping[str, tuple[int | None, ...]]
"""By the cgroup's path: periods, throttled periods, throttled ns, usage ns, quota us."""
Read = Callable[[bytes], Counters]


def ours(body: bytes) -> Counters:
    """Read a body that is whole in memory."""
    return _read([body])


def in_chunks(body: bytes) -> Counters:
    """Read a body as it comes."""
    return _read(body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))


def _read(chunks: Iterable[bytes]) -> Counters:
    found = CadvisorScrape("node", NOW)
    for chunk in chunks:
        found.feed(chunk)
    return {
        sample.target.path: (sample.periods, sample.throttled, sample.throttled_ns, sample.usage_ns, sample.quota_us)
        for sample in found.finish().samples
    }


def theirs(body: bytes) -> Counters:
    """Read a body with prometheus-client, and pick the same series from what it gives."""
    found: dict[str, dict[str, int]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            factor = _FAMILIES.get(sample.name)
            labels = sample.labels
            if factor is not None and (labels["container"] or not labels["name"]):
                found.setdefault(labels["id"], {})[sample.name] = round(sample.value * factor)
    return {
        path: tuple(values.get(name, None if name.endswith("quota") else 0) for name in _FAMILIES)
        for path, values in found.items()
        if len(values) > 1 or not path.startswith("/system.slice/")  # units without a quota are nobody's business
    }


def seconds(read: Read, bodies: Sequence[bytes], runs: int) -> float:
    """Return the CPU time for all bodies: the median of some runs."""
    taken = []
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        for body in bodies:
            read(body)
        taken.append(time.process_time() - began)
    return median(taken)


def peak_bytes(read: Read, body: bytes) -> int:
    """Return what reading one body held at most, beside the body."""
    gc.collect()
    tracemalloc.start()
    try:
        read(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure(pods: int, runs: int) -> Report:
    """Measure one size.

    Raises:
        RuntimeError: the readers disagree about a counter.
    """
    cgroups = full_node(pods, born=NOW - 86_400)
    bodies = [scrape(cgroups, NOW), scrape(cgroups, NOW + APART_SECONDS)]
    report = Report(
        f"two scrapes of a node of {pods} pods: {sum(map(len, bodies)) / _MIB:.0f} MiB, CPU time and memory"
    )
    readers: dict[str, tuple[Read, int]] = {
        "ours, in chunks": (in_chunks, runs),
        "ours, whole": (ours, runs),
        "prometheus-client": (theirs, max(1, runs // 2)),
    }
    first = 0.0
    for name, (read, times) in readers.items():
        say(f"{pods} pods: {name}")
        for body in bodies:
            _agree(name, read(body), in_chunks(body))
        taken = seconds(read, bodies, times)
        first = first or taken
        row: dict[str, Value] = {
            "reader": name,
            "cgroups": len(in_chunks(bodies[0])),
            "lines": sum(body.count(b"\n") for body in bodies),
            "taken s": taken,
            "to ours x": taken / first,
            "peak MiB": peak_bytes(read, bodies[0]) / _MIB,
        }
        report.rows.append(row)
    report.notes.append(f"(target: {TARGET_SECONDS:.0f} s; all readers found the same counters)")
    return report


def _agree(name: str, found: Counters, expected: Counters) -> None:
    if found != expected:
        differing = sorted(path for path in {*found, *expected} if found.get(path) != expected.get(path))
        path = differing[0]
        raise RuntimeError(
            f"{name}: {path} is {found.get(path)}, not {expected.get(path)} (and {len(differing)} in all)"
        )


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a reader; 1 when the target is missed."""
    asked = _arguments(arguments)
    report = measure(asked.pods, asked.runs)
    show([report], asked.output)
    taken = report.rows[0]["taken s"]
    return int(asked.pods <= 500 and isinstance(taken, float) and taken > TARGET_SECONDS)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Read two cAdvisor scrapes.")
    options.add_argument("--pods", type=int, default=500, help="of the node (500)")
    options.add_argument("--runs", type=int, default=RUNS, help=f"of which the median is shown ({RUNS})")
    found = options.parse_args(arguments)
    if found.pods < 1 or found.runs < 1:
        options.error("--pods and --runs: must be at least 1")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
