"""The real kube-state-metrics and the real Prometheus beside one cluster, both on loopback.

Prometheus scrapes far more often than in production, so that a suite sees in a minute what else takes an hour. The
scheduler's own metrics (/metrics/resources: what pods request, and their priorities) are scraped where it runs here.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Self
from urllib.parse import urlencode

import urllib3
import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import HarnessError
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

PROGRAMS = ("kube-state-metrics", "prometheus", "promtool")
EVERYTHING = ("--metric-labels-allowlist=nodes=[*]", "--metric-opt-in-list=kube_pod_nodeselectors")
"""What kube-state-metrics tells only when it is asked to and `record` can use."""
_RESOURCES = "nodes,pods,replicasets,jobs"
_SECURE_PORT = "--secure-port="


class Prometheus:
    """kube-state-metrics, and a Prometheus that scrapes it.

    Usage:

        with Prometheus(cluster) as prometheus:
            ...
            prometheus.query("kube_pod_info")
    """

    def __init__(
        self,
        cluster: Backend,
        state_metrics_flags: Sequence[str] = EVERYTHING,
        scrape_seconds: int = 2,
        scheduler: bool = True,
    ) -> None:
        self._cluster = cluster
        self._flags = state_metrics_flags
        self._scrape_seconds = scrape_seconds
        self._scheduler = scheduler
        self._programs: list[Program] = []
        self._http = urllib3.PoolManager()
        self.url = ""
        self.configuration = cluster.run_folder / "prometheus.yaml"

    def start(self) -> Self:
        """Start both and wait until every target was scraped."""
        binaries = build.ensure(PROGRAMS)
        try:
            metrics_port = self._start_state_metrics(str(binaries["kube-state-metrics"]))
            self._start_prometheus(str(binaries["prometheus"]), metrics_port)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End both; what was scraped stays in the run folder."""
        for program in reversed(self._programs):
            program.stop()
        self._programs.clear()

    def query(self, expression: str) -> list[Json]:
        """Return the samples of an instant query: `{"metric": labels, "value": [time, text]}`."""
        answer = self._http.request("GET", f"{self.url}/api/v1/query?{urlencode({'query': expression})}", timeout=10.0)
        document: Any = json.loads(answer.data)
        if document["status"] != "success":
            raise HarnessError(f"{expression}: {document['error']}")
        found: list[Json] = document["data"]["result"]
        return found

    def wait_for_scrape(self) -> None:
        """Wait until every target was scraped after now."""
        now = time.time()
        wait_until(
            lambda: self.query("min(timestamp(up)) > bool " + str(now))[0]["value"][1] == "1",
            5 * self._scrape_seconds + 10,
            "the next scrape",
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_state_metrics(self, binary: str) -> int:
        port, telemetry = free_port(), free_port()
        user = self._cluster.user("kube-state-metrics", ["system:masters"])
        command = [
            binary,
            f"--kubeconfig={user.kubeconfig}",
            f"--host={LOOPBACK}",
            f"--port={port}",
            f"--telemetry-host={LOOPBACK}",
            f"--telemetry-port={telemetry}",
            f"--resources={_RESOURCES}",
            *self._flags,
        ]
        self._run("kube-state-metrics", command, f"http://{LOOPBACK}:{telemetry}/readyz")
        return port

    def _start_prometheus(self, binary: str, metrics_port: int) -> None:
        document = yaml.safe_dump(self._document(metrics_port), sort_keys=False)
        self.configuration.write_text(document, encoding="utf-8")
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        command = [
            binary,
            f"--config.file={self.configuration}",
            f"--storage.tsdb.path={self._cluster.run_folder / f'prometheus-{port}'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ]
        self._run("prometheus", command, f"{self.url}/-/ready")
        targets = 1 + (self._scheduler_target() is not None)
        wait_until(lambda: len(self.query("up == 1")) == targets, 30, "targets to be up", lambda: self.query("up"))

    def _document(self, metrics_port: int) -> Json:
        jobs: list[Json] = [
            # honor_labels: `pod` and `namespace` are the object's, as in the usual installations.
            {
                "job_name": "kube-state-metrics",
                "honor_labels": True,
                "static_configs": [{"targets": [f"{LOOPBACK}:{metrics_port}"]}],
            }
        ]
        target = self._scheduler_target()
        if target is not None:
            jobs.append(target)
        every = f"{self._scrape_seconds}s"
        # No shorter than the interval is allowed, and no longer either.
        return {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": jobs}

    def _scheduler_target(self) -> Json | None:
        if not self._scheduler or not isinstance(self._cluster, ControlPlane):
            return None
        flags = self._cluster.program("kube-scheduler").command
        port = next(flag.removeprefix(_SECURE_PORT) for flag in flags if flag.startswith(_SECURE_PORT))
        access = self._cluster.user("prometheus", ["system:masters"]).api
        return {
            "job_name": "kube-scheduler",
            "honor_labels": True,
            "scheme": "https",
            "metrics_path": "/metrics/resources",
            "tls_config": {
                "ca_file": str(access.authority),
                "cert_file": str(access.certificate),
                "key_file": str(access.key),
            },
            "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}],
        }

    def _run(self, name: str, command: list[str], ready: str) -> None:
        program = Program(name, command, self._cluster.run_folder).start()
        self._programs.append(program)
        program.wait_until_ready(partial(self._answers, ready), seconds=60)

    def _answers(self, url: str) -> bool:
        try:
            return self._http.request("GET", url, timeout=2.0, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool (`check rules FILE`, `test rules FILE`) and return what it said."""
    binary = build.ensure(["promtool"])["promtool"]
    return subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=120, check=False)
