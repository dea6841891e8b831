"""The scorer under test, as its users run it: the installed command, with the chart's rights; and a load of one's own.

`ServedLoad` is a load watcher whose figures the test sets, in the format of the Trimaran proposal.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml

from e2e.harness.api import Json
from e2e.harness.cluster import access
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import make_namespace
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

NAMESPACE = "resource-slack"
SCHEDULER = "resource-slack"
PROGRAM = str(Path(sys.executable).with_name("resource-slack"))
RIGHTS: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "resource-slack-scorer"},
    "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}],
}
"""Those of the chart."""

PATIENT_MS, DEFAULT_MS = 5000, 200
"""How long the scheduler waits for a score: on a busy machine, and by default. Who asks where a pod goes is patient."""
Figures = Mapping[str, tuple[float, float]]
"""By type, cpu or memory: mean and deviation in percent."""


class ServedLoad:
    """A load watcher whose figures are set.

    Usage:

        with ServedLoad() as load:
            load.show({"node-1": {"cpu": (20, 5), "memory": (30, 1)}})
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Figures] = {}
        self._age_seconds = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = outer.payload()
                self.send_response(200 if outer._nodes else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def show(self, nodes: Mapping[str, Figures], age_seconds: float = 0.0) -> None:
        """Tell these figures from now on, as of so long ago."""
        self._nodes, self._age_seconds = dict(nodes), age_seconds

    def payload(self) -> bytes:
        """Return what is told now."""
        end = int(time.time() - self._age_seconds)
        data = {
            name: {
                "metrics": [
                    {"name": f"host.{kind}.utilisation", "type": kind, "rollup": rollup, "value": value}
                    for kind, (mean, deviation) in figures.items()
                    for rollup, value in (("AVG", mean), ("STD", deviation))
                ],
                "tags": {},
                "metadata": {},
            }
            for name, figures in self._nodes.items()
        }
        window = {"duration": "5m", "start": end - 300, "end": end}
        return json.dumps({"timestamp": end, "window": window, "source": "Suite", "data": data}).encode()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Scorer:
    """One scorer process.

    Usage:

        with Scorer(cluster, load.url, [{"name": "TargetLoadPacking"}]) as scorer:
            cluster.restart_scheduler(configuration=scorer.scheduler_configuration())
    """

    def __init__(self, cluster: Backend, load: str, algorithms: list[Json], port: int = 0, **settings: Any) -> None:
        make_namespace(cluster.api, NAMESPACE)
        identity = cluster.service_account(NAMESPACE, "resource-slack-scorer")
        access.grant_manifests(cluster.api, identity, [RIGHTS])
        self.user = identity.user
        self.port, self.health_port = port or free_port(), free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        config = cluster.run_folder / f"scorer-{self.port}.yaml"
        document = {
            "load-watcher": load,
            "algorithms": algorithms,
            "refresh": "1s",
            "namespace": NAMESPACE,
            "extender-listen": f"{LOOPBACK}:{self.port}",
            "listen": f"{LOOPBACK}:{self.health_port}",
            "kubeconfig": str(identity.kubeconfig),
            **settings,
        }
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        self._filters = {"filter-above", "filter-memory-above"} & settings.keys()
        self.program = Program("scorer", [PROGRAM, "scorer", "serve", f"--config={config}"], cluster.run_folder)
        self._http = urllib3.PoolManager(timeout=5.0, retries=False)

    def scheduler_configuration(self, timeout_ms: int = DEFAULT_MS) -> Json:
        """Return what `scorer scheduler-config` prints for it."""
        command = [PROGRAM, "scorer", "scheduler-config", f"--url={self.url}", f"--scheduler-name={SCHEDULER}"]
        command += [f"--timeout-ms={timeout_ms}", *(["--filter"] if self._filters else [])]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        document: Json = yaml.safe_load(told.stdout)
        return document

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        """Return status and body of one request to the extender."""
        answer = self._http.request(method, f"{self.url}{path}", body=body)
        return answer.status, answer.data.decode()

    def prioritize(self, pod: Json, names: list[str]) -> dict[str, int]:
        """Return scores by node, as the scheduler would ask for them."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
        status, text = self.ask("POST", "/prioritize", body)
        assert status == 200, text
        return {entry["Host"]: entry["Score"] for entry in json.loads(text)}

    def explain(self, name: str, namespace: str = "default") -> Json | None:
        """Return why a pod went where it went; None while nothing is known of it."""
        status, text = self.ask("GET", f"/explain?namespace={namespace}&pod={name}")
        found: Json | None = json.loads(text) if status == 200 else None
        return found

    def health(self, path: str) -> tuple[int, str]:
        """Return status and body of /readyz, /healthz or /metrics; (0, '') while nobody answers."""
        try:
            answer = self._http.request("GET", f"http://{LOOPBACK}:{self.health_port}{path}")
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def metric(self, sample: str) -> float:
        """Return one sample, named as /metrics has it: `slack_scorer_falling_back`; 0 where it is not there."""
        lines = self.health("/metrics")[1].splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} ")), 0.0)

    def start(self) -> Self:
        """Start it, and wait until it has seen the cluster."""
        self.program.start()
        self.program.wait_until_ready(lambda: self.health("/readyz")[0] == 200, 90)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.program.stop()
