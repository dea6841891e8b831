"""For each trouble `kubectl get`, `status`, the page and the alert say the same cause and the same remedy in time."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slack.cluster.hold import Hold
from slack.health.answer import Health
from slack.health.observation import ObservedPlaceholder, StatusObservation
from slack.health.reasons import advice_on
from slack.health.verdict import assess
from slack.planner.policy.crd import PRINTER_COLUMNS
from slack.process.reasons import Level
from slack_operator.web.documents import PageDocument
from slack_operator.web.page_state import About, PageState
from slack_operator.web.state import state_of
from tests.health.build import lease
from tests.operator.fakes import NAMESPACE
from tests.operator.on_call import SCENES, STEP_SECONDS, Scene, begun, play
from tests.operator.placeholders.test_kstatus import Cluster
from tools.monitoring.rules import GROUPS, alerts

IN_BOTH_FORMS = pytest.mark.usefixtures("hold")
ROOT = Path(__file__).resolve().parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
ABSENT = "OperatorAbsent"
"""Nobody is there to write a status, so `kubectl get` shows what was said last, as docs say; the lease tells `status`
and the page of a standby, its metric the alert."""
VACANT_SECONDS = 60.0


def column(item: dict[str, Any], name: str) -> str | None:
    """What `kubectl get slackpolicies -o wide` prints; the columns in question have plain paths."""
    (path,) = [known["jsonPath"] for known in PRINTER_COLUMNS if known["name"] == name]
    found: Any = item
    for part in path.removeprefix(".").split("."):
        found = found.get(part, {})
    return found or None


def status_command(world: Cluster) -> Health:
    item = world.item()
    pods = tuple(
        ObservedPlaceholder("web", pod["metadata"]["labels"]["resource-slack.io/shape"], pod["spec"].get("nodeName"))
        for pod in world.placeholders().values()
    )
    now = datetime.fromtimestamp(world.wall.now, UTC)
    held = lease(age=2.0 if world.leading else VACANT_SECONDS, now=now)
    seen = StatusObservation((item,), True, pods, held, True, 1, ())
    return assess(seen, now=world.wall.now, namespace=NAMESPACE, lease_name="resource-slack")


def page(board: PageState, world: Cluster) -> PageDocument:
    version, reconciliation, figures = board.last()
    vacant = None if world.leading else VACANT_SECONDS
    about = replace(board.about, leader=lambda: "op-1" if world.leading else "", vacant_seconds=lambda: vacant)
    return state_of(version, reconciliation, figures, about, now=world.wall.now, nodes_version=1, port=8081)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.name))
def test_each_face_says_the_same_cause_and_the_same_remedy(scene: Scene, hold: Hold) -> None:
    world = begun()
    board = PageState(About("op-1_a", NAMESPACE, "1", 10.0))
    world.on_reconciled = board.show
    play(scene, world, max(1, int(scene.within_seconds // STEP_SECONDS)))
    said, shown = status_command(world), page(board, world)
    (policy,) = said.policies
    if hold is Hold.UNBOUND and scene.state == "RescueFailed":
        assert column(world.item(), "SLACK") == "Reserved", "nobody is rescued where nothing is bound"
        return
    remedy = advice_on(scene.state, NAMESPACE)
    if scene.state == ABSENT:
        (finding,) = said.operator_findings
        assert (finding.reason, finding.text.partition(":")[0]) == (scene.state, "no operator leads")
        assert str(finding.advice).startswith(remedy)
        assert (policy.state.name, policy.state.remedy, policy.state.calm) == (scene.state, remedy, False)
        assert policy.headline.startswith("not known since 2027-01-15T")
        assert (said.good, policy.good, policy.satisfied, said.satisfied) == (False, False, None, None)
        assert [finding.level for finding in policy.findings if finding.level is Level.TROUBLE] == []
        assert (shown.leading, shown.leader, shown.vacant_remedy) == (False, "", remedy)
        assert shown.vacant_since == world.wall.now - VACANT_SECONDS
        assert column(world.item(), "SLACK") == "Reserved", "what was said last stays: nobody is there to take it back"
        return
    assert column(world.item(), "SLACK") == scene.state
    assert (column(world.item(), "REMEDY") or "") == remedy
    assert (policy.state.name, policy.state.remedy, said.good) == (scene.state, remedy, scene.alert is None)
    assert policy.state.calm == (scene.alert is None)
    troubles = {finding.reason: finding.advice for finding in policy.findings if finding.level is Level.TROUBLE}
    assert troubles == ({} if scene.alert is None else {scene.state: remedy}), "one cause, and nothing beside it"
    if scene.state == "NotWhole":
        assert (bool(shown.stale), shown.stale_remedy) == (True, remedy)
    else:
        (view,) = shown.policies
        assert (view.slack.name, view.slack.remedy, view.slack.calm) == (scene.state, remedy, scene.alert is None)


@pytest.mark.parametrize("scene", [s for s in SCENES if s.alert], ids=lambda scene: str(scene.name))
def test_the_alerts_runbook_names_the_cause_and_its_remedy(scene: Scene) -> None:
    assert scene.alert in {alert.name for alert in alerts(GROUPS)}
    text = " ".join((RUNBOOKS / f"{scene.alert}.md").read_text().split())
    assert f"`{scene.state}`: {advice_on(scene.state, NAMESPACE)}" in text


@IN_BOTH_FORMS
def test_a_burst_is_a_calm_refill_for_as_long_as_a_node_takes_and_then_an_alarm() -> None:
    world = begun()
    full = next(scene for scene in SCENES if scene.state == "NoWord")
    states: list[str] = []
    play(full, world, 6, lambda world: states.append(str(column(world.item(), "SLACK"))))
    assert states[0] == "Refilling"
    assert states[-1] == "NoWord"
    assert states == sorted(states, key=["Refilling", "NoWord"].index)
