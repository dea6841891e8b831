"""The policies whose placeholders may be evicted for bursts, as the last plan knew them. Values only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slack.cluster.snapshot import AvoiderLookup, Snapshot
from slack.cluster.wire import PriorityClass
from slack.planner.burst_eviction.pods import PodPriorities
from slack.planner.burst_eviction.promises import Promise
from slack.planner.model.result import PolicyPlan
from slack_operator.burst_eviction.eviction_writer import NO_CLASS
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.unplaced import burst_key


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """One policy."""

    policy: str
    uid: str
    """Of the SlackPolicy."""
    priority: int
    """Of its placeholders."""
    scheduler: str


@dataclass(frozen=True, slots=True)
class PolicyScopes:
    """All of them."""

    by_policy: Mapping[str, PolicyScope]
    classes: PodPriorities
    avoided: frozenset[str] = frozenset()
    """Workloads that pods of others avoid, by the key of their bursts: the scheduler decides which nodes will do."""
    avoiding: AvoiderLookup | None = None
    """Whom pods avoid, for workloads that have none yet."""

    def with_promises(self, promises: Iterable[Promise]) -> "PolicyScopes":
        """Return them with the keys of promised pods that pods of others avoid, by their template."""
        if self.avoiding is None:
            return self
        found = {promise.key for promise in promises if promise.key not in self.avoided and self._avoid(promise)}
        return replace(self, avoided=self.avoided | found) if found else self

    def _avoid(self, promise: Promise) -> bool:
        assert self.avoiding is not None
        metadata = promise.template.metadata
        who = self.avoiding.avoiders(promise.namespace, (metadata.labels if metadata is not None else None) or {})
        return who is None or any(burst_key(own.namespace, own.kind, own.name) != promise.key for own in who)

    @property
    def schedulers(self) -> frozenset[str]:
        """Whose pods way is made for."""
        return frozenset(scope.scheduler for scope in self.by_policy.values())

    @property
    def priorities(self) -> dict[str, int]:
        """Of placeholders, by policy."""
        return {name: scope.priority for name, scope in self.by_policy.items()}


def policy_scopes_of(
    planned_policies: Sequence[PlannedPolicy],
    plans: Sequence[PolicyPlan],
    classes: Mapping[str, PriorityClass],
    snapshot: Snapshot,
) -> PolicyScopes:
    """Return the policies that are acted upon and do not forbid it.

    None while there is a class of the name that keeps a stopped ReplicaSet from making pods: it would make pods of that
    class's priority.
    """
    found = {}
    if NO_CLASS in classes:
        planned_policies, plans = (), ()
    for planned, plan in zip(planned_policies, plans, strict=True):
        spec = planned.policy.spec
        makes_way = spec.make_way and planned.policy.form.occupies_nodes
        if plan.act and not plan.dry_run and makes_way and spec.priority_class_name in classes:
            priority = classes[spec.priority_class_name].value
            found[plan.policy] = PolicyScope(plan.policy, planned.entry.uid, priority, spec.scheduler_name)
    values = {name: (item.value, item.preemption_policy != "Never") for name, item in classes.items()}
    default = next((values[name] for name, item in classes.items() if item.global_default), (0, True))
    return PolicyScopes(found, PodPriorities(values, default), avoided_in(snapshot), snapshot.avoiding)


def avoided_in(snapshot: Snapshot) -> frozenset[str]:
    """Return the keys of bursts of workloads that running pods of others avoid."""
    workloads = [snapshot.kinds.workloads[row] for row in snapshot.avoided]
    return frozenset(burst_key(own.namespace, own.kind, own.name) for own in workloads)
