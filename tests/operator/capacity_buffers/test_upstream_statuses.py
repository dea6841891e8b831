"""Statuses beside those of Cluster Autoscaler 1.37 for the same buffers and changes; the data file says how."""

import json
from pathlib import Path
from typing import Any

import pytest

from slack.capacity_buffers.plan import MISSING_SECONDS
from slack.cluster.labels import LABEL_BUFFER
from tests.operator.capacity_buffers.test_buffer_serving import BufferWorld
from tests.operator.fakes import Json

CASES: list[Json] = json.loads(Path(__file__).with_name("upstream_statuses.json").read_text())["cases"]
AS_KARPENTER = {
    "neither": ("False", None),  # Cluster Autoscaler writes nothing
    "nothing": ("False", None),
    "deploy-no-group": ("True", 1),  # Cluster Autoscaler finds no such kind
}
"""Where we say what Karpenter 1.14 says: whether the buffer is ready, and its size."""


def _put_workloads(world: BufferWorld, idle: int) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
    for path, counts in (
        ("apis/apps/v1/namespaces/shop/deployments/web", {"replicas": 3}),
        ("apis/apps/v1/namespaces/shop/deployments/idle", {"replicas": idle}),
        ("apis/apps/v1/namespaces/shop/deployments/pending", {"replicas": 2}),
        ("apis/apps/v1/namespaces/shop/replicasets/web-1", {"replicas": 3}),
        ("apis/apps/v1/namespaces/shop/replicasets/rs", {"replicas": 3}),
        ("apis/apps/v1/namespaces/shop/statefulsets/sts", {"replicas": 3}),
        ("api/v1/namespaces/shop/replicationcontrollers/rc", {"replicas": 3}),
        ("apis/batch/v1/namespaces/shop/jobs/job", {"parallelism": 2, "suspend": True}),
    ):
        name = path.rpartition("/")[2]
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {**counts, "template": template}
        world.api.put(f"/{path}", {"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
        world.view.on_workload("Deployment", "shop", name)


def _differing(world: BufferWorld, answer: str) -> list[tuple[Any, ...]]:
    """Return the cases whose status says another thing: name, ours, and upstream's."""
    found = []
    for case in CASES:
        buffer, theirs = world.buffer(case["name"]), case[answer]
        said, status = world.of(case["name"]), buffer.get("status", {})
        ours = said.get("ReadyForProvisioning", (None,))[0], status.get("replicas")
        wanted = AS_KARPENTER.get(case["name"], (theirs["ready"], theirs["replicas"]))
        fits = said.get("Provisioning", (None,))[0] == "True"
        may_fit = case["name"] in AS_KARPENTER or theirs["provisioning"] == "True FakePodsInjected"
        is_named = "podTemplateRef" in case["spec"] and theirs["hasTemplate"]
        generation = world.api.items("podtemplates")["chunk"]["metadata"]["generation"] if is_named else None
        if ours != wanted or (fits and not may_fit) or status.get("podTemplateGeneration") != generation:
            found.append((case["name"], ours, fits, status.get("podTemplateGeneration"), theirs))
        generations = {each["observedGeneration"] for each in status.get("conditions", ())}
        assert generations <= {buffer["metadata"]["generation"]}, case["name"]
    return found


def test_each_status_says_what_cluster_autoscaler_says(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BufferWorld(monkeypatch)
    world.put_template()
    _put_workloads(world, idle=0)
    for case in CASES:
        world.put_buffer(case["name"], **case["spec"])
    world.pass_probe()
    for _ in range(int(MISSING_SECONDS)):
        world.step()
    assert len(CASES) > 30
    assert _differing(world, "clusterAutoscaler") == []

    template = world.api.items("podtemplates")["chunk"]
    template["metadata"]["generation"] += 1
    template["template"]["metadata"]["labels"]["edit"] = "x"
    _put_workloads(world, idle=2)
    for name, change in (("template", {"replicas": 3}), ("deploy-live", {"percentage": 200})):
        world.buffer(name)["spec"].update(change)
        world.buffer(name)["metadata"]["generation"] += 1
    before = dict(world.placeholders())
    for _ in range(8):
        world.step()
    assert _differing(world, "afterChanges") == []
    kept = {name for name, pod in before.items() if pod["metadata"]["labels"][LABEL_BUFFER] == "uid-template"}
    assert len(kept) == 2
    assert kept <= set(world.placeholders()), "no placeholder is made anew for a label"
