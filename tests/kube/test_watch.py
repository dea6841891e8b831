from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.kube.errors import ApiError
from slack.kube.object_names import split_list
from slack.kube.paging import PageDecoder
from slack.kube.watch import Bookmark, EventType, LineSplitter, Undecodable, WatchDecoder
from tests.cases import run_for_each


class Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class Thing(msgspec.Struct):
    metadata: Meta
    value: int = 0


def event(kind: str, name: str, version: int, value: Any = 0) -> bytes:
    thing = {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}, "value": value}
    return json.dumps({"type": kind, "object": thing}).encode()


def bookmark(version: int) -> bytes:
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}).encode()


names = st.text(st.characters(codec="utf-8"), max_size=20)
events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(EventType)), names, st.integers(1, 10**6), st.integers()),
        st.tuples(st.just("BOOKMARK"), st.just(""), st.integers(1, 10**6), st.just(0)),
    ),
    max_size=30,
)


@given(events, st.randoms(use_true_random=False), st.booleans())
def test_events_are_delivered_exactly_wherever_the_bytes_are_split(
    wanted: list[tuple[str, str, int, int]], rng: Any, compact: bool
) -> None:
    def encoded(kind: str, name: str, version: int, value: int) -> bytes:
        raw = bookmark(version) if kind == "BOOKMARK" else event(kind, name, version, value)
        return msgspec.json.encode(msgspec.Raw(raw.replace(b'": ', b'":'))) if compact else raw

    data = b"".join(encoded(*item) + b"\n" for item in wanted)
    decoder = WatchDecoder(Thing)
    decoder.reset("1")
    got: list[Any] = []
    place = 0
    while place < len(data):
        size = rng.randint(1, 80)
        got += decoder.feed(data[place : place + size])
        place += size
    flat = [
        ("BOOKMARK", "", int(item.resource_version), 0)
        if isinstance(item, Bookmark)
        else (item[0], item[1].metadata.name, int(item[1].metadata.resource_version), item[1].value)
        for item in got
    ]
    assert flat == wanted
    assert decoder.resource_version == (str(wanted[-1][2]) if wanted else "1")


@given(st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")), max_size=20), st.integers(1, 40))
def test_lines_come_out_whole_and_an_unfinished_one_never(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"unfinished"
    splitter = LineSplitter()
    got = [line for i in range(0, len(data), size) for line in splitter.feed(data[i : i + size])]
    assert got == [line for line in lines if line]


@run_for_each(
    "line",
    [
        b"{",
        b"garbage",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"type":"ADDED"}',
        b'{"type":"WHATEVER","object":{}}',
        b"[" * 100_000,
        b'{"type":"BOOKMARK","object":7}',
        b'{"type":"ERROR","object":[]}',
    ],
)
def test_a_line_that_cannot_be_read_stands_in_its_place_and_harms_no_other(line: bytes) -> None:
    decoder = WatchDecoder(Thing)
    before, bad, after = decoder.feed(event("ADDED", "a", 1) + b"\n" + line + b"\n" + event("ADDED", "b", 2) + b"\n")
    assert isinstance(before, tuple)
    assert isinstance(bad, Undecodable)
    assert isinstance(after, tuple)
    assert after[1].metadata.name == "b"


def test_an_object_of_the_wrong_shape_is_named_and_its_content_is_not_shown() -> None:
    (bad,) = WatchDecoder(Thing).feed(event("MODIFIED", "web-1", 5, "s3cret") + b"\n")
    assert isinstance(bad, Undecodable)
    assert bad.name == "ns/web-1"
    assert "value" in bad.why
    assert "s3cret" not in bad.why


def test_an_error_event_carries_code_reason_and_retry_after() -> None:
    status = {"code": 429, "reason": "TooManyRequests", "message": "slowly", "details": {"retryAfterSeconds": 7}}
    (error,) = WatchDecoder(Thing).feed(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
    assert isinstance(error, ApiError)
    assert (error.status, error.reason, error.retry_after_seconds) == (429, "TooManyRequests", 7.0)


@pytest.mark.parametrize("size", [1, 64, 1500, 10**6])
def test_a_line_beyond_the_cap_is_named_and_dropped_and_the_lines_around_it_are_read(size: int) -> None:
    data = b"".join(
        event("ADDED", name, version, value) + b"\n"
        for name, version, value in (("a", 1, 1), ("b", 2, "x" * 3000), ("c", 3, 3))
    )
    decoder = WatchDecoder(Thing, max_line_bytes=1000)
    before, bad, after = (item for i in range(0, len(data), size) for item in decoder.feed(data[i : i + size]))
    assert isinstance(before, tuple)
    assert isinstance(bad, Undecodable)
    assert isinstance(after, tuple)
    assert (bad.name, after[1].metadata.name, decoder.resource_version) == ("ns/b", "c", "3")
    assert "1000 bytes" in bad.why


def test_a_line_without_an_end_takes_no_more_memory_than_the_cap() -> None:
    splitter = LineSplitter(1000)
    lines = [line for _ in range(10_000) for line in splitter.feed(b"x" * 64)]
    assert len(lines) == 1
    assert not splitter._rest


def deep(levels: int) -> bytes:
    return b'{"x":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1_500, 10_000])
def test_an_object_that_is_nested_deeply_is_named_and_its_deletion_is_told(levels: int) -> None:
    line = (
        b'{"type":"%s","object":{"metadata":{"annotations":{"name":"other"},"generation":4,"name":"b","namespace":"ns"'
        b',"resourceVersion":"7","uid":"u"},"spec":' + deep(levels) + b"}}\n"
    )
    decoder = WatchDecoder(Thing)
    bad, gone = decoder.feed(line.replace(b"%s", b"MODIFIED") + line.replace(b"%s", b"DELETED"))
    assert isinstance(bad, Undecodable)
    assert (bad.name, bad.why, bad.who.uid, bad.who.generation) == ("ns/b", "it is nested too deeply", "u", 4)
    assert isinstance(gone, tuple)
    assert (gone[0], gone[1].metadata.name) == (EventType.DELETED, "b")


def test_a_text_that_is_cut_off_does_not_name_another_object() -> None:
    line = b'{"type":"DELETED","object":{"metadata":{"annotations":{"a":"\\"},\\"name\\":\\"other\\"' + b"x" * 2000
    (bad,) = WatchDecoder(Thing, max_line_bytes=500).feed(line)
    assert isinstance(bad, Undecodable)
    assert bad.name == "?"


def test_a_page_with_an_object_that_is_nested_deeply_keeps_the_others() -> None:
    first, last = (json.loads(event("ADDED", name, 1, 5))["object"] for name in "ac")
    bad = b'{"metadata":{"name":"b","namespace":"ns","uid":"u"},"spec":' + deep(2_000) + b"}"
    items = b",".join((json.dumps(first).encode(), bad, json.dumps(last, indent=1).encode()))
    body = b'{"kind":"List","metadata":{"resourceVersion":"9","continue":"more"},"items":[' + items + b"]}"
    good, skipped, version, token = PageDecoder(Thing).decode(body)
    assert [thing.metadata.name for thing in good] == ["a", "c"]
    assert [(line.name, line.who.uid) for line in skipped] == [("ns/b", "u")]
    assert (version, token) == ("9", "more")
    with pytest.raises(msgspec.DecodeError):
        PageDecoder(Thing).decode(body[:-200])


@given(
    st.lists(
        st.recursive(
            st.none() | st.text(max_size=5) | st.integers(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
        max_size=5,
    )
)
def test_a_list_is_split_into_its_items_as_they_came(values: list[Any]) -> None:
    items = [{"metadata": {"name": "n"}, "value": value} for value in values]
    body = json.dumps({"items": items, "kind": "List", "metadata": {"resourceVersion": "1"}}).encode()
    metadata, found = split_list(body)
    assert json.loads(metadata) == {"resourceVersion": "1"}
    assert [json.loads(item) for item in found] == items


def test_one_bad_item_does_not_cost_the_page() -> None:
    items = [json.loads(event("ADDED", name, 1, value))["object"] for name, value in (("a", 1), ("b", "no"), ("c", 3))]
    body = json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": items}).encode()
    good, bad, version, token = PageDecoder(Thing).decode(body)
    assert [thing.metadata.name for thing in good] == ["a", "c"]
    assert [line.name for line in bad] == ["ns/b"]
    assert (version, token) == ("9", "more")
