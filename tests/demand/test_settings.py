"""What users write becomes what the rules go by, field by field."""

from typing import Any

from slack.cluster.labels import API_VERSION
from slack.demand.broker import Duration, QueueSettings
from slack.demand.model import DemandSettings, PoolSettings, QueueKey, QuotaSettings
from slack.demand.policy import ActivationPool, ActivationQuota, parse_pool, parse_quota
from slack.demand.settings import pool_settings, queue_settings, quota_settings

MIB = 1 << 20


def pool(**spec: Any) -> ActivationPool:
    container = {"name": "action", "image": "a:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
    document = {
        "apiVersion": API_VERSION,
        "kind": "ActivationPool",
        "metadata": {"name": "thumbnail", "namespace": "media"},
        "spec": {"template": {"spec": {"containers": [container]}}} | spec,
    }
    return parse_pool(document, source="pool")


def quota(**spec: Any) -> ActivationQuota:
    document = {
        "apiVersion": API_VERSION,
        "kind": "ActivationQuota",
        "metadata": {"name": "q", "namespace": "media"},
        "spec": spec,
    }
    return parse_quota(document, source="quota")


def test_a_template_alone_has_the_defaults_of_the_rules() -> None:
    made = pool()
    assert pool_settings(made) == PoolSettings(
        key=QueueKey("media", "thumbnail"),
        subject="act.media.thumbnail.256",
        revision=made.revision,
        cpu_millis=210,  # with the proxy
        memory_bytes=304 * MIB,
        max_containers=20,
        stale_seconds=0.3,
        keep_warm_seconds=1800.0,
    )


def test_a_container_a_message_is_a_mode() -> None:
    assert pool_settings(pool(mode="perMessage")).per_message
    assert not pool_settings(pool()).per_message


def test_each_field_of_a_pool_gets_where_it_belongs() -> None:
    made = pool(
        queue={"ackWait": "90s", "maxDeliver": 7},
        proxy={"maxConcurrency": 4},
        limits={"maxContainers": 9, "minContainers": 2},
        timing={
            "stale": "200ms",
            "idleTimeout": "30s",
            "holdTime": "2s",
            "creationTimeout": "60s",
            "expectedDuration": "50ms",
        },
        keepWarm={"count": 3, "for": "10m"},
        retention={"maxMessages": 500, "maxAge": "2m", "throttleFraction": 0.5},
        demand={"publish": False, "horizon": "60s", "window": "1h", "percentile": 95},
    )
    assert pool_settings(made, ["act.media.thumbnail.128"]) == PoolSettings(
        key=QueueKey("media", "thumbnail"),
        subject="act.media.thumbnail.256",
        revision=made.revision,
        retired_subjects=("act.media.thumbnail.128",),
        cpu_millis=210,  # with the proxy
        memory_bytes=304 * MIB,
        concurrency=4,
        max_containers=9,
        min_containers=2,
        stale_seconds=0.2,
        idle_timeout_seconds=30.0,
        hold_seconds=2.0,
        creation_timeout_seconds=60.0,
        expected_duration_ms=50.0,
        keep_warm=3,
        keep_warm_seconds=600.0,
        max_messages=500,
        max_age_seconds=120.0,
        throttle_fraction=0.5,
        demand=DemandSettings(publish=False, horizon_seconds=60.0, window_seconds=3600.0, percentile=95.0),
    )
    assert queue_settings(made) == QueueSettings(
        name="act.media.thumbnail.256", ack_wait_seconds=Duration(90.0), max_deliver=7
    )


def test_of_several_quotas_each_holds() -> None:
    first = quota(maxContainers=10, maxCPU="4", overProvisionRatio=1.5, weights={"a": 2.0, "b": 3.0})
    second = quota(maxContainers=8, maxCPU="6", maxMemory="2Gi", overProvisionRatio=1.2, weights={"b": 1.0})
    assert quota_settings("media", [first, second]) == QuotaSettings(
        namespace="media",
        max_containers=8,
        max_cpu_millis=4000,
        max_memory_bytes=2048 * MIB,
        over_provision_ratio=1.2,
        weights={"a": 2.0, "b": 1.0},
    )


def test_containers_that_the_rules_do_not_see_take_room_of_a_quota_and_never_more_than_all() -> None:
    for others, left in ((3, 7), (10, 0), (12, 0)):
        settings = quota_settings("media", [quota(maxContainers=10)], others)
        assert settings is not None
        assert settings.max_containers == left


def test_a_namespace_without_a_quota_has_none() -> None:
    assert quota_settings("media", []) is None
