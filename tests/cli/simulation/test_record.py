"""`record` against a fake API server and a fake Prometheus, both on the loopback interface."""

import base64
import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from slack.cli.inputs.prometheus_server import PrometheusServer
from slack.cli.simulation import record
from slack.cli.terminal.problems import UserError
from slack.process.atomic_write import write_atomically
from slack.simulator.traces.format import Trace
from slack.simulator.traces.parquet import read_trace
from tests.cli.conftest import COMMAND, Run
from tests.kube.fake_api import FakeApi, Reply, eventually

NODE = {
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "58"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def stamp(ago: float = 0.0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def put_node(api: FakeApi, name: str, ago: float = 600.0) -> None:
    status: dict[str, Any] = dict(NODE["status"])
    status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(ago)}]
    api.put(f"/api/v1/nodes/{name}", metadata={"creationTimestamp": stamp(ago)}, spec={}, status=status)


def put_pod(api: FakeApi, name: str, *, on: str = "", ago: float = 0.0) -> None:
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(ago)}] if on else []
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    api.put(
        f"/api/v1/namespaces/shop/pods/{name}",
        metadata={"creationTimestamp": stamp(ago)},
        spec={"nodeName": on, "containers": [{"resources": requests}]},
        status={"phase": "Pending", "conditions": scheduled},
    )


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        put_node(api, "n-0")
        put_pod(api, "old", on="n-0", ago=300)
        yield api


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
    }
    path.write_text(json.dumps(document))
    return path


class Recorder:
    """`record` in a thread, flushing often."""

    def __init__(self, api: FakeApi, out: Path) -> None:
        self.out = out
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._connection = api.connection()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            record.watch(self._connection, self.out, None, "resource-slack", self.stop, flush_seconds=0.05)
        except UserError as error:
            self.error = error

    def seen(self) -> Trace:
        return read_trace(self.out.read_bytes(), source="t")

    def rows(self, condition: Callable[[Trace], object]) -> Trace:
        """The first trace on disk for which the condition holds."""

        def holds() -> object:
            return self.out.exists() and self.out.stat().st_size and condition(self.seen())

        eventually(holds)
        return self.seen()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(5)
        self._connection.close()


@pytest.fixture
def recorder(api: FakeApi, tmp_path: Path) -> Iterator[Recorder]:
    running = Recorder(api, tmp_path / "trace.parquet")
    yield running
    running.end()


def test_what_comes_and_goes_is_on_disk_soon(api: FakeApi, recorder: Recorder) -> None:
    recorder.rows(lambda trace: trace.pods)
    put_pod(api, "new")
    recorder.rows(lambda trace: len(trace.pods) == 2)
    put_pod(api, "new", on="n-0")
    recorder.rows(lambda trace: trace.pods[1].bound_seconds is not None)
    api.remove("/api/v1/namespaces/shop/pods/new")
    put_node(api, "n-1", ago=0)
    trace = recorder.rows(lambda trace: trace.pods[1].life_seconds is not None and len(trace.nodes) == 2)
    old, new = trace.pods
    assert (old.initial, new.initial) == (True, False)
    assert new.bound_seconds is not None
    assert new.bound_seconds < 5
    assert (new.cpu_millis, new.memory_bytes, new.node) == (500, 1 << 30, "n-0")
    assert [node.initial for node in trace.nodes] == [True, False]


def test_it_reads_only(api: FakeApi, recorder: Recorder) -> None:
    recorder.rows(lambda trace: trace.pods)
    assert {seen.verb for seen in api.seen} <= {"list", "watch", "watchlist"}


def test_a_lost_api_server_costs_nothing_that_was_recorded(
    api: FakeApi, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    put_pod(api, "new", on="n-0")
    recorder.rows(lambda trace: len(trace.pods) == 2)
    api.stop()
    time.sleep(0.2)
    assert len(recorder.seen().pods) == 2
    api.remove("/api/v1/namespaces/shop/pods/new")
    api.start()
    recorder.rows(lambda trace: any(row.life_seconds is not None for row in trace.pods))


def test_a_full_disk_is_said_and_the_next_turn_writes_again(
    api: FakeApi, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.rows(lambda trace: trace.pods)
    before = len(recorder.seen().pods)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        put_pod(api, "new", on="n-0")
        time.sleep(0.3)
        assert len(recorder.seen().pods) == before
        # a turn that is being tried has its half-written file for a moment
        eventually(lambda: not [path for path in recorder.out.parent.iterdir() if path.suffix == ".part"])
    recorder.rows(lambda trace: len(trace.pods) == before + 1)
    said = capsys.readouterr().err
    assert "the disk is full; the file holds what was written before" in said


def test_a_disk_that_is_full_at_the_end_is_an_error(
    api: FakeApi, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.rows(lambda trace: trace.pods)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    recorder.end()
    assert "the disk is full" in str(recorder.error)
    monkeypatch.undo()
    assert recorder.seen().pods


def test_missing_permission_is_told_at_once(api: FakeApi, tmp_path: Path) -> None:
    api.script("watchlist", *[Reply.status(403, "Forbidden")] * 9)
    running = Recorder(api, tmp_path / "trace.parquet")
    eventually(lambda: running.error)
    running.end()
    assert "403" in str(running.error)
    assert "recording needs list and watch on pods and nodes" in str(running.error)


def test_the_command_records_for_a_while(run: Run, api: FakeApi, kubeconfig: Path, tmp_path: Path) -> None:
    found = run("record", "--out", "t.parquet", "--duration", "1s", "--kubeconfig", kubeconfig)
    assert (found.code, found.stdout) == (0, ""), found.stderr
    assert "next: resource-slack tune --from-trace t.parquet" in found.stderr
    assert len(read_trace((tmp_path / "t.parquet").read_bytes(), source="t").nodes) == 1


def test_a_recording_ends_in_time_whatever_becomes_of_the_server(
    run: Run, api: FakeApi, kubeconfig: Path, tmp_path: Path
) -> None:
    def die() -> None:
        eventually(lambda: (tmp_path / "t.parquet").exists())
        api.stop()

    killer = threading.Thread(target=die)
    killer.start()
    began = time.monotonic()
    found = run("record", "--out", "t.parquet", "--duration", "3s", "--kubeconfig", kubeconfig)
    killer.join()
    assert found.code == 0, found.stderr
    assert time.monotonic() - began < 3 + record.SYNC_SECONDS
    trace = read_trace((tmp_path / "t.parquet").read_bytes(), source="t")
    assert (len(trace.pods), len(trace.nodes)) == (1, 1)
    assert trace.pods[0].life_seconds is None  # nobody knows


def test_a_server_that_never_shows_the_cluster_has_the_duration_and_no_more(
    run: Run, api: FakeApi, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "SYNC_SECONDS", 0.2)
    api.script("watchlist", *[Reply(hang=True)] * 9)
    found = run("record", "--out", "t.parquet", "--duration", "1s", "--kubeconfig", kubeconfig)
    assert found.code == 2
    assert "no view of the cluster within 1 s; recording needs list and watch" in found.stderr
    assert not (tmp_path / "t.parquet").exists()


def test_an_interrupted_recording_ends_in_order(api: FakeApi, kubeconfig: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    command = [str(COMMAND), "record", "--out", str(out), "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "recording into" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert read_trace(out.read_bytes(), source="t").pods


def test_a_cluster_can_be_tuned_from_what_it_has_now(run: Run, api: FakeApi, kubeconfig: Path) -> None:
    args = [
        "--from-cluster",
        "--kubeconfig",
        kubeconfig,
        "--seeds",
        "1",
        "--step",
        "0.5",
        "-o",
        "json",
        "--processes",
        "1",
    ]
    found = run("tune", *args, "--window", "1m")
    assert (found.code, found.stdout) == (2, "")
    assert "--window: no pod that still runs came in the last 0:01:00" in found.stderr
    put_pod(api, "new", on="n-0", ago=30)
    found = run("tune", *args, "--window", "1m")
    assert found.code == 0, found.stderr
    assert json.loads(found.stdout)["reached"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--out", "there.parquet"], "--out: there.parquet is there already; add --overwrite"),
        (["--out", "."], "--out: . is a folder"),
        (["--out", "no/where.parquet"], "--out: no/where.parquet: no such file or directory"),
        (["--out", "9" * 5000], "999: file name too long"),
        (["--out", "a.parquet", "--duration", "soon"], "--duration: 'soon' is not a duration"),
        (["--out", "a.parquet", "--duration", "0s"], "--duration: must be longer than 0s"),
        (["--out", "a.parquet"], "no cluster given"),
        (["--out", "a.parquet", "--prometheus", "here"], "--prometheus: 'here' is no address"),
        (["--out", "a.parquet", "--prometheus", "http://x", "--context", "y"], "not both"),
        (["--out", "a.parquet", "--prometheus", "http://127.0.0.1:1"], "http://127.0.0.1:1: no answer"),
        (["--out", "a.parquet", "--prometheus", "http://me:secret@127.0.0.1:1"], "http://127.0.0.1:1: no answer"),
        (["--out", "a.parquet", "--prometheus", "http://me:secret@h:99999"], "'http://h:99999' is no address"),
    ],
)
def test_bad_flags_are_told_and_nothing_is_written(run: Run, tmp_path: Path, args: list[str], said: str) -> None:
    (tmp_path / "there.parquet").write_text("mine")
    found = run("record", *args)
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there.parquet"]
    assert (tmp_path / "there.parquet").read_text() == "mine"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")

    def broken(self: Path, target: Path) -> Path:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="input/output"):
        write_atomically(path, b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


class Prometheus(BaseHTTPRequestHandler):
    """Answers instant queries by the metric's name."""

    vectors: ClassVar[dict[str, list[tuple[dict[str, str], float]]]]
    reply: ClassVar[tuple[int, bytes] | None]
    asked: ClassVar[list[str]]
    authorization: ClassVar[set[str | None]]
    most_seconds: ClassVar[int] = 100_000
    cut_off_bytes: ClassVar[int] = 0
    dies_after_windows: ClassVar[int] = 1000

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        self.asked.append(query)
        self.authorization.add(self.headers["Authorization"])
        name = max((text for text in self.vectors if text in query), key=len, default="")
        if query.startswith("max_over_time(timestamp("):
            name += " last"
        result = [{"metric": labels, "value": [0, str(value)]} for labels, value in self.vectors.get(name, [])]
        answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
        code, body = self.reply or (200, json.dumps(answer).encode())
        if sum(asked.startswith("last_over_time(kube_pod_created") for asked in self.asked) > self.dies_after_windows:
            code, body = 503, b"gone"
        hours = re.search(r"\[(\d+)s", query)
        if hours and int(hours[1]) > self.most_seconds:
            code, body = 422, b'{"status":"error","error":"query processing would load too many samples into memory"}'
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) + self.cut_off_bytes))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def prometheus() -> Iterator[tuple[type[Prometheus], str]]:
    now = time.time()
    pod = {"namespace": "shop", "pod": "api-x", "uid": "1"}
    owner = {"created_by_kind": "ReplicaSet", "created_by_name": "api-5d8f7c9b6d", "node": "n-0"}

    class Bound(Prometheus):
        vectors: ClassVar = {
            "kube_node_created": [({"node": "n-0"}, now - 90_000)],
            "kube_node_created last": [({"node": "n-0"}, now)],
            "kube_node_status_allocatable": [
                ({"node": "n-0", "resource": resource}, value)
                for resource, value in (("cpu", 4.0), ("memory", 1.6e10), ("pods", 58.0))
            ],
            "kube_pod_created": [(pod, now - 1800)],
            "kube_pod_created last": [(pod, now)],
            "kube_pod_status_scheduled_time": [(pod, now - 1740)],
            "kube_pod_container_resource_requests": [({**pod, "container": "a", "resource": "cpu"}, 0.5)],
            "kube_pod_info": [({**pod, **owner}, 1.0)],
        }
        reply = None
        asked: ClassVar[list[str]] = []
        authorization: ClassVar[set[str | None]] = set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Bound, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_prometheus_history_becomes_a_trace(
    run: Run, prometheus: tuple[type[Prometheus], str], tmp_path: Path
) -> None:
    fake, url = prometheus
    found = run("record", "--prometheus", url, "--out", "t.parquet", "--duration", "150m", "--overwrite")
    assert (found.code, found.stdout) == (0, ""), found.stderr
    trace = read_trace((tmp_path / "t.parquet").read_bytes(), source="t")
    (pod,) = trace.pods
    assert (pod.workload, pod.cpu_millis, round(pod.bound_seconds or 0)) == ("deploy/api", 500, 60)
    assert trace.source == "prometheus"
    assert trace.nodes[0].initial
    assert "note: no node selectors: pods are taken to go everywhere" in found.stderr
    assert "--metric-opt-in-list=kube_pod_nodeselectors" in found.stderr
    asked = [query for query in fake.asked if query.startswith("last_over_time(kube_pod_created")]
    assert [query.split("[")[1] for query in asked] == ["3600s])", "3600s])", "1860s])"]


def test_a_password_is_sent_and_not_shown(run: Run, prometheus: tuple[type[Prometheus], str]) -> None:
    fake, url = prometheus
    found = run("record", "--prometheus", url.replace("//", "//me:s%40cret@"), "--out", "t.parquet", "--duration", "1h")
    assert found.code == 0, found.stderr
    assert fake.authorization == {f"Basic {base64.b64encode(b'me:s@cret').decode()}"}
    fake.cut_off_bytes = 5
    found = run("record", "--prometheus", url.replace("//", "//me:s%40cret@"), "--out", "u.parquet", "--duration", "1h")
    assert found.code == 2
    assert f"--prometheus: {url}: no answer: " in found.stderr
    assert "cret" not in found.stderr


def test_a_window_that_is_too_much_for_the_server_is_halved(
    run: Run, prometheus: tuple[type[Prometheus], str], tmp_path: Path
) -> None:
    fake, url = prometheus
    fake.most_seconds = 1000
    found = run("record", "--prometheus", url, "--out", "t.parquet", "--duration", "1h")
    assert found.code == 0, found.stderr
    asked = [query for query in fake.asked if query.startswith("last_over_time(kube_pod_created")]
    assert [query.split("[")[1] for query in asked][:5] == ["3600s])", "1800s])", *["900s])"] * 3]
    assert len(read_trace((tmp_path / "t.parquet").read_bytes(), source="t").pods) == 1
    fake.most_seconds = 1
    found = run("record", "--prometheus", url, "--out", "u.parquet", "--duration", "1h")
    assert found.code == 2
    assert "422 query processing would load too many samples" in found.stderr


def test_a_prometheus_that_fails_midway_leaves_what_was_read(
    run: Run, prometheus: tuple[type[Prometheus], str], tmp_path: Path
) -> None:
    fake, url = prometheus
    (pod, created), ago = fake.vectors["kube_pod_created"][0], 23.5 * 3600
    fake.vectors |= {"kube_pod_created": [(pod, created + 1800 - ago)], "kube_pod_status_scheduled_time": []}
    fake.dies_after_windows = 2
    found = run("record", "--prometheus", url, "--out", "t.parquet", "--duration", "24h")
    assert found.code == 2
    assert f"{url}: 503 Service Unavailable; t.parquet has only the first 1:59:00 of 1 day, 0:00:00" in found.stderr
    trace = read_trace((tmp_path / "t.parquet").read_bytes(), source="t")
    assert (len(trace.pods), len(trace.nodes), trace.seconds) == (1, 1, 7140.0)


def test_a_history_that_is_interrupted_keeps_what_was_read(
    run: Run, prometheus: tuple[type[Prometheus], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = prometheus
    ask, windows = PrometheusServer.vector, []

    def interrupted(self: PrometheusServer, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        windows.append(query) if query.startswith("last_over_time(kube_pod_created") else None
        if len(windows) > 1:
            raise KeyboardInterrupt
        return ask(self, query, at)

    monkeypatch.setattr(PrometheusServer, "vector", interrupted)
    found = run("record", "--prometheus", url, "--out", "t.parquet", "--duration", "5h")
    assert (found.code, "t.parquet has only the first 0:59:00 of 5:00:00" in found.stderr) == (130, True)
    assert read_trace((tmp_path / "t.parquet").read_bytes(), source="t").pods


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((503, b"down"), "503 Service Unavailable"),
        ((422, b'{"status":"error","error":"too many samples"}'), "422 too many samples"),
        ((200, b"<html>"), "the answer is not Prometheus'"),
        ((200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'), "has no kube_pod_created"),
    ],
)
def test_a_prometheus_that_cannot_help_is_told(
    run: Run, prometheus: tuple[type[Prometheus], str], tmp_path: Path, reply: tuple[int, bytes], said: str
) -> None:
    fake, url = prometheus
    fake.reply = reply
    found = run("record", "--prometheus", url, "--out", "t.parquet", "--duration", "1h")
    assert (found.code, found.stdout) == (2, "")
    assert said in found.stderr
    with contextlib.suppress(FileNotFoundError):
        raise AssertionError((tmp_path / "t.parquet").stat())
