"""`python -m benchmarks.demand.curve --broker URL [--actions 6,10,12,24] [-o json]`: old rules and ours, on a broker.

Containers are proxies of this machine. Both sides have the same ones, and the same clients, which publish a message and
wait until it was run. If there are more actions than slots, no rules can give each its container; the last rows show
the ratio then. Queues are made at the given address only, and are gone afterwards.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.demand.measuring.comparison import MeasuredPair, Setting, compare
from benchmarks.report import Report, Row, parser, say, show
from slack.demand.broker import BrokerError


def actions_of(text: str) -> list[int]:
    """Read the actions of each point, with commas."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= 500 for number in numbers):
        raise argparse.ArgumentTypeError(f"should be numbers from 1 to 500 such as 6,10,12,24, not {text!r}")
    return numbers


def creation_seconds_of(text: str) -> tuple[float, float]:
    """Read the range of a creation, in milliseconds."""
    try:
        low, high = (float(word) / 1000 for word in text.split("-"))
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 <= low <= high <= 60:
        raise argparse.ArgumentTypeError(f"should be milliseconds such as 700-1300, at most 60000, not {text!r}")
    return low, high


def settings_of(given: argparse.Namespace) -> list[Setting]:
    """Return one setting per point of the curve."""
    return [
        Setting(
            actions=number,
            nodes=given.nodes,
            slots=given.slots,
            clients=given.clients,
            seconds=given.seconds,
            cut_seconds=given.cut,
            creation_seconds=given.creation,
            seed=given.seed,
        )
        for number in given.actions
    ]


def rows_of(compared: MeasuredPair) -> list[Row]:
    """Return the row of each side."""
    setting = compared.setting
    return [
        {
            "actions": setting.actions,
            "slots": setting.nodes * setting.slots,
            "rules": rules,
            "messages per s": side.per_second,
            "p50 ms": side.p50_ms,
            "p99 ms": side.p99_ms,
            "start p50 ms": side.start_p50_ms,
            "started": side.containers,
            "faster x": ratio,
        }
        for rules, side, ratio in (("old", compared.old, None), ("ours", compared.ours, compared.ratio))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the curve; returns 0 whatever came out: machines differ."""
    options = parser(__doc__ or "")
    options.add_argument("--broker", required=True, help="where the queues are made, and gone again")
    options.add_argument("--broker-credentials-file", type=Path, help="its credentials")
    options.add_argument("--actions", type=actions_of, default="6,10,12,24", help="actions of each point, with commas")
    options.add_argument("--nodes", type=int, default=3, help="nodes that are played")
    options.add_argument("--slots", type=int, default=4, help="containers that each has room for")
    options.add_argument("--clients", type=int, default=10, help="clients that publish and wait")
    options.add_argument("--seconds", type=float, default=20.0, help="of each run")
    options.add_argument("--cut", type=float, default=8.0, help="first seconds that do not count")
    options.add_argument(
        "--creation", type=creation_seconds_of, default="700-1300", help="ms of a creation, beside a process's start"
    )
    options.add_argument("--seed", type=int, default=1, help="of what is drawn at random")
    given = options.parse_args(arguments)
    if given.cut >= given.seconds:
        options.error(f"--cut: {given.cut:g} s of {given.seconds:g} s would leave nothing to count")
    rows: list[Row] = []
    for setting in settings_of(given):
        say(f"{setting.actions} actions: {2 * setting.seconds:g} s")
        try:
            found = asyncio.run(compare(given.broker, given.broker_credentials_file, setting, lambda *_: None))
        except BrokerError as error:
            options.error(f"--broker: {error}")
        rows += rows_of(found)
    show([Report("messages a second with processes as containers, old rules and ours", rows)], given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
