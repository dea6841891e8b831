"""Is my slack there? What is found, what is advised, and whether it is good."""

from typing import Any

import pytest

from slack.health.ages import age_text, duration
from slack.health.answer import Health
from slack.health.observation import Installation, ObservedPlaceholder, StatusObservation, lease_holder
from slack.health.verdict import STATUS_OLD_SECONDS, assess
from slack.process.reasons import Level
from slack_operator.placeholders.report.status import HEARTBEAT_SECONDS
from tests.health.build import NOW, lease, policy


def on_node(name: str | None) -> ObservedPlaceholder:
    return ObservedPlaceholder("default", "a", name)


def health(*policies: Any, **seen: Any) -> Health:
    given: dict[str, Any] = {
        "crd": True,
        "placeholders": tuple(ObservedPlaceholder("web", "c3cd", f"node-{i}") for i in range(3)),
        "lease": lease(),
        "lease_seen": True,
        "operator_pods": 1,
        "unseen": (),
    }
    return assess(
        StatusObservation(policies=policies, **{**given, **seen}),
        now=NOW.timestamp(),
        namespace="resource-slack",
        lease_name="resource-slack",
    )


def test_all_is_there() -> None:
    found = health(policy())
    assert found.good
    assert found.operator_runs
    assert (found.policies[0].bound, found.policies[0].pending) == (3, 0)
    assert found.policies[0].nodes_of_shape == {"c3cd": {"node-0": 1, "node-1": 1, "node-2": 1}}


def test_what_is_wrong_is_said_once_with_advice_and_its_age() -> None:
    shown = policy(Ready="BadPriorityClass", SlackSatisfied="BadPriorityClass", LimitReached="AutoscalerLimit")
    for condition in shown["status"]["conditions"]:
        if condition["reason"] == "BadPriorityClass":
            condition["message"] = "there is no PriorityClass mine"
    found = health(shown)
    assert not found.good
    assert len([c for c in shown["status"]["conditions"] if c["reason"] == "BadPriorityClass"]) == 2
    blocked, limit = found.policies[0].findings
    assert blocked.text == "Ready=False, SlackSatisfied=False BadPriorityClass: there is no PriorityClass mine"
    assert "spec.priorityClassName" in str(blocked.advice)
    assert limit.since == "2026-03-01T11:48:00Z"
    assert "maximum" in str(limit.advice)


def test_one_cause_is_said_once_though_conditions_say_different_things_of_it() -> None:
    (finding,) = health(policy(SlackSatisfied="NoWord", AutoscalerIgnoresPlaceholders="NoWord")).policies[0].findings
    types = "SlackSatisfied=False, AutoscalerIgnoresPlaceholders=True NoWord"
    assert finding.text == f"{types}: message of SlackSatisfied; message of AutoscalerIgnoresPlaceholders"


def test_a_note_is_no_trouble() -> None:
    found = health(policy(PinsNodes="LargeShape", PreemptionStuck="Rescued"))
    assert found.good
    assert {finding.level for finding in found.policies[0].findings} == {Level.NOTE}


def test_a_reason_of_another_version_is_trouble_without_advice() -> None:
    finding = health(policy(Ready="NewReason")).policies[0].findings[0]
    assert (finding.level, finding.advice) == (Level.TROUBLE, None)


def test_an_age_counts_from_when_the_reason_began() -> None:
    shown = policy(LimitReached="AutoscalerLimit")
    for condition in shown["status"]["conditions"]:
        condition["lastUpdateTime"] = "2026-03-01T11:59:58Z"
    (finding,) = health(shown).policies[0].findings
    assert finding.since == "2026-03-01T11:59:58Z", "its status has been so for twelve minutes, for another reason"


@pytest.mark.parametrize(("observed", "runs"), [("2026-03-01T11:50:00Z", None), ("2026-03-01T11:40:00Z", False)])
def test_who_may_not_see_the_lease_sees_by_the_age_of_statuses_that_no_operator_runs(
    observed: str, runs: bool | None
) -> None:
    shown = policy()
    shown["status"]["observedTime"] = observed
    found = health(shown, lease=None, lease_seen=False, placeholders=None, operator_pods=None)
    assert (found.operator_runs, found.good) == (runs, runs is None)
    if runs is False:
        (finding,) = found.operator_findings
        assert finding.text.startswith("no operator is seen: an operator writes every status each five minutes, and ")
        assert "the newest is 20m old" in finding.text
        assert found.policies[0].headline == f"not known since {observed} (20m)"
        assert found.policies[0].state.name == "OperatorAbsent"


def test_a_status_counts_as_old_only_after_several_heartbeats() -> None:
    assert STATUS_OLD_SECONDS >= 3 * HEARTBEAT_SECONDS


def test_a_spec_that_nobody_has_looked_at_yet_is_not_ready() -> None:
    found = health(policy(generation=3, observed=2))
    assert not found.good
    assert not found.policies[0].ready
    assert "generation 3" in found.policies[0].findings[0].text


def test_a_policy_without_a_status_is_said_to_be_one() -> None:
    found = health({"metadata": {"name": "new", "generation": 1}, "spec": {}})
    assert (found.good, found.policies[0].headline) == (False, "never looked at")
    assert [finding.reason for finding in found.policies[0].findings] == ["NoStatus"]


def test_where_no_lease_is_it_is_said_once_and_nothing_is_last_said_of_nothing() -> None:
    found = health({"metadata": {"name": "new", "generation": 1}, "spec": {}}, lease=None, operator_pods=0)
    (finding,) = found.operator_findings
    assert finding.text == "no operator is seen: there is no lease resource-slack/resource-slack"
    assert (found.policies[0].findings, found.policies[0].good, found.good) == ((), False, False)
    assert "is what it said last" in health(policy(), lease=None, operator_pods=0).operator_findings[0].text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Refilling", "refilling: placeholders wait for nodes"),
        ("CeilingReached", "capped at the ceiling, as you asked"),
    ],
)
def test_a_refill_and_a_ceiling_are_states_of_their_own_and_no_trouble(reason: str, words: str) -> None:
    found = health(policy(SlackSatisfied=reason))
    assert (found.good, found.satisfied) == (True, False)
    (shown,) = found.policies
    assert (shown.ready, shown.satisfied, shown.headline) == (True, False, words)
    assert (shown.state.name, shown.state.calm) == (reason, True)
    assert [finding.level for finding in shown.findings] == [Level.NOTE]


def test_a_cluster_without_a_node_is_no_trouble_yet() -> None:
    found = health(policy(SlackSatisfied="NoNodesYet", Covered="NoNodesYet", Feasible="NoNodesYet"))
    (shown,) = found.policies
    assert (found.good, shown.satisfied, shown.state.name, shown.state.calm) == (True, False, "NoNodesYet", True)
    assert shown.headline == "the cluster has no nodes yet: placeholders are created with the first"
    assert {finding.level for finding in shown.findings} == {Level.NOTE}


@pytest.mark.parametrize("reason", ["RefillLasts", "PlaceholdersPending", "NoWord"])
def test_a_refill_that_lasts_is_trouble_with_a_remedy(reason: str) -> None:
    (shown,) = health(policy(SlackSatisfied=reason)).policies
    assert (shown.state.name, shown.state.calm, shown.headline) == (reason, False, f"ready, {shown.state.brief}")
    assert shown.state.remedy == shown.findings[0].advice != ""


def test_figures_are_those_of_the_status_and_places_only_where_the_pods_are_those_it_counts() -> None:
    moved = (
        ObservedPlaceholder("web", "c3cd", "node-0"),
        ObservedPlaceholder("web", "c3cd", None),
        ObservedPlaceholder("web", "c3cd", None),
    )
    (shown,) = health(policy(), placeholders=moved).policies
    assert (shown.bound, shown.pending, shown.nodes_of_shape, shown.now) == (3, 0, {}, None)
    (old,) = health(policy(), placeholders=moved, lease=lease(age=900)).policies
    assert (old.bound, old.pending, old.now) == (3, 0, (1, 2)), "the status is not kept up: what is there now"
    assert old.nodes_of_shape == {}


@pytest.mark.parametrize(
    ("held", "fields", "since"),
    [
        (lease(age=900), (), "2026-03-01T11:45:00Z (15m)"),
        (lease(holder="", age=7300), (), "2026-03-01T09:58:20Z (2h)"),
        (None, [{"subresource": "status", "time": "2026-03-01T11:48:00Z"}], "2026-03-01T11:48:00Z (12m)"),
        (None, [{"time": "2026-03-01T11:48:00Z"}], "the operator has gone"),
    ],
)
def test_of_a_policy_that_no_operator_looks_after_it_is_said_since_when_nothing_is_known(
    held: Any, fields: Any, since: str
) -> None:
    shown = policy(LimitReached="AutoscalerLimit")
    shown["metadata"]["managedFields"] = fields
    found = health(shown, lease=held, operator_pods=0)
    (old,) = found.policies
    assert old.headline == f"not known since {since}"
    assert (found.good, found.satisfied) == (False, None)
    assert (old.good, old.ready, old.satisfied, old.known) == (False, None, None, False)
    assert (old.state.name, old.state.calm, old.said_last) == (
        "OperatorAbsent",
        False,
        "ready, AutoscalerLimit: the autoscaler is at its maximum",
    )
    assert "kubectl get deployments -A" in old.state.remedy
    assert str(found.operator_findings[0].advice).startswith(old.state.remedy), "one remedy, whoever says it"
    assert [(finding.level, finding.text.partition(":")[0]) for finding in old.findings] == [(Level.NOTE, "said last")]


@pytest.mark.parametrize("status", [{"summary": {"rate": 5}, "conditions": "x"}, "text", {"shapes": [{"bound": "x"}]}])
@pytest.mark.parametrize("held", [lease(), lease(age=900)])
def test_a_status_that_the_crd_would_not_let_in_is_said_of_its_policy_and_hides_no_other(
    status: Any, held: Any
) -> None:
    broken = {"metadata": {"name": "broken", "generation": 1}, "status": status}
    found = health(broken, policy(), lease=held)
    bad, good = found.policies
    assert (found.good, bad.good, bad.satisfied, good.bound) == (False, False, None, 3)
    assert "its status cannot be read: " in bad.findings[0].text
    assert "at `status" in bad.findings[0].text
    assert "kubectl get slackpolicy broken" in str(bad.findings[0].advice)


def test_a_dry_run_is_no_trouble() -> None:
    found = health(policy(dry_run=True, SlackSatisfied="DryRun"))
    assert found.good
    assert "dry run" in found.policies[0].headline


@pytest.mark.parametrize(
    ("seen", "runs", "words"),
    [
        ({"lease": lease(age=900)}, False, "last renewed 15m ago"),
        ({"lease": lease(holder="")}, False, "released"),
        ({"lease": None, "operator_pods": 0}, False, "there is no lease resource-slack/resource-slack"),
        ({"lease": None, "operator_pods": None}, False, "there is no lease"),
        ({"lease": None, "operator_pods": 2}, True, ""),
        ({"lease": None, "lease_seen": False}, None, ""),
    ],
)
def test_an_absent_operator_is_said_plainly(seen: Any, runs: bool | None, words: str) -> None:
    found = health(policy(), **seen)
    assert found.operator_runs is runs
    assert found.good is (runs is not False)
    assert words in "".join(finding.text for finding in found.operator_findings)


BUILT_IN = lease(built_in=True)


def test_without_a_policy_it_is_the_operator_who_says_whether_a_built_in_one_holds() -> None:
    for found in (health(crd=False, lease=BUILT_IN), health(lease=BUILT_IN)):
        assert (found.built_in, found.idle, found.good, found.built_in_bound) == (True, False, True, 3)
    for found in (health(lease=lease(built_in=False), placeholders=seen) for seen in ((), None)):
        assert (found.built_in, found.idle, found.good) == (False, True, True)


def test_placeholders_that_no_policy_asks_for_are_told() -> None:
    found = health(lease=lease(built_in=False))
    assert (found.idle, found.good) == (True, False)
    assert [finding.reason for finding in found.built_in_findings] == ["PlaceholdersLeft"]


@pytest.mark.parametrize(
    ("placeholders", "built_in", "idle", "good"),
    [((on_node("n"),), True, False, True), ((), False, True, True), (None, False, False, False)],
)
def test_an_operator_that_does_not_say_it_is_judged_by_what_is_there(
    placeholders: Any, built_in: bool, idle: bool, good: bool
) -> None:
    found = health(placeholders=placeholders, lease=lease())
    assert (found.built_in, found.idle, found.good) == (built_in, idle, good)


@pytest.mark.parametrize(
    ("placeholders", "reason", "words"),
    [
        ((), "NoPlaceholders", "none of its placeholders is there"),
        (None, "NotSeen", "may not be seen"),
        (
            (ObservedPlaceholder("default", "a", "node-1"), ObservedPlaceholder("default", "a", None)),
            "PlaceholdersPending",
            "1 of the 2",
        ),
    ],
)
def test_the_built_in_policy_is_good_only_when_its_placeholders_are_on_nodes(
    placeholders: Any, reason: str, words: str
) -> None:
    found = health(placeholders=placeholders, lease=BUILT_IN)
    assert (found.built_in, found.good) == (True, False)
    (finding,) = found.built_in_findings
    assert finding.reason == reason
    assert words in finding.text
    assert "slack_policy_condition" in str(finding.advice)


def test_without_an_operator_nothing_more_is_said_of_the_built_in_policy() -> None:
    found = health(crd=False, placeholders=(), lease=None, operator_pods=0)
    assert (found.good, found.satisfied, found.built_in_findings) == (False, None, ())


def test_the_advice_names_the_namespace() -> None:
    finding = health(policy(SlackSatisfied="PlaceholdersPending")).policies[0].findings[0]
    assert "kubectl get events -n resource-slack;" in str(finding.advice)


def test_other_places_are_named_where_no_operator_is() -> None:
    found = health(policy(), lease=None, operator_pods=0, elsewhere=(Installation("rs2", "rs-resource-slack", 2, 1),))
    (finding,) = found.operator_findings
    assert "1 operator pod and 2 placeholders in rs2" in str(finding.advice)
    assert str(finding.advice).endswith("kubectl slack status -n rs2 --lease-name rs-resource-slack")


def test_without_the_right_to_see_pods_the_status_counts() -> None:
    found = health(policy(), placeholders=None, operator_pods=None)
    assert (found.policies[0].bound, found.policies[0].pending) == (3, 0)
    assert found.policies[0].nodes_of_shape == {}


def test_ages_are_written_as_kubectl_does() -> None:
    assert [duration(s) for s in (-1, 40, 119, 150, 7300, 200_000)] == ["0s", "40s", "119s", "2m", "2h", "2d"]
    assert age_text("2026-03-01T11:48:00Z", NOW.timestamp()) == "12m"
    assert age_text("yesterday", NOW.timestamp()) is None


def test_a_lease_is_held_by_who_renewed_it_in_its_time() -> None:
    assert lease_holder(lease(age=2), NOW.timestamp()) == "pod-a_1"
    for free in (lease(age=16), lease(holder=""), {"spec": {"holderIdentity": "a"}}, {}):
        assert lease_holder(free, NOW.timestamp()) is None


UNBOUND = tuple(ObservedPlaceholder("web", "c3cd", None, unbound=True) for _ in range(3))


def test_unbound_placeholders_wait_for_nothing() -> None:
    found = health(policy(), placeholders=UNBOUND)
    assert found.good
    assert (found.policies[0].bound, found.policies[0].unbound) == (3, 3)
    gone = health(
        policy(), placeholders=(*UNBOUND, ObservedPlaceholder("web", "c3cd", None)), operator_pods=0, lease=None
    )
    assert (gone.policies[0].now, gone.policies[0].unbound) == ((0, 1), 3)


def test_the_built_in_policy_is_not_in_trouble_for_being_unbound() -> None:
    found = health(placeholders=UNBOUND, lease=BUILT_IN)
    assert (found.built_in, found.good, found.built_in_bound, found.built_in_unbound) == (True, True, 0, 3)
    waits = health(placeholders=(*UNBOUND, ObservedPlaceholder("web", "c3cd", None)), lease=BUILT_IN)
    assert [finding.reason for finding in waits.built_in_findings] == ["PlaceholdersPending"]
