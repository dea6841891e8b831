"""`resource-slack audit`: the command as a whole, over trees that were recorded from real kernels."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner
from typer.testing import Result as Invoked

from slack.audit.findings.sample import CgroupLevel, CgroupTarget, Sample, Sampled
from slack.audit.findings.window import compare
from slack.cli.audit.options import LevelName
from slack.cli.audit.sampling import window_start
from slack.cli.commands import app
from tests.audit.test_recorded_trees import RECORDED, container_id, pod_uid
from tests.audit.tree import TREES, unpack
from tests.cli.audit.build import kubelet_pods, recorded
from tests.cli.conftest import COMMAND, Run

__all__ = ["recorded"]
Recorded = Callable[[str], Path]


def audit(*args: str | Path) -> Invoked:
    return CliRunner().invoke(app, ["audit", *map(str, args)])


def findings(*args: str | Path) -> list[dict[str, Any]]:
    found = audit(*args, "-o", "json")
    assert found.exit_code == 0, found.output
    document: dict[str, Any] = json.loads(found.stdout)
    return list(document["findings"])


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_node_is_told_worst_first(name: str, recorded: Recorded) -> None:
    found = audit("--root", recorded(name), "--no-names")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    neighbours = ["NEIGHBOURS"] if name in {"v2-6.1", "v2-6.12"} else []
    head = ["THROTTLED", "TIME", "LOST", *neighbours, "STOP", "USE/LIMIT", "LEVEL", "WHO", "VERDICT", "ADVICE"]
    assert lines[0].split() == head
    severities = re.findall(r" (high|warn|info)\b", "\n".join(lines[: lines.index("")]))
    assert severities == sorted(severities, key=["high", "warn", "info"].index)
    assert "high" in severities
    assert "the CFS quota bugs are fixed" in found.stdout


def test_both_numbers_are_there_and_no_limit_is_not_zero(recorded: Recorded) -> None:
    table = audit("--root", recorded("v2-6.12"), "--no-names", "--all").stdout
    ten = next(line for line in table.splitlines() if container_id("ten")[:12] in line)
    assert re.match(r"\s*100\.0 %\s+79\.5 %\s+0\.0 %\s+80 ms\s+2\.00/2\.00\s+container ", ten)
    free = next(line for line in table.splitlines() if container_id("free")[:12] in line)
    assert re.match(r"\s*no limit\s+-\s+2\.9 %\s+-\s+\S+/none\s+container", free)
    few = next(line for line in table.splitlines() if container_id("ten sidecar")[:12] in line)
    assert re.match(r"\s*too few periods\s+-\s+0\.0 %\s+-\s+\S+/1\.00", few)


def test_a_pods_quota_is_blamed_for_what_its_container_lost(recorded: Recorded) -> None:
    of_pod = [
        finding
        for finding in findings("--root", recorded("v1-alone"), "--no-names")
        if finding["podUid"] == pod_uid("parent")
    ]
    by_level = {finding["level"]: finding for finding in of_pod}
    assert by_level["container"]["throttledRatio"] is None
    assert by_level["container"]["timeLostRatio"] > 0.3
    assert by_level["container"]["blamed"]["path"] == by_level["pod"]["path"]


def test_a_boundary_is_no_reason_to_act(recorded: Recorded) -> None:
    (two,) = (
        finding
        for finding in findings("--root", recorded("v2-6.12"), "--no-names")
        if finding["containerId"] == container_id("two")
    )
    assert (two["severity"], two["marks"], two["advice"]) == ("info", ["boundary"], [])


@pytest.mark.parametrize(("least", "code"), [("none", 0), ("warn", 3), ("high", 3)])
def test_the_exit_code_is_what_fail_on_says(least: str, code: int, recorded: Recorded) -> None:
    assert audit("--root", recorded("v2-6.12"), "--no-names", "--fail-on", least).exit_code == code


def test_fail_on_is_about_what_was_asked_for(recorded: Recorded, tmp_path: Path) -> None:
    root = recorded("v2-6.12")
    only_boundary = ("--pod", pod_uid("two"), "--level", "container")
    assert audit("--root", root, "--no-names", "--fail-on", "warn", *only_boundary).exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-n", "shop"], "-n shop: none of the 16 cgroups here fits; no pod's name is known: leave out --no-names, or"),
        (["--pod", "nosuch"], "--pod nosuch: none of the 16 cgroups here fits; no pod's name is known"),
        (["--level", "kubepods", "--pod", pod_uid("ten")], f"--pod {pod_uid('ten')} --level kubepods: none"),
    ],
)
def test_a_filter_that_fits_nothing_is_no_good_news(args: list[str], said: str, recorded: Recorded) -> None:
    found = audit("--root", recorded("v2-6.12"), "--no-names", "--fail-on", "high", "-o", "json", *args)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in re.sub(r"of the \d\d cgroups", "of the 16 cgroups", found.stderr)


@pytest.mark.parametrize("args", [("-n", "shop"), ("--pod", "nosuch")])
def test_names_of_nothing_are_told_before_anything_is_waited_for(
    args: tuple[str, str], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded("v2-6.12")
    monkeypatch.setattr("slack.cli.audit.sampling._waited", lambda *_: pytest.fail("it waits"))
    assert audit("--root", root, "--no-names", *args).exit_code == 2


def test_where_there_is_no_cgroup_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        def sample(self) -> Sampled:
            return Sampled((), {}, {}, {})

    monkeypatch.setattr("slack.cli.audit.sampling._opened", lambda _: nullcontext(Empty()))
    monkeypatch.setattr("slack.cli.audit.sampling._waited", lambda *_: pytest.fail("it waits"))
    found = audit("--no-names", "-o", "json")
    assert (found.exit_code, json.loads(found.stdout)["findings"]) == (0, [])


def test_a_slip_in_a_name_is_told_what_is_near(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(kubelet_pods("ten", "two"))
    named = ("--root", recorded("v2-6.12"), "--kubelet-pods", tmp_path / "pods.json")
    assert "namespaces here are shop" in audit(*named, "-n", "shp").stderr
    assert "near it are ten-1a" in audit(*named, "-n", "shop", "--pod", "ten-1b").stderr


def test_names_come_from_the_kubelets_pods(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(kubelet_pods("ten", "two"))
    found = audit("--root", recorded("v2-6.12"), "--kubelet-pods", tmp_path / "pods.json", "-n", "shop")
    assert found.exit_code == 0, found.output
    assert "shop/ten-1a/ten " in found.stdout
    assert "pod " + pod_uid("parent")[:8] not in found.stdout, "another namespace"
    assert "audit explain -n shop pod/ten-1a" in found.stdout


def test_lines_can_be_limited_and_the_rest_is_told(recorded: Recorded) -> None:
    found = audit("--root", recorded("v2-6.12"), "--no-names", "--limit", "2")
    assert re.search(r"^\d+ findings more \(--limit\)$", found.stdout, re.MULTILINE)
    assert len(found.stdout.split("\n\n")[0].splitlines()) == 3


def test_the_document_has_units_in_its_names_and_everything_in_it(recorded: Recorded) -> None:
    found = json.loads(audit("--root", recorded("v2-6.12"), "--no-names", "-o", "json").stdout)
    assert set(found) == {
        *("schema", "source", "at", "windowSeconds", "nodes", "summary", "troubles", "findings"),
    }
    assert found["schema"] == "resource-slack.io/audit/v1"
    (node,) = found["nodes"]
    assert (node["cpus"], node["hierarchy"], node["kernel"]["state"]) == (16, "v2", "fixed")
    ten = next(finding for finding in found["findings"] if finding["containerId"] == container_id("ten"))
    assert (ten["window"]["quotaMicroseconds"], ten["window"]["throttledPeriods"]) == (200_000, 267)
    assert ten["stopSeconds"] == pytest.approx(0.0797, abs=1e-4)
    assert ten["advice"][0]["id"]
    assert sum(found["summary"]["states"].values()) == found["summary"]["cgroups"]


def test_markdown_is_a_table_with_advice(recorded: Recorded) -> None:
    text = audit("--root", recorded("v2-6.12"), "--no-names", "-o", "markdown").stdout
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {10}
    assert "**high: stops, at limit, many threads**" in text
    assert re.search(r"^1\. \*\*.+\*\* \([a-z-]+\)\.", text, re.MULTILINE)


def test_patches_are_one_file_a_workload_that_kubectl_could_apply(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(kubelet_pods("ten", "unthrottled"))
    folder = tmp_path / "patches"
    found = audit(
        "--root", recorded("v2-6.12"), "--kubelet-pods", tmp_path / "pods.json", "-n", "shop", "--patches", folder
    )
    assert found.exit_code == 0, found.output
    (file,) = folder.iterdir()
    assert file.name == "deployment-shop-api.yaml"
    patch = yaml.safe_load(file.read_text())
    assert (patch["kind"], patch["metadata"]["name"]) == ("Deployment", "api")
    assert [container["name"] for container in patch["spec"]["template"]["spec"]["containers"]] == ["ten"]
    assert "1 patch file written" in found.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--all-nodes", "--prometheus", "http://localhost:9090"], "--prometheus: give either"),
        (["--all-nodes", "--root", "/"], "--root: belongs to this node's cgroups"),
        (["--window", "1h"], "--window: belongs to --prometheus"),
        (["--prometheus", "http://localhost:9090", "--interval", "10s"], "--interval: a history has no interval"),
        (["--all-nodes", "--interval", "5s"], "--interval: 5s is too short; give 30s or longer; cAdvisor"),
        (["--interval", "soon"], "--interval: "),
        (["--root", "/nowhere"], "--root: /nowhere is no folder"),
        (["--root", "9" * 5000], "999 is no folder; give a node's root"),
        (["--all-nodes", "--kubelet-pods", "x"], "--kubelet-pods: names one node's pods"),
        (["--kubelet-pods", "/nowhere"], "/nowhere: cannot be read: no such file or directory"),
        (["--kubelet-pods", "ftp://host/pods"], "--kubelet-pods: 'ftp://host/pods' is no address"),
        (["--kubelet-pods", "http://127.0.0.1:1/pods"], "--kubelet-pods: http://127.0.0.1:1/pods: no answer"),
        (["--kubelet-pods", "/dev/zero"], "--kubelet-pods: /dev/zero: is longer than 64 MiB"),
        (["--kubeconfig", "/nonexistent"], "/nonexistent"),
        (["--kubeconfig", "/dev/null", "--context", "nope"], "/dev/null"),
        (["--context", "nope"], "no cluster given"),
        (["--watch", "--patches", "."], "--patches: are written once"),
        (["--patches", "/dev/null/x"], "--patches: /dev/null/x: not a directory"),
        (["--fail-on", "high", "explain", "pod/x"], "--fail-on: write it after explain: audit explain --fail-on"),
        (["kernel", "--probe", "--release", "5.4.0"], "--probe: tries this machine's kernel"),
        (["kernel", "--version-text", "x"], "--version-text: give --release"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(args: list[str], said: str, run: Run) -> None:
    found = run("audit", *args)
    assert found.code == 2
    assert said in found.stderr
    assert found.stdout == ""


def test_a_machine_without_cgroups_is_told_what_was_looked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = run("audit", "--root", tmp_path / "empty")
    assert found.code == 2
    assert "empty" in found.stderr
    assert "cpu" in found.stderr


def test_an_unknown_command_is_told(run: Run) -> None:
    found = run("audit", "explan")
    assert found.code == 2
    assert "explain" in found.stderr


def test_a_context_that_is_not_there_is_bad_input_but_only_where_it_was_given(run: Run, tmp_path: Path) -> None:
    root = unpack(TREES / "v2-6.12.before.tree", tmp_path / "root")
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump({"clusters": [], "contexts": [], "users": [], "current-context": "a"}))
    found = run("audit", "--root", root, "--interval", "1s", "--kubeconfig", config, "--context", "nope")
    assert (found.code, found.stdout) == (2, "")
    assert "no context 'nope'" in found.stderr
    config.write_text("{")
    assert run("audit", "--root", root, "--interval", "1s", "--kubeconfig", config).code == 2
    around = run("audit", "--root", root, "--interval", "1s", KUBECONFIG=str(config))
    assert (around.code, around.stderr.count("names: ")) == (0, 1)


def test_a_cluster_that_does_not_answer_holds_nothing_up(run: Run, tmp_path: Path) -> None:
    unpack(TREES / "v2-6.12.before.tree", tmp_path / "root")
    config = tmp_path / "config"
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    config.write_text(
        yaml.safe_dump({"clusters": [cluster], "contexts": [context], "users": [], "current-context": "a"})
    )
    began = time.monotonic()
    found = run("audit", "--root", tmp_path / "root", "--interval", "1s", "--kubeconfig", config)
    assert found.code == 0, found.stderr
    assert time.monotonic() - began < 30
    (line,) = (line for line in found.stderr.splitlines() if line.startswith("names: "))
    assert "uids stand for names" in line
    assert "too few periods" in found.stdout


def _started(*args: str, root: Path) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    command = [str(COMMAND), "audit", "--root", str(root), "--no-names", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)


def test_ctrl_c_ends_the_waiting_with_what_there_is(tmp_path: Path) -> None:
    process = _started("--interval", "60s", root=unpack(TREES / "v2-6.12.before.tree", tmp_path))
    assert process.stderr is not None
    assert "watching" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "too few periods" in out
    assert re.search(r"ended after \d\.\d s of 60 s", err)


def test_watching_into_a_pipe_gives_a_line_of_json_a_look(tmp_path: Path) -> None:
    process = _started("--watch", "--interval", "1s", "-o", "json", root=unpack(TREES / "hybrid.before.tree", tmp_path))
    assert process.stdout is not None
    looks = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0
    seconds = [look["windowSeconds"] for look in looks]
    assert seconds == sorted(seconds), "the window grows up to a minute"


def counters(at: float, *names: str) -> Sampled:
    targets = [CgroupTarget(CgroupLevel.OTHER, f"/{name}") for name in names]
    return Sampled(tuple(Sample(target, at, 40_000, 100_000, int(at * 10), 0, 0, 0) for target in targets), {})


def told(kept: list[Sampled]) -> dict[str, tuple[str, float]]:
    windows = compare(window_start(kept), kept[-1]).windows
    return {window.target.path: (str(window.state), window.seconds) for window in windows}


def test_watching_tells_an_end_once_and_measures_what_is_new() -> None:
    kept = [counters(0, "a", "ends"), counters(20, "a", "ends"), counters(40, "a", "new")]
    assert told(kept) == {"/a": ("measured", 40), "/new": ("appeared", 0), "/ends": ("gone", 0)}
    kept.append(counters(60, "a", "new"))
    assert told(kept) == {"/a": ("measured", 60), "/new": ("measured", 20)}
    kept.append(counters(80, "a"))
    assert told(kept) == {"/a": ("measured", 80), "/new": ("gone", 0)}, "also of what lived between two looks"


@pytest.mark.thorough
def test_watching_says_how_far_back_it_looks(tmp_path: Path) -> None:
    process = _started("--watch", "--interval", "1s", root=unpack(TREES / "hybrid.before.tree", tmp_path))
    assert process.stdout is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, the last \d\.\d s\n", process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_columns_are_respected_in_a_pipe_where_they_are_given(run: Run, tmp_path: Path) -> None:
    root = unpack(TREES / "v2-6.12.before.tree", tmp_path / "root")
    args = ("audit", "--root", root, "--no-names", "--interval", "1s", "--all")
    wide, narrow = run(*args, COLUMNS=""), run(*args, COLUMNS="80")
    assert max(map(len, wide.stdout.splitlines())) > 80
    assert max(map(len, narrow.stdout.splitlines())) <= 80
    assert run(*args, COLUMNS="many").code == 0


def test_a_terminal_is_redrawn_until_ctrl_c_and_gets_its_cursor_back(tmp_path: Path) -> None:
    root = unpack(TREES / "hybrid.before.tree", tmp_path)
    ours, theirs = pty.openpty()
    command = [str(COMMAND), "audit", "--root", str(root), "--no-names", "--watch", "--interval", "1s"]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    seen = b""
    asked = False
    with suppress(OSError):  # the end of a terminal is an error
        while part := os.read(ours, 65536):
            seen += part
            if not asked and len(re.findall(rb"the last \d\.\d s, again each 1 s; Ctrl-C ends it", seen)) >= 2:
                process.send_signal(signal.SIGINT)
                asked = True
    os.close(ours)
    assert process.wait(timeout=20) == 0
    assert b"too few periods" in seen
    assert b"\x1b[2K" in seen, "redrawn in place"
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; import slack.cli.audit.command; "
        "print([m for m in ('numpy', 'kubernetes', 'kopf', 'pydantic', 'yaml') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_levels_that_can_be_asked_for_are_the_cgroups_levels() -> None:
    assert [str(level) for level in LevelName] == [str(level) for level in CgroupLevel]


def test_the_agent_names_the_flag_that_is_wrong(run: Run) -> None:
    found = run("audit", "agent", "--interval", "never", "--controller", "http://elsewhere:1")
    assert found.code == 2
    assert "--interval: 'never' is not a duration" in found.stderr
    assert "--controller: " in found.stderr


def test_every_setting_of_the_processes_is_a_flag() -> None:
    import inspect

    from slack.cli.audit.processes import agent, controller
    from slack.process.settings import declared_settings
    from slack_operator.auditor.agent.settings import AgentSettings
    from slack_operator.auditor.controller.settings import ControllerSettings

    for command, settings in ((agent, AgentSettings), (controller, ControllerSettings)):
        flags = set(inspect.signature(command).parameters)
        assert flags == {found.name for found in declared_settings(settings)} | {"config"}
