"""The audit's two sources that need no agent: kubelets behind an API server, and a Prometheus; fakes on loopback."""

import contextlib
import gzip
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from benchmarks.generator.scrapes import full_node, scrape
from slack.audit.findings.sample import CgroupNodeFacts, ReadError, Sampled
from slack.cli.audit import history as audit_prometheus
from slack.cli.audit.cadvisor import ClusterSource
from slack.cli.audit.history import PrometheusSource
from slack.cli.inputs import http_fetch
from slack.cli.terminal.problems import UserError
from slack.kube.kubeconfig import connect

BORN = 1_795_298_000.0
Reply = tuple[int, bytes]
Answer = Callable[[str], Reply]


class Fake:
    """A server that answers as `answer` says; requests are in `asked`."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[str] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.reply(self, self.path, answer)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                fake.reply(self, f"{self.path}?{body}", answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def reply(self, handler: BaseHTTPRequestHandler, path: str, answer: Answer) -> None:
        with self._lock:
            self.asked.append(path)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            code, body = answer(path)
            with contextlib.suppress(ConnectionError):
                handler.send_response(code)
                if "gzip" in handler.headers.get("Accept-Encoding", ""):
                    body = gzip.compress(body, 1)
                    handler.send_header("Content-Encoding", "gzip")
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)
        finally:
            with self._lock:
                self._now -= 1

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def faked(answer: Answer) -> Iterator[Fake]:
    fake = Fake(answer)
    try:
        yield fake
    finally:
        fake.stop()


def node(name: str, cpu: str = "8", kernel: str = "6.1.0-44-amd64") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": cpu}, "nodeInfo": {"kernelVersion": kernel}}}


def status(code: int, reason: str, message: str) -> Reply:
    return code, json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


def cluster(kubelets: dict[str, Callable[[], Reply]], **facts: dict[str, Any]) -> Answer:
    """An API server with these nodes."""

    def answer(path: str) -> Reply:
        if urlsplit(path).path == "/api/v1/nodes":
            return 200, json.dumps(
                {"metadata": {}, "items": [facts.get(name) or node(name) for name in kubelets]}
            ).encode()
        found = re.fullmatch(r"/api/v1/nodes/([^/]+)/proxy/metrics/cadvisor", path)
        return kubelets[unquote(found[1])]() if found else status(404, "NotFound", path)

    return answer


def healthy(pods: int = 3) -> Callable[[], Reply]:
    cgroups = full_node(pods, born=BORN)
    times = iter((BORN + 1000, BORN + 1060))
    return lambda: (200, scrape(cgroups, next(times)))


@contextlib.contextmanager
def source(folder: Path, answer: Answer, *nodes: str, concurrency: int = 16) -> Iterator[tuple[ClusterSource, Fake]]:
    with faked(answer) as fake:
        config = folder / "kubeconfig"
        config.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": fake.url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )
        found = ClusterSource(connect(config, None), nodes, concurrency=concurrency)
        try:
            yield found, fake
        finally:
            found.close()


def test_every_node_is_scraped_and_knows_its_cpus_and_kernel(tmp_path: Path) -> None:
    answer = cluster({"n1": healthy(), "n2": healthy()}, n2=node("n2", "3920m", "5.10.0-21"))
    with source(tmp_path, answer) as (found, _):
        before, after = found.sample(), found.sample()
    assert before.nodes == {
        "n1": CgroupNodeFacts(8, "6.1.0-44-amd64", hierarchy="v1"),
        "n2": CgroupNodeFacts(3, "5.10.0-21", hierarchy="v1"),
    }
    assert {sample.target.node for sample in after.samples} == {"n1", "n2"}
    assert (len(before.samples), before.troubles) == (len(after.samples), {})
    api = next(sample for sample in after.samples if sample.target.container == "c0")
    same = next(sample for sample in before.samples if sample.target.key == api.target.key)
    assert (api.periods - same.periods, api.at_seconds - same.at_seconds) == (600, 60.0)


def test_only_the_nodes_that_were_asked_for_are_scraped(tmp_path: Path) -> None:
    with source(tmp_path, cluster({"n1": healthy(), "n2": healthy()}), "n2") as (found, fake):
        assert {sample.target.node for sample in found.sample().samples} == {"n2"}
        assert [path for path in fake.asked if "proxy" in path] == ["/api/v1/nodes/n2/proxy/metrics/cadvisor"]
    with (
        source(tmp_path, cluster({"n1": healthy()}), "n9") as (found, _),
        pytest.raises(UserError, match=r"--node: there is no node 'n9' \(there are: n1\)"),
    ):
        found.sample()


def test_nodes_that_do_not_answer_are_counted_and_named_and_the_others_audited(tmp_path: Path) -> None:
    def dead() -> Reply:
        return status(503, "ServiceUnavailable", "error trying to reach service: dial tcp 10.0.0.9:10250: no route")

    with source(tmp_path, cluster({"n1": dead, "n2": healthy(), "n3": dead})) as (found, _):
        seen = found.sample()
    assert seen.troubles == {ReadError.NO_ANSWER: 2}
    assert seen.examples[ReadError.NO_ANSWER].startswith("n1: GET /api/v1/nodes/n1/proxy/metrics/cadvisor: 503 ")
    assert seen.examples[ReadError.NO_ANSWER].endswith("(also n3)")
    assert sorted(found.silent) == ["n1", "n3"]
    assert {sample.target.node for sample in seen.samples} == {"n2"}
    assert seen.nodes["n1"].cpus == 8


def test_a_missing_right_is_named_and_what_it_means_said(tmp_path: Path) -> None:
    def refused() -> Reply:
        return status(403, "Forbidden", 'nodes "n1" is forbidden: User "me" cannot get resource "nodes/proxy"')

    with source(tmp_path, cluster({"n1": refused, "n2": refused})) as (found, _), pytest.raises(UserError) as error:
        found.sample()
    assert 'User "me" cannot get resource "nodes/proxy"' in str(error.value)
    assert "needs `get` on nodes/proxy. That is a strong right" in str(error.value)
    with source(tmp_path, cluster({"n1": refused, "n2": healthy()})) as (found, _):
        assert found.sample().troubles == {ReadError.FORBIDDEN: 1}


def test_no_more_nodes_at_once_than_wanted(tmp_path: Path) -> None:
    def slow() -> Reply:
        time.sleep(0.05)
        return 200, scrape(full_node(1), BORN)

    with source(tmp_path, cluster({f"n{i}": slow for i in range(12)}), concurrency=3) as (found, fake):
        found.sample()
    assert fake.most_at_once == 3


def test_an_empty_or_foreign_answer_is_a_trouble_of_that_node(tmp_path: Path) -> None:
    kubelets = {"n1": lambda: (200, b""), "n2": lambda: (200, b"<html>"), "n3": healthy()}
    with source(tmp_path, cluster(kubelets)) as (found, _):
        seen = found.sample()
    assert seen.troubles[ReadError.EMPTY] == 2
    assert seen.examples[ReadError.EMPTY] == "n1: no byte"


def test_an_interrupt_does_not_wait_for_kubelets_that_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def hangs() -> Reply:
        release.wait(20)
        return 200, b""

    def interrupted(self: object, name: str) -> Callable[[float], None]:
        def tell(share: float) -> None:
            raise KeyboardInterrupt

        return tell

    monkeypatch.setattr("slack.cli.terminal.progress.ProgressSteps.add_step", interrupted)
    began = time.monotonic()
    with source(tmp_path, cluster({"n1": healthy(), "n2": hangs})) as (found, _):
        with pytest.raises(KeyboardInterrupt):
            found.sample()
        assert time.monotonic() - began < 5
        release.set()


LABELS = {"node": "n1", "namespace": "shop", "pod": "api-x", "id": f"/kubepods/burstable/pod8a4d/{'01' * 32}"}
VALUES = {
    "increase(container_cpu_cfs_periods_total": 600.0,
    "increase(container_cpu_cfs_throttled_periods_total": 300.0,
    "increase(container_cpu_cfs_throttled_seconds_total": 24.0,
    "increase(container_cpu_usage_seconds_total": 12.0,
    "(last_over_time(container_spec_cpu_quota": 20_000.0,
    "last_over_time(container_spec_cpu_period": 100_000.0,
    "quantile_over_time(0.99": 0.25,
}


class Metrics:
    """A Prometheus that knows one container in each namespace, and how much it can bear."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = namespaces or ("shop",)
        self.series = 100
        self.lag = 0.0
        self.without: tuple[str, ...] = ()
        self.most_seconds = 10**9
        self.most_namespaces = 10**9
        self.extra: dict[str, tuple[dict[str, str], float]] = {}
        self.asked: list[str] = []

    def __call__(self, path: str) -> Reply:
        query = parse_qs(urlsplit(path).query)["query"][0]
        self.asked.append(query)
        chosen = re.search(r'namespace=~"([^"]*)"', query)
        names = chosen[1].split("|") if chosen else self.namespaces
        window = max((int(found) for found in re.findall(r"\[(\d+)s", query)), default=0)
        planned = query.startswith("count by (namespace)")
        if (window > self.most_seconds or len(names) > self.most_namespaces) and "container" in query and not planned:
            return 422, b'{"status":"error","error":"query processing would load too many samples into memory"}'
        if any(name in query for name in self.without):
            return vector([])
        if planned:
            return vector([({"namespace": name}, self.series) for name in self.namespaces])
        if query.startswith("quantile(0.99, time()"):
            return vector([({}, self.lag)])
        for name, answer in self.extra.items():
            if name in query:
                return vector([answer])
        value = next(
            (VALUES[name] for name in VALUES if name in query and " > " not in query and " < " not in query), None
        )
        if value is None:
            return vector([])
        return vector([(LABELS | {"namespace": name, "container": "api", "id": f"{LABELS['id'][:-1]}{place}"}, value)
                       for place, name in enumerate(self.namespaces) if name in names])  # fmt: skip


def vector(found: list[tuple[dict[str, str], float]]) -> Reply:
    result = [{"metric": labels, "value": [0, str(value)]} for labels, value in found]
    return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def asked(metrics: Metrics, seconds: float = 300.0) -> tuple[PrometheusSource, Sampled, Sampled]:
    with faked(metrics) as fake:
        found = PrometheusSource(fake.url, seconds, clock=lambda: BORN)
        before, after = found.sample(), found.sample()
    return found, before, after


def test_a_prometheus_gives_a_pair_of_samples_with_one_round_of_questions() -> None:
    metrics = Metrics()
    metrics.extra = {"kube_node_info": ({"node": "n1", "kernel_version": "6.1.0"}, 1.0), "machine_cpu": (LABELS, 8.0)}
    found, before, after = asked(metrics)
    (zero,), (end,) = before.samples, after.samples
    assert (zero.periods, zero.at_seconds, end.at_seconds) == (0, BORN - 300, BORN)
    assert (end.periods, end.throttled, end.throttled_ns, end.quota_us) == (600, 300, 24_000_000_000, 20_000)
    assert after.nodes == {"n1": CgroupNodeFacts(8, "6.1.0")}
    assert found.p99_cores == {end.target.key: 0.25}
    assert len(metrics.asked) == len(set(metrics.asked)), "nothing is asked twice"


@pytest.mark.parametrize(("lag", "ends"), [(11.2, 12), (400.0, 75), (float("nan"), 0)])
def test_the_window_ends_where_nearly_all_series_have_values(lag: float, ends: int) -> None:
    metrics = Metrics()
    metrics.lag = lag
    _, before, after = asked(metrics)
    assert (before.samples[0].at_seconds, after.samples[0].at_seconds) == (BORN - ends - 300, BORN - ends)


def test_what_the_machine_trusts_is_read_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(wraps=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", made)
    http_fetch._trust_context.cache_clear()
    metrics = Metrics()
    asked(metrics)
    assert len(metrics.asked) > made.call_count == 1


def test_a_large_cluster_is_asked_for_in_bundles_of_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_prometheus, "MOST_SERIES", 250)
    metrics = Metrics("a", "b", "c", "d", "e")
    _, _, after = asked(metrics)
    assert [sample.target.namespace for sample in after.samples] == ["a", "b", "c", "d", "e"]
    rises = [query for query in metrics.asked if "increase(container_cpu_cfs_periods_total" in query]
    assert [query.partition('=~"')[2].partition('"')[0] for query in rises] == ["a|b", "c|d", "e"]


def test_too_much_is_halved_by_namespaces_and_then_by_time() -> None:
    metrics = Metrics("a", "b")
    metrics.most_namespaces, metrics.most_seconds = 1, 1900
    _, _, after = asked(metrics, 3600)
    rises = [query for query in metrics.asked if "increase(container_cpu_cfs_periods_total" in query]
    found = [(query.partition('=~"')[2].partition('"')[0], query.partition("[")[2][:4]) for query in rises]
    whole_then_halves = [(name, seconds) for name in "ab" for seconds in ("3600", "1800", "1800")]
    assert found == [("", "3600"), *whole_then_halves]
    assert [(sample.target.namespace, sample.periods) for sample in after.samples] == [("a", 1200), ("b", 1200)]
    metrics.most_seconds = 10
    with pytest.raises(UserError, match="422 query processing would load too many samples"):
        asked(metrics, 3600)


class TwoClusters(Metrics):
    """A Prometheus of two clusters, of which it refuses to count so many series."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self.refused = refused

    def __call__(self, path: str) -> Reply:
        if parse_qs(urlsplit(path).query)["query"][0].startswith("count by (cluster)"):
            self.refused -= 1
            if self.refused >= 0:
                return 422, b'{"status":"error","error":"query processing would load too many samples into memory"}'
            return vector([({"cluster": "east"}, 5.0), ({"cluster": "west"}, 5.0)])
        return super().__call__(path)


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_clusters_are_told_apart_where_their_series_are_too_many_to_count(refused: int) -> None:
    found, _, _ = asked(TwoClusters(refused))
    assert "the label cluster has 2 values (east, west)" in " ".join(found.notes)


def test_a_prometheus_that_dropped_the_time_lost_is_told_which_rule_did_it() -> None:
    metrics = Metrics()
    metrics.without = ("throttled_seconds",)
    with pytest.raises(UserError, match=r"no container_cpu_cfs_throttled_seconds_total.*cAdvisorMetricRelabelings"):
        asked(metrics)
    metrics.without = ("container_",)
    with pytest.raises(UserError, match=r"has no container_cpu_cfs_periods_total in the last 300 s; are the kubelets'"):
        asked(metrics)


def test_without_specifications_the_limits_of_kube_state_metrics_are_taken_and_it_is_said() -> None:
    metrics = Metrics()
    metrics.without = ("container_spec",)
    metrics.extra = {"kube_pod_container_resource_limits": (LABELS | {"container": "api"}, 0.2)}
    found, _, after = asked(metrics)
    assert [sample.quota_us for sample in after.samples] == [20_000]
    assert any("the period is taken as 100 ms" in note for note in found.notes)


def _answered(value: object) -> bytes:
    result = [{"metric": {}, "value": value}]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((503, b"down"), "503 Service Unavailable"),
        ((200, b"<html>"), "the answer is not Prometheus'"),
        ((200, b"[]"), "the answer is not Prometheus' (parts are missing)"),
        ((200, _answered("x")), "the answer is not Prometheus' (a value in it is no pair of a time and a number)"),
        ((200, _answered([1, "x"])), "the answer is not Prometheus' (a value in it is no number: 'x')"),
    ],
)
def test_a_prometheus_that_cannot_help_is_told_as_record_tells_it(reply: Reply, said: str) -> None:
    with faked(lambda _: reply) as fake, pytest.raises(UserError, match=re.escape(said)) as error:
        PrometheusSource(fake.url.replace("//", "//me:s%40cret@")).sample()
    assert "cret" not in str(error.value)


def test_addresses_and_windows_that_are_none_are_refused_at_once() -> None:
    with pytest.raises(UserError, match="--prometheus: 'here' is no address"):
        PrometheusSource("here")
    with pytest.raises(UserError, match="--window: 30 s is too short"):
        PrometheusSource("http://localhost:9090", 30)
