"""The planner's Snapshot of the simulated cluster, made from columns; what has not changed is not made again."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import NodeClass, admits
from slack.cluster.constraints import label_needs
from slack.cluster.labels import ZONE
from slack.cluster.snapshot import IntArray, NodeColumns, Placeholder, PodKinds, Presence, ReservedWorkload, Snapshot
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.cluster.together import steps_of
from slack.cluster.unbound_room import Packed, UnboundRoom
from slack.planner.domain.membership import node_selectors
from slack.planner.objects.manifests import replica_set_name
from slack.simulator.model.kinds import PodKind, PodRole
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.state import READY, STARTING, ModelledCluster
from slack.simulator.scenario.load import DeploymentReplicas
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

_NODE_START_SECONDS = 120.0
"""Snapshot.node_start_seconds where no node start was seen."""
_A = TypeVar("_A", bound=npt.NDArray[np.generic])


def _frozen(array: _A) -> _A:
    array.flags.writeable = False
    return array


class SnapshotView:
    """Makes snapshots of one cluster."""

    def __init__(
        self, scenario: Scenario, cluster: ModelledCluster, scheduler: ModelledScheduler, epoch: float
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._scheduler = scheduler
        self._epoch = epoch
        wanted = {ZONE}
        for constraints in cluster.kinds.constraints:
            wanted |= {key for key, _ in label_needs(constraints)}
        if isinstance(scenario.slack, Policies):
            wanted |= {key for policy in scenario.slack.policies for key in policy.spec.node_selector}
        self._selectors = node_selectors(scenario.slack.planned() if isinstance(scenario.slack, Policies) else ())
        shown = [
            NodeClass(tuple(pair for pair in node_class.labels if pair[0] in wanted), node_class.taints)
            for node_class in cluster.classes
        ]
        self._classes = tuple(sorted(set(shown), key=lambda node_class: (node_class.labels, node_class.taints)))
        self._class_row = [self._classes.index(node_class) for node_class in shown]
        """By class of the cluster: its row here. What nobody looks at tells no classes apart."""
        self._real = [k for k in cluster.kinds.table if k.role is PodRole.REAL]
        self._real.sort(key=lambda k: (cluster.kinds.workloads[k.workload], k.index))
        self._constraints = tuple(dict.fromkeys(k.constraints for k in self._real))
        self._reach = _frozen(
            np.array(
                [[admits(c, node_class) for node_class in self._classes] for c in self._constraints], dtype=np.bool_
            )
        )
        self._nodes: tuple[int, IntArray, IntArray, tuple[str, ...]] | None = None
        self._placeholders: tuple[tuple[int, int], tuple[Placeholder, ...]] | None = None
        self._facts: tuple[PlaceholderFacts, ...] = ()
        """The unbound ones of `_placeholders`."""
        self._room = UnboundRoom()
        self._looking = UnboundRoom()
        """For looks that change nothing: a packing remembers since when a placeholder fits nowhere."""

    def snapshot(self, now: float) -> Snapshot:
        """Return the cluster as it is."""
        cluster = self._cluster
        cluster.forget_arrivals(now)
        nodes, position, _ = self._node_rows()
        shown = [k for k in self._real if cluster.count[k.index] or cluster.arrivals[k.index]]
        packed = self._packed(self._room, nodes, position, now)
        return Snapshot(
            resources=cluster.kinds.resources,
            nodes=packed.nodes,
            node_classes=self._classes,
            constraints=self._constraints,
            reach=self._reach,
            kinds=self._kinds(shown, now),
            presence=self._presence(shown),
            placeholders=packed.placeholders,
            reserved=self._reserved(),
            namespaces={},
            left_out=(),
            node_start_seconds=float(np.median([took for _, took in cluster.started]))
            if cluster.started
            else _NODE_START_SECONDS,
        )

    def fitting(self, now: float) -> tuple[int, int]:
        """Return millicores and bytes of the unbound placeholders that fit now."""
        cluster = self._cluster
        if not any(kind.stays_pending and cluster.pods_of.get(kind.index) for kind in cluster.kinds.table):
            return 0, 0
        nodes, position, _ = self._node_rows()
        packed = self._packed(self._looking, nodes, position, now).nodes.placeholders
        cpu, memory = (packed.sum(axis=0) - cluster.ours[:, nodes].sum(axis=1))[:2].tolist()
        return cpu, memory

    def _packed(self, room: UnboundRoom, rows: IntArray, position: IntArray, now: float) -> Packed:
        """Return placeholders and nodes with the unbound placeholders where they fit, as the operator packs them."""
        cluster = self._cluster
        placeholders, nodes = self._placeholder_part(position), self._node_columns(rows)
        if not self._facts:
            return Packed(placeholders, nodes)
        hosts = {
            str(cluster.kinds.workloads[kind.workload]): position[np.flatnonzero(standing[: cluster.size])]
            for kind in self._real
            if (standing := cluster.standing.get(kind.index)) is not None
        }
        hosts = {workload: at[at >= 0] for workload, at in hosts.items()}
        at = self._epoch + now
        resources = cluster.kinds.resources
        return room.pack(
            placeholders, self._facts, nodes, self._classes, resources, hosts, at, selectors=self._selectors
        )

    def _node_rows(self) -> tuple[IntArray, IntArray, tuple[str, ...]]:
        """Nodes that have joined, by name."""
        cluster = self._cluster
        if self._nodes is None or self._nodes[0] != cluster.node_version:
            state = cluster.state[: cluster.size]
            rows = sorted(np.flatnonzero(state > STARTING).tolist(), key=cluster.names.__getitem__)
            position = np.full(cluster.size, -1, dtype=np.int64)
            position[rows] = np.arange(len(rows))
            names = tuple(cluster.names[row] for row in rows)
            self._nodes = (cluster.node_version, np.array(rows, dtype=np.int64), position, names)
        return self._nodes[1:]

    def _node_columns(self, rows: IntArray) -> NodeColumns:
        cluster = self._cluster
        groups = cluster.group_of[rows]
        ready = cluster.state[rows] == READY
        class_of = np.array([self._class_row[c] for c in cluster.group_class], dtype=np.int32)
        slots = np.array(cluster.group_slots, dtype=np.int64)
        daemons = np.array([group.daemon_pods for group in cluster.groups], dtype=np.int64)
        return NodeColumns(
            names=self._node_rows()[2],
            class_id=_frozen(class_of[groups]),
            ready=_frozen(np.ones(len(rows), dtype=np.bool_)),
            schedulable=_frozen(ready),
            deletion_candidate=_frozen(cluster.candidate[rows]),
            allocatable=_frozen(np.stack(cluster.group_allocatable)[groups]),
            real=_frozen(np.ascontiguousarray(cluster.real[:, rows].T)),
            daemon=_frozen(np.stack(cluster.group_daemon)[groups]),
            placeholders=_frozen(np.ascontiguousarray(cluster.ours[:, rows].T)),
            max_pods=_frozen(slots[groups]),
            pod_count=_frozen(cluster.pod_count[rows] + daemons[groups]),
            daemon_count=_frozen(daemons[groups]),
        )

    def _kinds(self, shown: list[PodKind], now: float) -> PodKinds:
        cluster, workloads = self._cluster, self._scenario.workloads
        index = [k.index for k in shown]
        count = np.array([cluster.count[i] for i in index], dtype=np.int64)
        running = np.array([cluster.running[i] for i in index], dtype=np.int64)
        width = len(cluster.kinds.resources)
        return PodKinds(
            workloads=tuple(cluster.kinds.workloads[k.workload] for k in shown),
            requests=_frozen(np.array([k.requests for k in shown], dtype=np.int64).reshape(len(shown), width)),
            unoffered=tuple(() for _ in shown),  # a scenario's resources are all columns
            constraint_id=_frozen(np.array([self._constraints.index(k.constraints) for k in shown], dtype=np.int32)),
            priority=_frozen(np.array([k.priority for k in shown], dtype=np.int64)),
            preempts=_frozen(np.array([k.preempts for k in shown], dtype=np.bool_)),
            excluded=_frozen(np.array([workloads[k.workload].exclude for k in shown], dtype=np.bool_)),
            reserve=tuple("" for _ in shown),
            gang=tuple("" for _ in shown),
            labels=tuple(() for _ in shown),  # as below: nobody is reserved for, and no selector is asked
            unchecked=tuple(() for _ in shown),  # a scenario's pods have requests and constraints only
            running=_frozen(running),
            pending=_frozen(count - running),
            gated=_frozen(np.zeros(len(shown), dtype=np.int64)),
            arrivals=_frozen(np.array([cluster.arrivals[i] for i in index], dtype=np.int64)),
            together=_frozen(steps_of(np.array([cluster.together[i] for i in index], dtype=np.float64), now)),
            newest_seconds=_frozen(np.zeros(len(shown), dtype=np.int64)),
            example=tuple(f"{cluster.kinds.workloads[k.workload].namespace}/{k.name.split('/')[-1]}" for k in shown),
        )

    def _presence(self, shown: list[PodKind]) -> Presence:
        cells: list[tuple[int, int, int]] = []
        for row, kind in enumerate(shown):
            by_class: dict[int, int] = {}
            for c, number in enumerate(self._cluster.presence[kind.index]):
                if number:
                    by_class[self._class_row[c]] = by_class.get(self._class_row[c], 0) + number
            cells += [(row, c, number) for c, number in sorted(by_class.items())]
        table = np.array(cells, dtype=np.int64).reshape(len(cells), 3)
        return Presence(
            kind=_frozen(table[:, 0].astype(np.int32)),
            node_class=_frozen(table[:, 1].astype(np.int32)),
            count=_frozen(table[:, 2].copy()),
        )

    def _placeholder_part(self, position: IntArray) -> tuple[Placeholder, ...]:
        cluster = self._cluster
        key = (cluster.placeholder_version, cluster.node_version)
        if self._placeholders is not None and self._placeholders[0] == key:
            return self._placeholders[1]
        found: list[Placeholder] = []
        facts: list[PlaceholderFacts] = []
        ours = [k for k in cluster.kinds.table if k.shape is not None and cluster.pods_of.get(k.index)]
        for kind in sorted(ours, key=lambda k: (k.policy, k.shape.name if k.shape else "")):
            assert kind.shape is not None
            replica_set = replica_set_name(kind.policy, kind.shape)
            refused = self._scheduler.refused.get(kind.index, {})
            for pod in sorted(cluster.pods_of[kind.index], key=cluster.number.__getitem__):
                node = cluster.node_of[pod]
                name = f"{replica_set}-{cluster.number[pod]:09d}"
                if kind.stays_pending:
                    facts.append(self._unbound_facts(kind, name, cluster.created[pod], told=pod in refused))
                found.append(
                    Placeholder(
                        uid=name,
                        name=name,
                        policy=kind.policy,
                        shape=kind.shape.name,
                        replica_set=replica_set,
                        node=int(position[node]) if node >= 0 else -1,
                        created_seconds=self._epoch + cluster.created[pod],
                        deletion_cost=cluster.cost[pod],
                        unschedulable=node < 0 and pod in refused,
                    )
                )
        part = tuple(found)
        self._placeholders, self._facts = (key, part), tuple(facts)
        return part

    def _unbound_facts(self, kind: PodKind, name: str, created_seconds: float, *, told: bool) -> PlaceholderFacts:
        """Return what the packing looks at."""
        assert kind.shape is not None
        return PlaceholderFacts(
            uid=name,
            name=name,
            policy=kind.policy,
            shape=kind.shape.name,
            replica_set=replica_set_name(kind.policy, kind.shape),
            node=-1,
            created_seconds=self._epoch + created_seconds,
            deletion_cost=0,
            unschedulable=told,
            requests=kind.shape.requests,
            terminating=False,
            constraints=kind.constraints,  # one value for all pods of a shape: the packing tells shapes apart by it
            reserved_for=kind.shape.reserved_for,
        )

    def _reserved(self) -> tuple[ReservedWorkload, ...]:
        """Deployments that are annotated to be reserved (S7)."""
        cluster = self._cluster
        found = []
        for kind in self._real:
            spec = self._scenario.workloads[kind.workload]
            if spec.reserve and isinstance(spec.arrivals, DeploymentReplicas):
                found.append(
                    ReservedWorkload(
                        workload=cluster.kinds.workloads[kind.workload],
                        reserve=spec.reserve,
                        replicas=cluster.count[kind.index],
                        requests=kind.requests,
                        unoffered=(),
                        constraint_id=self._constraints.index(kind.constraints),
                        labels=(("app", spec.name),),
                    )
                )
        return tuple(found)
