"""A storm of starts on a real worker: paced by the chart's throttler, and all at once where a pod opts out."""

import os
import time
from pathlib import Path

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.objects import is_running, make_namespace, pods, wait_until
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, container
from e2e.harness.product.starting_watch import Seen, watched
from e2e.harness.product.throttler import ENABLED
from e2e.kind import workers

STORM, SLOTS = 12, 2
OFF = dict.fromkeys(("maxLoadAverageMultiplier", "maxCPU", "maxIOPressure", "minRate"))
"""Figures of load: others on this machine make it."""
PER_CORE = f"{(SLOTS + 0.01) / (os.cpu_count() or 1):.4f}"
VALUES: Json = {
    "operator": {"enabled": False},
    "uninstall": {"enabled": False},
    "throttler": {
        "enabled": True,
        "policies": {"default": {**OFF, "maxStartingContainersPerCore": PER_CORE, "noProbeHold": "1s"}},
    },
}
STATUS = "/apis/resource-slack.io/v1alpha1/throttlepolicies/default"
pytestmark = pytest.mark.timeout(1500)


def reporting(api: Api) -> int:
    """The nodes whose agents go by the policy."""
    return int(api.get(STATUS).get("status", {}).get("nodes", {}).get("reporting", 0))


def storm(name: str, node: str, enabled: str) -> Json:
    """A Deployment whose containers are starting for a second each."""
    labels = {"app": name}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
        "containers": [container("main", "sleep 1; echo > /tmp/up;", **PROBE)],
    }
    template = {"metadata": {"labels": labels, "annotations": {ENABLED: enabled}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": STORM, "selector": {"matchLabels": labels}, "template": template},
    }


def start(api: Api, name: str, node: str, enabled: str) -> tuple[Seen, float]:
    """Start a storm, and wait until all are ready; returns what was seen and the seconds that it took."""

    def ready() -> int:
        found = pods(api, NAMESPACE, labelSelector=f"app={name}")
        return sum(is_running(pod) and all(row["ready"] for row in pod["status"]["containerStatuses"]) for pod in found)

    with watched(api, ungated=enabled == "false") as seen:
        began = time.monotonic()
        api.create(storm(name, node, enabled))
        wait_until(lambda: ready() == STORM, 180, f"{name} to be ready", state=ready)
        return seen, time.monotonic() - began


def test_a_storm_on_a_worker_is_paced_and_all_of_it_starts(cluster: Kind, tmp_path: Path) -> None:
    api, (node, _) = cluster.api, workers.names(cluster)
    make_namespace(api, NAMESPACE)
    with workers.Release(cluster, tmp_path, VALUES):
        wait_until(lambda: reporting(api) == 3, 120, "every agent to go by the policy")
        paced, seconds = start(api, "paced", node, "true")
        print(f"\n{STORM} containers paced: at most {paced.most} at once, ready after {seconds:.1f} s")
        assert 1 <= paced.most <= SLOTS
        assert not any(paced.restarts.values())
        free, seconds = start(api, "free", node, "false")
        print(f"{STORM} containers without a gate: at most {free.most} at once, ready after {seconds:.1f} s")
        assert free.most > SLOTS
