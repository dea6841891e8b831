"""The throttler's agent as it is shipped, on a real kubelet: storms, dead-locks, kill -9, a reboot, a hostile pod.

The agent has the chart's arguments and rights, and follows a ThrottlePolicy that each test writes. Figures of load are
off: other suites make it. A cluster and a node of this module's own; root only.
"""

import contextlib
import json
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.node import images
from e2e.harness.objects import wait_until
from e2e.harness.product.gate_link import ConnectedLink
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, container, shop, started_at
from e2e.harness.product.paced_node import PacedNode, paced_node
from e2e.harness.product.starting_watch import watched
from e2e.harness.product.throttler import (
    AGENT_NAME,
    ENABLED,
    Controller,
    apply_policies,
    enable,
    rendered,
    wait_until_injected,
)
from slack.throttler.injection import DEPENDS_ON
from slack_operator.throttler.gate.agent_link import LinkDown

pytestmark = pytest.mark.timeout(900)
BACK_OFF = {"crashLoopBackOff": {"maxContainerRestartPeriod": "5s"}}
"""To the kubelet, a container that waits after its end crashes (docs/details/throttler.md): 10 s, 20 s, up to 300."""
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "static-pod.yaml"
UP = "echo > /tmp/up;"
GATE_OPENS_SECONDS = 60
"""What these gates go by before their first answer; no webhook has told them the policy's time."""
AWAY_SECONDS = int(os.environ.get("AGENT_AWAY_SECONDS", "30"))
"""How long the agent is gone: an hour by hand, seconds with all suites."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedNode]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(paced_node(tmp_path_factory.mktemp("paced"), BACK_OFF))
        except UnavailableError as error:
            pytest.skip(str(error))
        yield found


def test_a_storm_while_the_agent_is_killed_loses_no_grant_and_hands_out_none_twice(place: PacedNode) -> None:
    place.policy(2)
    work = f"cat /proc/uptime; sleep 0.5; {UP}"
    names = [
        place.create(shop(f"storm-{number}", *(container(name, work, **PROBE) for name in "abc")))
        for number in range(4)
    ]

    def ready() -> int:
        statuses = [row for name in names for row in place.pod(name)["status"].get("containerStatuses", ())]
        return sum(row["ready"] for row in statuses)

    def at_least(enough: int) -> bool:
        return ready() >= enough

    with watched(place.api) as seen:
        for enough in (2, 6):
            wait_until(partial(at_least, enough), 60, f"{enough} containers to be ready", ready)
            place.agent.program.kill()
            place.agent.start()
        wait_until(lambda: ready() == 12, 120, "all to be ready", lambda: [place.pod(name)["status"] for name in names])
    assert 1 <= seen.most <= 2, "never more than the slots, whoever is the agent"
    assert not any(seen.restarts.values())
    uids = {place.pod(name)["metadata"]["uid"]: name for name in names}
    grants = [grant for grant in place.grants() if grant["uid"] in uids]
    assert Counter((grant["uid"], grant["container"]) for grant in grants) == Counter(
        (uid, name) for uid in uids for name in "abc"
    )
    took = [place.began(uids[grant["uid"]], grant["container"]) - grant["at"] for grant in grants]
    print(f"grant to running: median {statistics.median(took):.2f} s, all {sorted(round(each, 2) for each in took)}")
    assert statistics.median(took) < 4, "far below the 11 s that a kubelet takes by itself"
    place.remove(*names)


def test_a_container_that_crashes_while_the_agent_is_gone_starts_again_and_that_is_told(place: PacedNode) -> None:
    """Its permit was withdrawn while it ran; the agent does not come back before it runs again."""
    place.policy(1, failOpenAfter="5s")
    crash = "test -e /shared/once || { echo > /shared/once; sleep 30; exit 1; };"
    manifest = shop(
        "orphan",
        container("main", crash, volumeMounts=[SHARED]),
        container("beside"),
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    name = place.create(manifest)
    for each in ("main", "beside"):
        place.wait(name, each, "running")
    wait_until(lambda: place.agent.metric("slack_throttler_slots_taken") == 0, 30, "no slot to be taken")
    place.agent.program.kill()

    def restarted() -> bool:
        status = place.status(name, "main")
        return bool(status["restartCount"] == 1 and status["state"].get("running"))

    try:
        wait_until(restarted, 120, "main to run again without an agent", lambda: place.pod(name)["status"])
        assert place.status(name, "beside")["restartCount"] == 0
    finally:
        place.agent.start()

    def skipped() -> list[str]:
        events = place.api.items(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        return [
            event["note"]
            for event in events
            if event["reason"] == "StartPermitSkipped" and event["regarding"]["name"] == name
        ]

    wait_until(skipped, 60, "an Event that says so")
    assert all("container main started without a permit" in note for note in skipped()), "beside has not started again"
    place.remove(name)


@pytest.mark.timeout(900 + AWAY_SECONDS)
def test_starts_go_on_for_as_long_as_the_agent_is_gone_and_are_gated_when_it_is_back(place: PacedNode) -> None:
    """Again and again a container crashes and a pod comes; a gate that never had an answer opens after its own time."""
    place.policy(1, failOpenAfter="5s")
    name = place.create(shop("crashing", container("main", "sleep 10; exit 1;"), container("beside")))
    place.wait(name, "beside", "running")
    place.agent.program.kill()
    began, at_first = time.monotonic(), place.status(name, "main")["restartCount"]
    longest, restarts, pods = 0.0, at_first, 0
    try:
        while time.monotonic() - began < AWAY_SECONDS:
            created = time.monotonic()
            later = place.create(shop(f"later-{pods}", container("main")))
            place.wait(later, "main", "running")
            longest = max(longest, time.monotonic() - created)
            place.remove(later)
            pods += 1

            def crashed_again(before: int = restarts) -> bool:
                return int(place.status(name, "main")["restartCount"]) > before

            wait_until(crashed_again, 60, "main to start again without an agent", lambda: place.pod(name)["status"])
            restarts = place.status(name, "main")["restartCount"]
        away = time.monotonic() - began
        assert place.status(name, "beside")["restartCount"] == 0
    finally:
        place.agent.start()
    print(f"no agent for {away:.0f} s: {restarts - at_first} restarts, {pods} pods, at most {longest:.1f} s to a start")
    assert longest < GATE_OPENS_SECONDS + 30
    gated = place.create(shop("gated", *(container(each, "sleep 3;" + UP, **PROBE) for each in "ab")))
    wait_until(lambda: place.agent.metric("slack_throttler_slots_taken") >= 1, 60, "the agent to hand out slots")
    for each in "ab":
        place.wait(gated, each, "running")
    place.remove(name, gated)


def hungry(name: str) -> Json:
    """Return a container that is ready once `a` is, which no policy knows."""
    return container(name, f"until cat /shared/a; do sleep 0.2; done; {UP}", **PROBE, volumeMounts=[SHARED])


SHARED = {"name": "shared", "mountPath": "/shared"}


def trio(name: str, order: str) -> Json:
    """Return a pod of b and c, which need a, and a, declared in an order."""
    made = {"a": container("a", f"echo > /shared/a; {UP}", **PROBE, volumeMounts=[SHARED])}
    made |= {each: hungry(each) for each in "bc"}
    return shop(name, *(made[each] for each in order), volumes=[{"name": "shared", "emptyDir": {}}])


def begun(place: PacedNode, name: str) -> dict[str, float]:
    """When each of the three began."""
    return {each: started_at(place.status(name, each)).timestamp() for each in "abc"}


def test_the_lucky_flow_ends_by_itself(place: PacedNode) -> None:
    place.policy(2)
    name = place.create(trio("lucky", "bac"))
    place.wait_ready(name)
    place.remove(name)


def test_the_unlucky_flow_is_a_dead_lock_that_the_time_out_ends(place: PacedNode) -> None:
    place.policy(2, startTimeout={"after": "10s", "then": "Release"})
    name = place.create(trio("unlucky", "bca"))
    place.wait(name, "b", "running")
    place.wait(name, "c", "running")
    time.sleep(4)
    assert place.is_held(name, "a"), "both slots are taken by those that wait for it"
    place.wait_ready(name)
    at = begun(place, name)
    assert at["a"] - at["b"] >= 8
    place.remove(name)


def test_the_unlucky_flow_is_ended_by_the_least_rate_and_told_so(place: PacedNode) -> None:
    place.policy(2, minRate="0.2")
    name = place.create(trio("forced", "bca"))
    place.wait_ready(name)
    at = begun(place, name)
    assert at["a"] - max(at["b"], at["c"]) >= 3

    def told() -> bool:
        events = place.api.items(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        return any(event["reason"] == "StartForced" and event["regarding"]["name"] == name for event in events)

    wait_until(told, 20, "an Event that says so")
    place.remove(name)


def test_the_unlucky_flow_is_ended_by_dependencies(place: PacedNode) -> None:
    place.policy(2)
    manifest = trio("declared", "bca")
    manifest["metadata"]["annotations"] = {DEPENDS_ON: json.dumps({"b": ["a"], "c": ["a"]})}
    name = place.create(manifest)
    place.wait_ready(name)
    at = begun(place, name)
    assert at["a"] < min(at["b"], at["c"])
    place.remove(name)


def test_a_pod_that_asks_for_others_a_thousand_times_and_talks_garbage_stops_nobody(place: PacedNode) -> None:
    place.policy(2)
    hostile = place.create(shop("hostile", container("main", UP, **PROBE)))
    place.wait_ready(hostile)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": hostile, "uid": place.pod(hostile)["metadata"]["uid"]}
    spec = {"audiences": ["throttler"], "expirationSeconds": 600, "boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = place.api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token", request)
    token = place.cluster.run_folder / "token"
    token.write_text(answer["status"]["token"], encoding="ascii")
    pem = place.authority.certificate_path.read_text()
    granted: list[object] = []

    def link() -> ConnectedLink:
        return ConnectedLink(place.node.name, place.agent.port, AGENT_NAME, pem, str(token))

    def shout() -> None:
        for _ in range(3):
            with contextlib.suppress(LinkDown, OSError), contextlib.closing(link()) as shouted:
                for number in range(2000):
                    shouted.send({"type": "ask", "container": "victim" if number % 2 else "main", "start": number})
                    granted.extend(each for each in shouted.receive() if each["type"] == "granted")
                shouted.socket.setblocking(True)
                shouted.socket.sendall(b"\xff" * 100_000 + b"\n")

    shouting = threading.Thread(target=shout, daemon=True)
    shouting.start()
    victim = place.create(shop("victim", container("victim", UP, **PROBE)))
    place.wait_ready(victim, 30)
    shouting.join(60)
    assert not granted, "its own container runs, and of another's it is told nothing"
    assert place.agent.program.running
    place.remove(hostile, victim)


def test_a_static_pod_with_the_gate_of_the_example_waits_for_its_permit(place: PacedNode) -> None:
    place.policy(1)
    first = place.create(shop("first", container("main", "", **PROBE)))
    place.wait(first, "main", "running")
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    manifest["spec"]["terminationGracePeriodSeconds"] = 0
    (web,), (gate,) = manifest["spec"]["containers"], manifest["spec"]["initContainers"]
    web |= {"image": images.BURNER, "command": ["/bin/sleep", "2147483647"]}
    gate["image"] = place.options.image
    told = {"THROTTLER_AGENT_PORT": str(place.agent.port), "THROTTLER_AGENT_NAME": AGENT_NAME}
    told["THROTTLER_AGENT_CA"] = place.options.authority
    for variable in gate["env"]:
        if variable["name"] in told:
            variable["value"] = told[variable["name"]]
    (secret,) = [volume for volume in manifest["spec"]["volumes"] if "hostPath" in volume]
    secret["hostPath"]["path"] = str(place.agent.journal.parent / "static")
    path = place.node.static_pods / "web.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    name = f"{manifest['metadata']['name']}-{place.node.name}"
    try:
        wait_until(lambda: place.api.find(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"), 30, "the mirror pod")
        place.wait_held(name, "web")
        wait_until(lambda: place.status(name, gate["name"]).get("ready"), 30, "the gate to be ready")
        time.sleep(2)
        assert place.is_held(name, "web"), "the slot is taken"
        place.remove(first)
        place.wait(name, "web", "running", 30)
        uid = place.pod(name)["metadata"]["uid"]
        assert [grant["container"] for grant in place.grants() if grant["uid"] == uid] == ["web"]
    finally:
        path.unlink()
    gone = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
    wait_until(lambda: place.api.find(gone) is None, 30, "the static pod to end")


def queued(place: PacedNode, manifest: Json) -> str:
    """Create a pod, and wait until it waits: places are by that, and two kubelet's workers may be quick or slow."""
    name = place.create(manifest)
    place.wait_held(name, "main")
    return name


def test_a_kubelet_that_starts_anew_and_an_api_server_that_is_away_lose_no_place_in_the_queue(place: PacedNode) -> None:
    place.policy(1)
    first = place.create(shop("first", container("main", f"until cat /tmp/go; do sleep 0.2; done; {UP}", **PROBE)))
    place.wait(first, "main", "running")
    second, third = (queued(place, shop(name, container("main", UP, **PROBE))) for name in ("second", "third"))
    place.node.restart_kubelet()
    place.cluster.restart_apiserver(crash=True, down_seconds=5.0)

    def held() -> bool:
        return all(place.is_held(name, "main") for name in (second, third))

    wait_until(held, 60, "both to be held still", lambda: place.status(second, "main"))
    place.remove(first)
    place.wait_ready(second, 90)
    place.wait_ready(third, 90)
    assert started_at(place.status(second, "main")) <= started_at(place.status(third, "main"))
    place.remove(second, third)


@pytest.mark.parametrize("injection", ["Webhook", "AdmissionPolicy"])
def test_pods_that_the_cluster_itself_has_injected_are_paced(place: PacedNode, injection: str, tmp_path: Path) -> None:
    """Both ways in, up to a running container: the other tests make pods as they would be made."""
    place.policy(1)
    repository, _, tag = place.options.image.partition(":")
    manifests = rendered(
        tmp_path,
        place.authority,
        f"--set=throttler.injection={injection},throttler.agent.port={place.agent.port}",
        f"--set=image.repository={repository},image.pullPolicy=Never",
        f"--set-string=image.tag={tag}",
    )
    with ExitStack() as stack:
        if injection == "Webhook":
            stack.enter_context(Controller(place.cluster, manifests, place.authority)).apply(manifests)
        applied = apply_policies(place.api, manifests)
        applied += [item for item in manifests if item["kind"] == "MutatingWebhookConfiguration"]
        for item in applied:
            stack.callback(place.api.delete, place.api.path_of(item))
        enable(place.api, NAMESPACE)
        stack.callback(place.api.patch, f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {ENABLED: None}}})
        wait_until_injected(place.api, NAMESPACE)
        name = f"by-{injection.lower()}"
        work = f"cat /proc/uptime; sleep 1; {UP}"
        place.api.create(shop(name, *(container(each, work, **PROBE) for each in "ab")))
        with watched(place.api) as seen:
            place.wait_ready(name, 60)
    assert seen.most == 1
    uid = place.pod(name)["metadata"]["uid"]
    assert sorted(grant["container"] for grant in place.grants() if grant["uid"] == uid) == ["a", "b"]
    place.remove(name)


def test_after_a_reboot_all_pods_start_anew_and_no_more_at_once_than_may(place: PacedNode) -> None:
    place.policy(2)
    names = [
        place.create(shop(f"boot-{number}", *(container(name, f"sleep 1; {UP}", **PROBE) for name in "ab")))
        for number in range(4)
    ]
    for name in names:
        place.wait_ready(name, 90)
    before = {name: {row["containerID"] for row in place.pod(name)["status"]["containerStatuses"]} for name in names}
    place.agent.program.kill()
    place.agent.journal.unlink()  # a boot empties /run
    place.node.reboot()
    place.agent.start()

    def anew(name: str) -> bool:
        rows = place.pod(name)["status"]["containerStatuses"]
        return all(row["ready"] for row in rows) and not before[name] & {row.get("containerID") for row in rows}

    with watched(place.api) as seen:
        for name in names:
            wait_until(partial(anew, name), 120, f"{name} to be ready", partial(place.pod, name))
    assert 1 <= seen.most <= 2
    uids = {place.pod(name)["metadata"]["uid"] for name in names}
    assert Counter((grant["uid"], grant["container"]) for grant in place.grants() if grant["uid"] in uids) == Counter(
        (uid, each) for uid in uids for each in "ab"
    )
    place.remove(*names)
