"""docs/first-burst.md as it is written, on kind: real kubelets, the operator's own image, Helm, and back.

Two things differ where no registry can be pulled from: the nodes' image and what the operator's image is built on are
made here. Each step's time is printed.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.docker.engine import Engine
from e2e.harness.errors import HarnessError, UnavailableError
from e2e.harness.machine_speed import stretched, time_scale
from e2e.harness.objects import wait_until
from e2e.harness.product.operator import ROOT
from e2e.kindnode import debian, node_image
from e2e.suites.test_first_burst import LEFT, PAGE, money, seconds_to_bind

CLUSTER = "kind"
Shell = Callable[..., str]
pytestmark = pytest.mark.timeout(1500)


def commands(number: int) -> list[str]:
    """The commands of one step of the page, each whole."""
    text = PAGE.partition(f"**{number}. ")[2].partition("```\n")[2].partition("```")[0]
    assert text, f"the page has no step {number}"
    return [line.partition("  #")[0] for line in text.replace("\\\n", " ").splitlines()]


@pytest.fixture
def shell(docker: Engine, tmp_path: Path) -> Iterator[Shell]:
    """Run lines in one bash at the root of the checkout, with the tools on its PATH; give what they print."""
    try:
        image = node_image.ensure(docker) if docker.own else ""
    except UnavailableError as error:
        pytest.skip(str(error))
    tools = build.ensure(["kubectl", "helm", "kind"])
    for name, binary in tools.items():
        if name != "kind" or docker.own or shutil.which("kind") is None:
            (tmp_path / name).symlink_to(binary)
    variables = docker.environment | {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "config"),
    }

    def run(*lines: str) -> str:
        if image:
            own = {"kind create cluster": f"kind create cluster --image={image}", "docker build": _build(docker)}
            lines = tuple(_replaced(line, own) for line in lines)
        script = "\n".join(["set -eu -o pipefail", *map(stretched, lines)])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            timeout=600 * time_scale(),
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    if CLUSTER in run("kind get clusters").split():
        raise HarnessError(f"this Docker has a cluster {CLUSTER!r}, which the page's commands would take for theirs")
    try:
        yield run
    finally:
        if CLUSTER in run("kind get clusters").split():
            run(f"kind delete cluster --name={CLUSTER}")


def _build(docker: Engine) -> str:
    return f"docker build --build-arg=BASE={debian.python(docker)}"


def _replaced(line: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        if line.startswith(old):
            return line.replace(old, new, 1)
    return line


def _kubernetes(shell: Shell, what: str) -> list[Json]:
    found: list[Json] = yaml.safe_load(shell(f"kubectl get {what} -o yaml"))["items"]
    return found


def count(shell: Shell, cores: str) -> int:
    """How many pods the load had before the burst: one for each of the worker's cores."""
    return int(shell(cores, "echo $cores"))


def memory_mib(shell: Shell) -> str:
    """The operator's pods by the worker's kubelet; where that knows none, as with nested groups, its processes'."""
    summary = json.loads(shell(f"kubectl get --raw /api/v1/nodes/{CLUSTER}-worker/proxy/stats/summary"))
    own = [pod for pod in summary["pods"] if pod["podRef"]["name"].startswith("resource-slack-")]
    assert own, "the kubelet tells of no pod of the operator"
    told = [pod["memory"]["workingSetBytes"] >> 20 for pod in own if "memory" in pod]
    resident = [
        int(line.split()[1]) >> 10 for line in shell(f"docker exec {CLUSTER}-worker sh -c '{_RESIDENT}'").splitlines()
    ]
    assert resident, "no process of the operator runs on the worker"
    return f"{told} MiB by the kubelet, {resident} MiB resident"


_RESIDENT = (
    "for p in /proc/[0-9]*; do"
    ' if tr "\\0" " " < $p/cmdline 2>/dev/null | grep -q "[r]esource-slack operator";'
    " then grep VmRSS $p/status; fi; done"
)


def test_the_readme_as_it_is_written_on_kind(shell: Shell) -> None:
    began = time.monotonic()

    def took(what: str) -> None:
        nonlocal began
        print(f"\n{what}: {time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()

    create, *_ = commands(1)  # `make setup` is how this suite came to run
    shell(create)
    took("1. the cluster")
    build_it, load, *install = commands(2)
    shell(build_it)
    took("2. the operator's image")
    shell(load)
    shell(*install)
    took("2. loaded, installed, rolled out")

    *make, status = commands(3)
    cores = next(line for line in make if line.startswith("cores="))
    shell(*make)
    shell("kubectl wait slackpolicy default --for=condition=SlackSatisfied --timeout=120s")
    took("3. slack is there")
    said = shell(status)
    assert "your slack is there" in said
    print(money(said))

    burst, times, made_way = commands(4)
    shell(cores, burst)
    wait_until(lambda: "<none>" not in shell(times), 60, "the burst to have nodes", state=lambda: shell(times))
    waits = seconds_to_bind(shell(times))
    print("seconds from CREATED to BOUND:", sorted(waits))
    shell("kubectl rollout status deployment/shop --timeout=120s")
    took("4. the burst runs")
    print("memory of the operator's pods:", memory_mib(shell))
    if len(waits) - count(shell, cores) > 1:
        wait_until(lambda: "have made way" in shell(made_way), 60, "way to be made", state=lambda: shell(made_way))
    else:
        print("the burst on a worker of so few cores is one pod, which is left to the scheduler")

    shell(cores, *commands(5))
    took("5. the load is gone, slack is back")
    slackpolicies, *_ = commands(6)
    assert "True" in shell(slackpolicies).splitlines()[1]

    before = {pod["metadata"]["uid"] for pod in _kubernetes(shell, "pods -n resource-slack -l resource-slack.io/shape")}
    shell(*commands(7))
    after = {pod["metadata"]["uid"] for pod in _kubernetes(shell, "pods -n resource-slack -l resource-slack.io/shape")}
    assert before
    assert after == before, "no placeholder is made anew"
    took("7. upgraded")

    *take_away, delete = commands(8)
    shell(*take_away)
    assert shell(LEFT) == "", "nothing is left"
    shell(delete)
    took("8. taken away")
