"""The status of a ThrottlePolicy: its nodes, the containers that wait and start there, and conditions with reasons."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slack.documents.throttle_status import ThrottleNodes, ThrottlePolicyStatus
from slack.schema.conditions import StatusCondition
from slack.throttler.config import ThrottlePolicy
from slack.throttler.fsm import StartState
from slack.throttler.reports.summary import PolicyTotals
from slack_operator.runtime.conditions import Status, with_conditions, with_times

READY: Final = "Ready"
OVERLAPPING: Final = "Overlapping"
NODES_SILENT: Final = "NodesSilent"
_SHOWN = 5
"""Names in a message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class ThrottleObservation:
    """What a policy's status is made of."""

    policy: ThrottlePolicy
    selected: frozenset[str]
    reporting: frozenset[str]
    silent: frozenset[str]
    """Nodes whose agent has reported, and does not any more."""
    totals: PolicyTotals
    lost_to: Mapping[str, str] = field(default_factory=dict)
    """Nodes that it selects and an older policy has, with that one's name."""


def status_of(observed: ThrottleObservation, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status.

    Args:
        observed: what is known.
        previous: the status that is there; transition times are kept from it.
        now: RFC 3339.
    """
    totals, generation = observed.totals, observed.policy.generation
    selected, reporting = len(observed.selected), len(observed.reporting)
    counts = totals.counts
    status = ThrottlePolicyStatus(
        observed_generation=generation,
        nodes=ThrottleNodes(selected=selected, reporting=reporting, silent=selected - reporting),
        downloading=counts[StartState.DOWNLOADING],
        blocked=counts[StartState.BLOCKED],
        pending=counts[StartState.PENDING],
        starting=counts[StartState.STARTING],
        ready=counts[StartState.READY],
        failed=counts[StartState.FAILED],
        forced=totals.forced,
        opened=totals.opened,
        longest_wait_seconds=int(totals.longest_wait_seconds),
    )
    return status.document() | {"conditions": with_times(_conditions(observed), previous, now, generation)}


def invalid(problems: Sequence[str], generation: int, previous: Status, now: str) -> dict[str, Any]:
    """Return the status of a policy that cannot be read; the rest of it stays, as agents go by the last good spec."""
    used = "; agents that knew it go by the last good spec" if previous.get("nodes") else "; no node goes by it"
    condition = StatusCondition(READY, False, "InvalidSpec", "; ".join(problems) + used)
    return with_conditions(previous, [condition], generation, now, each=True)


def _conditions(observed: ThrottleObservation) -> list[StatusCondition]:
    selected, reporting, silent = len(observed.selected), len(observed.reporting), len(observed.silent)
    never = sorted(observed.selected - observed.reporting - observed.silent)
    ready = StatusCondition(READY, True, "StartsReported", f"the agents of {_nodes(reporting)} report")
    if not selected:
        ready = StatusCondition(READY, True, "NoNodeSelected", "no node has the policy now")
    elif not reporting:
        text = f"of {_nodes(selected)} no agent reports: is the DaemonSet of the throttler's agents running?"
        ready = StatusCondition(READY, False, "NoAgentReports", text)
    elif never:
        ready = StatusCondition(
            READY, True, "StartsReported", f"{ready.message}; there was never one on {_some(never)}"
        )
    lost = observed.lost_to
    overlap = StatusCondition(OVERLAPPING, False, "NodesOfItsOwn", "no older policy has nodes that this one selects")
    if lost:
        older = ", ".join(sorted(set(lost.values())))
        text = f"{_some(sorted(lost))} {'belongs' if len(lost) == 1 else 'belong'} to the older policy {older}"
        overlap = StatusCondition(OVERLAPPING, True, "OlderPolicyChosen", text)
    quiet = StatusCondition(NODES_SILENT, False, "AgentsHeard", "every agent that has reported still does")
    if silent:
        quiet = StatusCondition(
            NODES_SILENT, True, "AgentsSilent", f"no report any more from {_some(sorted(observed.silent))}"
        )
    return [ready, overlap, quiet]


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _some(names: Collection[str]) -> str:
    shown = list(names)[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def headline(status: Status) -> object:
    """Return what is written soon when it changes; how long somebody waits is told with it, and by itself rarely."""
    conditions = sorted(
        (condition["type"], condition["status"], condition["reason"]) for condition in status.get("conditions", ())
    )
    return status.get("observedGeneration"), conditions


def figures(status: Status) -> object:
    """Return what is written within seconds when it changes."""
    names = ("nodes", *(state.value for state in StartState), "forced", "opened")
    return [status.get(name) for name in names]
