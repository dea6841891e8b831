"""Which nodes unbound placeholders let go, a few at a time, and which they get back."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from slack.planner.release import (
    DRIFT_SECONDS,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MARGIN_SECONDS,
    REMOVED_SECONDS,
    REPLACED_SECONDS,
    SHRUNK_SECONDS,
    SPARE_SECONDS,
    Claim,
    Decision,
    HeldNode,
    Memory,
    ReleaseMark,
    ReleaseReason,
    decide,
    parse_mark,
)

NOW = 1_800_000_000.0
START = 40.0
HOLDS = HeldNode("a", "general", NOW - 9000, usable=True, label="", held=2, pods=0, can_hold=True)


def nodes_of(count: int, **rest: Any) -> list[HeldNode]:
    return [HOLDS._replace(name=f"n{number:03d}", **rest) for number in range(count)]


def drifted(*names: str, since: float = NOW - 2 * DRIFT_SECONDS) -> dict[str, Claim]:
    return {name: Claim(name, NOW - 9000, drifted_since=since) for name in names}


def decided(
    nodes: Sequence[HeldNode],
    claims: Mapping[str, Claim] | None = None,
    memory: Memory | None = None,
    *,
    placeholders: int = 4,
    pending: int = 0,
    now: float = NOW,
) -> Decision:
    return decide(
        nodes,
        claims,
        memory or Memory(placeholders=placeholders),
        placeholders=placeholders,
        pending=pending,
        now=now,
        start_seconds=START,
    )


def released(decision: Decision) -> list[tuple[str, ReleaseReason]]:
    return [(name, mark.why) for name, mark in decision.release]


def marked(why: ReleaseReason, age: float, **rest: Any) -> HeldNode:
    return HOLDS._replace(label=str(ReleaseMark(why, NOW - age)), **rest)


def test_the_label_s_value_is_read_back_and_others_are_people_s() -> None:
    assert parse_mark(str(ReleaseMark(ReleaseReason.DRIFTED, NOW))) == ReleaseMark(ReleaseReason.DRIFTED, NOW)
    for other in ("", "true", "Drifted", "Drifted.", "Drifted.x", "by-hand.1800000000", "Drifted.9999999999999"):
        assert parse_mark(other) is None


def test_a_drifted_node_is_released_after_a_minute_in_which_karpenter_may_do_it_itself() -> None:
    assert released(decided([HOLDS], drifted("a"))) == [("a", ReleaseReason.DRIFTED)]
    assert decided([HOLDS], drifted("a", since=NOW - DRIFT_SECONDS + 1)).release == ()


@pytest.mark.parametrize(
    "node",
    [
        HOLDS._replace(usable=False),
        HOLDS._replace(held=0, can_hold=False),
        HOLDS._replace(label="true"),
    ],
)
def test_a_node_that_goes_anyway_or_holds_nothing_or_is_released_by_a_person_is_left_alone(node: HeldNode) -> None:
    assert decided([node], drifted("a")).release == ()
    assert decided([node], drifted("a")).take_back == ()


def test_nothing_is_released_where_there_are_no_unbound_placeholders_or_no_claims() -> None:
    assert decided([HOLDS], drifted("a"), placeholders=0).release == ()
    assert decided([HOLDS], None).release == ()
    assert decided([HOLDS], {}).release == ()


@pytest.mark.parametrize(("size", "at_once"), [(1, 1), (9, 1), (20, 2), (500, 50)])
def test_a_tenth_of_a_pool_at_a_time(size: int, at_once: int) -> None:
    nodes = nodes_of(size)
    claims = drifted(*(node.name for node in nodes))
    first = decided(nodes, claims)
    assert len(first.release) == at_once
    labelled = [
        node._replace(label=str(dict(first.release)[node.name])) if node.name in dict(first.release) else node
        for node in nodes
    ]
    assert decided(labelled, claims, first.memory).release == ()
    going = [node._replace(usable=not node.label) for node in labelled]
    assert len(decided(going, claims, first.memory).release) == min(at_once, size - at_once)


def test_pools_are_released_side_by_side() -> None:
    nodes = [HOLDS, HOLDS._replace(name="b", pool="other")]
    assert len(decided(nodes, drifted("a", "b")).release) == 2


def test_a_node_is_released_one_start_before_it_expires_and_first_of_all() -> None:
    lead = 2 * START + MARGIN_SECONDS
    later = Claim("a", NOW - 9000, expires_at=NOW + lead + 1)
    assert decided([HOLDS], {"a": later}).release == ()
    soon = {name: Claim(name, NOW - 9000, expires_at=NOW + lead) for name in "bc"}
    nodes = [HOLDS, HOLDS._replace(name="b"), HOLDS._replace(name="c")]
    both = [("b", ReleaseReason.EXPIRES), ("c", ReleaseReason.EXPIRES)]  # Karpenter waits with neither
    assert released(decided(nodes, {**drifted("a"), **soon})) == [*both, ("a", ReleaseReason.DRIFTED)]


def test_a_drifted_node_that_only_placeholders_hold_goes_before_one_with_pods() -> None:
    nodes = [HOLDS._replace(pods=1), HOLDS._replace(name="b")]
    assert released(decided(nodes, drifted("a", "b"))) == [("b", ReleaseReason.DRIFTED)]


def test_a_life_that_is_shorter_than_a_node_s_start_does_not_release_every_new_node_at_once() -> None:
    claim = Claim("a", NOW - 20, expires_at=NOW + 40)
    assert decided([HOLDS], {"a": claim}).release == ()
    assert decided([HOLDS], {"a": claim}, now=NOW + 10).release != ()


def test_a_spare_node_is_released_after_a_shrink_only() -> None:
    spare = HOLDS._replace(name="spare", held=0)
    nodes = [HOLDS, spare]
    grown = decided(nodes, memory=Memory(placeholders=4))
    assert decided(nodes, memory=grown.memory, now=NOW + SPARE_SECONDS).release == ()
    shrunk = decided(nodes, memory=Memory(placeholders=9))
    assert shrunk.release == ()
    due = decided(nodes, memory=shrunk.memory, now=NOW + SPARE_SECONDS)
    assert released(due) == [("spare", ReleaseReason.SPARE)]
    late = decided(nodes, memory=shrunk.memory, now=NOW + SHRUNK_SECONDS + 1)
    assert late.release == ()


def test_a_spare_node_of_a_group_goes_only_while_one_with_its_labels_is_in_use() -> None:
    def releases(other: HeldNode) -> bool:
        spare = HOLDS._replace(name="spare", pool="", held=0, kind=7)
        shrunk = decided([spare, other], memory=Memory(placeholders=9))
        return bool(decided([spare, other], memory=shrunk.memory, now=NOW + SPARE_SECONDS).release)

    other = HOLDS._replace(pool="", kind=7)
    assert releases(other)
    assert releases(other._replace(held=0, pods=1))
    assert not releases(other._replace(kind=8))
    assert not releases(other._replace(held=0))  # it may go as well
    assert not releases(other._replace(usable=False))
    assert not releases(other._replace(label="by-hand"))
    spare = marked(ReleaseReason.SPARE, 5, held=0, pool="", kind=7)
    assert decided([spare, other]).take_back == ()
    assert decided([spare, other._replace(name="b", held=0)]).take_back == ("a",)


@pytest.mark.parametrize("busy", [{"pods": 1}, {"held": 1}, {"usable": False}, {"label": "true"}])
def test_a_node_that_is_needed_is_not_spare(busy: dict[str, Any]) -> None:
    nodes = [HOLDS, HOLDS._replace(name="b", **({"held": 0} | busy))]
    shrunk = decided(nodes, memory=Memory(placeholders=9))
    assert decided(nodes, memory=shrunk.memory, now=NOW + SPARE_SECONDS).release == ()


def test_no_node_is_spare_while_a_placeholder_waits_for_one() -> None:
    nodes = [HOLDS, HOLDS._replace(name="b", held=0)]
    shrunk = decided(nodes, memory=Memory(placeholders=9), pending=1)
    assert decided(nodes, memory=shrunk.memory, pending=1, now=NOW + SPARE_SECONDS).release == ()


@pytest.mark.parametrize(("busy", "pending"), [({"pods": 1, "held": 0}, 0), ({"held": 1}, 0), ({"held": 0}, 1)])
def test_a_spare_node_that_is_needed_again_gets_its_placeholders_back_at_once(
    busy: dict[str, Any], pending: int
) -> None:
    assert decided([marked(ReleaseReason.SPARE, 5, **busy)], pending=pending).take_back == ("a",)
    assert decided([marked(ReleaseReason.SPARE, 5, held=0)]).take_back == ()


def test_a_node_that_has_not_drifted_any_more_is_no_longer_released() -> None:
    assert decided([marked(ReleaseReason.DRIFTED, 5)], {"a": Claim("a", NOW - 9000)}).take_back == ("a",)
    assert decided([marked(ReleaseReason.DRIFTED, 5)], drifted("a")).take_back == ()
    assert decided([marked(ReleaseReason.DRIFTED, 5)], None).take_back == ()  # the watch of claims is away


@pytest.mark.parametrize(
    ("why", "patience"), [(ReleaseReason.DRIFTED, REPLACED_SECONDS + 3 * START), (ReleaseReason.SPARE, REMOVED_SECONDS)]
)
def test_a_released_node_that_stays_is_given_up_and_its_pool_is_left_alone_for_longer_each_time(
    why: ReleaseReason, patience: float
) -> None:
    rest: dict[str, Any] = {"held": 0} if why is ReleaseReason.SPARE else {}
    claims = drifted("a")
    waiting = decided([marked(why, patience - 1, **rest)], claims)
    assert waiting.take_back == ()
    assert waiting.stays == ()
    memory, pause = waiting.memory, FIRST_PAUSE_SECONDS
    for _ in range(6):
        stays = decided([marked(why, patience + 1, **rest)], claims, memory)
        assert stays.take_back == ("a",)
        assert [(found.node, found.why, found.retry_at) for found in stays.stays] == [("a", why, NOW + pause)]
        memory, pause = stays.memory, min(2 * pause, LONGEST_PAUSE_SECONDS)
    assert why is ReleaseReason.SPARE or decided([HOLDS], claims, memory).release == ()
    assert why is ReleaseReason.SPARE or decided([HOLDS], claims, memory, now=NOW + LONGEST_PAUSE_SECONDS).release


def test_what_expires_may_stand_until_then() -> None:
    claim = {"a": Claim("a", NOW - 9000, expires_at=NOW + 100)}
    assert decided([marked(ReleaseReason.EXPIRES, REPLACED_SECONDS + 3 * START + 1)], claim).take_back == ()
    assert decided([marked(ReleaseReason.EXPIRES, 2000)], {"a": Claim("a", 0, expires_at=NOW - 1000)}).take_back == (
        "a",
    )


def test_a_node_that_goes_keeps_its_label_and_ends_its_pool_s_pause() -> None:
    stays = decided([marked(ReleaseReason.DRIFTED, 2000)], drifted("a"))
    again = decided([HOLDS], drifted("a"), stays.memory, now=NOW + FIRST_PAUSE_SECONDS)
    assert released(again) == [("a", ReleaseReason.DRIFTED)]
    going = HOLDS._replace(label=str(again.release[0][1]), usable=False)
    gone = decided([going], drifted("a"), again.memory, now=NOW + FIRST_PAUSE_SECONDS + 20)
    assert gone.take_back == ()
    assert gone.memory.pauses == {}


def test_a_node_that_stayed_once_is_tried_after_the_others() -> None:
    stays = decided([marked(ReleaseReason.DRIFTED, 2000)], drifted("a"))
    nodes = [HOLDS, HOLDS._replace(name="b")]
    claims = {**drifted("a"), **drifted("b", since=NOW - DRIFT_SECONDS)}
    later = decided(nodes, claims, stays.memory, now=NOW + FIRST_PAUSE_SECONDS)
    assert released(later) == [("b", ReleaseReason.DRIFTED)]


def test_nodes_that_are_gone_are_forgotten() -> None:
    stays = decided([marked(ReleaseReason.DRIFTED, 2000)], drifted("a"))
    assert stays.memory.gave_up == {"a": 1}
    assert decided([], {}, stays.memory).memory.gave_up == {}
