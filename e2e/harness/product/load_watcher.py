"""The load watcher under test, as its users run it; beside a cluster it has the chart's rights."""

import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from e2e.harness.api import Json
from e2e.harness.cluster import access
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.ports import LOOPBACK, free_port, is_listening
from e2e.harness.processes import Program
from slack.loadwatcher.decoding import decode
from slack.loadwatcher.payload import LoadReport

NAMESPACE = "resource-slack"
QUICK = ("--interval=1s", "--step=1s")
RIGHTS: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "resource-slack-load"},
    "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]},
    ],
}
"""Those of the chart."""


class LoadWatcher:
    """One process.

    Usage:

        with LoadWatcher(folder, "--provider=prometheus", f"--address={prometheus.url}", nodes=3) as watcher:
            watcher.told()
    """

    def __init__(self, folder: Path, *flags: str, nodes: int, cluster: Backend | None = None) -> None:
        """One process, not started yet.

        Args:
            folder: of its log.
            flags: they win over those set here.
            nodes: how many it is to tell of.
            cluster: whose nodes names are matched to; none: names are taken as they are.
        """
        self.api, self.health = free_port(), free_port()
        self.url = f"http://{LOOPBACK}:{self.api}"
        self._nodes = nodes
        matching = ["--no-match-nodes"] if cluster is None else [f"--kubeconfig={_identity(cluster).kubeconfig}"]
        command = [
            *(sys.executable, "-P", "-m", "slack.cli.main"),
            *("load-watcher", "serve", f"--api-listen={LOOPBACK}:{self.api}", f"--listen={LOOPBACK}:{self.health}"),
            *(*matching, *QUICK, *flags),
        ]
        self.program = Program("load-watcher", command, folder)

    def start(self) -> Self:
        """Start it, and wait until it serves."""
        self.program.start()
        wait_until(lambda: is_listening(self.api), 60, "the load watcher to serve", self.log)
        return self

    def log(self) -> str:
        """Return the end of its log."""
        return self.program.log_path.read_text(errors="replace")[-2000:]

    def get(self, path: str, port: int = 0) -> tuple[int, bytes]:
        """Return status and body of one of its pages."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port or self.api}{path}", timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def report(self, path: str = "/watcher?window=5m") -> LoadReport | None:
        """Return what it tells; None where that is nothing."""
        status, body = self.get(path)
        return decode(body).report if status == 200 else None

    def told(self, seconds: float = 90.0, *, nodes: int | None = None) -> LoadReport:
        """Wait until it tells CPU and memory of all nodes, or of so many, and return that."""
        wanted = self._nodes if nodes is None else nodes

        def all_there() -> LoadReport | None:
            report = self.report()
            whole = [name for name, load in report.nodes.items() if len(load.metrics) >= 4] if report else []
            return report if len(whole) == wanted else None

        report = wait_until(all_there, seconds, f"{wanted} nodes to be told", self.log)
        assert report is not None
        return report

    def kill_in_its_next_write(self, state_file: Path, seconds: float = 60.0) -> None:
        """End it (SIGKILL) as soon as the log of its state file is written to."""
        log = state_file.with_name(state_file.name + "-wal")
        before = _changed_at(log)
        wait_until(lambda: _changed_at(log) != before, seconds, "a write of the state file", self.log, every=0.001)
        self.program.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.program.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.program.stop()


def _changed_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _identity(cluster: Backend) -> access.Access:
    make_namespace(cluster.api, NAMESPACE)
    identity = cluster.service_account(NAMESPACE, "resource-slack-load")
    access.grant_manifests(cluster.api, identity, [RIGHTS])
    return identity
