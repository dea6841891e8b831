"""The pods of pools: how they are made, whose they are, and what is told of them."""

from typing import Any

import msgspec
import pytest

from slack.cluster.labels import LABEL_CREATION, LABEL_POOL
from slack.demand.model import ContainerState, Creation, QueueKey
from slack.demand.template import PROXY
from slack.kube.watch import EventType
from slack.planner.model.pool import PROXY_REQUESTS
from slack.process.settings import load
from slack_operator.demand.pod_manifest import ProxyOptions, pod_manifest
from slack_operator.demand.pod_rows import PodRows, PoolPodRow, owned_pods, parse_pool_pod
from slack_operator.demand.proxy.settings import DemandProxySettings
from tests.operator.demand.pools import pod_json, pool

OPTIONS = ProxyOptions(image="proxy:1", broker_url="nats://nats:4222")
KEY = QueueKey("media", "thumbnail")
Json = dict[str, Any]


def creation(**more: Any) -> Creation:
    return Creation(id="thumbnail-x-1", key=KEY, revision="r1", subject="act.media.thumbnail.256", **more)


def row(**pod: Any) -> PoolPodRow:
    return msgspec.convert(pod_json(**pod), PoolPodRow)


def condition(kind: str, status: str, at: str, reason: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at}


def test_a_pod_is_the_template_owned_by_its_pool_with_a_proxy_that_has_no_rights() -> None:
    made = pod_manifest(
        pool(proxy={"port": 81, "maxConcurrency": 4}), creation(also=("act.media.thumbnail.128",)), OPTIONS
    )
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("thumbnail-x-1", "media")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("pool-uid", True)
    action, proxy = made["spec"]["containers"]
    assert (action["name"], proxy["name"]) == ("action", PROXY)
    assert "--queues=act.media.thumbnail.256,act.media.thumbnail.128" in proxy["args"]
    assert "--target=http://127.0.0.1:81/" in proxy["args"]
    assert "--slots=4" in proxy["args"]
    assert proxy["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "volumes" not in made["spec"]


def test_the_proxy_takes_what_it_is_told() -> None:
    spec: Json = {"proxy": {"credentialsSecret": "nats"}, "queue": {"ackWait": "1m1s500ms"}, "mode": "perMessage"}
    made = pod_manifest(pool(timing={"longestRun": "50s"}, **spec), creation(), OPTIONS)
    words = [word.removeprefix("--").partition("=") for word in made["spec"]["containers"][1]["args"][2:]]
    found = load(DemandProxySettings, {name.replace("-", "_"): value for name, _, value in words}, {})
    assert found.queues == ("act.media.thumbnail.256",)
    assert (found.ack_wait, found.longest_run, found.idle_timeout, found.messages) == (62.0, 50.0, 0.0, 1)
    assert found.container_id == "thumbnail-x-1"


def made_row(spec: Json, **status: Any) -> PoolPodRow:
    """The pod of a creation as the API server has it later."""
    made = pod_manifest(pool(**spec), creation(also=("act.media.thumbnail.128",)), OPTIONS)
    made["metadata"]["uid"] = "u"
    return msgspec.json.decode(msgspec.json.encode(made | {"status": status}), type=PoolPodRow)


def test_a_pod_is_seen_with_what_it_requests_and_takes_from() -> None:
    found = parse_pool_pod(made_row({}))
    assert found is not None
    container = found.container
    assert (container.subject, container.also) == ("act.media.thumbnail.256", ("act.media.thumbnail.128",))
    assert (container.cpu_millis, container.memory_bytes) == (210, (256 + 48) << 20)
    other = parse_pool_pod(row(name="a"))
    assert other is not None
    assert other.container.also == ()


@pytest.mark.parametrize(("mode", "spent"), [("perMessage", True), ("hold", False)])
def test_a_proxy_that_had_its_message_ends_the_pod_and_one_that_broke_does_not(mode: str, spent: bool) -> None:
    """With restartPolicy Always the kubelet would start it again, for another message, in the same container."""
    ended = {"name": PROXY, "state": {"terminated": {"exitCode": 0}}}
    ready = [condition("Ready", "False", "2026-01-01T00:00:05Z")]
    found = parse_pool_pod(made_row({"mode": mode}, conditions=ready, containerStatuses=[ended]))
    assert found is not None
    assert (found.spent, found.container.state is ContainerState.DRAINING) == (spent, spent)
    assert not found.finished, "its other container still runs, and counts"


def test_a_pod_requests_for_its_proxy_what_slack_keeps_for_it() -> None:
    """With more, one pod would displace two placeholders of its own shape."""
    containers = pod_manifest(pool(), creation(), OPTIONS)["spec"]["containers"]
    (proxy,) = [each for each in containers if each["name"] == PROXY]
    assert proxy["resources"]["requests"] == PROXY_REQUESTS


def test_credentials_are_mounted_in_the_proxy_and_nowhere_else() -> None:
    made = pod_manifest(pool(proxy={"credentialsSecret": "nats"}), creation(), OPTIONS)
    action, proxy = made["spec"]["containers"]
    assert "volumeMounts" not in action
    assert proxy["volumeMounts"][0]["name"] == PROXY
    assert made["spec"]["volumes"] == [{"name": PROXY, "secret": {"secretName": "nats", "defaultMode": 0o444}}]


def test_without_a_proxy_the_pod_is_the_template_alone() -> None:
    made = pod_manifest(pool(proxy={"mode": "none"}), creation(), OPTIONS)
    assert [container["name"] for container in made["spec"]["containers"]] == ["action"]


def test_a_deleted_pod_may_finish_its_longest_run() -> None:
    assert pod_manifest(pool(), creation(), OPTIONS)["spec"]["terminationGracePeriodSeconds"] == 65
    longer = pool(queue={"ackWait": "10m"}, timing={"longestRun": "5m"})
    assert pod_manifest(longer, creation(), OPTIONS)["spec"]["terminationGracePeriodSeconds"] == 305


@pytest.mark.parametrize(
    ("conditions", "metadata", "state"),
    [
        ([], {}, ContainerState.CREATING),
        ([condition("Ready", "True", "2026-01-01T00:00:05Z")], {}, ContainerState.READY),
        ([condition("Ready", "False", "2026-01-01T00:00:05Z")], {}, ContainerState.CREATING),
        (
            [condition("Ready", "True", "2026-01-01T00:00:05Z")],
            {"deletionTimestamp": "2026-01-01T00:01:00Z"},
            ContainerState.DRAINING,
        ),
    ],
)
def test_a_pods_state_is_told_by_its_conditions(conditions: list[Json], metadata: Json, state: ContainerState) -> None:
    found = parse_pool_pod(row(name="a", status={"conditions": conditions}, metadata=metadata))
    assert found is not None
    assert found.container.state is state


def test_a_pod_without_room_says_since_when() -> None:
    waits = condition("PodScheduled", "False", "2026-01-01T00:00:01Z", "Unschedulable")
    found = parse_pool_pod(row(name="a", status={"conditions": [waits]}))
    assert found is not None
    assert found.container.unschedulable_since_seconds == found.container.created_at_seconds + 1


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"kind": "ActivationPool", "uid": "pool-uid"}]},
        {"ownerReferences": [{"kind": "ReplicaSet", "uid": "pool-uid", "controller": True}]},
        {"labels": {LABEL_POOL: "thumbnail", LABEL_CREATION: "another"}},
        {"labels": None},
    ],
)
def test_a_pod_that_no_pool_controls_is_none_of_ours(metadata: Json) -> None:
    assert parse_pool_pod(row(name="a", metadata=metadata)) is None


def test_a_pod_of_another_pools_uid_is_left_alone() -> None:
    rows = PodRows()
    pods = [row(name="mine"), row(name="forged", owner="other-uid")]
    rows.apply([(EventType.ADDED, pod) for pod in pods])
    found = owned_pods([rows], {KEY: "pool-uid"}.get)
    assert [pod.container.id for pod in found] == ["mine"]


def test_a_list_that_is_whole_forgets_what_is_gone() -> None:
    rows = PodRows()
    rows.apply([(EventType.ADDED, row(name="a")), (EventType.ADDED, row(name="b"))])
    rows.begin()
    rows.apply([(EventType.ADDED, row(name="b"))])
    assert len(rows.all()) == 2, "until it is whole"
    rows.end()
    assert [pod.container.id for pod in rows.all()] == ["b"]
    rows.apply([(EventType.DELETED, row(name="b"))])
    assert rows.all() == []


def test_how_long_a_node_took_is_learnt_from_pods_that_waited_for_it() -> None:
    rows = PodRows()
    waits = condition("PodScheduled", "False", "2026-01-01T00:00:10Z", "Unschedulable")
    bound = condition("PodScheduled", "True", "2026-01-01T00:01:40Z")
    rows.apply([(EventType.ADDED, row(name="a", status={"conditions": [waits]}))])
    rows.apply([(EventType.MODIFIED, row(name="a", spec={"nodeName": "n"}, status={"conditions": [bound]}))])
    assert rows.waits() == [90.0]
