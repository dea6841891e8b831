"""`make fidelity`: the same scenario simulated and on the real control plane, side by side, and how far they differ.

    python -m e2e.fidelity [-o json] [--runs 3] [--rate 0.25] [--autoscaler karpenter] [--slack Unbound] [--keep DIR]
    python -m e2e.fidelity --only bursts [--bursts 10,30,100]

Karpenter's kwok build always; the stock Cluster Autoscaler when CLUSTER_AUTOSCALER names its binary. Each without
slack, with bound and with unbound placeholders, in the scenario's own time: about two and a half minutes a run. Then
single bursts into slack, preempted and with slack making way (`e2e/burst_fidelity.py`). Real runs differ among
themselves: with `--runs` the spread is printed beside the difference.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.burst_fidelity import BurstComparison, compare_bursts
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.replay import Observed, replay, simulated
from e2e.scenes import NO_SLACK, autoscalers, keep, scene
from slack.cluster.hold import Hold
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import Scenario

BOOT_SECONDS = 8
SLACK = ("none", str(Hold.BOUND), str(Hold.UNBOUND))


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: simulated, and measured in every run."""

    what: str
    simulated: float
    measured: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the real runs."""
        return fmean(self.measured)

    @property
    def difference(self) -> float:
        """Measured less simulated."""
        return self.mean - self.simulated


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario, simulated and measured once or several times."""

    autoscaler: str
    slack: str
    """none, or the form of the placeholders."""
    simulated: Observed
    measured: tuple[Observed, ...]

    def node_difference(self) -> float:
        """Return the mean absolute difference of the numbers of nodes, second by second, over the real runs."""
        return fmean(apart(self.simulated, run) for run in self.measured)

    def node_noise(self) -> float | None:
        """Return the same between the real runs themselves."""
        pairs = [apart(first, other) for first, other in combinations(self.measured, 2)]
        return fmean(pairs) if pairs else None

    def rows(self) -> list[Row]:
        """Return what is compared."""
        figures: list[tuple[str, Callable[[Observed], float]]] = [
            ("pods", lambda run: run.pods),
            ("instant-start ratio", lambda run: run.instant_start_ratio),
            ("p50 seconds to bind", lambda run: run.p50_seconds),
            ("p95 seconds to bind", lambda run: run.p95_seconds),
            ("placeholders displaced", lambda run: run.displaced),
            ("nodes at the start", lambda run: run.nodes[0][1]),
            ("nodes, the most", lambda run: max(count for _, count in run.nodes)),
            ("nodes, mean", _mean_nodes),
            ("nodes at the end", lambda run: run.nodes[-1][1]),
        ]
        return [Row(what, of(self.simulated), tuple(map(of, self.measured))) for what, of in figures]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        noise = self.node_noise()
        return {
            "autoscaler": self.autoscaler,
            "slack": self.slack,
            "figures": {
                row.what: {
                    "simulated": round(row.simulated, 4),
                    "measured": [round(value, 4) for value in row.measured],
                    "difference": round(row.difference, 4),
                }
                for row in self.rows()
            },
            "node_count_mean_absolute_difference": round(self.node_difference(), 3),
            "node_count_mean_absolute_difference_between_runs": None if noise is None else round(noise, 3),
            "nodes": {"simulated": changes(self.simulated), "measured": [changes(run) for run in self.measured]},
            "seconds_to_bind_measured": [[round(wait, 3) for wait in run.waits] for run in self.measured],
        }


def apart(first: Observed, other: Observed) -> float:
    """Return the mean absolute difference of two runs' numbers of nodes, second by second."""
    end = int(min(first.nodes[-1][0], other.nodes[-1][0]))
    return fmean(abs(first.nodes_at(t) - other.nodes_at(t)) for t in range(end + 1))


def compare(cluster: ControlPlane, name: str, slack: str, scenario: Scenario, runs: int) -> Comparison:
    """Simulate and play one scenario; the cluster is clean again afterwards."""
    measured = []
    for _ in range(runs):
        with cleaned(cluster.api):
            measured.append(replay(cluster, scenario, BOOT_SECONDS))
    return Comparison(name, slack, simulated(simulate(scenario), scenario), tuple(measured))


def changes(seen: Observed) -> list[tuple[float, int]]:
    """Return when the number of nodes was another than before."""
    found: list[tuple[float, int]] = []
    for at, count in seen.nodes:
        if not found or found[-1][1] != count:
            found.append((round(at, 1), count))
    return found


def _mean_nodes(seen: Observed) -> float:
    return fmean(seen.nodes_at(t) for t in range(int(seen.nodes[-1][0]) + 1))


def _spread(values: Sequence[float]) -> str:
    lowest, highest = f"{min(values):.3g}", f"{max(values):.3g}"
    return lowest if lowest == highest else f"{lowest} .. {highest}"


def _print(console: Console, found: Comparison) -> None:
    table = Table(title=f"{found.autoscaler}, slack: {found.slack}", title_justify="left")
    for name in ("", "simulated", "measured", "difference"):
        table.add_column(name, justify="left" if not name else "right")
    for row in found.rows():
        table.add_row(row.what, f"{row.simulated:.3g}", _spread(row.measured), f"{row.difference:+.3g}")
    table.add_row("nodes, mean absolute difference", "", "", f"{found.node_difference():.2f}")
    noise = found.node_noise()
    if noise is not None:
        table.add_row("  the same between the real runs", "", "", f"{noise:.2f}")
    console.print(table)
    for what, seen in [("simulated", found.simulated), *(("measured", run) for run in found.measured)]:
        steps = "  ".join(f"{at:g}s:{count}" for at, count in changes(seen))
        console.print(f"  nodes {what:<9}  {steps}")


@contextmanager
def _cluster(keep_in: Path | None) -> Iterator[ControlPlane]:
    prefix = "resource-slack-fidelity-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, ControlPlane(keep_in or Path(folder)) as cluster:
        yield cluster


def _print_bursts(console: Console, found: Sequence[BurstComparison]) -> None:
    table = Table(title="bursts into slack: simulated / measured", title_justify="left")
    for name in ("pods", "room", "instant", "p50 s", "p95 s", "placeholders gone"):
        table.add_column(name, justify="left" if name == "room" else "right")
    for burst in found:
        figures = [f"{own:.3g} / {real:.3g}" for _, own, real in burst.rows()]
        table.add_row(str(burst.pods), "making way" if burst.make_way else "preempted", *figures)
    console.print(table)


def _sizes(text: str) -> list[int]:
    return [_at_least_one(part) for part in text.split(",")]


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _scenes(given: argparse.Namespace, console: Console) -> Iterator[Comparison]:
    here = autoscalers()
    with _cluster(given.keep) as cluster:
        for name in given.autoscaler or here:
            for slack in given.slack or SLACK:
                console.print(f"{name}, slack: {slack} ...")
                kept = NO_SLACK if slack == "none" else keep(given.rate, hold=Hold(slack))
                played = scene(here[name], kept, boot_seconds=BOOT_SECONDS)
                yield compare(cluster, name, slack, played, given.runs)


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 when a real component failed."""
    parser = argparse.ArgumentParser(prog="python -m e2e.fidelity", description="Simulated beside measured.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--rate", type=float, default=0.25, help="the policy's minRate (default 0.25)")
    parser.add_argument("--autoscaler", choices=sorted(autoscalers()), action="append", help="only this one")
    parser.add_argument("--runs", type=_at_least_one, default=1, help="real runs of each scenario (default 1)")
    parser.add_argument("--slack", choices=SLACK, action="append", help="only this one")
    parser.add_argument("--bursts", type=_sizes, default=[10, 30, 100], help="pods of single bursts (10,30,100)")
    parser.add_argument("--only", choices=("scenes", "bursts"), help="a part of it")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the components' logs here")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True, stderr=given.output == "json")
    found: list[Comparison] = []
    bursts: list[BurstComparison] = []
    try:
        if given.only != "bursts":
            for comparison in _scenes(given, console):
                found.append(comparison)
                if given.output == "table":
                    _print(console, comparison)
        if given.only != "scenes":
            console.print("single bursts ...")
            bursts += compare_bursts(given.bursts, given.runs)
            if given.output == "table":
                _print_bursts(console, bursts)
    except HarnessError as error:
        console.print(f"the comparison stopped: {error}")
        return 1
    if given.output == "json":
        documents = [comparison.document() for comparison in found] + [burst.document() for burst in bursts]
        print(json.dumps(documents, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
