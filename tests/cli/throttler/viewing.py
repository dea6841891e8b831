"""A fake API server that leads to a throttler's controller, and the views that one gives."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.process.http_server import TEXT, HttpRequest, HttpServer
from slack.process.http_server import Reply as HttpReply
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import ContainerRow, NodeReport, SilentNode, View, encode
from tests.cli.test_uninstall import config
from tests.kube.fake_api import FakeApi, Reply

NOW = 1_800_000_000.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases"
POLICIES = f"/apis/{API_VERSION}/throttlepolicies"
TOKEN = "/api/v1/namespaces/resource-slack/serviceaccounts/resource-slack-throttler-viewer/token"
PROXY = "/api/v1/namespaces/resource-slack/pods/https:throttler-7d9-x:7473/proxy/v1/starts"
HOLDER = "throttler-7d9-x_0a1b2c3d"


def row(pod: str, container: str, state: StartState, **more: Any) -> ContainerRow:
    """One container of a report."""
    given = {"namespace": "shop", "uid": f"uid-{pod}", "since": NOW - 30, **more}
    return ContainerRow(pod=pod, container=container, state=state, **given)


def report(node: str = "node-1", **more: Any) -> NodeReport:
    """A node with one that starts, two that wait and one that was too slow."""
    rows = (
        row("api-1", "api", StartState.PENDING, position=1, reason="2 start, and 2 may", until=NOW + 4),
        row("api-0", "api", StartState.PENDING, position=2, since=NOW - 12, reason="1 before it; 2 start, and 2 may"),
        row("db-0", "db", StartState.STARTING, forced=True, until=NOW + 270),
        row("job", "work", StartState.FAILED, since=NOW - 400),
        row("api-0", "web", StartState.BLOCKED, reason="depends on api (pending)"),
    )
    counted = {
        StartState.PENDING: 2,
        StartState.STARTING: 1,
        StartState.FAILED: 1,
        StartState.BLOCKED: 1,
        StartState.READY: 7,
    }
    given: dict[str, Any] = {"policy": "default", "policy_generation": 2, "cores": 2.0, "slots": 2, "granted": 9}
    return NodeReport(node=node, at=NOW - 1, **{"counts": counted, "containers": rows, **given, **more})


def view(*reports: NodeReport, silent: tuple[SilentNode, ...] = ()) -> View:
    """What a controller knows."""
    return View(at=NOW, reports=reports, silent=silent)


def policy(name: str = "default", ready: str = "True", **status: Any) -> dict[str, Any]:
    """A ThrottlePolicy as it is stored."""
    counts = {state.value: count for count, state in enumerate(StartState)}
    condition = {"type": "Ready", "status": ready, "reason": "StartsReported", "message": "of 3 nodes 2 report"}
    nodes = {"selected": 3, "reporting": 2, "silent": 1}
    more = {"forced": 4, "opened": 1, "longestWaitSeconds": 125, "conditions": [condition], **status}
    return {"metadata": {"name": name, "generation": 2}, "spec": {}, "status": {"nodes": nodes, **counts, **more}}


def lease(holder: str | None = HOLDER) -> Reply:
    """The controller's lease."""
    return Reply(200, {"metadata": {"name": "resource-slack-throttler"}, "spec": {"holderIdentity": holder}})


def token(text: str = "viewer.token.x") -> Reply:
    """The API server's answer to a TokenRequest."""
    return Reply(201, {"kind": "TokenRequest", "status": {"token": text}})


@contextmanager
def cluster(tmp_path: Path, *gets: Reply, tokens: tuple[Reply, ...] = (), policies: bool = True) -> Iterator[FakeApi]:
    """Serve these answers to GETs of single objects, in this order, beside a policy."""
    with FakeApi() as api:
        api.script("get", *gets)
        api.script("post", *(tokens or (token(),)))
        if policies:
            api.put(f"{POLICIES}/default", **policy())
        config(api, tmp_path)
        yield api


def shown(found: View) -> Reply:
    """A view as the proxy hands it on."""
    return Reply(200, encode(found))


@contextmanager
def controller(body: bytes, status: int = 200, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a view directly, on loopback."""

    def answer(request: HttpRequest) -> HttpReply:
        return HttpReply(status, TEXT, body) if request.path == "/v1/starts" else HttpReply(404, TEXT, b"")

    server = HttpServer("127.0.0.1", 0, answer, tls=tls)
    server.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
    finally:
        server.stop()


def viewer_token(tmp_path: Path) -> Path:
    """A file with a token."""
    path = tmp_path / "token"
    path.write_text("a.b.c\n")
    return path
