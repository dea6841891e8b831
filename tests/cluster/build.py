"""Objects for tests in one line each: JSON dicts as the API server sends them, wire structs, columns of them."""

from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.columns import ClusterColumns

Json = dict[str, Any]
NOW = 1_800_000_000.0
"""The tests' clock (2027-01-15T08:00:00Z)."""
CREATED = "2027-01-15T07:00:00Z"
"""An hour before NOW: inside the window of arrivals."""
NAMESPACE = "resource-slack"


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    *,
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: list[Json] | None = None,
    ready: bool = True,
    unschedulable: bool = False,
    created: str = CREATED,
    ready_at: str = "2027-01-15T07:01:00Z",
    uid: str = "",
    extended: dict[str, str] | None = None,
    **metadata: Any,
) -> Json:
    """Return a Node; `taints` as in the API: [{"key", "value", "effect"}]."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid or f"node-{name}",
            "creationTimestamp": created,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            **metadata,
        },
        "spec": {"taints": taints, "unschedulable": unschedulable},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ready_at}],
        },
    }


def pod(
    name: str,
    ns: str = "shop",
    cpu: str = "500m",
    memory: str = "1Gi",
    *,
    node: str | None = None,
    owner: tuple[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "",
    created: str = CREATED,
    deleted: str | None = None,
    uid: str = "",
    rv: int | None = None,
    extended: dict[str, str] | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a Pod; `owner` is (kind, name), `spec` are further fields of the pod's spec as the API names them."""
    requests = {"cpu": cpu, "memory": memory, **(extended or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": ns,
            "uid": uid or f"pod-{ns}-{name}",
            "resourceVersion": None if rv is None else str(rv),
            "creationTimestamp": created,
            "deletionTimestamp": deleted,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else None,
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
        "status": {"phase": phase or ("Running" if node else "Pending"), **(status or {})},
    }


def placeholder(
    name: str,
    cpu: str = "500m",
    memory: str = "1Gi",
    *,
    policy: str = "default",
    shape: str = "9f3c2a",
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> Json:
    """Return one of our own placeholder pods, owned by ReplicaSet `slack-<policy>-<shape>`."""
    own = {
        "resource-slack.io/placeholder": "true",
        "resource-slack.io/policy": policy,
        "resource-slack.io/shape": shape,
        **(labels or {}),
    }
    rest.setdefault("owner", ("ReplicaSet", f"slack-{policy}-{shape}"))
    rest.setdefault("priority", -10)
    return pod(name, NAMESPACE, cpu, memory, labels=own, **rest)


def activation_pool(
    name: str,
    ns: str = "media",
    cpu: str = "500m",
    memory: str = "1Gi",
    *,
    slack_pods: int = 0,
    wanted: int = 0,
    most: int | None = 20,
    observed: str | None = "2027-01-15T08:00:00Z",
    labels: dict[str, str] | None = None,
    uid: str = "",
    **spec: Any,
) -> Json:
    """Return an ActivationPool that announces `slack_pods`; `spec` are fields of its pod template's spec."""
    demand = {"wanted": wanted, "slackPods": slack_pods, "observedAt": observed}
    containers = [{"name": "action", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    workers = {"mode": "none"}  # without a proxy that requests something, too
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "ActivationPool",
        "metadata": {"name": name, "namespace": ns, "uid": uid or f"pool-{ns}-{name}"},
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}},
            "proxy": workers,
            "limits": {} if most is None else {"maxContainers": most},
        },
        "status": {"demand": demand},
    }


def workload(
    kind: str,
    name: str,
    ns: str = "shop",
    *,
    replicas: int | None = 1,
    cpu: str = "500m",
    memory: str = "1Gi",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a Deployment, ReplicaSet, StatefulSet, Job or CronJob; `spec` are fields of its pod template's spec."""
    template = {
        "metadata": {"labels": labels, "creationTimestamp": None},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **spec,
        },
    }
    body: Json = {"template": template}
    if kind == "Job":
        body["parallelism"] = replicas
    elif kind == "CronJob":
        body = {"jobTemplate": {"spec": {"parallelism": replicas, "template": template}}}
    else:
        body["replicas"] = replicas
    return {
        "apiVersion": "batch/v1" if kind in ("Job", "CronJob") else "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": ns,
            "uid": f"{kind}-{ns}-{name}",
            "annotations": annotations,
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else None,
        },
        "spec": body,
    }


def priority_class(name: str, value: int, *, preempts: bool = True) -> Json:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": f"class-{name}"},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }


def namespace(name: str, **labels: str) -> Json:
    """Return a Namespace with these labels and the one that every namespace has."""
    labels = {"kubernetes.io/metadata.name": name, **{key.replace("__", "/"): text for key, text in labels.items()}}
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}


def as_pod(item: Json) -> wire.Pod:
    """Decode a dict as the reflector would."""
    return msgspec.json.decode(msgspec.json.encode(item), type=wire.Pod)


def as_node(item: Json) -> wire.Node:
    """Decode a dict as the reflector would."""
    return msgspec.json.decode(msgspec.json.encode(item), type=wire.Node)


def as_workload(item: Json) -> wire.Workload:
    """Decode a dict as the reflector would, by its kind."""
    made: wire.Workload = msgspec.json.decode(msgspec.json.encode(item), type=getattr(wire, item["kind"]))
    return made


def as_priority_class(item: Json) -> wire.PriorityClass:
    """Decode a dict as the reflector would."""
    return msgspec.json.decode(msgspec.json.encode(item), type=wire.PriorityClass)


def apply(columns: ClusterColumns, kind: str, *items: Json) -> None:
    """Apply one event of type `kind` (ADDED, MODIFIED, DELETED) for each object, whatever it is."""
    for item in items:
        match item["kind"]:
            case "Node":
                columns.apply_nodes([(kind, as_node(item))])
            case "Pod":
                columns.apply_pods([(kind, as_pod(item))])
            case "PriorityClass":
                columns.apply_priority_classes([(kind, as_priority_class(item))])
            case "Namespace":
                made = msgspec.json.decode(msgspec.json.encode(item), type=wire.Namespace)
                columns.apply_namespaces([(kind, made)])
            case workload_kind:
                columns.apply_workloads(workload_kind, [(kind, as_workload(item))])


def columns_of(*objects: Json) -> ClusterColumns:
    """Return columns that have seen these objects; `.snapshot(NOW)` is what a planner reads."""
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", *objects)
    return columns
