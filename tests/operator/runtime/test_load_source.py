"""What is fetched of a load watcher, of either kind, and what stands while it is ill."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from slack.loadwatcher.payload import RollupWindow
from slack_operator.runtime.load_source import KEPT_SECONDS, LoadSource


def payload(window: str, value: float) -> bytes:
    node = {"metrics": [{"name": "cpu", "type": "CPU", "operator": "AVG", "rollup": window, "value": value}]}
    data = {"NodeMetricsMap": {"n1": node}}
    span = {"duration": window, "start": 100, "end": 400}
    return json.dumps({"timestamp": 400, "window": span, "source": "x", "data": data}).encode()


class Watcher:
    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                window = parse_qs(urlsplit(self.path).query)["window"][0]
                status, body = outer.answers.get(window, (404, b""))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def served() -> Iterator[Watcher]:
    watcher = Watcher()
    threading.Thread(target=watcher.server.serve_forever, args=(0.02,), daemon=True).start()
    yield watcher
    watcher.server.shutdown()
    watcher.server.server_close()


def test_windows_are_kept_one_by_one_and_what_fails_keeps_what_it_had(served: Watcher) -> None:
    errors: list[str] = []
    touched: list[int] = []
    source = LoadSource(served.url, 60.0, lambda: touched.append(1), on_error=errors.append)
    served.answers = {window: (200, payload(window, 10.0)) for window in ("15m", "10m", "5m")}
    source.fetch()
    assert set(source.reports) == set(RollupWindow)
    assert (len(touched), errors) == (1, [])
    source.fetch()
    assert len(touched) == 1, "the same again wakes nobody"
    before = source.reports[RollupWindow.FIVE_MINUTES]
    served.answers = {"15m": (200, payload("15m", 20.0)), "10m": (500, b""), "5m": (200, b"<html>")}
    source.fetch()
    assert source.reports[RollupWindow.FIVE_MINUTES] is before
    assert source.reports[RollupWindow.FIFTEEN_MINUTES] is not before
    assert errors == ["status", "payload"]


def test_a_window_that_does_not_come_again_is_forgotten_after_an_hour(served: Watcher) -> None:
    now = [0.0]
    source = LoadSource(served.url, 60.0, lambda: None, clock=lambda: now[0])
    served.answers = {"15m": (200, payload("15m", 10.0)), "5m": (200, payload("5m", 10.0))}
    source.fetch()
    served.answers = {"5m": (200, payload("5m", 10.0))}
    for seconds, windows in ((KEPT_SECONDS, {"15m", "5m"}), (KEPT_SECONDS + 1, {"5m"})):
        now[0] = seconds
        source.fetch()
        assert set(source.reports) == windows
    served.answers = {}
    now[0] += KEPT_SECONDS + 1
    source.fetch()
    assert source.reports == {}


def test_a_watcher_that_knows_one_window_only_is_read_once(served: Watcher) -> None:
    served.answers = {window: (200, payload("15m", 10.0)) for window in ("15m", "10m", "5m")}
    source = LoadSource(served.url, 60.0, lambda: None)
    source.fetch()
    assert set(source.reports) == {RollupWindow.FIFTEEN_MINUTES}


def test_nothing_there_is_no_error_and_another_address_is_not_followed(served: Watcher) -> None:
    errors: list[str] = []
    source = LoadSource(served.url, 60.0, lambda: None, on_error=errors.append)
    served.answers = {}
    source.fetch()
    assert (source.reports, errors) == ({}, [])
    served.answers = {"5m": (302, b"")}
    source.fetch()
    assert errors == ["status"]


def test_nobody_there_is_counted() -> None:
    errors: list[str] = []
    LoadSource("http://127.0.0.1:1", 60.0, lambda: None, on_error=errors.append).fetch()
    assert errors == ["unreachable"] * 3
