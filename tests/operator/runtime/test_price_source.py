"""Prices of nodes, asked of a server that answers as OpenCost does."""

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack_operator.runtime import price_source
from slack_operator.runtime.price_source import PriceSource
from tests.operator.runtime.test_opencost import METRICS


class OpenCost:
    def __init__(self) -> None:
        self.status, self.body = 200, METRICS.encode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.path == "/metrics"
                self.send_response(outer.status)
                if outer.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"


@pytest.fixture
def served() -> Iterator[OpenCost]:
    found = OpenCost()
    threading.Thread(target=found.server.serve_forever, args=(0.02,), daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_without_an_address_the_given_prices_are_all() -> None:
    given = NodePrices("EUR", (("m7i.large", 0.09),))
    assert PriceSource(given, None).prices() is given
    alone = PriceSource(given, None)
    alone.start()
    assert alone.unhealthy() is None
    alone.stop()
    assert PriceSource(None, None).prices() is NO_PRICES


def test_prices_come_from_opencost_and_stay_while_it_is_away(
    served: OpenCost, caplog: pytest.LogCaptureFixture
) -> None:
    touched: list[int] = []
    source = PriceSource(NodePrices("EUR"), served.url, lambda: touched.append(1))
    assert not source.prices()
    assert source.fetch()
    assert source.prices() == NodePrices("EUR", (("c7i.xlarge", 0.2), ("m7i.large", 0.07)), (), 0.04, 0.004)
    assert source.fetch()
    assert touched == [1], "the same prices are no news"
    before = source.prices()
    with caplog.at_level(logging.WARNING):
        for served.status, served.body in ((503, b""), (503, b""), (302, b""), (200, b"x" * 70_000), (200, b"")):
            assert not source.fetch()
    assert source.prices() == before
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 4, "each cause once"
    served.server.shutdown()
    served.server.server_close()
    assert not source.fetch()


def test_an_answer_that_is_too_long_is_given_up(served: OpenCost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_source, "MOST_BYTES", 100_000)
    served.body = b"# a comment\n" * 20_000 + METRICS.encode()
    assert not PriceSource(None, served.url).fetch()


def test_the_thread_asks_and_ends(served: OpenCost) -> None:
    known = threading.Event()
    source = PriceSource(None, served.url, known.set)
    source.start()
    assert known.wait(10.0)
    assert source.unhealthy() is None
    source.stop(5.0)
    assert source.prices()
