"""/prioritize over loopback: our extender, and a standard library server with a loop over the nodes.

One client, one connection, one call at a time, as the scheduler asks. The client is Python's and decodes nothing; a
server shares the interpreter with it, on both sides alike: read the ratios.
"""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import quantiles
from typing import Any

from benchmarks.report import Report, Row
from benchmarks.scoring.handler import LISTED, NODES, NOW, TARGET_PERCENT, cluster
from slack.scorer.asgi import Extender
from slack.scorer.extender import ScoreReplies
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import DecisionRule
from slack.scorer.rules import Prediction
from slack.scorer.scoring import prepare
from slack_operator.scorer.cluster_view import ScorerView
from slack_operator.scorer.score_cache import ScoreBasis
from slack_operator.scorer.scores import LiveScores
from slack_operator.scorer.serving import ExtenderServer

HOST = "127.0.0.1"
TARGETS_MS = {LISTED: (1.0, 5.0), NODES: (8.0, 25.0)}
_RESOURCES = {"requests": {"cpu": "500m", "memory": "1G"}, "limits": {"cpu": "1", "memory": "2G"}}
POD = {
    "metadata": {"name": "api-x2x4z", "namespace": "shop", "uid": "1", "labels": {"app": "api"}},
    "spec": {"containers": [{"name": name, "image": "x", "resources": _RESOURCES} for name in ("api", "proxy")]},
    "status": {"phase": "Pending"},
}


class _Uncounted:
    def decided(self, rule: DecisionRule | None, nodes: int, unknown: int) -> None:
        """Nobody counts."""

    def all_above(self) -> None:
        """Nobody counts."""


def report(runs: int) -> Report:
    """Measure both sizes of a call, on both sides."""
    found = Report("POST /prioritize over loopback: uvicorn with all algorithms, stdlib with a loop and one of them")
    own = cluster()
    basis = prepare(own.algorithms, own.nodes, own.load, NOW)
    standing = ScoreBasis(basis, ScoreReplies(own.nodes.names), ())
    prediction = Prediction()
    view = ScorerView(lambda leave_out: ClusterState(lambda pod: demand_of(pod.spec, prediction), "s", 1.0, leave_out))
    scores = LiveScores(lambda: standing, view, lambda pod: demand_of(pod.spec, prediction), "s", _Uncounted())
    ours = ExtenderServer(HOST, 0, Extender(scores))
    ours.start()
    load = dict(zip(own.nodes.names, basis.usage.mean_percent[0].tolist(), strict=True))
    theirs = _standard_library(load)
    try:
        for listed in (LISTED, NODES):
            names = list(own.nodes.names[:: NODES // listed])
            found.rows.append(_row(listed, names, ours.port, theirs.server_address[1], runs))
    finally:
        ours.stop()
        theirs.shutdown()
        theirs.server_close()
    return found


def _row(listed: int, names: list[str], ours: int, theirs: int, runs: int) -> Row:
    body = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names}).encode()
    mine, other = _millis(ours, body, runs), _millis(theirs, body, runs)
    p50, p99 = TARGETS_MS[listed]
    return {
        "what": f"{listed:,} names",
        "least ms": min(mine),
        "p50 ms": at(mine, 50),
        "p99 ms": at(mine, 99),
        "target p50 ms": p50,
        "target p99 ms": p99,
        "stdlib p50 ms": at(other, 50),
        "stdlib p99 ms": at(other, 99),
    }


def at(millis: list[float], percentile: int) -> float:
    """Return a percentile."""
    return quantiles(millis, n=100, method="inclusive")[percentile - 1]


def _millis(port: int, body: bytes, runs: int) -> list[float]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    millis = []
    for run in range(runs + 5):
        began = time.perf_counter()
        connection.request("POST", "/prioritize", body)
        connection.getresponse().read()
        if run >= 5:
            millis.append((time.perf_counter() - began) * 1000.0)
    connection.close()
    return millis


def _standard_library(load: dict[str, float]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scores = [{"Host": name, "Score": _packing(load[name] + 6.0)} for name in asked["NodeNames"]]
            body = json.dumps(scores).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    return server


def _packing(utilization: float) -> int:
    target = TARGET_PERCENT
    if utilization <= target:
        return round((100 - target) * utilization / target + target)
    return round(target * (100 - utilization) / (100 - target)) if utilization <= 100 else 0
