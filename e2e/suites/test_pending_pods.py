"""Unbound placeholders are Pending on purpose: what a newcomer is told of it, and what monitoring makes of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from e2e.harness import build
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import UnavailableError
from e2e.harness.monitoring.prometheus import promtool
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.operator import (
    NAMESPACE,
    Operator,
    environment,
    placeholders,
    policy,
    replica_sets,
    wait_until_placed,
)

PAGE = (Path(__file__).parents[2] / "docs" / "pending-pods.md").read_text(encoding="utf-8")
NOT_READY = """
  max by (namespace, pod, cluster) (kube_pod_status_phase{job="kube-state-metrics", phase=~"Pending|Unknown"}) == 1
  and on (namespace, pod, cluster) kube_pod_owner{owner_kind!="Job"}
  unless on (namespace, pod, cluster) kube_pod_status_reason{reason="SchedulingGated"} == 1
"""
"""What KubePodNotReady of kubernetes-mixin looks for, without pods that run."""
WAITING = 'kube_pod_container_status_waiting_reason{reason!="CrashLoopBackOff", job="kube-state-metrics"} > 0'
"""What KubeContainerWaiting looks for."""
_ALERT = {"severity": "warning", "namespace": NAMESPACE}


@pytest.fixture
def operator(cluster: Backend) -> Iterator[Operator]:
    """Run an operator whose unbound placeholders all have their capacity."""
    create_all(cluster.api, [kwok.node(f"node-{i}") for i in range(3)])
    cluster.api.create(deployment("api", 6, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 6, 60)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        cluster.api.create(policy("default", hold="Unbound", extraCapacity={"minRate": 0.3}))
        wait_until_placed(cluster.api, "default", 60)
        yield operator


@pytest.fixture
def held(cluster: Backend, operator: Operator) -> Backend:
    """Return the cluster of that operator."""
    assert operator.program.running
    return cluster


def _kubectl(cluster: Backend, *arguments: str) -> str:
    program = build.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [str(program), f"--kubeconfig={cluster.kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_kubectl_says_what_the_pods_are_why_they_are_pending_and_that_it_is_no_error(held: Backend) -> None:
    listed = _kubectl(held, "get", "pods", "-n", NAMESPACE, "-L", "resource-slack.io/hold").splitlines()[1:]
    assert listed
    assert all(line.split()[2] == "Pending" and line.split()[-1] == "Unbound" for line in listed)
    described = " ".join(
        _kubectl(held, "describe", "pod", "-n", NAMESPACE, "-l", "resource-slack.io/hold=Unbound").split()
    )
    assert described.count("resource-slack.io/why-pending: Pending on purpose. This is not an error") == len(listed)
    assert described.count("Whether the capacity is there: kubectl get slackpolicies") == len(listed), "not cut off"
    policies = _kubectl(held, "get", "slackpolicies")
    assert "Reserved" in policies
    status = subprocess.run(
        ["resource-slack", "status", f"--kubeconfig={held.kubeconfig}"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert f"{len(listed)} placeholders with capacity; unbound ones are Pending on purpose" in status
    print("\n".join(["", *listed, "", policies, status]))


def test_each_replica_set_has_one_event_also_after_a_restart(held: Backend, operator: Operator) -> None:
    sets = {item["metadata"]["name"] for item in replica_sets(held.api)}

    def told() -> dict[str, int]:
        query = {"fieldSelector": "reason=PendingOnPurpose"}
        found = held.api.items(f"/api/v1/namespaces/{NAMESPACE}/events", **query)
        return {event["involvedObject"]["name"]: event["count"] for event in found}

    wait_until(lambda: told().keys() == sets, 20, "an Event on each ReplicaSet", state=told)
    described = _kubectl(held, "describe", "replicaset", "-n", NAMESPACE)
    assert "PendingOnPurpose" in described
    assert "This is not an error" in " ".join(described.split())
    operator.stop()
    operator.start()
    operator.wait_until_ready()
    operator.wait_for_plans(2)
    assert told().keys() == sets
    assert set(told().values()) == {1}


def test_kube_state_metrics_tells_them_apart_by_their_label(held: Backend) -> None:
    port, telemetry = free_port(), free_port()
    user = held.user("kube-state-metrics", ["system:masters"])
    flag = re.search(r"--metric-labels-allowlist=pods=\[[^\]]*\]", PAGE)
    assert flag is not None
    command = [
        str(build.ensure(["kube-state-metrics"])["kube-state-metrics"]),
        *(f"--kubeconfig={user.kubeconfig}", f"--host={LOOPBACK}", f"--port={port}", "--resources=pods,replicasets"),
        *(f"--telemetry-host={LOOPBACK}", f"--telemetry-port={telemetry}", flag.group()),
    ]
    program = Program("kube-state-metrics", command, held.run_folder)

    def page() -> str:
        return urllib3.request("GET", f"http://{LOOPBACK}:{port}/metrics", timeout=5.0).data.decode()

    def answers() -> bool:
        try:
            return "kube_pod_labels{" in page()
        except urllib3.exceptions.HTTPError:
            return False

    program.start()
    try:
        wait_until(answers, 30, "series of pods")
        lines = page().splitlines()
    finally:
        program.stop()
    for pod in (found["metadata"]["name"] for found in placeholders(held.api)):
        of_pod = [line for line in lines if f'pod="{pod}"' in line]
        assert next(line for line in of_pod if 'phase="Pending"' in line).endswith(" 1")
        assert any('label_resource_slack_io_hold="Unbound"' in line for line in of_pod if "kube_pod_labels{" in line)
        assert not [line for line in of_pod if "kube_pod_container_status_waiting_reason" in line]
    real = [line for line in lines if "kube_pod_labels{" in line and f'namespace="{NAMESPACE}"' not in line]
    assert real
    assert not [line for line in real if "label_resource_slack_io_hold" in line]


def _series(pod: str, *, unbound: bool) -> list[dict[str, str]]:
    """What kube-state-metrics shows of a pending pod for an hour; the suite above holds that."""
    labels = f'job="kube-state-metrics", namespace="{NAMESPACE}", pod="{pod}"'
    found = [
        f'kube_pod_status_phase{{{labels}, phase="Pending"}}',
        f'kube_pod_owner{{{labels}, owner_kind="ReplicaSet"}}',
    ]
    hold = ', label_resource_slack_io_hold="Unbound"' if unbound else ""
    return [{"series": series, "values": "1x120"} for series in (*found, f"kube_pod_labels{{{labels}{hold}}}")]


@pytest.mark.parametrize("with_line", [False, True])
def test_the_line_of_the_page_keeps_the_alert_for_other_pods_only(tmp_path: Path, *, with_line: bool) -> None:
    line = re.search(r"unless on \(namespace, pod, cluster\) kube_pod_labels\{.*\}", PAGE)
    assert line is not None
    found = {
        "KubePodNotReady": (NOT_READY + line.group() if with_line else NOT_READY, "15m"),
        "KubeContainerWaiting": (WAITING, "1h"),
    }
    fired = ["mine-abc"] if with_line else ["mine-abc", "slack-default-a1b2c3-x"]
    test = {
        "interval": "30s",
        "input_series": [*_series("slack-default-a1b2c3-x", unbound=True), *_series("mine-abc", unbound=False)],
        "alert_rule_test": [
            {
                "alertname": "KubePodNotReady",
                "eval_time": "20m",
                "exp_alerts": [{"exp_labels": {**_ALERT, "pod": pod}} for pod in fired],
            },
            {"alertname": "KubeContainerWaiting", "eval_time": "1h", "exp_alerts": []},
        ],
    }
    _promtool(tmp_path, found, test)


def _promtool(folder: Path, found: dict[str, tuple[str, str]], test: dict[str, Any]) -> None:
    try:
        build.ensure(["promtool"])
    except UnavailableError as error:
        pytest.skip(str(error))
    rules = [
        {"alert": name, "expr": expression, "for": lasting, "labels": {"severity": "warning"}}
        for name, (expression, lasting) in found.items()
    ]
    (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "kubernetes-apps", "rules": rules}]}))
    document = {"rule_files": ["rules.json"], "evaluation_interval": "30s", "tests": [test]}
    (folder / "tests.json").write_text(json.dumps(document))
    done = promtool("test", "rules", str(folder / "tests.json"))
    assert done.returncode == 0, done.stdout + done.stderr
