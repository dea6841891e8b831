"""What a process does: all runs of one case."""

import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from benchmarks.report import say
from benchmarks.sizing.cases import Case, load
from benchmarks.sizing.runs import Kept, Point, Runs
from benchmarks.sizing.search import searched
from slack.cluster.hold import Hold


def work(
    case: Case,
    seeds: Sequence[int],
    *,
    coarse: bool,
    kinds: Collection[str],
    keep: Path | None,
    hold: Hold,
    from_start: bool,
) -> dict[str, Point]:
    """Make the runs of one case, but those that are kept."""
    began = time.monotonic()
    tell = partial(_tell, case.name)
    kept_as = f"{case.name}, {hold}{', from the start' if from_start else ''}"
    runs = Runs(load(case, hold, from_start=from_start), seeds, tell, Kept(keep), kept_as, fewer_looks=coarse)
    searched(runs, coarse=coarse, kinds=kinds)
    say(f"{case.name}: done, {len(runs.made)} sizes in {time.monotonic() - began:.0f} s")
    return runs.made


def _tell(name: str, text: str) -> None:
    say(f"{name}: {text}")
