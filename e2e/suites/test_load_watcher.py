"""The load watcher's process beside a real Prometheus, and a real InfluxDB where there is one.

Exporters say what nodes use; what is served is held to that. Nothing here depends on the speed of the machine: shares
come from counters that go on by the clock, and each wait has a deadline.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from e2e.harness.monitoring.influxdb import MISSING, influxdb, write_shares
from e2e.harness.monitoring.node_load import LoadPrometheus, NodeExporters, NodeUse
from e2e.harness.objects import wait_until
from e2e.harness.processes import Program
from e2e.harness.product.load_watcher import LoadWatcher
from slack.loadwatcher.decoding import decode
from slack.loadwatcher.payload import MetricType, Rollup

SHARES = {"worker-1": (0.20, 0.50), "worker-2": (0.75, 0.25), "worker-3": (0.0, 0.10)}
watcher = partial(LoadWatcher, nodes=len(SHARES))


@pytest.fixture(scope="module")
def exporters() -> Iterator[NodeExporters]:
    with NodeExporters() as found:
        for index, (name, shares) in enumerate(SHARES.items()):
            found.add(name, f"10.0.0.{index + 1}").use(*shares)
        yield found


@pytest.fixture(scope="module")
def prometheus(exporters: NodeExporters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadPrometheus]:
    with LoadPrometheus(tmp_path_factory.mktemp("prometheus"), exporters) as found:
        found.wait_for_rates()
        yield found


@pytest.mark.core
def test_what_exporters_count_is_what_is_served(prometheus: LoadPrometheus, tmp_path: Path) -> None:
    with watcher(tmp_path, "--provider=prometheus", f"--address={prometheus.url}") as served:
        report = served.told()
        for name, (cpu, memory) in SHARES.items():
            load = report.nodes[name]
            assert load.percent(MetricType.CPU, Rollup.AVG) == pytest.approx(100 * cpu, abs=3)
            assert load.percent(MetricType.MEMORY, Rollup.AVG) == pytest.approx(100 * memory, abs=0.1)
            deviation = load.percent(MetricType.CPU, Rollup.STD)
            assert deviation is not None
            assert deviation < 5
            seen = report.observed_at(name)
            assert seen is not None
            assert 0 <= report.window.end - seen <= 30
        for window in ("15m", "10m", "5m"):
            asked = served.report(f"/watcher/worker-1?window={window}")
            assert asked is not None
            assert asked.window.duration == window
        assert served.get("/watcher/worker-9")[0] == 404
        assert served.get("/watcher/health")[0] == 200
        assert served.get("/readyz", served.health)[0] == 200
        page = served.get("/metrics", served.health)[1].decode()
        assert 'slack_load_watcher_nodes{state="measured"} 3.0' in page


def test_an_exporter_that_is_away_leaves_an_age_and_one_that_restarts_leaves_no_trace(
    prometheus: LoadPrometheus, exporters: NodeExporters, tmp_path: Path
) -> None:
    away, restarted = exporters.nodes["worker-1"], exporters.nodes["worker-2"]
    with watcher(tmp_path, "--provider=prometheus", f"--address={prometheus.url}", "--max-age=10s") as served:
        served.told()
        restarted.restart()
        away.answers = False
        try:
            report = served.told(nodes=2)
            assert sorted(report.nodes) == ["worker-2", "worker-3"]
            assert report.nodes["worker-2"].percent(MetricType.CPU, Rollup.AVG) == pytest.approx(75, abs=6)
            dropped = json.loads(served.get("/analysis")[1])["dropped"]
            assert {(found["series"], found["reason"]) for found in dropped} == {("worker-1", "Stale")}
            assert served.get("/watcher/worker-1")[0] == 404
        finally:
            away.answers = True
        served.told()


def test_an_address_that_goes_to_another_node_names_the_newer_one(
    prometheus: LoadPrometheus, exporters: NodeExporters, tmp_path: Path
) -> None:
    moved: NodeUse = exporters.nodes["worker-3"]
    with watcher(tmp_path, "--provider=prometheus", f"--address={prometheus.url}") as served:
        served.told()
        moved.name = "worker-3b"
        try:
            wait_until(
                lambda: (found := served.report()) and "worker-3b" in found.nodes, 60, "the new name", served.log
            )
            report = served.told()
            assert sorted(report.nodes) == ["worker-1", "worker-2", "worker-3b"]
        finally:
            moved.name = "worker-3"
            wait_until(lambda: (found := served.report()) and "worker-3" in found.nodes, 60, "the old name", served.log)


@pytest.mark.core
def test_prometheus_may_go_and_the_watcher_may_be_killed_while_it_writes(
    exporters: NodeExporters, tmp_path: Path
) -> None:
    state = tmp_path / "state.sqlite"
    flags = ("--provider=prometheus", f"--state-file={state}")
    with LoadPrometheus(tmp_path, exporters) as prometheus:
        prometheus.wait_for_rates()
        with watcher(tmp_path, *flags, f"--address={prometheus.url}") as served:
            served.kill_in_its_next_write(state)
            served.start().told()
            served.program.kill()
        address = prometheus.url
    with watcher(tmp_path, *flags, f"--address={address}") as served:
        assert served.report() is not None, "what was known before the kill"
        wait_until(lambda: served.get("/watcher/health")[0] == 503, 30, "the trouble to be told", served.log)
        assert served.report() is not None


def test_queries_and_labels_of_ones_own_are_asked_and_told_as_upstream_nests_them(
    prometheus: LoadPrometheus, exporters: NodeExporters, tmp_path: Path
) -> None:
    queries = (
        "--cpu-query=1 - sum by (instance) (rate(node_cpu_seconds_total{mode='idle'}[1m])) "
        "/ sum by (instance) (rate(node_cpu_seconds_total[1m]))",
        "--node-label=instance",
    )
    memory = "--memory-query=1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
    address = f"--address={prometheus.url}"
    with watcher(tmp_path, "--provider=prometheus", address, *queries, memory, "--format=upstream") as served:
        report = served.told()
        assert sorted(report.nodes) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        assert report.nodes["10.0.0.2"].percent(MetricType.CPU, Rollup.AVG) == pytest.approx(75, abs=6)
        nested = json.loads(served.get("/watcher")[1])["data"]["NodeMetricsMap"]
        assert set(nested) == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_real_influxdb_is_read(tmp_path: Path) -> None:
    with influxdb(tmp_path) as address:
        now = int(time.time())
        write_shares(address, SHARES, range(now - 270, now + 1, 10))
        with watcher(tmp_path, "--provider=influxdb", f"--address={address}") as served:
            report = served.told()
            for name, (cpu, memory) in SHARES.items():
                load = report.nodes[name]
                assert load.percent(MetricType.CPU, Rollup.AVG) == pytest.approx(100 * cpu + 1, abs=0.2)
                assert load.percent(MetricType.CPU, Rollup.STD) == pytest.approx(1, abs=0.1)
                assert load.percent(MetricType.MEMORY, Rollup.LATEST) == pytest.approx(100 * memory, abs=0.01)


_WRITES = """
import sys
from pathlib import Path
from slack.loadwatcher.decoding import decode
from slack_operator.loadwatcher.store import Store
report = decode(Path(sys.argv[2]).read_bytes()).report
store = Store(Path(sys.argv[1]))
store.open()
print("writes", flush=True)
for turn in range(1_000_000):
    store.save({report.window.duration: report}, 100.0 * turn)
"""


def test_a_kill_during_a_write_leaves_what_was_written_before(
    prometheus: LoadPrometheus, exporters: NodeExporters, tmp_path: Path
) -> None:
    state, body = tmp_path / "state.sqlite", tmp_path / "report.json"
    with watcher(tmp_path, "--provider=prometheus", f"--address={prometheus.url}") as served:
        served.told()
        body.write_bytes(served.get("/watcher?window=5m")[1])
    writer = Program("writer", [sys.executable, "-P", "-c", _WRITES, str(state), str(body)], tmp_path)
    for turn in range(5):
        writer.start()
        wait_until(partial(_said, writer, turn + 1), 30, "the writer to write", writer.log_tail)
        time.sleep(0.05 + turn * 0.013)  # some hundred writes
        writer.kill()
        with closing(sqlite3.connect(state)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            (kept,) = database.execute("SELECT body FROM report").fetchone()
        assert sorted(decode(kept).report.nodes) == sorted(SHARES)
    assert not state.with_name(f"{state.name}.aside").exists()


def _said(writer: Program, times: int) -> bool:
    return writer.log_path.read_text(encoding="utf-8").count("writes\n") >= times
