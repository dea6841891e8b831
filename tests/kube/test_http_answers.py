"""HTTP answers out of bytes, wherever they are cut."""

import pytest

from slack.kube.errors import InvalidAnswer
from slack.kube.http_answers import MOST_BYTES, HttpAnswer, HttpAnswers

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n4;why=not\r\nhell\r\nA\r\no\r\n\r\nworld\r\n0\r\n"
)
EMPTY = b"HTTP/1.1 204 No Content\r\nRetry-After: 3\r\n\r\n"
MANY = PLAIN + CHUNKED + b"\r\n" + EMPTY + CHUNKED + b"Trailer: yes\r\n\r\n" + b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def told(answers: list[HttpAnswer]) -> list[tuple[int, str, bytes]]:
    return [(answer.status, answer.reason, answer.body) for answer in answers]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_answers_are_the_same_wherever_the_bytes_are_cut(size: int) -> None:
    answers = HttpAnswers()
    found = [answer for at in range(0, len(MANY), size) for answer in answers.feed(MANY[at : at + size])]
    missing = (404, "Not Found", b"hello\r\n\r\nworld")
    assert told(found) == [(200, "OK", b"hello"), missing, (204, "No Content", b""), missing, (200, "OK", b"hello")]
    assert found[2].headers == {"Retry-After": "3"}


def test_an_answer_says_whether_its_connection_ends() -> None:
    (answer,) = HttpAnswers().feed(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"))
    assert answer.closes
    assert not HttpAnswers().feed(PLAIN)[0].closes


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
    ],
)
def test_what_no_api_server_says_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        HttpAnswers().feed(data)


def test_an_answer_without_end_is_given_up() -> None:
    answers = HttpAnswers()
    answers.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    for _ in range((MOST_BYTES >> 20) - 1):
        assert not answers.feed(bytes(1 << 20))
    answers.feed(bytes(1 << 19))
    with pytest.raises(InvalidAnswer, match="MiB"):
        answers.feed(bytes(1 << 19))
