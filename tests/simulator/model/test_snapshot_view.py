"""The planner sees of the simulated cluster what it would see of the same objects through the API."""

from datetime import UTC, datetime

import numpy as np
import pytest

from slack.cluster.labels import LABEL_HOLD, UNBOUND, ZONE
from slack.cluster.snapshot import Snapshot
from slack.planner.objects.manifests import replica_set_name
from slack.simulator.model.kinds import PodRole
from slack.simulator.model.snapshot_view import SnapshotView
from slack.simulator.model.state import READY
from slack.simulator.runs.engine import Simulation
from tests.cluster.build import Json, columns_of, placeholder, pod
from tests.cluster.build import node as node_object
from tests.simulator.build import advance, group, simulation, workload


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _objects(sim: Simulation, epoch: float) -> list[Json]:
    """The simulated cluster as the API server would show it."""
    cluster = sim.cluster
    items: list[Json] = []
    for row in cluster.rows(READY).tolist():
        spec = cluster.groups[cluster.group_of[row]]
        labels = {ZONE: spec.zone} if spec.zone else {}
        amounts = spec.allocatable
        soft = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}
        taints = [soft] if cluster.candidate[row] else None
        items.append(
            node_object(
                cluster.names[row],
                f"{amounts['cpu']}m",
                str(amounts["memory"]),
                labels={**spec.labels, **labels},
                taints=taints,
            )
        )
    for row in cluster.alive():
        kind = cluster.kinds[cluster.kind_of[row]]
        cpu, memory = f"{kind.requests[0]}m", str(kind.requests[1])
        node = cluster.names[cluster.node_of[row]] if cluster.node_of[row] >= 0 else None
        created = _text(epoch + cluster.created[row])
        if kind.role is PodRole.REAL:
            name = kind.name.split("/")[-1]
            selector = dict(kind.constraints.node_selector) or None
            items.append(
                pod(
                    f"{name}-{cluster.number[row]}",
                    "default",
                    cpu,
                    memory,
                    node=node,
                    owner=("Job", name),
                    created=created,
                    nodeSelector=selector,
                    priority=kind.priority,
                    preemptionPolicy="PreemptLowerPriority" if kind.preempts else "Never",
                )
            )
        else:
            assert kind.shape is not None
            own = f"{replica_set_name(kind.policy, kind.shape)}-{cluster.number[row]:09d}"
            refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
            waits = node is None and row in sim.scheduler.refused.get(cluster.kind_of[row], ())
            items.append(
                placeholder(
                    own,
                    cpu,
                    memory,
                    policy=kind.policy,
                    shape=kind.shape.name,
                    labels={LABEL_HOLD: UNBOUND} if kind.stays_pending else None,
                    node=node,
                    created=created,
                    status=refused if waits else None,
                    nodeSelector=dict(kind.constraints.node_selector) or None,
                )
            )
    return items


def _same(mine: Snapshot, theirs: Snapshot) -> None:
    assert mine.resources == theirs.resources
    assert mine.node_classes == theirs.node_classes
    for name in ("names", "class_id", "ready", "schedulable", "deletion_candidate", "allocatable", "real", "daemon"):
        np.testing.assert_array_equal(getattr(mine.nodes, name), getattr(theirs.nodes, name), name)
    for name in ("placeholders", "max_pods", "pod_count", "daemon_count"):
        np.testing.assert_array_equal(getattr(mine.nodes, name), getattr(theirs.nodes, name), name)
    assert mine.kinds.workloads == theirs.kinds.workloads
    for name in ("requests", "priority", "preempts", "excluded", "running", "pending"):
        np.testing.assert_array_equal(getattr(mine.kinds, name), getattr(theirs.kinds, name), name)
    assert (mine.kinds.arrivals >= theirs.kinds.arrivals).all()  # pods that have gone were seen by one of them only
    for row in range(len(mine.kinds)):
        a, b = mine.kinds.constraint_id[row], theirs.kinds.constraint_id[row]
        assert mine.constraints[a] == theirs.constraints[b]
        np.testing.assert_array_equal(mine.reach[a], theirs.reach[b])
    for name in ("kind", "node_class", "count"):
        np.testing.assert_array_equal(getattr(mine.presence, name), getattr(theirs.presence, name), name)
    fields = ("name", "policy", "shape", "replica_set", "node", "deletion_cost", "unschedulable")
    assert [[getattr(p, f) for f in fields] for p in mine.placeholders] == [
        [getattr(p, f) for f in fields] for p in theirs.placeholders
    ]


@pytest.mark.parametrize("hold", ["Bound", "Unbound"])
def test_the_snapshot_equals_that_of_the_same_objects_through_the_columns(hold: str) -> None:
    sim = simulation(
        operator={"hold": hold},
        nodeGroups=[
            group(initial=3, labels={"pool": "a", "nobody": "looks"}),
            group("b", initial=1, zone="z", allocatable={"cpu": "8", "memory": "32Gi"}, max=6),
        ],
        workloads=[
            workload("web", cpu="500m", arrivals={"kind": "poisson", "perMinute": 2}),
            workload("picky", nodeSelector={"pool": "a"}, arrivals={"kind": "poisson", "perMinute": 1}),
            workload("low", priority=-50, preempts=False, arrivals={"kind": "poisson", "perMinute": 0.5}),
        ],
        autoscaler={"kind": "clusterAutoscaler"},
        slack={"kind": "policies", "policies": [{"name": "p", "spec": {"extraCapacity": {"minRate": 0.3}}}]},
        startsAt="2027-01-15T07:00:00Z",
    )
    epoch = sim.scenario.starts_at.timestamp()
    placeholders = 0  # counted so that the test is of something
    for at in (300, 601, 900, 1205):
        advance(sim, at)
        columns = columns_of(*_objects(sim, epoch))
        columns.require_labels({ZONE})
        view = SnapshotView(sim.scenario, sim.cluster, sim.scheduler, epoch)  # as new as the columns: packing remembers
        mine = view.snapshot(float(at))
        _same(mine, columns.snapshot(epoch + at))
        placeholders += len(mine.placeholders)
    assert placeholders > 0
