"""The objectives of all policies: asked for amounts before a plan, fed after it, and kept now and then.

A policy learns from its first plan on; what is kept of it is taken over as soon as it can be read. Turns in which a
policy could not be planned are not learnt from, and where nodes change hands what changes with them is no arrival.
Owned by the planning loop; only the leader has learners.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from slack.cluster.snapshot import Workload
from slack.kube.apply import Json
from slack.planner.model.result import PolicyPlan
from slack.planner.objective.amount import Amount, Requests
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective, Policy
from slack.planner.wanted.demand import is_helped
from slack.schema.conditions import StatusCondition
from slack_operator.learning.histories import Histories
from slack_operator.learning.history_store import HistoryStore, PolicyMemory
from slack_operator.learning.lead_feed import LeadFeed, Waited

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

    Only pods that slack could have helped count: else a tenant whose pods can never start in slack would drive the
    amount up, for nothing.

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


SAVE_SECONDS = 300.0
"""At the soonest after a change; a quiet hour is worth a write as well."""
QUIET_SAVE_SECONDS = 3600.0
_MOST_ASIDE = 8


@dataclass(frozen=True, slots=True)
class Learning:
    """One policy of a turn: its plan, and what happened on its nodes."""

    policy: Policy
    item: PolicyPlan
    priority: int
    """Of its placeholders."""
    excluded: frozenset[str]
    """Workloads that the cover leaves out by annotation."""
    starts: Sequence[Arrival]


@dataclass(slots=True)
class _Known:
    """One policy's memory, and what the last plan asked of it."""

    memory: PolicyMemory
    objective: Objective
    keep_seconds: float
    """What is wanted again within this time is kept."""
    planned_of: object = None


class Objectives:
    """See the module's docstring."""

    def __init__(
        self,
        histories: Histories,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.keeper = HistoryStore(histories, may_write, clock, wall)
        self.lead = LeadFeed()
        self._known: dict[str, _Known] = {}
        self._aside: dict[str, _Known] = {}
        """Of policies that have no objective for now, or are not there: the latest few."""

    def amounts(self, policies: Iterable[tuple[Policy, Json | None]], now: float) -> Mapping[str, Amount]:
        """Return what the policies with an objective ask for now (Unix seconds).

        Args:
            policies: all that are planned for, with the ownerReference of what belongs to them.
            now: Unix seconds.
        """
        before = {**self._aside, **self._known}
        self._known = {}
        for policy, owner in policies:
            objective, keep_seconds = policy.spec.objective, policy.spec.stabilization.keep_seconds
            if objective is None or owner is None:
                continue
            known = before.get(policy.name)
            if known is None or known.memory.uid != policy.uid:
                known = _Known(PolicyMemory(policy.uid, owner), objective, keep_seconds)
            known.memory.owner, known.objective, known.keep_seconds = owner, objective, keep_seconds
            self._known[policy.name] = known
        aside = [(name, known) for name, known in before.items() if name not in self._known]
        self._aside = dict(aside[-_MOST_ASIDE:])
        self.lead.keep_only(set(self._known))
        amounts = {}
        for name, known in self._known.items():
            self.keeper.read(name, known.memory)
            amount = known.memory.learner.amount(now, known.objective, known.keep_seconds)
            if not known.memory.is_read and not known.memory.learner.tally.started:
                # what was learnt is somewhere: to keep nothing until it is read would empty the policy
                amount = replace(
                    amount, why=replace(amount.why, known=False, lacking="what was learnt is not read yet")
                )
            amounts[name] = amount
        return amounts

    @property
    def wanted(self) -> bool:
        """Whether any policy has an objective."""
        return bool(self._known)

    def learn(self, turns: Iterable[Learning], hands: object, now: float) -> None:
        """Take one turn of the loop.

        Args:
            turns: the policies that were planned.
            hands: anything that differs when nodes change hands between policies: what is a policy's then changes
                without a pod that has come.
            now: Unix seconds.
        """
        for turn in turns:
            known = self._known.get(turn.policy.name)
            if known is None or not (turn.item.act or turn.item.dry_run):
                continue
            learner = known.memory.learner
            if known.planned_of != hands:
                learner.interrupted()
                known.planned_of = hands
            arrived, started, late = arrivals_of(turn.starts, turn.policy, turn.priority, turn.excluded)
            learner.observe(
                Turn(
                    at_seconds=now,
                    requested=(int(turn.item.base[0]), int(turn.item.base[1])),
                    pods=turn.item.pods,
                    window_seconds=self.lead.window_seconds(turn.policy.name),
                    arrived=arrived,
                    started=started,
                    late=late,
                ),
                known.objective,
            )
            known.memory.news = known.memory.news or bool(started)

    def save(self) -> None:
        """Write what is due."""
        self._save(SAVE_SECONDS, QUIET_SAVE_SECONDS)

    def close(self) -> None:
        """Write what has not been written yet: the process ends."""
        self._save(0.0, 0.0)

    def condition(self, policy: str) -> StatusCondition | None:
        """Give the condition HistoryLost; None while nothing is lost."""
        known = self._known.get(policy)
        return self.keeper.condition(known.memory) if known is not None else None

    def _save(self, after: float, quiet_after: float) -> None:
        for name, known in self._known.items():
            self.keeper.save(name, known.memory, after, quiet_after)
