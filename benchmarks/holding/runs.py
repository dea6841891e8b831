"""Runs of one case, made once each: what came of one is kept in a file, and read there again."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

from benchmarks.holding.loads import Case, scenario
from slack.cluster.hold import Hold
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import simulate


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run came to."""

    share: float
    """Of pods that started without waiting."""
    nodes: float
    """On average, from the request for a node until it was gone."""
    preempted: int
    """Placeholders that the scheduler preempted; those that made way are not among them."""
    recreated: int
    """Placeholders that were made in the place of others."""
    taint_writes_per_hour: float = 0.0
    """Soft taints that were written to nodes or taken away."""

    @classmethod
    def of(cls, result: Result) -> "Figures":
        """Return the figures of a result."""
        return cls(
            share=result.instant_start_ratio,
            nodes=result.node_hours * 3600 / result.measured_seconds,
            preempted=result.placeholders_displaced - result.placeholders_made_way,
            recreated=result.placeholders_created - result.placeholders_grown - result.placeholders_other,
            taint_writes_per_hour=result.taint_writes * 3600 / result.measured_seconds,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One rate of one form: the runs of all seeds, in their order."""

    rate: float
    runs: tuple[Figures, ...]

    @property
    def share(self) -> float:
        """The mean."""
        return fmean(run.share for run in self.runs)

    @property
    def nodes(self) -> float:
        """The mean."""
        return fmean(run.nodes for run in self.runs)

    @property
    def preempted(self) -> float:
        """The mean of a run."""
        return fmean(run.preempted for run in self.runs)

    @property
    def recreated(self) -> float:
        """The mean of a run."""
        return fmean(run.recreated for run in self.runs)

    @property
    def taint_writes_per_hour(self) -> float:
        """The mean."""
        return fmean(run.taint_writes_per_hour for run in self.runs)


class Kept:
    """Lines of a file, each one run; without a file nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def of(self, case: str) -> dict[tuple[str, float, int], Figures]:
        """Return what is known of a case, by form, rate and seed; a line that an interruption has cut is none."""
        found: dict[tuple[str, float, int], Figures] = {}
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path and self._path.exists() else ()
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row["case"] == case:
                found[row["hold"], row["rate"], row["seed"]] = Figures(**row["figures"])
        return found

    def add(self, case: str, hold: str, rate: float, seed: int, figures: Figures) -> None:
        """Keep a run; a line is one write, so processes may share the file."""
        if self._path is not None:
            row = {"case": case, "hold": hold, "rate": rate, "seed": seed, "figures": asdict(figures)}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


@dataclass
class Runs:
    """Makes the runs of one case, and remembers them."""

    case: Case
    seeds: Sequence[int]
    kept: Kept
    tell: Callable[[str], None]
    _known: dict[tuple[str, float, int], Figures] = field(init=False)

    def __post_init__(self) -> None:
        self._known = self.kept.of(self.case.name)

    def __call__(self, hold: Hold, rate: float) -> Point:
        """Return what a form comes to at a rate; at 0 there is no slack, whatever the form."""
        began = time.monotonic()
        form = str(hold) if rate else "none"
        if rate and hold is Hold.UNBOUND and self.case.soft_taint:
            form += ", soft taint"
        point = Point(rate, tuple(self._one(hold, form, rate, seed) for seed in self.seeds))
        seconds = time.monotonic() - began
        self.tell(f"{form} {rate:g}: {point.share:.2%} without waiting, {point.nodes:.2f} nodes ({seconds:.0f} s)")
        return point

    def _one(self, hold: Hold, form: str, rate: float, seed: int) -> Figures:
        key = form, rate, seed
        if key not in self._known:
            played = scenario(self.case, seed=seed, rate=rate or None, hold=hold)
            self._known[key] = Figures.of(simulate(played))
            self.kept.add(self.case.name, *key, self._known[key])
        return self._known[key]
