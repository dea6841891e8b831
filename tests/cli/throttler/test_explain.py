"""`throttler explain`: where containers stand, why, what would end it; and what is told without the controller."""

import json
from pathlib import Path
from typing import Any

import pytest

from slack.cluster.labels import API_VERSION
from slack.throttler.fsm import StartState
from slack.throttler.injection import (
    DEPENDS_ON,
    ENABLED,
    VARIABLE,
    GateOptions,
    gate_container,
    patch_by_config_map,
    variable,
)
from slack.throttler.reports.messages import SilentNode, View, encode
from tests.cli.conftest import Result, Run
from tests.cli.test_documents import as_declared, golden
from tests.cli.test_uninstall import config
from tests.cli.throttler.viewing import NOW, POLICIES, controller, lease, report, row, shown, token, view, viewer_token
from tests.kube.fake_api import FakeApi, Reply

EXPLAIN = ("throttler", "explain", "-n", "shop", "pod/api-0", "--kubeconfig", "config")
POD = "/api/v1/namespaces/shop/pods/api-0"
_OPTIONS = GateOptions(image="slack", agent_port=7472, agent_name="agent", authority="PEM", fail_open_after_seconds=60)
NOW_ISO = "2027-01-15T08:00:00Z"


class Stopped:
    """A clock that stands still."""

    @staticmethod
    def time() -> float:
        return NOW


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.cli.throttler.explain.time", Stopped)


def pod(
    *, gate: bool = True, depends_on: str | None = '{"web": ["api"]}', node: str | None = "node-1", **more: Any
) -> dict[str, Any]:
    """api, which is probed, web, which is not, and debug, which is not gated."""
    containers: list[dict[str, Any]] = [
        {"name": "api", "image": "a", "readinessProbe": {"exec": {"command": ["true"]}}},
        {"name": "web", "image": "a"},
        {"name": "debug", "image": "a"},
    ]
    spec: dict[str, Any] = {"containers": containers, **({"nodeName": node} if node else {})}
    if gate:
        for container in containers[:2]:
            container["env"] = [variable(container["name"])]
        spec["initContainers"] = [gate_container(spec, ["api", "web"], _OPTIONS)]
    annotations = {DEPENDS_ON: depends_on} if depends_on else {}
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError"}}}
    statuses = [
        {"name": "api", **waiting},
        {"name": "web", **waiting},
        {"name": "debug", "ready": True, "started": True, "state": {"running": {"startedAt": NOW_ISO}}},
    ]
    status = {"phase": "Pending", "containerStatuses": statuses}
    found = {"metadata": {"annotations": annotations}, "spec": spec, "status": status}
    return {part: {**found[part], **more.get(part, {})} for part in found}


def rows(*found: Any, **more: Any) -> View:
    """A view of the pod's node with these rows of it."""
    return view(report(containers=tuple(found), **more))


def ours(container: str, state: StartState, **more: Any) -> Any:
    """A row of the pod."""
    return row("api-0", container, state, uid="uid-101", **more)


def explained(
    run: Run, tmp_path: Path, given: dict[str, Any], *gets: Reply, words: tuple[str, ...] = (), **spec: Any
) -> Result:
    """Explain a pod; the other GETs get these answers."""
    with FakeApi() as api:
        made = api.put(POD, **given)
        policy = {"apiVersion": API_VERSION, "kind": "ThrottlePolicy", "metadata": {"name": "default"}, "spec": spec}
        answers = [Reply(200, made), *gets]
        if len(gets) > 1:
            answers.append(Reply(200, policy))
        api.script("get", *answers)
        api.script("post", token())
        config(api, tmp_path)
        return run(*EXPLAIN, *words)


def lines(found: Result) -> list[str]:
    """What was printed, without blank lines."""
    assert found.stderr == ""
    return [line.strip() for line in found.stdout.splitlines() if line.strip()]


WAITING = rows(
    ours("api", StartState.PENDING, position=2, reason="1 before it; 2 start, and 2 may", until=NOW + 34),
    ours("web", StartState.BLOCKED, reason="depends on api (pending)"),
)


def test_each_container_is_told_with_its_place_why_it_waits_and_what_ends_it(run: Run, tmp_path: Path) -> None:
    found = explained(run, tmp_path, pod(), lease(), shown(WAITING))
    assert found.code == 0
    assert lines(found) == [
        "shop/api-0 on node-1: 1 pending, 1 blocked (backend file)",
        "node      policy default; 1 starting, of 2 that may",
        "api  pending, for 30s, place 2 in the queue",
        "why       1 before it; 2 start, and 2 may",
        "ends when those before it have started, and one may",
        "or        minRate forces its start (in 34s)",
        "or        its gate hears of no agent that sees its pods for 60 s",
        "kubelet   it waits: CreateContainerConfigError",
        "web  blocked, for 30s",
        "why       depends on api (pending)",
        "needs     api (pending)",
        "ends when api is ready; minRate does not help",
        "or        its gate hears of no agent that sees its pods for 60 s",
        "kubelet   it waits: CreateContainerConfigError",
    ]


def test_only_the_pod_s_node_is_asked_about(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        made = api.put(POD, **pod())
        api.script("get", Reply(200, made), lease(), shown(WAITING), Reply.status(403))
        api.script("post", token())
        config(api, tmp_path)
        found = run(*EXPLAIN)
        assert next(seen.query for seen in api.seen if "proxy" in seen.path) == {"node": "node-1"}
        assert api.last("get").path == f"{POLICIES}/default"
    assert found.code == 0, found.stderr
    assert "not seen  throttlepolicy default: not allowed to see it: needs get of throttlepolicies" in found.stdout


def test_the_document_is_as_it_is_published(run: Run, tmp_path: Path) -> None:
    found = explained(run, tmp_path, pod(), lease(), shown(WAITING), words=("-o", "json"))
    assert found.code == 0, found.stderr
    document = json.loads(found.stdout)
    as_declared("throttler-explain", document)
    golden("throttler-explain", document)


def test_a_container_that_is_not_gated_is_shown_where_wide_is(run: Run, tmp_path: Path) -> None:
    found = explained(run, tmp_path, pod(), lease(), shown(WAITING), words=("-o", "wide"))
    assert lines(found)[-2:] == ["debug  not gated", "kubelet   it runs, and is ready"]


@pytest.mark.parametrize(
    ("row_of_api", "spec", "ends"),
    [
        (
            ours("api", StartState.DOWNLOADING),
            {},
            ["its image is there, its kubelet would start it, and its gate has asked"],
        ),
        (ours("api", StartState.PENDING, position=1), {}, ["the policy lets one start"]),
        (
            ours("api", StartState.PENDING, position=1),
            {"minRate": None},
            ["the policy lets one start", "nothing else: minRate is off, so that no start is forced"],
        ),
        (ours("api", StartState.BLOCKED, reason="the kubelet backs off"), {}, ["the kubelet's back-off is over"]),
        (
            ours("api", StartState.STARTING, until=NOW + 200),
            {},
            [
                "its startup or readiness probe succeeds",
                "startTimeout is over: its slot is free, and it runs on (in 3m)",
            ],
        ),
        (
            ours("api", StartState.STARTING, until=NOW + 200),
            {"startTimeout": {"after": "5m", "then": "Delete"}},
            ["its startup or readiness probe succeeds", "startTimeout is over: its pod is evicted (in 3m)"],
        ),
        (
            ours("api", StartState.FAILED),
            {},
            ["its startup or readiness probe succeeds after all; it holds no slot meanwhile"],
        ),
    ],
)
def test_what_ends_each_state(run: Run, tmp_path: Path, row_of_api: Any, spec: dict[str, Any], ends: list[str]) -> None:
    found = explained(run, tmp_path, pod(depends_on=None), lease(), shown(rows(row_of_api)), **spec)
    assert found.code == 0, found.stderr
    said = [line[10:].strip() for line in lines(found) if line.startswith(("ends when", "or        "))]
    opens = ["its gate hears of no agent that sees its pods for 60 s"]
    assert said == (ends if row_of_api.state in (StartState.STARTING, StartState.FAILED) else ends + opens)


def test_the_policy_s_own_fail_open_time_is_told(run: Run, tmp_path: Path) -> None:
    found = explained(run, tmp_path, pod(), lease(), shown(WAITING), failOpenAfter="90s")
    assert "or        its gate hears of no agent that sees its pods for 90 s" in lines(found)


def test_without_a_probe_a_hold_ends_the_start(run: Run, tmp_path: Path) -> None:
    given = pod(depends_on=None)
    given["status"]["containerStatuses"][1]["state"] = {"running": {}}
    starting = rows(ours("web", StartState.STARTING, until=NOW + 3))
    found = explained(run, tmp_path, given, lease(), shown(starting))
    assert "ends when noProbeHold is over, for it has no startup or readiness probe (in 3s)" in lines(found)
    found = explained(run, tmp_path, pod(depends_on=None), lease(), shown(starting))
    assert "ends when it runs, and noProbeHold is over" in lines(found)
    assert "or        startTimeout is over, should it not run by then (in 3s)" in lines(found)


def test_a_pod_whose_containers_are_ready_needs_no_rows(run: Run, tmp_path: Path) -> None:
    given = pod()
    for status in given["status"]["containerStatuses"]:
        status |= {"ready": True, "started": True, "state": {"running": {}}}
    found = explained(run, tmp_path, given, lease(), shown(rows()))
    assert lines(found)[0] == "shop/api-0 on node-1: 2 ready (backend file)"


def test_rows_of_a_former_pod_of_that_name_are_not_its_own(run: Run, tmp_path: Path) -> None:
    former = row("api-0", "api", StartState.FAILED, uid="another")
    found = explained(run, tmp_path, pod(), lease(), shown(rows(former)))
    assert lines(found)[0] == "shop/api-0 on node-1: 2 not known (backend file)"


def test_a_cycle_is_told_and_that_only_its_end_ends_it(run: Run, tmp_path: Path) -> None:
    given = pod(depends_on='{"api": ["web"], "web": ["api"]}')
    held = rows(ours("api", StartState.BLOCKED, since=0.0, reason="api: depends on itself: api -> web -> api"))
    found = explained(run, tmp_path, given, lease(), shown(held))
    assert (
        f"! its annotation {DEPENDS_ON} cannot be kept: api: depends on itself: api -> web -> api; its" in found.stdout
    )
    assert "ends when the annotation is corrected, and the pod made anew" in lines(found)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (rows(policy=""), "! no ThrottlePolicy is about node node-1: nothing is held back there but by dependencies"),
        (
            view(silent=(SilentNode(node="node-1", policy="default", at=NOW - 300),)),
            "! the agent of node node-1 does not report any more: does its pod run?; its gate lets all start after",
        ),
        (
            view(silent=(SilentNode(node="node-1", reason="the watch is refused"),)),
            "! the agent of node node-1 does not see the node's pods: the watch is refused; its gate lets all start",
        ),
        (
            view(silent=(SilentNode(node="node-2"),)),
            "! no agent of node node-1 has reported: does one of the throttler's",
        ),
    ],
)
def test_what_is_wrong_with_its_node_is_told(run: Run, tmp_path: Path, seen: View, words: str) -> None:
    found = explained(run, tmp_path, pod(), lease(), shown(seen))
    assert found.code == 0
    assert words in found.stdout


@pytest.mark.parametrize(
    ("given", "labels", "words"),
    [
        (pod(gate=False), {}, "neither its namespace has the label"),
        (pod(gate=False), {ENABLED: "true"}, f"its namespace's label {ENABLED} asks for a gate, and none was there"),
        (
            pod(gate=False, metadata={"annotations": {ENABLED: "true"}}),
            {},
            f"its annotation {ENABLED} asks for a gate, and none was there",
        ),
        (pod(gate=False, metadata={"annotations": {ENABLED: "false"}}), {}, f"its annotation {ENABLED} is false"),
        (pod(gate=False), None, "whether its namespace has that label cannot be seen"),
    ],
)
def test_a_pod_without_a_gate_is_told_why_and_nobody_else_is_asked(
    run: Run, tmp_path: Path, given: dict[str, Any], labels: dict[str, str] | None, words: str
) -> None:
    namespace = Reply.status(403) if labels is None else Reply(200, {"metadata": {"name": "shop", "labels": labels}})
    found = explained(run, tmp_path, given, namespace)
    assert found.code == 0, found.stderr
    assert lines(found)[0] == "shop/api-0 on node-1: no gated container"
    assert "it is not gated, and starts as it would without a throttler: " in found.stdout
    assert words in found.stdout


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "system-node-critical"}, "its priority class is system-node-critical"),
        ({"hostNetwork": True}, "it is on its node's network"),
    ],
)
def test_an_exempt_pod_is_told_why(run: Run, tmp_path: Path, spec: dict[str, Any], words: str) -> None:
    namespace = Reply(200, {"metadata": {"name": "shop", "labels": {ENABLED: "true"}}})
    found = explained(run, tmp_path, pod(gate=False, spec=spec), namespace)
    assert words in found.stdout


def test_a_pod_without_a_node_is_told_with_what_the_scheduler_says(run: Run, tmp_path: Path) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    given = pod(node=None, status={"conditions": [condition], "containerStatuses": []})
    found = explained(run, tmp_path, given)
    assert found.code == 0
    assert "! no node is chosen for it yet, so nobody paces it: 0/3 nodes are available" in lines(found)


def test_a_pod_that_has_ended_or_is_being_deleted_is_told_so(run: Run, tmp_path: Path) -> None:
    given = pod(status={"phase": "Failed"}, metadata={"deletionTimestamp": NOW_ISO})
    assert lines(explained(run, tmp_path, given))[1:3] == [
        "! it has ended (Failed): nothing of it starts any more",
        "! it is being deleted",
    ]


def test_the_backend_configmap_is_told_and_who_lets_it_start_without_an_agent(run: Run, tmp_path: Path) -> None:
    given = pod(gate=False, depends_on=None, metadata={"name": "api-0"})
    for operation in patch_by_config_map(given, "permits"):
        place = operation["path"].split("/")
        if place[1] == "metadata":
            given["metadata"]["annotations"] = operation["value"] | {}
        else:
            given["spec"]["containers"][int(place[3])]["env"] = operation["value"]
    assert VARIABLE in json.dumps(given)
    found = explained(run, tmp_path, given, lease(), shown(WAITING))
    assert lines(found)[0] == "shop/api-0 on node-1: 1 pending, 1 blocked, 1 ready (backend configmap)"
    assert "the controller hears of no agent that sees its pods for 60 s" in found.stdout
    assert "its gate" not in found.stdout


def test_without_the_controller_the_pod_is_told_and_what_lacked_and_it_ends_with_3(run: Run, tmp_path: Path) -> None:
    found = explained(run, tmp_path, pod(), Reply.status(404))
    assert found.code == 3
    told = lines(found)
    assert told[0] == "shop/api-0 on node-1: 2 not known (backend file)"
    assert told[1].startswith("not seen  what its node's agent says: ")
    assert "is the throttler installed (throttler.enabled=true)?" in told[1]
    assert "needs     api (not known)" in told
    assert "kubelet   it waits: CreateContainerConfigError" in told


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply.status(404), "pod shop/api-0: there is none of this name"),
        (Reply.status(403), "pod shop/api-0: not allowed to see it: needs get of pods in namespace shop"),
        (
            Reply(200, {"metadata": {"name": "a"}, "spec": {"containers": 3}}),
            "pod shop/api-0: spec.containers: expected",
        ),
        (Reply(200, {"metadata": {"name": "a"}, "spec": {"nodeName": 3}}), "pod shop/api-0: "),
        (Reply(200, {"metadata": {"name": "a"}}), "pod shop/api-0: "),
    ],
)
def test_a_pod_that_cannot_be_read_is_bad_input(run: Run, tmp_path: Path, reply: Reply, words: str) -> None:
    with FakeApi() as api:
        api.script("get", reply)
        config(api, tmp_path)
        found = run(*EXPLAIN)
        assert found.stderr.startswith(f"error: http://127.0.0.1:{api.port}: {words}")
    assert (found.code, found.stdout) == (2, "")


@pytest.mark.parametrize("given", ["deploy/api", "pod/", "a/b/c", ""])
def test_only_pods_are_explained(run: Run, given: str) -> None:
    found = run("throttler", "explain", given)
    assert found.code == 2
    assert "is no pod; write one such as pod/api-0" in found.stderr


def test_the_controller_alone_is_asked_where_there_is_no_api_server(run: Run, tmp_path: Path) -> None:
    asked = ("throttler", "explain", "-n", "shop", "api-0", "--token-file", viewer_token(tmp_path))
    with controller(encode(WAITING)) as address:
        found = run(*asked, "--controller", address)
    assert found.code == 0, found.stderr
    assert lines(found)[0] == "shop/api-0 on node-1: 1 pending, 1 blocked"
    assert "not seen  the pod itself: " in found.stdout
    assert "ends when minRate forces its start (in 34s)" in lines(found)
    with controller(encode(view())) as address:
        found = run(*asked, "--controller", address)
    assert found.code == 3
    assert "! no agent has a container of it that waits or starts" in lines(found)


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_a_hostile_name_or_reason_does_nothing_to_a_terminal(run: Run, tmp_path: Path, output: str) -> None:
    evil = "\x1b[2J[red]x[/red]\x9b31m\u202e\r\n\x07"
    given = pod(status={"containerStatuses": [{"name": "api", "state": {"waiting": {"reason": evil}}}]})
    hostile = rows(ours("api", StartState.PENDING, position=1, reason=evil), policy=evil)
    found = explained(run, tmp_path, given, lease(), shown(hostile), words=("-o", output))
    assert found.code == 0, found.stderr
    assert all(char.isprintable() or char == "\n" for char in found.stdout + found.stderr)
    assert "[red]x[/red]" in found.stdout
