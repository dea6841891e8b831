"""A snapshot of the size that R10 names: 5,000 nodes, 150,000 pods of 3,000 kinds in 18 node classes."""

import numpy as np

from slack.cluster.classes import Constraints, NodeClass, Taint, Toleration, admits
from slack.cluster.snapshot import NodeColumns, Placeholder, PodKinds, Presence, Snapshot, Workload
from slack.planner.model.result import ExistingShape, Plan
from slack.planner.policy.spec import Policy
from tests.planner.scenes import GI, MI, ZONE, policy_of

POOLS = ("web", "batch", "gpu", "db", "misc", "ci")
TAINTED = ("gpu", "db")
SIZES = np.array([(4000, 16 * GI, 0), (16000, 64 * GI, 0), (8000, 32 * GI, 0), (32000, 128 * GI, 0)])


def _classes() -> tuple[NodeClass, ...]:
    made = [
        NodeClass(
            tuple(sorted({"pool": pool, ZONE: zone}.items())),
            (Taint("dedicated", pool, "NoSchedule"),) if pool in TAINTED else (),
        )
        for pool in POOLS
        for zone in "abc"
    ]
    return tuple(sorted(made, key=lambda c: (c.labels, c.taints)))


def _constraints() -> tuple[Constraints, ...]:
    made = [Constraints()]
    for i in range(200):
        pool = POOLS[i % 6]
        selector = {"pool": pool} | ({ZONE: "abc"[i // 6 % 3]} if i % 5 == 0 else {})
        tolerations = [Toleration("dedicated", "Equal", pool, "")] if pool in TAINTED else []
        if i > 60:  # a toleration of something else: other constraints, the same reach
            tolerations.append(Toleration(f"x{i}", "Exists", "", ""))
        made.append(Constraints(tuple(sorted(selector.items())), tolerations=tuple(sorted(tolerations))))
    return tuple(dict.fromkeys(made))


def large(
    *, nodes: int = 5000, kinds: int = 3000, times: int = 1, placeholders: tuple[Placeholder, ...] = ()
) -> Snapshot:
    """Return the snapshot; `times` multiplies the pods of every kind."""
    rng = np.random.default_rng(1)
    classes, constraints = _classes(), _constraints()
    class_id = np.sort(rng.integers(0, len(classes), nodes)).astype(np.int32)
    allocatable = SIZES[rng.integers(0, 4, nodes)]
    allocatable[np.array([dict(c.labels)["pool"] == "gpu" for c in classes])[class_id], 2] = 8
    reach = np.array([[admits(c, n) for n in classes] for c in constraints])
    vectors = np.stack([rng.integers(1, 80, 600) * 50, rng.integers(1, 200, 600) * 64 * MI, np.zeros(600, int)], axis=1)
    requests = vectors[rng.integers(0, 600, kinds)]
    constraint_id = rng.integers(0, len(constraints), kinds).astype(np.int32)
    on_gpus = np.array([dict(c.node_selector).get("pool") == "gpu" for c in constraints])[constraint_id]
    requests[on_gpus, 2] = rng.integers(0, 3, int(on_gpus.sum()))
    running = rng.integers(1, 100, kinds) * times
    at, where = np.nonzero(reach[constraint_id])
    share = np.maximum(running // np.maximum(reach[constraint_id].sum(axis=1), 1), 1)
    workloads = tuple(Workload(f"ns{k % 40}", "deploy", f"app-{k // 3}") for k in range(kinds))
    return Snapshot(
        resources=("cpu", "memory", "nvidia.com/gpu"),
        nodes=NodeColumns(
            names=tuple(f"n{i:05d}" for i in range(nodes)),
            class_id=class_id,
            ready=np.ones(nodes, dtype=bool),
            schedulable=np.ones(nodes, dtype=bool),
            deletion_candidate=np.zeros(nodes, dtype=bool),
            allocatable=allocatable,
            real=allocatable * 6 // 10,
            daemon=allocatable // 50,
            placeholders=np.zeros_like(allocatable),
            max_pods=np.full(nodes, 110),
            pod_count=np.full(nodes, 32),
            daemon_count=np.full(nodes, 4),
        ),
        node_classes=classes,
        constraints=constraints,
        reach=reach,
        kinds=PodKinds(
            workloads=workloads,
            requests=requests,
            unoffered=((),) * kinds,
            constraint_id=constraint_id,
            priority=np.zeros(kinds, dtype=np.int64),
            preempts=np.ones(kinds, dtype=bool),
            excluded=np.zeros(kinds, dtype=bool),
            reserve=("",) * kinds,
            gang=("",) * kinds,
            labels=((),) * kinds,
            unchecked=((),) * kinds,
            running=running,
            pending=np.zeros(kinds, dtype=np.int64),
            gated=np.zeros(kinds, dtype=np.int64),
            arrivals=running // 2,
            together=np.left_shift(1, np.arange(kinds) % 4),
            newest_seconds=np.zeros(kinds, dtype=np.int64),
            example=tuple(f"{w.namespace}/{w.name}-x" for w in workloads),
        ),
        presence=Presence(at.astype(np.int32), where.astype(np.int32), share[at]),
        placeholders=placeholders,
        reserved=(),
        namespaces={},
        left_out=(),
        node_start_seconds=120.0,
    )


def policies() -> list[Policy]:
    """Return five policies: a default and one for each of four pools."""
    tolerate = [{"key": "dedicated", "operator": "Exists"}]
    modes = {"web": "Frequent", "batch": "Everything", "gpu": "Frequent", "db": "Everything"}
    return [
        policy_of(),
        *(
            policy_of(pool, nodeSelector={"pool": pool}, tolerations=tolerate, cover={"mode": m})
            for pool, m in modes.items()
        ),
    ]


def carried_out(result: Plan, snapshot: Snapshot) -> tuple[list[ExistingShape], tuple[Placeholder, ...]]:
    """Return the ReplicaSets and bound placeholders that carrying out a plan leaves."""
    existing, pods = [], []
    for item in result.items:
        for n, s in enumerate(item.shapes):
            existing.append(ExistingShape(item.policy, s.shape, s.role, s.replicas, s.retiring))
            may = np.array([admits(s.shape.constraints, node_class) for node_class in snapshot.node_classes])
            hosts = np.flatnonzero(may[snapshot.nodes.class_id]).tolist()
            for i in range(s.replicas):
                name = f"{s.shape.name}-{i:05d}"
                pods.append(
                    Placeholder(
                        name, name, item.policy, s.shape.name, "rs", hosts[(n * 997 + i) % len(hosts)], 1.0, 0, False
                    )
                )
    return existing, tuple(sorted(pods, key=lambda p: (p.policy, p.shape, p.name)))
