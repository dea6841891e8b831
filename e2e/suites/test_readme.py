"""The README's way from nothing to pods that start at once: its own commands, on a cluster as kind makes it.

What Docker, kind and Helm do is not played here (the chart has a suite of its own): the worker is kwok's and the
operator a process. There is no autoscaler, as on kind.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from e2e.harness import build, kwok
from e2e.harness.backend import Backend
from e2e.harness.objects import pods, wait_until
from e2e.harness.operator import ROOT, Operator, wait_until_placed

README = (ROOT / "README.md").read_text()
Shell = Callable[..., str]


def step(number: int) -> list[str]:
    """The commands of one step of the README."""
    found = re.search(rf"^\*\*{number}\..*?^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"the README has no step {number}"
    return found[1].splitlines()


@pytest.fixture
def shell(cluster: Backend, tmp_path: Path) -> Shell:
    """Run lines in one bash at the root of the checkout; give what they print."""
    (tmp_path / "kubectl").symlink_to(build.ensure(["kubectl"])["kubectl"])
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(cluster.kubeconfig)}

    def run(*lines: str) -> str:
        script = "\n".join(["set -eu", *lines])
        found = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert found.returncode == 0, f"{script}\n{found.stdout}{found.stderr}"
        return found.stdout

    return run


def test_the_steps_of_the_readme_lead_to_pods_that_start_at_once(cluster: Backend, shell: Shell) -> None:
    cluster.api.create(kwok.node("kind-worker", cpu="8", memory="16Gi"))
    *load, status = step(3)
    burst, times, preempted = step(4)
    cores = next(line for line in load if line.startswith("cores="))
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        shell(*load)
        wait_until_placed(cluster.api, "default")
        assert "your slack is there" in shell(status)

        shell(cores, burst)
        wait_until(lambda: len(pods(cluster.api, "default", labelSelector="app=shop")) == 14, 10, "the burst's pods")
        wait_until(lambda: "<none>" not in shell(times), 10, "all of them to have a node", state=lambda: shell(times))
        header, *rows = shell(times).splitlines()
        assert header.split() == ["POD", "CREATED", "BOUND", "NODE"]
        waits = [
            (datetime.fromisoformat(bound) - datetime.fromisoformat(created)).total_seconds()
            for _, created, bound, _ in map(str.split, rows)
        ]
        print("\nseconds from CREATED to BOUND of the README's burst:", sorted(waits))
        assert len(waits) == 14
        assert max(waits) <= 2
        assert "Preempted by pod" in shell(preempted), "the burst must be larger than the free room"

        # Without an autoscaler room comes back when the load goes.
        shell(cores, "kubectl scale deployment shop --replicas=$cores")
        wait_until_placed(cluster.api, "default")
        slackpolicies, _, leader, forward = step(5)
        assert "True" in shell(slackpolicies).splitlines()[1]
        # The page is the leader's: a pod's name there, this machine's here.
        assert '"${leader%_*}"' in forward
        assert shell(leader, 'echo "${leader%_*}"').strip() == socket.gethostname()
