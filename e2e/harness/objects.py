"""Manifests that the suites need again and again, waiting with a clear end, and cleaning up after a test.

Manifests are plain dictionaries, as a user would write them in YAML; nothing here decides what a test means.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import urllib3

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.errors import HarnessError
from e2e.harness.machine_speed import time_scale

IMAGE = "registry.k8s.io/pause:3.10"  # never pulled: kwok runs nothing
T = TypeVar("T")


def pod(
    name: str,
    cpu: str = "100m",
    memory: str = "64Mi",
    namespace: str = "default",
    priority_class: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod with one container; further fields of its spec as keywords, in the API's spelling."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": _pod_spec(cpu, memory, priority_class, spec),
    }


def deployment(
    name: str,
    replicas: int,
    cpu: str = "100m",
    memory: str = "64Mi",
    namespace: str = "default",
    priority_class: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a Deployment of one-container pods labelled `app: <name>`; `labels` and `annotations` go on its pods."""
    template = {
        "metadata": {"labels": {"app": name, **(labels or {})}, "annotations": dict(annotations or {})},
        "spec": _pod_spec(cpu, memory, priority_class, spec),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, namespace, {"app": name}, None),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def priority_class(name: str, value: int, preemption_policy: str = "PreemptLowerPriority") -> Json:
    """Return a PriorityClass; placeholders have a negative value and `Never`."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": preemption_policy,
    }


def make_namespace(api: Api, name: str) -> None:
    """Create a namespace and wait until pods are let in (its service account is there)."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    wait_until(lambda: api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 20, f"service account in {name}")


def create_all(api: Api, manifests: Iterable[Json], workers: int = 8) -> list[Json]:
    """Create many objects at once, in no certain order; the first refusal is raised."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(api.create, manifests))


def scale(api: Api, name: str, replicas: int, namespace: str = "default") -> None:
    """Set a Deployment's number of replicas, as `kubectl scale` does."""
    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", {"spec": {"replicas": replicas}})


def pods(api: Api, namespace: str = "", **query: str) -> list[Json]:
    """Return the pods of one namespace, or of all (`labelSelector=...` as a keyword)."""
    return api.items(f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods", **query)


def nodes(api: Api, **query: str) -> list[Json]:
    """Return the nodes that kwok plays (`labelSelector=...` as a keyword); kind's own machine is not among them."""
    found = api.items("/api/v1/nodes", **query)
    return [entry for entry in found if "kwok.x-k8s.io/node" in entry["metadata"].get("annotations", {})]


def condition(manifest: Json, kind: str) -> str:
    """Return the status of one condition ("True", "False", "Unknown"), or "" when the object does not have it."""
    found = (entry["status"] for entry in manifest.get("status", {}).get("conditions") or [] if entry["type"] == kind)
    return str(next(found, ""))


def is_running(manifest: Json) -> bool:
    """Say whether a pod runs and is not on its way out."""
    return manifest.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in manifest["metadata"]


def wait_until(
    predicate: Callable[[], T], timeout: float, what: str, state: Callable[[], object] | None = None, every: float = 0.1
) -> T:
    """Call `predicate` until its value is true, and return that value.

    A refused or broken request counts as "not yet": suites restart the API server.

    Args:
        predicate: what to wait for.
        timeout: seconds on the reference machine; here it is stretched by `machine_speed.time_scale`.
        what: completes "waited 10 s for ...".
        state: read once at failure, to tell what was there instead.
        every: seconds between two calls.
    """
    timeout *= time_scale()
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            value = predicate()
            if value:
                return value
            last = value
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            last = error
        if time.monotonic() > deadline:
            raise HarnessError(f"waited {timeout:g} s for {what}; last seen: {state() if state else last!r}")
        time.sleep(every)


def wait_for_running(api: Api, count: int, timeout: float, namespace: str = "default", **query: str) -> list[Json]:
    """Wait until exactly `count` pods run (of those that the selector names), and return them."""
    shown_at = time.monotonic()

    def running() -> list[Json] | None:
        nonlocal shown_at
        there = pods(api, namespace, **query)
        found = [entry for entry in there if is_running(entry)]
        if len(found) == count:
            return found
        if time.monotonic() - shown_at >= _SHOWN_AGAIN_SECONDS:
            shown_at = time.monotonic()
            _show_again(api, there)
        return None

    found = wait_until(
        running,
        timeout,
        f"{count} running pods in {namespace} {query or ''}",
        state=lambda: [describe(entry) for entry in pods(api, namespace, **query)],
    )
    return found or []


_SHOWN_AGAIN_SECONDS = 10.0


def _show_again(api: Api, found: Iterable[Json]) -> None:
    """Have kwok look at pods again that it may have passed over.

    It leaves a pod alone that is bound before it holds its node's lease; on a busy machine, where it has just begun
    anew and a test creates nodes and pods at once, such pods were seen to stay pending for minutes.
    """
    played = {entry["metadata"]["name"] for entry in nodes(api)}
    mark = {"metadata": {"annotations": {"e2e.resource-slack/shown-again": str(time.time_ns())}}}
    for entry in found:
        if entry["status"].get("phase") == "Pending" and entry["spec"].get("nodeName") in played:
            metadata = entry["metadata"]
            api.patch(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", mark)


def describe(manifest: Json) -> str:
    """Say in a line where a pod stands, for a failure's text."""
    status, spec = manifest.get("status", {}), manifest.get("spec", {})
    reasons = [entry.get("message", "") for entry in status.get("conditions") or [] if entry["status"] == "False"]
    place = f"on {spec['nodeName']}" if spec.get("nodeName") else "on no node"
    if status.get("nominatedNodeName"):
        place += f", nominated to {status['nominatedNodeName']}"
    return f"{manifest['metadata']['name']} {status.get('phase')} {place}: {' '.join(reasons)[:200]}".rstrip(": ")


def _metadata(
    name: str, namespace: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }


def _pod_spec(cpu: str, memory: str, priority_class: str, spec: Mapping[str, Any]) -> Json:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "containers": [container],
        **({"priorityClassName": priority_class} if priority_class else {}),
        "terminationGracePeriodSeconds": 0,
        **spec,
    }


def tolerate(key: str, effect: str = "NoSchedule") -> Sequence[Json]:
    """Return the tolerations of one taint key, whatever its value."""
    return [{"key": key, "operator": "Exists", "effect": effect}]
