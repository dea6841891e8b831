"""Clusters for worked examples, and the plan of one policy for them, in one line each."""

from typing import Any

from slack.cluster.snapshot import Snapshot
from slack.planner.model.result import AutoscalerEvent, ExistingShape, PlannerState, PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy, PolicySpec
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


FREELY: Json = {"maxShare": 10, "ceiling": {"cpu": "10000", "memory": "100Ti", "pods": "10000"}}
"""A `spec.reserve` that bounds nothing which these scenes reserve, but for the need of a pod."""


def with_pods(*objects: Json) -> list[Json]:
    """Return the objects, and for each workload the pods that it asks for: they run on the first node."""
    found, host = list(objects), next(item["metadata"]["name"] for item in objects if item["kind"] == "Node")
    for item in objects:
        kind, name = item["kind"], item["metadata"]["name"]
        if kind in ("Node", "Pod", "Namespace", "PriorityClass"):
            continue
        body = item["spec"].get("jobTemplate", item)["spec"]
        count = body.get("replicas", body.get("parallelism"))
        owner = {"Deployment": ("ReplicaSet", f"{name}-1"), "CronJob": ("Job", f"{name}-28000000")}.get(
            kind, (kind, name)
        )
        template = body["template"] if "template" in body else body["jobTemplate"]["spec"]["template"]
        labels = dict(template["metadata"]["labels"] or {})
        labels |= {"pod-template-hash": "1"} if kind == "Deployment" else {}
        for i in range(1 if count is None else count):
            ns = item["metadata"]["namespace"]
            one = pod(f"of-{name}-{i}", ns, owner=owner, labels=labels)
            one["spec"] = {**template["spec"], "nodeName": host}
            found.append(one)
    return found


def plan_of(
    *objects: Json,
    existing: tuple[ExistingShape, ...] = (),
    events: tuple[AutoscalerEvent, ...] = (),
    state: PlannerState | None = None,
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
        events=events,
        state=state or {},
        priority_classes=PriorityClasses.of_values(priorities or {}),
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
