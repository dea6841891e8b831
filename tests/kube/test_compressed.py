"""Lists are asked for gzipped, and the API server sends them so from 128 KiB on, chunked: no Content-Length."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes.client import Configuration

from slack.kube.connection import Connection

BODY = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "n" * 300}}] * 1000}).encode()


class _Chunked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        compressed = "gzip" in self.headers.get("Accept-Encoding", "")
        raw = gzip.compress(BODY, 1) if compressed else BODY
        self.send_response(200)
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (raw[:1000], raw[1000:], b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


@pytest.fixture
def connection() -> Iterator[Connection]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chunked)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    found = Connection(Configuration(host=f"http://127.0.0.1:{server.server_address[1]}"))
    yield found
    found.close()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("compressed", [True, False])
def test_a_chunked_body_arrives_as_it_was_before_compression(connection: Connection, compressed: bool) -> None:
    with connection.stream("/api/v1/pods", verb="list", gzip=compressed) as stream:
        assert b"".join(stream.chunks()) == BODY
