from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from slack.kube.connection import Connection
from slack.kube.discovery import CONFIRM_SECONDS, GONE_SECONDS
from slack.kube.errors import ApiError
from slack.kube.object_names import ObjectName
from slack.kube.reflector import Reflector
from slack.kube.retry import RetryBackoff
from slack.kube.watch import EventType
from tests.kube.fake_api import FakeApi, Reply, eventually, status_body

THINGS = "/apis/test/v1/things"


class Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class Thing(msgspec.Struct):
    metadata: Meta
    value: int = 0


class Store:
    """A sink that forgets at `end` what the generation did not show, and remembers its calls."""

    def __init__(self) -> None:
        self.things: dict[str, int] = {}
        self.calls: list[str] = []
        self.kept: list[str] = []
        self.fail_next = False
        self._seen: set[str] = set()

    def begin(self) -> None:
        self.calls.append("begin")
        self._seen = set()

    def apply(self, events: Sequence[tuple[EventType, Thing]]) -> None:
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("a bug in the sink")
        self.calls.append(f"apply {len(events)}")
        for kind, thing in events:
            if kind is EventType.DELETED:
                self.things.pop(thing.metadata.name, None)
            else:
                self.things[thing.metadata.name] = thing.value
                self._seen.add(thing.metadata.name)

    def keep(self, who: ObjectName) -> None:
        self.kept.append(str(who))
        self._seen.add(who.name)

    def end(self) -> None:
        self.calls.append("end")
        self.things = {name: value for name, value in self.things.items() if name in self._seen}


Start = Callable[..., tuple[Reflector[Thing], Store]]


@pytest.fixture
def start(connection: Connection) -> Iterator[Start]:
    running: list[Reflector[Thing]] = []

    def start(*, wait: bool = True, **options: Any) -> tuple[Reflector[Thing], Store]:
        store = Store()
        reflector = Reflector(connection, THINGS, Thing, store, backoff=RetryBackoff(0.02, 0.1), **options)
        running.append(reflector)
        reflector.start()
        assert not wait or reflector.wait_synced(5)
        return reflector, store

    yield start
    for reflector in running:
        reflector.stop()


def server(api: FakeApi) -> dict[str, int]:
    return {key[3]: body.get("value", 0) for key, body in api.objects.items()}


def fill(api: FakeApi, *names: str, value: int = 1) -> None:
    for name in names:
        api.put(f"/apis/test/v1/namespaces/ns/things/{name}", value=value)


def drop(api: FakeApi, name: str) -> None:
    api.remove(f"/apis/test/v1/namespaces/ns/things/{name}")


def test_a_watchlist_brings_what_is_there_and_then_what_changes(api: FakeApi, start: Start) -> None:
    fill(api, "a", "b")
    reflector, store = start(label_selector="x=y", field_selector="status.phase!=Failed")
    fill(api, "c")
    fill(api, "a", value=7)
    drop(api, "b")
    eventually(lambda: store.things == {"a": 7, "c": 1})
    query = api.last("watchlist").query
    assert query["sendInitialEvents"] == query["allowWatchBookmarks"] == "true"
    assert (query["resourceVersionMatch"], query["watch"]) == ("NotOlderThan", "1")
    assert 300 <= int(query["timeoutSeconds"]) <= 600
    assert (query["labelSelector"], query["fieldSelector"]) == ("x=y", "status.phase!=Failed")
    assert "resourceVersion" not in query
    assert (reflector.counters.watchlists, reflector.counters.lists, api.count("list")) == (1, 0, 0)
    assert reflector.counters.events == 5


def test_a_refused_watchlist_falls_back_to_pages_and_is_not_asked_again(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    fill(api, *"abcde")
    reflector, store = start(page_size=2)
    assert store.things == server(api)
    assert [seen.query.get("limit") for seen in api.seen if seen.verb == "list"] == ["2", "2", "2"]
    assert "resourceVersion" not in api.last("list").query, "the server ignores the limit with a resourceVersion of 0"
    eventually(lambda: api.count("watch") == 1)
    api.compact()
    api.end_watches()
    eventually(lambda: reflector.counters.lists == 2 and reflector.synced)
    assert api.count("watchlist") == 1


def test_an_expired_continue_token_restarts_the_list(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    fill(api, *"abcd")
    page = {"metadata": {"resourceVersion": "50", "continue": "50:2"}, "items": [{"metadata": {"name": "old"}}]}
    api.script("list", Reply(body=page))
    api.compacted = 60
    reflector, store = start(page_size=10)
    assert store.calls[0:2] == ["begin", "apply 1"]
    assert store.calls[2] == "begin"
    assert store.things == server(api), "what only the broken list had shown is gone"
    assert (reflector.counters.lists, reflector.counters.expired) == (2, 1)


def test_a_page_that_fails_once_is_asked_again_without_restarting_the_list(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    fill(api, *"abcd")
    first = {"metadata": {"resourceVersion": "104", "continue": "104:1"}, "items": [api.objects[min(api.objects)]]}
    api.script("list", Reply(body=first), Reply.status(503), Reply.status(429))
    reflector, store = start(page_size=1)
    assert store.things == server(api)
    assert store.calls.count("begin") == 1
    assert (reflector.counters.lists, reflector.counters.errors) == (1, 2)


@pytest.mark.parametrize("as_status", [False, True])
def test_a_410_drops_what_vanished_meanwhile(api: FakeApi, start: Start, as_status: bool) -> None:
    fill(api, "a", "b", "c")
    reflector, store = start()
    api.gone_as_status = as_status
    with api.changed:  # the watch ends before it could tell
        del api.objects["test/v1", "things", "ns", "b"]
        api.compact()
        api.end_watches()
    eventually(lambda: store.things == {"a": 1, "c": 1})
    assert reflector.counters.expired == 1
    assert reflector.counters.watchlists == 2
    assert reflector.counters.errors == 0, "a 410 is no error and needs no pause"


def test_while_syncing_again_the_reflector_says_it_is_not_synced(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    reflector, _ = start()
    api.script("watchlist", Reply(hang=True))
    api.compact()
    api.end_watches()
    eventually(lambda: api.count("watchlist") == 2)
    assert not reflector.synced


def test_a_server_that_expires_what_it_just_gave_is_not_listed_without_pause(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    fill(api, "a")
    api.compacted = 10**6
    api.version = 10**6
    api.script("watch", *[Reply.status(410, "Expired")] * 1000)
    _, _ = start()
    time.sleep(0.5)
    assert api.count("list") < 30


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_an_error_inside_the_watch_is_survived_with_the_version_kept(api: FakeApi, start: Start, code: int) -> None:
    fill(api, "a")
    reflector, store = start()
    fill(api, "b")
    eventually(lambda: "b" in store.things)
    version = reflector._decoder.resource_version
    api.push(json.dumps({"type": "ERROR", "object": status_body(code, "Broken")}).encode() + b"\n")
    fill(api, "c")
    eventually(lambda: "c" in store.things)
    assert api.last("watch").query["resourceVersion"] == version
    assert (reflector.counters.errors, reflector.counters.watchlists) == (1, 1)


def test_retry_after_of_a_429_is_honoured(api: FakeApi, start: Start) -> None:
    api.script("watchlist", Reply.status(429, "TooManyRequests", retry_after=1))
    began = time.monotonic()
    reflector, _ = start()
    assert time.monotonic() - began >= 1.0
    assert reflector.counters.errors == 1


def test_a_collection_without_a_cache_is_listed_at_once_and_watched_when_it_has_one(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    message = "storage is (re)initializing"  # what 1.36 says of a kind whose CRD is new
    api.script("watchlist", Reply.status(429, "TooManyRequests", retry_after=600, message=message))
    api.script("watch", Reply.status(429, "TooManyRequests", retry_after=1, message=message))
    reflector, sink = start()
    assert reflector.synced
    assert (api.count("watchlist"), api.count("list")) == (1, 1)
    fill(api, "b")
    eventually(lambda: sink.things == server(api))


def test_a_list_that_is_refused_for_want_of_a_cache_waits_as_the_server_says(api: FakeApi, start: Start) -> None:
    message = "storage is (re)initializing"
    for verb in ("watchlist", "list"):
        api.script(verb, Reply.status(429, "TooManyRequests", retry_after=1, message=message))
    began = time.monotonic()
    start()
    assert time.monotonic() - began >= 1.0
    assert (api.count("watchlist"), api.count("list")) == (2, 1)


def test_retry_after_inside_a_status_body_is_honoured(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    api.script("watchlist", Reply.status(503, retryAfterSeconds=1))
    began = time.monotonic()
    start()
    assert time.monotonic() - began >= 1.0


def test_a_too_large_version_waits_and_then_lists(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    too_large = Reply.status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
    reflector, _ = start()
    api.script("watch", *[too_large] * 4)
    api.end_watches()
    eventually(lambda: api.count("watch") >= 5)
    assert reflector.counters.watchlists == 1, "a server that catches up is watched from where we were"
    api.script("watch", *[too_large] * 5)
    fill(api, "b")
    api.end_watches()
    eventually(lambda: reflector.counters.watchlists == 2)


def test_a_reset_in_the_middle_of_a_line_loses_and_doubles_nothing(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    reflector, store = start()
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "half"}, "value": 3}}).encode()
    api.push(line[: len(line) // 2])
    time.sleep(0.05)
    api.end_watches(reset=True)
    eventually(lambda: api.count("watch") == 1)
    fill(api, "b")
    eventually(lambda: store.things == {"a": 1, "b": 1})
    assert (reflector.counters.errors, reflector.unreadable.count, reflector.counters.watchlists) == (1, 0, 1)


def test_a_connection_cut_in_the_initial_events_syncs_again_without_an_end(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    ghost = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "ghost", "resourceVersion": "9"}}}).encode()
    api.script("watchlist", Reply(body=ghost + b"\n", cut=True))
    reflector, store = start()
    assert store.things == {"a": 1}
    assert reflector.counters.watchlists == 2
    assert store.calls.count("end") == 1


def test_a_server_that_knows_no_initial_events_is_listed(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    api.script("watchlist", Reply(), Reply())
    reflector, store = start()
    assert store.things == {"a": 1}
    assert reflector.counters.lists == 1


def test_garbage_is_counted_and_named_and_the_watch_goes_on(
    api: FakeApi, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    reflector, store = start()
    with caplog.at_level(logging.WARNING):
        api.push(b"garbage\n\n")
        api.put("/apis/test/v1/namespaces/ns/things/odd", value="t0ken")
        fill(api, "b")
        eventually(lambda: "b" in store.things)
    assert reflector.unreadable.count == 2
    assert set(reflector.unreadable.names) == {"?", "ns/odd"}
    assert "ns/odd" in caplog.text
    assert "t0ken" not in caplog.text
    assert api.count("watch") == 0, "still the first stream"


def long(api: FakeApi, name: str, value: int = 1) -> None:
    api.put(f"/apis/test/v1/namespaces/ns/things/{name}", value=value, text="x" * 20_000)


@pytest.mark.parametrize("deleted", [False, True])
def test_an_object_that_is_too_long_is_skipped_and_stays_as_it_was_known(
    api: FakeApi, start: Start, caplog: pytest.LogCaptureFixture, deleted: bool
) -> None:
    fill(api, "a", "b")
    reflector, store = start(max_line_bytes=10_000)
    with caplog.at_level(logging.WARNING):
        long(api, "a", value=2)
        fill(api, "c")
        eventually(lambda: "c" in store.things)
    assert store.things == {"a": 1, "b": 1, "c": 1}
    assert (reflector.counters.watchlists, reflector.counters.errors, reflector.synced) == (1, 0, True)
    assert reflector.unreadable.names == {"ns/a": "its watch line is longer than 10000 bytes"}
    with api.changed:  # a new list shows it again, and `b` no more
        del api.objects["test/v1", "things", "ns", "b"]
        api.compact()
        api.end_watches()
    eventually(lambda: reflector.counters.watchlists == 2 and reflector.synced)
    assert store.things == {"a": 1, "c": 1}
    assert caplog.text.count("ns/a is left out") == 1
    drop(api, "a") if deleted else fill(api, "a", value=3)
    eventually(lambda: store.things == ({"c": 1} if deleted else {"a": 3, "c": 1}))
    eventually(lambda: not reflector.unreadable.names)


def test_an_object_nobody_can_read_does_not_cost_the_others_their_page(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    bad = b'{"metadata":{"name":"bad","namespace":"ns"},"spec":' + b"[" * 3000 + b"]" * 3000 + b"}"
    good = b'{"metadata":{"name":"good","namespace":"ns"},"value":5}'
    body = b'{"metadata":{"resourceVersion":"100"},"items":[' + bad + b"," + good + b"]}"
    api.script("list", Reply(body=body))
    reflector, store = start()
    assert store.things == {"good": 5}
    assert store.kept == ["ns/bad"]
    assert reflector.unreadable.names == {"ns/bad": "it is nested too deeply"}


def test_what_waits_for_the_sink_is_bounded_by_its_bytes(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slack.kube.reflector.BATCH_BYTES", 100_000)
    for number in range(300):
        long(api, f"t{number}")
    _, store = start()
    applied = [int(call.removeprefix("apply ")) for call in store.calls if call.startswith("apply")]
    assert sum(applied) == 300
    assert max(applied) <= 100


def test_a_page_of_long_objects_is_asked_for_again_with_fewer_of_them(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slack.kube.paging.MOST_PAGE_BYTES", 100_000)
    api.watch_list = False
    for number in range(20):
        long(api, f"t{number:02}")
    fill(api, *(f"u{number}" for number in range(40)))
    reflector, store = start(page_size=40)
    assert store.things == server(api)
    limits = [int(seen.query["limit"]) for seen in api.seen if seen.verb == "list"]
    assert limits[:2] == [40, 10]
    assert min(limits) < 5
    assert limits[-1] > 5, "pages of short objects are long again"
    assert reflector.counters.lists == 1


def test_a_server_that_goes_and_comes_back_is_watched_from_where_we_were(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    reflector, store = start()
    api.stop()
    eventually(lambda: reflector.counters.errors >= 5)
    assert reflector.synced
    assert store.things == {"a": 1}
    fill(api, "b")
    api.start()
    eventually(lambda: store.things == {"a": 1, "b": 1})
    assert reflector.counters.watchlists == 1


def test_a_server_that_is_away_at_the_start_is_waited_for(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    api.stop()
    reflector, store = start(wait=False)
    eventually(lambda: reflector.counters.errors >= 3)
    assert not reflector.synced
    assert reflector.last_heard_age(time.monotonic()) == math.inf
    assert reflector.last_error
    assert store.calls == []
    api.start()
    assert reflector.wait_synced(5)
    assert reflector.last_error is None


def test_after_a_bookmark_the_watch_resumes_from_its_version(api: FakeApi, start: Start) -> None:
    fill(api, "a")
    reflector, _ = start()
    version = api.bookmark()
    time.sleep(0.05)
    api.end_watches()
    eventually(lambda: api.count("watch") == 1)
    assert api.last("watch").query["resourceVersion"] == str(version)
    assert reflector.last_heard_age(time.monotonic()) < 5


def test_a_quiet_watch_is_opened_again_and_is_no_error(
    api: FakeApi, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    fill(api, "a")
    with caplog.at_level(logging.WARNING):
        reflector, store = start(idle_seconds=1.0)
        eventually(lambda: reflector.counters.idle_timeouts == 1)
        fill(api, "b")
        eventually(lambda: "b" in store.things)
    assert reflector.counters.watchlists == 1
    assert (reflector.counters.errors, reflector.last_error, caplog.text) == (0, None, "")


def test_a_server_that_waits_for_a_version_of_another_life_is_listed_again(api: FakeApi, start: Start) -> None:
    reflector, store = start(idle_seconds=0.2)
    with api.changed:  # a restored backup: versions start lower, and events below the asked one are never sent
        api.version = 10
        api.history.clear()
        api.end_watches()
    eventually(lambda: api.count("watch") == 1)
    fill(api, "b")
    eventually(lambda: "b" in store.things)
    assert reflector.counters.watchlists == 2
    assert reflector.counters.idle_timeouts >= 2


def test_an_orderly_end_is_no_error(api: FakeApi, start: Start) -> None:
    reflector, store = start()
    fill(api, "a")
    eventually(lambda: "a" in store.things)
    api.end_watches()
    eventually(lambda: api.count("watch") == 1)
    assert reflector.counters.errors == 0


def test_a_sink_that_raises_gets_everything_again(api: FakeApi, start: Start) -> None:
    reflector, store = start()
    store.fail_next = True
    fill(api, "a")
    eventually(lambda: reflector.counters.watchlists == 2 and store.things == {"a": 1})


def test_stop_returns_at_once_from_a_blocked_read(api: FakeApi, start: Start) -> None:
    reflector, store = start()
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < 0.5
    assert reflector._thread is not None
    assert not reflector._thread.alive
    reflector.stop()
    fill(api, "late")
    assert store.things == {}


def test_stop_ends_a_pause(api: FakeApi, start: Start) -> None:
    api.script("watchlist", Reply.status(429, retry_after=60))
    reflector, _ = start(wait=False)
    eventually(lambda: reflector.counters.errors == 1)
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < 0.5


def test_stop_in_the_middle_of_a_list_leaves_the_sink_alone(api: FakeApi, start: Start) -> None:
    api.watch_list = False
    api.script("list", Reply(body=b'{"metadata":{"resourceVersion":"1"},"items":[', hang=True))
    reflector, store = start(wait=False)
    eventually(lambda: reflector._stream is not None and api.count("list") == 1)
    time.sleep(0.05)
    reflector.stop()
    assert reflector._thread is not None
    assert not reflector._thread.alive
    assert store.calls == []


def test_a_list_in_which_everything_is_new_equals_the_server_after_any_storm(api: FakeApi, start: Start) -> None:
    _, store = start()
    done = threading.Event()

    def storm() -> None:
        for i in range(400):
            fill(api, f"t{i % 37}", value=i)
            if i % 5 == 4 and (("test/v1", "things", "ns", f"t{(i - 2) % 37}") in api.objects):
                drop(api, f"t{(i - 2) % 37}")
            if i % 60 == 59:
                api.end_watches(reset=i % 120 == 119)
            if i == 250:
                api.compact()
                api.end_watches()
        done.set()

    threading.Thread(target=storm).start()
    assert done.wait(20)
    eventually(lambda: store.things == server(api), 10)


GROUP = {"kind": "APIGroup", "versions": [{"groupVersion": "test/v2"}]}
"""Discovery, where our version is served no more."""


def discovery(api: FakeApi, monkeypatch: pytest.MonkeyPatch, *answers: Reply) -> None:
    """Each 404 of the collection is followed by these answers of discovery."""
    api.script("watchlist", Reply.status(404, "NotFound"))
    given = iter(answers)

    def request(_method: str, path: str, **_: object) -> bytes:
        reply = next(given)
        if reply.code != 200:
            raise ApiError(reply.code, "Broken", path)
        return msgspec.json.encode(reply.body)

    monkeypatch.setattr(Connection, "request", lambda _self, *args, **options: request(*args, **options))


def test_a_kind_that_may_be_absent_is_empty_when_that_has_lasted_and_said_nothing_about_until_it_is_there(
    connection: Connection, api: FakeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, now = Store(), [0.0]
    store.things["old"] = 1
    reflector = Reflector(connection, THINGS, Thing, store, may_be_absent=True, clock=lambda: now[0])
    for seconds in (0.0, CONFIRM_SECONDS - 1.0):
        now[0] = seconds
        discovery(api, monkeypatch, Reply.status(404))
        assert reflector._sync_or_watch() < CONFIRM_SECONDS / 5
        assert (store.things, reflector.synced, reflector.absent) == ({"old": 1}, False, False)
        assert "does not serve it" in (reflector.last_error or "")
    now[0] = CONFIRM_SECONDS
    discovery(api, monkeypatch, Reply.status(404))
    seconds = reflector._sync_or_watch()
    assert (store.things, reflector.synced, reflector.absent, caplog.records) == ({}, False, True, [])
    assert seconds > 1
    reflector.start()
    try:
        eventually(lambda: reflector.synced and not reflector.absent)
    finally:
        reflector.stop()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "answers",
    [
        [Reply(200, GROUP), Reply(200, {"resources": [{"name": "things"}]})],
        [Reply.status(503)],
        [Reply(200, GROUP), Reply.status(500)],
        [Reply.status(403)],
    ],
)
def test_a_version_that_is_gone_and_discovery_without_an_answer_are_trouble_and_never_an_empty_list(
    connection: Connection, api: FakeApi, monkeypatch: pytest.MonkeyPatch, known: bool, answers: list[Reply]
) -> None:
    store, now = Store(), [0.0]
    reflector = Reflector(connection, THINGS, Thing, store, may_be_absent=True, clock=lambda: now[0])
    if known:
        reflector._list()
        reflector._forget()
    store.things["old"] = 1
    for _ in range(4):
        discovery(api, monkeypatch, *answers)
        reflector._sync_or_watch()
        assert (store.things, reflector.synced, reflector.absent) == ({"old": 1}, False, False)
        now[0] += 10 * GONE_SECONDS
