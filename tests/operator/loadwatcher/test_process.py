"""The load watcher's process: from a provider to a reply, whatever the provider, the clock and the disk do."""

import gzip
import http.client
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slack.loadwatcher.decoding import decode
from slack.loadwatcher.payload import MetricType, Rollup
from slack.process.running import CannotStart
from slack.process.stopping import Stopping
from slack_operator.loadwatcher.process import LoadWatcher, run
from slack_operator.loadwatcher.settings import LoadWatcherSettings, Provider, QuerySet, WireFormat
from slack_operator.loadwatcher.store import Store
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi, Reply, eventually
from tests.operator.loadwatcher.fakes import FakeProvider, Form, prometheus

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@contextmanager
def watcher_of(
    address: str | None, clock: Clock, stopping: Stopping | None = None, **settings: Any
) -> Iterator[LoadWatcher]:
    base = LoadWatcherSettings(
        provider=settings.pop("provider", Provider.PROMETHEUS),
        address=address,
        match_nodes=settings.pop("match_nodes", False),
        listen="127.0.0.1:0",
        api_listen="127.0.0.1:0",
        interval=30.0,
    )
    made = LoadWatcher(replace(base, **settings), stopping or Stopping(), clock=clock, wall=clock)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def turn(watcher: LoadWatcher, clock: Clock, seconds: float = 30.0) -> None:
    clock.now += seconds
    watcher.watcher.fetch_due()


def get(port: int, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, headers=headers or {})
        with connection.getresponse() as answer:
            return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def metric(watcher: LoadWatcher, series: str) -> float:
    page = get(watcher.health.port, "/metrics")[1].decode()
    return next(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(series + " "))


def test_nodes_use_is_served_by_window_and_by_node_as_the_source_says() -> None:
    clock = Clock()
    shares = {"node-1": 0.2, "10.0.0.2:9100": 0.4}
    with FakeProvider(prometheus(shares, seen_at=clock)) as fake:  # noqa: SIM117 - one line would be too long
        with watcher_of(fake.address, clock) as watcher:
            port = watcher.api.port
            assert get(port, "/watcher")[:2] == (404, b"No metrics found\n")
            assert get(port, "/watcher/health")[0] == 503
            assert get(port, "/analysis")[0] == 404
            watcher.watcher.fetch_due()
            status, body, headers = get(port, "/watcher")
            assert (status, headers["Content-Type"], headers["Content-Length"]) == (
                200,
                "application/json",
                str(len(body)),
            )
            report = decode(body).report
            assert report.source == "Prometheus"
            assert report.window.duration == "15m"
            assert sorted(report.nodes) == ["10.0.0.2", "node-1"]
            assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.AVG) == 20.0
            assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.STD) == 2.0
            assert report.nodes["node-1"].percent(MetricType.MEMORY, Rollup.LATEST) == 10.0
            for path in ("/watcher/node-1", "/watcher?host=node-1", "/watcher/10.0.0.2%3A9100", "/watcher/node-1/"):
                assert len(decode(get(port, path)[1]).report.nodes) == 1
            for window in ("15m", "10m", "5m"):
                assert decode(get(port, f"/watcher?window={window}")[1]).report.window.duration == window
                assert decode(get(port, f"/watcher/node-1?window={window}")[1]).report.window.duration == window
            assert get(port, "/watcher/node-9")[:2] == (404, b"No metrics found for host 'node-9'\n")
            assert get(port, "/watcher?window=7m")[0] == 400
            assert get(port, "/watcher?" + "a" * 3000)[0] == 400
            assert get(port, "/watcher/health")[:2] == (200, b"ok\n")
            assert get(port, "/nothing")[0] == 404
            assert get(port, "/watcher", method="HEAD")[1] == b""
            assert get(port, "/watcher", method="POST")[0] == 501


def test_replies_are_packed_for_those_who_take_it() -> None:
    clock = Clock()
    with FakeProvider(prometheus({"node-1": 0.2}, seen_at=clock)) as fake, watcher_of(fake.address, clock) as watcher:
        watcher.watcher.fetch_due()
        plain = get(watcher.api.port, "/watcher")[1]
        for _ in range(2):
            _, body, headers = get(watcher.api.port, "/watcher", {"Accept-Encoding": "gzip"})
            assert headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(body) == plain
        alone = get(watcher.api.port, "/watcher/node-1", {"Accept-Encoding": "gzip"})[1]
        assert list(decode(gzip.decompress(alone)).report.nodes) == ["node-1"]


def test_upstreams_nesting_is_written_when_asked_for() -> None:
    clock = Clock()
    with FakeProvider(prometheus({"node-1": 0.2}, seen_at=clock, label="instance")) as fake:
        settings: dict[str, Any] = {"format": WireFormat.UPSTREAM, "queries": QuerySet.UPSTREAM}
        with watcher_of(fake.address, clock, **settings) as watcher:
            watcher.watcher.fetch_due()
            shown = json.loads(get(watcher.api.port, "/watcher")[1])
            metrics = shown["data"]["NodeMetricsMap"]["node-1"]["metrics"]
            assert {(found["type"], found["operator"], found["rollup"]) for found in metrics} == {
                (kind, operator, "15m") for kind in ("CPU", "Memory") for operator in ("AVG", "STD")
            }
            told = json.loads(get(watcher.api.port, "/openapi.json")[1])
            assert set(told["paths"]) >= {"/watcher", "/watcher/{hostname}", "/watcher/health"}
            assert "operator" in told["components"]["schemas"]["Node"]["properties"]["metrics"]["items"]["properties"]


def test_a_provider_that_fails_leaves_what_was_fetched_until_it_is_too_old(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with FakeProvider(prometheus({"node-1": 0.2}, seen_at=clock)) as fake, watcher_of(fake.address, clock) as watcher:
        watcher.watcher.fetch_due()
        good, port = fake.answer, watcher.api.port
        fake.answer = lambda path, form: (503, b"<html>away</html>")
        turn(watcher, clock)
        assert get(port, "/watcher")[0] == 200
        status, said, _ = get(port, "/watcher/health")
        assert status == 503
        assert b"HTTP 503 <html>away</html>" in said
        assert "HTTP 503" in json.loads(get(port, "/analysis")[1])["error"]
        turn(watcher, clock, 271.0)
        assert get(port, "/watcher")[0] == 404
        assert watcher.unready() is not None
        assert metric(watcher, 'slack_load_watcher_fetches_total{outcome="failed"}') == 2
        assert metric(watcher, 'slack_load_watcher_query_errors_total{type="cpu"}') == 2
        fake.answer = good
        turn(watcher, clock)
        assert get(port, "/watcher/health")[0] == 200
        assert json.loads(get(port, "/analysis")[1])["error"] is None
    assert caplog.text.count("no figures: ") == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b""), "not Prometheus'"),
        ((200, b"x" * (1 << 20)), "not Prometheus'"),
        ((400, b'{"status":"error","error":"parse error"}'), "it says: parse error"),
        ((401, b"who are you?\x1b[31m"), "HTTP 401 who are you?"),
        ((302, b""), "HTTP 302"),
    ],
)
def test_a_wrong_answer_is_told_in_words_and_nothing_is_served(answer: tuple[int, bytes], words: str) -> None:
    clock = Clock()
    with FakeProvider(lambda path, form: answer) as fake, watcher_of(fake.address, clock) as watcher:
        watcher.watcher.fetch_due()
        assert watcher.watcher.error is not None
        assert words in watcher.watcher.error
        assert "\x1b" not in watcher.watcher.error
        assert get(watcher.api.port, "/watcher")[0] == 404


def test_an_answer_without_end_and_a_provider_that_is_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("slack_operator.loadwatcher.http_source.MOST_BYTES", 1 << 20)
    with FakeProvider(lambda path, form: (200, b" " * (70 << 20))) as fake:
        with watcher_of(fake.address, clock) as watcher:
            watcher.watcher.fetch_due()
            assert "longer than" in str(watcher.watcher.error)
        address = fake.address
    with watcher_of(address, clock) as watcher:
        watcher.watcher.fetch_due()
        assert "no answer" in str(watcher.watcher.error)


def test_bad_series_are_dropped_counted_and_named() -> None:
    clock = Clock()
    shares = {"good": 0.2, "nan": float("nan"), "negative": -0.2}
    with FakeProvider(prometheus(shares, seen_at=clock)) as fake, watcher_of(fake.address, clock) as watcher:
        watcher.watcher.fetch_due()
        assert list(decode(get(watcher.api.port, "/watcher")[1]).report.nodes) == ["good"]
        dropped = json.loads(get(watcher.api.port, "/analysis")[1])["dropped"]
        assert {(found["node"], found["type"], found["reason"]) for found in dropped} == {
            (node, kind, reason)
            for node, reason in (("nan", "NotANumber"), ("negative", "Negative"))
            for kind in ("cpu", "memory")
        }
        assert metric(watcher, 'slack_load_watcher_dropped_series{reason="NotANumber"}') == 2
        assert metric(watcher, 'slack_load_watcher_nodes{state="measured"}') == 1


def test_a_clock_that_jumps_silences_the_watcher_and_does_not_confuse_it() -> None:
    clock, there = Clock(), Clock()
    with FakeProvider(prometheus({"n": 0.2}, seen_at=there)) as fake, watcher_of(fake.address, clock) as watcher:
        watcher.watcher.fetch_due()
        for jump in (3600.0, -7200.0):
            clock.now += jump
            assert get(watcher.api.port, "/watcher")[0] == 404
        clock.now = NOW + 31
        watcher.watcher.fetch_due()
        assert get(watcher.api.port, "/watcher")[0] == 200


def test_token_and_headers_go_out_and_into_no_message(tmp_path: Path) -> None:
    clock = Clock()
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    extra: dict[str, Any] = {"token_file": token, "headers": {"X-Scope-OrgID": "team-a"}}
    with FakeProvider(prometheus({"n": 0.2}, seen_at=clock)) as fake:
        with watcher_of(fake.address, clock, **extra) as watcher:
            watcher.watcher.fetch_due()
            sent = fake.asked[0][2]
            assert (sent["Authorization"], sent["X-Scope-OrgID"]) == ("Bearer s3cret", "team-a")
            for content, words in ((b"\xff", "is no text"), (b"", "holds no token"), (None, "No such file")):
                token.unlink() if content is None else token.write_bytes(content)
                turn(watcher, clock)
                assert words in str(watcher.watcher.error)
                assert "s3cret" not in str(watcher.watcher.error)
        token.write_text("s3cret")
        with watcher_of(fake.address, clock, username="me", **extra) as watcher:
            watcher.watcher.fetch_due()
            assert fake.asked[-1][2]["Authorization"] == "Basic bWU6czNjcmV0"


def test_an_influxdb_is_asked_in_its_own_words() -> None:
    clock = Clock()

    def answer(path: str, form: Form) -> tuple[int, bytes]:
        assert (path, form["db"], form["epoch"]) == ("/query", "telegraf", "s")
        latest = "last(" in form["q"]
        columns = ["time", "latest"] if latest else ["time", "avg", "std"]
        row = [clock.now - 5, 0.3] if latest else [0, 0.25, 0.05]
        series = [{"tags": {"host": "node-1"}, "columns": columns, "values": [row]}]
        return 200, json.dumps({"results": [{"series": series}]}).encode()

    with FakeProvider(answer) as fake, watcher_of(fake.address, clock, provider=Provider.INFLUXDB) as watcher:
        watcher.watcher.fetch_due()
        report = decode(get(watcher.api.port, "/watcher")[1]).report
        assert report.source == "InfluxDB"
        assert report.nodes["node-1"].percent(MetricType.MEMORY, Rollup.STD) == 5.0
        assert report.observed_at("node-1") == NOW - 5
        fake.answer = lambda path, form: (200, b'{"error":"database not found"}')
        turn(watcher, clock)
        assert "database not found" in str(watcher.watcher.error)


def test_what_is_optional_may_fail_and_costs_itself(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    good = prometheus({"node-1": 0.2}, seen_at=clock)

    def answer(path: str, form: Form) -> tuple[int, bytes]:
        if "my:disk" in form["query"]:
            return 200, b'{"status":"error","error":"no rule"}'
        given: tuple[int, bytes] = good(path, form)
        return given

    with FakeProvider(answer) as fake, watcher_of(fake.address, clock, disk_query="my:disk") as watcher:
        watcher.watcher.fetch_due()
        assert get(watcher.api.port, "/watcher/health")[0] == 200
        assert metric(watcher, 'slack_load_watcher_query_errors_total{type="disk"}') == 8
    assert "disk is left out" in caplog.text


def node(name: str, address: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"{name}-host"}},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "addresses": [{"type": "InternalIP", "address": address}],
        },
    }


def sampled(clock: Clock, *usages: tuple[str, str, str]) -> Reply:
    at = datetime.fromtimestamp(clock.now, UTC).isoformat().replace("+00:00", "Z")
    items = [
        {"metadata": {"name": name}, "timestamp": at, "usage": {"cpu": cpu, "memory": memory}}
        for name, cpu, memory in usages
    ]
    return Reply(200, {"kind": "NodeMetricsList", "items": items})


_METRICS = "list"  # nodes themselves are watched


@contextmanager
def metrics_server(api: FakeApi, clock: Clock, folder: Path, **settings: Any) -> Iterator[LoadWatcher]:
    more = {"provider": Provider.METRICS_SERVER, "match_nodes": True, "kubeconfig": config(api, folder), **settings}
    api.script("version", Reply(200, {"gitVersion": "v1.36.3"}))
    with watcher_of(None, clock, **more) as watcher:
        eventually(lambda: watcher._cluster is not None and watcher._cluster.stale() is None)
        yield watcher


def test_metrics_server_is_sampled_so_that_averages_and_deviations_are_real(tmp_path: Path) -> None:
    clock = Clock()
    state = tmp_path / "state.sqlite"
    with FakeApi() as api:
        api.put("/api/v1/nodes/node-1", **node("node-1", "10.0.0.1"))
        api.put("/api/v1/nodes/node-2", **node("node-2", "10.0.0.2"))
        with metrics_server(api, clock, tmp_path, state_file=state) as watcher:
            for millis in (1000, 2000, 3000):
                api.script(_METRICS, sampled(clock, ("node-1", f"{millis}m", "2Gi"), ("stranger", "1", "1Gi")))
                watcher.watcher.fetch_due()
                clock.now += 15.0
            clock.now += 15.0
            api.script(_METRICS, Reply.status(404, "NotFound"))
            watcher.watcher.fetch_due()
            assert "is metrics-server installed?" in str(watcher.watcher.error)
            report = decode(get(watcher.api.port, "/watcher")[1]).report
            assert report.window.duration == "5m"
            assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.AVG) == 50.0
            assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.STD) == pytest.approx(20.4124, abs=1e-3)
            assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.LATEST) == 75.0
            assert get(watcher.api.port, "/watcher/node-1-host")[0] == 200
            assert json.loads(get(watcher.api.port, "/analysis")[1])["unknown"] == ["node-2"]
            assert metric(watcher, 'slack_load_watcher_nodes{state="unknown"}') == 1
        with metrics_server(api, clock, tmp_path, state_file=state) as watcher:
            api.script(_METRICS, sampled(clock, ("node-1", "4", "2Gi")))
            watcher.watcher.fetch_due()
            load = decode(get(watcher.api.port, "/watcher")[1]).report.nodes["node-1"]
            assert load.percent(MetricType.CPU, Rollup.AVG) == 62.5
            api.remove("/api/v1/nodes/node-1")
            eventually(lambda: "node-1" not in watcher._view.nodes())


def test_nothing_is_fetched_while_nodes_are_not_known(tmp_path: Path) -> None:
    clock = Clock()
    with FakeApi() as api, FakeProvider(prometheus({"10.0.0.1:9100": 0.5}, seen_at=clock)) as fake:
        api.put("/api/v1/nodes/node-1", **node("node-1", "10.0.0.1"))
        api.script("version", Reply(200, {"gitVersion": "v1.36.3"}))
        settings: dict[str, Any] = {"match_nodes": True, "kubeconfig": config(api, tmp_path)}
        with watcher_of(fake.address, clock, **settings) as watcher:
            cluster = watcher._cluster
            assert cluster is not None
            eventually(lambda: cluster.stale() is None)
            watcher.watcher.fetch_due()
            assert list(decode(get(watcher.api.port, "/watcher")[1]).report.nodes) == ["node-1"]
            cluster.watches.stop()
            cluster.watches._stale_seconds = -1.0
            turn(watcher, clock)
            assert "nodes are not known" in str(watcher.watcher.error)


def test_windows_outlive_a_restart_unless_they_are_too_old(tmp_path: Path) -> None:
    clock = Clock()
    state = tmp_path / "state.sqlite"
    with FakeProvider(prometheus({"n": 0.2}, seen_at=clock)) as fake:
        with watcher_of(fake.address, clock, state_file=state) as watcher:
            watcher.watcher.fetch_due()
        for later, status in ((0.0, 200), (301.0, 404), (-400.0, 404)):
            clock.now = NOW + later
            with watcher_of(fake.address, clock, state_file=state) as watcher:
                assert get(watcher.api.port, "/watcher")[0] == status
                assert len(fake.asked) == 16


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 100, b"SQLite format 3\0torn"])
def test_a_torn_state_file_is_put_aside_and_said_so(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state.sqlite"
    state.write_bytes(content)
    clock = Clock()
    with FakeProvider(prometheus({"n": 0.2}, seen_at=clock)) as fake:
        with watcher_of(fake.address, clock, state_file=state) as watcher:
            watcher.watcher.fetch_due()
            assert metric(watcher, 'slack_load_watcher_state_errors_total{operation="put_aside"}') == 1
        with watcher_of(fake.address, clock, state_file=state) as watcher:
            assert get(watcher.api.port, "/watcher")[0] == 200
    assert (tmp_path / "state.sqlite.aside").read_bytes() == content
    assert "the state file was put aside" in caplog.text


def test_a_state_file_of_another_version_is_put_aside(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    with sqlite3.connect(state) as database:
        database.execute("PRAGMA user_version=7")
    database.close()
    clock = Clock()
    with FakeProvider(prometheus({}, seen_at=clock)) as fake, watcher_of(fake.address, clock, state_file=state):
        assert (tmp_path / "state.sqlite.aside").exists()


def test_a_state_file_belongs_to_one_process(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    clock = Clock()
    with FakeProvider(prometheus({}, seen_at=clock)) as fake, watcher_of(fake.address, clock, state_file=state):
        other = Store(state)
        with pytest.raises(CannotStart, match=r"--state-file .* another process has it open") as caught:
            other.open()
        assert caught.value.exit_code == 2


def test_a_full_disk_costs_the_state_file_and_not_the_watcher(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    state = tmp_path / "state.sqlite"
    clock = Clock()
    shares = {f"node-{index}": 0.2 for index in range(200)}
    with FakeProvider(prometheus(shares, seen_at=clock)) as fake:  # noqa: SIM117 - one line would be too long
        with watcher_of(fake.address, clock, state_file=state) as watcher:
            assert watcher._store is not None
            database = watcher._store._database
            assert database is not None
            database.execute("PRAGMA max_page_count=6")
            for _ in range(3):
                turn(watcher, clock, 61.0)
            assert get(watcher.api.port, "/watcher")[0] == 200
            assert metric(watcher, 'slack_load_watcher_state_errors_total{operation="write"}') == 3
            assert caplog.text.count("the state file cannot be used: database or disk is full") == 1
            database.execute("PRAGMA max_page_count=100000")
            turn(watcher, clock, 61.0)
    assert "the state file is written again" in caplog.text


def test_a_state_file_that_cannot_be_had_ends_the_start_with_the_flag(tmp_path: Path) -> None:
    settings = LoadWatcherSettings(
        provider=Provider.PROMETHEUS,
        address="http://127.0.0.1:1",
        match_nodes=False,
        listen="127.0.0.1:0",
        api_listen="127.0.0.1:0",
        state_file=tmp_path / "no" / "state",
    )
    assert run(settings) == 2
    taken = replace(settings, state_file=None, tls_cert_file=tmp_path / "a", tls_key_file=tmp_path / "b")
    assert run(taken) == 2


def test_the_loop_runs_until_it_is_told_to_stop() -> None:
    clock = Clock()
    stopping = Stopping()
    asked = []

    def answer(path: str, form: Form) -> tuple[int, bytes]:
        asked.append(path)
        stopping.request("enough")
        return 503, b""

    with FakeProvider(answer) as fake, watcher_of(fake.address, clock, stopping) as watcher:
        watcher.run()
        assert asked
        assert watcher.watcher.unhealthy() is None
        clock.now += 500
        assert watcher.watcher.unhealthy() == "the loop that fetches has not moved for 500 s"
