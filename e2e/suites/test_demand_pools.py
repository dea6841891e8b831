"""ActivationPools on the real control plane with a real NATS: they grow, drain, stay within quota, and survive faults.

kwok plays the kubelets, so nothing takes messages: the tests publish and drain themselves. The controller has a Role in
its namespaces and no more. DEMAND_PODS says how large the large pool is (1000 takes two minutes more).
"""

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import build
from e2e.harness.api import ApiError, Json
from e2e.harness.brokers.servers import NatsServer
from e2e.harness.cluster import access, kwok, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import pods, wait_until
from e2e.harness.product.demand import (
    MEDIA,
    PROGRAM,
    DemandController,
    condition,
    install,
    pool,
    quota,
    rights,
    status,
)
from slack.cluster.labels import API_VERSION, LABEL_CREATION, LABEL_POOL
from slack.demand import policy
from slack.demand.broker import Duration, MessageCount, MessageQueue
from slack_operator.demand.brokers.opening import open_message_queue

PODS = int(os.environ.get("DEMAND_PODS", "100"))
POOLS = f"/apis/{API_VERSION}/namespaces/{MEDIA}/activationpools"
LEASE_SECONDS = 17.0
REPLACED = 100
"""Containers of which the memory is doubled."""


class Queue:
    """What tests do with the broker, each by itself."""

    def __init__(self, url: str) -> None:
        self._url = url

    def publish(self, subject: str, count: int) -> None:
        async def work(broker: MessageQueue) -> None:
            for number in range(count):
                await broker.publish(subject, f"{number}".encode())

        self._run(work)

    def drain(self, subject: str) -> int:
        async def work(broker: MessageQueue) -> int:
            done = 0
            while messages := await broker.pull(subject, MessageCount(100), Duration(0.5)):
                for message in messages:
                    await broker.ack(message)
                done += len(messages)
            return done

        found: int = self._run(work)
        return found

    def _run(self, work: Any) -> Any:
        async def whole() -> Any:
            broker = await open_message_queue(self._url)
            try:
                return await work(broker)
            finally:
                await broker.close()

        return asyncio.run(whole())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    if why := NatsServer.missing():
        pytest.skip(why)
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def identity(backend: Backend) -> Iterator[access.Access]:
    with cleaned(backend.api):
        yield install(backend)


@pytest.fixture(scope="module")
def controller(backend: Backend, identity: access.Access, broker: NatsServer) -> Iterator[DemandController]:
    with cleaned(backend.api):
        for number in range(1 + PODS // 100):
            backend.api.create(kwok.node(f"demand-{number}"))
        with DemandController(backend, identity, broker) as running:
            yield running


@pytest.fixture
def queue(broker: NatsServer) -> Queue:
    return Queue(broker.url)


@pytest.fixture
def place(backend: Backend, controller: DemandController) -> Iterator[Backend]:
    """The cluster without pools; what a test makes goes again."""
    yield backend
    for path in (POOLS, f"/apis/{API_VERSION}/namespaces/{MEDIA}/activationquotas"):
        for found in backend.api.items(path):
            backend.api.delete(f"{path}/{found['metadata']['name']}")
    for pod in pods(backend.api, MEDIA):
        backend.api.delete(f"/api/v1/namespaces/{MEDIA}/pods/{pod['metadata']['name']}", grace_seconds=0)
    wait_until(lambda: not pods(backend.api, MEDIA), 60, "all pods to be gone")


def of_pool(place: Backend, name: str) -> list[Json]:
    """The pool's pods that are not being deleted."""
    found = pods(place.api, MEDIA, labelSelector=f"{LABEL_POOL}={name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def made(place: Backend, manifest: Json) -> str:
    """Create a pool, and return its queue once it is there."""
    place.api.create(manifest)
    name = manifest["metadata"]["name"]
    wait_until(lambda: status(place.api, name).get("queue"), 30, f"{name} to be followed")
    queue: str = status(place.api, name)["queue"]
    return queue


def ran(place: Backend, *command: str) -> list[str]:
    """Run a command as the cluster's administrator, and return its lines."""
    words = [*command, f"--kubeconfig={place.kubeconfig}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@pytest.mark.core
def test_a_pool_grows_with_its_queue_and_drains(place: Backend, queue: Queue) -> None:
    subject = made(place, pool("thumbnail", limits={"maxContainers": PODS}))
    queue.publish(subject, 3 * PODS)
    began = time.monotonic()
    wait_until(
        lambda: len(of_pool(place, "thumbnail")) == PODS, 180, f"{PODS} pods", lambda: status(place.api, "thumbnail")
    )
    took = time.monotonic() - began
    wait_until(lambda: status(place.api, "thumbnail")["containers"]["ready"] == PODS, 120, "all to be ready")
    found = status(place.api, "thumbnail")
    print(f"{PODS} pods were made within {took:.1f} s of the messages")
    assert found["replicas"] == PODS
    assert found["selector"] == f"{LABEL_POOL}=thumbnail"
    assert found["lag"]["queued"] == 3 * PODS
    owner = place.api.get(f"{POOLS}/thumbnail")["metadata"]["uid"]
    for pod in of_pool(place, "thumbnail"):
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (owner, True)
        assert pod["metadata"]["labels"][LABEL_CREATION] == pod["metadata"]["name"]
        proxy = pod["spec"]["containers"][-1]
        assert proxy["securityContext"]["runAsNonRoot"] is True
        assert proxy["securityContext"]["readOnlyRootFilesystem"] is True
    assert queue.drain(subject) == 3 * PODS
    wait_until(
        lambda: not of_pool(place, "thumbnail"), 120, "idle containers to end", lambda: status(place.api, "thumbnail")
    )


@pytest.mark.core
def test_kubectl_shows_what_a_pool_has_and_scales_it(place: Backend) -> None:
    made(place, pool("scaled", limits={"maxContainers": 5}))
    scale = place.api.get(f"{POOLS}/scaled/scale")
    assert scale["status"]["selector"] == f"{LABEL_POOL}=scaled"
    place.api.patch(f"{POOLS}/scaled/scale", {"spec": {"replicas": 3}})
    assert place.api.get(f"{POOLS}/scaled")["spec"]["limits"]["minContainers"] == 3
    wait_until(lambda: len(of_pool(place, "scaled")) == 3, 30, "three containers", lambda: status(place.api, "scaled"))
    wait_until(lambda: status(place.api, "scaled")["containers"]["ready"] == 3, 30, "them to be ready")
    heading, line = ran(place, str(build.TOOLS["kubectl"].binary()), "get", "activationpools", "-n", MEDIA)
    assert heading.split() == ["NAME", "WANTED", "READY", "CREATING", "LAG", "UNMET", "THROTTLED", "AGE"]
    assert line.split()[:7] == ["scaled", "3", "3", "0", "0", "0", "false"]
    told = "\n".join(ran(place, PROGRAM, "demand", "explain", "-n", MEDIA, "pool/scaled"))
    assert "actionLimit" in told
    assert "media/scaled" in ran(place, PROGRAM, "demand", "top", "-n", MEDIA)[1]


def test_a_quota_holds_over_all_pools_of_its_namespace(place: Backend, queue: Queue) -> None:
    place.api.create(quota(6))
    subjects = [made(place, pool(name, limits={"maxContainers": 6})) for name in ("one", "two")]
    most = 0
    for subject in subjects:
        queue.publish(subject, 50)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        most = max(most, len(pods(place.api, MEDIA)))
        time.sleep(0.1)
    assert most == 6, "all of it is used, and no more"
    counts = Counter(pod["metadata"]["labels"][LABEL_POOL] for pod in pods(place.api, MEDIA))
    assert set(counts) == {"one", "two"}, "none starves"
    found = place.api.get(f"/apis/{API_VERSION}/namespaces/{MEDIA}/activationquotas/all")["status"]
    assert found["used"]["containers"] == 6
    for subject in subjects:
        queue.drain(subject)


def test_a_limit_above_the_quota_is_told_with_its_field(place: Backend) -> None:
    place.api.create(quota(2))
    made(place, pool("greedy", limits={"maxContainers": 3}))
    wait_until(lambda: condition(status(place.api, "greedy"), "Ready")[1] == "LimitAboveQuota", 15, "it to be told")
    assert condition(status(place.api, "greedy"), "Ready")[2].startswith("spec.limits.maxContainers: 3 is above")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"queue": {"ackWait": "30s"}, "timing": {"longestRun": "30s"}}, policy.ACK_TOO_SHORT),
        ({"queue": {"broker": "rabbit"}}, "spec.queue.broker"),
        ({"queue": {"name": "act.media.bad.32"}}, policy.OTHER_MEMORY),
        ({"queue": {"name": "act.media.other"}}, policy.OTHER_ACTION),
        ({"queue": {"name": "act.media.>"}}, policy.NO_QUEUE_NAME),
        ({"queue": {"broker": "kafka"}}, policy.LAG_ONLY),
        ({"mode": "perMessage", "proxy": {"maxConcurrency": 2}}, policy.ONE_MESSAGE),
        ({"proxy": {"path": "/a b"}}, policy.NO_PATH),
        ({"timing": {"tick": "99ms"}}, policy.out_of_bounds("tick")),
        ({"limits": {"maxContainers": 3, "minContainers": 4}}, policy.MIN_ABOVE_MAX),
        ({"keepWarm": {"count": 21}}, policy.WARM_ABOVE_MAX),
        ({"keepWarm": {"for": "25h"}}, policy.out_of_bounds("for")),
        ({"template": {"spec": {"containers": [{"name": "a"}]}}}, policy.NO_MEMORY),
        ({"mode": "often"}, "spec.mode"),
    ],
)
def test_bad_specs_are_refused_by_the_api_server_with_the_field(place: Backend, spec: Json, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        place.api.create(pool("bad", **spec))
    assert refused.value.status == 422
    assert words in str(refused.value)


def test_a_queue_of_another_namespace_is_refused_in_the_status(place: Backend, controller: DemandController) -> None:
    place.api.create(pool("thief", queue={"name": "act.shop.thief"}, limits={"minContainers": 1}))
    wait_until(lambda: condition(status(place.api, "thief"), "Ready")[0] == "False", 30, "it to be refused")
    _, reason, message = condition(status(place.api, "thief"), "Ready")
    assert reason == "InvalidSpec"
    assert "spec.queue.name: act.shop.thief is another namespace's" in message
    assert not of_pool(place, "thief")
    assert controller.ask("thief")[0] == 404


def test_a_pod_that_only_looks_like_ours_is_left_alone(place: Backend) -> None:
    made(place, pool("real", limits={"minContainers": 1}))
    forged: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "forged",
            "namespace": MEDIA,
            "labels": {LABEL_POOL: "real", LABEL_CREATION: "forged"},
        },
        "spec": {"containers": [{"name": "a", "image": "registry.k8s.io/pause:3.10"}]},
    }
    place.api.create(forged)
    wait_until(lambda: status(place.api, "real").get("replicas") == 1, 30, "one container")
    time.sleep(3)
    assert status(place.api, "real")["replicas"] == 1
    assert "deletionTimestamp" not in place.api.get(f"/api/v1/namespaces/{MEDIA}/pods/forged")["metadata"]


@pytest.mark.core
def test_the_endpoint_refuses_only_at_the_limit_and_when_more_comes_than_is_done(
    place: Backend, controller: DemandController, queue: Queue
) -> None:
    place.api.create(quota(2))
    subject = made(place, pool("hot", limits={"maxContainers": 2}))
    assert controller.ask("hot") == (200, {"reject": False})
    code, told = controller.post("hot", b"x")
    assert (code, told["queue"]) == (202, subject)
    queue.publish(subject, 40)

    def refused() -> bool:
        queue.publish(subject, 5)
        return controller.ask("hot")[0] == 429

    wait_until(refused, 30, "new messages to be refused", lambda: status(place.api, "hot"))
    code, told = controller.post("hot", b"x")
    assert code == 429
    assert told["reject"] is True
    assert (told["containers"], told["limit"]) == (2, 2)
    wait_until(lambda: status(place.api, "hot")["throttled"], 10, "the status to say so")
    queue.drain(subject)
    wait_until(lambda: controller.ask("hot")[0] == 200, 30, "messages to be taken again", lambda: controller.ask("hot"))


def test_without_its_broker_containers_stay_and_everything_recovers(
    place: Backend, controller: DemandController, broker: NatsServer, queue: Queue
) -> None:
    subject = made(place, pool("kept", limits={"maxContainers": 4}, timing={"idleTimeout": "5s"}))
    queue.publish(subject, 40)
    wait_until(lambda: len(of_pool(place, "kept")) == 4, 30, "four containers")
    broker.stop(killed=True)
    wait_until(lambda: condition(status(place.api, "kept"), "BrokerReachable")[0] == "False", 30, "it to be told")
    assert controller.ask("kept")[0] == 200, "nobody is refused for our trouble"
    time.sleep(8)
    assert len(of_pool(place, "kept")) == 4, "containers stay, past their idle time too"
    broker.start()
    wait_until(lambda: condition(status(place.api, "kept"), "BrokerReachable")[0] == "True", 40, "it to be read again")
    queue.drain(subject)
    wait_until(lambda: not of_pool(place, "kept"), 60, "idle containers to end", lambda: status(place.api, "kept"))


def test_doubled_memory_is_a_new_queue_and_never_above_quota(place: Backend, queue: Queue) -> None:
    place.api.create(quota(REPLACED))
    limits = {"maxContainers": REPLACED, "minContainers": REPLACED}
    old = made(place, pool("grown", memory="64Mi", limits=limits))
    wait_until(lambda: status(place.api, "grown")["containers"]["ready"] == REPLACED, 60, "all to be ready")
    place.api.apply(pool("grown", memory="128Mi", limits=limits))
    wait_until(lambda: status(place.api, "grown")["queue"] != old, 15, "the new queue")
    most = 0

    def replaced() -> bool:
        nonlocal most
        found = pods(place.api, MEDIA, labelSelector=f"{LABEL_POOL}=grown")
        most = max(most, len(found))
        memories = [pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in found]
        return len(memories) == REPLACED and set(memories) == {"128Mi"}

    wait_until(replaced, 120, "all to be of the new memory", lambda: status(place.api, "grown"))
    assert most <= REPLACED


def test_containers_of_a_drained_node_are_made_elsewhere_and_never_above_quota(place: Backend) -> None:
    place.api.create(quota(6))
    made(place, pool("moved", limits={"maxContainers": 6, "minContainers": 6}))
    wait_until(lambda: status(place.api, "moved")["containers"]["ready"] == 6, 60, "all to be ready")
    drained = of_pool(place, "moved")[0]["spec"]["nodeName"]
    place.api.patch(f"/api/v1/nodes/{drained}", {"spec": {"unschedulable": True}})
    for pod in of_pool(place, "moved"):
        if pod["spec"]["nodeName"] == drained:
            evict(place, pod["metadata"]["name"])
    most = 0

    def elsewhere() -> bool:
        nonlocal most
        found = pods(place.api, MEDIA, labelSelector=f"{LABEL_POOL}=moved")
        most = max(most, len(found))
        return len(found) == 6 and all(pod["spec"].get("nodeName") not in (drained, None) for pod in found)

    wait_until(elsewhere, 60, "six on the other node", lambda: status(place.api, "moved"))
    place.api.patch(f"/api/v1/nodes/{drained}", {"spec": {"unschedulable": None}})
    assert most == 6


def evict(place: Backend, name: str) -> None:
    """Ask for a pod's eviction, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": MEDIA}}
    place.api.request("POST", f"/api/v1/namespaces/{MEDIA}/pods/{name}/eviction", eviction)


def test_a_leader_that_is_killed_leaves_no_gap_and_makes_nothing_twice(
    place: Backend, identity: access.Access, broker: NatsServer, controller: DemandController, queue: Queue
) -> None:
    subject = made(place, pool("steady", limits={"maxContainers": 10}))
    with DemandController(place, identity, broker, "demand-standby") as standby:
        queue.publish(subject, 60)
        wait_until(lambda: of_pool(place, "steady"), 20, "a first container", lambda: status(place.api, "steady"))
        controller.program.kill()
        killed = time.monotonic()
        wait_until(lambda: standby.metric("demand_leader") == 1, 40, "the standby to lead")
        wait_until(lambda: len(of_pool(place, "steady")) == 10, 30, "the rest", lambda: status(place.api, "steady"))
        gap = time.monotonic() - killed
        assert gap <= LEASE_SECONDS + 3, f"decisions were missing for {gap:.1f} s"
        time.sleep(3)
        assert len(of_pool(place, "steady")) == 10, "and not one more"
        controller.start()
    queue.drain(subject)


def test_the_controller_used_the_rights_that_the_chart_gives_it_and_was_refused_none(
    place: Backend, identity: access.Access, tmp_path: Path
) -> None:
    """Judges all tests before it, by the audit log."""
    asked = place.audit_entries(user=identity.user)
    granted = rbac.granted(rights(tmp_path / "chart"))
    assert rbac.refused(granted, asked) == set()
    unused = {(right.verb, right.resource) for right in granted - rbac.used(granted, asked)}
    # A watch is in the log when it ends; an Event that is said again is patched; a list may be part of its watch.
    assert {right for right in unused if right[0] not in ("watch", "list")} <= {("patch", "events")}
