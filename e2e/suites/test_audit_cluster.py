"""The CPU auditor in a cluster of 500 nodes: policy, reports, Events, status, changes, and no more rights than needed.

One fleet serves all tests, in order: what they rely on is said in each.
"""

import gzip
import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import build
from e2e.harness.api import ApiError, Json
from e2e.harness.cluster import access, audit_log, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.objects import make_namespace, pod, wait_until
from e2e.harness.product.audit_agents import BURSTY, STARVED, Agent, RecordedNode
from e2e.harness.product.audit_controller import (
    AGENT_ACCOUNT,
    POLICIES,
    REPORTS,
    USER,
    Controller,
    condition,
    install,
    policy,
    rights,
    status,
    wait_for_status,
)
from e2e.harness.product.audit_fleet import Fleet, starved, token_of
from e2e.harness.product.operator import NAMESPACE
from slack.audit.api.encoding import encode
from slack.audit.api.messages import AUDIENCE, MAX_REPORT_BYTES
from slack.audit.enforcement.decision import Action, ActionKind
from slack.audit.sources.pod_objects import decode_pods
from slack.kube.apply import Writer
from slack.kube.errors import ApiError as KubeApiError
from slack.kube.kubeconfig import connect
from slack_operator.auditor.controller.cluster_view import AuditedClusterView
from slack_operator.auditor.controller.limit_record import RECORD_NAME, LimitRecord
from slack_operator.auditor.controller.resizer import Resizer, other_object

ROOT = Path(__file__).parents[2]
NODES = 500
PER_NODE = 1
NAMESPACES = ("shop", "search", "billing", "ads")
OTHERS = 18
"""Throttled pods that are not in the namespace shop: three of four."""
REAL = "real"
"""The namespace of pods that real agents see."""
ENFORCED = ("shop", REAL)
RESIZE = {"after": "1m", "maxPerHour": 2, "maxAddedPerNamespace": "400m"}
RECORD = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RECORD_NAME}"
THROTTLED = 24
"""Pods that stand still; they are on the first nodes, spread over the namespaces."""


@pytest.fixture(scope="module")
def mark(backend: Backend) -> int:
    """Where this module begins in the audit log."""
    return backend.audit_mark()


@pytest.fixture(scope="module")
def identity(backend: Backend, mark: int) -> Iterator[access.Access]:
    with cleaned(backend.api):  # its roles too: suites that follow look whether anything of ours is left
        yield install(backend)


@pytest.fixture(scope="module")
def fleet(backend: Backend, identity: access.Access) -> Iterator[Fleet]:
    with cleaned(backend.api):
        fleet = Fleet(backend, NODES)
        fleet.build(NAMESPACES, PER_NODE)
        first = [victim for node in sorted(fleet.placed)[:THROTTLED] for victim in fleet.placed[node][:1]]
        for victim in first:
            fleet.give_id(victim)
            fleet.busy[victim["metadata"]["uid"]] = starved()
        yield fleet
        backend.restart_missing()


@pytest.fixture(scope="module")
def controller(backend: Backend, identity: access.Access, fleet: Fleet) -> Iterator[Controller]:
    """The controller of all tests, over https; its end is one of them."""
    authority = Authority.create(backend.run_folder / "audit-authority")
    with Controller(backend, identity, authority=authority) as controller:
        controller.wait_until_ready(90)
        yield controller


@pytest.fixture(scope="module")
def enforced(backend: Backend, controller: Controller) -> None:
    """A policy for two namespaces, older than the example's: what it plans early can be done a minute later."""
    make_namespace(backend.api, REAL)
    backend.api.apply(enforcing("DryRun"))
    time.sleep(1.1)  # creation times are whole seconds, and the older policy has the namespace


def reports(backend: Backend) -> dict[str, Json]:
    return {report["metadata"]["namespace"]: report for report in backend.api.items(REPORTS)}


def events(backend: Backend, reason: str) -> list[Json]:
    return backend.api.items("/api/v1/events", fieldSelector=f"reason={reason}")


def kubectl(backend: Backend, *arguments: str) -> str:
    program = build.ensure(["kubectl"])["kubectl"]
    command = [str(program), f"--kubeconfig={backend.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def enforcing(mode: str, *, burst: bool = True) -> Json:
    chosen = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(ENFORCED)}
    enforce = {"resize": RESIZE, "burst": burst}
    selector = {"matchExpressions": [chosen]}
    return policy("enforcer", namespaceSelector=selector, mode=mode, enforce=enforce, report={"every": "1m"})


def wait_for_turns(controller: Controller, count: int) -> None:
    """Wait until the controller has looked at everything so many times more: each turn walks the same requests."""
    last = controller.turns() + count
    wait_until(lambda: controller.turns() >= last, 60, f"{count} turns")


def two_high(backend: Backend) -> list[Json]:
    found = [finding for finding in reports(backend).get(REAL, {}).get("findings", []) if finding["severity"] == "high"]
    return found if len(found) == 2 else []


def planned(found: Json) -> set[str]:
    return {
        action["what"] for action in found.get("enforcement", {}).get("actions", []) if action["outcome"] == "planned"
    }


def logs(real: Mapping[str, "Real"]) -> str:
    return "\n".join(node.agent.program.log_tail(5) for node in real.values())


@dataclass(frozen=True)
class Real:
    """A node with a real agent, and one pod."""

    node: RecordedNode
    agent: Agent


@pytest.fixture(scope="module")
def real(backend: Backend, fleet: Fleet, controller: Controller, enforced: None) -> Iterator[Mapping[str, Real]]:
    """Two agents, until the end of the module."""
    with ExitStack() as stack:
        made = {}
        for name, load in (("starved", STARVED), ("bursty", BURSTY)):
            place = f"real-{name}"
            worker = fleet.place(name, REAL, place, limit=f"{load.limit_millis}m")
            node = RecordedNode(backend.run_folder / place, worker, load)
            stack.callback(node.stop)
            token = fleet.agent_token(place)
            made[name] = Real(node, stack.enter_context(Agent(backend, controller, place, token, node.root)))
        yield made


def the_example(backend: Backend, **spec: Any) -> None:
    example = yaml.safe_load((ROOT / "examples" / "cpuauditpolicy.yaml").read_text())
    backend.api.apply(example | {"spec": example["spec"] | spec})


@pytest.mark.core
def test_the_example_reports_on_all_namespaces_of_500_nodes(
    backend: Backend, fleet: Fleet, controller: Controller, enforced: None
) -> None:
    the_example(backend)
    began = time.monotonic()
    answers = fleet.report_all(controller)
    took = time.monotonic() - began
    print(f"{NODES} reports in {took:.1f} s")
    wait_until(lambda: set(NAMESPACES) <= set(reports(backend)), 60, "a report in each namespace")
    print(kubectl(backend, "get", "cpuauditreports", "-A"))
    found = reports(backend)
    assert set(NAMESPACES) <= set(found)
    summaries = [found[name]["summary"] for name in NAMESPACES]
    assert sum(summary["pods"] for summary in summaries) == PER_NODE * NODES
    assert sum(summary["high"] for summary in summaries) == THROTTLED
    owners = {name: found[name]["metadata"]["ownerReferences"][0]["name"] for name in NAMESPACES}
    assert owners == dict.fromkeys(NAMESPACES, "default") | {"shop": "enforcer"}
    search = found["search"]
    worst = search["findings"][0]
    assert (worst["severity"], worst["level"], worst["container"], worst["limit"]) == (
        "high",
        "container",
        "main",
        "200m",
    )
    assert worst["throttledPercent"] == 98.0
    assert worst["lostPercent"] > 50
    assert worst["advice"][0] == "raise-limit"
    assert yaml.safe_load(worst["patch"])
    assert worst["pod"] in search["summary"]["worst"]
    assert all(len(json.dumps(report)) < 256 << 10 for report in found.values())
    names = answers["node-0000"].names
    assert {name.name for name in names.values()} == {pod["metadata"]["name"] for pod in fleet.placed["node-0000"]}

    now = wait_for_status(backend.api, "default", lambda status: status.get("high") == OTHERS, "all findings", 60)
    wait_for_status(
        backend.api, "enforcer", lambda status: status.get("high") == THROTTLED - OTHERS, "its findings", 60
    )
    print(kubectl(backend, "get", "cpuauditpolicies"))
    assert now["nodes"] == {"reporting": NODES, "silent": 0}
    assert condition(now, "Ready")[:2] == ("True", "ReportsArrive")
    assert controller.metric("slack_audit_findings", severity="high", level="container") == THROTTLED
    assert controller.metric("slack_audit_nodes", state="reporting") == NODES


@pytest.mark.core
def test_each_throttled_pod_has_one_event(backend: Backend, fleet: Fleet, controller: Controller) -> None:
    def told() -> Counter[str]:
        return Counter(event["involvedObject"]["uid"] for event in events(backend, "CPUThrottlingHigh"))

    wait_until(lambda: told() == Counter(fleet.busy.keys()), 30, "one Event a pod", state=lambda: str(told()))
    fleet.report_all(controller, sorted(fleet.placed)[:THROTTLED])
    wait_for_turns(controller, 3)
    assert told() == Counter(fleet.busy.keys())
    assert sum(event.get("count", 1) for event in events(backend, "CPUThrottlingHigh")) == THROTTLED
    message = events(backend, "CPUThrottlingHigh")[0]["message"]
    assert "98 % of periods" in message
    assert "level container" in message
    assert "advice: raise-limit" in message


def test_real_agents_pods_come_out_named(
    backend: Backend, fleet: Fleet, controller: Controller, real: Mapping[str, Real]
) -> None:
    found = wait_until(lambda: two_high(backend), 150, "two findings of real agents", state=lambda: logs(real))
    assert {(finding["pod"], finding["container"], finding["node"], finding["level"]) for finding in found} == {
        ("starved", "main", "real-starved", "container"),
        ("bursty", "main", "real-bursty", "container"),
    }
    advice = {finding["pod"]: finding["advice"][0] for finding in found}
    assert advice["starved"] == "raise-limit"
    assert advice["bursty"] != "raise-limit"
    wait_until(
        lambda: {event["involvedObject"]["name"] for event in events(backend, "CPUThrottlingHigh")} >= set(real),
        30,
        "an Event on each",
    )
    for name, node in real.items():  # the agent has learned the names from the answer
        labels = {"namespace": REAL, "pod": name, "container": "main", "level": "container"}
        wait_until(partial(node.agent.metric, "slack_audit_time_lost_ratio", labels), 30, f"the series of {name}")
    shown = wait_for_status(
        backend.api, "enforcer", lambda status: planned(status) >= {"raise", "burst"}, "both plans", 60
    )
    assert real["bursty"].node.burst_us == 0
    assert shown["enforcement"]["raised"] == shown["enforcement"]["bursts"] == 0


def test_an_agent_with_the_token_of_another_node_is_refused_and_says_so_once(
    backend: Backend, fleet: Fleet, controller: Controller, real: Mapping[str, Real]
) -> None:
    root = real["starved"].node.root
    link = root.with_name("thief")
    link.symlink_to(root)
    with Agent(backend, controller, "real-starved", fleet.tokens["node-0002"], link) as thief:
        refused = partial(thief.metric, "slack_audit_reports_total", {"outcome": "refused"})
        wait_until(lambda: refused() >= 2, 60, "its reports to be refused", state=thief.program.log_tail)
        assert thief.metric("slack_audit_reports_total", {"outcome": "sent"}) == 0
        log = thief.program.log_path.read_text()
    assert log.count("is on node node-0002 and may not report on real-starved") == 1
    assert fleet.tokens["node-0002"] not in log


def test_who_may_not_report_is_told_why(backend: Backend, fleet: Fleet, controller: Controller) -> None:
    own, other = "node-0001", "node-0002"
    report = encode(fleet.report(own))
    agent = backend.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/agent-{own}")
    status_, text = controller.post(report, token=fleet.tokens[other])
    assert (status_, b"is on node node-0002 and may not report on node-0001" in text) == (403, True)
    assert controller.post(report)[0] == 401
    assert controller.post(report, token="abc.def.ghi")[0] == 401
    assert controller.post(report, token=token_of(backend.api, agent, audience="somebody-else"))[0] == 401
    stranger = backend.api.create(pod("stranger", namespace=NAMESPACE, nodeName=own))
    status_, text = controller.post(report, token=token_of(backend.api, stranger, account="default"))
    assert (status_, b"may not report; reports are taken from" in text) == (403, True)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{AGENT_ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [AUDIENCE]}}
    unbound = backend.api.request("POST", path, request)["status"]["token"]
    status_, text = controller.post(report, token=unbound)
    assert (status_, b"not bound to a pod" in text) == (403, True)
    assert controller.post(report, token=fleet.tokens[own])[0] == 200


def test_what_is_no_report_is_refused_in_words(fleet: Fleet, controller: Controller) -> None:
    token = fleet.tokens["node-0001"]
    bomb = gzip.compress(bytes(64 << 20), 9)
    assert len(bomb) < MAX_REPORT_BYTES
    for body, encoding, code, words in (
        (b"{}", "", 400, b"node"),
        (b'{"node": 7}', "", 400, b"`$.node`"),
        (b"\xff\x00", "", 400, b"cannot be read"),
        (bomb, "gzip", 400, b"longer than"),
        (b"plain", "gzip", 400, b"no gzip"),
        (b"{}", "br", 400, b"not known"),
        (b" " * (MAX_REPORT_BYTES + 10), "", 413, b"longer than"),
    ):
        found = controller.post(body, token=token, encoding=encoding)
        assert (found[0], words in found[1]) == (code, True), found


def test_silent_nodes_are_named(
    backend: Backend, fleet: Fleet, controller: Controller, real: Mapping[str, Real]
) -> None:
    node = "node-0007"
    controller.report(fleet.report(node, push_seconds=1.0), fleet.tokens[node])
    found = wait_for_status(
        backend.api, "default", lambda status: condition(status, "NodesSilent")[0] == "True", "one to miss", 60
    )
    assert condition(found, "NodesSilent")[2] == f"no report for three intervals from {node}"
    assert found["nodes"] == {"reporting": NODES + len(real) - 1, "silent": 1}
    controller.report(fleet.report(node), fleet.tokens[node])
    wait_for_status(
        backend.api, "default", lambda status: condition(status, "NodesSilent")[0] == "False", "it to be back", 60
    )


def path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def limit(found: Json) -> str:
    return str(found["spec"]["containers"][0]["resources"]["limits"]["cpu"])


def recorded(backend: Backend) -> dict[str, Json]:
    """The former limits by pod uid and container, as the controller keeps them in its namespace."""
    data = backend.api.get(RECORD).get("data") or {}
    return {uid: json.loads(text)["containers"] for uid, text in data.items()}


def raised(found: Json) -> int:
    return int(found.get("enforcement", {}).get("raised", -1))


def resizes(backend: Backend, mark: int) -> list[audit_log.AuditEntry]:
    """What was sent to pods/resize and was taken, in order."""
    return [
        entry
        for entry in backend.audit_entries(user=USER, since=mark)
        if entry.resource == "pods/resize" and entry.code == 200
    ]


def test_what_was_shown_is_done_within_its_bounds(
    backend: Backend, fleet: Fleet, controller: Controller, real: Mapping[str, Real], mark: int
) -> None:
    shown = status(backend.api, "enforcer")["enforcement"]
    assert {action["from"] for action in shown["actions"] if action["what"] == "raise"} == {"200m"}
    assert shown["raised"] == 0
    pods = backend.api.items("/api/v1/namespaces/shop/pods")
    assert {limit(pod) for pod in pods} == {"200m"}
    assert events(backend, "CPULimitWouldRise")
    assert controller.metric("slack_audit_resizes_total", outcome="dry_run") >= THROTTLED - OTHERS + 2
    assert not [resize for resize in resizes(backend, mark) if not resize.dry_run]

    backend.api.apply(enforcing("Enforce"))
    done = wait_for_status(backend.api, "enforcer", lambda status: raised(status) == 3, "three raises", 180)
    entries = recorded(backend)
    pods = backend.api.items("/api/v1/namespaces/shop/pods")
    raised_pods = [pod for pod in pods if pod["metadata"]["uid"] in entries]
    assert len(raised_pods) == 2
    for raised_pod in raised_pods:
        former = entries[raised_pod["metadata"]["uid"]]["main"]
        assert (former["limit"], former["raised"], limit(raised_pod)) == ("200m", "400m", "400m")
    assert done["enforcement"]["addedCores"] == "600m"
    assert done["enforcement"]["lastHour"] == 3
    reasons = {skipped["reason"] for skipped in done["enforcement"]["leftAlone"]}
    assert reasons & {"maxAddedPerNamespace is used up", "maxPerHour is used up"}
    told = {event["involvedObject"]["uid"] for event in events(backend, "CPULimitRaised")}
    assert {pod["metadata"]["uid"] for pod in raised_pods} < told
    for raised_pod in raised_pods:
        own = [entry for entry in resizes(backend, mark) if entry.name == raised_pod["metadata"]["name"]]
        assert [entry.dry_run for entry in own] == [*[True] * (len(own) - 1), False], "shown before it was done"
        assert len(own) >= 3  # what was planned, and the reading just before
    forged = json.dumps({"main": {"limit": "64", "raised": "400m", "at": 1}})
    for raised_pod in raised_pods:  # what a tenant writes there has no part in what is put back
        annotated = {"metadata": {"annotations": {"audit.resource-slack.io/former-limits": forged}}}
        backend.api.patch(path_of(raised_pod), annotated)


def test_a_burst_is_ordered_and_put_back_when_the_policy_wants_none(backend: Backend, real: Mapping[str, Real]) -> None:
    node = real["bursty"].node
    wait_until(lambda: node.burst_us == 5000, 120, "the burst in the node's tree", state=lambda: logs(real))
    wait_for_status(backend.api, "enforcer", lambda status: status["enforcement"]["bursts"] == 1, "one burst", 30)
    backend.api.apply(enforcing("Enforce", burst=False))
    wait_until(lambda: node.burst_us == 0, 60, "what was there before", state=lambda: logs(real))


def test_what_the_kubelet_says_is_the_outcome_and_infeasible_is_put_back(
    backend: Backend, fleet: Fleet, controller: Controller
) -> None:
    """kwok carries no resize out: the test says what a kubelet would."""
    entries = recorded(backend)
    first, second = (
        path_of(pod) for pod in backend.api.items("/api/v1/namespaces/shop/pods") if pod["metadata"]["uid"] in entries
    )
    found = backend.api.get(first)
    state = found["status"]["containerStatuses"][0] | {"resources": found["spec"]["containers"][0]["resources"]}
    backend.api.patch(f"{first}/status", {"status": {"containerStatuses": [state]}})
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "Node has no room"}
    conditions = [*backend.api.get(second)["status"].get("conditions", []), pending]
    backend.api.patch(f"{second}/status", {"status": {"conditions": conditions}})
    wait_until(lambda: controller.metric("slack_audit_resizes_total", outcome="done") == 1, 30, "the one to be done")
    wait_until(lambda: limit(backend.api.get(second)) == "200m", 30, "the other to be put back")
    uids = {path: backend.api.get(path)["metadata"]["uid"] for path in (first, second)}
    wait_until(lambda: uids[second] not in recorded(backend), 30, "its entry to be deleted")
    assert uids[first] in recorded(backend)
    assert limit(backend.api.get(first)) == "400m"


def test_a_pod_made_anew_under_the_same_name_is_not_touched(backend: Backend, identity: access.Access) -> None:
    """And a version of the pod that is not the newest is not overwritten."""
    twin = pod("twin", namespace="ads", schedulerName="nobody")  # on no node: kwok takes pods away by name only
    twin["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "200m"}
    old = backend.api.create(twin)
    (facts,) = decode_pods(json.dumps({"items": [old]}).encode())
    view = AuditedClusterView()
    view.put_pod(facts)
    known = view.pod(old["metadata"]["uid"])
    assert known is not None
    action = Action(ActionKind.RAISE, known, known.containers[0], 200, 400)
    path = path_of(old)
    backend.api.delete(path, grace_seconds=0)
    wait_until(lambda: backend.api.find(path) is None, 30, "the old one to be gone")
    backend.api.create(twin)
    connection = connect(identity.kubeconfig, None)
    writer = Writer(connection, threading.Event())
    record = LimitRecord(writer, NAMESPACE, may_write=lambda: True)
    assert record.read(view, time.time(), acting=True) is None
    resizer = Resizer(writer, record, may_write=lambda: True)
    with pytest.raises(KubeApiError) as refusal:
        resizer.raise_limit(action, "default", time.time())
    assert refusal.value.conflict or other_object(refusal.value)
    now = backend.api.get(path)
    assert limit(now) == "200m"
    assert not recorded(backend).keys() & {old["metadata"]["uid"], now["metadata"]["uid"]}
    patch = {"metadata": {"uid": now["metadata"]["uid"], "resourceVersion": "1"}, "spec": {"containers": []}}
    with pytest.raises(KubeApiError) as refusal:
        writer.strategic_patch(f"{path}/resize", patch)
    assert refusal.value.conflict
    connection.close()
    backend.api.delete(path, grace_seconds=0)


def test_revert_puts_everything_back(backend: Backend, controller: Controller, real: Mapping[str, Real]) -> None:
    backend.api.apply(enforcing("Revert"))
    wait_for_status(backend.api, "enforcer", lambda status: raised(status) == 0, "all put back", 60)
    for namespace in ENFORCED:
        for restored in backend.api.items(f"/api/v1/namespaces/{namespace}/pods"):
            assert limit(restored) in {"200m", "500m"}
    assert recorded(backend) == {}
    assert events(backend, "CPULimitRestored")
    backend.api.delete(f"{POLICIES}/enforcer")


def test_a_node_that_is_deleted_takes_its_findings_along(
    backend: Backend, fleet: Fleet, controller: Controller, real: Mapping[str, Real]
) -> None:
    """Its agent still reports for a while."""
    high = partial(controller.metric, "slack_audit_findings", severity="high", level="container")
    wait_until(lambda: high() == THROTTLED + 2, 60, "all findings", state=high)
    wait_until(lambda: reports(backend).get(REAL, {}).get("policy") == "default", 60, "the example's report")
    for name in real:
        backend.api.delete(f"/api/v1/nodes/real-{name}")
    wait_until(lambda: high() == THROTTLED, 60, "two findings fewer", state=high)
    assert controller.metric("slack_audit_nodes", state="reporting") == NODES
    assert controller.metric("slack_audit_nodes", state="silent") == 0
    # its policy stays, so that it is the controller that takes the report away, and not the garbage collector
    wait_until(lambda: REAL not in reports(backend), 60, "the report on nothing to be gone")


def test_two_policies_and_a_bad_one(backend: Backend, fleet: Fleet, controller: Controller) -> None:
    """The policy `default` is older; a spec that it cannot have is refused in the same words as the file check's."""
    the_example(backend)
    wait_until(lambda: reports(backend).get("shop", {}).get("policy") == "default", 60, "the example to have all")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    backend.api.apply(policy("younger", namespaceSelector=selector))
    found = wait_for_status(
        backend.api, "younger", lambda status: condition(status, "Overlapping")[0] == "True", "to say that it overlaps"
    )
    assert condition(found, "Overlapping") == ("True", "OlderPolicyWins", "shop belongs to the older policy default")
    assert found["namespaces"] == 0
    assert reports(backend)["shop"]["policy"] == "default"
    for spec, words in (
        ({"mode": "Enforce"}, "need enforce.resize (such as {}) or enforce.burst: true"),
        ({"thresholds": {"warnRatio": 0.5}}, "warnRatio is above highRatio"),
        ({"report": {"every": "10s"}}, "every must be from 1m to 24h"),
        ({"enforce": {"resize": {"maxAddedPerNamespace": "0"}}}, "maxAddedPerNamespace is not above 0"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "In and NotIn need values"),
        ({"window": "7m"}, "window"),
    ):
        with pytest.raises(ApiError, match=re.escape(words)) as refusal:
            backend.api.apply(policy("bad", **spec))
        assert refusal.value.status == 422
    backend.api.delete(f"{POLICIES}/default")
    wait_until(lambda: reports(backend).get("shop", {}).get("policy") == "younger", 30, "the younger one's report")
    wait_until(lambda: "ads" not in reports(backend), 30, "reports without a policy to be gone")
    backend.api.delete(f"{POLICIES}/younger")
    wait_until(lambda: not reports(backend), 30, "all reports to be gone")


def test_after_a_restart_of_the_api_server_reports_go_on(
    backend: Backend, fleet: Fleet, controller: Controller
) -> None:
    the_example(backend)
    backend.restart_apiserver(down_seconds=2.0)
    controller.outlive_the_api_server(backend.api)
    fleet.report_all(controller)
    wait_for_status(backend.api, "default", lambda status: status.get("high") == THROTTLED, "all findings", 60)


def test_a_lost_lease_ends_writes_and_the_process(
    backend: Backend, identity: access.Access, fleet: Fleet, controller: Controller
) -> None:
    first = controller
    with Controller(backend, identity, name="audit-standby") as second:
        wait_until(lambda: "does not lead" in second.get("/readyz")[1], 60, "the standby to wait")
        code, words = second.post(encode(fleet.report("node-0001")), token=fleet.tokens["node-0001"])
        assert (code, b"this replica does not lead; " in words) == (503, True)
        assert second.get("/healthz")[0] == 200
        lease = "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases/resource-slack-audit"
        backend.api.patch(lease, {"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 2}})
        lost_at = backend.audit_mark()
        wait_until(lambda: not first.program.running, 30, "the first to end")
        second.wait_until_ready(60)
        assert "the lease is lost" in first.program.log_path.read_text()
        began = time.monotonic()
        fleet.report_all(second)
        wait_for_status(backend.api, "default", lambda status: status.get("high") == THROTTLED, "all findings anew", 60)
        print(f"reports stood {time.monotonic() - began:.1f} s after agents reported to the new leader")
        assert lost_at < backend.audit_mark()


def test_the_rights_are_just_those_that_are_used(backend: Backend, fleet: Fleet, mark: int) -> None:
    """By the API server's audit log of this module: every right was used, and nothing else was asked."""
    granted = rbac.granted(rights(enforcement=True))
    entries = backend.audit_entries(user=USER, since=mark)
    without_watch_list = {("pods", "list"), ("nodes", "list"), ("namespaces", "list")}
    without_watch_list.add(("resource-slack.io/cpuauditreports", "list"))
    equal_lines_within_ten_minutes = {("events", "patch")}
    unused = {
        str(right)
        for right in granted - rbac.used(granted, entries)
        if (right.resource, right.verb) not in without_watch_list | equal_lines_within_ten_minutes
    }
    assert unused == set()
    assert {str(right) for right in rbac.refused(granted, entries)} == set()
    assert {entry.verb for entry in entries if entry.verb in audit_log.WRITES} <= {
        "create",
        "patch",
        "update",
        "delete",
    }
    assert status(backend.api, "default")
