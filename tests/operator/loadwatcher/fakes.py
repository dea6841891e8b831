"""A provider on a real socket, whose answers a test decides."""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

Form = dict[str, str]


class FakeProvider:
    """Answers POSTs by a function of path and form; remembers what was asked, headers too."""

    def __init__(self, answer: Callable[[str, Form], tuple[int, bytes]]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Form, dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                fake.asked.append((self.path, form, dict(self.headers)))
                status, data = fake.answer(self.path, form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def prometheus(nodes: dict[str, float], *, seen_at: Callable[[], float], label: str = "nodename") -> Any:
    """Return answers in which each node uses a share of its CPU, half of that in memory, with a tenth as deviation."""

    def answer(path: str, form: Form) -> tuple[int, bytes]:
        assert path == "/api/v1/query"
        query = form["query"]
        factor = 1.0 if "node_cpu" in query else 0.5
        if "stddev_over_time" in query:
            factor /= 10
        if re.match(r"max by \(\w+\) \(max_over_time\(timestamp", query):
            values = dict.fromkeys(nodes, seen_at())
        else:
            values = {name: factor * share for name, share in nodes.items()}
        result = [{"metric": {label: name}, "value": [seen_at(), str(value)]} for name, value in values.items()]
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    return answer
