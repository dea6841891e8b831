"""A burst of real containers on a real kubelet, with room kept and without; and placeholders that bring a real worker.

kind's second worker is the node that an autoscaler would add: it is down, and a script starts it (a container whose
systemd and kubelet boot) once a pod finds no room. Printed are the seconds from a pod's creation to Running.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.harness.api import Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.objects import condition, deployment, pods, scale, wait_for_running, wait_until
from e2e.harness.pod_times import PodClock, percentile
from e2e.harness.product.operator import Operator, placeholders, policy, wait_until_placed
from e2e.kind import workers

BURST, POD_MILLIS = 30, 20
BASE = 6
"""Pods that run all the time; the policy keeps five times as much as they request, which is a burst."""
FIVE_TIMES: Json = {"minRate": BURST / BASE, "ceiling": {"cpu": "1", "memory": "1Gi"}}
SLACK: Json = {"hold": "Bound", "extraCapacity": FIVE_TIMES, "cover": {"mode": "None"}}
"""Bound: no autoscaler that is recognised keeps the worker, and placeholders are to make way on it."""
SCAN_SECONDS = 2.0
pytestmark = pytest.mark.timeout(1500)


class Machine:
    """The second worker: a container that runs or does not."""

    def __init__(self, cluster: Kind) -> None:
        self._cluster = cluster
        _, self.name = workers.names(cluster)

    def start(self) -> None:
        """Let it boot."""
        self._cluster.docker.run("start", self.name)

    def stop(self) -> None:
        """Take it away, its Node with it."""
        self._cluster.docker.run("stop", "--time=5", self.name, seconds=60.0)
        self._cluster.api.delete(f"/api/v1/nodes/{self.name}")
        for namespace in ("default", "resource-slack"):
            for pod in pods(self._cluster.api, namespace):
                if pod["spec"].get("nodeName") == self.name:
                    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
                    self._cluster.api.delete(path, grace_seconds=0)

    @property
    def ready(self) -> bool:
        """Whether its kubelet says so."""
        return workers.ready(self._cluster.api, self.name)


@contextmanager
def autoscaler(cluster: Kind, machine: Machine) -> Iterator[None]:
    """Start the machine once a pod has no room, looking as often as a quick autoscaler does."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(SCAN_SECONDS):
            waiting = [*pods(cluster.api, "default"), *pods(cluster.api, "resource-slack")]
            if any(condition(pod, "PodScheduled") == "False" for pod in waiting):
                machine.start()
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def free_millis(cluster: Kind, node: str) -> int:
    """Return what a node has left of its CPU."""
    found = cluster.api.get(f"/api/v1/nodes/{node}")
    used = 0
    for pod in cluster.api.items("/api/v1/pods"):
        if pod["spec"].get("nodeName") == node:
            for container in pod["spec"]["containers"]:
                asked = container.get("resources", {}).get("requests", {}).get("cpu", "0")
                used += int(asked[:-1]) if asked.endswith("m") else 1000 * int(asked)
    return 1000 * int(found["status"]["allocatable"]["cpu"]) - used


def fill(cluster: Kind, node: str, left_millis: int = 0) -> None:
    """Take what a node has left, but for so much, by a pod that nothing displaces."""
    name = f"filler-{node.rpartition('-')[2]}"
    millis = free_millis(cluster, node) - left_millis
    selector = {"kubernetes.io/hostname": node}
    cluster.api.create(deployment(name, 1, cpu=f"{millis}m", memory="16Mi", nodeSelector=selector))
    wait_for_running(cluster.api, 1, 60, labelSelector=f"app={name}")


def burst(cluster: Kind) -> list[float]:
    """Ask for a burst, and return the seconds from each pod's creation to Running, sorted; it is gone then."""
    api = cluster.api
    with PodClock(api, "default") as clock:
        scale(api, "burst", BURST)

        def started() -> list[float]:
            seconds = [entry.start_seconds for entry in clock.times(app="burst")]
            return sorted(one for one in seconds if one is not None)

        wait_until(lambda: len(started()) >= BURST, 240, "the burst to run", state=lambda: len(started()))
        found = started()
    scale(api, "burst", 0)
    wait_until(lambda: not pods(api, "default", labelSelector="app=burst"), 120, "the burst to be gone")
    return found


@pytest.fixture(scope="module")
def machine(cluster: Kind) -> Machine:
    """The second worker, which is off; the first is full, and a burst finds no room there."""
    api, machine = cluster.api, Machine(cluster)
    machine.stop()
    api.create(deployment("base", BASE, cpu=f"{POD_MILLIS}m", memory="16Mi"))
    wait_for_running(api, BASE, 120, labelSelector="app=base")
    fill(cluster, workers.names(cluster)[0])
    api.create(deployment("burst", 0, cpu=f"{POD_MILLIS}m", memory="16Mi"))
    return machine


def there(cluster: Kind, machine: Machine) -> set[str]:
    """The placeholders that hold room on the second worker, by uid."""
    found = placeholders(cluster.api, bound=True)
    return {pod["metadata"]["uid"] for pod in found if pod["spec"]["nodeName"] == machine.name}


def test_a_burst_of_containers_with_and_without_room_kept(cluster: Kind, machine: Machine) -> None:
    api = cluster.api
    print(f"\nthe cluster of three nodes: {cluster.seconds_to_create:.0f} s")
    with Operator(cluster) as operator, autoscaler(cluster, machine):
        operator.wait_until_ready()
        began = time.monotonic()
        api.create(policy("default", **SLACK, stabilization={"shrinkDelay": "60m"}))
        wait_until(lambda: machine.ready, 180, "placeholders to bring a worker", state=lambda: placeholders(api))
        print(f"placeholders brought a real worker, ready {time.monotonic() - began:.1f} s after the policy")
        wait_until_placed(api, "default", 120)
        print(f"and stand there {time.monotonic() - began:.1f} s after it")
        fill(cluster, machine.name, left_millis=POD_MILLIS - 1)
        with_room = burst(cluster)
        assert operator.metric("slack_made_way_total", policy="default") > 0, "the burst's room was held"
        api.delete("/apis/resource-slack.io/v1alpha1/slackpolicies/default")
        wait_until(lambda: not placeholders(api), 60, "placeholders to be gone")
    api.delete("/apis/apps/v1/namespaces/default/deployments/filler-worker2")
    wait_until(lambda: not pods(api, "default", labelSelector="app=filler-worker2"), 60, "the filler to be gone")

    machine.stop()
    with autoscaler(cluster, machine):
        without = burst(cluster)
    for words, seconds in (("with room kept", with_room), ("without, a worker boots", without)):
        p50, p99 = percentile(seconds, 50), percentile(seconds, 99)
        print(f"{BURST} containers from creation to Running, {words}: p50 {p50:.1f} s, p99 {p99:.1f} s")
    assert percentile(with_room, 50) < percentile(without, 50)


def test_a_worker_that_is_killed_in_a_burst_has_its_placeholders_again_and_the_operator_goes_on(
    cluster: Kind, machine: Machine
) -> None:
    api = cluster.api
    if not machine.ready:
        machine.start()
        wait_until(lambda: machine.ready, 180, "the worker")

    def on_machine() -> list[str]:
        found = pods(api, "default", labelSelector="app=burst")
        return [pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName") == machine.name]

    with Operator(cluster, name="operator-killed") as operator:
        operator.wait_until_ready()
        api.create(policy("default", **SLACK))
        wait_until_placed(api, "default", 120)
        before = there(cluster, machine)
        assert before, "slack is where there is room"
        scale(api, "burst", BURST)
        wait_until(lambda: len(on_machine()) >= BURST // 2, 60, "half of the burst to be there", state=on_machine)
        left = there(cluster, machine)
        cluster.docker.run("kill", machine.name)
        wait_until(lambda: not machine.ready, 120, "the control plane to see it")
        assert operator.get("/readyz")[0] == 200
        machine.start()
        wait_until(lambda: machine.ready, 180, "the worker again")
        wait_for_running(api, BURST, 180, labelSelector="app=burst")
        scale(api, "burst", 0)
        wait_until_placed(api, "default", 180)
        after = there(cluster, machine)
        print(
            f"\nplaceholders on the worker: {len(before)}, {len(left)} when it was killed in the burst, "
            f"{len(after)} in the end, {len(before & after)} of them the same pods"
        )
        assert after, "there is room again, and it is kept"
        assert operator.get("/healthz")[0] == 200
        api.delete("/apis/resource-slack.io/v1alpha1/slackpolicies/default")
