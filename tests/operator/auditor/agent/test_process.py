"""The agent as a process and in its parts: light, honest about what it cannot see, and gone when told to go."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slack.audit.api.messages import BurstOrder, ControllerAnswer, PodName
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError, Sample, Sampled
from slack.process.stopping import Stopping
from slack_operator.auditor.agent.observation import cpu_pressure_seconds
from slack_operator.auditor.agent.process import HEALTHY_SECONDS, AuditAgent
from slack_operator.auditor.agent.settings import AgentSettings

UID = "4c1f7a30-8b1e-4f0e-9d53-0a4ad5b7f0aa"
CONTAINER = "3a" * 32
MOST_IMPORTED_MIB = 34
"""What the agent takes before its first sample; 60 MiB are allowed with 1,503 cgroups."""


class Node:
    """A node of plain files with one container at 0.2 cores, half of whose periods are throttled."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cpu = root / "sys/fs/cgroup/cpu"
        self.container = self.cpu / f"kubepods/burstable/pod{UID}/{CONTAINER}"
        self.container.mkdir(parents=True)
        for directory in (self.cpu, *[self.cpu / path for path in ("kubepods", "kubepods/burstable")]):
            self.write(directory, quota_us=-1)
        self.write(self.container.parent, quota_us=-1)
        (root / "sys/devices/system/cpu").mkdir(parents=True)
        (root / "sys/devices/system/cpu/online").write_text("0-3\n")
        (root / "proc").mkdir()
        (root / "proc/version").write_text("Linux version 6.1.0-13-amd64 (debian-kernel@lists.debian.org)\n")
        self.periods = 0
        self.go_on(0)

    @staticmethod
    def write(directory: Path, quota_us: int, periods: int = 0) -> None:
        (directory / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
        (directory / "cpu.cfs_period_us").write_text("100000\n")
        (directory / "cpu.cfs_burst_us").write_text("0\n")
        (directory / "cpu.shares").write_text("1024\n")
        (directory / "cpu.stat").write_text(
            f"nr_periods {periods}\nnr_throttled {periods // 2}\nthrottled_time {periods * 40_000_000}\n"
        )

    def go_on(self, seconds: float) -> None:
        self.periods += round(seconds * 10)
        self.write(self.container, 20_000, self.periods)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


@contextmanager
def agent_on(node: Node, clock: Clock, **settings: object) -> Iterator[AuditAgent]:
    chosen = replace(
        AgentSettings(node="worker-1", root=node.root, listen="127.0.0.1:0", state_dir=node.root / "state"),
        **settings,  # type: ignore[arg-type]  # settings by name, of many types
    )
    agent = AuditAgent(chosen, Stopping(), clock=clock, wall=lambda: 1_700_000_000.0)
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()
    finally:
        connection.close()


def burst_of(node: Node) -> int:
    """The first number: unlike a file of the kernel's, a plain one keeps the rest of a longer one."""
    return int((node.container / "cpu.cfs_burst_us").read_text().split()[0])


def sampled_for(agent: AuditAgent, node: Node, clock: Clock, seconds: int) -> None:
    for _ in range(0, seconds, 10):
        agent.tick()
        clock.now += 10
        node.go_on(10)
    agent.tick()


def test_a_throttled_container_is_on_the_metrics_page_with_its_uid_until_it_has_a_name(node: Node) -> None:
    clock = Clock()
    with agent_on(node, clock) as agent:
        sampled_for(agent, node, clock, 60)
        series = f'{{container="{CONTAINER[:12]}",level="container",namespace="",pod="{UID}",window="5m"}}'
        _, page = get(agent.server.port, "/metrics")
        assert f"slack_audit_throttled_periods_ratio{series} 0.5\n" in page
        assert 'slack_audit_cgroups{state="measured"} 1.0\n' in page
        assert "slack_audit_node_cpus 4.0\n" in page
        assert "process_resident_memory_bytes" in page
        report = agent.watch.report()
        assert report is not None
        assert report.unnamed == (UID,)
        agent.watch.answer(
            ControllerAnswer(names={UID: PodName(namespace="shop", name="api-0", containers={CONTAINER: "api"})})
        )
        _, page = get(agent.server.port, "/metrics")
        series = '{container="api",level="container",namespace="shop",pod="api-0",window="5m"}'
        assert f"slack_audit_throttled_periods_ratio{series} 0.5\n" in page


def test_a_report_has_the_node_its_windows_and_the_throttled_rows(node: Node) -> None:
    clock = Clock()
    with agent_on(node, clock) as agent:
        assert agent.watch.report() is None
        sampled_for(agent, node, clock, 400)
        report = agent.watch.report()
    assert report is not None
    assert (report.node, report.cpus, report.hierarchy) == ("worker-1", 4, "v1")
    assert report.kernel_version.startswith("Linux version 6.1.0-13-amd64")
    assert report.at_unix == 1_700_000_000.0
    assert {name: round(window.seconds, -1) for name, window in report.windows.items()} == {
        "1m": 60,
        "5m": 300,
        "1h": 400,
    }
    row = next(row for row in report.windows["5m"].rows if row.container_id == CONTAINER)
    assert (row.throttled * 2, row.quota_us) == (row.periods, 20_000)


def test_where_only_the_cgroups_of_the_node_are_mounted_its_kernel_and_cpus_are_known_all_the_same(node: Node) -> None:
    """A DaemonSet without rights mounts /sys/fs/cgroup and nothing else; the kernel is the same for every container."""
    shutil.rmtree(node.root / "proc")
    shutil.rmtree(node.root / "sys/devices")
    with agent_on(node, Clock()) as agent:
        agent.tick()
        report = agent.watch.report()
    assert report is not None
    assert (report.cpus, report.kernel_release) == (os.cpu_count(), os.uname().release)
    assert report.kernel_version == os.uname().version


def test_it_is_ready_when_it_has_seen_cgroups_and_not_while_the_tree_is_away(node: Node) -> None:
    clock = Clock()
    with agent_on(node, clock) as agent:
        assert get(agent.server.port, "/readyz")[0] == 503
        agent.tick()
        assert get(agent.server.port, "/readyz") == (200, "ok\n")
        away = node.root.with_name("away")
        node.root.rename(away)
        clock.now += 60
        agent.tick()
        assert get(agent.server.port, "/readyz")[0] == 503
        assert get(agent.server.port, "/healthz") == (200, "ok\n")
        away.rename(node.root)
        clock.now += 60
        agent.tick()
        assert get(agent.server.port, "/readyz") == (200, "ok\n")


def test_it_starts_where_there_is_no_tree_yet_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = AuditAgent(AgentSettings(root=tmp_path, listen="127.0.0.1:0"), Stopping(), clock=Clock())
    agent.tick()
    agent.tick()
    assert sum(message.startswith("cannot sample: no cgroup cpu controller under") for message in caplog.messages) == 1
    assert "the log says why" in (agent.unready() or "")
    Node(tmp_path / "x").root.joinpath("sys").rename(tmp_path / "sys")
    agent.tick()
    assert agent.unready() is None


def test_files_that_are_damaged_are_counted_and_all_others_still_read(node: Node) -> None:
    clock = Clock()
    with agent_on(node, clock) as agent:
        sampled_for(agent, node, clock, 20)
        (node.container / "cpu.stat").write_text("nr_periods 12\nnr_thr")
        clock.now += 10
        agent.tick()
        _, page = get(agent.server.port, "/metrics")
        assert 'slack_audit_read_troubles_total{trouble="malformed"} 1.0\n' in page
        report = agent.watch.report()
        assert report is not None
        assert report.troubles[ReadError.MALFORMED] == 1
        assert "cpu.stat" in report.examples[ReadError.MALFORMED]
        node.go_on(30)
        clock.now += 10
        agent.tick()
        assert agent.watch.scrape().findings[0].throttled_ratio == 0.5


def test_a_thread_that_does_not_turn_any_more_is_not_healthy(node: Node) -> None:
    clock = Clock()
    with agent_on(node, clock) as agent:
        clock.now += HEALTHY_SECONDS + 11
        assert get(agent.server.port, "/healthz") == (503, "the loop that samples has not moved for 71 s\n")


def test_other_pages_and_other_methods_are_none_and_a_query_does_no_harm(node: Node) -> None:
    with agent_on(node, Clock()) as agent:
        assert get(agent.server.port, "/")[0] == 404
        assert get(agent.server.port, "/metrics", "POST")[0] == 501
        assert get(agent.server.port, "/healthz?verbose")[0] == 200


def test_an_order_is_obeyed_only_where_bursts_may_be_written_and_told_in_the_next_report(node: Node) -> None:
    clock = Clock()
    answer = ControllerAnswer(bursts=(BurstOrder(pod_uid=UID, container_id=CONTAINER, burst_us=15_000),))
    with agent_on(node, clock) as agent:
        agent.tick()
        agent.watch.answer(answer)
        agent.tick()
        assert burst_of(node) == 0
    with agent_on(node, clock, write_burst=True) as agent:
        agent.tick()
        agent.watch.answer(answer)
        agent.tick()
        assert burst_of(node) == 15_000
        report = agent.watch.report()
        assert report is not None
        assert [(burst.container_id, burst.burst_us, burst.error) for burst in report.bursts] == [
            (CONTAINER, 15_000, "")
        ]
        assert report.writes_bursts
    assert burst_of(node) == 15_000, "an agent that is replaced leaves its orders to the next"
    with agent_on(node, clock):
        assert burst_of(node) == 0, "one that may not write bursts puts them back"


def test_the_source_may_be_slow_without_samples_piling_up() -> None:
    class Slow:
        calls = 0

        def sample(self) -> Sampled:
            self.calls += 1
            clock.now += 35.0
            if self.calls == 3:
                stopping.request("enough")
            return Sampled(
                (Sample(CgroupTarget(CgroupLevel.NODE, "/"), clock.now, None, 0, 0, 0, 0),), {"": CgroupNodeFacts(1)}
            )

        def close(self) -> None:
            self.calls = -1

    clock, stopping, slow = Clock(), Stopping(), Slow()
    agent = AuditAgent(AgentSettings(listen="127.0.0.1:0"), stopping, source=slow, clock=clock)
    thread = threading.Thread(target=agent.run)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert clock.now == 1000.0 + 3 * 35
    agent.stop()
    assert slow.calls == -1


@pytest.mark.parametrize(
    "place", ["sys/fs/cgroup/cpu.pressure", "sys/fs/cgroup/unified/cpu.pressure", "proc/pressure/cpu"]
)
def test_the_pressure_of_the_node_is_read_wherever_the_kernel_has_it(tmp_path: Path, place: str) -> None:
    nowhere = tmp_path / "nowhere"
    assert cpu_pressure_seconds(tmp_path, nowhere) is None
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text(
        "some avg10=1.23 avg60=0.50 avg300=0.10 total=12500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert cpu_pressure_seconds(tmp_path, nowhere) == 12.5
    assert cpu_pressure_seconds(nowhere, file) == 12.5, "of a container that sees nothing of the node but its cgroups"
    file.write_text("some avg10=")
    assert cpu_pressure_seconds(tmp_path, nowhere) is None


def test_it_imports_none_of_the_heavy_libraries_and_takes_little_memory() -> None:
    code = (
        "import json, re, sys; import slack_operator.auditor.agent.process; "
        "rss = int(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1]); "
        "print(json.dumps([rss, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rss_kib, modules = json.loads(done.stdout)
    heavy = {"kubernetes", "kopf", "numpy", "pydantic", "aiohttp", "urllib3", "typer", "rich", "yaml", "slack.planner"}
    heavy |= {"slack.kube", "slack.cli"}
    assert heavy.isdisjoint(modules)
    assert {name for name in modules if name.startswith("slack.cluster.")} <= {"slack.cluster.duration"}
    assert rss_kib < MOST_IMPORTED_MIB * 1024


@pytest.mark.thorough
def test_the_command_becomes_an_agent_that_is_as_light(node: Node) -> None:
    """resource-slack audit agent: the command line's libraries, pydantic among them, must not stay."""
    program = Path(sys.executable).parent / "resource-slack"
    command = [str(program), "audit", "agent", "--root", str(node.root), "--listen", "127.0.0.1:0", "--no-write-burst"]
    started = subprocess.Popen([*command, "--log-format", "json"], stderr=subprocess.PIPE, text=True)
    try:
        until(started, "sampling")
        mapped = Path(f"/proc/{started.pid}/maps").read_text()
        assert "msgspec" in mapped
        assert "pydantic" not in mapped
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=20) == 0
    finally:
        started.kill()
        started.communicate()


@pytest.fixture
def process(node: Node) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "slack_operator.auditor.agent.process",
        f"--root={node.root}",
        "--listen=127.0.0.1:0",
    ]
    started = subprocess.Popen([*command, "--log-format=json", "--interval=1s"], stderr=subprocess.PIPE, text=True)
    yield started
    started.kill()
    started.communicate()


def until(process: subprocess.Popen[str], message: str) -> dict[str, object]:
    """Read the log up to a line."""
    assert process.stderr is not None
    for line in process.stderr:
        entry: dict[str, object] = json.loads(line)
        if entry["message"] == message:
            return entry
    raise AssertionError(f"the log has ended without {message!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_does_so_at_once_with_0(process: subprocess.Popen[str], number: int) -> None:
    until(process, "sampling")
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(timeout=20) == 0
    # a second where the machine has time, more where others want its CPUs too
    waits = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert time.monotonic() - began < 1.0 + waits


def test_an_address_that_is_taken_ends_it_with_2_and_words(process: subprocess.Popen[str], node: Node) -> None:
    port = until(process, "serving /healthz, /readyz and /metrics")["port"]
    command = [
        sys.executable,
        "-m",
        "slack_operator.auditor.agent.process",
        f"--root={node.root}",
        f"--listen=127.0.0.1:{port}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert f"--listen 127.0.0.1:{port}: cannot listen: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
