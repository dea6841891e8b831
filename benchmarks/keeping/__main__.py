"""`python -m benchmarks.keeping`: slack beside real autoscalers, bound and unbound.

    CLUSTER_AUTOSCALER=path python -m benchmarks.keeping [--autoscalers ca,karpenter] [--forms bound,unbound]
                                                         [--minutes 10] [--seed 1] [-o json]

Karpenter is played always, the Cluster Autoscaler if `CLUSTER_AUTOSCALER` names a stock binary. Nodes have 8 cores and
take ten seconds to join. The chart is installed by Helm with one policy, and three things are measured: how long the
capacity takes from the installation on, how it is refilled after a burst, and what happens while the number of small
pods moves by 20 % and bursts of large pods arrive each minute. Both forms get the same load. How slow the machine is is
printed first: on a busy one the start of the operator alone takes longer than is wanted.

Exit code: 0 if every wanted figure was reached, 1 if one was missed, 2 if a component failed or nothing was judged.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from benchmarks.keeping.stage import BOOT_SECONDS, Autoscaler, Form, Kept, measure
from benchmarks.keeping.verdict import judge, steps, table
from benchmarks.report import Report, parser, say, show
from e2e.harness.autoscalers import cluster_autoscaler
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.machine_speed import describe

T = TypeVar("T")
AUTOSCALERS = {"ca": Autoscaler.CLUSTER_AUTOSCALER, "karpenter": Autoscaler.KARPENTER}
FORMS = {"bound": Form.BOUND, "unbound": Form.UNBOUND}


def available() -> list[Autoscaler]:
    """Return the autoscalers that can run here."""
    try:
        cluster_autoscaler.binary()
    except UnavailableError as error:
        say(f"without the Cluster Autoscaler: {error}")
        return [Autoscaler.KARPENTER]
    return list(Autoscaler)


def main(arguments: list[str] | None = None) -> int:
    """Play all, print the tables, and return the exit code."""
    given = _arguments(arguments)
    found: dict[tuple[Autoscaler, Form], Kept] = {}
    failed = False
    say(describe())
    for autoscaler in given.autoscalers or available():
        for form in given.forms:
            with tempfile.TemporaryDirectory(prefix="resource-slack-keeping-") as folder:
                try:
                    place = Path(given.keep or folder) / f"{autoscaler.name}-{form}"
                    found[autoscaler, form] = measure(place, autoscaler, form, given.minutes * 60, given.seed)
                except HarnessError as error:
                    say(f"{autoscaler}, {form}: stopped: {error}")
                    failed = True
    title = (
        f"beside real autoscalers, {given.minutes:g} minutes of load, seed {given.seed}; nodes join in {BOOT_SECONDS} s"
    )
    figures = judge(found)
    reports = [
        Report(title, table(found)),
        Report("from helm install on, each step's end", steps(found)),
        Report("wanted of unbound placeholders", figures),
    ]
    show(reports, given.output)
    if failed or not figures:
        return 2
    return 0 if all(row[""] == "ok" for row in figures) else 1


def _named(names: Mapping[str, T]) -> Callable[[str], list[T]]:
    """Return what reads names with commas between them."""

    def read(text: str) -> list[T]:
        try:
            return [names[name] for name in text.split(",")]
        except KeyError as error:
            raise argparse.ArgumentTypeError(f"{error.args[0]!r} is none of {', '.join(names)}") from None

    return read


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    options = parser("Slack beside real autoscalers.")
    options.add_argument(
        "--autoscalers", type=_named(AUTOSCALERS), help="ca, karpenter (default: those that are there)"
    )
    options.add_argument("--forms", type=_named(FORMS), default=list(Form), help="bound, unbound (default both)")
    options.add_argument("--minutes", type=float, default=10.0, help="of moving load (default 10)")
    options.add_argument("--seed", type=int, default=1, help="of the load")
    options.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the components' logs here")
    found = options.parse_args(arguments)
    if found.minutes <= 0:
        options.error("--minutes: more than 0")
    return found


if __name__ == "__main__":
    sys.exit(main())
