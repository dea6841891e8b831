"""The loop that decides: what it does with its broker, without it, and when it does not lead."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slack.demand.broker import BrokerRefused, QueueLag, QueueSettings
from slack.demand.model import Container, ContainerState, Creation, Ending, Guards, PoolSettings, QueueKey
from slack.demand.reports import ContainerReport, encode_report
from slack.demand.trace import TickLine, read, replay
from slack_operator.demand.loop import DecisionLoop, Turn, Wanted
from slack_operator.demand.provisioning import AGAIN_SECONDS, Provisioner
from slack_operator.demand.recorder import TraceRecorder
from tests.operator.demand.pools import FakeBroker

KEY = QueueKey("media", "thumbnail")
SUBJECT = "act.media.thumbnail.256"
POOL = PoolSettings(key=KEY, subject=SUBJECT, revision="r", max_containers=3)
WANTED = Wanted(version=1, pools=(POOL,), queues=(QueueSettings(name=SUBJECT),), tick_seconds=0.02)


@dataclass
class FakeContainers:
    """Containers that are ready at once."""

    there: dict[str, Container] = field(default_factory=dict)
    ended: list[Ending] = field(default_factory=list)

    def seen(self) -> Sequence[Container]:
        return list(self.there.values())

    def create(self, creations: Sequence[Creation]) -> None:
        for creation in creations:
            assert creation.id not in self.there, "nothing is created twice"
            self.there[creation.id] = Container(
                id=creation.id,
                namespace="media",
                pool="thumbnail",
                revision="r",
                subject=SUBJECT,
                state=ContainerState.READY,
                created_at_seconds=time.time(),
                ready_at_seconds=time.time(),
            )

    def end(self, endings: Sequence[Ending]) -> None:
        self.ended += endings
        for ending in endings:
            self.there.pop(ending.container_id, None)


class Running:
    """A loop with its surroundings."""

    def __init__(self, recorder: TraceRecorder | None = None, wanted: Wanted = WANTED) -> None:
        self.broker, self.containers = FakeBroker(), FakeContainers()
        self.leads = True
        self.turns: list[Turn] = []

        async def opened() -> FakeBroker:
            return self.broker

        self.loop = DecisionLoop(
            open_broker=opened,
            containers=self.containers,
            wanted=lambda: wanted,
            may_act=lambda: self.leads,
            on_turn=self.turns.append,
            guards=Guards(),
            recorder=recorder,
        )

    def wait(self, holds: "threading.Event | None" = None, *, ticks: int = 5) -> None:
        until, before = time.monotonic() + 10, len(self.turns)
        while len(self.turns) < before + ticks:
            assert time.monotonic() < until, "no tick came"
            time.sleep(0.005)


@pytest.fixture
def running() -> "Running":
    return Running()


def test_messages_that_wait_get_containers_and_queues_are_made_once(running: Running) -> None:
    running.broker.lags[SUBJECT] = QueueLag(backlog=5, in_flight=0)
    running.loop.start()
    running.wait()
    running.loop.stop()
    assert 1 <= len(running.containers.there) <= 3
    assert running.broker.made == [QueueSettings(name=SUBJECT)]
    assert running.loop.unhealthy() is None, "its end was asked for"


def test_without_its_broker_containers_stay_and_it_recovers(running: Running) -> None:
    running.broker.lags[SUBJECT] = QueueLag(backlog=5, in_flight=0)
    running.loop.start()
    running.wait()
    there = set(running.containers.there)
    running.broker.gone = True
    running.wait()
    assert running.turns[-1].lags is None
    assert running.turns[-1].broker_problem == "memory: not connected"
    assert not running.turns[-1].result.verdicts
    running.wait()
    assert set(running.containers.there) == there
    running.broker.gone = False
    running.wait()
    assert running.turns[-1].lags is not None
    running.loop.stop()
    assert not running.containers.ended


def test_who_does_not_lead_decides_nothing_and_publishes_all_the_same(running: Running) -> None:
    running.leads = False
    running.broker.lags[SUBJECT] = QueueLag(backlog=5, in_flight=0)
    running.loop.start()
    time.sleep(0.1)
    assert not running.turns
    assert not running.containers.there
    running.loop.publish(SUBJECT, b"x", "id").result(5)
    running.loop.stop()
    assert running.broker.published == [(SUBJECT, b"x", "id")]


def test_a_loop_that_is_not_started_publishes_nothing(running: Running) -> None:
    with pytest.raises(BrokerRefused):
        running.loop.publish(SUBJECT, b"x", "id").result(1)


def test_a_queue_that_is_gone_is_made_again(running: Running) -> None:
    running.loop.start()
    running.wait(ticks=4)
    running.loop.stop()
    assert len(running.broker.made) > 1, "the broker tells of no queue, so it is made anew each time"


def test_a_report_counts_only_by_a_queue_that_its_container_takes_from() -> None:
    """Whoever may report for one pool could end a busy container of another one by naming it idle."""
    loop = Running().loop
    busy = Container(
        id="thumbnail-x-1",
        namespace="media",
        pool="thumbnail",
        revision="r",
        subject=SUBJECT,
        also=("act.media.thumbnail.128",),
        state=ContainerState.READY,
        created_at_seconds=0.0,
    )
    idle = encode_report(ContainerReport(container=busy.id, idle_seconds=100.0))

    def idle_since() -> float | None:
        return loop._with_reports([busy], 1000.0)[0].idle_since_seconds

    loop._take("act.evil.x.1", idle)
    assert idle_since() is None
    loop._take(SUBJECT, encode_report(ContainerReport(container=busy.id, busy=1)))
    loop._take("act.evil.x.1", idle)
    assert idle_since() is None
    loop._take("act.media.thumbnail.128", idle)
    assert idle_since() == pytest.approx(900.0, abs=1.0)
    for number in range(1000):
        loop._take("act.evil.x.1", encode_report(ContainerReport(container=f"made-up-{number}")))
    idle_since()
    assert len(loop._heard) == 2, "what names no container of its queue is forgotten"


def test_a_queue_that_the_broker_refuses_holds_up_no_other() -> None:
    evil = "act.evil.x.1"
    wanted = replace(
        WANTED,
        pools=(replace(POOL, key=QueueKey("evil", "x"), subject=evil), POOL),
        queues=(QueueSettings(name=evil), *WANTED.queues),
    )
    running = Running(wanted=wanted)
    running.broker.refuses[evil] = "WRONGTYPE"
    running.broker.lags[SUBJECT] = QueueLag(backlog=5, in_flight=0)
    running.loop.start()
    running.wait()
    running.loop.stop()
    assert running.containers.there, "the other pool's queue is read, and it gets its containers"
    assert running.turns[-1].refused == {evil: "WRONGTYPE"}
    assert running.turns[-1].broker_problem is None


def test_a_refused_queue_is_asked_for_again_later_or_with_other_settings() -> None:
    clock = [0.0]
    made, broker = Provisioner(1.0, lambda: clock[0]), FakeBroker()
    queue = QueueSettings(name=SUBJECT)

    async def whole() -> None:
        broker.refuses[SUBJECT] = "WRONGTYPE"
        await made.make(broker, [queue])
        assert made.refused == {SUBJECT: "WRONGTYPE"}
        broker.refuses.clear()
        await made.make(broker, [queue])
        assert not broker.made, "not before its time"
        await made.make(broker, [replace(queue, max_deliver=9)])
        assert broker.made == [replace(queue, max_deliver=9)]
        assert not made.refused
        broker.refuses[SUBJECT] = "WRONGTYPE"
        await made.make(broker, [queue])
        broker.refuses.clear()
        clock[0] = AGAIN_SECONDS
        await made.make(broker, [queue])
        assert broker.made[-1] == queue
        broker.refuses[SUBJECT] = "WRONGTYPE"
        made.seen([queue], ())
        await made.make(broker, [queue])
        await made.make(broker, [])
        assert not made.refused, "its pool is gone"

    asyncio.run(whole())


def test_a_recorded_run_is_decided_the_same_again(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    recorder = TraceRecorder(file)
    running = Running(recorder)
    running.broker.lags[SUBJECT] = QueueLag(backlog=5, in_flight=0)
    recorder.start()
    running.loop.start()
    running.wait(ticks=10)
    running.loop.stop()
    recorder.stop()
    lines = list(read(file.read_bytes().splitlines()))
    assert sum(isinstance(line, TickLine) for line in lines) >= 10
    totals = replay(lines)
    assert totals.differing_ticks == 0
    assert totals.created == len(running.containers.there)
    assert replay(lines, changes={"subject": "act.media.other.1"}).differing_ticks == 1, "nobody waits in that queue"
