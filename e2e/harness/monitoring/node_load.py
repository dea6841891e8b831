"""Nodes whose use a suite decides, as node_exporter tells it, and a real Prometheus that scrapes them.

One server stands for all exporters, a path each; Prometheus gets them as instances with addresses and ports, as in a
cluster. Scraped each second, so that a suite has windows in seconds; or with a history, so that windows are as long as
they say. Counters go on by the monotonic clock: what was used is exact whenever a scrape comes. `LoadOfPods` makes
nodes use what their pods do.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import urllib3
import yaml

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.errors import HarnessError
from e2e.harness.monitoring.node_prometheus import NodePrometheus
from e2e.harness.monitoring.prometheus import Prometheus, promtool
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port

_HISTORY_STEP_SECONDS = 5.0
KUBELET_PATH = "/kubelet/"
"""And the node's name: what its kubelet says of the same use."""
USES_CPU = "e2e.resource-slack/uses-cpu"
"""Annotation of a pod: the cores that it uses."""

Series = list[tuple[str, str, float]]
"""Name, labels and value of each."""


@dataclass
class NodeUse:
    """One node: what it uses now, and its counters so far."""

    name: str
    address: str
    cpus: int = 4
    cpu_share: float = 0.0
    memory_share: float = 0.0
    memory_swing: float = 0.0
    """Each second page tells so much more memory in use than `memory_share`, the others so much less."""
    answers: bool = True
    """Whether its exporter is there."""
    memory_bytes: int = 8 << 30
    _pages: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle_seconds: float = 0.0
    _user_seconds: float = 0.0
    _since: float = field(default_factory=time.monotonic)

    def use(self, cpu_share: float, memory_share: float) -> None:
        """Use other shares from now on."""
        with self._lock:
            self._count(time.monotonic())
            self.cpu_share, self.memory_share = cpu_share, memory_share

    def restart(self) -> None:
        """Begin counting anew, as after a reboot."""
        self._idle_seconds, self._user_seconds, self._since = 0.0, 0.0, time.monotonic()

    def page(self) -> str:
        """Return what its exporter says."""
        with self._lock:
            self._count(time.monotonic())
            series = self._series()
        return "".join(f"{name}{{{labels}}} {value:.6f}\n" for name, labels, value in series)

    def kubelet_page(self) -> str:
        """Return what its kubelet says at /metrics/resource."""
        with self._lock:
            self._count(time.monotonic())
            self._pages += 1
            swing = self.memory_swing if self._pages % 2 else -self.memory_swing
            used = {
                "node_cpu_usage_seconds_total": self._user_seconds * self.cpus,
                "node_memory_working_set_bytes": self.memory_bytes * (self.memory_share + swing),
            }
        return "".join(f"{name} {value:.6f}\n" for name, value in used.items())

    def history(self, start: float, end: float, step_seconds: float) -> Iterator[tuple[float, Series]]:
        """Use what it uses now from `start` to `end`, in Unix seconds; yield what its exporter said meanwhile."""
        at, self._since = start, 0.0
        while at < end:
            self._count(at - start)
            yield at, self._series()
            at += step_seconds
        self._since = time.monotonic()

    def _series(self) -> Series:
        self._pages += 1
        swing = self.memory_swing if self._pages % 2 else -self.memory_swing
        counters = (("idle", self._idle_seconds), ("user", self._user_seconds))
        return [
            *(
                ("node_cpu_seconds_total", f'cpu="{cpu}",mode="{mode}"', seconds)
                for cpu in range(self.cpus)
                for mode, seconds in counters
            ),
            ("node_memory_MemTotal_bytes", "", float(self.memory_bytes)),
            ("node_memory_MemAvailable_bytes", "", self.memory_bytes * (1 - self.memory_share - swing)),
            ("node_uname_info", f'nodename="{self.name}",sysname="Linux"', 1.0),
        ]

    def _count(self, now: float) -> None:
        self._idle_seconds += (now - self._since) * (1 - self.cpu_share)
        self._user_seconds += (now - self._since) * self.cpu_share
        self._since = now


class NodeExporters:
    """The exporters of all nodes.

    Usage:

        with NodeExporters() as exporters:
            exporters.add("node-1", "10.0.0.1").use(0.3, 0.5)
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeUse] = {}
        lock = self._lock = threading.Lock()
        nodes = self.nodes

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with lock:
                    node = nodes.get(self.path.removeprefix(KUBELET_PATH).strip("/"))
                    body = None
                    if node is not None and node.answers:
                        page = node.kubelet_page if self.path.startswith(KUBELET_PATH) else node.page
                        body = page().encode()
                self.send_response(200 if body is not None else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """Where they are served."""
        return self._server.server_port

    def add(self, name: str, address: str) -> NodeUse:
        """Add a node."""
        with self._lock:
            return self.nodes.setdefault(name, NodeUse(name, address))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="exporters", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class _Place:
    """What a Prometheus of its own needs of a cluster: nothing but a folder."""

    run_folder: Path


class LoadPrometheus(Prometheus):
    """A Prometheus that scrapes node exporters each second; needs no cluster."""

    def __init__(self, folder: Path, exporters: NodeExporters, history_seconds: float = 0.0) -> None:
        """Not started yet; with a history, nodes have used for so long what they use when it starts."""
        super().__init__(_Place(folder), scrape_seconds=1, scheduler=False)  # type: ignore[arg-type]
        self._exporters = exporters
        self._folder = folder
        self._history_seconds = history_seconds

    def start(self) -> Self:
        """Start it and wait until each exporter was scraped."""
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self.configuration.write_text(yaml.safe_dump(self._document(0)), encoding="utf-8")
        data = self._folder / f"prometheus-{port}"
        if self._history_seconds:
            self._write_history(data)
        command = [
            NodePrometheus.binary(),
            f"--config.file={self.configuration}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ]
        try:
            self._run("prometheus", command, f"{self.url}/-/ready")
            wanted = len(self._exporters.nodes)
            wait_until(lambda: len(self.query("up == 1")) == wanted, 30, "exporters to be scraped")
        except BaseException:
            self.stop()
            raise
        return self

    def wait_for_rates(self, seconds: float = 60.0) -> None:
        """Wait until each node's CPU has a rate."""
        wanted = len(self._exporters.nodes)
        asked = 'count(count by (instance) (rate(node_cpu_seconds_total{mode="idle"}[2m])))'
        enough: Callable[[], bool] = partial(self._is_at_least, asked, wanted)
        wait_until(enough, seconds, "rates of all nodes")

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._programs[-1].kill()

    def start_again(self) -> None:
        """Bring it back, at the same address with the same data."""
        self._programs[-1].start().wait_until_ready(partial(self._answers, f"{self.url}/-/ready"), 60)

    def _write_history(self, data: Path) -> None:
        end = time.time() - 1.0
        rows = [
            (name, _sample(name, labels, node), value, at)
            for node in self._exporters.nodes.values()
            for at, series in node.history(end - self._history_seconds, end, _HISTORY_STEP_SECONDS)
            for name, labels, value in series
        ]
        rows.sort(key=lambda row: (row[0], row[3]))
        text = "".join(f"{sample} {value:.6f} {at:.3f}\n" for _, sample, value, at in rows)
        path = self._folder / "history.txt"
        path.write_text(f"{text}# EOF\n", encoding="utf-8")
        made = promtool("tsdb", "create-blocks-from", "openmetrics", str(path), str(data))
        if made.returncode != 0:
            raise HarnessError(f"no history for Prometheus: {made.stderr[-500:]}")

    def _is_at_least(self, query: str, wanted: int) -> bool:
        found = self.query(query)
        return bool(found) and float(found[0]["value"][1]) >= wanted

    def _document(self, metrics_port: int) -> Json:
        targets = [
            {
                "targets": [f"{LOOPBACK}:{self._exporters.port}"],
                "labels": {"__metrics_path__": f"/{node.name}", "instance": f"{node.address}:9100"},
            }
            for node in self._exporters.nodes.values()
        ]
        job = {"job_name": "node-exporter", "static_configs": targets}
        return {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}


def _sample(name: str, labels: str, node: NodeUse) -> str:
    """Return a series' name and labels as they are once it was scraped."""
    target = f'instance="{node.address}:9100",job="node-exporter"'
    return f"{name}{{{labels},{target}}}" if labels else f"{name}{{{target}}}"


class LoadOfPods:
    """Has nodes use what they do without pods, and what the pods that are bound there say (`USES_CPU`).

    Usage:

        with LoadOfPods(api, exporters, {"node-1": 0.2}) as load:
            load.share("node-1")
    """

    def __init__(self, api: Api, exporters: NodeExporters, without_pods: Mapping[str, float]) -> None:
        self._api = api
        self._exporters = exporters
        self._without_pods = dict(without_pods)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="load of pods", daemon=True)

    def share(self, name: str) -> float:
        """Return the share of CPU that a node uses now."""
        return self._exporters.nodes[name].cpu_share

    def update(self) -> None:
        """Have nodes use what the pods of now do."""
        cores = dict.fromkeys(self._without_pods, 0.0)
        for pod in self._api.items("/api/v1/pods"):
            node = pod["spec"].get("nodeName")
            if node in cores:
                cores[node] += float(pod["metadata"].get("annotations", {}).get(USES_CPU, 0.0))
        for name, used in cores.items():
            node = self._exporters.nodes[name]
            share = min(1.0, self._without_pods[name] + used / node.cpus)
            if share != node.cpu_share:
                node.use(share, node.memory_share)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(0.3):
            try:
                self.update()
            except (ApiError, urllib3.exceptions.HTTPError):
                continue  # the API server is away: nothing is bound meanwhile
