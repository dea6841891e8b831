"""The controller's metrics: no family keeps a series of a pool that is gone."""

from slack.demand.broker import QueueLag
from slack.demand.model import ContainerState, PoolContainer, PoolSettings, QueueDecision, QueueKey
from slack.demand.tick import TickResult
from slack_operator.demand.loop import DesiredState, TickReport
from slack_operator.demand.metrics import DemandMetrics
from slack_operator.demand.pool_registry import DesiredPools


class Shown:
    """Metrics with a clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = DemandMetrics(lambda: self.now)

    def series(self) -> int:
        return sum(len(family.samples) for family in self.metrics.registry.collect())

    def turn(self, *pools: PoolSettings, unread: dict[str, str] | None = None) -> None:
        self.now += 2.0
        containers = [
            PoolContainer(
                id=f"c-{pool.key.action}",
                namespace=pool.key.namespace,
                pool=pool.key.action,
                revision="r",
                subject=pool.subject,
                state=ContainerState.READY,
                created_at_seconds=0.0,
                ready_at_seconds=1.0,
            )
            for pool in pools
        ]
        decisions = {pool.key: QueueDecision(row=5, add=1, reason="") for pool in pools}
        lags = {pool.subject: QueueLag(backlog=3, in_flight=1, oldest_age_seconds=1.0) for pool in pools}
        turn = TickReport(
            at_seconds=self.now,
            unix_seconds=self.now,
            tick_seconds=0.3,
            took_seconds=0.01,
            lags=lags,
            broker_problem=None,
            containers=containers,
            result=TickResult(decisions=decisions),
            targets={},
            reported={pool.subject: (5.0,) for pool in pools},
            unread=unread or {},
        )
        self.metrics.on_turn(turn, DesiredPools(wanted=DesiredState(version=1, pools=pools), pools={}, quotas={}))


def pool(name: str) -> PoolSettings:
    return PoolSettings(key=QueueKey("shop", name), subject=f"act.shop.{name}.64", revision="r", max_containers=1)


def test_pools_that_come_and_go_leave_no_series() -> None:
    shown, stays = Shown(), pool("stays")
    shown.turn(stays)
    shown.turn(stays)
    shown.metrics.on_rejected(stays.key)
    before = shown.series()
    for number in range(100):
        goes = pool(f"pr-{number}")
        shown.metrics.on_done(goes.key, "created", "")
        shown.metrics.on_rejected(goes.key)
        shown.turn(stays, goes)
        shown.metrics.on_done(goes.key, "ended", "PoolDeleted")
    assert shown.series() > before
    shown.turn(stays)
    assert shown.series() == before
    rejected = shown.metrics.registry.get_sample_value("demand_rejected_total", {"namespace": "shop", "pool": "stays"})
    assert rejected == 1.0, "what is there counts on"


def test_a_standby_forgets_pools_that_are_gone_and_has_no_gauges_of_a_leader() -> None:
    shown, there, gone = Shown(), pool("there"), pool("gone")
    before = shown.series()
    for found in (there, gone):
        shown.metrics.on_rejected(found.key)
    shown.turn(there)
    shown.metrics.show_leader(False, {there.key})
    labels = {"namespace": "shop", "pool": "there"}
    assert shown.metrics.registry.get_sample_value("demand_rejected_total", labels) == 1.0
    assert shown.metrics.registry.get_sample_value("demand_containers", {**labels, "state": "ready"}) is None
    shown.metrics.show_leader(False, set())
    assert shown.series() == before


def test_a_queue_that_does_not_answer_has_a_series_while_it_does_not() -> None:
    shown, silent = Shown(), pool("silent")
    labels = {"namespace": "shop", "pool": "silent"}
    shown.turn(silent, unread={silent.subject: "nats: timeout"})
    assert shown.metrics.registry.get_sample_value("demand_queue_unread", labels) == 1.0
    assert shown.metrics.registry.get_sample_value("demand_queue_messages", {**labels, "state": "queued"}) is None
    shown.turn(silent)
    assert shown.metrics.registry.get_sample_value("demand_queue_unread", labels) is None


def test_containers_of_two_pools_that_say_the_same_id_are_two_that_became_ready() -> None:
    shown = Shown()
    first, second = (
        PoolSettings(key=QueueKey(name, "a"), subject=f"act.{name}.a.64", revision="r", max_containers=1)
        for name in ("shop", "bank")
    )
    shown.turn()
    shown.turn(first)
    shown.turn(first, second)
    counts = [
        sample.value
        for family in shown.metrics.registry.collect()
        for sample in family.samples
        if "creation" in sample.name and sample.name.endswith("_count")
    ]
    assert counts == [1.0, 1.0]
