"""An hour in which nothing happens, by a clock that is moved: only heartbeats, whatever the spec has of times.

A heartbeat writes the time of a status that says the same as before. It is counted apart, and each hour has a few.

The operator looks every other minute, for it is the clock that counts here; what is written is counted with its moment,
everything, not only statuses. The lease is not here; what an objective learns is kept once an hour.
"""

from collections.abc import Callable
from typing import Any

import pytest

from slack.planner.policy.spec import parse_policy
from slack_operator.placeholders.report.status import HEARTBEAT_SECONDS
from slack_operator.placeholders.view.hangs import Hang
from tests.operator.fakes import Json, pod, policy
from tests.operator.placeholders.test_kstatus import Cluster

HOUR_SECONDS = 3600.0
TURN_SECONDS = 120.0
SETTLED_SECONDS = 360.0
"""What came of a change is written, in three turns."""
MINUTE = 60.0


def said(world: Cluster) -> Json:
    return {**world.status("web"), "observedTime": ""}


def quiet(world: Cluster, at: Callable[[float], None] = lambda _seconds: None) -> list[tuple[float, str]]:
    """Let an hour pass in which nothing happens; returns each write: seconds from its beginning, and its path.

    Heartbeats are not returned: their number is checked.
    """
    written: list[tuple[float, str]] = []
    others: list[tuple[float, str]] = []
    heartbeats = 0
    began = world.clock.now

    def ask(verb: str, path: str) -> None:
        if verb not in ("GET", "get", "list"):
            written.append((world.clock.now - began, f"{verb} {path}"))

    world.api.refuse = ask
    for number in range(int(HOUR_SECONDS / TURN_SECONDS)):
        at(number * TURN_SECONDS)
        before = said(world)
        world.reconcile(seconds=TURN_SECONDS)
        world.loop.rescue()
        world.loop.publish_held()
        same = said(world) == before
        heartbeats += sum(what.endswith("/web/status") for _, what in written) if same else 0
        others += [(when, what) for when, what in written if not same or not what.endswith("/web/status")]
        written.clear()
    assert 0 < heartbeats <= HOUR_SECONDS / (0.8 * HEARTBEAT_SECONDS)
    return others


def settled(**spec: Any) -> Cluster:
    """A cluster at eight in the morning of a Friday, whose slack has been there for a while."""
    world = Cluster()
    document = policy("web", **spec)
    parse_policy(document, source="the test")
    world.apply_policy(document)
    world.settle(12)
    world.wall.now = 1_800_000_000.0
    world.settle(12)
    return world


def sized(**size: Any) -> Json:
    return {"extraCapacity": size, "stabilization": {"shrinkDelay": "20s"}}


LADDER = [{"fromNodes": 0, "minRate": 0.3}, {"fromNodes": 100, "minRate": 0.1}]
OPEN = {"cron": "0 7 * * 1-5", "duration": "12h", "minRate": 0.4, "timeZone": "UTC"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (sized(minRate=0.1, ladder=LADDER, schedule=[OPEN]), "Reserved"),
        (sized(minRate=0.4, ceiling={"cpu": "2"}), "CeilingReached"),
        (sized(minRate=0.6), "Reserved"),
        (sized(minRate=0.4) | {"dryRun": True}, "DryRun"),
        (sized(minRate=0.4) | {"nodeSelector": {"pool": "none"}}, "NoEligibleNode"),
        (sized(replicas=4), "Reserved"),
    ],
    ids=str,
)
def test_an_hour_in_which_nothing_happens_writes_nothing_but_heartbeats(spec: Json, says: str) -> None:
    world = settled(**spec)
    assert world.status("web")["summary"]["state"] == says
    assert quiet(world) == []


def test_what_an_objective_has_seen_is_written_when_its_first_hour_is_over_and_never_else() -> None:
    world = settled(objective={"instantStart": 0.99})
    first, second = ([what for _, what in quiet(world) if "/slackhistories" not in what] for _ in range(2))
    assert [what.rpartition("/slackpolicies/")[2] for what in first] == ["web/status"]
    assert second == []


def test_a_window_that_opens_and_closes_is_written_then_and_never_else() -> None:
    window = {"cron": "20 8 * * *", "duration": "20m", "minRate": 0.8}
    written = quiet(settled(**sized(minRate=0.4, schedule=[window])))
    assert written
    # the settling took two minutes, and the window opens as long before its time as a node takes: two more
    for at, what in written:
        assert any(0 <= at - turn * MINUTE < SETTLED_SECONDS for turn in (16, 38)), (at, what)


def test_a_new_process_in_a_quiet_hour_writes_nothing_but_heartbeats() -> None:
    world = settled(**sized(minRate=0.4, schedule=[OPEN]))

    def restart(seconds: float) -> None:
        if seconds == 1800.0:
            world.restart()

    assert quiet(world, restart) == []


def test_a_condition_that_ends_by_the_clock_is_written_when_it_does_and_never_else() -> None:
    """A pod that was freed after a preemption is told for ten minutes."""
    world = settled(**sized(minRate=0.4))
    path = "/api/v1/namespaces/shop/pods/hangs"
    world.api.put(path, pod("hangs", nominatedNodeName="n1"))
    metadata = world.api.objects[path]["metadata"]
    hangs = [Hang("shop", "hangs", metadata["uid"], metadata["resourceVersion"], "n1", 0.0)]
    world.view.hangs = lambda now, scheduler_of: hangs  # type: ignore[method-assign]
    world.loop.rescue()
    hangs.clear()
    del world.api.objects[path]
    world.settle(1)
    assert world.status("web")["summary"]["state"] == "Reserved"
    assert world.condition("web", "PreemptionStuck")["reason"] == "Rescued"
    written = quiet(world)
    assert [what.rpartition("/slackpolicies/")[2] for _, what in written] == ["web/status"]
    assert [at for at, _ in written] == pytest.approx([10 * MINUTE], abs=2 * TURN_SECONDS)
    assert world.condition("web", "PreemptionStuck")["reason"] == "NothingHangs"
