"""Where a pod's containers stand: what the pod itself shows, joined with what its node's agent says."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.throttler.config import ThrottlePolicySpec
from slack.throttler.fsm import StartState
from slack.throttler.injection import DEPENDS_ON, ENABLED, GATE, Backend, patch, patch_by_config_map, variable
from slack.throttler.podspec.gate_container import GateOptions
from slack.throttler.podspec.shape import InvalidManifest
from slack.throttler.reports.messages import ContainerRow, NodeReport, SilentNode, View
from slack.throttler.reports.pod_facts import PodFacts
from slack.throttler.reports.pod_standing import AgentState, PodStanding, stand, stand_of_rows

OPTIONS = GateOptions(image="slack", agent_port=7472, agent_name="agent", authority="PEM")
HELD = {"waiting": {"reason": "CreateContainerConfigError"}}


def pod(*, gate: str | None = "60", needs: str | None = None, node: str = "n", **status: Any) -> dict[str, Any]:
    """Containers a, which is probed, and b, which is not."""
    containers: list[dict[str, Any]] = [{"name": "a", "startupProbe": {}}, {"name": "b"}]
    spec: dict[str, Any] = {"containers": containers, "nodeName": node}
    if gate is not None:
        for container in containers:
            container["env"] = [variable(container["name"])]
        spec["initContainers"] = [{"name": GATE, "env": [{"name": "THROTTLER_FAIL_OPEN_AFTER", "value": gate}]}]
    metadata = {"name": "p", "namespace": "shop", "uid": "u", "annotations": {DEPENDS_ON: needs} if needs else {}}
    return {"metadata": metadata, "spec": spec, "status": status}


def row(container: str, state: StartState, **more: Any) -> ContainerRow:
    return ContainerRow(namespace="shop", pod="p", uid="u", container=container, state=state, **more)


def told(
    found: dict[str, Any], *rows: ContainerRow, spec: ThrottlePolicySpec | None = None, **report: Any
) -> PodStanding:
    """Stand with a report of the pod's node."""
    node = NodeReport(**{"node": "n", "at": 9.0, "policy": "default", "slots": 2, "containers": rows, **report})
    return stand(PodFacts.from_manifest(found), View(at=10.0, reports=(node,)), spec=spec)


def ends(found: PodStanding, name: str) -> list[str]:
    return [end.text for container in found.containers if container.name == name for end in container.ends]


def test_what_the_webhook_makes_is_known_again() -> None:
    given_pod = pod(gate=None)
    for operation in patch(given_pod, OPTIONS):
        if operation["path"] == "/spec/initContainers":
            given_pod["spec"]["initContainers"] = operation["value"]
        elif "/env" in operation["path"]:
            given_pod["spec"]["containers"][int(operation["path"].split("/")[3])]["env"] = operation["value"]
    facts = PodFacts.from_manifest(given_pod)
    assert (facts.backend, facts.fail_open_after_seconds) == (Backend.FILE, 60.0)
    assert [container.gated for container in facts.containers] == [True, True]


def test_permits_in_a_config_map_are_known_again() -> None:
    given_pod = pod(gate=None)
    for operation in patch_by_config_map(given_pod, "permits"):
        if operation["path"].startswith("/metadata"):
            given_pod["metadata"]["annotations"] = operation["value"]
        else:
            given_pod["spec"]["containers"][int(operation["path"].split("/")[3])]["env"] = operation["value"]
    found = told(given_pod, row("a", StartState.PENDING, position=1))
    assert (found.backend, found.fail_open_after_seconds) == (Backend.CONFIGMAP, None)
    assert ends(found, "a") == ["the policy lets one start"]


def test_a_dependency_that_is_ready_is_not_waited_for() -> None:
    given_pod = pod(
        needs='{"b": ["a"]}',
        containerStatuses=[{"name": "a", "ready": True, "started": True, "state": {"running": {}}}],
    )
    found = told(given_pod, row("b", StartState.BLOCKED, reason="the kubelet backs off"))
    assert ends(found, "b")[0] == "the kubelet's back-off is over"
    found = told(given_pod, row("a", StartState.STARTING), row("b", StartState.BLOCKED))
    assert ends(found, "b")[0] == "a is ready; minRate does not help"
    assert [container.depends_on for container in found.containers] == [(), ("a",)]


def test_two_that_are_not_ready_are_both_named() -> None:
    given_pod = pod(needs='{"c": ["a", "b"]}')
    given_pod["spec"]["containers"].append({"name": "c", "env": [variable("c")]})
    assert ends(told(given_pod, row("c", StartState.BLOCKED)), "c")[0] == "a and b are ready; minRate does not help"


@pytest.mark.parametrize(("text", "seconds"), [("60", 60.0), ("soon", None), ("", None)])
def test_a_gate_without_a_time_promises_none(text: str, seconds: float | None) -> None:
    found = told(pod(gate=text), row("a", StartState.PENDING, position=1))
    assert found.fail_open_after_seconds == seconds
    assert len(ends(found, "a")) == (1 if seconds is None else 2)


def test_the_kubelet_s_own_words_are_kept() -> None:
    terminated = {"terminated": {"reason": "Error", "exitCode": 3}}
    given_pod = pod(containerStatuses=[{"name": "a", "state": terminated}, {"name": "b", "state": HELD}])
    facts = PodFacts.from_manifest(given_pod)
    assert [container.kubelet for container in facts.containers] == [
        "it has ended: Error, exit code 3",
        "it waits: CreateContainerConfigError",
    ]
    assert [container.kubelet for container in PodFacts.from_manifest(pod()).containers] == ["nothing yet"] * 2
    running = pod(containerStatuses=[{"name": "a", "state": {"running": {}}}, {"name": "b", "state": {"waiting": {}}}])
    assert [container.kubelet for container in PodFacts.from_manifest(running).containers] == [
        "it runs, and is not ready",
        "it waits: no reason",
    ]


def test_a_pod_of_the_throttler_s_own_namespace_is_never_gated() -> None:
    found = stand(PodFacts.from_manifest(pod(gate=None)), None, never_gated=frozenset({"shop"}))
    assert found.reasons[0].endswith("pods of namespace shop never are")
    assert found.agent is AgentState.NOT_ASKED


def test_a_silent_agent_s_last_report_is_told_with_its_time() -> None:
    silent = View(at=10.0, silent=(SilentNode(node="n", at=4.0),))
    found = stand(PodFacts.from_manifest(pod()), silent)
    assert (found.agent, found.heard_at, found.starting) == (AgentState.SILENT, 4.0, None)
    assert stand(PodFacts.from_manifest(pod()), View(at=1.0)).agent is AgentState.UNHEARD
    assert stand(PodFacts.from_manifest(pod()), None).agent is AgentState.UNKNOWN


def test_a_late_container_is_told_what_becomes_of_its_pod() -> None:
    deletes = ThrottlePolicySpec.model_validate({"startTimeout": {"then": "Delete"}})
    for spec, words in ((None, "its slot is free, and it runs on"), (deletes, "its pod is evicted")):
        found = told(pod(), row("a", StartState.STARTING, until=20.0), spec=spec)
        assert ends(found, "a")[1] == f"startTimeout is over: {words}"


def test_rows_alone_are_told_too() -> None:
    report = NodeReport(node="n", at=9.0, containers=(row("a", StartState.PENDING, position=1, until=12.0),))
    found = stand_of_rows(View(at=10.0, reports=(NodeReport(node="m", at=1.0), report)))
    assert (found.node, found.policy, found.agent) == ("n", None, AgentState.REPORTS)
    assert ends(found, "a") == ["minRate forces its start"]
    nobody = stand_of_rows(View(at=10.0))
    assert (nobody.agent, nobody.containers) == (AgentState.UNKNOWN, ())


@pytest.mark.parametrize(
    ("annotation", "asks", "words"),
    [
        ("true", False, "its annotation throttler.resource-slack.io/enabled asks for a gate"),
        (None, True, "its namespace's label throttler.resource-slack.io/enabled asks for a gate"),
        (None, None, "whether its namespace has that label cannot be seen"),
        (None, False, "neither its namespace has the label throttler.resource-slack.io/enabled=true nor it that"),
        ("false", True, "its annotation throttler.resource-slack.io/enabled is false"),
    ],
)
def test_why_a_pod_is_not_gated(annotation: str | None, asks: bool | None, words: str) -> None:
    given_pod = pod(gate=None)
    if annotation is not None:
        given_pod["metadata"]["annotations"] = {ENABLED: annotation}
    assert words in stand(PodFacts.from_manifest(given_pod), None, namespace_asks=asks).reasons[0]


def test_a_pod_without_a_node_is_paced_by_nobody() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "too many pods"}
    found = stand(PodFacts.from_manifest(pod(node="", conditions=[condition])), None)
    assert found.reasons == ("no node is chosen for it yet, so nobody paces it: too many pods",)
    assert stand(PodFacts.from_manifest(pod(node="")), None).reasons == (
        "no node is chosen for it yet, so nobody paces it",
    )


def test_the_node_without_a_policy_is_told() -> None:
    assert told(pod(), policy="").reasons == (
        "no ThrottlePolicy is about node n: nothing is held back there but by dependencies",
    )


def test_a_hold_ends_the_start_of_one_without_a_probe() -> None:
    runs = pod(containerStatuses=[{"name": "b", "state": {"running": {}}}])
    assert ends(told(runs, row("b", StartState.STARTING, until=12.0)), "b") == [
        "noProbeHold is over, for it has no startup or readiness probe"
    ]
    assert ends(told(pod(), row("b", StartState.STARTING, until=12.0)), "b") == [
        "it runs, and noProbeHold is over",
        "startTimeout is over, should it not run by then",
    ]


def test_a_container_that_is_not_gated_is_told_with_its_kubelet_alone() -> None:
    given_pod = pod(containerStatuses=[{"name": "debug", "ready": True, "state": {"running": {}}}])
    given_pod["spec"]["containers"].append({"name": "debug"})
    debug = told(given_pod).containers[-1]
    assert (debug.gated, debug.state, debug.kubelet) == (False, None, "it runs, and is ready")


@pytest.mark.parametrize(
    ("broken", "field"),
    [({"metadata": 3}, "metadata"), ({"spec": {"nodeName": 3}}, "nodeName"), ({"spec": None}, "spec")],
)
def test_what_is_no_pod_is_refused_by_its_field(broken: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidManifest, match=field):
        PodFacts.from_manifest({**pod(), **broken})


_STATES = st.sampled_from(StartState)
_ROWS = st.builds(
    row,
    st.sampled_from(["a", "b", "gone"]),
    _STATES,
    position=st.integers(0, 3),
    until=st.none() | st.floats(1, 100),
    forced=st.booleans(),
)


@given(rows=st.lists(_ROWS, max_size=3), needs=st.none() | st.sampled_from(['{"b": ["a"]}', '{"a": ["a"]}', "x"]))
def test_whoever_is_not_ready_is_told_what_would_end_it(rows: list[ContainerRow], needs: str | None) -> None:
    found = told(pod(needs=needs), *rows)
    known = {given_row.container: given_row for given_row in rows}
    for container in found.containers:
        assert (container.state is None) == (container.name not in known)
        assert bool(container.ends) == (container.state not in (None, StartState.READY))
    assert len(found.containers) == len(set(itertools.chain(c.name for c in found.containers))) == 2
