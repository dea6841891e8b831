"""A minute of CPU throttling, seen three ways: two scrapes through an API server's proxy, two direct ones, Prometheus.

The kubelet is a stand-in whose counters grow with the clock as cAdvisor would show them; the Prometheus is a real one.
Its increase() extrapolates to the window's ends, so counts are near and ratios the same.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
import yaml

from benchmarks.generator.scrapes import Cgroup, full_node, scrape
from e2e.harness import build
from e2e.harness.errors import UnavailableError
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from slack.audit.findings.finding import Finding
from slack.audit.findings.sample import CgroupNodeFacts, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import WindowState, compare
from slack.audit.sources.cadvisor import scraped
from slack.cli.audit.cadvisor import ClusterSource
from slack.cli.audit.history import PrometheusSource
from slack.cli.terminal.problems import UserError
from slack.kube.kubeconfig import connect

NODE = "n1"
CPUS = 8
KERNEL = "6.1.0-44-amd64"
WINDOW_SECONDS = 60
SCRAPE_SECONDS = 2
STATE_METRICS = (
    f'kube_node_info{{node="{NODE}",kernel_version="{KERNEL}",internal_ip="{LOOPBACK}"}} 1\n'
    f'kube_node_status_capacity{{node="{NODE}",resource="cpu",unit="core"}} {CPUS}\n'
)


@pytest.fixture(autouse=True)
def _tools() -> None:
    try:
        build.ensure(["prometheus"])
    except UnavailableError as error:
        pytest.skip(str(error))


def node_of_pods() -> list[Cgroup]:
    """Ten pods, throttled more and more; three of them also have a limit of their own, above the containers'."""
    found = full_node(10, born=float(int(time.time())) - 7200)
    pods = [cgroup for cgroup in found if cgroup.pod and not cgroup.container and not cgroup.sandbox]
    limits = {cgroup.path: (place + 1) * 0.3 for place, cgroup in enumerate(pods[:3])}
    return [
        replace(cgroup, quota_us=60_000, throttled_share=limits[cgroup.path], stop_ms=55.0)
        if cgroup.path in limits
        else cgroup
        for cgroup in found
    ]


class Kubelet:
    """A kubelet's /metrics/cadvisor, and an API server in front of it."""

    def __init__(self, cgroups: list[Cgroup]) -> None:
        self.cgroups = cgroups
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = kubelet.answer(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # a Prometheus that stops does not read to the end
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, path: str) -> bytes:
        if path.partition("?")[0] == "/api/v1/nodes":
            status = {"capacity": {"cpu": str(CPUS)}, "nodeInfo": {"kernelVersion": KERNEL}}
            return json.dumps({"metadata": {}, "items": [{"metadata": {"name": NODE}, "status": status}]}).encode()
        if path in ("/metrics/cadvisor", f"/api/v1/nodes/{NODE}/proxy/metrics/cadvisor"):
            return scrape(self.cgroups, time.time(), cpus=CPUS, kernel=KERNEL)
        return STATE_METRICS.encode() if path == "/metrics" else b""

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    found = Kubelet(node_of_pods())
    yield found
    found.stop()


@contextmanager
def prometheus(kubelet: Kubelet, folder: Path, **cadvisor: Any) -> Iterator[str]:
    """The real one, which knows the kubelet by its address only."""
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    job: dict[str, Any] = {"honor_labels": True, "static_configs": [{"targets": [f"{LOOPBACK}:{kubelet.port}"]}]}
    document = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [
            job | {"job_name": "cadvisor", "metrics_path": "/metrics/cadvisor"} | cadvisor,
            job | {"job_name": "kube-state-metrics"},
        ],
    }
    configuration = folder / "prometheus.yaml"
    configuration.write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [
        str(build.ensure(["prometheus"])["prometheus"]),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    ]
    program = Program("prometheus", command, folder).start()
    try:
        program.wait_until_ready(partial(answers, f"{url}/-/ready"), seconds=60)
        wait_until(partial(has, url, "container_cpu_cfs_periods_total"), 30, "the first scrape")
        yield url
    finally:
        program.stop()


def answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=2.0, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def has(url: str, expression: str) -> bool:
    answer = urllib3.request(
        "GET", f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=5.0, retries=False
    )
    return bool(json.loads(answer.data)["data"]["result"])


def cluster(kubelet: Kubelet, folder: Path) -> ClusterSource:
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://{LOOPBACK}:{kubelet.port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return ClusterSource(connect(config, None))


def direct(kubelet: Kubelet) -> Sampled:
    found = scraped(kubelet.answer("/metrics/cadvisor"), NODE, time.time())
    return Sampled(
        found.samples, {NODE: CgroupNodeFacts(found.cpus, found.kernel_release)}, found.troubles, found.examples
    )


def findings(before: Sampled, after: Sampled) -> dict[tuple[str, str], Finding]:
    windows = compare(before, after)
    return {finding.window.target.key: finding for finding in judge(windows.windows, windows.nodes)}


def near(value: Callable[[Finding], float | None], within: float, *found: Finding) -> bool:
    values = [value(finding) or 0.0 for finding in found]
    return max(values) - min(values) <= within


def test_all_ways_to_look_at_one_minute_find_the_same(kubelet: Kubelet, tmp_path: Path) -> None:
    victim = next(cgroup for cgroup in kubelet.cgroups if cgroup.container == "c0" and cgroup.throttled_share > 0.5)
    with prometheus(kubelet, tmp_path) as url, closing(cluster(kubelet, tmp_path)) as source:
        time.sleep(12)  # cAdvisor's readings are 10 s apart: every series has two before the window begins
        began = source.sample(), direct(kubelet)
        time.sleep(WINDOW_SECONDS / 2)
        # A cgroup of the same path with counters that begin anew: increase() mends it, two scrapes cannot.
        again = replace(victim, born=time.time())
        kubelet.cgroups = [again if cgroup is victim else cgroup for cgroup in kubelet.cgroups]
        time.sleep(WINDOW_SECONDS / 2)
        ended = source.sample(), direct(kubelet)
        time.sleep(SCRAPE_SECONDS + 1)
        history = PrometheusSource(url, WINDOW_SECONDS)
        start, end = history.sample(), history.sample()
    assert end.troubles == {}, end.examples
    assert end.nodes == {NODE: CgroupNodeFacts(CPUS, KERNEL)}
    assert len(end.samples) == len(ended[0].samples) == len(ended[1].samples)

    scrapes, proxied, asked = findings(began[1], ended[1]), findings(began[0], ended[0]), findings(start, end)
    assert scrapes.keys() == proxied.keys() == asked.keys()
    restarted = (NODE, victim.path)
    assert proxied.pop(restarted).window.state is WindowState.RESET
    assert asked[restarted].window.state is WindowState.MEASURED
    measured = [key for key, finding in proxied.items() if finding.window.state is WindowState.MEASURED]
    assert len(measured) == 12, "nine containers beside the one that began anew, and three pods"
    for key, finding in proxied.items():
        three = (finding, scrapes[key], asked[key])
        assert {found.window.state for found in three} == {finding.window.state}, key
        assert len({found.severity for found in three}) == 1, key
        assert near(lambda found: found.throttled_ratio, 0.01, *three), key
        assert near(lambda found: found.lost_ratio, 0.05 * (finding.lost_ratio or 0.0) + 0.001, *three), key
        assert near(lambda found: found.use_cores, 0.05 * (finding.use_cores or 0.0), *three), key
        assert {found.window.quota_us for found in three} == {finding.window.quota_us}, key
        if (
            finding.window.state is WindowState.MEASURED
        ):  # windows differ by a reading of cAdvisor's: 60 s are six or seven
            assert near(lambda found: found.window.periods / found.window.seconds, 0.5, *three), key
    for key in measured:  # a rate over two minutes, of which there has been little more than one
        assert 0 < history.p99_cores[key] <= 1.05 * (proxied[key].use_cores or 0.0), key


def test_the_rules_of_a_usual_installation_are_seen_and_told(kubelet: Kubelet, tmp_path: Path) -> None:
    """kube-prometheus-stack drops these by default."""
    rule = {"source_labels": ["__name__"], "action": "drop", "regex": "container_cpu_cfs_throttled_seconds_total"}
    with prometheus(kubelet, tmp_path, metric_relabel_configs=[rule]) as url:
        wait_until(partial(has, url, "increase(container_cpu_cfs_periods_total[60s] offset 15s)"), 60, "two readings")
        with pytest.raises(UserError, match="cAdvisorMetricRelabelings"):
            PrometheusSource(url, WINDOW_SECONDS).sample()
