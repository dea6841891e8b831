"""Kubernetes objects for the CLI's tests, as kubectl prints them."""

import json
from typing import Any

Json = dict[str, Any]


def slack_policy(spec: Json, name: str = "web") -> Json:
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def node(name: str, cpu: str = "4", memory: str = "16Gi", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, on: str | None, cpu: str = "500m", memory: str = "1Gi", app: str = "api", **spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-1a", "uid": f"{app}-1a", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": name,
            "creationTimestamp": "2026-01-15T09:30:00Z",
            "labels": {"app": app, "pod-template-hash": "1a"},
            "ownerReferences": [owner],
        },
        "spec": {
            **({"nodeName": on} if on else {}),
            "priority": 0,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def listed(*items: Json) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def small_cluster() -> list[Json]:
    nodes = [node(f"web-{n}", pool="web") for n in range(3)]
    pods = [pod(f"api-1a-{n}", f"web-{n % 3}") for n in range(6)]
    return nodes + pods
