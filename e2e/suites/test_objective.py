"""A policy with an objective: what it has learnt outlasts the operator, goes with the policy, and is no trap."""

import base64
import json
import subprocess
from typing import Any

import pytest

from e2e.harness.api import ApiError, Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    POLICIES,
    Operator,
    environment,
    install,
    policy,
    status,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold
from slack.documents.slackhistory import MOST_STATE_CHARACTERS
from slack.planner.objective.codec import decode, encode
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

HISTORIES = f"/apis/resource-slack.io/v1alpha1/namespaces/{NAMESPACE}/slackhistories"
POD = (500, 1 << 30)
OBJECTIVE = {"instantStart": 0.9, "prices": {"cpu": 0.03}}


@pytest.fixture
def loaded(cluster: Backend) -> Backend:
    """Three nodes with some pods."""
    create_all(cluster.api, [kwok.node(f"node-{i}") for i in range(3)])
    cluster.api.create(deployment("api", 6, cpu="500m", memory="1Gi"))
    wait_for_running(cluster.api, 6, 60)
    install(cluster)
    return cluster


def test_what_was_learnt_is_read_shown_written_at_the_end_and_goes_with_its_policy(loaded: Backend, hold: Hold) -> None:
    api = loaded.api
    api.create(_history(taught()))
    api.create(policy("web", hold=hold, objective=OBJECTIVE))
    with Operator(loaded, name="operator-objective") as operator:
        operator.wait_until_ready()
        wait_until_placed(api, "web", 60)
        found = wait_until(
            lambda: status(api, "web").get("summary", {}).get("rate") == "for 90%",
            30,
            "the objective to hold from the first plan on",
            state=lambda: status(api, "web"),
        )
        assert found
        assert "is enough for" in status(api, "web")["objective"]["why"]
        explained = _run(loaded, "explain", "deploy/api").stdout
        enough = status(api, "web")["objective"]["why"].partition(" of the pods")[0]
        # as much as the operator keeps at this hour, which may be nothing
        assert f"why this much: {enough}" in explained or "spec.objective asks for less room now" in explained
        (planned,) = json.loads(_run(loaded, "plan", "-o", "json").stdout)["items"]
        assert planned["objective"]["known"]
        assert planned["objective"]["why"].startswith(enough)
        assert "  why       " in _run(loaded, "status", "web").stdout
        assert operator.metric("slack_objective_ratio", policy="web") == 0.9
        before = operator.metric("slack_instant_start_seconds_count", policy="web")
        scale(api, "api", 8)
        wait_until(
            lambda: operator.metric("slack_instant_start_seconds_count", policy="web") == before + 2,
            60,
            "both pods to be seen by a plan",
        )
    kept = api.get(f"{HISTORIES}/web")
    (owner,) = kept["metadata"]["ownerReferences"]
    assert owner["uid"] == api.get(f"{POLICIES}/web")["metadata"]["uid"]
    learnt = decode(base64.b64decode(kept["learnt"]["state"]))
    assert learnt.tally.started >= taught().tally.started + 2
    assert POD in learnt.mix.pods
    api.delete(f"{POLICIES}/web")
    wait_until(lambda: api.find(f"{HISTORIES}/web") is None, 60, "the history to go with its policy")


def test_a_history_that_cannot_be_used_costs_what_was_learnt_and_nothing_else(loaded: Backend) -> None:
    api = loaded.api
    with pytest.raises(ApiError, match="Too long"):
        api.create(_history(None, state="A" * (MOST_STATE_CHARACTERS + 1)))
    api.create(_history(None, state=base64.b64encode(encode(taught())).decode()[:-40]))
    api.create(policy("web", objective=OBJECTIVE))
    with Operator(loaded, name="operator-objective") as operator:
        operator.wait_until_ready()
        lost = wait_for_condition(api, "web", "HistoryLost", "True")
        assert lost["reason"] == "HistoryUnusable"
        # it learns anew: the floor is kept until pods come, and no rate
        wait_until(
            lambda: status(api, "web").get("summary", {}).get("rate") == "for 90%",
            60,
            "the objective to hold",
            state=lambda: status(api, "web"),
        )
        told = wait_until(
            lambda: api.items("/api/v1/namespaces/default/events", fieldSelector="reason=HistoryUnusable"),
            30,
            "an Event about it",
        )
        assert told[0]["involvedObject"]["name"] == "web"
    assert decode(base64.b64decode(api.get(f"{HISTORIES}/web")["learnt"]["state"])).tally.started == 0


def taught() -> Learner:
    """Return a learner that has seen two days: two pods come at a time, every ten minutes, and stay for five."""
    learner, objective = Learner(), Objective.model_validate(OBJECTIVE)
    begin = 1_700_000_000.0
    for minute in range(2 * 24 * 60):
        there = 8 if minute % 10 < 5 else 6
        come = 2 if minute % 10 == 0 else 0
        turn = Turn(
            at_seconds=begin + 60.0 * minute,
            requested=(there * POD[0], there * POD[1]),
            pods=there,
            window_seconds=120.0,
            arrived={POD: come} if come else {},
            started=come,
        )
        learner.amount(turn.at_seconds, objective)
        learner.observe(turn, objective)
    return learner


def _history(learner: Learner | None, state: str = "") -> Json:
    text = state or base64.b64encode(encode(learner or Learner())).decode()
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "SlackHistory",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "learnt": {"state": text},
    }


def _run(cluster: Backend, *args: str) -> "subprocess.CompletedProcess[Any]":
    around = {**environment(), "KUBECONFIG": str(cluster.kubeconfig)}
    return subprocess.run(
        ["resource-slack", *args], env=around, capture_output=True, text=True, check=False, timeout=60
    )
