"""What a scheduler does with deleted pools, lowered limits, other templates, resources, failures and late creations."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from benchmarks.demand.simulation.load import PublishedLoad
from benchmarks.demand.simulation.polled import Polling
from benchmarks.demand.simulation.runs import run_polled
from benchmarks.demand.simulation.world import World
from slack.demand.model import Clip, EndReason, Guards, PoolSettings, QueueKey, QueueState, QuotaSettings, Refusal
from slack.demand.tick import NodeRoom, PoolScheduler, TickResult
from tests.demand.build import creating, key, lag, pool, ready, seen


def scheduler(*pools: PoolSettings, limit: int = 10, guards: str = "all", **quota: Any) -> PoolScheduler:
    found = PoolScheduler(epoch="t", guards=Guards.parse(guards))
    found.configure(pools, [QuotaSettings(namespace="media", max_containers=limit, **quota)])
    return found


def ended(result: TickResult) -> dict[str, EndReason]:
    return {ending.container_id: ending.reason for ending in result.endings}


def test_containers_of_a_pool_that_is_gone_end_those_in_creation_too() -> None:
    found = scheduler(pool("other"))
    first = found.tick(seen(0.0, {}, [ready("a"), creating("b")]))
    assert ended(first) == {"a": EndReason.POOL_DELETED, "b": EndReason.POOL_DELETED}
    assert not found.tick(seen(0.1, {}, [ready("a"), creating("b")])).endings, "told once"


def test_a_deleted_pool_runs_what_is_queued_and_then_its_containers_end() -> None:
    found = scheduler(pool(deleted=True))
    result = found.tick(seen(0.0, {"thumb": lag(3)}, [ready("a")]))
    assert not result.endings
    assert result.figures[key()].state is QueueState.REMOVING
    assert ended(found.tick(seen(0.1, {"thumb": lag(0, delivered=3)}, [ready("a")]))) == {"a": EndReason.POOL_DELETED}


def test_a_lowered_limit_of_the_pool_ends_the_longest_idle() -> None:
    containers = [ready(name, idle_since_seconds=since) for name, since in (("a", 4.0), ("b", 3.0), ("c", None))]
    result = scheduler(pool(max_containers=2)).tick(seen(5.0, {"thumb": lag(9, 1)}, containers))
    assert ended(result) == {"b": EndReason.QUOTA}


def test_a_lowered_quota_ends_containers_of_any_pool_idle_ones_first() -> None:
    containers = [ready("a1", "a"), ready("b1", "b", idle_since_seconds=4.0), ready("b2", "b")]
    result = scheduler(pool("a"), pool("b"), limit=2).tick(seen(5.0, {"a": lag(0, 1), "b": lag(0, 1)}, containers))
    assert ended(result) == {"b1": EndReason.QUOTA}
    assert not result.creations


def test_another_image_is_rolled_out_one_by_one_the_new_one_first() -> None:
    found = scheduler(pool(revision="r2"))
    old = [ready("a", idle_since_seconds=4.0), ready("b")]
    first = found.tick(seen(5.0, {"thumb": lag(0, 1)}, old))
    assert (len(first.creations), first.endings) == (1, ())
    assert first.creations[0].revision == "r2"
    name = first.creations[0].id
    waiting = found.tick(seen(5.1, {"thumb": lag(0, 1)}, [*old, creating(name)]))
    assert (waiting.creations, waiting.endings) == ((), ())
    there = [*old, ready(name, revision="r2", ready_at_seconds=6.0)]
    assert ended(found.tick(seen(6.0, {"thumb": lag(0, 1)}, there))) == {"a": EndReason.REVISION}
    assert not found.tick(seen(6.1, {"thumb": lag(0, 1)}, there)).creations, "the old one is not gone"
    assert len(found.tick(seen(6.2, {"thumb": lag(0, 1)}, there[1:])).creations) == 1


def test_where_there_is_no_room_beside_it_an_old_one_goes_before_the_new_one_comes() -> None:
    result = scheduler(pool(revision="r2", max_containers=1)).tick(seen(5.0, {"thumb": lag(0, 1)}, [ready("a")]))
    assert (ended(result), result.creations) == ({"a": EndReason.REVISION}, ())


def test_old_memory_runs_what_is_left_of_its_queue_and_then_ends() -> None:
    settings = pool(revision="r2", subject="act.media.thumb.512", retired_subjects=("act.media.thumb.128",))
    found = scheduler(settings)
    assert not found.tick(seen(5.0, {"thumb": lag(4)}, [ready("old")])).endings
    assert ended(found.tick(seen(5.1, {"thumb": lag(0)}, [ready("old")]))) == {"old": EndReason.REVISION}


def test_what_is_left_of_an_old_queue_without_containers_is_taken_by_new_ones() -> None:
    settings = pool(revision="r2", subject="act.media.thumb.512", retired_subjects=("act.media.thumb.128",))
    (creation,) = scheduler(settings).tick(seen(5.0, {"thumb": lag(4)})).creations
    assert (creation.subject, creation.also) == ("act.media.thumb.512", ("act.media.thumb.128",))


@pytest.mark.parametrize("quota", [{"max_cpu_millis": 1500}, {"max_memory_bytes": 1500 << 20}])
def test_a_quota_of_resources_bounds_what_comes(quota: dict[str, Any]) -> None:
    settings = pool(cpu_millis=500, memory_bytes=500 << 20, expected_duration_ms=1e4)
    result = scheduler(settings, **quota).tick(seen(5.0, {"thumb": lag(20)}, [ready("a")]))
    assert result.decisions[key()].clipped_by is Clip.RESOURCES
    assert len(result.creations) == 2


def test_containers_with_the_memory_of_before_count_with_it() -> None:
    """From 512 to 128 MiB: two old ones leave no room in a gibibyte, whatever the template says now."""
    settings = pool(revision="r2", memory_bytes=128 << 20)
    old = [ready(name, subject="act.media.thumb.512") for name in "ab"]
    result = scheduler(settings, max_memory_bytes=1 << 30).tick(seen(5.0, {"thumb": lag(5)}, old))
    assert not result.creations


def test_a_failed_creation_is_tried_again_when_its_time_has_come() -> None:
    found = scheduler(pool())
    (creation,) = found.tick(seen(0.0, {"thumb": lag(1)})).creations
    found.failed(creation.id, 0.0, "quota exceeded")
    waiting = found.tick(seen(0.05, {"thumb": lag(1)}))
    assert (waiting.creations, waiting.decisions[key()].clipped_by) == ((), Clip.RETRY)
    assert len(found.tick(seen(0.11, {"thumb": lag(1)})).creations) == 1


def test_a_queue_whose_creations_fail_is_flushed_after_its_retention_and_runs_again_once_one_succeeds() -> None:
    found = scheduler(pool(max_age_seconds=60.0))
    now = 0.0
    for _ in range(6):
        (creation,) = found.tick(seen(now, {"thumb": lag(1)})).creations
        found.failed(creation.id, now, "no such image")
        now += 2.0
    old = lag(1, oldest_age_seconds=61.0)
    result = found.tick(seen(now, {"thumb": old}))
    assert result.figures[key()].state is QueueState.FLUSHING
    assert result.drop == (key(),)
    failing = found.failing(key())
    assert failing is not None
    assert failing.reason == "no such image"
    back = found.tick(seen(now + 1, {"thumb": lag(1)}, [ready("a", ready_at_seconds=now)]))
    assert back.figures[key()].state is QueueState.RUNNING
    assert found.failing(key()) is None


def test_a_late_creation_is_ended_and_takes_room_until_it_is_gone() -> None:
    found = scheduler(pool(max_containers=1))
    first = found.tick(seen(21.0, {"thumb": lag(1)}, [creating("slow")]))
    assert ended(first) == {"slow": EndReason.TIMED_OUT}
    assert not first.creations
    assert not found.tick(seen(22.0, {"thumb": lag(1)}, [creating("slow")])).creations
    assert len(found.tick(seen(23.0, {"thumb": lag(1)})).creations) == 1


def test_a_full_queue_refuses_and_is_still_decided_about() -> None:
    found = scheduler(pool(max_messages=100, expected_duration_ms=100.0))
    for tick in range(3):
        result = found.tick(seen(5.0 + tick / 10, {"thumb": lag(100)}, [ready("a")]))
    assert found.verdict(key()).reason is Refusal.QUEUE_FULL
    assert result.figures[key()].state is QueueState.ACTION_THROTTLED
    for backlog, state in ((91, QueueState.ACTION_THROTTLED), (90, QueueState.RUNNING)):
        after = found.tick(seen(6.0 - backlog / 1000, {"thumb": lag(backlog)}, [ready("a")]))
        assert after.figures[key()].state is state
    assert not found.verdict(key()).reject


def test_min_containers_are_there_without_a_message() -> None:
    found = scheduler(pool(min_containers=2))
    assert len(found.tick(seen(0.0, {})).creations) == 2
    assert not found.tick(seen(0.1, {})).creations


def test_per_message_a_container_comes_for_each_message_and_ends_once_it_is_idle() -> None:
    found = scheduler(pool(per_message=True))
    assert len(found.tick(seen(5.0, {"thumb": lag(3)}, [ready("a", idle_since_seconds=4.9)])).creations) == 2
    assert ended(found.tick(seen(5.1, {"thumb": lag(0)}, [ready("a", idle_since_seconds=5.05)]))) == {
        "a": EndReason.IDLE
    }


def test_what_waits_for_a_node_is_unmet_and_who_publishes_is_told_how_long_a_node_takes() -> None:
    pending = [creating("a", unschedulable_since_seconds=1.0)]
    found = scheduler(pool(), limit=1)
    for tick, backlog in enumerate((5, 30, 60)):
        result = found.tick(seen(11.0 + tick, {"thumb": lag(backlog)}, pending, node_start_seconds=60.0))
    assert result.decisions[key()].unmet == 1
    assert found.targets[key()].unmet == 1
    verdict = found.verdict(key())
    assert (verdict.reason, verdict.retry_after_ms) == (Refusal.CAPACITY_SHORT, 48_000)


def test_containers_are_spread_over_nodes_and_never_more_than_they_have_room_for() -> None:
    found = scheduler(pool(expected_duration_ms=1e5))
    nodes = [NodeRoom(name="n1", slots=2), NodeRoom(name="n2", slots=2)]
    for tick in range(2):
        result = found.tick(seen(5.0 + tick / 10, {"thumb": lag(20)}, [ready("a", node="n1")], nodes=nodes))
        if result.creations:
            break
    assert sorted(creation.node_hint or "" for creation in result.creations) == ["n1", "n2", "n2"]
    assert result.decisions[key()].clipped_by is Clip.NODE_ROOM
    again = found.tick(seen(5.2, {"thumb": lag(20)}, [ready("a", node="n1")], nodes=nodes))
    assert not again.creations, "those that are not seen yet take room too"


def test_without_a_quota_the_pools_may_have_what_they_ask_for_together() -> None:
    found = PoolScheduler(epoch="t")
    found.configure([pool("a", max_containers=3), pool("b", max_containers=4)])
    assert found.tick(seen(0.0, {"a": lag(1)})).figures[key("a")].namespace_limit == 7
    found.configure([pool("b", max_containers=4)])
    assert key("a") not in found.targets
    assert found.tick(seen(0.1, {"b": lag(1)})).figures[key("b")].namespace_limit == 4


def test_a_pool_of_no_containers_refuses_and_has_what_is_too_old_dropped() -> None:
    found = scheduler(pool(max_containers=0, max_age_seconds=1.0))
    result = found.tick(seen(0.0, {"thumb": lag(1, oldest_age_seconds=2.0)}))
    assert (result.creations, result.drop) == ((), (key(),))
    assert found.verdict(key()).reason is Refusal.NO_CONTAINERS


def test_by_polling_the_first_container_comes_with_a_poll_and_the_last_goes_after_the_cooldown() -> None:
    load = PublishedLoad(
        actions=1, burst=100, burst_at_seconds=40.0, run_seconds=(0.1, 0.1), seconds=600.0, cut_seconds=0.0
    )
    outcome = run_polled(World(nodes=2, slots=8), load, Polling(), Random(1))
    assert outcome.finished == 100
    assert outcome.first_start_seconds is not None
    assert 40.0 < outcome.first_start_seconds <= 40.0 + 30.0 + 1.3
    assert outcome.gone_seconds is not None
    assert outcome.gone_seconds - outcome.last_finished_seconds > 250.0


# --- retired subjects, names and requests ---------------------------------------------------------------------------

RETIRED = "act.media.thumb.64"


def test_messages_of_a_former_memory_get_a_container_that_takes_them_beside_those_that_do_not() -> None:
    found = scheduler(pool(retired_subjects=(RETIRED,)))
    stuck = {f"act.media.{name}": value for name, value in (("thumb.128", lag(0)), ("thumb.64", lag(1)))}
    own = ready("a", idle_since_seconds=4.0)
    result = found.tick(replace(seen(5.0, {}, [own]), lags=stuck))
    (creation,) = result.creations
    assert creation.also == (RETIRED,)
    coming = creating(creation.id, created_at_seconds=5.0, also=(RETIRED,))
    assert not found.tick(replace(seen(5.1, {}, [own, coming]), lags=stuck)).creations, "one is enough"


def test_without_room_for_it_one_that_does_not_take_them_makes_way_and_idle_ones_end() -> None:
    found = scheduler(pool(retired_subjects=(RETIRED,), max_containers=1))
    stuck = {"act.media.thumb.128": lag(0), RETIRED: lag(1)}
    result = found.tick(replace(seen(5.0, {}, [ready("a", idle_since_seconds=4.5)]), lags=stuck))
    assert ended(result) == {"a": EndReason.REVISION}
    assert not result.creations
    (creation,) = found.tick(replace(seen(6.0, {}, []), lags=stuck)).creations
    assert creation.also == (RETIRED,)


def test_a_container_of_the_same_name_in_another_namespace_is_another() -> None:
    found = PoolScheduler(epoch="t")
    evil = replace(pool("evil"), key=QueueKey("evil", "evil"), subject="act.evil.evil.128")
    found.configure([pool(max_containers=3), evil], [QuotaSettings(namespace="media", max_containers=3)])
    asked: list[str] = []
    for tick in range(40):
        forged = [
            replace(ready(f"thumb-t-{number:x}", "evil"), namespace="evil", subject="act.evil.evil.128")
            for number in range(1, 40)
        ]
        result = found.tick(seen(tick / 10, {"thumb": lag(50)}, forged))
        asked += [creation.id for creation in result.creations if creation.key == key()]
    assert len(asked) <= 3


def test_a_quota_counts_what_containers_request_and_not_what_new_ones_would() -> None:
    old = [ready(f"old-{n}", cpu_millis=2000, memory_bytes=1 << 28, revision="r0") for n in range(3)]
    small = pool(cpu_millis=100, memory_bytes=1 << 20, max_containers=50)
    found = scheduler(small, limit=100, max_cpu_millis=6500)
    used = sum(len(found.tick(seen(1 + n / 10, {"thumb": lag(90)}, old)).creations) for n in range(30))
    assert used <= 5, "6000 of 6500 millicores are taken by the old ones"


def test_a_container_that_got_its_node_late_has_all_its_time_from_there() -> None:
    found = scheduler(pool(creation_timeout_seconds=20.0))
    waits = creating("a", created_at_seconds=0.0, unschedulable_since_seconds=1.0)
    for now in (1.0, 100.0, 200.0):
        assert not found.tick(seen(now, {"thumb": lag(5)}, [waits])).endings
    bound = creating("a", created_at_seconds=200.0)
    assert not found.tick(seen(201.0, {"thumb": lag(5)}, [bound])).endings
    assert not found.tick(seen(219.0, {"thumb": lag(5)}, [bound])).endings
    assert ended(found.tick(seen(222.0, {"thumb": lag(5)}, [bound]))) == {"a": EndReason.TIMED_OUT}


def test_a_pool_at_its_own_limit_is_told_so_at_the_next_tick_too() -> None:
    containers = [ready(f"c{n}") for n in range(10)]
    found = scheduler(pool(max_containers=10), limit=100)
    for now in (1.0, 1.1, 1.2):
        decision = found.tick(seen(now, {"thumb": lag(500)}, containers)).decisions[key()]
        assert decision.clipped_by is Clip.ACTION_LIMIT
        assert "namespace" not in decision.reason
