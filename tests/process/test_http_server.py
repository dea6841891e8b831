"""The small server: probes are answered whatever other clients do, and everything that a client can use is bounded."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from slack.process import http_server
from slack.process.accepting import ClientBounds
from slack.process.connection_table import ConnectionTable
from slack.process.health import HealthServer
from slack.process.http_server import MOST_WAITING, TEXT, HttpRequest, HttpServer, Reply


@contextmanager
def serving(server: HttpServer) -> Iterator[HttpServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def health(bounds: ClientBounds | None = None) -> HealthServer:
    server = HealthServer("127.0.0.1", 0, healthy=lambda: None, ready=lambda: None, registry=CollectorRegistry())
    if bounds is not None:
        server._bounds = bounds
    return server


def ask(port: int, path: str, method: str = "GET", timeout: float = 5.0) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def is_closed(wire: socket.socket, seconds: float) -> bool:
    wire.settimeout(seconds)
    try:
        return wire.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("silent", [64, 640])
def test_probes_are_answered_however_many_clients_hold_connections(silent: int) -> None:
    with serving(health()) as server, contextlib.ExitStack() as held:
        for number in range(silent):
            wire = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            wire.sendall(b"GET /healthz HTTP/1.1\r\n" if number % 2 else b"G")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert ask(server.port, path)[0] == 200
        assert server._acceptor is not None
        assert len(server._acceptor) <= http_server.BOUNDS.connections
        assert server.unhealthy() is None


def test_a_request_has_one_deadline_for_its_whole_however_often_a_byte_comes() -> None:
    bounds = ClientBounds(connections=4, strangers=4, request_seconds=0.6, idle_seconds=0.6)
    with serving(health(bounds)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                while time.monotonic() - began < 5 and not is_closed(wire, 0.05):
                    wire.sendall(b"X")
            assert 0.5 < time.monotonic() - began < 4.0
        assert ask(server.port, "/healthz") == (200, b"ok\n")


def test_a_probe_waits_for_no_other_answer_and_what_is_too_much_is_refused() -> None:
    leave, asked = threading.Event(), threading.Semaphore(0)

    def answer(request: HttpRequest) -> Reply:
        if request.path == "/slow":
            asked.release()
            leave.wait(20)
        return Reply(200, TEXT, request.path.encode())

    with serving(HttpServer("127.0.0.1", 0, answer, quick=("/probe",))) as server:
        found: list[int] = []
        slow = [
            threading.Thread(target=lambda: found.append(ask(server.port, "/slow", timeout=20)[0])) for _ in range(8)
        ]
        for thread in slow:
            thread.start()
        for _ in range(http_server.WORKERS):
            assert asked.acquire(timeout=10)
        deadline = time.monotonic() + 10
        while server.waiting < MOST_WAITING and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ask(server.port, "/probe") == (200, b"/probe")
        assert ask(server.port, "/other")[0] == 503
        leave.set()
        for thread in slow:
            thread.join(20)
        assert found == [200] * 8
        assert ask(server.port, "/other") == (200, b"/other")


def test_answers_that_nobody_takes_are_cut_off_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_UNREAD_BYTES", 32 << 20)
    body = bytes(12 << 20)
    with (
        serving(HttpServer("127.0.0.1", 0, lambda _: Reply(200, TEXT, body))) as server,
        contextlib.ExitStack() as held,
    ):
        for _ in range(10):
            wire = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            wire.sendall(b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(0.05)
        deadline = time.monotonic() + 10
        while server.waiting and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sum(found.get_write_buffer_size() for found in server._unread) <= 32 << 20
        assert ask(server.port, "/") == (200, body)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000, 431),
        (b"GET http://here/a?b HTTP/1.1\r\nHost: here\r\n\r\n", 200),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, status: int) -> None:
    with (
        serving(HttpServer("127.0.0.1", 0, lambda found: Reply(200, TEXT, found.path.encode()))) as server,
        socket.create_connection(("127.0.0.1", server.port), 5) as wire,
    ):
        wire.sendall(sent)
        answer = wire.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    if status == 200:
        assert answer.endswith(b"/a")


def test_a_mistake_in_an_answer_is_a_500_and_costs_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: HttpRequest) -> Reply:
        raise ValueError("a bug")

    with serving(HttpServer("127.0.0.1", 0, answer)) as server:
        assert [ask(server.port, "/")[0] for _ in range(4)] == [500] * 4
        assert ask(server.port, "/", "HEAD") == (500, b"")
        assert server.unhealthy() is None
    assert "ValueError: a bug" in caplog.text


class Connection:
    def __init__(self, *, sent: bool = False) -> None:
        self.aborted, self.sent = False, sent

    def abort(self) -> None:
        self.aborted = True

    def has_sent(self) -> bool:
        return self.sent


def test_a_full_table_closes_the_oldest_idle_connection_of_the_address_with_the_most() -> None:
    table: ConnectionTable[Connection] = ConnectionTable(4)
    probe, first, second, third = (Connection() for _ in range(4))
    assert table.add_connection(probe, "10.0.0.1", 0.0)
    for number, connection in enumerate((first, second, third)):
        assert table.add_connection(connection, "10.0.0.9", 1.0 + number)
    table.busy(first)
    newcomer = Connection()
    assert table.add_connection(newcomer, "10.0.0.2", 9.0)
    assert [found.aborted for found in (probe, first, second, third)] == [False, False, True, False]
    assert len(table) == 4


def test_a_connection_whose_next_request_is_there_is_spared_where_another_can_be_closed() -> None:
    table: ConnectionTable[Connection] = ConnectionTable(2)
    asks, idle = Connection(sent=True), Connection()
    assert table.add_connection(asks, "10.0.0.1", 0.0)
    assert table.add_connection(idle, "10.0.0.1", 1.0)
    assert table.add_connection(Connection(sent=True), "10.0.0.2", 2.0)
    assert (asks.aborted, idle.aborted) == (False, True)
    assert table.add_connection(Connection(), "10.0.0.1", 3.0)
    assert asks.aborted, "all have sent something: the oldest goes"


def test_busy_connections_are_never_closed_for_a_new_one() -> None:
    table: ConnectionTable[Connection] = ConnectionTable(2)
    one, two, three = (Connection() for _ in range(3))
    for connection in (one, two):
        assert table.add_connection(connection, "10.0.0.1", 0.0)
        table.busy(connection)
    assert not table.add_connection(three, "10.0.0.2", 1.0)
    table.idle(one, 2.0)
    assert table.add_connection(three, "10.0.0.2", 3.0)
    assert (one.aborted, two.aborted) == (True, False)
    table.remove(two)
    table.remove(two)
    assert len(table) == 1
