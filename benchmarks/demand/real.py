"""The headline on real processes: `python -m benchmarks.demand.real [--runs N] [--broker URL]`.

Without --broker a nats-server of the harness's own runs for it. Medians of the runs, both sides in each.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.demand.measuring.comparison import MeasuredPair, Setting, compare
from e2e.harness.brokers.servers import NatsServer

TARGETS = (
    ("with creation of 0.7-1.3 s", (0.7, 1.3), 150.0),
    ("a process's own start", (0.0, 0.0), 60.0),
)


@contextlib.contextmanager
def broker(url: str | None) -> Iterator[str]:
    """Give the URL, or that of a server that runs for it."""
    if url is not None:
        yield url
        return
    reason = NatsServer.missing()
    if reason:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder, NatsServer(Path(folder)) as server:
        yield server.url


def _tell(side: str, passed: float, messages: int) -> None:
    print(f"\r{side}: {passed:4.0f} s, {messages} messages   ", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a creation; returns 0 whatever came out: machines differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--broker")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cut", type=float, default=8.0)
    given = parser.parse_args(arguments)
    with broker(given.broker) as url:
        for name, creation, target in TARGETS:
            found: list[MeasuredPair] = []
            for run in range(given.runs):
                setting = Setting(creation_seconds=creation, seed=run + 1, seconds=given.seconds, cut_seconds=given.cut)
                found.append(asyncio.run(compare(url, None, setting, _tell)))
            print("\r", end="", file=sys.stderr)
            ratios = sorted(each.ratio for each in found)
            old, ours = (statistics.median(values) for values in _speeds(found))
            told = ", ".join(f"{ratio:.0f}" for ratio in ratios)
            print(
                f"{name}: {statistics.median(ratios):.0f} x (target {target:.0f}; runs {told}): "
                f"old {old:.1f}/s, ours {ours:.0f}/s, p50 {statistics.median(e.ours.p50_ms for e in found):.1f} ms"
            )
    return 0


def _speeds(found: Sequence[MeasuredPair]) -> tuple[list[float], list[float]]:
    return [each.old.per_second for each in found], [each.ours.per_second for each in found]


if __name__ == "__main__":
    sys.exit(main())
