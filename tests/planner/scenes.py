"""Clusters for worked examples, and the plan of one policy for them, in one line each."""

from typing import Any

from slack.cluster.snapshot import Snapshot
from slack.planner.outcome import AutoscalerWord, ExistingShape, Memory, PolicyPlan
from slack.planner.plan import plan
from slack.planner.policy import Policy, PolicySpec
from slack.planner.shape import Role
from tests.cluster.build import NOW, Json, columns_of, pod

ZONE = "topology.kubernetes.io/zone"
GI = 1 << 30
MI = 1 << 20


def snapshot_of(*objects: Json, labels: tuple[str, ...] = ("pool", "tier", ZONE)) -> Snapshot:
    """Return the snapshot of these objects; `labels` are those that policies look at."""
    columns = columns_of(*objects)
    columns.require_labels(labels)
    return columns.snapshot(NOW)


def policy_of(name: str = "default", **spec: Any) -> Policy:
    """Return a policy; `spec` as in YAML."""
    return Policy(name=name, spec=PolicySpec.model_validate(spec))


def plan_of(
    *objects: Json,
    existing: tuple[ExistingShape, ...] = (),
    words: tuple[AutoscalerWord, ...] = (),
    memory: Memory | None = None,
    now: float = NOW,
    priorities: dict[str, int] | None = None,
    **spec: Any,
) -> PolicyPlan:
    """Return the plan of the one policy `default` for these objects."""
    return plan(
        snapshot_of(*objects),
        [policy_of(**spec)],
        now=now,
        existing=existing,
        words=words,
        memory=memory or {},
        priorities=priorities,
    ).items[0]


def replicas(count: int, name: str, cpu: str, memory: str, *, node: str | None = None, **rest: Any) -> list[Json]:
    """Return so many pods of one Deployment."""
    rest.setdefault("owner", ("ReplicaSet", name))
    return [pod(f"{name}-{i}", cpu=cpu, memory=memory, node=node, **rest) for i in range(count)]


def sizes(item: PolicyPlan, role: Role | None = None) -> list[tuple[int, int, int]]:
    """Return (count, cpu, memory) of every shape, of one role if given, sorted."""
    return sorted(
        (s.count, dict(s.shape.requests).get("cpu", 0), dict(s.shape.requests).get("memory", 0))
        for s in item.shapes
        if role in (None, s.role) and not s.retiring
    )


def as_existing(item: PolicyPlan) -> tuple[ExistingShape, ...]:
    """Return the ReplicaSets that carrying the plan out leaves."""
    return tuple(ExistingShape(item.policy, s.shape, s.role, s.replicas, s.retiring) for s in item.shapes)
