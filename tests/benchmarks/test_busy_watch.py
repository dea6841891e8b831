"""The client that stands in for the scheduler's, and what is made of its figures."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.scoring.busy_watch import Client, request, rows
from e2e.harness.errors import HarnessError

CALL = request(["node-1"])


@contextmanager
def answering(*parts: bytes) -> Iterator[Client]:
    """A client of a server that reads one call, answers with these parts, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                left = len(CALL)
                while left > 0:
                    left -= len(connection.recv(left))
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        client = Client(listening.getsockname()[1])
        try:
            yield client
        finally:
            client.close()
            thread.join(5.0)


def test_a_call_takes_until_the_whole_answer_is_there_however_it_comes_in() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    with answering(head[:20], head[20:] + b"0123", b"456789") as client:
        assert client.call(CALL) > 0.0


def test_an_answer_that_is_an_error_or_is_cut_short_is_no_measurement() -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    with answering(refused) as client, pytest.raises(HarnessError, match="400"):
        client.call(CALL)
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123"
    with answering(cut) as client, pytest.raises(HarnessError, match="closed"):
        client.call(CALL)


def test_what_a_busy_watch_adds_is_told_beside_the_quiet_side_of_as_many_names() -> None:
    times = {(500, 0): [1.0, 1.0], (500, 300): [1.5, 1.5], (1000, 0): [2.0, 2.0], (1000, 300): [2.25, 2.25]}
    cpu = {side: [80.0] for side in times}  # ms a second
    found = rows(times, cpu, calls=80)
    assert [row["added p50 us"] for row in found] == [None, pytest.approx(500), None, pytest.approx(250)]
    assert [row["CPU us a call"] for row in found] == [pytest.approx(1000)] * 4
