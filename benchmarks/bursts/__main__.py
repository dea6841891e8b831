"""`python -m benchmarks.bursts`: bursts on a real control plane, by what holds the capacity that they take.

    python -m benchmarks.bursts [--sizes 1,10,50,100,200,400,500] [--chunks 1,4] [--kinds free,bound,way,unbound,buffer]
                                [--runs 3] [--bursts 1] [-o json]

API server, scheduler and controllers are stock (the controllers with more requests per second, so that pods are created
quicker), machines are kwok's. All kinds are played in the same run, in turns: only their ratios say something about a
machine that others use too. Free capacity takes turns with unbound placeholders and buffers in who comes first.
`--bursts 3` plays each of their cases so often in one set-up: small bursts scatter, and cost little.

Seconds are from the request that creates a pod to the answer to its binding, by the API server's audit log. Instant is
within two seconds, as in `simulate`. The floor is a client that knows what comes, and only deletes. What placeholders
cost the cluster is counted with bursts of 100.

A ratio of unbound placeholders or of a served CapacityBuffer has an interval of 95 %, and beside it how far free
capacity scatters beside itself. One above what is wanted is missed if the whole interval is above it, and undecided
otherwise.

Exit code: 0 if every wanted figure was reached, 1 if one was missed or is undecided, 2 if a component failed or nothing
was judged.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bursts import cost
from benchmarks.bursts.case import Burst, Case, Kind, Owner, scenes
from benchmarks.bursts.stage import MACHINE_CORES, MACHINES, Stage
from benchmarks.bursts.verdict import judge, table
from benchmarks.report import Report, parser, say, show
from e2e.harness.errors import HarnessError

SIZES = (1, 10, 50, 100, 200, 400, 500)
CHUNKS = (1, 4)
LONE_RUNS = 10
"""A lone pod is one sample per burst."""
KINDS = {
    "free": Kind.FREE,
    "bound": Kind.BOUND,
    "way": Kind.WAY,
    "unbound": Kind.UNBOUND,
    "buffer": Kind.BUFFER,
    "floor": Kind.FLOOR,
}
STEADY_PODS = 100
"""With bursts of so many pods an idle operator is looked at, and writes are counted."""


@dataclass(slots=True)
class Seen:
    """What was measured so far."""

    bursts: dict[Case, list[Burst]] = field(default_factory=dict)
    steady: dict[Kind, float] = field(default_factory=dict)
    """The idle operator's share of a core."""
    costs: dict[Kind, cost.Cost] = field(default_factory=dict)


def play(stage: Stage, scene: list[Case], again: int, bursts: dict[Case, list[Burst]]) -> None:
    """Play the cases of a scene in one set-up, one after the other, each so often."""
    with stage.set_up(scene[0]) as operator:
        for number, case in enumerate(case for case in scene for _ in range(again)):
            if number:
                stage.go_away(case, operator)
            burst = stage.play(case, operator)
            bursts.setdefault(case, []).append(burst)
            say(f"{case}: {burst}")


def play_all(stage: Stage, given: argparse.Namespace, seen: Seen) -> None:
    """Play every size, all of its kinds in each run; then look at what each form costs."""
    for pods in given.sizes:
        for run in range(1 if pods == 1 else given.runs):
            for scene in scenes(pods, given.chunks, given.kinds, free_last=run % 2 == 1):
                again = LONE_RUNS if pods == 1 else given.bursts if scene[0].kind.lasting else 1
                play(stage, scene, again, seen.bursts)
        if pods == STEADY_PODS and given.steady:
            for case in (Case(pods, Owner.DEPLOYMENT, kind, min(given.chunks)) for kind in given.kinds):
                if case.kind.operated:
                    say(f"{case.kind}: what it costs ...")
                    with stage.set_up(case) as operator:
                        assert operator is not None
                        seen.costs[case.kind], seen.steady[case.kind] = stage.cost(case, operator, given.steady)


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
    """Play all, print the tables, and return the exit code."""
    options = parser("Bursts on a real control plane.")
    options.add_argument("--sizes", type=_numbers, default=SIZES, help="pods of a burst, with commas")
    options.add_argument(
        "--chunks", type=_numbers, default=CHUNKS, help="pods as large as one placeholder, with commas"
    )
    options.add_argument("--kinds", type=_kinds, default=list(Kind), help=f"{', '.join(KINDS)} (default all)")
    options.add_argument("--runs", type=int, default=3, help="of each case; medians are printed (default 3)")
    options.add_argument(
        "--bursts", type=int, default=1, help="of each lasting case in a run: free, unbound, buffer (default 1)"
    )
    options.add_argument("--steady", type=float, default=30.0, metavar="SECONDS", help="to look at an idle operator")
    options.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the components' logs here")
    given = options.parse_args(arguments)
    if min(given.runs, given.bursts) < 1:
        options.error("--runs, --bursts: at least 1")
    seen, failed = Seen(), False
    try:
        with (
            tempfile.TemporaryDirectory(prefix="resource-slack-bursts-") as folder,
            Stage(given.keep or Path(folder)) as stage,
        ):
            play_all(stage, given, seen)
    except HarnessError as error:
        say(f"the benchmark stopped: {error}")
        failed = True
    figures = judge(seen.bursts, seen.steady)
    often = f"{given.runs} runs" + (f" with {given.bursts} bursts of lasting cases" if given.bursts > 1 else "")
    title = f"{MACHINES} machines of {MACHINE_CORES} cores; medians of {often}, counts of all of them"
    wanted = Report("wanted", [figure.row() for figure in figures])
    show([Report(title, table(seen.bursts)), cost.report(seen.costs), wanted], given.output)
    if failed or not figures:
        return 2
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
