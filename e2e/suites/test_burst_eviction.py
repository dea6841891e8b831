"""A burst finds its room already there: the operator lets placeholders go before the scheduler has to preempt them.

The scheduler is stock here, with asynchronous preemption. What is judged are counts: who deleted which placeholder, by
the audit log, and that afterwards as many are asked for as before and nobody else's pod was touched.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.api import Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import InstanceType, Karpenter
from e2e.harness.cluster import audit_log
from e2e.harness.cluster.api_proxy import ApiProxy, Asked, Match
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import create_all, nodes, pod, pods, scale, wait_for_running, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.full_machines import FullMachines, burst
from e2e.harness.product.operator import (
    NAMESPACE,
    USER,
    Operator,
    install,
    placeholders,
    policy,
    replica_sets,
    wait_until_placed,
)
from slack.cluster.quantity import cpu_millis

PLACED_SECONDS, BOUND_SECONDS, WHOLE_SECONDS = 120.0, 120.0, 60.0
SMALL = FullMachines(count=3, room=36)
PODS = 24
"""Of a burst into `SMALL`."""


@pytest.fixture(scope="module", autouse=True)
def _stock_scheduler(backend: Backend) -> Iterator[None]:
    backend.restart_scheduler(gates={})
    yield
    backend.restart_scheduler()


@dataclass(frozen=True)
class Before:
    """What was there before a burst."""

    cluster: Backend
    mark: int
    uids: dict[str, str]
    """Of placeholders, by name."""
    wanted: int
    """By all ReplicaSets together."""

    def deleted(self) -> dict[str, str]:
        """Who deleted which of them since; what was made anew meanwhile and taken away again held no room."""
        gone = burst_log.read(self.cluster.audit_entries(since=self.mark)).deleted
        return {name: user for name, user in gone.items() if name in self.uids}

    def begun(self) -> bool:
        """Whether the operator has deleted one."""
        return USER in self.deleted().values()

    def assert_nothing_lost(self) -> None:
        """As many are asked for and there as before, each of a template that is whole; only what left has left."""
        api = self.cluster.api

        def whole() -> bool:
            return wanted(self.cluster) == self.wanted and len(placeholders(api)) == self.wanted

        def state() -> object:
            now = placeholders(api)
            asked = [(s["spec"]["replicas"], s["status"], s["spec"]["template"]["spec"]) for s in replica_sets(api)]
            return self.wanted, len(now), sum(bool(pod["spec"].get("nodeName")) for pod in now), asked

        wait_until(whole, WHOLE_SECONDS, "as many placeholders as before", state, every=0.5)
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(api)}
        left = self.deleted()
        assert {name: uid for name, uid in self.uids.items() if name not in left}.items() <= now.items()


def wanted(cluster: Backend) -> int:
    return sum(found["spec"]["replicas"] for found in replica_sets(cluster.api))


def before(cluster: Backend) -> Before:
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(cluster.api)}
    return Before(cluster, cluster.audit_mark(), uids, wanted(cluster))


def place(cluster: Backend, machines: FullMachines, name: str = "default", **spec: object) -> None:
    """Let placeholders hold the room; bound ones, as no unbound one has to make way."""
    cluster.api.create(policy(name, **machines.spec(hold="Bound", **spec)))
    wait_until_placed(cluster.api, name, PLACED_SECONDS)


def full(cluster: Backend, machines: FullMachines) -> None:
    machines.create(cluster.api)
    machines.fill(cluster.api)


def wait_until_bound(cluster: Backend, count: int, app: str = "burst") -> None:
    def found() -> list[Json]:
        return pods(cluster.api, "default", labelSelector=f"app={app}")

    def all_bound() -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in found()) == count

    def state() -> object:
        told = Counter(
            json.dumps(pod["status"].get("conditions")) for pod in found() if not pod["spec"].get("nodeName")
        )
        sets = [(own["spec"]["replicas"], own["status"]) for own in replica_sets(cluster.api)]
        there = placeholders(cluster.api)
        return len(found()), told, sets, len(there), sum("nodeName" in pod["spec"] for pod in there)

    wait_until(all_bound, BOUND_SECONDS, f"{count} pods of {app} to be bound", state, every=0.3)


@contextmanager
def head_start(cluster: Backend, until: Callable[[], object]) -> Iterator[None]:
    """Let the scheduler stand still from here, after the block as well until something is so.

    On a busy machine it may help itself before the operator comes, and nothing would be seen of what is to be tested.
    """
    with cluster.stands_still("kube-scheduler") if isinstance(cluster, ControlPlane) else nullcontext():
        yield
        wait_until(until, WHOLE_SECONDS, "the operator to begin to make way")


def is_delete(asked: Asked) -> bool:
    return asked.method == "DELETE" and f"/namespaces/{NAMESPACE}/pods/" in asked.path


def is_set_write(asked: Asked) -> bool:
    return asked.method in {"PATCH", "PUT"} and f"/namespaces/{NAMESPACE}/replicasets/" in asked.path


@pytest.fixture
def proxy(cluster: Backend) -> Iterator[ApiProxy]:
    if not isinstance(cluster, ControlPlane):
        pytest.skip("the proxy's certificate takes the authority of the local control plane")
    with ApiProxy.before(cluster) as found:
        yield found


@pytest.mark.core
def test_a_burst_of_a_hundred_gets_room_that_the_operator_chose_and_no_other_leaves(cluster: Backend) -> None:
    """The suite's main job: a Deployment asks for a hundred pods more; their room leaves, and no other."""
    full(cluster, FullMachines(count=10, room=125))
    cluster.api.create(burst())
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, FullMachines(count=10, room=125))
        seen = before(cluster)
        assert len(seen.uids) == 125
        with head_start(cluster, seen.begun):
            scale(cluster.api, "burst", 100)
        wait_until_bound(cluster, 100)
        seen.assert_nothing_lost()
        preempted, made_way, by_controller = burst_log.by_whom(seen.deleted())
        print(f"\nof 100: {made_way} made way, {preempted} preempted, {by_controller} by their ReplicaSet")
        assert made_way > 0, "how many depends on the machine: python -m benchmarks.bursts"
        assert by_controller == 0, "which ones go is the operator's choice, and not the ReplicaSet's"
        assert preempted + made_way >= 100


def _leave_no_free_room(cluster: Backend) -> None:
    """An autoscaler may have brought more machines than the placeholders need; the burst is to find theirs only."""
    bound = [item for item in pods(cluster.api) if item["spec"].get("nodeName")]
    for machine in nodes(cluster.api):
        name = machine["metadata"]["name"]
        requests = [
            cpu_millis(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
            for item in bound
            if item["spec"]["nodeName"] == name
            for container in item["spec"]["containers"]
        ]
        free = cpu_millis(machine["status"]["allocatable"]["cpu"]) - sum(requests)
        if free > 0:
            cluster.api.create(pod(f"filler-{name}", cpu=f"{free}m", memory="64Mi", nodeName=name))


def _beside_an_autoscaler(cluster: Backend) -> None:
    """Machines are there for slack alone; a hundred pods start on these, and what made way gets new ones."""
    api = cluster.api
    api.create(burst())
    api.create(burst("base", 1))  # without any node a policy has nothing to measure a placeholder by
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        wait_for_running(api, 1, 60, labelSelector="app=base")
        place(cluster, FullMachines(count=8, room=120))
        machines = {node["metadata"]["name"] for node in nodes(api)}
        _leave_no_free_room(cluster)
        seen = before(cluster)
        with head_start(cluster, seen.begun):
            scale(api, "burst", 100)
        wait_until_bound(cluster, 100)
        used = {pod["spec"]["nodeName"] for pod in pods(api, "default", labelSelector="app=burst")}
        assert used <= machines, "the burst starts on machines that were there"
        seen.assert_nothing_lost()
        wait_until_placed(api, "default", PLACED_SECONDS)
        preempted, made_way, by_controller = burst_log.by_whom(seen.deleted())
        print(f"\nof 100: {made_way} made way, {preempted} preempted, {by_controller} by their ReplicaSet")
        assert made_way > 0


@pytest.mark.autoscaler
def test_a_burst_of_a_hundred_starts_in_slack_beside_karpenter(cluster: Backend) -> None:
    with Karpenter(cluster, [InstanceType("e2e-8x-amd64-linux", "8100m", "32778Mi", 0.4)]) as karpenter:
        karpenter.add_pool("default")
        _beside_an_autoscaler(cluster)


@pytest.mark.autoscaler
def test_a_burst_of_a_hundred_starts_in_slack_beside_the_stock_autoscaler(
    cluster: Backend, cluster_autoscaler_binary: Path
) -> None:
    with ClusterAutoscaler(cluster, [NodeGroup("general", cpu="8", memory="32Gi", max_count=30, boot_seconds=2)]):
        _beside_an_autoscaler(cluster)


def test_pods_without_an_owner_that_counts_them_are_made_way_for_as_they_come(cluster: Backend) -> None:
    full(cluster, SMALL)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        template = burst()["spec"]["template"]
        bare = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**template["metadata"], "name": f"bare-{number}", "namespace": "default"},
                "spec": template["spec"],
            }
            for number in range(PODS)
        ]
        with head_start(cluster, seen.begun):
            create_all(cluster.api, bare)
        wait_until_bound(cluster, PODS)
        seen.assert_nothing_lost()
        preempted, made_way, by_controller = burst_log.by_whom(seen.deleted())
        print(f"\nof {PODS}: {made_way} made way, {preempted} preempted, {by_controller} by their ReplicaSet")
        assert made_way > 0
        assert by_controller == 0


def _after_deletes(proxy: ApiProxy) -> Match:
    return lambda asked: is_set_write(asked) and bool(proxy.asked(is_delete))


RAISING = "before raising"
STEPS: dict[str, tuple[Callable[[ApiProxy], Match], int]] = {
    "room asked": (lambda _: is_set_write, 0),
    "nothing deleted": (lambda _: is_delete, 0),
    "half deleted": (lambda _: is_delete, PODS // 2),
    "before lowering": (_after_deletes, 0),
    RAISING: (_after_deletes, 1),
}
"""The first request that does not get through, and how many like it do."""


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=pytest.mark.core) if step == "half deleted" else step for step in STEPS]
)
def test_a_kill_at_each_step_leaves_right_counts(cluster: Backend, proxy: ApiProxy, step: str) -> None:
    full(cluster, SMALL)
    cluster.api.create(burst())
    with Operator(cluster, identity=proxy.access(install(cluster))) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        match, passing = STEPS[step]
        hold = proxy.hold(match(proxy), after=passing)
        # It raises again when the scheduler has bound what the room was lent to. Until then it may be in several parts:
        # on a busy machine it sees some of the pods before the count that they come from.
        by_then = (lambda: proxy.asked(_after_deletes(proxy))) if step == RAISING else (lambda: hold.reached)
        with head_start(cluster, by_then):
            scale(cluster.api, "burst", PODS)
        hold.wait_until_reached(WHOLE_SECONDS)
        operator.kill()
        hold.drop()
        operator.start()
        operator.wait_until_ready()
        wait_until_bound(cluster, PODS)
        seen.assert_nothing_lost()


@pytest.mark.parametrize(
    ("match", "code", "times"),
    [(is_delete, 429, 10), (is_delete, 500, 10), (is_set_write, 503, 3), (is_set_write, 429, 3)],
    ids=["429 on deletes", "500 on deletes", "503 on ReplicaSets", "429 on ReplicaSets"],
)
def test_what_a_server_refuses_meanwhile_is_left_to_the_scheduler(
    cluster: Backend, proxy: ApiProxy, match: Match, code: int, times: int
) -> None:
    full(cluster, SMALL)
    cluster.api.create(burst())
    with Operator(cluster, identity=proxy.access(install(cluster))) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        with proxy.refusing(match, code, times):
            with head_start(cluster, lambda: proxy.asked(match)):
                scale(cluster.api, "burst", PODS)
            wait_until_bound(cluster, PODS)
        seen.assert_nothing_lost()
        assert operator.program.running


def test_two_bursts_at_once_in_two_policies_take_each_its_own_room(cluster: Backend) -> None:
    names = ("red", "blue")
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        for name in names:
            machines = FullMachines(count=4, room=40, name=name, labels={"pool": name})
            full(cluster, machines)
            cluster.api.create(burst(name, nodeSelector={"pool": name}))
            place(cluster, machines, name, nodeSelector={"pool": name})
        seen = before(cluster)
        assert len(seen.uids) == 80
        with head_start(cluster, seen.begun):
            for name in names:
                scale(cluster.api, name, 30)
        for name in names:
            wait_until_bound(cluster, 30, name)
        seen.assert_nothing_lost()
        preempted, made_way, by_controller = burst_log.by_whom(seen.deleted())
        print(f"\nof 60: {made_way} made way, {preempted} preempted, {by_controller} by their ReplicaSet")
        assert made_way > 0
        assert by_controller == 0


@pytest.mark.parametrize(
    "spec",
    [{"nodeSelector": {"no": "where"}}, {"schedulerName": "another"}, {"schedulingGates": [{"name": "a.test/wait"}]}],
    ids=["no node", "another scheduler", "gated"],
)
def test_nothing_leaves_for_a_burst_that_would_not_fit_or_does_not_ask(cluster: Backend, spec: Json) -> None:
    full(cluster, SMALL)
    cluster.api.create(burst(**spec))
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        scale(cluster.api, "burst", PODS)
        wait_until(lambda: len(pods(cluster.api, "default", labelSelector="app=burst")) == PODS, 60, "the burst")
        time.sleep(5)
        assert seen.deleted() == {}
        seen.assert_nothing_lost()


def _paused(api_object: Json) -> Json:
    return {**api_object, "spec": {**api_object["spec"], "paused": True, "replicas": PODS}}


def test_nothing_leaves_for_a_deployment_that_is_paused_before_its_first_pod(cluster: Backend) -> None:
    full(cluster, SMALL)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        cluster.api.create(_paused(burst("paused")))
        time.sleep(8)
        assert not pods(cluster.api, "default", labelSelector="app=paused")
        seen.assert_nothing_lost()
        assert seen.deleted() == {}


def test_nothing_leaves_for_pods_that_a_quota_will_refuse(cluster: Backend) -> None:
    full(cluster, SMALL)
    api = cluster.api
    path = "/api/v1/namespaces/default/resourcequotas/none"
    hard = {"count/pods": str(len(pods(api, "default")))}
    api.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": "default"},
            "spec": {"hard": hard},
        }
    )
    try:
        wait_until(lambda: api.get(path)["status"].get("used") == hard, 60, "all pods to be counted")
        with Operator(cluster) as operator:
            operator.wait_until_ready()
            place(cluster, SMALL)
            seen = before(cluster)
            api.create(burst("refused", PODS))
            time.sleep(8)
            assert not pods(api, "default", labelSelector="app=refused")
            seen.assert_nothing_lost()
            assert seen.deleted() == {}
    finally:
        api.delete(path)


def test_room_for_pods_that_never_come_is_taken_back(cluster: Backend) -> None:
    """Nothing tells beforehand that admission refuses them: their service account is not there."""
    full(cluster, SMALL)
    cluster.api.create(burst(serviceAccountName="missing"))
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL)
        seen = before(cluster)
        scale(cluster.api, "burst", PODS)
        time.sleep(3)
        seen.assert_nothing_lost()
        wait_until(lambda: len(placeholders(cluster.api, bound=True)) == seen.wanted, 60, "the room to be held again")
        assert not pods(cluster.api, "default", labelSelector="app=burst")
        writes = cluster.audit_entries(user=USER, verbs=audit_log.WRITES, since=seen.mark)
        print("\nwrites:", [(entry.time[17:23], entry.verb, entry.resource) for entry in writes][:8], "...")
        time.sleep(10)
        again = before(cluster)
        time.sleep(5)
        assert again.deleted() == {}, "it is not tried again and again"


def test_a_policy_that_makes_no_way_leaves_it_to_the_scheduler(cluster: Backend) -> None:
    full(cluster, SMALL)
    cluster.api.create(burst())
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, SMALL, makeWay=False)
        seen = before(cluster)
        scale(cluster.api, "burst", 8)
        wait_until_bound(cluster, 8)
        seen.assert_nothing_lost()
        assert set(seen.deleted().values()) == {burst_log.SCHEDULER}


def test_a_standby_makes_no_way_and_one_that_takes_over_does(cluster: Backend) -> None:
    full(cluster, SMALL)
    cluster.api.create(burst())
    with ExitStack() as stack:
        leader = stack.enter_context(Operator(cluster, name="leader"))
        leader.wait_until_ready()
        place(cluster, SMALL)
        standby = stack.enter_context(Operator(cluster, name="standby"))
        standby.wait_until_ready()
        seen = before(cluster)
        leader.stop()
        wait_until(lambda: standby.metric("slack_leader") == 1, 60, "the standby to lead")
        time.sleep(3)  # its first plan
        with head_start(cluster, seen.begun):
            scale(cluster.api, "burst", PODS)
        wait_until_bound(cluster, PODS)
        seen.assert_nothing_lost()
        preempted, made_way, _ = burst_log.by_whom(seen.deleted())
        print(f"\nof {PODS}: {made_way} made way, {preempted} preempted")
        assert made_way > 0
