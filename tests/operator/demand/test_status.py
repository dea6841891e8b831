"""The status of pools and quotas: figures, conditions with reasons, and when it is worth a write."""

from dataclasses import replace
from typing import Any

from slack.demand.broker import QueueLag
from slack.demand.ledger import Failing
from slack.demand.model import (
    AdmissionVerdict,
    Clip,
    ContainerState,
    PoolContainer,
    PoolTarget,
    QueueDecision,
    QueueFigures,
    Refusal,
)
from slack.documents.activation_status import ActivationPoolStatus
from slack.planner.model.pool import FRESH_SECONDS
from slack.schema.conditions import StatusCondition
from slack.schema.status_struct import status_schema
from slack_operator.demand.pool_reporter import ANNOUNCED_SECONDS, PoolReporter
from slack_operator.demand.status import (
    PoolObservation,
    figures_of,
    headline,
    pool_status,
    quota_status,
    refused_status,
)
from slack_operator.demand.tick_state import LastDecision, MessageRates
from tests.cases import run_for_each
from tests.operator.demand.pools import pool

NOW = "2026-01-01T00:00:00Z"


def container(name: str, state: ContainerState = ContainerState.READY, **more: Any) -> PoolContainer:
    return PoolContainer(
        id=name,
        namespace="media",
        pool="thumbnail",
        revision="r",
        subject="s",
        state=state,
        created_at_seconds=0,
        **more,
    )


def observed(**more: Any) -> PoolObservation:
    given: dict[str, Any] = {
        "pool": pool(),
        "generation": 4,
        "problems": (),
        "containers": (container("a", idle_since_seconds=1.0), container("b", ContainerState.CREATING)),
        "lag": QueueLag(backlog=37, in_flight=4, oldest_age_seconds=0.24),
        "rates": MessageRates(61.23, 44.0),
        "target": PoolTarget(wanted=6, unmet=1, growth=2, peak_increment=5, slack_pods=5),
        "verdict": AdmissionVerdict(),
        "figures": QueueFigures(namespace_limit=20, action_limit=10, queued=37, stale=12, mean_duration_ms=68.0),
        "told": None,
        "failing": None,
        "broker_problem": None,
        "queue_problem": None,
        "queue_silent": None,
        "warning": None,
        "unix_seconds": 0.0,
        "node_start_seconds": 90.0,
    }
    return PoolObservation(**given | more)


def conditions(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in found["conditions"]}


def test_a_pools_status_is_its_figures() -> None:
    found = pool_status(observed(), {}, NOW)
    assert found["replicas"] == 2
    assert found["selector"] == "resource-slack.io/pool=thumbnail"
    assert found["containers"] == {"ready": 1, "creating": 1, "unschedulable": 0, "idle": 1, "draining": 0}
    assert found["lag"] == {"queued": 37, "inFlight": 4, "stale": 12, "oldestMs": 240}
    assert found["rate"] == {"arrivals": 61.2, "completions": 44.0, "meanDurationMs": 68.0}
    assert found["demand"]["slackPods"] == 5
    assert conditions(found) == {
        "Ready": ("True", "FollowsQueue"),
        "Throttled": ("False", "TakesMessages"),
        "CapacityShort": ("False", "NodesHaveRoom"),
        "BrokerReachable": ("True", "QueueRead"),
    }


def test_every_field_is_one_of_the_crds() -> None:
    decision = QueueDecision(row=9, add=2, clipped_by=Clip.ACTION_LIMIT, reason="why")
    figures = observed().figures
    assert figures is not None
    told = LastDecision(0.0, decision, figures)
    verdict = AdmissionVerdict(reject=True, reason=Refusal.QUEUE_FULL, retry_after_ms=100)
    found = pool_status(observed(told=told, verdict=verdict), {}, NOW)
    known = status_schema(ActivationPoolStatus)["properties"]
    assert set(found) <= set(known)
    for part in ("containers", "lag", "rate", "demand", "throttle", "decision"):
        assert set(found[part]) <= set(known[part]["properties"]), part
    assert found["decision"]["clippedBy"] == "ActionLimit"
    assert found["throttled"] is True


@run_for_each(
    ("more", "kind", "reason"),
    [
        ({"broker_problem": "nats: no answer"}, "BrokerReachable", ("False", "BrokerUnreachable")),
        ({"broker_problem": "nats: no answer"}, "Ready", ("False", "BrokerUnreachable")),
        ({"queue_problem": "WRONGTYPE"}, "Ready", ("False", "QueueRefused")),
        ({"queue_silent": "nats: timeout"}, "Ready", ("False", "QueueSilent")),
        ({"queue_silent": "nats: timeout"}, "BrokerReachable", ("False", "QueueSilent")),
        ({"queue_problem": "WRONGTYPE"}, "BrokerReachable", ("True", "QueueRead")),
        ({"queue_problem": "WRONGTYPE", "lag": None}, "BrokerReachable", ("False", "QueueRefused")),
        ({"failing": Failing(3, 0.0, "exceeded quota")}, "Ready", ("False", "CreationsFail")),
        ({"problems": ("spec.mode: bad",)}, "Ready", ("False", "InvalidSpec")),
        ({"warning": StatusCondition("Ready", False, "LimitAboveQuota", "")}, "Ready", ("False", "LimitAboveQuota")),
        (
            {"containers": (container("a", ContainerState.CREATING, unschedulable_since_seconds=5.0),)},
            "CapacityShort",
            ("True", "WaitsForNode"),
        ),
        (
            {"verdict": AdmissionVerdict(reject=True, reason=Refusal.NAMESPACE_FULL)},
            "Throttled",
            ("True", "NamespaceFull"),
        ),
        (
            {"verdict": AdmissionVerdict(reject=True, reason=Refusal.CAPACITY_SHORT)},
            "Throttled",
            ("True", "WaitsForNode"),
        ),
    ],
)
def test_what_is_wrong_is_a_condition_with_its_reason(more: Any, kind: str, reason: tuple[str, str]) -> None:
    assert conditions(pool_status(observed(**more), {}, NOW))[kind] == reason


def test_times_alone_are_no_news() -> None:
    before, after = (pool_status(observed(), {}, at) for at in (NOW, "2026-01-01T00:00:09Z"))
    assert figures_of(before) == figures_of(after)
    assert headline(before) == headline(after)
    assert figures_of(pool_status(observed(rates=MessageRates(1.0, 1.0)), {}, NOW)) != figures_of(before)


def test_what_a_pool_still_announces_is_said_again_before_it_fades_and_not_without_a_broker() -> None:
    """The planner takes what was said three minutes ago for less and less."""
    steady = pool_status(observed(), {}, NOW)
    due = PoolReporter._is_due
    assert not due(steady, steady, ANNOUNCED_SECONDS - 1)
    assert due(steady, steady, ANNOUNCED_SECONDS)
    for quiet in (
        pool_status(observed(target=PoolTarget(wanted=2)), {}, NOW),
        pool_status(observed(broker_problem="no answer", lag=None), {}, NOW),
    ):
        assert not due(quiet, quiet, 10 * ANNOUNCED_SECONDS)
    assert ANNOUNCED_SECONDS < FRESH_SECONDS / 2


def test_a_refused_pool_keeps_what_was_known_and_refuses_no_message() -> None:
    before = pool_status(observed(verdict=AdmissionVerdict(reject=True, reason=Refusal.QUEUE_FULL)), {}, NOW)
    found = refused_status(StatusCondition("Ready", False, "OtherBroker", "spec.queue.broker: x"), 5, before, NOW)
    assert found["throttled"] is False
    assert "throttle" not in found
    assert found["containers"] == before["containers"]
    assert conditions(found)["Ready"] == ("False", "OtherBroker")


def test_a_quota_says_what_is_used() -> None:
    from slack.demand.settings import pool_settings

    settings = {"thumbnail": pool_settings(pool())}
    found = quota_status(settings, [container("a"), replace(container("b"), pool="gone")], 1, 2, (), {}, NOW)
    assert found["used"] == {"containers": 2, "cpu": "210m", "memory": "304Mi"}
    known = replace(container("c"), cpu_millis=4000, memory_bytes=1 << 30)
    found = quota_status(settings, [container("a"), known], 1, 2, (), {}, NOW)
    assert found["used"] == {"containers": 2, "cpu": "4210m", "memory": "1328Mi"}, "what it has, not what new ones get"
    assert (found["pools"], found["throttled"]) == (1, 1)
