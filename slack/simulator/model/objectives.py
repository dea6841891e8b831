"""The operator's learners in a model: fed as the operator's loop feeds them, and the amounts that they ask for.

Starts are counted on the nodes of a policy, as the operator counts them. Those of pods that its slack could not help
are left out.
"""

from collections.abc import Mapping, Sequence

from slack.cluster.snapshot import Snapshot
from slack.planner.domain.membership import divided, node_view
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import PolicyPlan
from slack.planner.objective.amount import Amount, Requests
from slack.planner.objective.lead import LeadTimes
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Policy
from slack.planner.wanted.demand import is_helped
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import ModelledCluster


class ModelledObjectives:
    """One learner for each policy that has an objective."""

    def __init__(
        self,
        policies: tuple[Policy, ...],
        cluster: ModelledCluster,
        instant_seconds: float,
        priority: int,
        excluded: frozenset[int] = frozenset(),
    ) -> None:
        """Begin to learn.

        Args:
            policies: all of the scenario.
            cluster: the modelled one.
            instant_seconds: a start that took longer was late.
            priority: of the placeholders.
            excluded: rows of workloads that are annotated to be left out.
        """
        self._policies = {policy.name: policy for policy in policies}
        self._aims = {p.name: p.spec.objective for p in policies if p.spec.objective is not None}
        self._delays = {p.name: p.spec.stabilization.keep_seconds for p in policies}
        self.learners = {name: Learner() for name in self._aims}
        self._cluster = cluster
        self._instant_seconds = instant_seconds
        self._priority = priority
        self._excluded = excluded
        self._lead = LeadTimes()
        self._policy_of: dict[int, str] = {}
        """By group of nodes."""
        self._version = -1
        self._cache = PlanCache()
        self._arrived: dict[str, dict[Requests, int]] = {name: {} for name in self._aims}
        self._late = dict.fromkeys(self._aims, 0)

    def __bool__(self) -> bool:
        """Whether any policy has an objective."""
        return bool(self._aims)

    def begin_anew(self) -> None:
        """Forget what came so far, but not how long nodes take: the start of a model is no load."""
        for name in self._aims:
            self.learners[name], self._arrived[name], self._late[name] = Learner(), {}, 0

    def node_started(self, seconds: float, group: str) -> None:
        """A node of a group was ready so long after it was asked for."""
        self._lead.started(seconds, group)

    def started(self, kind: PodKind, node: int, waited_seconds: float) -> None:
        """A real pod has got its node."""
        name = self._policy_of.get(int(self._cluster.group_of[node]))
        if name not in self._aims or kind.workload in self._excluded:
            return
        requests = (int(kind.requests[0]), int(kind.requests[1]))
        helped = is_helped(
            self._policies[name],
            self._priority,
            workload=self._cluster.kinds.workloads[kind.workload],
            requests=requests,
            priority=kind.priority,
            preempts=kind.preempts,
            scheduler=kind.constraints.scheduler_name,
        )
        if not helped:
            return
        self._arrived[name][requests] = self._arrived[name].get(requests, 0) + 1
        self._late[name] += waited_seconds > self._instant_seconds

    def amounts(self, at_seconds: float) -> Mapping[str, Amount]:
        """Return what each asks for now."""
        return {
            name: self.learners[name].amount(at_seconds, aim, self._delays[name]) for name, aim in self._aims.items()
        }

    def observe(self, at_seconds: float, snapshot: Snapshot, items: Sequence[PolicyPlan]) -> None:
        """Take one turn of the loop."""
        self._divide(snapshot)
        for item in items:
            aim = self._aims.get(item.policy)
            if aim is None:
                continue
            arrived, late = self._arrived[item.policy], self._late[item.policy]
            turn = Turn(
                at_seconds=at_seconds,
                requested=(int(item.base[0]), int(item.base[1])),
                pods=item.pods,
                window_seconds=self._lead.window_seconds,
                arrived=arrived,
                started=sum(arrived.values()),
                late=late,
            )
            self.learners[item.policy].observe(turn, aim)
            self._arrived[item.policy], self._late[item.policy] = {}, 0

    def _divide(self, snapshot: Snapshot) -> None:
        """Find whose the nodes of each group are."""
        if self._version == self._cluster.node_version:
            return
        self._version = self._cluster.node_version
        group_of = {self._cluster.names[row]: int(self._cluster.group_of[row]) for row in range(self._cluster.size)}
        for domain in self._cache.compute(divided, node_view(snapshot), tuple(self._policies.values())):
            for row in domain.members.nonzero()[0].tolist():
                self._policy_of[group_of[snapshot.nodes.names[row]]] = domain.policy.name
