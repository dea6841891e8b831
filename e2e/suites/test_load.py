"""`resource-slack load` on a real control plane: what it measures, what it tells, and that it takes everything away.

Counts and words are judged, no times: the machine may be slow.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, pods, wait_for_running, wait_until
from e2e.harness.product.operator import Operator, environment, held, policy, wait_until_placed
from slack.cluster.hold import Hold

NAME = "resource-slack-load"
LOAD = ("resource-slack", "load", "-n", "default", "--yes", "--cpu", "400m", "--memory", "256Mi")


def load(cluster: Backend, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [*LOAD, "--kubeconfig", str(cluster.kubeconfig), *args]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=300)


def assert_nothing_left(cluster: Backend) -> None:
    def left() -> list[str]:
        return [pod["metadata"]["name"] for pod in pods(cluster.api, "default") if NAME in pod["metadata"]["name"]]

    assert cluster.api.find(f"/apis/apps/v1/namespaces/default/deployments/{NAME}") is None
    assert cluster.api.find(f"/apis/batch/v1/namespaces/default/jobs/{NAME}-deadline") is None
    wait_until(lambda: not left(), 60, "the load's pods to go", state=left)


@pytest.fixture
def slack(cluster: Backend) -> Backend:
    """Two nodes that are full but for slack."""
    create_all(cluster.api, [kwok.node(f"node-{number}") for number in range(2)])
    cluster.api.create(deployment("api", 4, cpu="800m", memory="512Mi"))
    wait_for_running(cluster.api, 4, 60)
    return cluster


def test_a_burst_is_measured_and_who_made_room_is_counted(slack: Backend, hold: Hold) -> None:
    with Operator(slack, "--extra-capacity-min-rate=0.5") as operator:
        operator.wait_until_ready()
        slack.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.5}))
        wait_until_placed(slack.api, "default")
        assert held(slack.api, hold)
        found = load(slack, "--pods", "12", "--patience", "20s", "-o", "json")
    assert found.returncode in (0, 3), found.stderr
    shown = json.loads(found.stdout)
    assert shown["pods"] == 12
    assert (shown["displaced"] >= 1) == (hold is Hold.BOUND), "nobody displaces an unbound one"
    assert shown["nodes_before"] == shown["nodes_now"] == 2
    assert 0 <= shown["p50_seconds"] <= shown["p99_seconds"]
    assert_nothing_left(slack)


def test_a_quota_is_told_in_the_api_servers_words_and_not_hung_on(slack: Backend) -> None:
    slack.api.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "three-more", "namespace": "default"},
            "spec": {"hard": {"pods": str(len(pods(slack.api, "default")) + 3)}},
        }
    )
    found = load(slack, "--pods", "8")
    assert found.returncode == 3, found.stderr
    assert "not created: 5 pods: " in found.stdout
    assert "exceeded quota: three-more" in found.stdout + found.stderr
    assert_nothing_left(slack)


def test_pods_that_fit_nowhere_end_it_with_the_schedulers_words(slack: Backend) -> None:
    found = load(slack, "--pods", "2", "--cpu", "100", "--patience", "5s")
    assert found.returncode == 3, found.stderr
    assert "0 of 2 pods got a node" in found.stdout
    assert "Insufficient cpu" in found.stdout
    assert "no pod was made or got a node, and no node came (--patience)" in found.stdout
    assert_nothing_left(slack)


@pytest.fixture
def hangups_are_taken() -> Iterator[None]:
    """Let commands take SIGHUP also where these tests run under `nohup`, whose children inherit that it is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_are_taken")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_takes_it_away_and_tells_what_is_known(slack: Backend, number: signal.Signals, tmp_path: Path) -> None:
    command = [*LOAD, "--kubeconfig", str(slack.kubeconfig), "--pods", "2", "--for", "10m"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(
            lambda: len([pod for pod in pods(slack.api, "default") if NAME in pod["metadata"]["name"]]) == 2, 60, "pods"
        )
        time.sleep(1)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "of 2 pods got a node" in out
    assert "it ended early" in out
    assert_nothing_left(slack)


SHORT = """
import sys
from slack.cli.load import run
run.DEADLINE_SECONDS, run.RENEW_SECONDS = 20, 5.0
from slack.cli.main import main
main()
"""
"""The command with a deadline that a test can wait for."""


def test_what_a_killed_load_leaves_is_removed_after_its_deadline_and_not_before(slack: Backend) -> None:
    command = [sys.executable, "-c", SHORT, *LOAD[1:], "--kubeconfig", str(slack.kubeconfig), "--pods", "2"]

    def left() -> int:
        return len([pod for pod in pods(slack.api, "default") if NAME in pod["metadata"]["name"]])

    with subprocess.Popen([*command, "--for", "10m"], env=environment(), stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: left() == 2, 60, "pods")
        time.sleep(40)  # twice its deadline, which it moves on
        assert left() == 2
        process.kill()
    deployed = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
    wait_until(lambda: slack.api.find(deployed) is None, 90, "the Deployment to go by itself")
    wait_until(lambda: not left(), 60, "its pods to go")
    assert_nothing_left(slack)


@pytest.mark.autoscaler
def test_nodes_that_came_for_it_are_watched_until_they_are_gone(cluster: Backend) -> None:
    with Karpenter(cluster) as karpenter:
        karpenter.add_pool("default", boot_seconds=2, consolidate_after="5s")
        found = load(cluster, "--pods", "4", "--cpu", "1", "--watch-nodes", "4m", "-o", "json")
        assert found.returncode == 0, found.stderr
        shown = json.loads(found.stdout)
        assert (shown["nodes_before"], shown["unbound"]) == (0, 0)
        assert shown["nodes_most"] >= 1
        assert shown["nodes_now"] == 0
        assert shown["nodes_gone_seconds"] is not None
    assert_nothing_left(cluster)


@pytest.mark.parametrize("shape", ["ramp", "sine"])
def test_a_load_that_comes_by_and_by_has_all_its_pods_once_and_ends_in_time(slack: Backend, shape: str) -> None:
    found = load(
        slack, "--pods", "2", "--cpu", "100m", "--memory", "64Mi", "--shape", shape, "--for", "8s", "-o", "json"
    )
    assert found.returncode == 0, found.stderr
    shown = json.loads(found.stdout)
    assert shown["pods"] >= 2
    assert max(moment["bound"] for moment in shown["timeline"]) == 2
    assert_nothing_left(slack)
