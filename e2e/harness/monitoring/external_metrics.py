"""A metrics adapter as small as can be: external.metrics.k8s.io from a dictionary, behind the API server's aggregation.

What Prometheus' adapter and KEDA's metrics server are to a HorizontalPodAutoscaler. It listens on loopback and takes
requests of the API server only (its front proxy's certificate).
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from e2e.harness.api import Json
from e2e.harness.cluster.aggregation import registered
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.ports import LOOPBACK

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
NAMESPACE, SERVICE = "default", "e2e-metrics"


@contextmanager
def external_metrics(cluster: ControlPlane) -> Iterator[dict[str, float]]:
    """Serve metrics by name, for every namespace; what is put into the dictionary is the answer from then on."""
    values: dict[str, float] = {}

    class Handler(_Handler):
        metrics = values

    host = f"{SERVICE}.{NAMESPACE}.svc"
    pair = cluster.server_certificate(host, [host])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(cluster.keys.front_authority)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, name="external metrics", daemon=True)
    thread.start()
    try:
        with registered(cluster, GROUP, VERSION, NAMESPACE, SERVICE, server.server_port):
            yield values
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    metrics: ClassVar[dict[str, float]]
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Answer discovery, and one metric in one namespace."""
        path, prefix = self.path.partition("?")[0], f"/apis/{GROUP}/{VERSION}"
        if path == prefix:
            resource = {"name": "", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
            found = [resource | {"name": name, "verbs": ["get"]} for name in self.metrics]
            self._answer(200, {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}", "resources": found})
            return
        name = path.rpartition("/")[2]
        if not path.startswith(f"{prefix}/namespaces/") or name not in self.metrics:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})
            return
        value = {
            "metricName": name,
            "metricLabels": {},
            "timestamp": "2026-01-01T00:00:00Z",
            "value": f"{round(self.metrics[name] * 1000)}m",
        }
        self._answer(200, {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "items": [value]})

    def _answer(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the API server asks for discovery every few seconds."""
