"""docs/first-burst.md from nothing to a burst and back: the page's own commands, one after another, as one user.

What Docker and kind do is not played here: the worker is kwok's, and the operator and the uninstall Job's command are
processes, each with the arguments that the chart gives it and as the chart's service account. There is no autoscaler,
as on kind.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import pods, wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.product.browser import Browser, unavailable
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import ROOT, Operator, environment, placeholders, wait_until_placed
from e2e.harness.product.uninstall_hook import HOOK, JOB, arguments, complete

PAGE = (ROOT / "docs" / "first-burst.md").read_text()
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/resource-slack"
COMMAND = Path(sys.executable).with_name("resource-slack")
NOT_PLAYED = ("kind ", "docker ", "make setup", ". .venv/")
MONEY = re.compile(r"costs +[0-9.]+ EUR per hour, [0-9.]+ EUR per month")
LEFT = (
    "kubectl get crd,clusterrole,clusterrolebinding,priorityclass,namespace,validatingadmissionpolicy -o name"
    " | grep resource-slack | grep -v /e2e- || true"
)
"""What has our name; the harness's own roles begin otherwise."""
Shell = Callable[..., str]


def step(number: int) -> list[str]:
    """The commands of one step of the page, each whole; less those that need Docker."""
    found = re.search(rf"^\*\*{number}\..*?^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no step {number}"
    commands = found[1].replace("\\\n", " ").splitlines()
    return [command for command in commands if not command.startswith(NOT_PLAYED)]


def money(said: str) -> str:
    """What a text says that slack costs."""
    found = MONEY.search(said)
    assert found, said
    return found[0]


@pytest.fixture
def shell(cluster: Backend, tmp_path: Path) -> Shell:
    """Run lines in one bash at the root of the checkout; give what they print."""
    for name, binary in build.ensure(["kubectl", "helm"]).items():
        (tmp_path / name).symlink_to(binary)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(cluster.kubeconfig)}

    def run(*lines: str, during: Callable[[], None] | None = None) -> str:
        script = "\n".join(["set -eu -o pipefail", *lines])
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                if during is not None:
                    during()
                output, _ = process.communicate(timeout=180)
            finally:
                process.kill()
        assert process.returncode == 0, f"{script}\n{output}"
        return output

    return run


@contextmanager
def operator_of_the_chart(cluster: Backend, web_port: int) -> Iterator[Operator]:
    """The process that the chart's pods would run; the page on a port of this machine."""
    _, *given = arguments(cluster.api.get(DEPLOYMENT))
    flags = [flag for flag in given if not flag.startswith(("--listen=", "--web-listen="))]
    assert "--web" in flags
    identity = cluster.service_account(NAMESPACE, "resource-slack")
    with Operator(cluster, *flags, f"--web-listen={LOOPBACK}:{web_port}", identity=identity) as operator:
        operator.wait_until_ready()
        yield operator


def seconds_to_bind(table: str) -> list[float]:
    """What CREATED and BOUND of the page's table say."""
    header, *rows = table.splitlines()
    assert header.split() == ["POD", "CREATED", "BOUND", "NODE"]
    return [
        (datetime.fromisoformat(bound) - datetime.fromisoformat(created)).total_seconds()
        for _, created, bound, _ in map(str.split, rows)
    ]


def look_at_the_page(request: pytest.FixtureRequest, port: int) -> None:
    """See on the page that the slack is there and what it costs; without a browser, where the page is served."""
    if unavailable():
        return
    browser: Browser = request.getfixturevalue("browser")
    with browser.visit(f"http://{LOOPBACK}:{port}") as visit:
        visit.wait_for_text("#headline", "Your slack is there")
        visit.wait_for_text("[data-policy=default]", "EUR an hour")
        visit.wait_for_text("#map", "default · 1 node")


def test_one_user_follows_the_first_burst_from_nothing_to_a_burst_its_price_an_upgrade_and_back_to_nothing(
    cluster: Backend, shell: Shell, request: pytest.FixtureRequest
) -> None:
    api = cluster.api
    api.create(kwok.node("kind-worker", cpu="8", memory="16Gi"))
    assert step(1) == [], "Docker's alone"
    # An earlier suite may have left these; the user has none of them.
    shell(
        "kubectl delete --ignore-not-found --wait -f charts/resource-slack/crds",
        f"kubectl delete ns {NAMESPACE} || true",
    )
    shell("kubectl delete priorityclass resource-slack --ignore-not-found")
    assert shell(LEFT) == ""
    shell(*step(2))

    *load, status = step(3)
    cores = next(line for line in load if line.startswith("cores="))
    port = free_port()
    with operator_of_the_chart(cluster, port) as operator:
        shell(*load)
        wait_until_placed(api, "default")
        said = shell(status)
        assert "your slack is there" in said
        print(f"\nthe page's slack {money(said)}")

        burst, times, made_way = step(4)
        shell(cores, burst)
        wait_until(lambda: len(pods(api, "default", labelSelector="app=shop")) == 14, 10, "the burst's pods")
        wait_until(lambda: "<none>" not in shell(times), 10, "all of them to have a node", state=lambda: shell(times))
        waits = seconds_to_bind(shell(times))
        print("seconds from CREATED to BOUND of the page's burst:", sorted(waits))
        assert len(waits) == 14
        assert max(waits) <= 2
        # The burst is larger than the free room; the Event comes when it is bound, and soon after that.
        wait_until(lambda: "have made way" in shell(made_way), 20, "way to be made", state=lambda: shell(made_way))

        # Without an autoscaler room comes back when the load goes; the path ends well.
        *calm, said_again = step(5)
        shell(cores, *calm)
        assert "your slack is there" in shell(said_again)

        slackpolicies, leader, forward = step(6)
        assert "True" in shell(slackpolicies).splitlines()[1]
        # The page is the leader's: a pod's name there, this machine's here.
        assert '"${leader%_*}"' in forward
        assert shell(leader, 'echo "${leader%_*}"').strip() == socket.gethostname()
        look_at_the_page(request, port)

        before = {pod["metadata"]["uid"] for pod in placeholders(api)}
        *upgrade, after = step(7)
        shell(*upgrade)
        assert {pod["metadata"]["uid"] for pod in placeholders(api)} == before, "no placeholder is made anew"
        money(shell(after))

        uninstall, *delete = step(8)

        def hook() -> None:
            wait_until(lambda: api.find(JOB), 30, "the hook's Job")
            job = api.get(JOB)
            account = cluster.service_account(NAMESPACE, HOOK)
            command = [str(COMMAND), *arguments(job), f"--kubeconfig={account.kubeconfig}"]
            with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
                wait_until(lambda: api.find(DEPLOYMENT) is None, 60, "the operator's Deployment to be deleted")
                operator.stop()  # what the kubelet does then
                output, _ = run.communicate(timeout=120)
            assert run.returncode == 0, output
            complete(api, job)

        shell(uninstall, during=hook)
    assert placeholders(api) == []
    shell(*delete)
    assert shell(LEFT) == "", "nothing is left"
    assert pods(api, "default", labelSelector="app=shop") == []
