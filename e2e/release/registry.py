"""A registry for OCI artifacts on loopback, in memory, to which a release is pushed in the rehearsal."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

_BLOB = re.compile(r"/v2/(?P<name>.+)/blobs/(?P<digest>sha256:[0-9a-f]{64})$")
_UPLOAD = re.compile(r"/v2/(?P<name>.+)/blobs/uploads/")
_MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>[^/]+)$")


class Registry:
    """Keeps blobs by digest and manifests by tag and digest, as the distribution specification has it.

    Usage:

        with Registry() as registry:
            helm.run("push", package, f"oci://{registry.address}/charts", "--plain-http")
    """

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        """Media type and bytes, by name and tag or digest."""
        registry = self

        class Handler(_Handler):
            store = registry

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    store: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_HEAD(self) -> None:
        """Answer whether a blob or a manifest is there."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer a blob, a manifest, or that this is a registry."""
        path = urlsplit(self.path).path
        if path in ("/v2", "/v2/"):
            self._answer(200, b"{}")
        elif (found := _BLOB.match(path)) and (blob := self.store.blobs.get(found["digest"])) is not None:
            self._answer(200, blob, Docker_Content_Digest=found["digest"], Content_Type="application/octet-stream")
        elif (found := _MANIFEST.match(path)) and (
            entry := self.store.manifests.get((found["name"], found["reference"]))
        ):
            kind, text = entry
            self._answer(200, text, Docker_Content_Digest=_digest(text), Content_Type=kind)
        else:
            self._answer(404, json.dumps({"errors": [{"code": "NOT_FOUND"}]}).encode())

    def do_POST(self) -> None:
        """Begin an upload."""
        self._body()
        self._answer(202, Location=f"{urlsplit(self.path).path}upload")

    def do_PATCH(self) -> None:
        """Take a chunk: clients of this suite send each blob whole, with PUT."""
        self._body()
        self._answer(405)

    def do_PUT(self) -> None:
        """Take a blob or a manifest, and refuse a blob that is not what its digest says."""
        split, body = urlsplit(self.path), self._body()
        if _UPLOAD.match(split.path):
            (digest,) = parse_qs(split.query)["digest"]
            if _digest(body) != digest:
                self._answer(400)
                return
            self.store.blobs[digest] = body
            self._answer(201, Docker_Content_Digest=digest)
        elif found := _MANIFEST.match(split.path):
            kind = self.headers["Content-Type"]
            for reference in (found["reference"], _digest(body)):
                self.store.manifests[found["name"], reference] = (kind, body)
            self._answer(201, Docker_Content_Digest=_digest(body))
        else:
            self._answer(404)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
