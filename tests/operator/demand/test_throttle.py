"""The throttle endpoint: what it answers, to whom, how fast, and what it never refuses."""

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from slack.demand.model import AdmissionVerdict, QueueKey, Refusal
from slack.demand.tick import TickResult
from slack_operator.demand.loop import TickReport
from slack_operator.demand.throttle import MAX_BODY_BYTES, Followed, Throttle, answer
from slack_operator.demand.tick_state import TickState
from slack_operator.runtime.callers import CallerRefused
from tests.operator.demand.pools import document
from tests.operator.demand.test_pool_registry import books

KEY = QueueKey("media", "thumbnail")
FULL = AdmissionVerdict(
    reject=True,
    reason=Refusal.NAMESPACE_FULL,
    containers=100,
    limit=100,
    lag=7,
    rate_per_second=61.23,
    speed_per_second=44.0,
    retry_after_ms=1200,
)


def turn(at: float, **verdicts: AdmissionVerdict) -> TickReport:
    result = TickResult(verdicts={QueueKey("media", name): verdict for name, verdict in verdicts.items()})
    return TickReport(
        at_seconds=at,
        unix_seconds=at,
        tick_seconds=0.3,
        took_seconds=0.0,
        lags={},
        broker_problem=None,
        containers=(),
        result=result,
        targets={},
    )


class Endpoint:
    """A throttle endpoint with its surroundings."""

    def __init__(self, callers: Any = None) -> None:
        self.now = 100.0
        self.board, self.followed = TickState(lambda: self.now), Followed(lambda: self.now)
        self.leads, self.rejected = True, list[QueueKey]()
        self.published: list[tuple[str, bytes, str]] = []
        self.trouble: Exception | None = None
        self.most_body_bytes: int | None = None
        self.server = Throttle(
            "127.0.0.1",
            0,
            books=books(document()),
            board=self.board,
            followed=self.followed,
            leads=lambda: self.leads,
            publish=self._publish,
            most_body_bytes=lambda: self.most_body_bytes,
            callers=callers,
            on_rejected=self.rejected.append,
            tls=None,
        )
        self.server.start()

    def _publish(self, queue: str, body: bytes, message_id: str) -> "Future[None]":
        done: Future[None] = Future()
        if self.trouble is not None:
            done.set_exception(self.trouble)
        else:
            self.published.append((queue, body, message_id))
            done.set_result(None)
        return done

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=5)
        connection.request(method, path, body, {key.replace("_", "-"): text for key, text in headers.items()})
        response = connection.getresponse()
        found = response.status, json.loads(response.read()), response.headers
        connection.close()
        return found


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.stop()


ASK, SEND = "/v1/throttle/media/thumbnail", "/v1/activations/media/thumbnail"


def test_it_answers_200_and_429_with_the_verdict(endpoint: Endpoint) -> None:
    assert endpoint.call("GET", ASK)[:2] == (200, {"reject": False})
    endpoint.board.turn = turn(100.0, thumbnail=FULL)
    code, told, headers = endpoint.call("GET", ASK)
    assert (code, headers["Retry-After"]) == (429, "2")
    assert told == answer(FULL)
    assert told["ratePerSecond"] == 61.2
    assert endpoint.rejected == [KEY]
    assert endpoint.call("POST", ASK)[0] == 429, "a proxy in front may pass its own method on"


def test_a_verdict_of_three_ticks_ago_refuses_nobody(endpoint: Endpoint) -> None:
    endpoint.board.turn = turn(100.0, thumbnail=FULL)
    endpoint.now = 100.8
    assert endpoint.call("GET", ASK)[0] == 429
    endpoint.now = 101.0
    assert endpoint.call("GET", ASK)[0] == 200


def test_a_standby_answers_from_the_status_and_opens_when_the_leader_is_silent(endpoint: Endpoint) -> None:
    endpoint.leads = False
    status = {"throttle": {**answer(FULL), "observedAt": "2026-01-01T00:00:00Z"}}
    endpoint.followed.refresh({KEY: status})
    assert endpoint.call("GET", ASK)[1] == answer(replace(FULL, rate_per_second=61.2))
    endpoint.now += 2.9
    endpoint.followed.refresh({KEY: status})
    assert endpoint.call("GET", ASK)[0] == 429
    endpoint.now += 0.2
    assert endpoint.call("GET", ASK)[0] == 200
    endpoint.followed.refresh({KEY: {"throttle": {**status["throttle"], "observedAt": "2026-01-01T00:00:04Z"}}})
    assert endpoint.call("GET", ASK)[0] == 429


def test_a_message_is_published_once_an_id(endpoint: Endpoint) -> None:
    code, told, _ = endpoint.call("POST", SEND, b"work", Idempotency_Key="a-1")
    assert (code, told) == (202, {"id": "a-1", "queue": "act.media.thumbnail.256"})
    assert endpoint.published == [("act.media.thumbnail.256", b"work", "a-1")]
    endpoint.board.turn = turn(100.0, thumbnail=FULL)
    assert endpoint.call("POST", SEND, b"work")[0] == 429
    assert len(endpoint.published) == 1


@pytest.mark.parametrize(
    ("path", "body", "headers", "code", "words"),
    [
        ("/v1/activations/media/nobody", b"x", {}, 404, "no ActivationPool media/nobody"),
        ("/v1/activations/media/a.b", b"x", {}, 400, "action: must be lower case letters"),
        ("/v1/activations/Media/thumbnail", b"x", {}, 400, "namespace: must be"),
        (SEND, b"x" * (MAX_BODY_BYTES + 1), {}, 413, "longer than 1048576 bytes"),
        (SEND, b"x", {"Content_Encoding": "gzip"}, 415, "Content-Encoding"),
        (SEND, b"x", {"Idempotency_Key": "a b"}, 400, "Idempotency-Key: must be"),
    ],
)
def test_bad_requests_are_refused_with_the_part(
    endpoint: Endpoint, path: str, body: bytes, headers: dict[str, str], code: int, words: str
) -> None:
    try:
        found = endpoint.call("POST", path, body, **headers)
    except (ConnectionResetError, BrokenPipeError):
        assert code == 413, "only a body that is too long is cut off"
        return
    assert found[0] == code
    assert words in found[1]["problem"]
    assert not endpoint.published


def test_a_body_that_the_broker_would_refuse_is_too_long(endpoint: Endpoint) -> None:
    """NATS's own limit of 1 MiB is for headers too."""
    endpoint.most_body_bytes = 5000
    assert endpoint.call("POST", SEND, b"x" * 5000)[0] == 202
    code, told, _ = endpoint.call("POST", SEND, b"x" * 5001)
    assert (code, told) == (413, {"problem": "the body is longer than 5000 bytes"})
    assert len(endpoint.published) == 1
    endpoint.most_body_bytes = 10 * MAX_BODY_BYTES
    assert endpoint.call("POST", SEND, b"x" * MAX_BODY_BYTES)[0] == 202


def test_a_broker_that_is_gone_is_told_to_who_sends(endpoint: Endpoint) -> None:
    endpoint.trouble = TimeoutError()
    code, told, headers = endpoint.call("POST", SEND, b"x")
    assert (code, headers["Retry-After"]) == (503, "1")
    assert "does not answer" in told["problem"]


class OnlyGood:
    """Callers of whom one has a token that is good."""

    def known(self, token: str) -> object | None:
        return None

    def expects(self, token: str) -> bool:
        return False

    def who(self, token: str) -> object:
        if token != "good":
            raise CallerRefused(401, "the token is not valid")
        return token


def test_with_an_account_only_its_tokens_are_answered() -> None:
    made = Endpoint(OnlyGood())
    try:
        assert made.call("GET", ASK)[0] == 401
        assert made.call("GET", ASK, Authorization="Bearer bad")[0] == 401
        assert made.call("GET", ASK, Authorization="Bearer good")[0] == 200
        assert made.call("POST", SEND, b"x")[0] == 401
    finally:
        made.server.stop()


def test_the_answer_itself_takes_a_fraction_of_a_millisecond(endpoint: Endpoint) -> None:
    endpoint.board.turn = turn(100.0, thumbnail=FULL)
    took = []
    for _ in range(2000):
        began = time.perf_counter()
        endpoint.server.verdict(KEY)
        took.append(time.perf_counter() - began)
    assert statistics.quantiles(took, n=100)[98] < 0.001


def test_ten_publishers_share_one_limit_and_none_is_refused_below_it(endpoint: Endpoint) -> None:
    for containers in range(100):
        endpoint.board.turn = turn(100.0, thumbnail=AdmissionVerdict(containers=containers, limit=100, lag=50))
        assert not any(endpoint.server.verdict(KEY).reject for _ in range(10))
    endpoint.board.turn = turn(100.0, thumbnail=FULL)
    assert all(endpoint.server.verdict(KEY).reject for _ in range(10))
