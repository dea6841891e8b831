"""Kafka's lag: a topic that cannot be read is that queue's problem, and all other queues are read."""

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from slack.demand.broker import BrokerRefused, BrokerUnreachable, QueueLag, QueueSettings

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # kafka-python's own

GOOD, BAD = "media-thumbnail-256MB", "media-bad-256MB"
NO_LEADER, DENIED, NO_TOPIC, REPLICA_MISSING = 5, 29, 3, 9


def subject(action: str) -> str:
    return f"act.media.{action}.256"


class Admin:
    """The admin client as kafka-python has it: one partition's error is an exception for the whole request."""

    def __init__(
        self, topics: Iterable[Mapping[str, Any]], failing: Mapping[str, type[Exception]] | None = None
    ) -> None:
        self.topics = {topic["name"]: topic for topic in topics}
        self.failing = failing or {}
        self.asked: list[list[str]] = []
        self.reads = 0
        self.offsets: dict[int, tuple[int, int, int]] = {}
        """By partition: committed, the oldest that is kept, the next that is written; else 10, 0 and 17."""

    def __call__(self, **_: Any) -> "Admin":
        return self

    def describe_topics(self, topics: list[str] | None = None) -> list[Mapping[str, Any]]:
        self.asked.append(sorted(topics if topics is not None else self.topics))
        return [found for name, found in self.topics.items() if topics is None or name in topics]

    def list_group_offsets(self, groups: Mapping[str, Iterable[Any]]) -> dict[str, dict[Any, Any]]:
        self.reads += 1
        return {group: self._answer(dict.fromkeys(parts), 0) for group, parts in groups.items()}

    def list_partition_offsets(self, parts: Mapping[Any, Any]) -> dict[Any, Any]:
        from kafka.admin import OffsetSpec

        earliest = {part: spec for part, spec in parts.items() if spec == OffsetSpec.EARLIEST}
        latest = {part: spec for part, spec in parts.items() if part not in earliest}
        return self._answer(earliest, 1) | self._answer(latest, 2)

    def _answer(self, parts: Mapping[Any, Any], which: int) -> dict[Any, Any]:
        from kafka import errors

        for part in parts:
            found = self.topics[part.topic]
            if part.topic in self.failing:
                raise self.failing[part.topic]
            if found["error_code"] or any(own["leader_id"] < 0 for own in found["partitions"]):
                raise errors.UnknownTopicOrPartitionError
        known = {part: self.offsets.get(part.partition, (10, 0, 17)) for part in parts}
        return {part: SimpleNamespace(offset=offsets[which]) for part, offsets in known.items()}

    def close(self) -> None:
        """Hold no connection."""


def topic(name: str, error: int = 0, leader: int = 1, part_error: int = 0) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": leader, "error_code": part_error}
    return {"name": name, "error_code": error, "partitions": [] if error else [partition]}


def read(monkeypatch: pytest.MonkeyPatch, admin: Admin, actions: Iterable[str]) -> Mapping[str, QueueLag]:
    from slack_operator.demand.brokers.kafka import KafkaLag

    monkeypatch.setattr("slack_operator.demand.brokers.kafka.KafkaAdminClient", admin)

    async def whole() -> Mapping[str, QueueLag]:
        broker = KafkaLag(["kafka:9092"], group="workers")
        for action in actions:
            await broker.ensure(QueueSettings(name=subject(action)))
        return await broker.lag()

    return asyncio.run(whole())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (topic(BAD, leader=-1, part_error=NO_LEADER), "partition 0 has no leader"),
        (topic(BAD, error=NO_LEADER), "LeaderNotAvailableError"),
        (topic(BAD, error=DENIED), "TopicAuthorizationFailedError"),
    ],
)
def test_a_topic_that_cannot_be_read_is_its_own_queues_problem(
    monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any], words: str
) -> None:
    lags = read(monkeypatch, Admin([topic(GOOD), bad]), ["thumbnail", "bad"])
    assert lags[subject("thumbnail")] == QueueLag(backlog=7, in_flight=0, delivered_total=10, published_total=17)
    problem = lags[subject("bad")].problem
    assert problem is not None
    assert BAD in problem
    assert words in problem


def test_only_the_wanted_topics_are_asked_for_and_one_that_is_not_made_yet_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = Admin([topic(GOOD), topic(BAD, error=NO_TOPIC), topic("another-team-1MB", leader=-1)])
    assert set(read(monkeypatch, admin, ["thumbnail", "bad"])) == {subject("thumbnail")}
    assert admin.asked == [[BAD, GOOD]]


def test_a_partition_that_misses_a_replica_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lags = read(monkeypatch, Admin([topic(GOOD, part_error=REPLICA_MISSING)]), ["thumbnail"])
    assert lags[subject("thumbnail")].backlog == 7


@pytest.mark.parametrize(
    ("offsets", "backlog"),
    [
        ({0: (-1, 0, 17)}, 17),
        ({0: (-1, 500, 500)}, 0),
        ({0: (-1, 480, 500)}, 20),
        ({0: (100, 500, 500)}, 0),
        ({0: (100, 495, 500)}, 5),
        ({0: (500, 400, 500)}, 0),
        ({0: (900, 0, 7), 1: (3, 0, 8)}, 5),
        ({0: (0, 0, 0)}, 0),
    ],
    ids=["never read", "all expired", "some expired", "expired since", "some since", "read", "made anew", "empty"],
)
def test_what_the_retention_has_taken_away_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch, offsets: dict[int, tuple[int, int, int]], backlog: int
) -> None:
    """keda 7936 and 5274: partitions that nobody reads any more would keep containers for messages that are gone."""
    found = topic(GOOD)
    found["partitions"] = [found["partitions"][0] | {"partition_index": number} for number in offsets]
    admin = Admin([found])
    admin.offsets = offsets
    assert read(monkeypatch, admin, ["thumbnail"])[subject("thumbnail")].backlog == backlog


@pytest.mark.parametrize("count", [50, 5000])
def test_a_topic_that_fails_after_it_was_described_is_found_in_few_reads(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    from kafka import errors

    names = [f"media-a{number}-256MB" for number in range(count)]
    admin = Admin([topic(name) for name in names], {names[count // 3]: errors.KafkaStorageError})
    lags = read(monkeypatch, admin, [f"a{number}" for number in range(count)])
    assert len(lags) == count
    assert [name for name, lag in lags.items() if lag.problem] == [subject(f"a{count // 3}")]
    assert admin.reads <= 2 * count.bit_length() + 1


def test_many_topics_that_fail_use_up_no_more_than_a_bounded_number_of_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import errors

    from slack_operator.demand.brokers.kafka import MOST_READS

    names = [f"media-a{number}-256MB" for number in range(1000)]
    admin = Admin([topic(name) for name in names], dict.fromkeys(names, errors.KafkaStorageError))
    lags = read(monkeypatch, admin, [f"a{number}" for number in range(1000)])
    assert len(lags) == 1000
    assert all(lag.problem for lag in lags.values())
    assert admin.reads <= MOST_READS


def test_a_group_that_may_not_be_read_is_everybodys_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import errors

    admin = Admin([topic(GOOD)], {GOOD: errors.GroupAuthorizationFailedError})
    with pytest.raises(BrokerRefused, match="GroupAuthorizationFailedError"):
        read(monkeypatch, admin, ["thumbnail"])
    moved = Admin([topic(GOOD), topic(BAD)], dict.fromkeys((GOOD, BAD), errors.NotCoordinatorError))
    with pytest.raises(BrokerUnreachable, match="NotCoordinatorError"):
        read(monkeypatch, moved, ["thumbnail", "bad"])
    assert moved.reads == 1


def test_a_topic_is_the_queues_that_was_made_last_and_forgetting_the_one_before_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pool has another memory since; the topic is another pool's now."""
    from slack_operator.demand.brokers.kafka import KafkaLag

    monkeypatch.setattr("slack_operator.demand.brokers.kafka.KafkaAdminClient", Admin([topic("media-a-b-256MB")]))
    former, present = "act.media-a.b.256", "act.media.a-b.256"

    async def whole() -> None:
        broker = KafkaLag(["kafka:9092"], group="workers")
        for queue in (former, present):
            await broker.ensure(QueueSettings(name=queue))
        await broker.forget(former)
        assert list(await broker.lag()) == [present]

    asyncio.run(whole())
