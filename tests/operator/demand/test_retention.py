"""Retention: the broker is given an age, drops what is older, and keeps what is younger."""

import asyncio
from dataclasses import replace

from slack.demand.broker import BrokerUnreachable, Duration, MessageCount, QueueLag
from slack.demand.model import PoolSettings, QueueKey, QuotaSettings
from slack.demand.tick import PoolScheduler, TickInput
from slack_operator.demand.retention import A_TICK, AGAIN_SECONDS, RetentionEnforcer
from tests.operator.demand.pools import FakeBroker

SUBJECT = "act.shop.mail.64"
HOUR = 3600.0
POOL = PoolSettings(key=QueueKey("shop", "mail"), subject=SUBJECT, revision="r", max_containers=5, max_age_seconds=HOUR)


class AgeBroker(FakeBroker):
    """Keeps when each message was published, as real brokers do."""

    def __init__(self, now: float, published_at: list[float]) -> None:
        super().__init__()
        self.now, self.published_at = now, published_at

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        await super().drop(queue, older_than_seconds)
        before = len(self.published_at)
        self.published_at = [at for at in self.published_at if self.now - at < older_than_seconds]
        return MessageCount(before - len(self.published_at))


class SilentBroker(FakeBroker):
    """Answers nothing for one queue."""

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        if queue == SUBJECT:
            raise BrokerUnreachable("memory: timeout")
        return await super().drop(queue, older_than_seconds)


def test_messages_within_the_retention_stay_however_many_they_are() -> None:
    old, young = [60.0 * number for number in range(5)], [300.0 + 180.0 * number for number in range(1, 21)]
    broker = AgeBroker(3930.0, old + young)
    asyncio.run(RetentionEnforcer(1.0, lambda: broker.now).drop(broker, [POOL]))
    assert broker.dropped == [(SUBJECT, HOUR)]
    assert broker.published_at == young


def test_a_queue_is_asked_for_again_after_a_while_and_a_pool_without_retention_never() -> None:
    clock, broker = [0.0], FakeBroker()
    retention = RetentionEnforcer(1.0, lambda: clock[0])

    def drop(*pools: PoolSettings) -> int:
        broker.dropped.clear()
        asyncio.run(retention.drop(broker, pools))
        return len(broker.dropped)

    assert drop(POOL) == 1
    assert drop(POOL) == 0
    clock[0] = AGAIN_SECONDS
    assert drop(POOL) == 1
    assert drop(replace(POOL, max_age_seconds=None)) == 0
    assert not retention._asked_at, "a queue that is not asked for is not kept"
    many = [replace(POOL, subject=f"act.shop.mail-{number}.64") for number in range(A_TICK + 9)]
    assert drop(*many) == A_TICK
    assert drop(*many) == 9


def test_a_queue_that_does_not_answer_holds_up_no_other() -> None:
    broker, other = SilentBroker(), replace(POOL, subject="act.web.mail.64")
    asyncio.run(RetentionEnforcer(1.0).drop(broker, [POOL, other]))
    assert broker.dropped == [("act.web.mail.64", HOUR)]


def test_a_queue_of_a_broker_that_tells_no_ages_is_asked_for_and_an_empty_one_is_not() -> None:
    """Containers cannot come, so the queue is paused: NATS tells no age, and compares ages when it is asked."""

    def dropped(lag: QueueLag) -> int:
        scheduler = PoolScheduler(epoch="x")
        scheduler.configure([POOL], [QuotaSettings(namespace="shop", max_containers=0)])
        return len(scheduler.tick(TickInput(now_seconds=1.0, lags={SUBJECT: lag}, containers=())).drop)

    assert dropped(QueueLag(backlog=3, in_flight=0)) == 1
    assert dropped(QueueLag(backlog=3, in_flight=0, oldest_age_seconds=HOUR + 1)) == 1
    assert dropped(QueueLag(backlog=3, in_flight=0, oldest_age_seconds=HOUR - 1)) == 0
    assert dropped(QueueLag(backlog=0, in_flight=0)) == 0
