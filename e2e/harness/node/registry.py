"""A registry of images on a loopback address, which containerd asks by plain HTTP. It counts what it hands out.

Images below `private/` need the user and password of `USER`.
"""

import base64
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import msgspec

from e2e.harness.node import images
from e2e.harness.ports import LOOPBACK

USER = "puller:secret"
_BASIC = f"Basic {base64.b64encode(USER.encode()).decode()}"


class Registry:
    """Serves images by name and tag.

    Usage:

        with Registry(tmp_path) as registry:
            image = registry.add("app", "1", megabytes=50)
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blobs: dict[str, bytes | Path] = {}
        self._tags: dict[str, str] = {}
        self.served_bytes = 0
        """Of layers and configurations."""
        self.broken = False
        """Whether every request fails."""
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def host(self) -> str:
        """Its name within that of an image."""
        return f"{LOOPBACK}:{self._server.server_port}"

    def add(self, name: str, tag: str, megabytes: int = 1) -> str:
        """Make an image of a size, whose one program sleeps; return the name by which pods have it."""
        made = images.bulky(self._folder, megabytes)
        self._blobs |= made
        self._tags[f"{name}:{tag}"] = list(made)[-1]
        return f"{self.host}/{name}:{tag}"

    def pull_secret(self, name: str, namespace: str) -> dict[str, Any]:
        """Return the Secret with which private images are pulled."""
        auth = base64.b64encode(USER.encode()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": msgspec.json.encode({"auths": {self.host: {"auth": auth}}}).decode()},
        }

    def find(self, path: str, authorization: str) -> tuple[int, str, str, bytes | Path]:
        """Return status, media type, digest and body of a request."""
        if self.broken:
            return 500, "text/plain", "", b"broken"
        parts = path.strip("/").split("/")
        if parts == ["v2"]:
            return 200, "application/json", "", b"{}"
        name, kind, key = "/".join(parts[1:-2]), parts[-2], parts[-1]
        if name.startswith("private/") and authorization != _BASIC:
            return 401, "application/json", "", b"{}"
        digest = key if key.startswith("sha256:") else self._tags.get(f"{name}:{key}", "")
        body = self._blobs.get(digest)
        if body is None:
            return 404, "application/json", "", b"{}"
        media = "application/vnd.oci.image.manifest.v1+json" if kind == "manifests" else "application/octet-stream"
        return 200, media, digest, body

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5.0)


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body_too=False)

        def do_GET(self) -> None:
            self._answer(body_too=True)

        def _answer(self, *, body_too: bool) -> None:
            path = self.path.partition("?")[0]
            status, media, digest, body = registry.find(path, self.headers.get("Authorization", ""))
            size = len(body) if isinstance(body, bytes) else body.stat().st_size
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="e2e"')
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(size))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if not body_too:
                return
            if isinstance(body, bytes):
                self.wfile.write(body)
            else:
                with body.open("rb") as file:
                    shutil.copyfileobj(file, self.wfile, 1 << 20)
            registry.served_bytes += size if "/blobs/" in path else 0

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    return Handler
