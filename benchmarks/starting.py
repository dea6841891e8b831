"""One decision of a node's start-ups: the head of a queue and counts, beside a scan of every container.

Usage:
    python -m benchmarks.starting                # 500 pending, of 1,000 to 20,000 containers

CPU time of this process, in microseconds, the median of some turns. A turn is one container that becomes ready, the
decision who is next, and its grant; *scan* does the same by looking at all containers of the node, as a decision
without a queue would. Both grant in the same order, which is checked.
"""

import gc
import sys
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.report import Report, Row, parser, say, show
from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.limits import Limits, Usage
from slack.throttler.model import GatedContainer, GatedPod
from slack.throttler.queue import Key

PENDING, SLOTS, TURNS = 500, 6, 200
SIZES = (1_000, 5_000, 20_000)
TARGET_US = 100.0
LIMITS = Limits(slots=SLOTS, namespace_slots=SLOTS, max_load1=96.0, max_cpu=0.8, max_io_pressure=0.4,
                force_after_seconds=10.0, start_timeout_seconds=300.0)  # fmt: skip
USAGE = Usage(load1=3.0, cpu=0.5, io_pressure=0.1)


def throttle(containers: int) -> NodeThrottle:
    """Return a node with 500 pending containers, slots that are taken, and the others ready."""
    found = NodeThrottle(LIMITS)
    for number in range(containers):
        found.add_pod(GatedPod(f"p{number}", f"n{number % 20}", (GatedContainer("app"),)), 0.0)
        if number < containers - PENDING - SLOTS:
            found.succeeded(Key(f"p{number}", "app"), 0.0)
        else:
            found.pulled(Key(f"p{number}", "app"), float(number))
    found.grants(float(containers), USAGE)
    return found


@dataclass(slots=True)
class Scanned:
    """A container as a scan sees it."""

    key: Key
    state: StartState
    since: float
    arrival: int


def scanned(containers: int) -> list[Scanned]:
    """Return the same node as a list."""
    first = containers - PENDING - SLOTS
    states = (
        StartState.READY if number < first else StartState.STARTING if number < first + SLOTS else StartState.PENDING
        for number in range(containers)
    )
    return [Scanned(Key(f"p{number}", "app"), state, float(number), number) for number, state in enumerate(states)]


def scan(node: list[Scanned]) -> Key | None:
    """Decide by looking at everything: how many start, and who has waited longest."""
    if sum(container.state is StartState.STARTING for container in node) >= SLOTS:
        return None
    pending = [container for container in node if container.state is StartState.PENDING]
    return min(pending, key=lambda container: (container.since, container.arrival)).key if pending else None


def _decided(containers: int) -> tuple[list[Key], float]:
    """Return who is granted turn by turn, and the median turn in microseconds."""
    node = throttle(containers)
    starting = [Key(f"p{number}", "app") for number in range(containers - PENDING - SLOTS, containers - PENDING)]
    order, spent = [], []
    for turn in range(TURNS):
        now, done = float(containers + turn), starting.pop(0)
        began = time.process_time_ns()
        node.succeeded(done, now)
        granted = node.grants(now, USAGE)
        spent.append((time.process_time_ns() - began) / 1000)
        starting += [grant.key for grant in granted]
        order += [grant.key for grant in granted]
    return order, median(spent)


def _looked_up(containers: int) -> tuple[list[Key], float]:
    """Return the same by a scan."""
    node = scanned(containers)
    at = {container.key: container for container in node}
    starting = [container.key for container in node if container.state is StartState.STARTING]
    order, spent = [], []
    for _ in range(TURNS):
        done = starting.pop(0)
        began = time.process_time_ns()
        at[done].state = StartState.READY
        found = scan(node)
        if found is not None:
            at[found].state = StartState.STARTING
        spent.append((time.process_time_ns() - began) / 1000)
        starting += [found] if found is not None else []
        order += [found] if found is not None else []
    return order, median(spent)


def main() -> None:
    """Measure, and judge."""
    options = parser("One decision of a node's start-ups, beside a scan of all containers.").parse_args()
    rows: list[Row] = []
    gc.collect()
    gc.freeze()
    for containers in SIZES:
        say(f"{containers} containers")
        # One side after the other: a scan in between leaves nothing of the decision in the CPU's caches.
        (order, ours), (same, theirs) = _decided(containers), _looked_up(containers)
        if order != same or len(order) != TURNS:
            sys.exit(f"{containers} containers: the decision and the scan do not grant in the same order")
        rows.append(
            {"containers": containers, "pending": PENDING, "decision us": ours, "scan us": theirs, "x": theirs / ours}
        )
    measured = {int(str(row["containers"])): float(str(row["decision us"])) for row in rows}
    good = measured[5_000] <= TARGET_US
    note = f"target: {TARGET_US:g} us with 5,000 containers, {'met' if good else 'NOT met'}"
    show([Report("One decision: a container is ready, who is next", rows, [note])], options.output)


if __name__ == "__main__":
    main()
