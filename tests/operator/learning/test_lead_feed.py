"""The lead time is measured by what waited for a node that was made for it, and by how long nodes take to be ready."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from slack.cluster.snapshot import Placeholder
from slack.planner.objective.lead import UNMEASURED_SECONDS
from slack_operator.learning.lead_feed import OLDEST_SECONDS, LeadFeed, NodeStarts

NOW, CLOCK = 1_800_000_000.0, 500.0
WHOSE = {"old": "web", "new": "web", "gpu": "train"}


@dataclass(frozen=True)
class Waited:
    node: str
    waited_seconds: float
    at: float = CLOCK


def placeholder(uid: str, created: float) -> Placeholder:
    return Placeholder(uid, uid, "web", "shape", "set", 0, created, 0, False)


def of_one_group(nodes: Mapping[str, tuple[float, float]]) -> NodeStarts:
    return {name: (*times, "pool") for name, times in nodes.items()}


def feed(**nodes: tuple[float, float]) -> LeadFeed:
    found = LeadFeed()
    found.feed_starts(of_one_group(nodes), [], [], WHOSE, now=NOW, clock=CLOCK)
    return found


def test_nothing_measured_is_the_usual_time() -> None:
    assert feed().window_seconds("web") == UNMEASURED_SECONDS


def test_each_policy_has_the_time_of_its_own_nodes() -> None:
    times = feed(new=(NOW - 60, 40.0), gpu=(NOW - 600, 300.0))
    assert (times.window_seconds("web"), times.window_seconds("train")) == (52.0, 312.0)


def test_the_window_is_short_where_most_nodes_start_fast_and_each_group_has_its_own_time() -> None:
    whose = {f"warm-{i}": "web" for i in range(9)} | {"cold": "web"}
    nodes = {name: (NOW - 300, 120.0 if name == "cold" else 18.0, name[:4]) for name in whose}
    times = LeadFeed()
    times.feed_starts(nodes, [], [], whose, now=NOW, clock=CLOCK)
    assert times.window_seconds("web") == pytest.approx(0.9 * 30 + 0.1 * 132)


def test_nodes_of_long_ago_and_nobodys_nodes_say_nothing() -> None:
    times = feed(old=(NOW - OLDEST_SECONDS - 1, 40.0), other=(NOW - 60, 40.0))
    assert times.window_seconds("web") == UNMEASURED_SECONDS


@pytest.mark.parametrize("by", ["placeholder", "pod"])
def test_what_is_younger_than_its_nodes_wait_is_how_long_the_autoscaler_took(by: str) -> None:
    nodes = {"new": (NOW - 50, 40.0)}
    times = feed(**nodes)
    bound = [(placeholder("a", NOW - 80), "new")] if by == "placeholder" else []
    starts = [("web", Waited("new", 80.0))] if by == "pod" else []
    times.feed_starts(of_one_group(nodes), bound, starts, WHOSE, now=NOW, clock=CLOCK)
    assert times.window_seconds("web") == 70.0


def test_room_on_a_node_that_was_there_is_no_wait_for_one_and_nothing_counts_twice() -> None:
    nodes = {"new": (NOW - 50, 40.0)}
    times = feed(**nodes)
    for _ in range(70):
        times.feed_starts(of_one_group(nodes), [(placeholder("a", NOW - 10), "new")], [], WHOSE, now=NOW, clock=CLOCK)
        times.feed_starts(of_one_group(nodes), [(placeholder("a", NOW - 90), "new")], [], WHOSE, now=NOW, clock=CLOCK)
    assert times.window_seconds("web") == 52.0
