"""The CPU auditor's DaemonSet on real kubelets: a container that its limit stops is told, resized, and cured.

The node is a container, so that its cgroups lie in one more group than a machine's; the agent sees what the node sees.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import make_namespace, wait_for_running, wait_until
from e2e.harness.product.audit_controller import POLICIES, REPORTS
from e2e.kind import workers

NAMESPACE = "shop"
LIMIT, LIMIT_CORES = "100m", 0.1
WORK = """
import time
while True:
    begin, used = time.monotonic(), time.thread_time() + 0.003
    while time.thread_time() < used:
        pass
    time.sleep(max(0.0, begin + 0.02 - time.monotonic()))
"""
"""3 ms of CPU time each 20 ms: more than the limit, and less than twice as much, which is the most of one raise."""
POLICY: Json = {
    "window": "1m",
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
    "report": {"every": "1m"},
    "mode": "Enforce",
    "enforce": {"resize": {"after": "1m", "maxPerHour": 10}},
}
VALUES: Json = {
    "operator": {"enabled": False},
    "uninstall": {"enabled": False},
    "audit": {
        "enabled": True,
        "agent": {"pushInterval": "10s"},
        "controller": {"enforcement": True},
        "policies": {"default": POLICY},
    },
}
pytestmark = pytest.mark.timeout(1500)


def worker(node: str) -> Json:
    """A pod of the operator's image, whose Python does the work."""
    resources = {"requests": {"cpu": "50m"}, "limits": {"cpu": LIMIT}}
    container = {"name": "main", "image": workers.IMAGE, "command": ["python", "-c", WORK], "resources": resources}
    spec = {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "namespace": NAMESPACE}, "spec": spec}


def report(api: Api) -> Json:
    """What the controller has written about the namespace; empty before that."""
    return next((found for found in api.items(REPORTS) if found["metadata"]["namespace"] == NAMESPACE), {})


def high(api: Api) -> set[str]:
    """The containers that the report calls high."""
    return {
        finding["container"]
        for finding in report(api).get("findings", [])
        if finding["severity"] == "high" and finding["level"] == "container"
    }


def container(api: Api) -> Json:
    """What the kubelet says of the container."""
    found: Json = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/api")["status"]["containerStatuses"][0]
    return found


def by_the_command(cluster: Kind) -> Json:
    """What `resource-slack audit --all-nodes` says of it, by the kubelet's own figures."""
    command = [str(Path(sys.executable).with_name("resource-slack")), "audit", "--all-nodes", "--interval=30s"]
    done = subprocess.run(
        [*command, f"--namespace={NAMESPACE}", "--all", "--output=json"],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=240 * time_scale(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    (found,) = [item for item in findings if (item["pod"], item["container"]) == ("api", "main")]
    return dict(found)


def test_a_throttled_container_is_told_resized_and_cured(cluster: Kind, tmp_path: Path) -> None:
    api = cluster.api
    make_namespace(api, NAMESPACE)
    with workers.Release(cluster, tmp_path, VALUES):
        node, _ = workers.names(cluster)
        api.create(worker(node))
        wait_for_running(api, 1, 60, NAMESPACE)
        began = time.monotonic()
        wait_until(lambda: high(api) == {"main"}, 240, "the report", state=lambda: report(api))
        print(f"\ntold {time.monotonic() - began:.0f} s after it began")
        assert report(api)["findings"][0]["node"] == node
        told = by_the_command(cluster)
        assert told["severity"] == "high"
        assert told["limitCores"] >= LIMIT_CORES  # on a busy machine it is resized before the command has looked

        wait_until(lambda: container(api)["resources"]["limits"]["cpu"] != LIMIT, 240, "the kubelet to have resized it")
        raised = container(api)
        print(f"resized to {raised['resources']['limits']['cpu']} {time.monotonic() - began:.0f} s after it began")
        assert raised["restartCount"] == 0
        events = api.items(f"/api/v1/namespaces/{NAMESPACE}/events", fieldSelector="reason=CPULimitRaised")
        assert [event["involvedObject"]["name"] for event in events] == ["api"]

        wait_until(lambda: not high(api) and report(api), 240, "the report of the cure", state=lambda: report(api))
        print(f"cured by the report {time.monotonic() - began:.0f} s after it began")
        cured = by_the_command(cluster)
        assert cured["severity"] != "high"
        assert cured["limitCores"] > LIMIT_CORES
        (policy,) = api.items(POLICIES)
        assert policy["status"]["nodes"] == {"reporting": 3, "silent": 0}
