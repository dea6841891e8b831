"""A dry run of a cluster says the size that its operator keeps for an objective, or why that is not known."""

import json
from pathlib import Path
from typing import Any

import pytest

from slack.cli.inputs.learned_state import NOT_IN_A_SNAPSHOT, amounts, read_histories
from slack.cli.inputs.measured import PolicyMeasurement
from slack.kube.errors import ApiError, Unreachable
from slack.planner.objective.history_object import learnt
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective, parse_policy
from tests.cli.build import slack_policy
from tests.cli.conftest import Policy, Run

START = 1_767_571_200.0
OBJECTIVE = {"instantStart": 0.9}
POLICY = parse_policy(slack_policy({"objective": OBJECTIVE}, "web"), source="web")


def taught() -> Learner:
    """Four pods of half a core come every half hour, and stay for five minutes."""
    learner = Learner()
    for minute in range(8 * 60):
        there, come = (8 if minute % 30 < 5 else 4), (4 if minute % 30 == 0 else 0)
        arrived = {(500, 1 << 30): come} if come else {}
        requested = (there * 500, there << 30)
        turn = Turn(START + 60 * minute, requested, there, 120.0, arrived, come, come)
        learner.observe(turn, Objective(instant_start=0.9))
    return learner


def history(uid: str = "uid-web", **kept: Any) -> dict[str, Any]:
    owners = [{"kind": "SlackPolicy", "name": "web", "uid": uid}]
    written = {**learnt(taught(), "2026-01-05T08:00:00Z"), **kept}
    return {"metadata": {"name": "web", "ownerReferences": owners}, "learnt": written}


class Server:
    """Answers each read with one thing."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def request(self, _method: str, path: str, **_: Any) -> bytes:
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()


def read(answer: Any) -> Any:
    return read_histories(Server(answer), "slack-system", ["web"])  # type: ignore[arg-type]


def test_what_the_operator_has_learnt_is_what_the_plan_takes() -> None:
    server = Server(history())
    found = read_histories(server, "slack-system", ["web"])  # type: ignore[arg-type]
    assert server.asked == ["/apis/resource-slack.io/v1alpha1/namespaces/slack-system/slackhistories/web"]
    at = START + 7.9 * 3600
    (amount,) = amounts([POLICY], {"web": "uid-web"}, found, {}, at).values()
    assert amount.why.known
    assert amount.cpu_millis == 3000, "what four pods need, and half again, as all of them were late"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            ApiError(404, "NotFound", "not found"),
            "nothing is learnt yet, there is no SlackHistory web of namespace slack",
        ),
        (ApiError(403, "Forbidden", "you may not"), "cannot be read: 403 Forbidden: you may not"),
        (history(uid="uid-of-an-earlier-one"), "is not of this policy"),
        (history(state="by hand"), "learnt.state of SlackHistory web is no base64"),
    ],
)
def test_what_is_not_known_leaves_the_rate_and_says_why(answer: Any, said: str) -> None:
    (amount,) = amounts([POLICY], {"web": "uid-web"}, read(answer), {}, START).values()
    assert not amount.why.known
    assert said in str(amount.why.lacking)


def test_a_server_that_does_not_answer_is_an_error_and_no_unknown_past() -> None:
    with pytest.raises(Unreachable):
        read(Unreachable("gone"))


def test_a_policy_with_a_rate_asks_for_nothing_learnt() -> None:
    rated = parse_policy(slack_policy({}, "plain"), source="plain")
    assert amounts([rated], {}, {}, {}, START) == {}


def test_a_snapshot_says_that_it_is_not_known_and_shows_what_the_rate_keeps(
    run: Run, cluster: Path, policy: Policy
) -> None:
    given = policy({"objective": OBJECTIVE}, "web")
    asked = ("--snapshot", cluster, "-f", given)
    (item,) = json.loads(run("plan", *asked, "-o", "json").stdout)["items"]
    assert item["objective"]["instant_start"] == 0.9
    assert item["objective"]["known"] is False
    assert NOT_IN_A_SNAPSHOT in item["objective"]["why"]
    assert item["desired"]["cpu_millis"] == 300, "a tenth of what runs"
    table = run("plan", *asked).stdout
    assert f"why      for 90 %: the rate holds ({NOT_IN_A_SNAPSHOT})" in table
    assert NOT_IN_A_SNAPSHOT in run("explain", *asked, "-n", "shop", "deploy/api").stdout


def test_what_an_operator_has_said_in_a_snapshots_status_is_told_beside() -> None:
    said = {"web": PolicyMeasurement(looked_at=True, spared=None, why="2/4Gi is enough for 91% of the pods")}
    (amount,) = amounts([POLICY], {}, None, said, START).values()
    assert amount.why.lacking == f"{NOT_IN_A_SNAPSHOT}; it has said: 2/4Gi is enough for 91% of the pods"
