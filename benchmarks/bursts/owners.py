"""The objects that create a burst's pods, and their removal."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.bursts.case import Owner
from e2e.harness.api import Api, Json
from e2e.harness.objects import deployment, pod, pods, scale, wait_until
from e2e.harness.product.full_machines import REQUESTS, burst

APP = "burst"
"""The Deployment, and the value of the label `app` of all pods of a burst."""
TEN = (Owner.DEPLOYMENT,) * 4 + (Owner.JOB,) * 3 + (Owner.STATEFUL_SET,) * 3
"""The owners of a burst of ten owners."""
_COLLECTIONS = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/apis/batch/v1/namespaces/default/jobs",
)
_REST_SECONDS, _REST_PODS = 2.0, 200
"""The controllers' client may send 200 requests at once. The removal of so many pods has used them up, and 100 a second
are granted; fewer pods need less rest."""


def job(name: str, count: int) -> Json:
    """Return a Job that creates all of its pods at once."""
    template = _template(name, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": APP}},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def stateful_set(name: str, count: int) -> Json:
    """Return a StatefulSet that creates all of its pods at once."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": APP}},
        "spec": {
            "replicas": count,
            "podManagementPolicy": "Parallel",
            "serviceName": name,
            "selector": {"matchLabels": {"owner": name}},
            "template": _template(name),
        },
    }


def owners(owner: Owner, count: int, name: str) -> list[Json]:
    """Return the manifests that create a burst's pods.

    Args:
        owner: who creates them.
        count: of pods.
        name: of the objects, a part of it; no two bursts have the same.
    """
    if owner is Owner.NONE:
        return [pod(f"{name}-{number}", **REQUESTS, labels={"app": APP}) for number in range(count)]
    if owner is Owner.DEPLOYMENT:
        return [_deployment(name, count)]
    if owner is Owner.JOB:
        return [job(name, count)]
    if owner is Owner.STATEFUL_SET:
        return [stateful_set(name, count)]
    each, more = divmod(count, len(TEN))
    return [
        manifest
        for number, kind in enumerate(TEN)
        for manifest in owners(kind, each + (number < more), f"{name}-{number}")
    ]


def create_idle(api: Api) -> None:
    """Create the Deployment that a burst scales, without pods."""
    api.create(burst())


def remove(api: Api) -> None:
    """Remove the pods of a burst and whatever created them, but for the Deployment that is scaled."""
    there = burst_pods(api)
    scale(api, APP, 0)
    bare = [entry["metadata"]["name"] for entry in there if "ownerReferences" not in entry["metadata"]]
    paths = [*_owner_paths(api), *(f"/api/v1/namespaces/default/pods/{name}" for name in bare)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: api.delete(path, 0), paths))
    wait_until(lambda: not burst_pods(api), 90, "the burst to be gone")
    time.sleep(_REST_SECONDS * min(0.25 + len(there) / _REST_PODS, 1.0))


def burst_pods(api: Api) -> list[Json]:
    """Return the pods of a burst."""
    return pods(api, "default", labelSelector=f"app={APP}")


def _owner_paths(api: Api) -> Iterator[str]:
    for collection in _COLLECTIONS:
        for entry in api.items(collection, labelSelector=f"app={APP}"):
            if entry["metadata"]["name"] != APP:
                yield f"{collection}/{entry['metadata']['name']}"


def _template(name: str, **spec: str) -> Json:
    template = pod(name, **REQUESTS)
    return {"metadata": {"labels": {"app": APP, "owner": name}}, "spec": {**template["spec"], **spec}}


def _deployment(name: str, count: int) -> Json:
    found = deployment(name, count, **REQUESTS)
    found["metadata"]["labels"] = {"app": APP}
    found["spec"]["selector"] = {"matchLabels": {"owner": name}}
    found["spec"]["template"]["metadata"]["labels"] = {"app": APP, "owner": name}
    return found
