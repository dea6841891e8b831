"""What a process does: all runs of one case."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.holding.loads import Case
from benchmarks.holding.runs import Kept, Runs
from benchmarks.holding.search import Compared, compare
from benchmarks.report import say


def work(case: Case, seeds: Sequence[int], keep: Path | None) -> Compared:
    """Make the runs of one case, but those that are kept."""
    return compare(Runs(case, seeds, Kept(keep), partial(_tell, case.name)))


def _tell(name: str, text: str) -> None:
    say(f"{name}: {text}")
