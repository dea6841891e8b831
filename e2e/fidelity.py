"""`make fidelity`: the same scenario simulated and on the real control plane, side by side, and how far they differ.

    python -m e2e.fidelity [-o json] [--rate 0.25] [--autoscaler karpenter] [--slack policies] [--keep FOLDER]

Karpenter's kwok build always; the stock Cluster Autoscaler when CLUSTER_AUTOSCALER names its binary. Each with and
without slack, in the scenario's own time: about two and a half minutes a run.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.harness.cleanup import cleaned
from e2e.harness.controlplane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.replaying import PREFERENCES, Observed, replay, simulated
from e2e.scenes import NO_SLACK, autoscalers, keep, scene
from slack.simulator.engine import simulate
from slack.simulator.scenario import Scenario

BOOT_SECONDS = 8


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario, simulated and measured."""

    autoscaler: str
    slack: str
    simulated: Observed
    measured: Observed

    def node_difference(self) -> float:
        """Return the mean absolute difference of the numbers of nodes, second by second."""
        end = int(min(self.simulated.nodes[-1][0], self.measured.nodes[-1][0]))
        return fmean(abs(self.simulated.nodes_at(t) - self.measured.nodes_at(t)) for t in range(end + 1))

    def rows(self) -> list[tuple[str, float, float, float]]:
        """Return (what, simulated, measured, measured less simulated)."""
        figures: list[tuple[str, Callable[[Observed], float]]] = [
            ("pods", lambda one: one.pods),
            ("instant-start ratio", lambda one: one.instant_start_ratio),
            ("p50 seconds to bind", lambda one: one.p50_seconds),
            ("p95 seconds to bind", lambda one: one.p95_seconds),
            ("placeholders displaced", lambda one: one.displaced),
            ("nodes at the start", lambda one: one.nodes[0][1]),
            ("nodes, the most", lambda one: max(count for _, count in one.nodes)),
            ("nodes, mean", _mean_nodes),
            ("nodes at the end", lambda one: one.nodes[-1][1]),
        ]
        return [
            (what, of(self.simulated), of(self.measured), of(self.measured) - of(self.simulated))
            for what, of in figures
        ]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "autoscaler": self.autoscaler,
            "slack": self.slack,
            "figures": {
                what: {"simulated": round(ours, 4), "measured": round(theirs, 4), "difference": round(apart, 4)}
                for what, ours, theirs, apart in self.rows()
            },
            "node_count_mean_absolute_difference": round(self.node_difference(), 3),
            "nodes": {"simulated": changes(self.simulated), "measured": changes(self.measured)},
            "seconds_to_bind_measured": [round(wait, 3) for wait in self.measured.waits],
        }


def compare(cluster: ControlPlane, name: str, scenario: Scenario, preferences: str = PREFERENCES) -> Comparison:
    """Simulate and play one scenario; the cluster is clean again afterwards."""
    with cleaned(cluster.api):
        measured = replay(cluster, scenario, BOOT_SECONDS, preferences=preferences)
    return Comparison(name, scenario.slack.kind, simulated(simulate(scenario), scenario), measured)


def changes(seen: Observed) -> list[tuple[float, int]]:
    """Return when the number of nodes was another than before."""
    found: list[tuple[float, int]] = []
    for at, count in seen.nodes:
        if not found or found[-1][1] != count:
            found.append((round(at, 1), count))
    return found


def _mean_nodes(seen: Observed) -> float:
    return fmean(seen.nodes_at(t) for t in range(int(seen.nodes[-1][0]) + 1))


def _print(console: Console, found: Comparison) -> None:
    table = Table(title=f"{found.autoscaler}, slack: {found.slack}", title_justify="left")
    for name in ("", "simulated", "measured", "difference"):
        table.add_column(name, justify="left" if not name else "right")
    for what, ours, theirs, apart in found.rows():
        table.add_row(what, f"{ours:.3g}", f"{theirs:.3g}", f"{apart:+.3g}")
    table.add_row("nodes, mean absolute difference", "", "", f"{found.node_difference():.2f}")
    console.print(table)
    for what, seen in (("simulated", found.simulated), ("measured", found.measured)):
        steps = "  ".join(f"{at:g}s:{count}" for at, count in changes(seen))
        console.print(f"  nodes {what:<9}  {steps}")


@contextmanager
def _cluster(keep_in: Path | None) -> Iterator[ControlPlane]:
    prefix = "resource-slack-fidelity-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, ControlPlane(keep_in or Path(folder)) as cluster:
        yield cluster


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 when a real component failed."""
    here = autoscalers()
    parser = argparse.ArgumentParser(prog="python -m e2e.fidelity", description="Simulated beside measured.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--rate", type=float, default=0.25, help="the policy's minRate (default 0.25)")
    parser.add_argument("--autoscaler", choices=sorted(here), action="append", help="only this one")
    parser.add_argument("--preferences", choices=("Ignore", "Respect"), default=PREFERENCES, help="Karpenter's policy")
    parser.add_argument("--slack", choices=("both", "none", "policies"), default="both", help="which runs to make")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the components' logs here")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True, stderr=given.output == "json")
    found: list[Comparison] = []
    try:
        with _cluster(given.keep) as cluster:
            for name in given.autoscaler or here:
                for slack in (NO_SLACK, keep(given.rate)):
                    if given.slack not in ("both", slack["kind"]):
                        continue
                    console.print(f"{name}, slack: {slack['kind']} ...")
                    played = scene(here[name], slack, boot_seconds=BOOT_SECONDS)
                    found.append(compare(cluster, name, played, given.preferences))
                    if given.output == "table":
                        _print(console, found[-1])
    except HarnessError as error:
        console.print(f"the comparison stopped: {error}")
        return 1
    if given.output == "json":
        print(json.dumps([one.document() for one in found], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
