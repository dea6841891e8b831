"""Which starts an objective learns from: those of pods that slack could have helped, and no others.

Else a tenant whose pods can never start in slack would drive the room up, for nothing. Values only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from slack.cluster.snapshot import Workload
from slack.planner.objective.amount import Requests
from slack.planner.policy.spec import Policy
from slack.planner.wanted.demand import is_helped
from slack_operator.learning.lead_feed import Waited

INSTANT_SECONDS = 2.0


class Arrival(Waited, Protocol):
    """A real pod that was seen without a node, and got one."""

    @property
    def requests(self) -> Requests:
        """Of the whole pod."""

    @property
    def priority(self) -> int:
        """Of the pod."""

    @property
    def preempts(self) -> bool:
        """Its preemptionPolicy is not Never."""

    @property
    def scheduler(self) -> str:
        """Its schedulerName."""

    @property
    def workload(self) -> Workload:
        """What it belongs to."""

    @property
    def held_up(self) -> bool:
        """It waited for what is no matter of room: it hung after a preemption, or was annotated to be left out."""


def arrivals_of(
    starts: Iterable[Arrival], policy: Policy, priority: int, excluded: frozenset[str]
) -> tuple[Mapping[Requests, int], int, int]:
    """Return the arrivals by requests, how many they are, and how many of them were late.

    Args:
        starts: on the policy's nodes.
        policy: whose they are.
        priority: of its placeholders.
        excluded: workloads that are annotated to be left out.
    """
    arrived: Counter[Requests] = Counter()
    late = 0
    for start in starts:
        if not _helpable(start, policy, priority, excluded):
            continue
        arrived[start.requests] += 1
        late += start.waited_seconds > INSTANT_SECONDS
    return arrived, arrived.total(), late


def _helpable(start: Arrival, policy: Policy, priority: int, excluded: frozenset[str]) -> bool:
    return (
        not start.held_up
        and str(start.workload) not in excluded
        and is_helped(
            policy,
            priority,
            workload=start.workload,
            requests=start.requests,
            priority=start.priority,
            preempts=start.preempts,
            scheduler=start.scheduler,
        )
    )
