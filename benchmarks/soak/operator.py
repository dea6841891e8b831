"""Ten minutes of churn, broken watches, foreign hands and edited policies: the operator's part of `make soak`.

A real operator process beside a local server. Every few seconds something goes wrong or is changed, as
`benchmarks.troubles` has it; in the second half WatchList is refused too. At the end the operator's columns must equal
a fresh list, byte for byte, and its memory must be what it was.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.apiserver.controllers import Controllers
from benchmarks.apiserver.server import Server
from benchmarks.generator import scaled
from benchmarks.operating import Operating
from benchmarks.storm import FLAT, SETTLE_SECONDS, Sender, slope
from benchmarks.troubles import Troubles

TURN_SECONDS = 5.0
QUIET_SECONDS = 20.0
"""After the last fault, for back-offs to end."""


@dataclass(frozen=True, slots=True)
class Soak:
    """What was measured."""

    nodes: int
    pods: int
    seconds: float
    events: int
    troubles: dict[str, int]
    opened: dict[str, int]
    plans: int
    writes: int
    drift: list[str]
    errors: list[str]
    rss_mib: list[float]
    """Median of each sixth of the time: three with WatchLists, three with paged lists, whose pages take room."""
    rss_max_mib: float
    rss_slopes_mib_per_minute: tuple[float, float]
    """Of both halves, by least squares, without the first sixth of each."""

    @property
    def good(self) -> bool:
        """Whether nothing drifted, nothing failed and memory was flat."""
        flat = all(self.rss_mib[place] <= FLAT * self.rss_mib[place - 1] for place in (2, 5))
        return flat and not self.drift and not self.errors

    def __str__(self) -> str:
        pods = {name: count for name, count in self.opened.items() if name.endswith(" pods")}
        rows = [
            ("cluster", f"{self.nodes:,} nodes, {self.pods:,} pods"),
            ("pod events", f"{self.events:,} in {self.seconds:.0f} s"),
            *sorted((name, str(count)) for name, count in self.troubles.items()),
            ("syncs and watches of pods", ", ".join(f"{count} {name}" for name, count in sorted(pods.items()))),
            ("plans", str(self.plans)),
            ("writes, leases left out", str(self.writes)),
            ("errors in the log", str(len(self.errors))),
            ("columns differ from a fresh list", ", ".join(self.drift) or "in nothing"),
            (
                "memory with WatchLists, by sixths",
                " / ".join(f"{mebibytes:.0f}" for mebibytes in self.rss_mib[:3]) + " MiB",
            ),
            ("  slope", f"{self.rss_slopes_mib_per_minute[0]:+.2f} MiB a minute"),
            (
                "memory with paged lists, by sixths",
                " / ".join(f"{mebibytes:.0f}" for mebibytes in self.rss_mib[3:]) + " MiB",
            ),
            ("  slope", f"{self.rss_slopes_mib_per_minute[1]:+.2f} MiB a minute"),
            ("memory, highest", f"{self.rss_max_mib:.0f} MiB"),
        ]
        return "\n".join(f"{name:<42}{value}" for name, value in rows)


def measure(share: float, rate: float, seconds: float, seed: int, log: Path | None = None) -> Soak:
    """Run one soak; the operator's log is copied to `log`."""
    size = scaled(share)
    with tempfile.TemporaryDirectory(prefix="resource-slack-soak-") as name:
        folder = Path(name)
        with (
            _kept(folder / "operator.log", log),
            Server(folder, size, seed) as server,
            Operating(folder, server) as operator,
        ):
            controllers = Controllers(server.store, seed)
            _say(f"the operator reads {size.nodes:,} nodes and {size.pods:,} pods")
            operator.wait_until_ready(60 + 300 * share)
            time.sleep(SETTLE_SECONDS)
            troubles, sender = Troubles(server, controllers, seed), Sender(server.store, rate)
            resident = [operator.resident_kib()]
            plans, shown = operator.metric("slack_plan_duration_seconds_count"), server.store.shown
            began = time.monotonic()
            due = began + TURN_SECONDS
            sender.start()
            while (past := time.monotonic() - began) < seconds:
                time.sleep(1.0)
                resident.append(operator.resident_kib())
                if due < time.monotonic() < began + seconds - QUIET_SECONDS:
                    due += TURN_SECONDS
                    troubles.next(refuse_watch_lists=past > seconds / 2)
                if len(resident) % 30 == 0:
                    _say(f"{past:.0f} s: {troubles.counts.total()} troubles, {resident[-1] / 1024:.0f} MiB")
            sender.stop()
            lasted = time.monotonic() - began
            server.read_only = True
            _wait_until_quiet(operator)
            resident.append(operator.resident_kib())
            count = len(resident)
            sixths = [resident[count * part // 6 : count * (part + 1) // 6] for part in range(6)]
            plans = operator.metric("slack_plan_duration_seconds_count") - plans
            _say("compare the columns with a fresh list")
            drift = operator.drift()
            return Soak(
                nodes=size.nodes,
                pods=size.pods,
                seconds=lasted,
                events=server.store.shown - shown,
                troubles=dict(troubles.counts),
                opened=dict(server.opened),
                plans=int(plans),
                writes=sum(count for (_, what), count in server.store.writes.items() if what != "leases"),
                drift=drift,
                errors=operator.errors(),
                rss_mib=[median(part) / 1024 for part in sixths],
                rss_max_mib=max(resident) / 1024,
                rss_slopes_mib_per_minute=(
                    slope(sixths[1] + sixths[2], lasted / 3),
                    slope(sixths[4] + sixths[5], lasted / 3),
                ),
            )


@contextmanager
def _kept(written: Path, log: Path | None) -> Iterator[None]:
    """Keep the operator's log, whatever comes of the soak."""
    try:
        yield
    finally:
        if log is not None and written.exists():
            shutil.copy(written, log)


def _wait_until_quiet(operator: Operating) -> None:
    """Wait until its columns have got nothing new for some seconds."""
    since, before = time.monotonic(), -1

    def quiet() -> bool:
        nonlocal since, before
        now = len(operator.applied())
        if now != before:
            since, before = time.monotonic(), now
        return time.monotonic() - since > 5.0

    operator.wait(quiet, 60, "all events seen")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator's own options."""
    parser.add_argument("--share", type=float, default=0.2, help="operator: of 5,000 nodes and 150,000 pods")
    parser.add_argument("--rate", type=float, default=200.0, help="operator: pod events a second")
    parser.add_argument("--seconds", type=float, default=600.0, help="operator: how long")
    parser.add_argument("--log", type=Path, help="operator: where to keep its log")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[str]:
    """Run the soak and print what was measured; return what is wrong."""
    for name, least in (("share", 0.0), ("rate", 0.0), ("seconds", 2 * QUIET_SECONDS)):
        if getattr(arguments, name) <= least:
            parser.error(f"--{name}: must be above {least:g}")
    soak = measure(arguments.share, arguments.rate, arguments.seconds, arguments.seed, arguments.log)
    print(json.dumps(asdict(soak)) if arguments.output == "json" else soak)
    return [] if soak.good else [*soak.errors[:20], "operator: it drifted, failed or grew: see the table"]
