"""Admission of a pod of 20 containers: the webhook over TLS on loopback, beside one that decodes and copies the pod.

Usage:
    python -m benchmarks.admission               # 3,000 pods on one connection, after 200 that are not counted

Microseconds from the first byte of the request to the last of the answer, of a client in the same interpreter, which
both sides share: read what is ours beside what a webhook in Python costs at least. *Bare* is a handler of the same
server that reads the review as JSON and answers with the pod's names, without a decision or a patch.
"""

import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from aiohttp import web

from benchmarks.report import Report, Row, parser, say, show
from e2e.harness.cluster.certificates import Authority
from slack.throttler.injection import DEPENDS_ON, Backend, GateOptions
from slack_operator.runtime.certificates import Certificate
from slack_operator.runtime.serving import ServingThread
from slack_operator.throttler.controller.admission import AdmissionRules
from slack_operator.throttler.controller.webhook import PATH, Webhook

HOST = "127.0.0.1"
CONTAINERS, PODS, WARM = 20, 3_000, 200
TARGET_P99_MS = 10.0


def review() -> bytes:
    """Return what an API server sends about a pod of 20 containers, each with what containers have, in a chain."""
    containers = [
        {
            "name": f"app-{number}",
            "image": f"registry.example.com/app-{number}:1.2.3",
            "command": ["/app", "--serve"],
            "env": [{"name": f"SETTING_{at}", "value": "value"} for at in range(10)],
            "ports": [{"containerPort": 8000 + number}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8000 + number}, "periodSeconds": 5},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        for number in range(CONTAINERS)
    ]
    chain = {f"app-{number}": [f"app-{number - 1}"] for number in range(1, CONTAINERS)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "app-", "namespace": "shop", "annotations": {DEPENDS_ON: json.dumps(chain)}},
        "spec": {"containers": containers, "volumes": [{"name": "data", "emptyDir": {}}]},
    }
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": pod,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


class Bare(ServingThread):
    """A webhook that decides nothing."""

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_post(PATH, self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())["request"]
        names = [container["name"] for container in asked["object"]["spec"]["containers"]]
        return web.json_response({"uid": asked["uid"], "allowed": True, "names": names})


def asked(port: int, tls: ssl.SSLContext, body: bytes, check: Callable[[bytes], None]) -> list[float]:
    """Return the microseconds of each pod, those to warm up left out."""
    connection = http.client.HTTPSConnection(HOST, port, context=tls, timeout=10)
    spent = []
    for number in range(WARM + PODS):
        began = time.perf_counter()
        connection.request("POST", PATH, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        spent.append((time.perf_counter() - began) * 1e6)
        if number == 0:
            check(answer)
    connection.close()
    return spent[WARM:]


def main() -> None:
    """Measure, and judge."""
    options = parser("Admission of a pod of 20 containers.").parse_args()
    gates = GateOptions(image="slack:1", agent_port=7472, agent_name="agent", authority="PEM" * 300)
    rules = AdmissionRules(backend=Backend.FILE, options=gates, left_out=frozenset({"kube-system"}))
    body = review()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.create(Path(folder))
        pair = authority.issue("webhook", hosts=[HOST])
        server = Certificate(pair.certificate, pair.key).context
        client = ssl.create_default_context(cafile=str(authority.certificate_path))
        ours = Webhook(HOST, 0, rules=lambda: rules, on_admission=lambda *_: None, tls=server)
        for name, started in (("ours", ours), ("bare", Bare(HOST, 0, name="bare", tls=server))):
            say(name)
            started.start()
            spent = asked(started.port, client, body, _is_gated if started is ours else lambda _: None)
            started.stop()
            rows.append({"webhook": name, "p50 us": median(spent), "p99 us": quantiles(spent, n=100)[98]})
    good = float(str(rows[0]["p99 us"])) <= TARGET_P99_MS * 1000
    note = f"target: p99 {TARGET_P99_MS:g} ms, {'met' if good else 'NOT met'}; a review of {len(body) >> 10} KiB"
    show([Report(f"Admission of a pod of {CONTAINERS} containers over TLS", rows, [note])], options.output)


def _is_gated(answer: bytes) -> None:
    assert json.loads(answer)["response"]["patchType"] == "JSONPatch"


if __name__ == "__main__":
    main()
