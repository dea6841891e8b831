"""The benchmark's arguments, its processes, and what it prints."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.report import parser, say, show
from benchmarks.sizing.cases import CASES, QUICK, Case, recordings
from benchmarks.sizing.search import KINDS
from benchmarks.sizing.table import costs, objectives, regrets, verdicts
from benchmarks.sizing.worker import work
from slack.cluster.hold import Hold

_SLOWEST_FIRST = ("largebursts", "weeks", "webshop")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases, one a process, and print the tables."""
    asked = parser(__doc__ or "")
    asked.add_argument("--seeds", type=int, default=None, metavar="N", help="runs of each size; 5, with --quick 1")
    asked.add_argument("--quick", action="store_true", help=f"coarse, and only {', '.join(QUICK)}")
    asked.add_argument("--only", default=None, metavar="NAMES", help=", ".join(case.name for case in CASES))
    asked.add_argument("--kinds", default=",".join(KINDS), metavar="KINDS", help="beside none: %(default)s")
    where = os.environ.get("RECORDINGS")
    said = "a folder of recordings, each a load: *.parquet, as `resource-slack record` writes; else $RECORDINGS"
    asked.add_argument("--recordings", type=Path, default=where and Path(where), metavar="FOLDER", help=said)
    said = "keep each run here, a line each, and make none again that is there (of another version: delete its line)"
    asked.add_argument("--keep", type=Path, default=None, metavar="FILE", help=said)
    said = "the form of placeholders; with Auto they are unbound, as each load has an autoscaler (%(default)s)"
    asked.add_argument("--hold", type=Hold, choices=list(Hold), default=Hold.AUTO, help=said)
    said = "measure the days in which an objective learns as well"
    asked.add_argument("--from-start", action="store_true", help=said)
    asked.add_argument("--processes", type=int, default=2, metavar="N", help="cases at a time")
    options = asked.parse_args(arguments)
    known = {case.name: case for case in (*CASES, *(recordings(options.recordings) if options.recordings else ()))}
    names = options.only.split(",") if options.only else QUICK if options.quick else list(known)
    kinds = options.kinds.split(",")
    for flag, given, allowed in (("--only", names, list(known)), ("--kinds", kinds, list(KINDS))):
        if unknown := sorted(set(given) - set(allowed)):
            asked.error(f"{flag}: {', '.join(unknown)}: there is only {', '.join(allowed)}")
    cases = [case for name, case in known.items() if name in names]
    seeds = tuple(range(1, 1 + (options.seeds or (1 if options.quick else 5))))
    began = time.monotonic()
    order = sorted(cases, key=_place)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        wanted = {"coarse": options.quick, "kinds": kinds, "keep": options.keep, "hold": options.hold}
        wanted["from_start"] = options.from_start
        futures = {case.name: pool.submit(work, case, seeds, **wanted) for case in order}
        made = [(case, futures[case.name].result()) for case in cases]
    say(f"{time.monotonic() - began:.0f} s")
    reports = [costs(made), objectives(made), regrets(made), verdicts(made)]
    reports[-1].notes.append(f"{len(seeds)} seeds; {len(made)} loads{', coarse search' if options.quick else ''}.")
    show(reports, options.output)


def _place(case: Case) -> bool:
    """The slowest first, so that no process waits for one at the end."""
    return case.name not in _SLOWEST_FIRST and case in CASES


if __name__ == "__main__":
    main()
