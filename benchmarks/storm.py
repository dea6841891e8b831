"""`python -m benchmarks.storm`: 2,000 pod events a second for five minutes into a real operator process, over TLS.

The server (this process) writes the watch lines of a generated cluster at an even pace; the operator is a process of
its own, with everything that `resource-slack operator` does. Lag is from when an event begins to be made to when the
operator's columns show it, both by the machine's one monotonic clock; so the time to render a line, and waiting for a
connection that is full, count. Nothing lost means: as many events seen as sent, and columns equal to a fresh list.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.apiserver.controllers import Controllers
from benchmarks.apiserver.server import Server
from benchmarks.apiserver.store import Pace, Store
from benchmarks.generator import scaled
from benchmarks.operating import NotThere, Operating, Records

TICK_SECONDS = 0.005
SETTLE_SECONDS = 15.0
LAG_SECONDS = 1.0
FLAT = 1.1
"""Resident memory at the end, of that at the beginning: a burst of waiting lines leaves the heap larger, once."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What was measured."""

    nodes: int
    pods: int
    seconds: float
    sent: int
    seen: int
    drift: list[str]
    lag_p50_seconds: float
    lag_p99_seconds: float
    lag_max_seconds: float
    operator_cpu_share: float
    server_cpu_share: float
    plans: int
    plan_mean_seconds: float
    watches_reopened: int
    rss_start_mib: float
    rss_middle_mib: float
    rss_end_mib: float
    rss_max_mib: float
    rss_slope_mib_per_minute: float
    """Of the second half."""
    load_average: float

    @property
    def lost(self) -> int:
        """How many events were sent and not seen."""
        return self.sent - self.seen

    @property
    def good(self) -> bool:
        """Whether the targets are met."""
        flat = self.rss_end_mib <= FLAT * self.rss_start_mib
        return self.lost == 0 and not self.drift and self.lag_p99_seconds < LAG_SECONDS and flat

    def __str__(self) -> str:
        drift = ", ".join(self.drift) or "in nothing"
        flat = f"{self.rss_start_mib:.0f} / {self.rss_middle_mib:.0f} / {self.rss_end_mib:.0f} MiB"
        lags = (self.lag_p50_seconds, self.lag_p99_seconds, self.lag_max_seconds)
        lag = " / ".join(f"{lag * 1e3:.0f}" for lag in lags) + " ms"
        rate = self.sent / self.seconds
        rows = (
            ("cluster", f"{self.nodes:,} nodes, {self.pods:,} pods", ""),
            ("events sent", f"{self.sent:,} in {self.seconds:.0f} s, {rate:,.0f} a second", ""),
            ("events lost", f"{self.lost}", "0"),
            ("columns differ from a fresh list", drift, "in nothing"),
            ("lag, p50 / p99 / max", lag, f"p99 < {LAG_SECONDS:.0f} s"),
            ("operator's CPU", f"{self.operator_cpu_share:.0%} of a core", ""),
            ("server's CPU", f"{self.server_cpu_share:.0%} of a core", ""),
            ("plans meanwhile", f"{self.plans}, {self.plan_mean_seconds * 1e3:.0f} ms each", ""),
            ("memory, start / middle / end", flat, f"end <= {FLAT:g} x start"),
            ("memory, highest", f"{self.rss_max_mib:.0f} MiB", ""),
            ("memory, slope of the second half", f"{self.rss_slope_mib_per_minute:+.2f} MiB a minute", ""),
            ("watches opened anew", f"{self.watches_reopened}", ""),
            ("the machine's load average", f"{self.load_average:.1f} on {os.cpu_count()} cores", ""),
        )
        return "\n".join(f"{name:<34}{value:<44}{target}".rstrip() for name, value, target in rows)


def lags(stamps: Records, applied: Records) -> Records:
    """Return nanoseconds from each stamp to when its version was in the columns, once for each event it stands for.

    Args:
        stamps: rows of time, version of the last event made then, how many were made.
        applied: rows of time, version of the last event applied then, how many were applied; versions grow.
    """
    place = np.searchsorted(applied[:, 1], stamps[:, 1])
    return np.repeat(applied[place, 0] - stamps[:, 0], stamps[:, 2])


def slope(resident_kib: list[int], seconds: float) -> float:
    """Return the MiB a minute by which evenly spaced readings grow, by least squares."""
    minutes = np.linspace(0.0, seconds / 60, len(resident_kib))
    return float(np.polyfit(minutes, np.array(resident_kib) / 1024, 1)[0])


class Sender(threading.Thread):
    """Makes events at an even pace; `stamps` has a row for each few of them."""

    def __init__(self, store: Store, rate: float) -> None:
        super().__init__(name="sender", daemon=True)
        self._store = store
        self._pace = Pace(rate)
        self._stopping = threading.Event()
        self._rows: list[tuple[int, int, int]] = []

    @property
    def stamps(self) -> Records:
        """Return rows of: time in ns, version of the last event, how many of them a watch shows."""
        return np.array(self._rows, dtype=np.int64).reshape(-1, 3)

    def run(self) -> None:
        """Send until `stop`."""
        self._pace.restart()
        due = 0
        while not self._stopping.wait(TICK_SECONDS):
            due += self._pace.due()
            while due > 0:  # a few at once: others want the lock, too
                with self._store.changed:
                    began, shown = time.monotonic_ns(), self._store.shown
                    version = self._store.advance(min(due, 20))
                    sent = self._store.shown - shown  # the last event of a finished pod is for nobody
                if sent:
                    self._rows.append((began, version, sent))
                    due -= sent

    def stop(self) -> None:
        """End, after what is under way."""
        self._stopping.set()
        self.join()


def measure(share: float, rate: float, seconds: float, seed: int) -> Storm:
    """Run one storm."""
    size = scaled(share)
    with tempfile.TemporaryDirectory(prefix="resource-slack-storm-") as name:
        folder = Path(name)
        with Server(folder, size, seed) as server, Operating(folder, server) as operator:
            Controllers(server.store, seed)
            _say(f"the operator reads {size.nodes:,} nodes and {size.pods:,} pods")
            operator.wait_until_ready(60 + 300 * share)
            time.sleep(SETTLE_SECONDS)  # its first placeholders come
            shown = server.store.shown
            chunks = len(operator.applied())
            plans, plan_seconds = (operator.metric(f"slack_plan_duration_seconds_{what}") for what in ("count", "sum"))
            cpu, own, began = operator.cpu_seconds(), time.process_time(), time.monotonic()
            resident = [operator.resident_kib()]
            sender = Sender(server.store, rate)
            sender.start()
            while (past := time.monotonic() - began) < seconds:
                time.sleep(1.0)
                resident.append(operator.resident_kib())
                if len(resident) % 10 == 0:
                    _say(f"{past:.0f} s: {server.store.shown - shown:,} sent, {resident[-1] / 1024:.0f} MiB")
            sender.stop()
            lasted = time.monotonic() - began
            cpu, own = (operator.cpu_seconds() - cpu) / lasted, (time.process_time() - own) / lasted
            server.read_only = True
            time.sleep(1.0)  # writes that are under way
            sent = server.store.shown - shown
            try:
                operator.wait(lambda: _seen(operator, chunks) >= sent, 30, "all events seen")
            except NotThere as error:
                _say(str(error))
            applied = operator.applied()[chunks:]
            resident.append(operator.resident_kib())
            plans = operator.metric("slack_plan_duration_seconds_count") - plans
            plan_seconds = operator.metric("slack_plan_duration_seconds_sum") - plan_seconds
            _say("compare the columns with a fresh list")
            drift = operator.drift()
            lag = lags(sender.stamps[sender.stamps[:, 1] <= applied[-1, 1]], applied) / 1e9
            return Storm(
                nodes=size.nodes,
                pods=size.pods,
                seconds=lasted,
                sent=sent,
                seen=int(applied[:, 2].sum()),
                drift=drift,
                lag_p50_seconds=float(np.percentile(lag, 50)),
                lag_p99_seconds=float(np.percentile(lag, 99)),
                lag_max_seconds=float(lag.max()),
                operator_cpu_share=cpu,
                server_cpu_share=own,
                plans=int(plans),
                plan_mean_seconds=plan_seconds / max(plans, 1),
                watches_reopened=int(operator.metric("slack_watch_restarts_total")),
                rss_start_mib=resident[0] / 1024,
                rss_middle_mib=resident[len(resident) // 2] / 1024,
                rss_end_mib=resident[-1] / 1024,
                rss_max_mib=max(resident) / 1024,
                rss_slope_mib_per_minute=slope(resident[len(resident) // 2 :], lasted / 2),
                load_average=os.getloadavg()[0],
            )


def _seen(operator: Operating, chunks: int) -> int:
    return int(operator.applied()[chunks:, 2].sum())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run the storm and print what was measured."""
    parser = argparse.ArgumentParser(description="A storm of pod events into a real operator process.")
    parser.add_argument("--share", type=float, default=1.0, help="of 5,000 nodes and 150,000 pods")
    parser.add_argument("--rate", type=float, default=2_000.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long")
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    for name in ("share", "rate", "seconds"):
        if getattr(arguments, name) <= 0:
            parser.error(f"--{name}: must be above 0")
    storm = measure(arguments.share, arguments.rate, arguments.seconds, arguments.seed)
    print(json.dumps(asdict(storm)) if arguments.output == "json" else storm)
    return 0 if storm.good else 1


if __name__ == "__main__":
    sys.exit(main())
