"""What `record` and `tune --from-cluster` see of a real cluster is what happened there; so does Prometheus' history."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import HarnessError
from e2e.harness.monitoring.prometheus import PROGRAMS, Prometheus, promtool
from e2e.harness.objects import (
    create_all,
    deployment,
    pod,
    pods,
    priority_class,
    scale,
    tolerate,
    wait_for_running,
    wait_until,
)
from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace
from slack.simulator.traces.parquet import read_trace

COMMAND = Path(sys.executable).with_name("resource-slack")
TAINT = {"key": "dedicated", "value": "big", "effect": "NoSchedule"}
MIB = 1 << 20
SCRAPE_SECONDS = 2
RUN_SECONDS = 5


class Recorder:
    """`resource-slack record` as a process of its own."""

    def __init__(self, cluster: Backend, out: Path, *flags: str) -> None:
        self.out = out
        self._log = out.with_suffix(".log")
        command = [str(COMMAND), "record", f"--out={out}", f"--kubeconfig={cluster.kubeconfig}", *flags]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: "recording into" in self.said() or self._process.poll(), 30, "recording", state=self.said)

    def said(self) -> str:
        """What it has written to the terminal."""
        return self._log.read_text(encoding="utf-8")

    def trace(self) -> Trace:
        """The file as it is now."""
        return read_trace(self.out.read_bytes(), source=self.out.name)

    def wait_for_pods(self, count: int) -> None:
        """Wait until the file has so many pods."""
        wait_until(lambda: self.out.exists() and len(ours(self.trace())) == count, 20, f"{count} pods in the file")

    def end(self, how: signal.Signals | None = None, seconds: float = 60) -> int:
        """Send a signal, if any, and return the exit code."""
        if how is not None:
            self._process.send_signal(how)
        return self._process.wait(seconds)

    def leave(self) -> None:
        """Make sure that nothing of it stays."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@contextmanager
def recording(cluster: Backend, out: Path, *flags: str) -> Iterator[Recorder]:
    recorder = Recorder(cluster, out, *flags)
    try:
        yield recorder
    finally:
        recorder.leave()


def run(*arguments: str, codes: Iterable[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run the command; 3 is a plan's or tuning's own answer."""
    found = subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode in codes, found.stderr
    assert "Traceback" not in found.stderr
    return found


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    """Two nodes with four pods, all from before the recording's first second."""
    create_all(cluster.api, [kwok.node(f"old-{i}") for i in range(2)])
    cluster.api.create(priority_class("gold", 500))
    cluster.api.create(deployment("api", 4, cpu="500m", memory="256Mi"))
    wait_for_running(cluster.api, 4, 30, labelSelector="app=api")
    time.sleep(2)
    return cluster


def job(name: str, count: int) -> Json:
    form = pod(name, cpu="250m", memory="128Mi", restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {kwok.RUN_SECONDS: str(RUN_SECONDS)}},
                "spec": form["spec"],
            },
        },
    }


def let_things_happen(api: Api) -> None:
    """A deployment grows and shrinks, a job runs, and two pods wait for nodes that only they may use."""
    scale(api, "api", 6)
    api.create(job("crunch", 3))
    big: Json = {"nodeSelector": {"pool": "big"}, "tolerations": tolerate("dedicated"), "priority_class": "gold"}
    api.create(deployment("big", 2, cpu="3", memory="1Gi", **big))
    time.sleep(3)
    for name, boot_seconds in (("new-0", 2), ("new-1", 5)):
        api.create(kwok.node(name, labels={"pool": "big"}, taints=[TAINT], boot_seconds=boot_seconds))
    wait_for_running(api, 2, 30, labelSelector="app=big")
    wait_until(lambda: _phases(api, "crunch") == {"Succeeded": 3}, 30, "the job to end")
    scale(api, "api", 5)
    wait_for_running(api, 5, 30, labelSelector="app=api")


def _phases(api: Api, app: str) -> Counter[str]:
    return Counter(entry["status"]["phase"] for entry in pods(api, "default", labelSelector=f"app={app}"))


def _seconds(manifest: Json, kind: str) -> float:
    """Return the time from an object's creation to its condition, by the API's whole seconds."""
    at = next(
        condition["lastTransitionTime"] for condition in manifest["status"]["conditions"] if condition["type"] == kind
    )
    created = datetime.fromisoformat(manifest["metadata"]["creationTimestamp"])
    return (datetime.fromisoformat(at) - created).total_seconds()


def ours(trace: Trace) -> list[PodTraceRow]:
    """The test's pods: kind's cluster has some of its own."""
    return [row for row in trace.pods if row.namespace == "default"]


def by_workload(trace: Trace) -> dict[str, list[PodTraceRow]]:
    found: dict[str, list[PodTraceRow]] = {}
    for row in ours(trace):
        found.setdefault(row.workload, []).append(row)
    return found


def close(first: Iterable[float | None], second: Iterable[float | None], within: float) -> bool:
    """Say whether two sets of times agree, one by one in order; None agrees with None only."""
    ordered = [sorted(values, key=lambda value: (value is None, value or 0.0)) for values in (first, second)]
    pairs = zip(*ordered, strict=True)
    return all(a is b or (a is not None and b is not None and abs(a - b) <= within) for a, b in pairs)


def nodes_of(trace: Trace) -> dict[str, NodeTraceRow]:
    return {row.name: row for row in trace.nodes if row.name.startswith(("old-", "new-"))}


def test_a_recording_is_what_happened_and_can_be_tuned_from(loaded: Backend, tmp_path: Path) -> None:
    api, out = loaded.api, tmp_path / "trace.parquet"
    with recording(loaded, out, "--duration=25s") as recorder:
        let_things_happen(api)
        there = {entry["metadata"]["name"]: entry for entry in pods(api, "default")}
        assert recorder.end() == 0, recorder.said()
        assert f"{out}: 7 pods arrived and 2 nodes started in 0:00:2" in recorder.said(), recorder.said()
    trace = recorder.trace()
    rows = by_workload(trace)
    assert {name: len(found) for name, found in rows.items()} == {"deploy/api": 6, "deploy/big": 2, "job/crunch": 3}
    assert Counter(row.workload for row in ours(trace) if row.initial) == {"deploy/api": 4}
    sizes = {name: {(row.cpu_millis, row.memory_bytes) for row in found} for name, found in rows.items()}
    assert sizes == {
        "deploy/api": {(500, 256 * MIB)},
        "deploy/big": {(3000, 1024 * MIB)},
        "job/crunch": {(250, 128 * MIB)},
    }

    big = [entry for name, entry in there.items() if name.startswith("big-")]
    # From creation to binding: the API's times are whole seconds, the recording's its own clock's.
    assert close((row.bound_seconds for row in rows["deploy/big"]), (_seconds(pod, "PodScheduled") for pod in big), 1.5)
    assert {row.node for row in rows["deploy/big"]} == {"new-0", "new-1"}
    assert {row.priority for row in rows["deploy/big"]} == {500}
    assert all(row.bound_seconds is not None and row.bound_seconds < 2 for row in rows["job/crunch"])
    # kwok counts whole seconds too, and may be one early.
    assert close((row.life_seconds for row in rows["job/crunch"]), [RUN_SECONDS] * 3, 2.5)
    assert sum(row.life_seconds is not None for row in rows["deploy/api"]) == 1
    assert all(row.life_seconds is None for row in rows["deploy/big"])

    seen = nodes_of(trace)
    assert {name: row.initial for name, row in seen.items()} == {
        "old-0": True,
        "old-1": True,
        "new-0": False,
        "new-1": False,
    }
    for name in ("new-0", "new-1"):
        real = _seconds(api.get(f"/api/v1/nodes/{name}"), "Ready")
        assert close([seen[name].ready_seconds], [real], 1.5), (seen[name], real)
        assert json.loads(seen[name].taints_json) == [TAINT]

    flags = ("--seeds=1", "--step=0.5", "-o", "json")
    tuned = json.loads(run("tune", f"--from-trace={out}", *flags, codes=(0, 3)).stdout)
    assert tuned["curve"]
    scenario = tmp_path / "scenario.json"
    run("tune", f"--from-trace={out}", f"--scenario-only={scenario}")
    written = json.loads(scenario.read_text(encoding="utf-8"))
    assert sorted(f"{workload['ownerKind']}/{workload['name']}" for workload in _workloads(written)) == sorted(rows)
    groups = {group["labels"].get("pool"): group for group in written["nodeGroups"] if _size(group) == "4000m"}
    assert (groups[None]["initial"], groups["big"]["initial"], groups["big"]["taints"]) == (2, 0, [TAINT])

    live = run("tune", "--from-cluster", f"--kubeconfig={loaded.kubeconfig}", "--window=10m", *flags, codes=(0, 3))
    assert json.loads(live.stdout)["curve"]
    run("tune", "--from-cluster", f"--kubeconfig={loaded.kubeconfig}", "--window=10m", f"--scenario-only={scenario}")
    written = json.loads(scenario.read_text(encoding="utf-8"))
    arrived = {
        f"{workload['ownerKind']}/{workload['name']}": len(workload["arrivals"]["rows"])
        for workload in _workloads(written)
    }
    assert arrived == {"deploy/api": 5, "deploy/big": 2}, "what still runs, and nothing that has ended"


def _workloads(scenario: Json) -> list[Json]:
    return [workload for workload in scenario["workloads"] if workload["namespace"] == "default"]


def _size(group: Json) -> str:
    return str(group["allocatable"]["cpu"])


def test_a_killed_recording_leaves_a_file_that_can_be_read(loaded: Backend, tmp_path: Path) -> None:
    with recording(loaded, tmp_path / "trace.parquet") as recorder:
        recorder.wait_for_pods(4)
        loaded.api.create(pod("late"))
        recorder.wait_for_pods(5)
        assert recorder.end(signal.SIGKILL) == -signal.SIGKILL
    assert [row.workload for row in ours(recorder.trace()) if not row.initial] == ["pod/late"]
    run("tune", f"--from-trace={recorder.out}", "--seeds=1", "--step=0.5", "--largest=0.5", codes=(0, 3))


def test_sigterm_ends_a_recording_in_order(loaded: Backend, tmp_path: Path) -> None:
    with recording(loaded, tmp_path / "trace.parquet") as recorder:
        loaded.api.create(pod("late"))
        wait_for_running(loaded.api, 5, 20)
        time.sleep(0.5)
        assert recorder.end(signal.SIGTERM, seconds=15) == 0, recorder.said()
        assert "next: resource-slack tune --from-trace" in recorder.said()
    (row,) = (row for row in ours(recorder.trace()) if not row.initial)
    assert (row.workload, row.cpu_millis, row.life_seconds) == ("pod/late", 100, None)
    assert row.bound_seconds is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.log", "trace.parquet"]


def test_a_restarted_api_server_costs_nothing_that_is_still_there(loaded: Backend, tmp_path: Path) -> None:
    with recording(loaded, tmp_path / "trace.parquet") as recorder:
        loaded.api.create(pod("before"))
        recorder.wait_for_pods(5)
        loaded.restart_apiserver(crash=True, down_seconds=3)
        loaded.api.create(pod("after"))
        wait_until(
            lambda: loaded.api.get("/api/v1/namespaces/default/pods/after")["spec"].get("nodeName"), 30, "a node"
        )
        recorder.wait_for_pods(6)
        time.sleep(1)
        assert recorder.end(signal.SIGTERM, seconds=15) == 0, recorder.said()
    trace = recorder.trace()
    assert Counter(row.workload for row in ours(trace)) == {"deploy/api": 4, "pod/before": 1, "pod/after": 1}
    assert [row for row in trace.pods if row.life_seconds is not None] == []
    assert [row for row in trace.nodes if row.life_seconds is not None] == []
    assert all(row.bound_seconds is not None for row in trace.pods)


@pytest.fixture(scope="module")
def monitoring() -> None:
    """kube-state-metrics and Prometheus, if this machine can build them."""
    try:
        build.ensure(PROGRAMS)
    except HarnessError as error:
        pytest.skip(str(error))


def test_prometheus_history_is_the_recording_of_the_same_minutes(
    monitoring: None, loaded: Backend, tmp_path: Path
) -> None:
    with Prometheus(loaded, scrape_seconds=SCRAPE_SECONDS) as prometheus:
        prometheus.wait_for_scrape()
        with recording(loaded, tmp_path / "watched.parquet") as recorder:
            time.sleep(3)  # the two begin some seconds apart: nothing may happen in between
            let_things_happen(loaded.api)
            time.sleep(4 * SCRAPE_SECONDS)
            assert recorder.end(signal.SIGTERM) == 0
        watched = recorder.trace()
        out = tmp_path / "asked.parquet"
        back = round(time.time() - watched.started_at.timestamp()) + 1  # which the command takes to start
        found = run("record", f"--prometheus={prometheus.url}", f"--out={out}", f"--duration={back}s")
    asked = read_trace(out.read_bytes(), source=out.name)
    notes = [line for line in found.stderr.splitlines() if "note:" in line]
    assert notes == [] or loaded.name != "local", "everything is asked of kube-state-metrics, and the scheduler"

    differs = watched.started_at.timestamp() - asked.started_at.timestamp()
    assert abs(differs) <= 3
    seen, theirs = by_workload(watched), by_workload(asked)
    assert _facts(theirs) == _facts(seen)
    for name, rows in seen.items():
        other = theirs[name]
        came = [row.time_seconds for row in rows if not row.initial]
        assert close(came, [row.time_seconds - differs for row in other if not row.initial], 1.5), name
        # Whole seconds on one side, from creation and of binding.
        assert close((row.bound_seconds for row in rows), (row.bound_seconds for row in other), 2.0), name
        lives = [row.life_seconds for row in rows], [row.life_seconds for row in other]
        assert close(*lives, 2 * SCRAPE_SECONDS + 2), (name, lives)
    ours_nodes, their_nodes = nodes_of(watched), nodes_of(asked)
    assert ours_nodes.keys() == their_nodes.keys()
    for name, node in ours_nodes.items():
        other_node = their_nodes[name]
        assert _node_facts(other_node) == _node_facts(node)
        assert close([node.ready_seconds], [other_node.ready_seconds], 2 * SCRAPE_SECONDS + 1), name
    run("tune", f"--from-trace={out}", "--seeds=1", "--step=0.5", "--largest=0.5", codes=(0, 3))


def _facts(rows: dict[str, list[PodTraceRow]]) -> dict[str, Counter[tuple[Any, ...]]]:
    return {
        name: Counter(
            (
                row.cpu_millis,
                row.memory_bytes,
                row.requests_json,
                row.constraints_json,
                row.priority,
                row.initial,
                row.node,
            )
            for row in found
        )
        for name, found in rows.items()
    }


def _node_facts(row: NodeTraceRow) -> tuple[Any, ...]:
    labels = json.loads(row.labels_json)
    kept = {key: labels.get(key) for key in ("pool", "topology.kubernetes.io/zone", "kubernetes.io/arch")}
    return kept, row.taints_json, row.cpu_millis, row.memory_bytes, row.requests_json, row.daemon_json, row.initial


def test_what_a_plain_kube_state_metrics_does_not_show_is_said(
    monitoring: None, loaded: Backend, tmp_path: Path
) -> None:
    """As most people run it: no labels, no node selectors; and nobody scrapes the scheduler."""
    api = loaded.api
    api.create(kwok.node("new-0", labels={"pool": "big"}))
    api.create(pod("picky", nodeSelector={"pool": "big"}, priority_class="gold"))
    wait_for_running(api, 5, 30)
    with Prometheus(loaded, state_metrics_flags=(), scrape_seconds=SCRAPE_SECONDS, scheduler=False) as prometheus:
        prometheus.wait_for_scrape()
        checked = promtool("check", "config", str(prometheus.configuration))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        out = tmp_path / "asked.parquet"
        said = run("record", f"--prometheus={prometheus.url}", f"--out={out}", "--duration=5m").stderr
    assert "--metric-labels-allowlist=nodes=[*]" in said
    assert "--metric-opt-in-list=kube_pod_nodeselectors" in said
    assert "no values of the PriorityClasses gold: 0 is taken" in said
    rows = by_workload(read_trace(out.read_bytes(), source=out.name))
    assert (len(rows["deploy/api"]), rows["pod/picky"][0].constraints_json) == (4, "")
