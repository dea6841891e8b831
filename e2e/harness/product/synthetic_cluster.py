"""A large cluster without a control plane: real columns and real plans of made-up pods, as turns of the loop.

For what only size shows, such as whether a page with 10,000 nodes still answers. The same seed gives the same cluster.
"""

import json
import random
from dataclasses import replace
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.membership import divide
from slack.planner.model.result import ExistingShape, PolicyPlan
from slack.planner.objects.actions import Present
from slack.planner.objects.manifests import replica_set_name
from slack.planner.plan import plan
from slack.planner.policy.spec import parse_policy
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.policies import PolicyEntry
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.placeholders.view.cluster_view import Observation
from slack_operator.placeholders.view.displaced import PREEMPTED, Displacement

Json = dict[str, Any]
NAMESPACE = "resource-slack"
POOLS = {"web": 0.2, "batch": 0.1}
"""Policies by pool of nodes, with their rates."""
SIZES = (("500m", "1Gi"), ("1", "2Gi"), ("1", "4Gi"), ("2", "4Gi"))


class Synthetic:
    """A cluster that moves: each `turn` displaces some placeholders and lets others come back."""

    def __init__(self, nodes: int, seed: int = 1, *, empty: int = 0, prices: NodePrices = NO_PRICES) -> None:
        """Make it; the last `empty` nodes run no pod."""
        self._random = random.Random(seed)
        self._prices = prices
        self._columns = ClusterColumns(NAMESPACE)
        self._names = [f"node-{number:05d}.example" for number in range(nodes)]
        self._pool = {name: "batch" if number % 5 == 0 else "web" for number, name in enumerate(self._names)}
        self._columns.apply_nodes([("ADDED", self._node(number)) for number in range(nodes)])
        pods = [
            pod
            for number, name in enumerate(self._names[: nodes - empty])
            for pod in (self._real(number, order, name) for order in range(self._random.randrange(1, 5)))
        ]
        self._columns.apply_pods([("ADDED", pod) for pod in pods])
        self._columns.require_labels(["pool"])
        self._policies = [
            parse_policy(
                {
                    "apiVersion": "resource-slack.io/v1alpha1",
                    "kind": "SlackPolicy",
                    "metadata": {"name": pool},
                    "spec": {"nodeSelector": {"pool": pool}, "extraCapacity": {"minRate": rate}},
                },
                source=pool,
            )
            for pool, rate in sorted(POOLS.items())
        ]
        self._made = 0
        self._placeholders: dict[str, tuple[PolicyPlan, int]] = {}
        self._waiting: set[str] = set()
        self._displaced: list[Displacement] = []

    def reconcile(self, at: float, *, displace: int = 0, refill: bool = False) -> Reconciliation:
        """Give the next turn at a Unix time; with `refill` what had no node has one."""
        self._displace(at, displace)
        if refill:
            self._refill()
        snapshot = self._columns.snapshot(at)
        items = self._plan(snapshot, at)
        if not self._placeholders:
            for item in items:
                for index, shape in enumerate(item.shapes):
                    for _ in range(shape.count):
                        self._place(item, index)
            snapshot = self._columns.snapshot(at)
            items = self._plan(snapshot, at)
        counts = {(pool, PREEMPTED): sum(pod.policy == pool for pod in self._displaced) for pool in POOLS}
        return Reconciliation(
            at=at,
            clock=at,
            leading=True,
            observation=Observation(
                snapshot=snapshot,
                present=Present({}, {}),
                autoscaler_events=(),
                priority_classes={},
                starts=[],
                displaced=counts,
                displacements=tuple(self._displaced[-100:]),
            ),
            planned_policies=tuple(
                PlannedPolicy(PolicyEntry(policy.name, f"uid-{policy.name}", 1, policy, (), {}), policy, None)
                for policy in self._policies
            ),
            items=items,
            policy_of_node={
                snapshot.nodes.names[row]: domain.policy.name
                for domain in divide(snapshot, self._policies)
                for row in domain.members.nonzero()[0]
            },
            instant={"web": 0.993},
        )

    def standby_turn(self, at: float) -> Reconciliation:
        """Give the turn of a process that does not lead: it sees the cluster and plans nothing."""
        return replace(self.reconcile(at), leading=False, planned_policies=(), items=(), policy_of_node={}, instant={})

    def _plan(self, snapshot: Snapshot, at: float) -> tuple[PolicyPlan, ...]:
        existing = {
            (item.policy, item.shapes[index].shape.name): ExistingShape(
                item.policy, item.shapes[index].shape, item.shapes[index].role, item.shapes[index].count
            )
            for item, index in self._placeholders.values()
        }
        return plan(
            snapshot,
            self._policies,
            now=at,
            existing=tuple(existing.values()),
            events=(),
            state={},
            prices=self._prices,
        ).items

    def _displace(self, at: float, count: int) -> None:
        for name in self._random.sample(sorted(self._placeholders), min(count, len(self._placeholders))):
            item, index = self._placeholders.pop(name)
            self._waiting.discard(name)
            number = len(self._displaced) + 1
            self._displaced.append(
                Displacement(number, at, item.policy, PREEMPTED, name, self._random.choice(self._names))
            )
            gone = _pod({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name}})
            self._columns.apply_pods([("DELETED", gone)])
            self._place(item, index, bound=False)

    def _refill(self) -> None:
        for name in sorted(self._waiting):
            item, index = self._placeholders.pop(name)
            gone = _pod({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name}})
            self._columns.apply_pods([("DELETED", gone)])
            self._place(item, index)
        self._waiting.clear()

    def _place(self, item: PolicyPlan, index: int, *, bound: bool = True) -> None:
        shape = item.shapes[index].shape
        owner = replica_set_name(item.policy, shape)
        self._made += 1
        name = f"{owner}-{self._made:05d}"
        node = self._random.choice(self._names)
        while self._pool[node] != item.policy:
            node = self._random.choice(self._names)
        self._placeholders[name] = (item, index)
        if not bound:
            self._waiting.add(name)
        requests = {key: f"{value}m" if key == "cpu" else str(value) for key, value in shape.requests}
        manifest: Json = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": name,
                "labels": {
                    "resource-slack.io/placeholder": "true",
                    "resource-slack.io/policy": item.policy,
                    "resource-slack.io/shape": shape.name,
                },
                "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}],
            },
            "spec": {
                "nodeName": node if bound else None,
                "priority": -10,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running" if bound else "Pending"},
        }
        self._columns.apply_pods([("ADDED", _pod(manifest))])

    def _node(self, number: int) -> wire.Node:
        name = self._names[number]
        manifest: Json = {
            "metadata": {
                "name": name,
                "labels": {"pool": self._pool[name], "topology.kubernetes.io/zone": f"zone-{'abc'[number % 3]}"},
            },
            "spec": {"unschedulable": number % 97 == 0},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "False" if number % 211 == 5 else "True"}],
            },
        }
        return msgspec.json.decode(json.dumps(manifest), type=wire.Node)

    def _real(self, number: int, order: int, node: str) -> wire.Pod:
        cpu, memory = self._random.choice(SIZES)
        return _pod(
            {
                "metadata": {
                    "name": f"api-abc-{number}-{order}",
                    "namespace": "shop",
                    "labels": {"pod-template-hash": "abc"},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "api-abc", "uid": "rs", "controller": True}],
                },
                "spec": {
                    "nodeName": node,
                    "nodeSelector": {"pool": self._pool[node]},
                    "priority": 0,
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
                },
                "status": {"phase": "Running"},
            }
        )


def _pod(manifest: Json) -> wire.Pod:
    return msgspec.json.decode(json.dumps(manifest), type=wire.Pod)
