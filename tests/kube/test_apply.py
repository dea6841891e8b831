from __future__ import annotations

import json
import threading
import time

import pytest

from slack.kube.apply import Writer, conflict_text, refusal_text
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, Stopped, Unreachable
from slack.kube.retry import RetryBackoff, retrying
from tests.kube.fake_api import FakeApi, Reply, eventually, status_body

MAP = "/api/v1/namespaces/n/configmaps/a"
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}


@pytest.fixture
def retried() -> list[BaseException]:
    return []


@pytest.fixture
def writer(connection: Connection, retried: list[BaseException]) -> Writer:
    policy = retrying(threading.Event(), on_retry=retried.append, first_seconds=0.01, deadline_seconds=3)
    return Writer(connection, threading.Event(), retry=policy)


def test_apply_creates_and_a_second_apply_changes_nothing(api: FakeApi, writer: Writer) -> None:
    first = writer.apply(MAP, MANIFEST)
    second = writer.apply(MAP, MANIFEST)
    assert first == second
    seen = api.last("patch")
    assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
    assert seen.query == {"fieldManager": "resource-slack"}
    assert json.loads(seen.body) == MANIFEST


def test_force_is_said_only_when_meant(api: FakeApi, writer: Writer) -> None:
    writer.apply(MAP, MANIFEST, force=True)
    assert api.last("patch").query["force"] == "true"


def test_a_conflict_names_fields_and_holders_and_is_not_retried(
    api: FakeApi, writer: Writer, retried: list[BaseException]
) -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-edit" using apps/v1',
        "field": ".spec.replicas",
    }
    api.script("patch", Reply.status(409, "Conflict", causes=[cause]))
    with pytest.raises(ApiError) as caught:
        writer.apply(MAP, MANIFEST)
    assert caught.value.conflict
    assert conflict_text(caught.value) == '.spec.replicas is held by "kubectl-edit" using apps/v1'
    assert retried == []


@pytest.mark.parametrize("code", [403, 404, 409, 410, 422])
def test_answers_that_stay_the_same_are_not_retried(
    api: FakeApi, writer: Writer, retried: list[BaseException], code: int
) -> None:
    api.script("patch", Reply.status(code))
    with pytest.raises(ApiError):
        writer.merge_patch(MAP, {})
    assert api.count("patch") == 1
    assert retried == []


def test_an_unknown_field_is_not_retried_although_the_server_calls_it_a_500(
    api: FakeApi, writer: Writer, retried: list[BaseException]
) -> None:
    message = "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema"
    api.script("patch", Reply(500, status_body(500, "InternalError", message)))
    with pytest.raises(ApiError, match="not declared in schema") as found:
        writer.apply(MAP, MANIFEST)
    assert retried == []
    assert "helm show crds CHART | kubectl apply --server-side --force-conflicts -f -" in refusal_text(found.value)
    assert refusal_text(ApiError(422, "Invalid", "no")) == "422 Invalid: no"


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_answers_that_pass_are_retried_and_counted(
    api: FakeApi, writer: Writer, retried: list[BaseException], code: int
) -> None:
    api.script("patch", Reply.status(code), Reply.status(code))
    assert writer.apply(MAP, MANIFEST)["data"] == {"k": "v"}
    assert len(retried) == 2


def test_a_lost_connection_is_retried(api: FakeApi, writer: Writer, retried: list[BaseException]) -> None:
    api.script("patch", Reply(cut=True, body=b"{"))
    assert writer.apply(MAP, MANIFEST)["data"] == {"k": "v"}
    assert isinstance(retried[0], Unreachable)


def test_retry_after_is_a_lower_bound(api: FakeApi, writer: Writer) -> None:
    api.script("patch", Reply.status(429, retry_after=1))
    began = time.monotonic()
    writer.apply(MAP, MANIFEST)
    assert time.monotonic() - began >= 1.0


def test_a_retry_after_beyond_the_deadline_gives_up_at_once(api: FakeApi, writer: Writer) -> None:
    api.script("patch", Reply.status(429, retry_after=600))
    began = time.monotonic()
    with pytest.raises(ApiError, match="429"):
        writer.apply(MAP, MANIFEST)
    assert time.monotonic() - began < 1.0


def test_stopping_ends_a_wait_and_no_further_try_starts(api: FakeApi, connection: Connection) -> None:
    stopping = threading.Event()
    api.script("get", Reply.status(503, retry_after=30))
    raised: list[BaseException] = []

    def read() -> None:
        try:
            Writer(connection, stopping).get(MAP)
        except Stopped as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    eventually(lambda: api.count("get") == 1)
    time.sleep(0.05)
    stopping.set()
    thread.join(1)
    assert raised
    assert api.count("get") == 1


def test_annotations_are_merged_and_none_removes(api: FakeApi, writer: Writer) -> None:
    api.put(MAP, metadata={"annotations": {"theirs": "1", "ours": "1"}})
    answer = writer.annotate(MAP, {"ours": None, "new": "2"})
    assert answer["metadata"]["annotations"] == {"theirs": "1", "new": "2"}


def test_create_get_delete(api: FakeApi, writer: Writer) -> None:
    made = writer.create("/api/v1/namespaces/n/configmaps", MANIFEST)
    assert writer.get(MAP) == made
    with pytest.raises(ApiError, match="AlreadyExists"):
        writer.create("/api/v1/namespaces/n/configmaps", MANIFEST)
    with pytest.raises(ApiError, match="UID"):
        writer.delete(MAP, uid="another")
    assert writer.delete(MAP, uid=made["metadata"]["uid"]) is True
    assert json.loads(api.last("delete").body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": made["metadata"]["uid"]},
    }
    assert writer.delete(MAP) is False


def test_backoff_doubles_up_to_its_maximum_and_starts_anew_after_progress() -> None:
    backoff = RetryBackoff(1.0, 8.0)
    for ceiling in (1, 2, 4, 8, 8, 8):
        assert ceiling / 2 <= backoff.next_seconds() <= ceiling
    assert 60 <= backoff.next_seconds(at_least=60) <= 66
    backoff.reset()
    assert backoff.next_seconds() <= 1.0
