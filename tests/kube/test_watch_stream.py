"""The body of a watch on a connection of its own: what comes together is handed out together, and how it ends."""

import socket
from collections.abc import Iterator

import pytest

from slack.kube.errors import ApiError, Unreachable
from slack.kube.watch_stream import GATHER_SECONDS, MOST_GATHER_SECONDS, WatchStream
from tests.kube.fake_api import FakeApi, Reply

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Ends:
    """Both ends of a connection; pauses send what is put in `later`."""

    def __init__(self) -> None:
        self.server, client = socket.socketpair()
        self.now = 0.0
        self.pauses: list[float] = []
        self.later: list[bytes] = []
        self.stream = WatchStream(client, "GET /pods", 0.2, clock=lambda: self.now, sleep=self.pause)
        client.settimeout(0.0)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        for piece in self.later:
            self.server.sendall(piece)
        self.later.clear()


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    with found.server, found.stream:
        yield found


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


def test_the_first_event_comes_at_once_and_those_that_follow_closely_come_together(ends: Ends) -> None:
    ends.server.sendall(HEAD)
    ends.stream.begin()
    assert (ends.stream.status, ends.stream.headers) == (200, {"Transfer-Encoding": "chunked"})
    ends.now = 10.0
    pieces = ends.stream.chunks()
    ends.server.sendall(chunk(b"one\n"))
    assert next(pieces) == b"one\n"
    assert ends.pauses == []
    ends.server.sendall(chunk(b"two\n"))
    ends.later = [chunk(b"three\n"), chunk(b"four\n")]
    assert next(pieces) == b"two\nthree\nfour\n"
    assert ends.pauses == [GATHER_SECONDS]


def test_a_stream_that_brings_little_all_the_time_is_read_less_often_and_a_full_one_is_not(ends: Ends) -> None:
    ends.server.sendall(HEAD + chunk(b"one\n"))
    ends.stream.begin()
    pieces = ends.stream.chunks()
    next(pieces)
    for _ in range(5):
        ends.server.sendall(chunk(b"more\n"))
        assert next(pieces) == b"more\n"
    assert ends.pauses == [GATHER_SECONDS, 2 * GATHER_SECONDS, 4 * GATHER_SECONDS, *[MOST_GATHER_SECONDS] * 2]
    ends.server.sendall(chunk(b"x" * 70_000))  # a burst, which waiting does not hold up
    assert len(next(pieces)) == 70_000
    ends.server.sendall(chunk(b"x" * 120_000))  # as much as the system takes: nothing may hold it up
    assert len(next(pieces)) == 120_000
    ends.server.sendall(chunk(b"more\n"))
    next(pieces)
    assert ends.pauses[-3:] == [*[MOST_GATHER_SECONDS] * 2, GATHER_SECONDS]
    ends.now += 1.0  # a quiet second
    ends.server.sendall(chunk(b"at once\n"))
    assert next(pieces) == b"at once\n"
    assert ends.pauses[-1:] == [GATHER_SECONDS]


def test_a_list_is_not_waited_for_longer_and_longer(ends: Ends) -> None:
    ends.server.sendall(HEAD + chunk(b"one\n"))
    ends.stream.begin()
    ends.stream.most_gather_seconds = GATHER_SECONDS
    pieces = ends.stream.chunks()
    next(pieces)
    for _ in range(3):
        ends.server.sendall(chunk(b"more\n"))
        next(pieces)
    assert ends.pauses == [GATHER_SECONDS] * 3


def test_a_body_that_is_whole_ends(ends: Ends) -> None:
    ends.server.sendall(HEAD + chunk(b"one\n") + b"0\r\n\r\n")
    ends.stream.begin()
    assert list(ends.stream.chunks()) == [b"one\n"]


def test_a_connection_that_closes_in_the_middle_is_told_after_what_came(ends: Ends) -> None:
    ends.server.sendall(HEAD + chunk(b"one\n") + b"ff\r\nhalf")
    ends.stream.begin()
    ends.server.close()
    pieces = ends.stream.chunks()
    assert next(pieces) == b"one\nhalf"
    with pytest.raises(Unreachable, match="before the answer was whole"):
        next(pieces)


def test_silence_counts_as_dead(ends: Ends) -> None:
    ends.server.sendall(HEAD)
    ends.stream.begin()
    with pytest.raises(Unreachable, match=r"GET /pods: no answer for 0\.2 s") as caught:
        next(ends.stream.chunks())
    assert caught.value.timed_out


def test_what_is_no_http_is_no_answer(ends: Ends) -> None:
    ends.server.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    with pytest.raises(Unreachable, match="what came is no answer"):
        ends.stream.begin()


def test_a_watch_that_is_refused_says_why_and_is_counted(api: FakeApi) -> None:
    counted: list[tuple[str, int]] = []
    connection = api.connection(lambda verb, code: counted.append((verb, code)))
    api.script("watch", Reply.status(429, "TooManyRequests", retry_after=2))
    with pytest.raises(ApiError) as caught:
        connection.watch("/api/v1/nodes", query={"watch": 1}, timeout=(1.0, 1.0))
    assert (caught.value.status, caught.value.retry_after_seconds) == (429, 2.0)
    api.stop()
    with pytest.raises(Unreachable, match="refused"):
        connection.watch("/api/v1/nodes", query={"watch": 1}, timeout=(1.0, 1.0))
    assert counted == [("watch", 429), ("watch", 0)]
    connection.close()
