"""Nodes that unbound placeholders let go: drifted, about to expire, or no longer needed after a shrink.

Where both ways to release a node are used, each test runs with both. The operator has the rights of one of them only.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import NODEPOOLS, Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import condition, nodes, pod, pods, wait_until
from e2e.harness.product.helm import Helm
from e2e.harness.product.operator import (
    NAMESPACE,
    Operator,
    install,
    placeholders,
    policy,
    status,
    wait_until_placed,
)
from slack.cluster.hold import ReleaseNodes
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.quantity import cpu_millis

NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
TAINTS = {"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/unschedulable"}
BATCHES = ["--batch-idle-duration=1s", "--batch-max-duration=10s"]
"""Karpenter's defaults: it holds a node for a pod that fits there for twice the longer one."""
FLOOR = {"cpu": "5", "memory": "5Gi"}


@pytest.fixture(params=[ReleaseNodes.LABEL, ReleaseNodes.MARKER_POD], ids=["label", "marker"])
def operator(request: pytest.FixtureRequest, cluster: Backend, tmp_path: Path) -> Iterator[Operator]:
    """An operator that releases nodes by one of the two ways, with the rights that the chart grants for it."""
    way = ReleaseNodes(request.param)
    manifests = Helm(tmp_path).template(f"--set=operator.releaseNodes={way}")
    with Operator(cluster, f"--release-nodes={way}", identity=install(cluster, manifests)) as operator:
        yield operator


def released(api: Api) -> set[str]:
    """Return the nodes that are released, by their label or by a marker pod."""
    labelled = {node["metadata"]["name"] for node in nodes(api) if LABEL_RELEASE in node["metadata"]["labels"]}
    return labelled | marked(api)


def marked(api: Api) -> set[str]:
    """Return the nodes with a marker pod."""
    return {each["spec"]["nodeName"] for each in pods(api, NAMESPACE) if LABEL_RELEASE in each["metadata"]["labels"]}


def held(api: Api, **floor: str) -> Json:
    """Return a policy that holds a fixed amount, unbound."""
    return policy(
        "default",
        hold="Unbound",
        extraCapacity={"minRate": 0.1, "floor": {**FLOOR, **floor}},
        stabilization={"shrinkDelay": "2s"},
    )


def free_cpu_millis(api: Api) -> int:
    """Return the CPU that is free on nodes that take pods."""
    there = [
        node
        for node in nodes(api)
        if condition(node, "Ready") == "True" and not TAINTS & {t["key"] for t in node["spec"].get("taints", [])}
    ]
    names = {node["metadata"]["name"] for node in there}
    total = sum(cpu_millis(node["status"]["allocatable"]["cpu"]) for node in there)
    taken = sum(
        cpu_millis(container["resources"]["requests"]["cpu"])
        for each in pods(api)
        if each["spec"].get("nodeName") in names
        for container in each["spec"]["containers"]
    )
    return total - taken


def wanted_cpu_millis(api: Api) -> int:
    """Return the CPU that placeholders request."""
    return sum(
        cpu_millis(container["resources"]["requests"]["cpu"])
        for each in placeholders(api)
        for container in each["spec"]["containers"]
    )


@contextmanager
def watched(api: Api) -> Iterator[list[int]]:
    """Sample the free CPU while the body runs."""
    seen: list[int] = []
    done = threading.Event()

    def run() -> None:
        while not done.wait(0.25):
            try:
                seen.append(free_cpu_millis(api))
            except ApiError:  # a node has gone between two requests
                continue

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def claim_states(api: Api) -> list[object]:
    """Return what there is, for a failure's text."""
    return [
        sorted(names_of(api)),
        sorted(released(api)),
        [
            (claim["status"].get("nodeName"), condition(claim, "Drifted"), claim["metadata"].get("deletionTimestamp"))
            for claim in api.items(NODE_CLAIMS)
        ],
        status(api, "default").get("conditions"),
    ]


def nominated(api: Api) -> set[str]:
    """Return the nodes that Karpenter has named to placeholders: it does so from the pass after they are ready on."""
    events = api.items("/api/v1/namespaces/resource-slack/events", fieldSelector="reason=Nominated")
    return {name for name in names_of(api) if any(f"node/{name}" in event["message"] for event in events)}


def names_of(api: Api) -> set[str]:
    return {node["metadata"]["name"] for node in nodes(api)}


def ready(api: Api) -> set[str]:
    """Return the nodes that are ready."""
    return {node["metadata"]["name"] for node in nodes(api) if condition(node, "Ready") == "True"}


def empty(api: Api) -> set[str]:
    """Return the nodes without a pod."""
    return names_of(api) - {each["spec"].get("nodeName") for each in pods(api)}


def test_a_drifted_node_is_replaced_while_its_capacity_is_held(cluster: Backend, operator: Operator) -> None:
    api = cluster.api
    with Karpenter(cluster, flags=BATCHES) as karpenter:
        karpenter.add_pool("general", boot_seconds=3)
        operator.wait_until_ready()
        pinned = {"karpenter.sh/do-not-disrupt": "true"}  # so that Karpenter moves no real pod into held capacity
        api.create(pod("real", cpu="500m", memory="1Gi", annotations=pinned))
        wait_until(lambda: len(nodes(api)) == 1, 60, "the first node", state=lambda: claim_states(api))
        api.create(held(api))
        wait_until_placed(api, "default", 90)
        old = empty(api)
        assert old
        wait_until(lambda: old <= nominated(api), 60, "Karpenter to hold its node", state=lambda: claim_states(api))
        wanted = wanted_cpu_millis(api)
        template = {"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}
        before, begin = names_of(api), time.monotonic()
        times: dict[str, float] = {}

        def is_gone() -> bool:
            for what, seen in (("released", released(api)), ("replaced", ready(api) - before)):
                if seen:
                    times.setdefault(what, time.monotonic() - begin)
            return not old & names_of(api)

        with watched(api) as free:
            api.patch(f"{NODEPOOLS}/general", template)
            wait_until(is_gone, 240, "drifted nodes to be gone", state=lambda: claim_states(api))
        times["gone"] = time.monotonic() - begin
        print(f"\n{ {what: round(seconds) for what, seconds in times.items()} }; free {min(free)} of {wanted} wanted")
        assert min(free) >= wanted
        assert not placeholders(api, bound=True)
        wait_until(lambda: not marked(api) & old, 30, "no marker to outlive its node", state=lambda: claim_states(api))


def test_a_node_that_expires_is_replaced_before(cluster: Backend, operator: Operator) -> None:
    api = cluster.api
    with Karpenter(cluster, flags=BATCHES) as karpenter:
        karpenter.add_pool("general", boot_seconds=3, expire_after="240s")
        operator.wait_until_ready()
        api.create(pod("real", cpu="500m", memory="1Gi"))
        wait_until(lambda: len(nodes(api)) == 1, 60, "the first node", state=lambda: claim_states(api))
        api.create(held(api))
        wait_until_placed(api, "default", 90)
        old = names_of(api)
        wanted = wanted_cpu_millis(api)
        with watched(api) as free:
            wait_until(lambda: not old & names_of(api), 300, "old nodes to be gone", state=lambda: claim_states(api))
        print(f"\nfree CPU, least: {min(free)} of {wanted} wanted")
        assert min(free) >= wanted


@pytest.mark.autoscaler
@pytest.mark.usefixtures("cluster_autoscaler_binary")
@pytest.mark.parametrize("operator", [ReleaseNodes.LABEL], indirect=True)  # no marker pods on this autoscaler
def test_the_node_that_is_released_after_a_shrink_goes(cluster: Backend, operator: Operator) -> None:
    api = cluster.api
    flags = ["--scale-down-unneeded-time=50s"]
    with ClusterAutoscaler(cluster, [NodeGroup("general", max_count=6, boot_seconds=2)], flags):
        operator.wait_until_ready()
        api.create(pod("real", cpu="500m", memory="1Gi", priority_class=""))
        wait_until(lambda: len(nodes(api)) == 1, 90, "the first node", state=lambda: names_of(api))
        api.create(held(api, cpu="9", memory="9Gi"))
        wait_until_placed(api, "default", 120)
        before = names_of(api)
        assert len(before) >= 3
        api.apply(held(api, cpu="2", memory="2Gi"))
        chosen, begin = set[str](), time.monotonic()

        def shrunk() -> bool:
            chosen.update(released(api))
            return len(nodes(api)) == 1

        wait_until(shrunk, 240, "one node to be left", state=lambda: [names_of(api), chosen, status(api, "default")])
        gone = before - names_of(api)
        print(f"\nafter {time.monotonic() - begin:.0f} s: released {sorted(chosen)}, gone {sorted(gone)}")
        assert chosen
        assert chosen <= gone
        assert status(api, "default")["pending"] == 0
        api.apply(held(api, cpu="9", memory="9Gi"))  # the group's next node is not a copy of a released one
        wait_until(
            lambda: free_cpu_millis(api) >= 9000,
            120,
            "the capacity to be back",
            state=lambda: [names_of(api), status(api, "default")],
        )


CHANGES: list[Json] = [
    {"spec": {"unschedulable": True}},
    {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
    {"metadata": {"labels": {"x": "y"}}},
    {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
    {"metadata": {"annotations": {"x": "y"}}},
    {"metadata": {"finalizers": ["x.example/y"]}},
]


def test_the_operator_may_change_no_more_of_a_node_than_its_label(cluster: Backend) -> None:
    api, mine, path = cluster.api, install(cluster).api, "/api/v1/nodes/bounded"
    api.create(kwok.node("bounded"))

    def refused(change: Json) -> bool:
        try:
            mine.patch(path, change)
        except ApiError as error:
            return "may change" in str(error)
        return False

    tries = itertools.count()  # another value each time: the same label again is no change, and nobody refuses it
    wait_until(lambda: refused({"metadata": {"labels": {"x": str(next(tries))}}}), 30, "the admission policy to hold")
    api.patch(path, {"metadata": {"labels": {"x": None}}})
    before = api.get(path)
    mine.patch(path, {"metadata": {"labels": {LABEL_RELEASE: "by-hand"}}})
    assert api.get(path)["metadata"]["labels"][LABEL_RELEASE] == "by-hand"
    mine.patch(path, {"metadata": {"labels": {LABEL_RELEASE: None}}})
    assert [refused(change) for change in CHANGES] == [True] * len(CHANGES)
    after = api.get(path)
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
