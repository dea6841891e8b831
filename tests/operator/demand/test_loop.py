"""The loop that decides: what it does with its broker, without it, and when it does not lead."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slack.demand.broker import BrokerRefused, BrokerUnreachable, QueueLag, QueueSettings
from slack.demand.model import ContainerState, Creation, Ending, Guards, PoolContainer, PoolSettings, QueueKey
from slack.demand.reports import ContainerReport, encode_report
from slack.demand.trace import Line, TickLine, read, replay
from slack.process.line_recorder import LineRecorder
from slack_operator.demand.controller import trace_recorder
from slack_operator.demand.loop import SILENT_REPORT_SECONDS, DecisionLoop, DesiredState, TickReport
from slack_operator.demand.provisioning import AGAIN_SECONDS, FORGOTTEN_SECONDS, QueueProvisioner
from tests.operator.demand.pools import FakeBroker

KEY = QueueKey("media", "thumbnail")
SUBJECT = "act.media.thumbnail.256"
POOL = PoolSettings(key=KEY, subject=SUBJECT, revision="r", max_containers=3)
WANTED = DesiredState(version=1, pools=(POOL,), queues=(QueueSettings(name=SUBJECT),), tick_seconds=0.02)


@dataclass
class FakeContainers:
    """Containers that are ready at once."""

    there: dict[str, PoolContainer] = field(default_factory=dict)
    ended: list[Ending] = field(default_factory=list)

    def seen(self) -> Sequence[PoolContainer]:
        return list(self.there.values())

    def create(self, creations: Sequence[Creation]) -> None:
        for creation in creations:
            assert creation.id not in self.there, "nothing is created twice"
            self.there[creation.id] = PoolContainer(
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

    def __init__(
        self, recorder: LineRecorder[Line] | None = None, wanted: DesiredState = WANTED, namespaces: Sequence[str] = ()
    ) -> None:
        self.broker, self.containers = FakeBroker(), FakeContainers()
        self.leads = True
        self.turns: list[TickReport] = []

        async def opened() -> FakeBroker:
            return self.broker

        self.loop = DecisionLoop(
            open_broker=opened,
            containers=self.containers,
            wanted=lambda: wanted,
            may_act=lambda: self.leads,
            on_turn=self.turns.append,
            guards=Guards(),
            installation=lambda: "lease-uid",
            namespaces=namespaces,
            recorder=recorder,
        )

    def wait(self, holds: "threading.Event | None" = None, *, ticks: int = 5) -> None:
        until, before = time.monotonic() + 10, len(self.turns)
        while len(self.turns) < before + ticks:
            assert time.monotonic() < until, "no tick came"
            time.sleep(0.005)

    def wait_until_idle(self) -> None:
        """Wait until a tick was not made, for another leads."""
        until = time.monotonic() + 10
        while self.loop._scheduler is not None:
            assert time.monotonic() < until, "it goes on"
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
    busy = PoolContainer(
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
    made, broker = QueueProvisioner(1.0, lambda: clock[0]), FakeBroker()
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
    recorder = trace_recorder(file)
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


class HalfSilent(FakeBroker):
    """Answers nothing for queues of the namespace `a`."""

    async def ensure(self, queue: QueueSettings) -> None:
        if queue.name.startswith("act.a."):
            raise BrokerUnreachable("nats: timeout")
        await super().ensure(queue)

    async def lag(self, prefix: str = "act.") -> dict[str, QueueLag]:
        return {queue.name: QueueLag(backlog=5, in_flight=0) for queue in self.made}


def test_a_queue_that_does_not_answer_is_its_own_failure_alone() -> None:
    silent = "act.a.work.64"
    wanted = replace(
        WANTED,
        pools=(replace(POOL, key=QueueKey("a", "work"), subject=silent), POOL),
        queues=(QueueSettings(name=silent), *WANTED.queues),
    )
    running = Running(wanted=wanted)
    running.broker = HalfSilent()
    running.loop.start()
    running.wait()
    running.loop.stop()
    assert {container.namespace for container in running.containers.there.values()} == {"media"}
    assert running.turns[-1].unread == {silent: "nats: timeout"}
    assert running.turns[-1].lags is not None
    assert QueueKey("a", "work") not in running.turns[-1].result.decisions


def test_a_silent_queue_is_asked_for_less_and_less_often_and_at_once_after_the_whole_broker_was_gone() -> None:
    clock, asked, queue = [0.0], list[float](), QueueSettings(name=SUBJECT)
    made = QueueProvisioner(1.0, lambda: clock[0])

    class Silent(FakeBroker):
        async def ensure(self, queue: QueueSettings) -> None:
            asked.append(clock[0])
            raise BrokerUnreachable("nats: timeout")

    async def whole() -> None:
        broker = Silent()
        for second in range(80):
            clock[0] = float(second)
            await made.make(broker, [queue])
        assert asked == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0]
        assert made.silent == {SUBJECT: "nats: timeout"}
        assert not made.refused
        made.all_silent()
        assert not made.silent
        await made.make(broker, [queue])
        assert asked[-1] == 79.0

    asyncio.run(whole())


def test_a_queue_that_takes_long_holds_up_a_tick_for_a_moment_only() -> None:
    class Slow(FakeBroker):
        async def ensure(self, queue: QueueSettings) -> None:
            if queue.name != SUBJECT:
                await asyncio.sleep(60.0)
            await super().ensure(queue)

    async def whole() -> None:
        broker, made, other = Slow(), QueueProvisioner(1.0), QueueSettings(name="act.a.work.64")
        began = time.monotonic()
        for _ in range(20):
            await made.make(broker, [other, QueueSettings(name=SUBJECT)])
        assert time.monotonic() - began < 0.9
        assert [queue.name for queue in broker.made] == [SUBJECT]
        made.clear()

    asyncio.run(whole())


def test_who_comes_to_lead_forgets_the_queues_of_pools_that_were_deleted_while_nobody_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slack_operator.demand.provisioning.FORGOTTEN_SECONDS", 0.0)
    gone, elsewhere = "act.media.gone.256", "act.shop.gone.256"
    for namespaces, forgotten in (((), {gone, elsewhere}), (("media",), {gone})):
        running = Running(namespaces=namespaces)
        running.broker.made_before = (SUBJECT, gone, elsewhere)
        running.loop.start()
        running.wait(ticks=10)
        running.leads = False
        running.wait_until_idle()
        running.leads = True
        running.wait(ticks=3)
        running.loop.stop()
        assert set(running.broker.forgotten) == forgotten, "pools of other namespaces are not seen"
        assert running.broker.installations == ["lease-uid", "lease-uid"], "once each time that it comes to lead"


def test_a_queue_of_an_earlier_leader_that_is_wanted_again_stays() -> None:
    clock = [0.0]
    made, broker = QueueProvisioner(1.0, lambda: clock[0], lambda: "lease-uid"), FakeBroker()
    broker.made_before = ["act.media.gone.256"]

    async def whole() -> None:
        await made.make(broker, [])
        clock[0] = FORGOTTEN_SECONDS - 1
        await made.make(broker, [QueueSettings(name="act.media.gone.256")])
        clock[0] += 2
        await made.make(broker, [])
        assert not broker.forgotten
        clock[0] += FORGOTTEN_SECONDS
        await made.make(broker, [])
        assert broker.forgotten == ["act.media.gone.256"]

    asyncio.run(whole())


def test_a_queue_that_no_pool_wants_is_forgotten_after_a_while() -> None:
    clock, broker, queue = [0.0], FakeBroker(), QueueSettings(name=SUBJECT)
    made = QueueProvisioner(1.0, lambda: clock[0])

    async def whole() -> None:
        await made.make(broker, [queue])
        await made.make(broker, [])
        clock[0] = FORGOTTEN_SECONDS - 1
        await made.make(broker, [queue])
        clock[0] += 2
        await made.make(broker, [])
        assert not broker.forgotten, "it was wanted again meanwhile"
        clock[0] += FORGOTTEN_SECONDS
        await made.make(broker, [])
        assert broker.forgotten == [SUBJECT]
        assert not made._made
        await made.make(broker, [])
        assert broker.forgotten == [SUBJECT]

    asyncio.run(whole())


def test_a_standby_keeps_no_reports(running: Running) -> None:
    running.leads = False
    for number in range(200):
        report = encode_report(ContainerReport(container=f"pr-{number}", last_run_ms=(5.0,)))
        running.loop._take(f"act.media.pr-{number}.64", report)
    asyncio.run(running.loop._turn())
    assert not running.loop._durations
    assert not running.loop._heard


def test_reports_of_containers_that_are_gone_are_forgotten() -> None:
    now = [0.0]
    loop = Running().loop
    loop._clock, loop._forgot_at = lambda: now[0], 0.0
    loop._take(SUBJECT, encode_report(ContainerReport(container="gone", idle_seconds=1.0)))
    now[0] = 2 * SILENT_REPORT_SECONDS
    loop._with_reports([], 1000.0)
    assert not loop._heard
