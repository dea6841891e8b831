"""ThrottlePolicies say how starts fare: agents report to the controller, which writes what people look at.

Controller and one agent run with the chart's arguments and rights; 500 more nodes report as agents do.
"""

import http.client
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import kwok, rbac
from e2e.harness.cluster.access import grant_manifests
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import create_all, make_namespace, pod, wait_until
from e2e.harness.ports import LOOPBACK
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import CRDS
from e2e.harness.product.throttler import (
    AGENT_ACCOUNT,
    NODE,
    VIEWER_ACCOUNT,
    Agent,
    Controller,
    agent_pod,
    enable,
    rendered,
    token_of,
)
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import (
    REPORTS_PATH,
    VIEWER_HEADER,
    ContainerRow,
    NodeReport,
    View,
    decode_view,
    encode,
)

SHOP = "paced-shop"
FLEET = 500
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "throttlepolicy.yaml"


@dataclass
class Place:
    """A cluster with a controller, and an agent that reports to it."""

    cluster: Backend
    manifests: list[Json]
    authority: Authority
    controller: Controller
    agent: Agent
    mark: Any

    def status(self, name: str = "default") -> Json:
        """Return what a policy says."""
        found = self.cluster.api.get(f"/apis/resource-slack.io/v1alpha1/throttlepolicies/{name}")
        return dict(found.get("status") or {})

    def request(
        self, method: str, headers: dict[str, str], body: bytes = b"", query: str = "", port: int = 0
    ) -> tuple[int, bytes]:
        """Ask the controller; returns status and answer."""
        tls = ssl.create_default_context(cafile=str(self.authority.certificate_path))
        connection = http.client.HTTPSConnection(
            LOOPBACK, port or self.controller.reports_port, timeout=30, context=tls
        )
        try:
            connection.request(method, REPORTS_PATH + query, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, report: NodeReport, token: str) -> int:
        """Report as an agent does; returns the status."""
        return self.request("POST", {"Authorization": f"Bearer {token}"}, encode(report))[0]

    def view(self, query: str = "") -> View:
        """Look as `throttler status` does."""
        token = token_of(self.cluster.api, account=VIEWER_ACCOUNT)
        status, answer = self.request("GET", {VIEWER_HEADER: token}, query=query)
        assert status == 200, answer
        return decode_view(answer)


@pytest.fixture(scope="module")
def place(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("throttler")
    authority = Authority.create(folder / "authority")
    manifests = rendered(folder / "helm", authority)
    with cleaned(backend.api):
        install_crds(backend.api, CRDS)
        make_namespace(backend.api, NAMESPACE)
        backend.api.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": VIEWER_ACCOUNT, "namespace": NAMESPACE}}
        )
        enable(backend.api, SHOP)
        backend.api.apply(yaml.safe_load(EXAMPLE.read_text()))
        mark = backend.audit_mark()
        with (
            Controller(backend, manifests, authority) as controller,
            Agent(backend, manifests, authority, folder, controller) as agent,
        ):
            controller.register(manifests, SHOP)
            yield Place(backend, manifests, authority, controller, agent, mark)


def conditions(status: Json) -> dict[str, tuple[str, str]]:
    return {row["type"]: (row["status"], row["reason"]) for row in status.get("conditions", ())}


def test_a_policy_has_a_status_as_soon_as_its_agents_have_reported(place: Place) -> None:
    status = wait_until(lambda: place.status() if place.status().get("nodes") else None, 120, "a status") or {}
    assert status["nodes"] == {"selected": 1, "reporting": 1, "silent": 0}
    assert conditions(status)["Ready"] == ("True", "StartsReported")
    assert conditions(status)["NodesSilent"] == ("False", "AgentsHeard")


def test_what_starts_on_the_node_is_in_the_status_within_seconds(place: Place) -> None:
    """kwok's kubelet knows no permits: the container starts without one, which the agent sees and tells."""
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    place.cluster.api.create(pod("api-0", namespace=SHOP, nodeName=NODE))
    wait_until(lambda: place.status().get("ready") or place.status().get("starting"), 30, "the container in the status")
    view = place.view(f"?node={NODE}")
    assert [report.node for report in view.reports] == [NODE]
    assert sum(view.reports[0].counts.values()) >= 1


def test_kubectl_prints_who_starts_and_who_waits(place: Place) -> None:
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    program = build.ensure(["kubectl"])["kubectl"]
    words = [str(program), f"--kubeconfig={place.cluster.kubeconfig}", "get", "throttlepolicies"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    wanted = ["NAME", "READY", "NODES", "STARTING", "PENDING", "BLOCKED", "FAILED", "FORCED", "AGE"]
    assert lines[0].split() == wanted
    assert lines[1].split()[:3] == ["default", "True", "1"]


@pytest.mark.parametrize(
    ("account", "audience", "node", "status", "words"),
    [
        (AGENT_ACCOUNT, "throttler", "elsewhere", 403, "may not report on elsewhere"),
        (AGENT_ACCOUNT, "another", NODE, 401, "not valid for the audience"),
        ("default", "throttler", NODE, 403, "may not report"),
    ],
)
def test_who_is_no_agent_of_the_node_cannot_report(
    place: Place, account: str, audience: str, node: str, status: int, words: str
) -> None:
    name = f"hostile-{account}-{audience}"[:60]
    made = place.cluster.api.create(pod(name, namespace=NAMESPACE, nodeName=NODE, serviceAccountName=account))
    token = token_of(place.cluster.api, made, account=account, audience=audience)
    body = encode(NodeReport(node=node, at=time.time()))
    found, answer = place.request("POST", {"Authorization": f"Bearer {token}"}, body)
    assert (found, words in answer.decode()) == (status, True), answer
    assert place.request("POST", {"Authorization": "Bearer nonsense"}, body)[0] == 401
    place.cluster.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", grace_seconds=0)


def test_who_has_no_token_of_the_viewer_sees_nothing(place: Place) -> None:
    assert place.request("GET", {})[0] == 401
    agents = place.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/agent-{NODE}")
    assert place.request("GET", {VIEWER_HEADER: token_of(place.cluster.api, agents)})[0] == 403


def test_500_nodes_are_summed_up_within_seconds_and_a_pod_is_found_among_them(place: Place) -> None:
    api = place.cluster.api
    names = [f"fleet-{number:03}" for number in range(FLEET)]
    create_all(api, [kwok.node(name) for name in names])
    with ThreadPoolExecutor(8) as workers:
        tokens = dict(zip(names, workers.map(lambda name: token_of(api, agent_pod(api, name)), names), strict=True))

        def report(name: str) -> int:
            now = time.time()
            rows = tuple(
                ContainerRow(
                    namespace=SHOP,
                    pod=f"web-{name}-{number}",
                    uid=f"{name}-{number}",
                    container="app",
                    state=StartState.PENDING if number else StartState.STARTING,
                    since=now - 30,
                    position=number,
                )
                for number in range(5)
            )
            counts = {StartState.PENDING: 4, StartState.STARTING: 1, StartState.READY: 20}
            return place.post(
                NodeReport(node=name, at=now, policy="default", slots=1, counts=counts, containers=rows), tokens[name]
            )

        began = time.monotonic()
        assert set(workers.map(report, names)) == {200}
        took = time.monotonic() - began
    status = (
        wait_until(
            lambda: found if (found := place.status()).get("pending", 0) == 4 * FLEET else None,
            30,
            "the sums",
            place.status,
        )
        or {}
    )
    print(f"{FLEET} reports in {took:.1f} s, in the status {time.monotonic() - began - took:.1f} s later")
    assert status["nodes"] == {"selected": FLEET + 1, "reporting": FLEET + 1, "silent": 0}
    assert status["starting"] >= FLEET
    assert 25 <= status["longestWaitSeconds"] <= 120
    view = place.view(f"?namespace={SHOP}&pod=web-fleet-007-2")
    (found,) = view.reports
    (row,) = found.containers
    assert (found.node, row.position, row.state) == ("fleet-007", 2, StartState.PENDING)
    assert len(place.view().reports) == FLEET + 1
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda name: api.delete(f"/api/v1/nodes/{name}"), names))
    wait_until(
        lambda: place.status()["nodes"]["selected"] == 1, 60, "nodes that are gone to be forgotten", place.status
    )
    assert place.status()["pending"] == 0


def test_a_more_specific_policy_takes_its_nodes_and_an_equal_younger_one_gets_none(place: Place) -> None:
    api = place.cluster.api
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    kind = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "ThrottlePolicy"}
    api.create(kind | {"metadata": {"name": "younger"}, "spec": {}})
    told_so = ("True", "OlderPolicyChosen")
    wait_until(
        lambda: conditions(place.status("younger")).get("Overlapping") == told_so,
        30,
        "it to be told",
        lambda: place.status("younger"),
    )
    assert place.status("younger")["nodes"]["selected"] == 0

    def told() -> list[str]:
        events = api.items("/api/v1/namespaces/default/events")
        mine = [event for event in events if event["involvedObject"].get("name") == "younger"]
        return [event["type"] for event in mine if event["reason"] == "OlderPolicyChosen"]

    assert wait_until(told, 30, "the Event") == ["Warning"]
    api.delete("/apis/resource-slack.io/v1alpha1/throttlepolicies/younger")


def commanded(access_file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `resource-slack throttler` as a user does."""
    program = Path(sys.executable).parent / "resource-slack"
    command = [str(program), "throttler", *words, "--kubeconfig", str(access_file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_people_see_what_the_controller_knows_with_the_release_s_role_and_no_more(place: Place) -> None:
    """The controller is a process beside the cluster: it is asked directly, with a token of the API server's."""
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    place.cluster.api.create(pod("told-0", namespace=SHOP, nodeName=NODE))
    person = place.cluster.user("looks-at-starts")
    direct = (
        f"--controller=https://{LOOPBACK}:{place.controller.reports_port}",
        f"--ca-file={place.authority.certificate_path}",
    )
    lacks = commanded(person.kubeconfig, "status", *direct)
    assert (lacks.returncode, "needs create of serviceaccounts/token" in lacks.stderr) == (2, True), lacks
    named = [found for found in place.manifests if found["metadata"]["name"] == VIEWER_ACCOUNT]
    grant_manifests(place.cluster.api, person, [found for found in named if found["kind"] == "Role"], NAMESPACE)
    found = wait_until(
        lambda: (
            shown if (shown := commanded(person.kubeconfig, "status", *direct, "-o", "json")).returncode == 0 else None
        ),
        15,
        "the role to be known",
    )
    assert found is not None
    told = json.loads(found.stdout)
    assert NODE in [node["name"] for node in told["nodes"]]
    assert told["not_seen"] == ["policies: not allowed to list throttlepolicies"]
    gated = commanded(place.cluster.kubeconfig, "explain", "-n", SHOP, "pod/told-0", *direct, "-o", "json")
    assert gated.returncode == 0, gated.stderr
    explained = json.loads(gated.stdout)
    assert (explained["node"], explained["backend"], explained["agent"]) == (NODE, "file", "reports")
    assert [container["gated"] for container in explained["containers"]] == [True]
    refused = commanded(person.kubeconfig, "explain", "-n", SHOP, "pod/told-0", *direct)
    assert (refused.returncode, "needs get of pods in namespace" in refused.stderr) == (2, True), refused


def test_what_the_api_server_s_proxy_says_is_told_in_a_sentence(place: Place) -> None:
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    gone = commanded(place.cluster.kubeconfig, "status")
    assert gone.returncode == 2
    assert "holds the lease and is not there any more" in gone.stderr, gone.stderr
    person = place.cluster.user("may-not-proxy")
    rules: list[Json] = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    ]
    role: Json = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}
    role["metadata"] = {"name": "looks-half", "namespace": NAMESPACE}
    grant_manifests(place.cluster.api, person, [role], NAMESPACE)

    def lacks() -> str:
        said = commanded(person.kubeconfig, "status").stderr
        return said if "pods/proxy" in said else ""

    half = wait_until(lacks, 15, "the role to be known")
    assert "not allowed to ask pod" in half


def test_a_standby_sends_agents_on_and_takes_over_when_the_leader_is_killed(place: Place) -> None:
    wait_until(lambda: place.status().get("nodes"), 120, "a status")
    with Controller(place.cluster, place.manifests, place.authority) as second:
        status, answer = place.request("POST", {}, b"{}", port=second.reports_port)
        assert (status, b"does not lead" in answer) == (503, True)
        place.controller.program.kill()

        def leads() -> bool:
            return place.request("POST", {}, b"{}", port=second.reports_port)[0] == 401

        wait_until(leads, 60, "the other one to lead")
        before = place.status()
        place.cluster.api.create(kwok.node("late"))
        token = token_of(place.cluster.api, agent_pod(place.cluster.api, "late"))
        body = encode(NodeReport(node="late", at=time.time(), policy="default", counts={StartState.FAILED: 7}))
        assert place.request("POST", {"Authorization": f"Bearer {token}"}, body, port=second.reports_port)[0] == 200
        # the agent still reports to the one that is gone: until everybody had the time to come, nothing is written
        assert place.status() == before
        wait_until(lambda: place.status().get("failed") == 7, 150, "the new leader's status", place.status)
        assert place.status()["nodes"] == {"selected": 2, "reporting": 1, "silent": 1}


def test_the_controller_uses_its_rights_and_asks_for_no_others(place: Place) -> None:
    """After all that is above; what the webhook asks is another suite's."""
    rights = rbac.granted(place.controller.roles)
    asked = place.cluster.audit_entries(user=place.controller.identity.user, since=place.mark)
    assert {str(right) for right in rbac.refused(rights, asked)} == set()
    used = rbac.used(rights, asked)
    unused = {str(right) for right in rights - used}
    # the Event of a second time is a patch, and nothing of these minutes comes twice within ten; lists come by watches
    assert unused <= {"patch events in default", "list nodes everywhere"}
