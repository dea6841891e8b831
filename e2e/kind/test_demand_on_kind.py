"""Container pools on kind as docs/demand.md has them: NATS in the cluster, the chart, a pool of real containers.

Two things are made here where no registry can be pulled from: the image of NATS, of the server that the suites build,
and the pool's own container, which is the operator's image with a server of a few lines that answers 200 to everything.
"""

import json
import time
from pathlib import Path

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.node import images
from e2e.harness.objects import wait_until
from e2e.harness.product.operator import ROOT
from e2e.kind.test_first_burst_on_kind import CLUSTER, Shell, commands, shell

__all__ = ["shell"]  # a fixture
MESSAGES = 20
IMAGE = "resource-slack:0.1.0"
SERVER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        print("ran", body.decode(), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer).serve_forever()
"""
POSTED = "/api/v1/namespaces/resource-slack/services/http:resource-slack-demand:8082/proxy/v1/activations/media"
pytestmark = pytest.mark.timeout(1500)


def pool(name: str, **spec: object) -> Json:
    """The example's pool with an image that is there."""
    manifest: Json = yaml.safe_load((ROOT / "examples" / "activationpool.yaml").read_text(encoding="utf-8"))
    manifest["metadata"]["name"] = name
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container |= {"image": IMAGE, "command": ["python", "-c", SERVER], "args": []}
    container["resources"] = {"requests": {"cpu": "20m", "memory": "64Mi"}}
    manifest["spec"] |= {"keepWarm": {"count": 0}} | spec
    return manifest


def status(shell: Shell, name: str) -> Json:
    """A pool's status."""
    found: Json = json.loads(shell(f"kubectl -n media get activationpool {name} -o json")).get("status") or {}
    return found


def pods(shell: Shell, name: str) -> list[str]:
    """The names of a pool's pods."""
    return shell(f"kubectl -n media get pods -l resource-slack.io/pool={name} -o name").split()


def post(shell: Shell, name: str, body: str) -> None:
    """Send a message by the throttle endpoint."""
    shell(f"printf %s {body} > $HOME/message", f"kubectl create --raw {POSTED}/{name} -f $HOME/message")


def test_a_pool_of_real_containers_is_served_by_nats_in_the_cluster(shell: Shell, tmp_path: Path) -> None:
    server = build.ensure(["nats-server"])["nats-server"]
    create, *_ = commands(1)
    build_it, load, *_ = commands(2)
    shell(create, build_it, load)
    nats = tmp_path / "nats.tar"
    files = {"usr/local/bin/nats-server": server}
    images.archive(nats, "docker.io/library/nats:2.11", [], files=files, Env=["PATH=/usr/local/bin:/bin", "HOME=/"])
    shell(f"kind load image-archive {nats} --name={CLUSTER}")
    shell(
        "kubectl create namespace media",
        "kubectl -n media create deployment nats --image=nats:2.11 -- nats-server --jetstream",
        "kubectl -n media expose deployment nats --port 4222",
        "helm upgrade --install resource-slack charts/resource-slack -n resource-slack --create-namespace"
        " --set demand.enabled=true --set demand.broker.url=nats://nats.media:4222",
        "kubectl -n media rollout status deployment/nats --timeout=120s",
        "kubectl -n resource-slack rollout status deployment/resource-slack-demand --timeout=180s",
    )
    for manifest in (pool("thumbnail"), pool("single", mode="perMessage")):
        path = tmp_path / f"{manifest['metadata']['name']}.json"
        path.write_text(json.dumps(manifest), encoding="utf-8")
        shell(f"kubectl apply -f examples/activationquota.yaml -f {path}")
    wait_until(lambda: status(shell, "thumbnail").get("queue"), 60, "the pool to be followed")
    began = time.monotonic()
    for number in range(MESSAGES):
        post(shell, "thumbnail", f"message-{number}")
    print(f"\n{MESSAGES} messages posted in {time.monotonic() - began:.1f} s")

    ran: set[str] = set()
    """What was run so far: the log of a container that has ended is gone."""

    def all_ran() -> bool:
        named = " ".join(pods(shell, "thumbnail"))
        logs = shell(f"for name in {named}; do kubectl -n media logs $name -c action || true; done")
        ran.update(line.split()[1] for line in logs.splitlines() if line.startswith("ran "))
        return ran == wanted

    wanted = {f"message-{number}" for number in range(MESSAGES)}
    wait_until(all_ran, 120, "all to be run", state=lambda: (ran, status(shell, "thumbnail")), every=2)
    took, count = time.monotonic() - began, len(pods(shell, "thumbnail"))
    print(f"all were run {took:.1f} s after the first was sent, by {count} pods")

    for number in range(2):
        post(shell, "single", f"alone-{number}")
    seen: set[str] = set()

    def over() -> bool:
        seen.update(pods(shell, "single"))
        lag = status(shell, "single").get("lag") or {}
        return len(seen) >= 2 and not pods(shell, "single") and lag.get("queued") == lag.get("inFlight") == 0

    wait_until(over, 180, "a pod a message to come and go", state=lambda: (seen, status(shell, "single")), every=1)
    assert len(seen) == 2, "one for each message, and none that is started again"
