"""A pod on a real kubelet grows in place: where placeholders are in the way, it is deferred, and one of them goes.

A cluster and a node of this module's own. Root only; the reason says what is missing elsewhere.
"""

import os
import time

import pytest

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import UnavailableError
from e2e.harness.node import real_node
from e2e.harness.node.real_node import RealNode, burning_pod
from e2e.harness.objects import wait_for_running, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.operator import Operator, placeholders, policy, status
from slack_operator.burst_eviction.burst_tracker import PROMISED_SECONDS

POD = "/api/v1/namespaces/default/pods/grows"
PIECES = 5
"""A placeholder is a fifth of the node; four of them are there."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    try:
        real_node.require()
        build.ensure(["kubelet"])
    except UnavailableError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("node")
    return ControlPlane(folder, real_node.options(folder))


def _resizing(pod: Json) -> str:
    """Say why a resize waits, '' where it does not."""
    found = [entry for entry in pod["status"].get("conditions") or [] if entry["type"] == "PodResizePending"]
    return found[0].get("reason", "") if found else ""


def test_a_resize_that_the_kubelet_defers_gets_its_room_from_one_placeholder(cluster: ControlPlane) -> None:
    piece_millis = 1000 * (os.cpu_count() or 1) // PIECES
    with cluster, RealNode(cluster):
        api = cluster.api
        api.create(burning_pod("grows", 0, request=f"{piece_millis // 2}m"))
        wait_for_running(api, 1, 60)
        with Operator(cluster) as operator:
            operator.wait_until_ready()
            floor = {"cpu": f"{4 * piece_millis}m", "memory": "64Mi"}
            spec = {"extraCapacity": {"minRate": 0, "floor": floor}, "cover": {"mode": "None"}, "granularity": PIECES}
            api.create(policy("default", **spec))
            wait_until(
                lambda: len(placeholders(api, bound=True)) == 4, 90, "four placeholders", lambda: status(api, "default")
            )
            before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(api)}
            mark = cluster.audit_mark()
            wanted = {"requests": {"cpu": f"{3 * piece_millis // 2}m"}}
            api.patch(f"{POD}/resize", {"spec": {"containers": [{**_main(api.get(POD)), "resources": wanted}]}})
            asked_at = time.monotonic()

            def grown() -> bool:
                pod = api.get(POD)
                actual = pod["status"]["containerStatuses"][0].get("resources", {}).get("requests", {}).get("cpu")
                return bool(actual == wanted["requests"]["cpu"] and not _resizing(pod))

            wait_until(grown, 120, "the pod to have grown", lambda: api.get(POD)["status"])
            tries = 1 + int((time.monotonic() - asked_at) / PROMISED_SECONDS)
            deleted = burst_log.read(cluster.audit_entries(since=mark)).deleted
            left = {name: user for name, user in deleted.items() if name in before}
            assert set(left.values()) == {operator.user}
            assert len(left) <= tries, "room that a slow kubelet has not taken in time is given back, and made again"
            # A ReplicaSet's controller that sees the deletion before it sees its template makes one anew, without a
            # node, and takes that one away again.
            assert {user for name, user in deleted.items() if name not in before} <= {burst_log.REPLICA_SETS}
            assert len(deleted) <= 2 * tries
            assert api.get(POD)["status"]["containerStatuses"][0]["restartCount"] == 0
            wait_until(lambda: len(placeholders(api)) == 4, 60, "the room to be asked for again")
            now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in placeholders(api)}
            assert {name: uid for name, uid in before.items() if name not in deleted}.items() <= now.items()


def _main(pod: Json) -> Json:
    return {"name": pod["spec"]["containers"][0]["name"]}
