"""`python -m benchmarks.soak [PART...]` (`make soak`): the operator's ten minutes, and each companion's week.

The operator runs as a real process (`benchmarks.soak.operator`). Companions run in this process in accelerated time
(`benchmarks.soak.week`). Without a part all of them run. It fails if anything drifts, fails or grows.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from benchmarks.soak import audit_agent, auditor, demand, load_watcher, operator, scorer, throttler, view
from benchmarks.soak.week import Week, run

COMPANIONS: Final[Mapping[str, Callable[[int], Week]]] = {
    "view": view.week,
    "auditor": auditor.week,
    "audit-agent": audit_agent.week,
    "demand": demand.week,
    "scorer": scorer.week,
    "load-watcher": load_watcher.week,
    "throttler": throttler.week,
}
"""Each makes its week from a seed."""
OPERATOR: Final = "operator"


def main() -> int:
    """Run what was asked for, and print what was measured."""
    parts = (OPERATOR, *COMPANIONS)
    parser = argparse.ArgumentParser(description="Churn, broken watches and edited policies; no drift, nothing grows.")
    parser.add_argument("part", nargs="*", help=f"what to run, of {', '.join(parts)}; all without one")
    parser.add_argument("--days", type=int, default=7, help="of a companion's week")
    parser.add_argument("--seed", type=int, default=1, help="of all that happens")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    operator.add_arguments(parser)
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.part) - set(parts)):
        parser.error(f"{unknown[0]}: unknown part: write one of {', '.join(parts)}")
    if arguments.days < 3:
        parser.error("--days: must be at least 3")
    logging.disable(logging.CRITICAL)  # companions of this process report each trouble that a week brings
    asked, faults = arguments.part or parts, list[str]()
    for name in (name for name in COMPANIONS if name in asked):
        found = run(name, COMPANIONS[name](arguments.seed), arguments.days)
        print(json.dumps(asdict(found)) if arguments.output == "json" else found, flush=True)
        faults += found.faults
    if OPERATOR in asked:
        faults += operator.run(parser, arguments)
    for fault in faults[:40]:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
