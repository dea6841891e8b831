"""Permits in ConfigMaps, on a real kubelet: what Kubernetes 1.29 to 1.34 has in place of gates.

Agent, controller and webhook have the chart's arguments and rights. A cluster and a node of this module's own; root
only.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.objects import wait_until
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, container, shop
from e2e.harness.product.paced_node import KeyedNode, keyed_node
from e2e.harness.product.starting_watch import watched
from e2e.harness.product.throttler import PROGRAM
from slack.throttler.injection import DEPENDS_ON, PERMITS_IN, variable_by_config_map

pytestmark = pytest.mark.timeout(900)
UP = "echo > /tmp/up;"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedNode]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(keyed_node(tmp_path_factory.mktemp("keyed")))
        except UnavailableError as error:
            pytest.skip(str(error))
        yield found


def test_one_after_another_on_one_slot_in_the_order_of_dependencies_and_with_no_gate(place: KeyedNode) -> None:
    """A <- B <- {C, D} <- E, declared backwards."""
    place.policy(1)
    work = f"cat /proc/uptime; sleep 0.5; {UP}"
    manifest = shop("graph", *(container(name, work, **PROBE) for name in "edcba"))
    manifest["metadata"]["annotations"] = {
        DEPENDS_ON: json.dumps({"b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d"]})
    }
    name = place.create(manifest)
    assert "initContainers" not in place.pod(name)["spec"], "nothing of ours runs in the pod"
    place.wait(name, "a", "running")
    assert "a" in place.keys(name)
    assert "e" not in place.keys(name)
    place.wait_ready(name, 90)
    began = {each: place.began(name, each) for each in "abcde"}
    assert sorted(began, key=began.__getitem__) in (["a", "b", "c", "d", "e"], ["a", "b", "d", "c", "e"])
    took = seconds_to_run(place, name)
    assert len(took) == 5
    assert max(took) < 6, "below the 11 s that a kubelet takes by itself: it is told to look"
    place.remove(name)


def test_a_container_that_waits_holds_up_no_other_and_a_restart_needs_no_permit(place: KeyedNode) -> None:
    place.policy(1, startTimeout={"after": "8s", "then": "Release"})
    strict = {
        "startupProbe": {"exec": {"command": ["/bin/cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 20}
    }
    quick = container("quick", "sleep 1; test -e /shared/once || { echo > /shared/once; exit 1; };", **PROBE | SHARED)
    name = place.create(
        shop("web", quick, container("slow", UP, **strict), volumes=[{"name": "shared", "emptyDir": {}}])
    )
    place.wait(name, "quick", "running")
    held = place.wait_held(name, "slow")
    assert (held["ready"], held["started"], held["restartCount"]) == (False, False, 0)

    def restarted() -> bool:
        return bool(
            place.status(name, "quick")["restartCount"] == 1 and place.status(name, "quick")["state"].get("running")
        )

    wait_until(restarted, 60, "quick to run again, though the slot is taken or not", lambda: place.pod(name)["status"])
    place.wait(name, "slow", "running", 60)
    place.remove(name)


SHARED = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def test_a_controller_that_is_killed_in_a_storm_loses_no_permit(place: KeyedNode) -> None:
    place.policy(2)
    before = len(place.grants())
    work = f"cat /proc/uptime; sleep 1; {UP}"
    names = [
        place.create(shop(f"storm-{number}", *(container(name, work, **PROBE) for name in "ab"))) for number in range(4)
    ]
    with watched(place.api) as seen:
        wait_until(lambda: len(place.grants()) >= before + 4, 60, "half of them to be granted", place.grants)
        place.controller.program.kill()
        time.sleep(3)
        place.controller.__enter__()
        for name in names:
            place.wait_ready(name, 120)
    assert 1 <= seen.most <= 2
    assert not any(seen.restarts.values())
    uids = {place.pod(name)["metadata"]["uid"] for name in names}
    grants = [(grant["uid"], grant["container"]) for grant in place.grants() if grant["uid"] in uids]
    assert sorted(grants) == sorted((uid, each) for uid in uids for each in "ab"), "each is granted once"
    took = seconds_to_run(place, *names)
    assert statistics.median(took) < 4, "the killed controller's four seconds are some of them's"
    place.remove(*names)


def test_nothing_is_written_into_what_is_not_ours_and_that_is_told(place: KeyedNode) -> None:
    place.policy(2)
    name = f"permits-{'0' * 8}"
    metadata = {"name": name, "namespace": NAMESPACE}
    place.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
    hostile = container("main")
    hostile["env"] = [variable_by_config_map("main", name)]
    manifest = shop("hostile", hostile)
    manifest["metadata"]["annotations"] = {PERMITS_IN: name}
    pod = place.create(manifest)
    place.wait_held(pod, "main")
    wait_until(lambda: told(place, pod, "PermitNotWritten"), 60, "the Event")
    found = place.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
    assert found["data"] == {"k": "v"}
    other = place.create(shop("beside", container("main")))
    place.wait(other, "main", "running")
    place.remove(pod, other)
    place.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")


def test_a_config_map_that_somebody_deletes_is_made_again_for_the_next_restart(place: KeyedNode) -> None:
    place.policy(1)
    crashing = container("main", "test -e /shared/once || { sleep 10; echo > /shared/once; exit 1; };", **SHARED)
    name = place.create(shop("deleted", crashing, container("beside"), volumes=[{"name": "shared", "emptyDir": {}}]))
    place.wait(name, "main", "running")
    place.wait(name, "beside", "running")
    config_map = place.pod(name)["metadata"]["annotations"][PERMITS_IN]
    place.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{config_map}")

    def restarted() -> bool:
        status = place.status(name, "main")
        return bool(status["restartCount"] == 1 and status["state"].get("running"))

    wait_until(restarted, 90, "main to run again", lambda: place.pod(name)["status"])
    assert place.keys(name) == {"main"}
    place.remove(name)


def test_a_copy_of_a_pod_is_let_in_by_the_config_map_of_both(place: KeyedNode) -> None:
    place.policy(2)
    first = place.create(shop("first", container("main")))
    place.wait(first, "main", "running")
    copied = place.pod(first)
    (main,) = copied["spec"]["containers"]
    manifest = shop("second", container("main", env=main["env"]), container("more"))
    manifest["metadata"]["annotations"] = {PERMITS_IN: copied["metadata"]["annotations"][PERMITS_IN]}
    second = place.create(manifest)
    place.wait(second, "more", "running")
    owners = place.api.get(
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/{copied['metadata']['annotations'][PERMITS_IN]}"
    )["metadata"]["ownerReferences"]
    assert {owner["name"] for owner in owners} == {"first", "second"}
    place.remove(first, second)


def test_without_an_agent_all_start_after_the_time_of_the_policy_and_that_is_told(place: KeyedNode) -> None:
    place.policy(1, failOpenAfter="10s")
    place.agent.program.kill()
    try:
        began = time.monotonic()
        name = place.create(shop("alone", container("main"), container("other")))
        place.wait_held(name, "main")
        place.wait(name, "main", "running", 90)
        assert time.monotonic() - began > 8, "not before failOpenAfter"
        place.wait(name, "other", "running", 30)
        wait_until(lambda: told(place, name, "StartPermitSkipped"), 30, "the Event")
    finally:
        place.agent.start()
    place.remove(name)


def test_release_lets_pods_start_that_nobody_else_would(place: KeyedNode) -> None:
    place.policy(1)
    name = place.create(shop("left", container("a", "", **PROBE), container("b")))
    place.wait(name, "a", "running")
    place.wait_held(name, "b")
    place.controller.program.kill()
    try:
        assert released(place) == {name: "WouldStart"}
        assert place.keys(name) == {"a"}
        assert released(place, "--yes") == {name: "MayStart"}
        place.wait(name, "b", "running", 30)
    finally:
        place.controller.__enter__()
    place.remove(name)


def released(place: KeyedNode, *flags: str) -> dict[str, str]:
    """Run the command; returns what became of each pod."""
    words = [PROGRAM, "throttler", "release", *flags, "-o", "json", "--kubeconfig", str(place.cluster.kubeconfig)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    return {item["pod"]: item["outcome"] for item in json.loads(done.stdout)["items"]}


def seconds_to_run(place: KeyedNode, *names: str) -> list[float]:
    """Return how long after its grant each container ran."""
    uids = {place.pod(name)["metadata"]["uid"]: name for name in names}
    grants = [grant for grant in place.grants() if grant["uid"] in uids]
    took = [place.began(uids[grant["uid"]], grant["container"]) - grant["at"] for grant in grants]
    print(f"grant to running: median {statistics.median(took):.2f} s, all {sorted(round(each, 2) for each in took)}")
    return took


def told(place: KeyedNode, pod: str, reason: str) -> list[Json]:
    """Return the Events of a pod that have a reason."""
    found = place.api.get(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")["items"]
    return [item for item in found if item["reason"] == reason and item.get("regarding", {}).get("name") == pod]
