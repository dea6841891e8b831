"""What the load watcher costs at 5,000 nodes: `python -m benchmarks.load_watcher`.

A made-up Prometheus in a process of its own answers each question with a series a node; the watcher's own process is
measured: CPU of a fetch of three windows, CPU a minute at the default interval, memory, the whole reply over HTTP, and
beside it what the standard library's json takes to write the same reply for each question, as upstream's does in Go.
"""

import http.client
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

import msgspec

from benchmarks.audit_view import resident_mib
from benchmarks.report import Report, Row, parser, say, show
from slack.loadwatcher.decoding import decode
from slack.loadwatcher.encoding import ReportFormat, encode
from slack.loadwatcher.node_names import KnownNode, NodeNames
from slack.loadwatcher.payload import RollupWindow
from slack.process.stopping import Stopping
from slack_operator.loadwatcher.process import LoadWatcher
from slack_operator.loadwatcher.settings import LoadWatcherSettings, Provider

TURNS = 10
WANTED_CPU_SECONDS = 0.5
WANTED_REPLY_MS = 10.0


def name(number: int) -> str:
    """Return a node's name, as long as those of a cloud."""
    return f"ip-10-{number // 250}-{number % 250}-7.eu-central-1.compute.internal"


def provide(nodes: int, told: Connection) -> None:
    """Be a Prometheus, until killed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
            now = time.time()
            seen = query.startswith("max by (nodename) (max_over_time(timestamp")
            result = [
                {
                    "metric": {"nodename": name(number)},
                    "value": [now, str(now - 5 if seen else 0.1 + number % 70 / 100 + now % 1 / 1e6)],
                }
                for number in range(nodes)
            ]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_port)
    server.serve_forever()


class Nodes:
    """A cluster's nodes, without a cluster."""

    def __init__(self, nodes: int) -> None:
        self._known = tuple(
            KnownNode(name(number), "", (f"10.0.{number >> 8}.{number & 255}",)) for number in range(nodes)
        )
        self._names = NodeNames.from_nodes(self._known)

    def names(self) -> NodeNames:
        """Return what they go by."""
        return self._names

    def stale(self) -> None:
        """They are known."""

    def known(self) -> tuple[KnownNode, ...]:
        """Return all of them."""
        return self._known


def milliseconds(work: Callable[[], object], turns: int = TURNS) -> float:
    """Return the median time of some work."""
    taken = []
    for _ in range(turns):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e3


def main() -> None:
    """Measure, and print tables."""
    options = parser("What the load watcher costs.")
    options.add_argument("--nodes", type=int, default=5000, help="how many; default 5000")
    chosen = options.parse_args()
    ours, theirs = multiprocessing.Pipe()
    provider = multiprocessing.get_context("spawn").Process(target=provide, args=(chosen.nodes, theirs), daemon=True)
    provider.start()
    settings = LoadWatcherSettings(
        provider=Provider.PROMETHEUS,
        address=f"http://127.0.0.1:{ours.recv()}",
        match_nodes=False,
        listen="127.0.0.1:0",
        api_listen="127.0.0.1:0",
    )
    say(f"{chosen.nodes} nodes")
    watcher = LoadWatcher(settings, Stopping())
    watcher.watcher._nodes = Nodes(chosen.nodes)
    watcher.start()
    fetches = []
    for _ in range(TURNS):
        watcher.watcher._fetch_due = 0.0
        began = time.process_time()
        watcher.watcher.fetch_due()
        fetches.append(time.process_time() - began)
    fetch_seconds = statistics.median(fetches)
    memory = resident_mib()
    shown = [Report("the watcher", [_row(chosen.nodes, fetch_seconds, settings.interval, memory)]), *_replies(watcher)]
    watcher.stop()
    provider.terminate()
    show(shown, chosen.output)


def _row(nodes: int, fetch_seconds: float, interval: float, memory: float) -> Row:
    return {
        "nodes": nodes,
        "fetch ms of CPU": fetch_seconds * 1e3,
        "CPU a minute s": fetch_seconds * 60 / interval,
        "wanted s": WANTED_CPU_SECONDS,
        "process MiB": memory,
    }


def _replies(watcher: LoadWatcher) -> tuple[Report, Report]:
    report = watcher.board.report(RollupWindow.FIFTEEN_MINUTES)
    assert report is not None
    bodies = {style: encode(report, style) for style in ReportFormat}
    rows: list[Row] = []
    served: list[Row] = []
    for style, body in bodies.items():
        plain = msgspec.to_builtins(msgspec.json.decode(body))
        rows.append(
            {
                "format": str(style),
                "size KiB": len(body) / 1024,
                "written, msgspec ms": milliseconds(lambda style=style: encode(report, style)),  # type: ignore[misc]
                "written, json ms": milliseconds(lambda plain=plain: json.dumps(plain).encode()),  # type: ignore[misc]
                "read, ours ms": milliseconds(lambda body=body: decode(body)),  # type: ignore[misc]
                "read, json ms": milliseconds(lambda body=body: json.loads(body)),  # type: ignore[misc]
            }
        )
    for headers, what in (({}, "GET /watcher"), ({"Accept-Encoding": "gzip"}, "GET /watcher, gzip")):
        reply = _get(watcher.api.port, headers)
        taken = milliseconds(lambda headers=headers: _get(watcher.api.port, headers), 30)  # type: ignore[misc]
        served.append(
            {"asked": what, "reply KiB": len(reply) / 1024, "p50 us": taken * 1e3, "wanted us": WANTED_REPLY_MS * 1e3}
        )
    return Report("a reply with all nodes, written and read", rows), Report("over HTTP", served)


def _get(port: int, headers: dict[str, str]) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/watcher", headers=headers)
        return connection.getresponse().read()
    finally:
        connection.close()


if __name__ == "__main__":
    main()
