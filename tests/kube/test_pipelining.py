"""Many writes at once over kept connections, against a server on a real socket."""

import json
import socket
from collections.abc import Iterator, Sequence

import pytest

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError, Unreachable
from slack.kube.pipelining import DEPTH, IDLE_SECONDS, MOST_PIPELINES, PipelinedClient, ShouldSend, WriteRequest
from tests.kube.fake_api import FakeApi, Reply, eventually

PODS = "/api/v1/namespaces/slack/pods"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lanes(connection: Connection) -> Iterator[PipelinedClient]:
    lanes = PipelinedClient(connection, Clock())
    yield lanes
    lanes.close()


def deletions(api: FakeApi, count: int) -> list[WriteRequest]:
    names = [f"{PODS}/slack-{number}" for number in range(count)]
    for name in names:
        api.put(name)
    uids = {f"{PODS}/{key[3]}": item["metadata"]["uid"] for key, item in api.objects.items()}
    return [WriteRequest("DELETE", name, {"preconditions": {"uid": uids[name]}}) for name in names]


def sent(
    lanes: PipelinedClient, asks: Sequence[WriteRequest], goes_on: ShouldSend = lambda _: True
) -> dict[int, KubeError | None]:
    answers: dict[int, KubeError | None] = {}
    lanes.send(asks, goes_on, lambda index, error: answers.update({index: error}))
    return answers


def test_all_are_sent_each_with_its_own_precondition_and_each_is_answered(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 3 * MOST_PIPELINES * DEPTH)
    assert sent(lanes, asks) == dict.fromkeys(range(len(asks)))
    assert not api.objects
    assert sorted(json.loads(seen.body)["preconditions"]["uid"] for seen in api.seen) == sorted(
        ask.body["preconditions"]["uid"] for ask in asks if ask.body
    )


def test_a_lone_write_takes_one_connection_and_the_next_takes_the_same(api: FakeApi, lanes: PipelinedClient) -> None:
    for ask in deletions(api, 3):
        assert sent(lanes, [ask]) == {0: None}
    assert len(api.sockets) == 1


def test_what_is_refused_is_told_with_what_the_server_says_and_the_others_go_on(
    api: FakeApi, lanes: PipelinedClient
) -> None:
    asks = deletions(api, 6)
    api.remove(asks[4].path)
    answers = sent(lanes, asks)
    refused = answers.pop(4)
    assert isinstance(refused, ApiError)
    assert refused.not_found
    assert set(answers.values()) == {None}


def test_a_server_that_is_overloaded_is_told_with_its_status(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 1)
    api.script("delete", Reply.status(429, "TooManyRequests", retry_after=3))
    (error,) = sent(lanes, asks).values()
    assert isinstance(error, ApiError)
    assert (error.status, error.retry_after_seconds) == (429, 3.0)


def test_nothing_is_sent_that_the_caller_does_not_want_any_more(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 8)
    assert sent(lanes, asks, lambda index: index % 2 == 0).keys() == {0, 2, 4, 6}
    assert len(api.objects) == 4


def test_what_was_sent_on_a_connection_that_breaks_is_sent_once_more(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 4)
    api.script("delete", Reply(body=b"half", cut=True))
    assert sent(lanes, asks) == dict.fromkeys(range(4))
    assert api.count("delete") == 5


def test_what_is_never_answered_is_told_so_and_is_not_tried_for_ever(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 1)
    api.script("delete", *[Reply(body=b"half", cut=True)] * 3)
    (error,) = sent(lanes, asks).values()
    assert isinstance(error, Unreachable)
    assert api.count("delete") == 2


def test_without_a_server_nothing_is_told_as_done(api: FakeApi, lanes: PipelinedClient) -> None:
    asks = deletions(api, 3)
    api.stop()
    assert None not in sent(lanes, asks).values()
    lanes.keep(MOST_PIPELINES)  # says nothing: whoever asks next will be told


def test_connections_that_the_server_has_closed_while_they_were_idle_are_opened_anew(
    api: FakeApi, lanes: PipelinedClient
) -> None:
    asks = deletions(api, MOST_PIPELINES)
    lanes.keep(MOST_PIPELINES)
    eventually(lambda: len(api.sockets) == MOST_PIPELINES)
    with api.changed:
        for wire in list(api.sockets):
            wire.shutdown(socket.SHUT_RDWR)
    assert sent(lanes, asks) == dict.fromkeys(range(MOST_PIPELINES))


def test_kept_connections_are_used_before_the_server_takes_them_for_idle(api: FakeApi, connection: Connection) -> None:
    clock = Clock()
    lanes = PipelinedClient(connection, clock)
    lanes.keep(MOST_PIPELINES)
    lanes.keep(MOST_PIPELINES)
    eventually(lambda: len(api.sockets) == MOST_PIPELINES)
    assert not api.count("version")
    clock.now = IDLE_SECONDS
    lanes.keep(MOST_PIPELINES)
    assert api.count("version") == MOST_PIPELINES
    lanes.keep(MOST_PIPELINES)
    assert api.count("version") == MOST_PIPELINES
    lanes.close()


def test_no_more_connections_are_kept_than_there_is_to_ask(api: FakeApi, lanes: PipelinedClient) -> None:
    lanes.keep(0)
    lanes.keep(3)
    eventually(lambda: len(api.sockets) == 3)
    lanes.keep(2)
    assert len(api.sockets) == 3


def test_each_answer_is_counted(api: FakeApi) -> None:
    counted: list[tuple[str, int]] = []
    connection = api.connection(on_request=lambda verb, code: counted.append((verb, code)))
    asks = deletions(api, 2)
    api.remove(asks[1].path)
    lanes = PipelinedClient(connection)
    sent(lanes, asks)
    lanes.close()
    assert sorted(counted) == [("delete", 200), ("delete", 404)]
