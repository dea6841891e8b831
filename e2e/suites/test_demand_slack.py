"""A pool's second burst finds its nodes there: the real autoscaler, scheduler, broker, operator and demand controller.

What is told of the pool after its first burst (`status.demand.slackPods`) is kept room for by placeholders, and these
bring and hold the nodes. The same bursts of a pool that tells nothing say what that is worth. With the stock Cluster
Autoscaler (CLUSTER_AUTOSCALER) also through a CapacityBuffer that points at the pool, without placeholders; its CRD
comes with the autoscaler's sources (CAPACITY_BUFFER_CRD=path).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.brokers.servers import NatsServer
from e2e.harness.cluster import access
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import nodes, pods, wait_until
from e2e.harness.pod_times import PodClock
from e2e.harness.product.demand import MEDIA, DemandController, install, pool, status
from e2e.harness.product.operator import Operator, held, placeholders, policy
from e2e.harness.product.operator import status as policy_status
from e2e.suites.test_demand_pools import Queue, made
from slack.cluster.hold import Hold
from slack.cluster.labels import LABEL_POOL

BURST, BOOT_SECONDS = 12, 6
LATE_SECONDS = 2.0
BUFFER_CRD = "CAPACITY_BUFFER_CRD"
Machines = Callable[[Backend], AbstractContextManager[None]]


@contextmanager
def karpenter(cluster: Backend) -> Iterator[None]:
    with Karpenter(cluster) as running:
        running.add_pool("default", boot_seconds=BOOT_SECONDS)
        yield


@contextmanager
def stock(cluster: Backend, *flags: str) -> Iterator[None]:
    with ClusterAutoscaler(cluster, [NodeGroup("general", boot_seconds=BOOT_SECONDS)], flags):
        yield


@pytest.fixture(params=[karpenter, pytest.param(stock, marks=pytest.mark.autoscaler)])
def machines(request: pytest.FixtureRequest) -> Machines:
    if request.param is stock:
        request.getfixturevalue("cluster_autoscaler_binary")
    found: Machines = request.param
    return found


@dataclass(frozen=True)
class Demand:
    """The controller, beside its broker."""

    cluster: Backend
    queue: Queue


@pytest.fixture
def demand(cluster: Backend, tmp_path: Path) -> Iterator[Demand]:
    if why := NatsServer.missing():
        pytest.skip(why)
    identity: access.Access = install(cluster)
    with NatsServer(tmp_path / "nats") as server, DemandController(cluster, identity, server):
        yield Demand(cluster, Queue(server.url))


def thumbnail(**spec: Json) -> Json:
    """A pool of containers of a core: three fit on a node."""
    manifest = pool("thumbnail")
    manifest["spec"] |= {"limits": {"maxContainers": BURST}, **spec}
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    return manifest


def living(api: Api) -> list[Json]:
    """The pool's pods that are not on their way out."""
    return [pod for pod in pods(api, MEDIA, labelSelector=f"{LABEL_POOL}=thumbnail") if not _leaves(pod)]


def _leaves(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def burst(demand: Demand, subject: str, left: int = 0) -> list[float]:
    """Let a burst come and be drained; return the seconds that each container waited for its node, sorted."""
    api = demand.cluster.api
    with PodClock(api, MEDIA) as clock:
        began = time.monotonic()
        demand.queue.publish(subject, 3 * BURST)

        def waited() -> list[float]:
            new = [entry.bind_seconds for entry in clock.times() if entry.created >= began]
            return sorted(seconds for seconds in new if seconds is not None)

        wait_until(
            lambda: len(waited()) >= BURST - left, 180, "the burst's containers", lambda: status(api, "thumbnail")
        )
        wait_until(
            lambda: status(api, "thumbnail")["containers"]["ready"] == BURST,
            60,
            "all to be ready",
            lambda: status(api, "thumbnail"),
        )
        found = waited()
    demand.queue.drain(subject)
    wait_until(lambda: len(living(api)) == left, 120, "idle containers to end", lambda: status(api, "thumbnail"))
    return found


def late(seconds: Sequence[float]) -> int:
    return sum(one > LATE_SECONDS for one in seconds)


def bursts_of(demand: Demand, machines: Machines, hold: Hold, *, told: bool) -> tuple[int, int]:
    """Let two bursts come, the second once all is still after the first; return how many of each were late."""
    cluster, api = demand.cluster, demand.cluster.api
    with machines(cluster), Operator(cluster) as operator:
        operator.wait_until_ready()
        spec = {"extraCapacity": {"minRate": 0}, "cover": {"mode": "None"}, "stabilization": {"shrinkDelay": "5s"}}
        api.create(policy("default", hold=hold, **spec))
        subject = made(cluster, thumbnail(demand={"publish": told, "horizon": "20s", "window": "10m"}))
        first = late(burst(demand, subject))
        if told:

            def whole() -> bool:  # it has grown from the first container it had
                return len(held(api, hold)) >= BURST - 1 and policy_status(api, "default")["pending"] == 0

            wait_until(
                whole,
                90,
                "room for as many",
                lambda: (status(api, "thumbnail").get("demand"), policy_status(api, "default")),
            )
        else:
            wait_until(lambda: not nodes(api), 150, "all nodes to be gone")
        return first, late(burst(demand, subject))


@pytest.mark.timeout(900)
def test_a_burst_after_a_learned_one_finds_its_nodes(demand: Demand, machines: Machines, hold: Hold) -> None:
    first, second = bursts_of(demand, machines, hold, told=True)
    print(f"\nof {BURST} containers late: {first} in the first burst, {second} in the second, which was told of")
    assert first >= BURST / 2, "nothing was known of it, and nodes take their time"
    assert second == 0


@pytest.mark.autoscaler
@pytest.mark.timeout(900)
def test_without_being_told_the_second_burst_is_late_as_well(demand: Demand, cluster_autoscaler_binary: Path) -> None:
    first, second = bursts_of(demand, stock, Hold.AUTO, told=False)
    print(f"\nof {BURST} containers late: {first} in the first burst, {second} in the second, told of none")
    assert not placeholders(demand.cluster.api)
    assert second >= BURST / 4, "those that come after the first node find room on it and on the next"


@pytest.mark.autoscaler
@pytest.mark.timeout(900)
def test_a_capacity_buffer_that_points_at_the_pool_keeps_its_nodes(
    demand: Demand, cluster_autoscaler_binary: Path
) -> None:
    cluster, api = demand.cluster, demand.cluster.api
    if not (crd := os.environ.get(BUFFER_CRD)):
        pytest.skip(f"set {BUFFER_CRD} to the CRD of CapacityBuffers, autoscaling.x-k8s.io_capacitybuffers.yaml")
    api.apply(yaml.safe_load(Path(crd).read_text(encoding="utf-8")))
    flags = ("--capacity-buffer-controller-enabled=true", "--capacity-buffer-pod-injection-enabled=true")
    with stock(cluster, *flags):
        limits = {"maxContainers": BURST, "minContainers": 1}
        manifest = thumbnail(demand={"publish": False})
        manifest["spec"]["limits"] = limits
        subject = made(cluster, manifest)
        wait_until(lambda: living(api), 30, "the one that is always there")
        buffer = {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "thumbnail", "namespace": MEDIA},
            "spec": {
                "scalableRef": {"apiGroup": "resource-slack.io", "kind": "ActivationPool", "name": "thumbnail"},
                "replicas": BURST - 1,
            },
        }
        api.create(buffer)
        wait_until(lambda: len(nodes(api)) >= BURST / 3, 120, "nodes for the buffer", lambda: buffers(api))
        time.sleep(BOOT_SECONDS)
        seconds = burst(demand, subject, left=1)
        print(f"\nof {BURST - 1} containers late with a CapacityBuffer: {late(seconds)}")
        assert late(seconds) == 0


def buffers(api: Api) -> list[Json]:
    """What the autoscaler says of the buffers."""
    found: list[Json] = [
        item.get("status", {})
        for item in api.items(f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{MEDIA}/capacitybuffers")
    ]
    return found
