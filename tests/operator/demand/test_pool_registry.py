"""What is wanted: pools and quotas as the rules get them, and which pools are refused."""

from typing import Any

from slack.demand.broker import QueueLag
from slack.demand.broker_kind import BrokerKind
from slack.demand.model import QueueKey
from slack.demand.policy import ActivationPool, ActivationQuota, parse_pool, parse_quota
from slack_operator.demand.pool_registry import INVALID, LIMIT_ABOVE_QUOTA, OTHER_BROKER, TOPIC_TAKEN, PoolRegistry
from slack_operator.runtime.desired import Desired
from tests.operator.demand.pools import document, quota

KEY = QueueKey("media", "thumbnail")


def books(
    *documents: dict[str, Any], quotas: tuple[dict[str, Any], ...] = (), broker: BrokerKind = BrokerKind.NATS
) -> PoolRegistry:
    pools: Desired[ActivationPool] = Desired(lambda: None, parse_pool, "activationpool")
    found: Desired[ActivationQuota] = Desired(lambda: None, parse_quota, "activationquota")
    pools.replace_all(documents, events_before=0)
    found.replace_all(quotas, events_before=0)
    return PoolRegistry(pools, found, broker=broker, tick_seconds=0.3)


def test_a_pool_and_its_queue_are_wanted() -> None:
    wanted = books(document(), quotas=(quota(7), quota(5, "smaller"))).wanted()
    assert [pool.subject for pool in wanted.pools] == ["act.media.thumbnail.256"]
    assert [queue.name for queue in wanted.queues] == ["act.media.thumbnail.256"]
    assert [found.max_containers for found in wanted.quotas] == [5], "each holds"


def test_two_namespaces_may_have_a_pool_of_one_name() -> None:
    other = document()
    other["metadata"] |= {"namespace": "shop", "uid": "another"}
    assert {str(pool.key) for pool in books(document(), other).wanted().pools} == {"media/thumbnail", "shop/thumbnail"}


def test_a_pool_of_another_broker_is_refused_with_the_field() -> None:
    found = books(document(queue={"broker": "redis"})).now()
    assert found.refused[KEY].reason == OTHER_BROKER
    assert "spec.queue.broker: redis" in found.refused[KEY].message
    assert found.usable(KEY) is None
    assert not found.wanted.pools


def of_kafka(namespace: str, name: str, second: int, memory: str = "256Mi", status_queue: str = "") -> dict[str, Any]:
    """Return a pool of Kafka that was created in that second of a minute."""
    pool = document(name, uid=f"{namespace}/{name}", queue={"broker": "kafka"}, proxy={"mode": "none"})
    pool["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    pool["metadata"] |= {"namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    return pool | ({"status": {"queue": status_queue}} if status_queue else {})


FIRST, SECOND = QueueKey("media-a", "b"), QueueKey("media", "a-b")
"""Their topic is media-a-b-256MB for both."""


def test_two_actions_with_the_same_kafka_topic_are_refused() -> None:
    """The second is: it would count the messages of the first one, and its owner may be another."""
    for documents in ([of_kafka(*FIRST, 1), of_kafka(*SECOND, 2)], [of_kafka(*SECOND, 2), of_kafka(*FIRST, 1)]):
        kept = books(*documents, broker=BrokerKind.KAFKA)
        found = kept.now()
        assert list(found.refused) == [SECOND]
        assert found.refused[SECOND].reason == TOPIC_TAKEN
        assert "topic media-a-b-256MB is that of ActivationPool media-a/b already" in found.refused[SECOND].message
        assert [pool.subject for pool in found.wanted.pools] == ["act.media-a.b.256"]
        assert kept.uid_of(SECOND) is None, "its containers stay as they are"


def test_topics_that_differ_in_memory_and_brokers_without_topics_refuse_nobody() -> None:
    assert not books(of_kafka(*FIRST, 1), of_kafka(*SECOND, 2, "128Mi"), broker=BrokerKind.KAFKA).now().refused
    same = document("a-b"), document("b", uid="another")
    same[1]["metadata"]["namespace"] = "media-a"
    subjects = [pool.subject for pool in books(*same).wanted().pools]
    assert subjects == ["act.media.a-b.256", "act.media-a.b.256"]


def test_an_older_pool_does_not_take_a_topic_by_a_change_of_its_memory() -> None:
    owner = of_kafka(*SECOND, 2, status_queue="act.media.a-b.256")
    changed = of_kafka(*FIRST, 1, status_queue="act.media-a.b.128")
    assert list(books(owner, changed, broker=BrokerKind.KAFKA).now().refused) == [FIRST]


def test_a_topic_is_free_again_when_the_pool_that_had_it_takes_another() -> None:
    pools: Desired[ActivationPool] = Desired(lambda: None, parse_pool, "activationpool")
    quotas: Desired[ActivationQuota] = Desired(lambda: None, parse_quota, "activationquota")
    pools.replace_all([of_kafka(*FIRST, 1), of_kafka(*SECOND, 2)], events_before=0)
    kept = PoolRegistry(pools, quotas, broker=BrokerKind.KAFKA, tick_seconds=0.3)
    assert list(kept.now().refused) == [SECOND]
    changed = of_kafka(*FIRST, 1, "128Mi")
    changed["metadata"]["generation"] = 2
    pools.apply(changed)
    kept.touch()
    assert not kept.now().refused


def test_a_pool_that_never_had_a_good_spec_is_refused_and_its_pods_are_left_alone() -> None:
    bad = books(document(queue={"name": "act.shop.thumbnail"}))
    assert bad.now().refused[KEY].reason == INVALID
    assert bad.uid_of(KEY) is None


def test_a_limit_above_the_quota_is_told_and_the_quota_holds() -> None:
    found = books(document(limits={"maxContainers": 9}), quotas=(quota(4),)).now()
    assert found.warned[KEY].reason == LIMIT_ABOVE_QUOTA
    assert found.usable(KEY) is not None


def test_a_quota_that_never_was_good_bounds_nothing_away() -> None:
    bad = quota(4)
    bad["spec"] = {"maxContainers": -1}
    found = books(document(), quotas=(bad,)).now()
    assert found.usable(KEY) is None
    assert "ActivationQuota q cannot be used: " in found.refused[KEY].message


def test_a_queue_of_former_memory_that_holds_messages_is_still_run() -> None:
    kept = books(document())
    kept.read({"act.media.thumbnail.128": QueueLag(backlog=3, in_flight=0)})
    assert kept.wanted().pools[0].retired_subjects == ("act.media.thumbnail.128",)
    kept.read({"act.media.thumbnail.128": QueueLag(backlog=0, in_flight=0)})
    assert kept.wanted().pools[0].retired_subjects == ()


def test_what_is_no_queues_name_is_no_former_memory() -> None:
    """Any NATS client with the right to publish can make a subject that only looks like one."""
    kept = books(document())
    names = ("act.media.thumbnail", "act.media.thumbnail.FOO_bar", "act.media.thumbnail.0128", "act.media.nobody.64")
    kept.read(dict.fromkeys(names, QueueLag(backlog=1, in_flight=0)))
    assert kept.wanted().pools[0].retired_subjects == ()


def test_of_many_former_memories_those_with_the_most_messages_are_run_first() -> None:
    kept = books(document())
    lags = {f"act.media.thumbnail.{number}": QueueLag(backlog=number // 2, in_flight=0) for number in range(1000, 1100)}
    for found in (lags, dict(reversed(lags.items()))):
        kept.read(found)
        assert kept.wanted().pools[0].retired_subjects == tuple(
            f"act.media.thumbnail.{number}" for number in range(1092, 1100)
        )


def test_containers_of_refused_pools_count_in_the_quota() -> None:
    kept = books(document(), quotas=(quota(5),))
    kept.others({"media": 2})
    assert kept.wanted().quotas[0].max_containers == 3


def test_the_version_changes_when_something_does() -> None:
    kept = books(document())
    before = kept.wanted().version
    assert kept.wanted().version == before
    kept.touch()
    assert kept.wanted().version != before
