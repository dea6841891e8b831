"""The gate on a real kubelet: what a container that waits is spared, who goes on meanwhile, and what a restart does.

The agent is played by the test, which says when who may start, or is the real one; pods are as the webhook would make
them. A cluster and a node of this module's own. Root only; the reason says what is missing elsewhere.
"""

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from e2e.harness import build
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import UnavailableError
from e2e.harness.node import gate_image, real_node
from e2e.harness.node.real_node import RealNode
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, GatedPods, container, shop, started_at
from e2e.harness.product.scripted_agent import SERVER_NAME, ScriptedAgent
from slack.kube.kubeconfig import connect
from slack.throttler.injection import DEPENDS_ON, GATE, GateOptions
from slack.throttler.limits import Limits
from slack_operator.throttler.agent.agent import StartAgent

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Place(GatedPods):
    """A node whose gates ask a test."""

    cluster: ControlPlane
    node: RealNode
    agent: ScriptedAgent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("gate")
    try:
        real_node.require()
        build.ensure(["kubelet"])
    except UnavailableError as error:
        pytest.skip(str(error))
    with ControlPlane(folder, real_node.options(folder)) as cluster, RealNode(cluster) as node:
        make_namespace(cluster.api, NAMESPACE)
        image = gate_image.bring(node.containerd, folder)
        with ScriptedAgent(cluster, node.name) as agent:
            options = GateOptions(
                image=image,
                agent_port=agent.port,
                agent_name=SERVER_NAME,
                authority=cluster.api.authority.read_text(),
                image_pull_policy="Never",
            )
            yield Place(cluster.api, options, cluster, node, agent)


@pytest.mark.core
def test_a_container_that_waits_holds_up_no_other_and_is_neither_probed_nor_ready(place: Place) -> None:
    strict = {"startupProbe": {"exec": {"command": ["/bin/cat", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 2}}
    name = place.create(shop("web", container("slow", "echo > /tmp/up;", **strict), container("quick")))
    place.agent.wait_for_ask(name, "slow")
    place.wait_held(name, "slow")
    place.wait_held(name, "quick")
    place.agent.say(name, "granted", "quick")
    quick = place.wait(name, "quick", "running")

    held = place.status(name, "slow")
    assert held["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert (held["ready"], held["started"], held["restartCount"]) == (False, False, 0)

    def seconds_ago() -> bool:
        return (datetime.now(quick_at.tzinfo) - quick_at).total_seconds() > 5

    quick_at = started_at(quick)
    wait_until(seconds_ago, 30, "more time than its startup probe lets it have")
    place.agent.say(name, "granted", "slow")
    slow = place.wait(name, "slow", "running")
    assert slow["restartCount"] == 0, "its probe's clock began with its start"
    wait_until(lambda: place.status(name, "slow")["ready"], 30, "slow to be ready", lambda: place.pod(name)["status"])
    assert started_at(slow) > quick_at
    wait_until(lambda: place.status(name, GATE)["ready"], 30, "the gate to be ready, and so the pod")


def test_a_restart_waits_for_a_permit_of_its_own(place: Place) -> None:
    name = place.create(shop("crash", container("main", "sleep 3; exit 1;"), container("other")))
    for each in ("main", "other"):
        place.agent.wait_for_ask(name, each)
        place.agent.say(name, "granted", each)
    place.wait(name, "main", "running")
    place.agent.say(name, "withdraw", "main", start=1)
    place.agent.say(name, "wait", "main", start=1)

    def held_again() -> bool:
        found = place.status(name, "main")
        return bool(found.get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError")

    wait_until(held_again, 90, "the restart to wait", lambda: place.pod(name)["status"])
    assert place.status(name, "main")["lastState"]["terminated"]["exitCode"] == 1
    assert "running" in place.status(name, "other")["state"]
    place.agent.say(name, "granted", "main", start=1)
    again = place.wait(name, "main", "running", 90)
    assert again["restartCount"] == 1


@pytest.mark.core
def test_without_an_agent_all_start_after_the_time_that_the_gate_was_told(place: Place) -> None:
    name = place.create(shop("alone", container("main")), agent_port=1, fail_open_after_seconds=5)
    alone = place.wait(name, "main", "running")
    gate = place.wait(name, GATE, "running")
    assert (started_at(alone) - started_at(gate)).total_seconds() >= 4


@pytest.mark.core
def test_the_agent_starts_one_after_another_on_one_slot_in_the_order_of_dependencies(place: Place) -> None:
    """A <- B <- {C, D} <- E, declared backwards; in the middle another agent takes over the first one's journal."""
    pair = place.cluster.server_certificate("throttler-agent", [SERVER_NAME])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    journal = place.cluster.run_folder / "journal"

    def an_agent(port: int = 0) -> StartAgent:
        connection = connect(place.cluster.kubeconfig, None)
        agent = StartAgent(connection, place.node.name, journal, Limits(slots=1, start_timeout_seconds=300.0))
        agent.start(place.node.name, port, tls)
        return agent

    def ready(name: str) -> bool:
        return bool(place.status("graph", name).get("ready"))

    manifest = shop("graph", *(container(name, "sleep 1; echo > /tmp/up;", **PROBE) for name in "edcba"))
    depends = {"b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d"]}
    manifest["metadata"]["annotations"] = {DEPENDS_ON: json.dumps(depends)}
    agent = an_agent()
    port = agent.port
    try:
        place.create(manifest, agent_port=port)
        wait_until(lambda: ready("b"), 90, "a and b to be ready", lambda: place.pod("graph")["status"])
        agent.stop()
        agent = an_agent(port)
        wait_until(lambda: ready("e"), 90, "all to be ready", lambda: place.pod("graph")["status"])
    finally:
        agent.stop()
    began = {name: started_at(place.status("graph", name)) for name in "abcde"}
    assert sorted(began, key=lambda name: began[name])[:2] == ["a", "b"]
    assert max(began, key=lambda name: began[name]) == "e"
    assert len(set(began.values())) == 5, "one after the other, though c and d could have begun together"
    assert all(place.status("graph", name)["restartCount"] == 0 for name in "abcde")
