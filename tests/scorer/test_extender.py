"""What the scheduler sends, and what it is answered."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.scorer.extender import (
    InvalidRequest,
    ScoreReplies,
    decode,
    decode_preemption,
    filter_reply,
    preemption_reply,
)
from tests.cases import run_for_each

POD = {"metadata": {"name": "api-x", "namespace": "shop"}, "spec": {"containers": [{"name": "a"}]}}


def _args(**more: object) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": None, **more}).encode()


def test_names_are_read_as_a_scheduler_with_a_node_cache_sends_them() -> None:
    asked = decode(_args(NodeNames=["n1", "n2"]))
    assert (asked.pod.metadata.name, list(asked.names), asked.whole_nodes) == ("api-x", ["n1", "n2"], None)


def test_whole_nodes_are_read_for_their_names() -> None:
    nodes = {
        "metadata": {},
        "items": [{"metadata": {"name": "n1"}, "status": {"images": []}}, {"metadata": {"name": "n2"}}],
    }
    asked = decode(_args(Nodes=nodes))
    assert list(asked.names) == ["n1", "n2"]
    assert asked.whole_nodes is not None


@run_for_each(
    ("body", "said"),
    [
        (b"", "no ExtenderArgs"),
        (b"null", "no ExtenderArgs"),
        (b"[1]", "no ExtenderArgs"),
        (b'{"Pod":null,"NodeNames":["n"]}', "Pod: is missing"),
        (_args(Nodes={"items": [], "more": "x"}).replace(b'"x"', b'"\xff"'), "no ExtenderArgs"),
        (_args(), "NodeNames: is missing"),
        (_args(NodeNames=[1]), r"\$.NodeNames\[0\]"),
        (_args(NodeNames=[""]), r"\$.NodeNames\[0\]"),
        (_args(NodeNames=["n" * 254]), r"\$.NodeNames\[0\]"),
        (_args(NodeNames=["n"] * 20_001), r"\$.NodeNames"),
        (_args(Nodes={"items": [{"metadata": {}}]}), "missing required field `name`"),
        (b'{"Pod":{},"NodeNames":["n"]}', "metadata"),
        (b"[" * 100_000, "no ExtenderArgs"),
        (b'{"Pod":"\xff"}', "no ExtenderArgs"),
    ],
)
def test_what_is_no_request_is_refused_with_the_place(body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        decode(body)


def test_no_nodes_is_an_answer_too() -> None:
    asked = decode(_args(NodeNames=[]))
    assert ScoreReplies(["n1"]).reply(asked.names, []) == b"[]"


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.integers(0, 100), max_size=8))
def test_replies_are_the_list_that_the_scheduler_reads(scores: dict[str, int]) -> None:
    known = ScoreReplies(list(scores)[:4])
    answer = json.loads(known.reply(list(scores), list(scores.values())))
    assert answer == [{"Host": name, "Score": score} for name, score in scores.items()]
    assert all(type(entry["Score"]) is int for entry in answer)


def test_a_filter_says_which_nodes_stay_and_why_others_do_not() -> None:
    answer = json.loads(filter_reply(decode(_args(NodeNames=["n1", "n2"])), {"n2": "CPU 97 % used"}))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n2": "CPU 97 % used"},
        "Error": "",
    }


def test_a_filter_gives_whole_nodes_back_whole() -> None:
    first = {"metadata": {"name": "n1"}, "status": {"images": [1]}}
    nodes = {"metadata": {"resourceVersion": "7"}, "items": [first, {"metadata": {"name": "n2"}}]}
    answer = json.loads(filter_reply(decode(_args(Nodes=nodes)), {"n2": "full"}))
    assert answer["Nodes"] == {"metadata": {"resourceVersion": "7"}, "items": [first]}
    assert answer["NodeNames"] is None


@pytest.mark.parametrize(
    "victims",
    [
        {"NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1},
            "n2": {"Pods": [{"UID": "c"}], "NumPDBViolations": 0},
        }},
        {"NodeNameToVictims": {
            "n1": {"Pods": [{"metadata": {"uid": "a"}}, {"metadata": {"uid": "b"}}], "NumPDBViolations": 1},
            "n2": {"Pods": [{"metadata": {"uid": "c"}}], "NumPDBViolations": 0},
        }},
    ],
    ids=["names", "whole pods"],
)  # fmt: skip
def test_a_preemption_keeps_the_victims_of_the_nodes_that_stay(victims: dict[str, Any]) -> None:
    asked = decode_preemption(json.dumps({"Pod": {"metadata": {"name": "p"}}, **victims}).encode())
    assert list(asked.victims) == ["n1", "n2"]
    answer = json.loads(preemption_reply(asked, {"n2"}))
    kept = {"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}
    assert answer == {"NodeNameToMetaVictims": kept}
    assert json.loads(preemption_reply(asked, {"n1", "n2"})) == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "no ExtenderPreemptionArgs"),
        (b'{"NodeNameToMetaVictims":{}}', "Pod: is missing"),
        (b'{"Pod":{"metadata":{"name":"p"}}}', "NodeNameToMetaVictims: is missing"),
    ],
)
def test_a_preemption_that_is_none_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        decode_preemption(body)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_request_or_is_refused(body: bytes) -> None:
    for read in (decode, decode_preemption):
        with suppress(InvalidRequest):
            read(body)


def test_scores_outside_the_scale_and_nodes_that_were_not_known_are_written_all_the_same() -> None:
    reply = ScoreReplies(["n1"]).reply(["n1", 'n"2'], [101, -3])
    assert json.loads(reply) == [{"Host": "n1", "Score": 101}, {"Host": 'n"2', "Score": -3}]
