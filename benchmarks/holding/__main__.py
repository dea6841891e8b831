"""The benchmark's arguments, its processes, and what it prints."""

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.holding import __doc__ as usage
from benchmarks.holding.churn import LOADS as CHURN_LOADS
from benchmarks.holding.churn import Churn, churn
from benchmarks.holding.loads import AUTOSCALERS, SCORES, UNITS, cases
from benchmarks.holding.search import FORMS
from benchmarks.holding.table import churn_table, movements, nodes, verdicts
from benchmarks.holding.worker import work
from benchmarks.report import parser, say, show

SEEDS = 10
_CHURN_SEEDS = 3
"""A day is long, and what is counted there is to be none at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, one a process, and print the tables; 1 when a wanted figure was missed."""
    asked = parser(usage or "")
    asked.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="runs of each rate; %(default)s")
    asked.add_argument("--only", default=None, metavar="NAMES", help="loads, with commas")
    asked.add_argument("--pods", default=",".join(UNITS), metavar="SIZES", help="%(default)s")
    asked.add_argument("--scores", default=",".join(SCORES), metavar="SCORES", help="%(default)s")
    asked.add_argument("--autoscaler", choices=AUTOSCALERS, default=AUTOSCALERS[0], help="%(default)s")
    where = os.environ.get("RECORDINGS")
    said = "a folder of recordings, each a load: *.parquet, as `resource-slack record` writes; else $RECORDINGS"
    asked.add_argument("--recordings", type=Path, default=where and Path(where), metavar="FOLDER", help=said)
    said = "keep each run here, a line each, and make none again that is there (of another version: delete its line)"
    asked.add_argument("--keep", type=Path, default=None, metavar="FILE", help=said)
    said = "taint the nodes that hold unbound placeholders, as the operator does with --soft-taint"
    asked.add_argument("--soft-taint", action="store_true", help=said)
    asked.add_argument("--processes", type=int, default=2, metavar="N", help="cases at a time")
    asked.add_argument("--without-churn", action="store_true", help="leave out the load that moves and the day")
    options = asked.parse_args(arguments)
    known = cases(options.autoscaler, options.recordings, soft_taint=options.soft_taint)
    sizes, scores = {*options.pods.split(","), "recorded"}, options.scores.split(",")
    names = options.only.split(",") if options.only else [case.load for case in known]
    if unknown := sorted(set(names) - {case.load for case in known}):
        asked.error(f"--only: {', '.join(unknown)}: there is only {', '.join(dict.fromkeys(c.load for c in known))}")
    chosen = [case for case in known if case.load in names and case.pods in sizes and case.scores in scores]
    seeds = tuple(range(1, 1 + options.seeds))
    began = time.monotonic()
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, case, seeds, options.keep) for case in chosen]
        few = () if options.without_churn else seeds[:_CHURN_SEEDS]
        moved = [pool.submit(churn, name, hold, few) for name in CHURN_LOADS for hold in FORMS if few]
        found = [(case, future.result()) for case, future in zip(chosen, futures, strict=True)]
        churns: list[Churn] = [future.result() for future in moved]
    say(f"{time.monotonic() - began:.0f} s")
    last = verdicts(found, churns)
    last.notes.append(f"{len(seeds)} seeds, {len(found)} cases, {options.autoscaler}.")
    tables = [nodes(found), movements(found)] if found else []
    show([*tables, *([churn_table(churns)] if churns else []), last], options.output)
    return 1 if any(row["verdict"] == "missed" for row in last.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
