"""Memory of both companions in a large cluster, each its whole process: `python -m benchmarks.scoring.memory`.

`resource-slack scorer serve` lists and watches a generated cluster of 5,000 nodes and 150,000 pods from a local server
(`benchmarks.apiserver`), with the three windows of a load watcher and all algorithms; `benchmarks.load_watcher` has the
watcher's own. Peaks are those of the processes' lives, the first lists included.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import urllib3

from benchmarks.apiserver.server import Server
from benchmarks.generator import Size, scaled
from benchmarks.generator.pools import node_name
from benchmarks.report import Report, Row, parser, say, show
from benchmarks.usage import Usage, usage
from e2e.harness.errors import HarnessError
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from slack.loadwatcher.encoding import ReportFormat, encode
from slack.loadwatcher.payload import (
    WINDOWS,
    LoadReport,
    Metric,
    MetricType,
    NodeLoadFigures,
    Rollup,
    RollupWindow,
    Span,
)

SCORER_MIB = 200
WATCHER_MIB = 100
SYNC_SECONDS = 300.0
SETTLE_SECONDS = 20.0
"""For some refreshes and fetches."""
ROOT = Path(__file__).parents[2]
_ALGORITHMS = "TargetLoadPacking,LoadVariationRiskBalancing,LowRiskOverCommitment"
_MIB = 2**20


@contextmanager
def load_watcher(nodes: Sequence[str], style: ReportFormat = ReportFormat.PROPOSAL) -> Iterator[str]:
    """Serve windows of these nodes, which end when they are asked for; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            window = next((window for window in WINDOWS if f"window={window}" in self.path), WINDOWS[0])
            body = encode(_report(nodes, window), style)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _report(nodes: Sequence[str], window: RollupWindow) -> LoadReport:
    now = int(time.time())
    kinds = (MetricType.CPU, MetricType.MEMORY)
    loads = {
        node: NodeLoadFigures(
            tuple(
                Metric("use", kind, rollup, float(row % 70 + 1))
                for kind in kinds
                for rollup in (Rollup.AVG, Rollup.STD, Rollup.LATEST)
            ),
            {},
            {},
            now - 5,
        )
        for row, node in enumerate(nodes)
    }
    return LoadReport(now, Span(window, now - window.seconds, now), "benchmark", loads)


def scorer(server: Server, folder: Path, nodes: int) -> tuple[Usage, Usage, float]:
    """Run the scorer; return what it used when it first scored, once it has settled, and seconds to the first."""
    port = free_port()
    http = urllib3.PoolManager(timeout=5.0, retries=False)
    with load_watcher([node_name(node) for node in range(nodes)]) as address:
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            *("scorer", "serve", f"--kubeconfig={server.kubeconfig}", f"--listen={LOOPBACK}:{port}"),
            *(f"--extender-listen={LOOPBACK}:{free_port()}", f"--load-watcher={address}", "--refresh=5s"),
            f"--algorithms={_ALGORITHMS}",
        ]
        path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
        program = Program("scorer", command, folder, {"PYTHONPATH": path}).start()
        began = time.monotonic()

        def ready() -> bool:
            try:
                return http.request("GET", f"http://{LOOPBACK}:{port}/readyz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        try:
            program.wait_until_ready(ready, SYNC_SECONDS)
            seconds, first = time.monotonic() - began, usage(program.pid)
            time.sleep(SETTLE_SECONDS)
            return first, usage(program.pid), seconds
        finally:
            program.stop(seconds=15.0)


def _watcher_mib(nodes: int) -> float:
    """Return what the load watcher holds after some fetches and whole replies; its own process."""
    command = [sys.executable, "-m", "benchmarks.load_watcher", "--nodes", str(nodes), "-o", "json"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
    answer = subprocess.run(
        command, capture_output=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, timeout=300
    )
    return float(json.loads(answer.stdout)[0]["rows"][0]["process MiB"])


def measure(size: Size) -> list[Row]:
    """Measure both at one size."""
    with tempfile.TemporaryDirectory(prefix="resource-slack-memory-") as folder, Server(Path(folder), size) as server:
        say(f"{size.nodes} nodes, {size.pods} pods: the scorer")
        first, settled, seconds = scorer(server, Path(folder), size.nodes)
    say(f"{size.nodes} nodes: the load watcher")
    return [
        {
            "process": "scorer",
            "nodes": size.nodes,
            "pods": size.pods,
            "ready s": seconds,
            "resident MiB": settled.rss_bytes / _MIB,
            "peak MiB": settled.peak_bytes / _MIB,
            "wanted MiB": SCORER_MIB,
            "CPU a minute s": (settled.cpu_seconds - first.cpu_seconds) * 60 / SETTLE_SECONDS,
        },
        {
            "process": "load watcher",
            "nodes": size.nodes,
            "pods": None,
            "ready s": None,
            "resident MiB": _watcher_mib(size.nodes),
            "peak MiB": None,
            "wanted MiB": WATCHER_MIB,
            "CPU a minute s": None,
        },
    ]


def main() -> int:
    """Measure, and print a table."""
    options = parser("Memory of the scorer and of the load watcher.")
    options.add_argument("--share", type=float, default=1.0, help="of 5,000 nodes and 150,000 pods")
    asked = options.parse_args()
    try:
        found = Report("Memory of a whole process in a large cluster", measure(scaled(asked.share)))
    except HarnessError as error:
        say(str(error))
        return 1
    show([found], asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
