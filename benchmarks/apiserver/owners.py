"""The workload objects that generated pods belong to, as the API server would send them.

The operator watches them for annotations, so a cluster without them would be read too cheaply.
"""

import json
from collections.abc import Iterator

from benchmarks.generator import Json, Size
from benchmarks.generator.layout import Layout
from benchmarks.generator.lists import layout_of
from benchmarks.generator.rendering import PodWriter
from benchmarks.generator.states import digest, owner_name, uid
from benchmarks.generator.workloads import Kind, Workload
from benchmarks.seed import creatable

OLD_REVISIONS = 4
"""ReplicaSets without pods that stay beside a Deployment's current one; its default keeps ten."""
_KINDS = {
    Kind.DEPLOYMENT: ("apps/v1", "deployments", "Deployment"),
    Kind.STATEFUL_SET: ("apps/v1", "statefulsets", "StatefulSet"),
    Kind.JOB: ("batch/v1", "jobs", "Job"),
    Kind.CRON_JOB: ("batch/v1", "cronjobs", "CronJob"),
}
_REPLICA_SETS = ("apps/v1", "replicasets", "ReplicaSet")
COLLECTIONS = (*_KINDS.values(), _REPLICA_SETS)
"""apiVersion, plural and kind of what `owners` yields."""


def owners(size: Size, seed: int, plural: str) -> Iterator[str]:
    """Yield the objects of one kind as items of a list, in the server's order."""
    layout = layout_of(size, seed)
    writer = PodWriter(layout)
    for workload in layout.workloads:
        found = _KINDS.get(workload.kind)
        if found is not None and found[1] == plural:
            yield _text(_owner(layout, writer, workload))
        elif workload.kind is Kind.DEPLOYMENT and plural == "replicasets":
            for revision in range(OLD_REVISIONS + 1):
                yield _text(_replica_set(layout, writer, workload, revision))


def _owner(layout: Layout, writer: PodWriter, workload: Workload) -> Json:
    pod: Json = json.loads(writer.item(layout.state(workload, 0)))
    template = _template(pod)
    name = owner_name(workload, 0) if workload.kind is Kind.JOB else workload.name
    spec: Json = {"template": template}
    if workload.kind is Kind.CRON_JOB:
        spec = {"schedule": "*/10 * * * *", "suspend": False, "jobTemplate": {"metadata": {}, "spec": spec}}
    elif workload.kind is Kind.JOB:
        spec = {"parallelism": workload.replicas, "completions": workload.replicas, "suspend": False} | spec
    else:
        spec = {"replicas": workload.replicas, "selector": {"matchLabels": template["metadata"]["labels"]}} | spec
    return {"metadata": _metadata(layout, pod, workload, name), "spec": spec, "status": {"replicas": workload.replicas}}


def _replica_set(layout: Layout, writer: PodWriter, workload: Workload, revision: int) -> Json:
    pod: Json = json.loads(writer.item(layout.state(workload, 0)))
    template = _template(pod)
    replicas = workload.replicas if revision == 0 else 0
    name = owner_name(workload, 0) + (f"-{revision}" if revision else "")
    spec = {"replicas": replicas, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    return {
        "metadata": _metadata(layout, pod, workload, name),
        "spec": spec,
        "status": {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1},
    }


def _template(pod: Json) -> Json:
    spec = {key: value for key, value in creatable(pod)["spec"].items() if key != "nodeName"}
    return {"metadata": {"labels": pod["metadata"].get("labels", {})}, "spec": spec}


def _metadata(layout: Layout, pod: Json, workload: Workload, name: str) -> Json:
    return {
        "name": name,
        "namespace": workload.namespace,
        "uid": uid(digest("owner", layout.seed, workload.namespace, name)),
        "resourceVersion": pod["metadata"]["resourceVersion"],
        "generation": 1,
        "creationTimestamp": pod["metadata"]["creationTimestamp"],
        "labels": pod["metadata"].get("labels", {}),
        "managedFields": pod["metadata"]["managedFields"],
    }


def _text(item: Json) -> str:
    return json.dumps(item, separators=(",", ":"))
