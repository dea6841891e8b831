"""`resource-slack audit kernel`: verdicts by name, what an unknown one is asked for, every node of a cluster."""

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from slack.audit.kernel.probe import ProbeResult, ProbeState
from slack.audit.kernel.quota_bugs import kernel_verdict
from slack.audit.kernel.states import KernelState
from slack.cli.audit.kernel import group_by_kernel
from slack.cli.commands import app
from tests.cli.conftest import Run
from tests.kube.fake_api import FakeApi

DEBIAN = "4.19.0-6-amd64"


def test_this_machines_kernel_is_the_one_that_uname_tells(run: Run) -> None:
    found = run("audit", "kernel")
    assert found.code == 0
    assert found.stdout.startswith(os.uname().release + "  ")
    assert "  why " in found.stdout


@pytest.mark.parametrize(
    ("release", "state", "code"),
    [("4.18.20", "affected", 3), ("6.12.1", "fixed", 0), (DEBIAN, "unknown", 0), ("none at all", "unknown", 0)],
)
def test_fail_on_affected_is_no_verdict_about_unknown_ones(release: str, state: str, code: int, run: Run) -> None:
    found = run("audit", "kernel", "--release", release, "--fail-on", "affected", "-o", "json")
    assert found.code == code
    (kernel,) = json.loads(found.stdout)["kernels"]
    assert (kernel["release"], kernel["state"], kernel["nodes"]) == (release, state, [])


@pytest.mark.parametrize("release", ["", "  "])
def test_an_empty_release_is_bad_input(release: str, run: Run) -> None:
    found = run("audit", "kernel", "--release", release)
    assert (found.code, found.stdout) == (2, "")
    assert "--release: is empty; give the output of `uname -r`" in found.stderr


def test_an_affected_kernel_does_not_fail_unless_asked(run: Run) -> None:
    assert run("audit", "kernel", "--release", "4.18.20").code == 0


def test_an_unknown_kernel_is_asked_for_with_a_command_that_can_be_pasted(run: Run) -> None:
    found = run("audit", "kernel", "--release", DEBIAN)
    (asked,) = (line for line in found.stdout.splitlines() if line.startswith("  ask "))
    assert f'resource-slack audit kernel --release {DEBIAN} --version-text "$(uname -v)"' in asked
    text = "#1 SMP Debian 4.19.67-2+deb10u2 (2019-11-11)"
    decided = run("audit", "kernel", "--release", DEBIAN, "--version-text", text, "-o", "json")
    assert json.loads(decided.stdout)["kernels"][0]["state"] != "unknown"


def test_a_release_of_a_stranger_cannot_move_the_terminal(run: Run) -> None:
    found = run("audit", "kernel", "--release", "4.18.20\x1b[2J")
    assert "\x1b" not in found.stdout


def test_nodes_share_a_verdict_by_kernel_the_affected_first() -> None:
    groups = group_by_kernel({"b": "6.12.1", "a": "6.12.1", "old": "4.18.20", "odd": "x"})
    assert [(group.verdict.state, group.nodes) for group in groups] == [
        (KernelState.AFFECTED, ("old",)),
        (KernelState.UNKNOWN, ("odd",)),
        (KernelState.FIXED, ("a", "b")),
    ]


def test_every_node_of_a_cluster_is_told(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        cluster = {"name": "a", "cluster": {"server": api.connection().host}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        config = {"clusters": [cluster], "users": [{"name": "a", "user": {}}], "contexts": [context]}
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **config}))
        for name, release in (("n1", "6.12.1"), ("n2", "4.18.20"), ("n3", "6.12.1")):
            api.put(f"/api/v1/nodes/{name}", status={"nodeInfo": {"kernelVersion": release}})
        found = run("audit", "kernel", "--kubeconfig", path, "--fail-on", "affected")
        empty = run("audit", "kernel", "--context", "b", "--kubeconfig", path)
    assert found.code == 3
    first, *_ = found.stdout.splitlines()
    assert first.startswith("4.18.20  affected by the slice expiry bug  n2")
    assert "n1, n3" in found.stdout
    assert (empty.code, "no context 'b'" in empty.stderr) == (2, True)


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        (ProbeState.BAD, 3, "probe    bad: as it should not be"),
        (ProbeState.NOT_SHOWN, 0, "probe    not shown: as it should not be"),
        (ProbeState.NOT_RUN, 2, "error: --probe: as it should not be"),
    ],
)
def test_the_probe_can_show_the_bug_and_says_when_it_could_not_run(
    state: ProbeState, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "slack.audit.kernel.probe.probe", lambda _: ProbeResult(state, "as it should not be", 50, 30, 0.5)
    )
    monkeypatch.setattr("slack.cli.audit.kernel.kernel_verdict", lambda *_: kernel_verdict("6.12.1"))
    found = CliRunner().invoke(app, ["audit", "kernel", "--probe", "--fail-on", "affected"])
    assert found.exit_code == code
    assert said in found.output
    assert "6.12.1  fixed" in found.stdout
