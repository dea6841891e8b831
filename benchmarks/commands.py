"""How long a person waits for a command: `--help`, `status`, `plan` of a large snapshot; this commit beside another.

Usage:
    python -m benchmarks.commands                     # both sides in turns, two minutes
    python -m benchmarks.commands --base HEAD~5 -o json

Beside them stands what Python itself takes for nothing, and for the libraries alone that a dry run cannot do without.
`status` asks a small server on loopback that knows one policy. The operator's process finds nobody at its server's
address and ends: it took what each start takes before it sees anything. Both sides run in turns with the same
interpreter and the same libraries; figures are the best of the runs, for everything else that a machine does only adds
to them.
Beside each command stands its goal, in seconds that a person waits on a core that does nothing else. That is its CPU
time: a command has one thread, and its server here answers at once.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.generator import Size, nodes, pods
from benchmarks.report import Report, parser, say, show

ROOT = Path(__file__).resolve().parents[1]
BASE = "2372eda"
"""The last commit before the commands' own help texts and the single pass through a snapshot."""
SNAPSHOT = Size(nodes=2_000, pods=17_100, workloads=600)
RUNS = 7
GOALS = {"resource-slack --help": 0.2, "resource-slack status": 0.5, "plan, 2,000 nodes, 17,100 pods": 0.8}
"""Seconds by command; the others have none."""
_POLICY = {
    "apiVersion": "resource-slack.io/v1alpha1",
    "kind": "SlackPolicy",
    "metadata": {"name": "web", "uid": "1", "generation": 1},
    "spec": {},
}


class Best(NamedTuple):
    """The least that a command took."""

    wall_seconds: float
    cpu_seconds: float


class _Handler(BaseHTTPRequestHandler):
    """Knows one policy and nothing else."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """An answer leaves in one piece: cut after its head, each waits 40 ms for an acknowledgement."""

    def do_GET(self) -> None:
        """Answer a read."""
        path = self.path.partition("?")[0]
        listing: Mapping[str, Any] = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}
        code = 200
        if path == "/version":
            answer: Mapping[str, Any] = {"gitVersion": "v1.36.0"}
        elif path.endswith("/slackpolicies"):
            answer = {**listing, "items": [_POLICY]}
        elif "/leases/" in path:
            code, answer = 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
        else:
            answer = listing
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _kubeconfig(address: str, folder: Path, name: str = "kubeconfig") -> Path:
    path = folder / name
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "a", "cluster": {"server": address}}],
                "users": [{"name": "a", "user": {}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a",
            }
        )
    )
    return path


def _snapshot(folder: Path) -> Path:
    """Write what `kubectl get nodes,pods -A -o json` prints of the cluster."""
    path = folder / "cluster.json"
    with path.open("wb") as file:
        file.write(b'{\n"apiVersion": "v1",\n"items": [\n')
        between = b""
        for kind, items in (("Node", nodes(SNAPSHOT)), ("Pod", pods(SNAPSHOT))):
            for item in items:
                file.write(between + msgspec.json.encode({"apiVersion": "v1", "kind": kind, **item}))
                between = b",\n"
        file.write(b'\n],\n"kind": "List"\n}\n')
    return path


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", base, commit], cwd=ROOT, check=True)
        try:
            yield base
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", base], cwd=ROOT, check=True)


def _run(code: str, checkout: Path, arguments: Sequence[str]) -> Best:
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "KUBE"))}
    environment["PYTHONPATH"] = f"{checkout}{os.pathsep}{checkout / 'operator'}"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        cwd=checkout,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Best(wall, cpu)


_COMMAND = "from slack.cli.main import main; main()"
_LIBRARIES = "import typer, pydantic, numpy, msgspec, rich.table"


def measure(base: Path, runs: int) -> Report:
    """Run everything on both sides in turns."""
    report = Report(f"Start of commands, best of {runs}; before: {base.name}")
    with tempfile.TemporaryDirectory() as name, _server() as address:
        folder = Path(name)
        say("writing a snapshot of 2,000 nodes and 17,100 pods")
        large, config = str(_snapshot(folder)), str(_kubeconfig(address, folder))
        nobody = str(_kubeconfig("http://127.0.0.1:9", folder, "nobody"))
        asked: dict[str, tuple[str, Sequence[str]]] = {
            "python -c pass": ("pass", ()),
            "the libraries of a dry run": (_LIBRARIES, ()),
            "resource-slack --help": (_COMMAND, ("--help",)),
            "resource-slack plan --help": (_COMMAND, ("plan", "--help")),
            "resource-slack status": (_COMMAND, ("status", "--kubeconfig", config)),
            "plan, 2,000 nodes, 17,100 pods": (_COMMAND, ("plan", "--snapshot", large)),
            "operator, until it asks an API server": (_COMMAND, ("operator", "--kubeconfig", nobody)),
        }
        for title, (code, arguments) in asked.items():
            say(title)
            found: dict[Path, list[Best]] = {base: [], ROOT: []}
            for number in range(runs + 1):
                for side, costs in found.items():
                    cost = _run(code, side, arguments)
                    if number:  # the first run of each writes bytecode
                        costs.append(cost)
            before, now = (
                Best(min(cost.wall_seconds for cost in costs), min(cost.cpu_seconds for cost in costs))
                for costs in found.values()
            )
            report.rows.append(
                {
                    "command": title,
                    "before s": before.wall_seconds,
                    "now s": now.wall_seconds,
                    "before CPU s": before.cpu_seconds,
                    "now CPU s": now.cpu_seconds,
                    "now to before ratio": now.wall_seconds / before.wall_seconds,
                    "CPU now to before ratio": now.cpu_seconds / before.cpu_seconds,
                    "goal s": GOALS.get(title),
                    "goal": _judged(GOALS.get(title), now.cpu_seconds),
                }
            )
    return report


def _judged(goal_seconds: float | None, seconds: float) -> str:
    if goal_seconds is None:
        return ""
    return "reached" if seconds <= goal_seconds else f"missed, {seconds / goal_seconds:.1f} times it"


def main() -> None:
    """Measure and print."""
    options = parser("How long a person waits for a command.")
    options.add_argument("--base", default=BASE, help="the commit of the other side")
    options.add_argument("--runs", type=int, default=RUNS)
    given = options.parse_args()
    with _checkout(given.base) as base:
        report = measure(base, given.runs)
    report.title = f"Start of commands, best of {given.runs}; before: {given.base}"
    show([report], given.output)


if __name__ == "__main__":
    main()
