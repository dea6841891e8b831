"""What an ActivationPool and an ActivationQuota may say, and what is said of what they may not."""

from datetime import timedelta
from typing import Any

import pytest

from slack.cluster.labels import API_VERSION
from slack.demand import policy, template
from slack.demand.policy import InvalidPool, InvalidQuota, parse_pool, parse_quota
from tests.cases import run_for_each

Json = dict[str, Any]
CONTAINER: Json = {"name": "action", "image": "a:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}


def pool(spec: Json | None = None, name: str = "thumbnail", **template_spec: Any) -> Json:
    made = {"template": {"spec": {"containers": [CONTAINER]} | template_spec}} | (spec or {})
    metadata = {"name": name, "namespace": "media", "uid": "u", "generation": 3}
    return {"apiVersion": API_VERSION, "kind": "ActivationPool", "metadata": metadata, "spec": made}


def said_of(document: Json) -> str:
    with pytest.raises(InvalidPool) as found:
        parse_pool(document, source="pool")
    return "; ".join(found.value.problems)


def test_a_template_is_enough() -> None:
    parsed = parse_pool(pool(), source="pool")
    assert parsed.subject == "act.media.thumbnail.256"
    assert parsed.spec.limits.max_containers == 20
    assert parsed.spec.timing.stale == timedelta(milliseconds=300)
    assert parsed.spec.retention.max_age is None, "no message is dropped unless somebody says so"


def test_a_template_is_kept_whole() -> None:
    kept: Json = {"nodeSelector": {"a": "b"}, "volumes": [{"name": "tmp", "emptyDir": {}}]}
    document = parse_pool(pool(**kept), source="pool").spec.template.document
    assert document == {"spec": {"containers": [CONTAINER]} | kept}


def test_a_container_asks_for_what_all_of_the_pod_do() -> None:
    second = {"name": "log", "resources": {"limits": {"cpu": "0.1", "memory": "64Mi"}}}
    first = {"name": "migrate", "resources": {"requests": {"cpu": "0.1", "memory": "1Gi"}}}
    beside = {"name": "cache", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}
    parsed = parse_pool(pool(containers=[CONTAINER, second]), source="pool").spec.template
    assert parsed.requests(proxied=False) == {"cpu": 300, "memory": 320 << 20}
    assert parsed.requests(proxied=True) == {"cpu": 310, "memory": 368 << 20}
    assert parsed.memory_mib == 256
    more = parse_pool(
        pool(containers=[CONTAINER, second], initContainers=[first, beside], overhead={"cpu": "50m"}), source="pool"
    )
    assert more.spec.template.requests(proxied=False) == {"cpu": 2350, "memory": (2048 + 320) << 20}


def test_requests_of_init_containers_that_nobody_can_read_are_refused() -> None:
    bad = {"name": "migrate", "resources": {"requests": {"cpu": "much"}}}
    with pytest.raises(InvalidPool, match=r"its requests cannot be read: .*initContainers\[0\].*much"):
        parse_pool(pool(containers=[CONTAINER], initContainers=[bad]), source="pool")


@pytest.mark.parametrize(("memory", "mib"), [("256Mi", 256), ("1Gi", 1024), ("256M", 245), (str(1 << 20), 1)])
def test_the_queues_name_has_the_first_containers_memory_in_mib_rounded_up(memory: str, mib: int) -> None:
    resources = {"limits": {"memory": memory}}
    parsed = parse_pool(pool(containers=[{"name": "action", "resources": resources}]), source="pool")
    assert parsed.subject == f"act.media.thumbnail.{mib}"


@pytest.mark.parametrize("name", ["act.media.thumbnail", "act.media.thumbnail.256"])
def test_the_queue_may_be_named(name: str) -> None:
    assert parse_pool(pool({"queue": {"name": name}}), source="pool").subject == "act.media.thumbnail.256"


@run_for_each(
    ("spec", "field", "words"),
    [
        ({"queue": {"name": "act.media.thumbnail.128"}}, "spec", policy.OTHER_MEMORY),
        ({"queue": {"name": "act.media.other"}}, "spec", policy.OTHER_ACTION),
        ({"queue": {"name": "act.shop.thumbnail"}}, "spec.queue.name", "this pool's is act.media.thumbnail"),
        ({"queue": {"name": "act.media.>"}}, "spec.queue.name", policy.NO_QUEUE_NAME),
        ({"queue": {"name": "act.*.thumbnail"}}, "spec.queue.name", policy.NO_QUEUE_NAME),
        ({"queue": {"broker": "rabbit"}}, "spec.queue.broker", "'nats', 'redis' or 'kafka', not 'rabbit'"),
        ({"queue": {"broker": "kafka"}}, "spec", policy.LAG_ONLY),
        ({"queue": {"ackWait": "0s"}}, "spec.queue.ackWait", "ackWait must be from 1s to 24h"),
        ({"queue": {"ackWait": "30s"}, "timing": {"longestRun": "30s"}}, "spec", policy.ACK_TOO_SHORT),
        ({"timing": {"longestRun": "1h"}}, "spec", policy.ACK_TOO_SHORT),
        ({"timing": {"expectedDuration": "2m"}}, "spec", policy.RUN_TOO_LONG),
        ({"timing": {"tick": "99ms"}}, "spec.timing.tick", "tick must be from 100ms to 10s"),
        ({"timing": {"tick": "fast"}}, "spec.timing.tick", "is not a duration such as 300ms"),
        ({"timing": {"tock": "1s"}}, "spec.timing.tock", "unknown field; did you mean tick?"),
        ({"limits": {"minContainers": 21}}, "spec.limits", policy.MIN_ABOVE_MAX),
        ({"limits": {"maxContainers": 0}}, "spec.limits.maxContainers", "greater than or equal to 1"),
        ({"limits": {"maxContainers": "3"}}, "spec.limits.maxContainers", "no whole number"),
        ({"keepWarm": {"count": 21}}, "spec", policy.WARM_ABOVE_MAX),
        ({"retention": {"throttleFraction": 2}}, "spec.retention.throttleFraction", "less than or equal to 1"),
        ({"mode": "perMessage", "proxy": {"maxConcurrency": 2}}, "spec", policy.ONE_MESSAGE),
        ({"proxy": {"path": "run"}}, "spec.proxy.path", policy.NO_PATH),
        ({"proxy": {"path": ""}}, "spec.proxy.path", policy.NO_PATH),
        ({"proxy": {"path": "/ HTTP/1.1\r\nHost: other"}}, "spec.proxy.path", policy.NO_PATH),
        ({"proxy": {"path": "/r\u00fcn"}}, "spec.proxy.path", policy.NO_PATH),
        ({"proxy": {"path": "/run\n"}}, "spec.proxy.path", policy.NO_PATH),
        ({"mode": "often"}, "spec.mode", "'hold' or 'perMessage'"),
        ({"template": None}, "spec.template", "is null"),
    ],
)
def test_what_is_wrong_is_told_with_the_field(spec: Json, field: str, words: str) -> None:
    told = said_of(pool(spec))
    assert told.startswith(f"{field}: ")
    assert words in told


@pytest.mark.parametrize(
    ("template_spec", "words"),
    [
        ({"containers": [{"name": "a"}]}, f"spec: {policy.NO_MEMORY}"),
        ({"containers": []}, f"spec.template.spec: {template.NO_CONTAINER}"),
        ({"containers": [{"name": template.PROXY}]}, f"spec.template.spec.containers[0]: {template.NAME_TAKEN}"),
        ({"restartPolicy": "Never"}, template.ALWAYS_RESTARTED),
        ({"containers": [{"name": "a", "resources": {"requests": {"memory": "much"}}}]}, "requests.memory: "),
    ],
)
def test_a_template_is_judged_where_it_matters(template_spec: Json, words: str) -> None:
    assert words in said_of(pool(**template_spec))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("resource-slack.io/pool", template.NO_LABEL_OF_OURS),
        ("pod-template-hash", template.NO_FOREIGN_LABEL),
        ("scaledjob.keda.sh/name", template.NO_FOREIGN_LABEL),
        ("bad key", "is not a label key"),
    ],
)
def test_pods_are_labelled_neither_as_ours_nor_as_another_controllers(key: str, words: str) -> None:
    document = pool()
    document["spec"]["template"]["metadata"] = {"labels": {key: "x"}}
    assert words in said_of(document)


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "perMessage", "proxy": {"maxConcurrency": 1}},
        {"mode": "hold", "proxy": {"maxConcurrency": 4, "path": "/a/b?c=d"}},
    ],
)
def test_what_is_right_is_taken(spec: Json) -> None:
    assert parse_pool(pool(spec), source="pool").spec.proxy.max_concurrency


@pytest.mark.parametrize("name", ["thumb.nail", "t" * 64])
def test_a_pools_name_is_one_part_of_a_queues_name(name: str) -> None:
    assert "metadata.name: " in said_of(pool(name=name))


def test_a_revision_changes_with_template_and_proxy_only() -> None:
    first = parse_pool(pool(), source="pool").revision
    assert (
        parse_pool(pool({"limits": {"maxContainers": 3}, "timing": {"idleTimeout": "5s"}}), source="p").revision
        == first
    )
    assert parse_pool(pool({"proxy": {"port": 81}}), source="pool").revision != first
    assert parse_pool(pool(nodeSelector={"a": "b"}), source="pool").revision != first


def quota(spec: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "ActivationQuota",
        "metadata": {"name": "q", "namespace": "n"},
        "spec": spec,
    }


def test_a_quota_is_read() -> None:
    parsed = parse_quota(
        quota({"maxContainers": 7, "maxCPU": "2", "maxMemory": "1Gi", "weights": {"a": 2}}), source="q"
    )
    assert (parsed.namespace, parsed.spec.max_containers, parsed.spec.max_cpu) == ("n", 7, 2000)
    assert (parsed.spec.max_memory, parsed.spec.weights) == (1 << 30, {"a": 2.0})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.maxContainers: field required"),
        ({"maxContainers": -1}, "spec.maxContainers: "),
        ({"maxContainers": 1, "maxMemory": "lots"}, "spec.maxMemory: "),
        ({"maxContainers": 1, "overProvisionRatio": 0.5}, "spec.overProvisionRatio: "),
        ({"maxContainers": 1, "weights": {"a": 0}}, "spec.weights.a: "),
    ],
)
def test_what_is_wrong_with_a_quota_is_told_with_the_field(spec: Json, words: str) -> None:
    with pytest.raises(InvalidQuota, match=words.replace(".", "[.]")):
        parse_quota(quota(spec), source="q")
