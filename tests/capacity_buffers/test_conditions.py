"""Conditions and status of a buffer, situation by situation."""

from typing import Any

from slack.capacity_buffers.api import OWN_STRATEGY, BufferReason
from slack.capacity_buffers.conditions import (
    STATUS_FIELDS,
    Fit,
    Steadiness,
    buffer_conditions,
    says_same,
    status_document,
    was_provisioning,
)
from slack.capacity_buffers.feasibility import GIVE_UP_SECONDS, Outlook, why_infeasible
from slack.capacity_buffers.plan import BufferPlan, Unresolved
from slack.planner.model.result import Answer, AutoscalerEvent
from tests.capacity_buffers.scenes import buffer
from tests.cases import run_for_each

OWN = buffer(podTemplateRef={"name": "chunk"}, replicas=6)
GONE = Unresolved(BufferReason.POD_TEMPLATE_NOT_FOUND, "there is no PodTemplate shop/chunk")


def _of(**fields: Any) -> BufferPlan:
    return BufferPlan(OWN, **{"asked": 6, "replicas": 6, "template": "chunk", "template_generation": 2, **fields})


@run_for_each(
    ("plan", "fit", "steady", "expected"),
    [
        (
            BufferPlan(OWN, GONE),
            Fit(0),
            False,
            [
                ("ReadyForProvisioning", False, "PodTemplateNotFound", "there is no PodTemplate shop/chunk"),
                ("Provisioning", False, "NotReadyForProvisioning", "there is no PodTemplate shop/chunk"),
            ],
        ),
        (_of(asked=0, replicas=0), Fit(0), False, [("Provisioning", False, "BufferEmpty", "the size is 0")]),
        (_of(), Fit(6), True, [("Provisioning", True, "FitsExistingCapacity", "6 of 6 chunks fit")]),
        (
            _of(),
            Fit(6),
            False,
            [("Provisioning", False, "RequiresNewCapacity", "6 of 6 chunks fit, for less than 2 s")],
        ),
        (_of(), Fit(4), False, [("Provisioning", False, "RequiresNewCapacity", "4 of 6 chunks fit; 2 wait")]),
        (
            _of(),
            Fit(4, "no node could"),
            False,
            [("Provisioning", False, "Infeasible", "4 of 6 chunks fit; no node comes for the others: no node could")],
        ),
        (
            _of(asked=9, limits=("quotas: q",)),
            Fit(6),
            True,
            [
                ("ReadyForProvisioning", True, "Resolved", "resolved"),
                ("Provisioning", True, "FitsExistingCapacity", "6 of 6"),
                ("LimitedByQuotas", True, "ResourceQuotasAllocated", "limited from 9 to 6 chunks by quotas: q"),
            ],
        ),
        (_of(), Fit(6), True, [("LimitedByQuotas", False, "ResourceQuotasAllocated", "")]),
    ],
)
def test_conditions_say_what_is_so(plan: BufferPlan, fit: Fit, steady: bool, expected: list[Any]) -> None:
    found = {each.type: each for each in buffer_conditions(plan, fit, steady=steady)}
    for kind, status, reason, message in expected:
        assert (found[kind].status, found[kind].reason) == (status, reason)
        assert found[kind].message.startswith(message)
    assert ("LimitedByQuotas" in found) == (plan.problem is None)


def test_provisioning_turns_false_at_once_and_true_after_two_seconds() -> None:
    steady, said = Steadiness(), False
    history = []
    for now, fits in ((0, True), (1.9, True), (2.0, True), (5, False), (5.1, True), (7, True), (7.2, True)):
        said = steady.is_true("u", fits=fits, was_true=said, now=now)
        history.append(said)

    assert history == [False, False, True, False, False, False, True]


def test_a_restart_turns_nothing() -> None:
    steady = Steadiness()

    assert steady.is_true("u", fits=True, was_true=True, now=100.0)
    assert not steady.is_true("v", fits=True, was_true=False, now=100.0)
    assert steady.due_in(100.5) == 1.5
    steady.keep_only({"u"})
    assert steady.due_in(100.5) is None


def test_a_status_has_the_fields_that_the_crd_has_and_clears_what_is_absent() -> None:
    found = status_document(_of(), Fit(4), [{"type": "Provisioning"}])
    assert found == {
        "podTemplateRef": {"name": "chunk"},
        "podTemplateGeneration": 2,
        "replicas": 6,
        "provisioningStrategy": OWN_STRATEGY,
        "conditions": [{"type": "Provisioning"}],
    }
    assert status_document(_of(), Fit(9), [], STATUS_FIELDS | {"readyReplicas"})["readyReplicas"] == 6
    lost = status_document(BufferPlan(OWN, GONE), Fit(0), [])
    assert (lost["podTemplateRef"], lost["replicas"], lost["podTemplateGeneration"]) == (None, None, None)


def test_a_status_that_says_the_same_is_not_written_again() -> None:
    wanted = status_document(_of(), Fit(6), [{"type": "A", "status": "True", "lastTransitionTime": "1"}])
    there = {**wanted, "conditions": [{"type": "A", "status": "True", "lastTransitionTime": "0"}]}

    assert says_same(there, wanted)
    assert says_same({"conditions": []}, {"conditions": [], "replicas": None})
    assert not says_same({**there, "replicas": 5}, wanted)
    assert not says_same({**there, "conditions": [*there["conditions"], {"type": "B"}]}, wanted)
    assert not says_same(None, wanted)


def test_what_another_server_said_is_not_taken_for_ours() -> None:
    true = {"conditions": [{"type": "Provisioning", "status": "True"}]}

    assert not was_provisioning(true)
    assert was_provisioning({**true, "provisioningStrategy": OWN_STRATEGY})
    assert not was_provisioning(None)


def _said(answer: Answer, message: str, at: float) -> AutoscalerEvent:
    return AutoscalerEvent("rs", answer, message, at)


TOO_LARGE = _said(Answer.REFUSED, "pod didn't trigger scale-up: 2 Insufficient cpu", 10)
FULL = _said(Answer.LIMIT, "2 max node group size reached", 10)


@run_for_each(
    ("outlook", "now", "part"),
    [
        (Outlook(could_fit=True, autoscaler_absent=True), 20, ""),
        (Outlook(could_fit=False, autoscaler_absent=True), 20, "no node of the cluster could hold a chunk"),
        (Outlook(could_fit=False, autoscaler_absent=False), 20, ""),
        (Outlook(False, False, [TOO_LARGE], 10), 20, "no node for a chunk: pod didn't trigger scale-up"),
        (Outlook(False, False, [TOO_LARGE, _said(Answer.TRIGGERED, "", 11)], None), 20, ""),
        (Outlook(True, False, [FULL], 10), 20, ""),
        (Outlook(True, False, [FULL], 10), 10 + GIVE_UP_SECONDS, "refused for 20 min: 2 max node group"),
        (Outlook(True, False, [_said(Answer.QUOTA, "exceeded quota", 10)], 10), 10 + GIVE_UP_SECONDS, ""),
    ],
)
def test_a_buffer_is_infeasible_when_no_node_will_come(outlook: Outlook, now: float, part: str) -> None:
    found = why_infeasible(outlook, now)

    assert part in found
    assert bool(found) == bool(part)
