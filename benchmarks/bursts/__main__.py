"""`python -m benchmarks.bursts`: bursts on a real control plane, into free room, placeholders, slack that makes way.

    python -m benchmarks.bursts [--sizes 1,10,50,100,200,400,500] [--chunks 1,4] [--runs 1] [-o json]

API server, scheduler and controllers are stock and come as they are (the controllers with more requests a second, so
that pods come quicker), machines are kwok's. All kinds are played in the same run, one after the other for each size,
for only their ratios say something about a machine that others use too. Seconds are from the request that made a pod to
the answer to its binding, by the API server's audit log. At once is within two seconds, as in `simulate`. The floor
is a client that knows what comes, and only deletes.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.bursts.case import Burst, Case, Kind, cases
from benchmarks.bursts.stage import MACHINE_CORES, MACHINES, Stage, steady_cpu
from benchmarks.bursts.verdict import judge, table
from benchmarks.report import Report, parser, say, show
from e2e.harness.errors import HarnessError

SIZES = (1, 10, 50, 100, 200, 400, 500)
CHUNKS = (1, 4)
LONE_RUNS = 10
"""A lone pod is one sample a burst."""
KINDS = {"free": Kind.FREE, "alone": Kind.ALONE, "way": Kind.WAY, "floor": Kind.FLOOR}
STEADY_PODS = 100


def play(stage: Stage, case: Case, runs: int, steady_seconds: float) -> tuple[list[Burst], float | None]:
    """Play a case several times; return the bursts, and the idle operator's share of a core where it was asked for."""
    say(f"{case} ...")
    steady = None
    bursts: list[Burst] = []
    again = max(runs, LONE_RUNS) if case.pods == 1 else 1
    for _ in range(1 if case.pods == 1 else runs):  # what was learnt of one large burst is not for the next
        with stage.set_up(case) as operator:
            if operator is not None and steady_seconds and steady is None:
                steady = steady_cpu(operator, steady_seconds)
            for number in range(again):
                if number:
                    stage.go_away(case, operator)
                bursts.append(stage.play(case, operator))
                say(f"  {bursts[-1]}")
    return bursts, steady


def _numbers(text: str) -> list[int]:
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError("numbers from 1 on")
    return found


def _kinds(text: str) -> list[Kind]:
    try:
        return [KINDS[name] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{error.args[0]!r} is none of {', '.join(KINDS)}") from None


def main(arguments: list[str] | None = None) -> int:
    """Play all; 1 when a wanted figure was missed, 2 when a component failed."""
    options = parser("Bursts on a real control plane.")
    options.add_argument("--sizes", type=_numbers, default=SIZES, help="pods of a burst, with commas")
    options.add_argument(
        "--chunks", type=_numbers, default=CHUNKS, help="pods as large as one placeholder, with commas"
    )
    options.add_argument("--kinds", type=_kinds, default=list(Kind), help="free, alone, way, floor (default all)")
    options.add_argument("--runs", type=int, default=1, help="of each case; medians are printed (default 1)")
    options.add_argument("--steady", type=float, default=30.0, metavar="SECONDS", help="to look at an idle operator")
    options.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the components' logs here")
    given = options.parse_args(arguments)
    if given.runs < 1:
        options.error("--runs: at least 1")
    found: dict[Case, list[Burst]] = {}
    steady: dict[Kind, float] = {}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="resource-slack-bursts-") as folder,
            Stage(given.keep or Path(folder)) as stage,
        ):
            for case in cases(given.sizes, given.chunks, given.kinds):
                look = case.pods == STEADY_PODS and case.kind not in steady
                found[case], share = play(stage, case, given.runs, given.steady if look else 0.0)
                if share is not None:
                    steady[case.kind] = share
    except HarnessError as error:
        say(f"the benchmark stopped: {error}")
    figures = judge(found, steady)
    title = f"{MACHINES} machines of {MACHINE_CORES} cores; medians of {given.runs} runs, counts of all of them"
    show([Report(title, table(found)), Report("wanted", [figure.row() for figure in figures])], given.output)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
