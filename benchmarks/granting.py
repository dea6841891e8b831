"""From a slot that is free to the next grant at its gate: an agent with 500 pending containers, beside one that scans.

Usage:
    python -m benchmarks.granting                # one node, 506 pods, two rounds a side: 80 s

The agent is the shipped process: it follows pods and its policy at an API server, reads /proc, keeps its journal,
reports to a controller as often as that asks, and serves 506 gates over TLS. Milliseconds from before the API server
writes that a container is ready to when the gate of the next has read its grant: the watch, the decision, the journal
and both ends' TLS are in it, so "sent" is earlier by the way to the gate. *Scan* is the same process, but for a
decision that looks at all containers of the node for who is next. The server and the gates are this process.
"""

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest import mock

import yaml

from benchmarks.report import Report, Row, parser, say, show
from e2e.harness.cluster.certificates import Authority
from e2e.harness.json_patch import patched
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.product.gate_link import ConnectedLink
from slack.process import arguments
from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.injection import GateOptions, patch
from slack.throttler.limits import UNKNOWN_USAGE, Usage
from slack.throttler.model import Grant
from slack.throttler.protocol import AUDIENCE
from slack.throttler.reports.messages import ReportAnswer, encode
from slack_operator.throttler.agent import agent as agent_parts
from slack_operator.throttler.agent.process import run
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from tests.kube.fake_api import FakeApi, Reply

PENDING, SLOTS, ROUNDS = 500, 6, 2
TURNS = 490
"""A round: while so many are granted, the queue gets shorter; those that are ready stay."""
PAUSE_SECONDS = 0.02
"""Between two slots that become free: what the agent does after a grant is not the next one's wait."""
REPORT_SECONDS = 5.0
TARGET_P99_MS = 5.0
NAME = "agent"
_POLICY = "/apis/resource-slack.io/v1alpha1/throttlepolicies/default"
_OFF = dict.fromkeys(("maxLoadAverageMultiplier", "maxCPU", "maxIOPressure", "minRate", "maxRate"))
_OPTIONS = GateOptions(image="slack", agent_port=1, agent_name=NAME, authority="PEM")
_PROBED = {"name": "app", "readinessProbe": {"exec": {"command": ["true"]}}}


class Scanning(NodeThrottle):
    """A decision that looks at everything."""

    def grants(self, now: float, usage: Usage = UNKNOWN_USAGE) -> tuple[Grant, ...]:
        """Grant what may start, after a look at all for how many start and who has waited longest."""
        standing = [(self.waiting(key, now, usage), key) for key in self._records]
        starting = sum(waiting.state is StartState.STARTING for waiting, _ in standing)
        pending = min(
            ((waiting.since, key) for waiting, key in standing if waiting.state is StartState.PENDING), default=None
        )
        return super().grants(now, usage) if pending is not None and starting < SLOTS else ()


class _Controller(BaseHTTPRequestHandler):
    """Takes reports, and asks for more as the controller does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = encode(ReportAnswer(every_seconds=60.0, moving_seconds=REPORT_SECONDS))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def agent(folder: Path, api: FakeApi, authority: Authority, side: str) -> Iterator[int]:
    """Run an agent; yields the port of its gates."""
    pair = authority.issue("agent", hosts=[NAME])
    kubeconfig, token = folder / "kubeconfig", folder / "token"
    token.write_text("a-token")
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "it", "cluster": {"server": f"http://{LOOPBACK}:{api.port}"}}],
                "users": [{"name": "it", "user": {"token": "a-token"}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )
    )
    controller = ThreadingHTTPServer((LOOPBACK, 0), _Controller)
    threading.Thread(target=controller.serve_forever, daemon=True).start()
    port = free_port()
    words = [
        "--node=n1",
        f"--state-dir={folder / 'state'}",
        f"--listen={LOOPBACK}:{free_port()}",
        f"--gates-listen={LOOPBACK}:{port}",
        f"--tls-cert-file={pair.certificate}",
        f"--tls-key-file={pair.key}",
        f"--ca-file={authority.certificate_path}",
        f"--controller=http://{LOOPBACK}:{controller.server_address[1]}",
        f"--token-file={token}",
        f"--kubeconfig={kubeconfig}",
    ]
    log = (folder / "log").open("wb")
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.granting", "--agent", side, *words], stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(20)
        log.close()
        controller.shutdown()


class Node:
    """The node's pods at the API server, and their gates."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self._links: dict[str, ConnectedLink] = {}
        self._names: dict[str, str] = {}
        self._selector = selectors.DefaultSelector()

    def fill(self, count: int) -> None:
        """Make pods that wait for their permits."""
        bare: dict[str, Any] = {"metadata": {}, "spec": {"containers": [_PROBED]}}
        spec = patched(bare, patch(bare, _OPTIONS))["spec"]
        for number in range(count):
            made = self._put(
                f"p{number}", {"waiting": {"reason": "CreateContainerConfigError"}}, ready=False, spec=spec
            )
            self._names[str(made["metadata"]["uid"])] = f"p{number}"

    def connect(self, port: int, authority: Authority, folder: Path) -> None:
        """Connect a gate for each pod, which asks."""
        pem = authority.certificate_path.read_text()
        for uid in self._names:
            user = {"extra": {"authentication.kubernetes.io/pod-uid": [uid]}}
            review = {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user}}
            self._api.script("post", Reply(201, review))
            link = ConnectedLink(LOOPBACK, port, NAME, pem, str(folder / "token"))
            link.socket.setblocking(True)
            link.socket.recv(1 << 16)  # its welcome: whose token it was is settled
            link.socket.setblocking(False)
            link.send({"type": "ask", "container": "app"})
            self._links[uid] = link
            self._selector.register(link.socket, selectors.EVENT_READ, uid)

    def ready(self, uid: str) -> None:
        """Say that a pod's container is ready."""
        self._put(self._names[uid], {"running": {}}, ready=True)

    def granted(self, seconds: float) -> list[str]:
        """Return the pods that are granted next; none where nobody is within that time."""
        until = time.monotonic() + seconds
        found: list[str] = []
        while not found and (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                uid = str(key.data)
                found += [uid for message in self._links[uid].receive() if message["type"] == "granted"]
        return found

    def close(self) -> None:
        """End all connections."""
        self._selector.close()
        for link in self._links.values():
            link.close()

    def _put(self, name: str, state: dict[str, Any], *, ready: bool, **fields: Any) -> dict[str, Any]:
        row = {"name": "app", "state": state, "ready": ready, "started": ready}
        if ready:
            row["containerID"] = f"c-{name}"
        path = f"/api/v1/namespaces/shop/pods/{name}"
        spec = fields.get("spec") or self._api.objects["v1", "pods", "shop", name]["spec"]
        return self._api.put(path, spec=spec, status={"phase": "Pending", "containerStatuses": [row]})


def a_round(side: str) -> list[float]:
    """Return the milliseconds of each turn."""
    spent: list[float] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority.create(folder / "authority")
        api = stack.enter_context(FakeApi())
        api.put("/api/v1/nodes/n1", metadata={"labels": {}})
        per_core = f"{(SLOTS + 0.01) / (os.cpu_count() or 1):.4f}"
        spec = {**_OFF, "maxStartingContainersPerCore": per_core}
        api.put(_POLICY, apiVersion="resource-slack.io/v1alpha1", kind="ThrottlePolicy", spec=spec)
        node = Node(api)
        stack.callback(node.close)
        node.fill(PENDING + SLOTS)
        port = stack.enter_context(agent(folder, api, authority, side))
        wait_until(lambda: _listens(port), 30, "the agent to serve gates")
        node.connect(port, authority, folder)
        starting: list[str] = []
        while len(starting) < SLOTS:
            found = node.granted(30)
            if not found:
                sys.exit(f"{side}: only {len(starting)} of {SLOTS} slots were taken: {(folder / 'log').read_text()}")
            starting += found
        for _ in range(TURNS):
            time.sleep(PAUSE_SECONDS)
            began = time.monotonic()
            node.ready(starting.pop(0))
            found = node.granted(10)
            spent.append((time.monotonic() - began) * 1000)
            if len(found) != 1:
                sys.exit(f"{side}: one slot was free, and {len(found)} were granted")
            starting += found
    return spent


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


def main() -> None:
    """Measure, and judge."""
    if sys.argv[1:2] == ["--agent"]:
        side, *words = sys.argv[2:]
        sys.argv = [sys.argv[0], *words]
        with mock.patch.object(agent_parts, "NodeThrottle", Scanning if side == "scan" else NodeThrottle):
            sys.exit(arguments.main(ThrottlerAgentSettings, run))
    options = parser("From a free slot to the next grant at its gate.").parse_args()
    spent: dict[str, list[float]] = {"ours": [], "scan": []}
    for number in range(ROUNDS):
        for side in spent:
            say(f"round {number + 1}: {side}")
            spent[side] += a_round(side)
    rows: list[Row] = [
        {
            "decision": side,
            "grants": len(found),
            "p50 us": 1000 * median(found),
            "p99 us": 1000 * quantiles(found, n=100)[98],
            "worst us": 1000 * max(found),
        }
        for side, found in spent.items()
    ]
    good = float(str(rows[0]["p99 us"])) <= TARGET_P99_MS * 1000
    note = f"target: p99 {TARGET_P99_MS:g} ms, {'met' if good else 'NOT met'}; load average {os.getloadavg()[0]:.1f}"
    show([Report(f"A free slot to the next grant at its gate, {PENDING} pending", rows, [note])], options.output)


if __name__ == "__main__":
    main()
