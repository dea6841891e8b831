"""What a killed `load` has left goes after its deadline, where the operator may delete it."""

import threading
from collections.abc import Iterator

import pytest

from slack.cluster.labels import LABEL_MANAGED_BY
from slack.kube.apply import Writer
from slack.kube.retry import retrying
from slack.loadtest.manifest import ANNOTATION_UNTIL, MAKER, until_text
from slack_operator.placeholders.act.left_loads import LOOK_SECONDS, MOST_AT_ONCE, LeftLoads
from tests.kube.fake_api import FakeApi, Reply
from tests.operator.fakes import Clock

PATH = "/apis/apps/v1/namespaces/shop/deployments"
WALL = 1_800_000_000.0


class World:
    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.clock, self.wall = Clock(), Clock(WALL)
        self.leading = True
        connection = api.connection()
        once = retrying(threading.Event(), deadline_seconds=0.0)
        writer = Writer(connection, threading.Event(), retry=once, clock=self.clock)
        self.loads = LeftLoads(connection, writer, may_write=lambda: self.leading, clock=self.clock, wall=self.wall)

    def load(self, name: str, until: str | None, maker: str = MAKER) -> None:
        annotations = {} if until is None else {ANNOTATION_UNTIL: until}
        self.api.put(f"{PATH}/{name}", metadata={"labels": {LABEL_MANAGED_BY: maker}, "annotations": annotations})

    def look(self) -> list[str]:
        """Look once; return the Deployments that are there then."""
        self.clock.now += LOOK_SECONDS
        self.wall.now += LOOK_SECONDS
        self.loads.look_for_loads()
        return sorted(name for _, plural, _, name in self.api.objects if plural == "deployments")

    def deletions(self) -> int:
        return sum(seen.verb == "delete" for seen in self.api.seen)


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi() as api:
        yield World(api)


def test_a_load_whose_deadline_has_passed_is_deleted_and_no_other(world: World) -> None:
    world.load("left", until_text(WALL - 1.0))
    world.load("without", None)
    world.load("odd", "soon")
    world.load("later", until_text(WALL + 1e6))
    world.load("theirs", until_text(WALL - 1.0), maker="Helm")
    assert "left" in world.look(), "it may be another clock that is wrong"
    assert world.look() == ["later", "odd", "theirs", "without"]


def test_a_load_that_renews_its_deadline_runs_whatever_our_clock_says(world: World) -> None:
    for number in range(6):
        world.load("running", until_text(WALL - 1e6 + number * LOOK_SECONDS))
        assert world.look() == ["running"]


def test_without_the_right_the_load_and_the_right_are_named_once_an_hour(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.load("left", until_text(WALL - 1.0))
    for _ in range(7):
        world.api.script("delete", Reply.status(403, "Forbidden"))
        assert world.look() == ["left"]
    said = [record.getMessage() for record in caplog.records if record.name.endswith("left_loads")]
    assert said == [
        "a load has left its Deployment, and the operator may not delete deployments.apps in namespace shop: "
        "kubectl delete deployment -n shop left"
    ]


def test_a_standby_deletes_nothing(world: World) -> None:
    world.load("left", until_text(WALL - 1.0))
    world.leading = False
    for _ in range(3):
        assert world.look() == ["left"]
    assert world.api.seen == []


def test_a_look_without_an_answer_costs_no_turn_and_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        world.api.script("list", Reply.status(403, "Forbidden"))
        world.look()
    assert len([record for record in caplog.records if record.name.endswith("left_loads")]) == 1


@pytest.mark.parametrize("count", [5, 50, 500])
def test_one_look_deletes_few_however_many_there_are(world: World, count: int) -> None:
    for number in range(count):
        world.load(f"left-{number}", until_text(WALL - 1.0))
    world.look()
    world.look()
    assert world.deletions() == min(count, MOST_AT_ONCE)
