"""A registry of images on a loopback address, which containerd asks by plain HTTP. It counts what it hands out."""

import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import msgspec

from e2e.harness.ports import LOOPBACK


class Registry:
    """Serves images by name and tag.

    Usage:

        with Registry() as registry:
            registry.add("app", "1", images.archive(path, "app:1", ["/bin/sleep", "60"]))
            image = f"{registry.host}/app:1"
    """

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
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

    def add(self, name: str, tag: str, archive: Path) -> str:
        """Take an image from an OCI archive; return the name by which pods have it."""
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                found = tar.extractfile(member)
                if member.name.startswith("blobs/sha256/") and found is not None:
                    self._blobs[f"sha256:{member.name.rpartition('/')[2]}"] = found.read()
            index = tar.extractfile("index.json")
            assert index is not None
            self._tags[f"{name}:{tag}"] = msgspec.json.decode(index.read())["manifests"][0]["digest"]
        return f"{self.host}/{name}:{tag}"

    def answer(self, path: str) -> tuple[int, str, str, bytes]:
        """Return status, media type, digest and body of a request."""
        if self.broken:
            return 500, "text/plain", "", b"broken"
        parts = path.strip("/").split("/")
        if parts == ["v2"]:
            return 200, "application/json", "", b"{}"
        name, kind, key = "/".join(parts[1:-2]), parts[-2], parts[-1]
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
            status, media, digest, body = registry.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if body_too:
                self.wfile.write(body)
                registry.served_bytes += len(body) if "/blobs/" in self.path else 0

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    return Handler
