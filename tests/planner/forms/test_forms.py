"""The protocol that answers what differs between bound and unbound placeholders, and that no other module branches."""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from slack.cluster.classes import Requirement
from slack.cluster.hold import UNBOUND_SCHEDULER, Hold
from slack.planner.forms.choice import BOUND, form_of
from slack.planner.forms.form import Form
from slack.planner.model.shape import Shape
from slack.planner.policy.spec import Policy
from tests.docs.pages import ROOT

UNBOUND = form_of(UNBOUND_SCHEDULER)
SHAPE = Shape((("cpu", 1000),))

READS = {
    "slack/planner/model/shape.py": 3,  # the form, who starts in its place, the text
    "slack/planner/policy/spec.py": 2,  # the form, who starts in its place
    "slack/planner/objects/changed_scheduler.py": 1,  # the name that was planned
    "slack/capacity_buffers/plan.py": 1,  # the setting: chunks have the unbound form
    "slack/cli/inputs/forms.py": 2,  # decides the form of a dry run
    "operator/slack_operator/app.py": 1,  # the operator's setting
}
"""Where the field is read, other than to hand it on under the same name."""
OBSERVED = {
    "slack/cluster/snapshot.py": 1,  # whether capacity is held
    "slack/planner/model/placeholder_counts.py": 1,  # counts alike ones
    "slack/planner/rollout/backoff.py": 1,  # counts those that autoscalers were told of
    "slack/planner/explain.py": 1,  # of the document
    "slack/planner/explain_text.py": 2,  # of the document
    "slack/planner/soft_taint.py": 1,
    "slack/cli/inputs/forms.py": 1,
    "operator/slack_operator/web/nodes.py": 1,
    "operator/slack_operator/placeholders/answers.py": 1,
    "operator/slack_operator/placeholders/forms.py": 1,
    "operator/slack_operator/placeholders/act/executor.py": 1,
    "operator/slack_operator/placeholders/act/releasing.py": 2,
    "operator/slack_operator/placeholders/report/reporter.py": 1,
    "operator/slack_operator/learning/lead_feed.py": 1,
}
"""Where a pod is observed that may be of another form than its shape: admission and people change pods."""
OTHERS = ("slack/health/", "slack/loadtest/", "slack/cli/load/", "slack/cli/status/", "slack/planner/forms/")
"""Documents of commands, and real pods without a node."""
_ELSEWHERE = ("Hold", "counting", "counts")
"""What has an attribute of the same name and means something else."""


def _reads(name: str) -> Iterator[str]:
    """Yield the file of each read of an attribute that is not handed on as an argument of the same name."""
    for path in sorted([*(ROOT / "slack").rglob("*.py"), *(ROOT / "operator").rglob("*.py")]):
        where = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if where.startswith(OTHERS) or f".{name}" not in text:
            continue
        tree = ast.parse(text)
        handed_on = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == name}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == name and id(node) not in handed_on:
                yield from () if isinstance(node.value, ast.Name) and node.value.id in _ELSEWHERE else (where,)


def test_nothing_outside_the_forms_asks_for_the_scheduler_of_unbound_placeholders() -> None:
    assert Counter(_reads("unbound_scheduler")) == READS


def test_observed_pods_are_told_apart_in_few_places() -> None:
    assert Counter(_reads("unbound")) == OBSERVED


def test_a_shape_and_a_policy_have_the_form_of_their_scheduler() -> None:
    assert SHAPE.form is BOUND
    assert Shape((("cpu", 1000),), unbound_scheduler=UNBOUND_SCHEDULER).form == UNBOUND
    assert Policy(name="web").form is BOUND
    assert Policy(name="web", unbound_scheduler=UNBOUND_SCHEDULER).form == UNBOUND
    assert form_of("another") != UNBOUND
    assert (BOUND.hold, UNBOUND.hold) == (Hold.BOUND, Hold.UNBOUND)


@pytest.mark.parametrize("form", [BOUND, UNBOUND], ids=lambda form: str(form.hold))
def test_pods_are_either_scheduled_or_reported_by_the_operator(form: Form) -> None:
    named = form.scheduler_name("mine")
    assert (named == "mine") is form.is_scheduled
    assert bool(form.labels()) is not form.is_scheduled  # monitoring leaves out those that are pending on purpose
    assert bool(form.tolerations()) is form.occupies_nodes
    assert bool(form.soft_spread({"a": "b"}, ())) is form.is_scheduled


def test_unbound_placeholders_leave_released_nodes_out_of_every_term() -> None:
    zone = Requirement("zone", "In", ("a",))
    released = Requirement("resource-slack.io/release", "DoesNotExist", ())
    assert UNBOUND.node_terms(()) == ((released,),)
    assert UNBOUND.node_terms(((zone,), ())) == ((zone, released), (released,))
    assert BOUND.node_terms(((zone,),)) == ((zone,),)


def test_a_hard_constraint_is_in_place_of_the_soft_one() -> None:
    found = BOUND.soft_spread({"a": "b"}, {"topology.kubernetes.io/zone"})
    assert [constraint["topologyKey"] for constraint in found] == ["kubernetes.io/hostname"]
    assert found[0]["labelSelector"] == {"matchLabels": {"a": "b"}}


def test_placeholders_that_admission_changed_are_made_anew_unless_that_would_make_them_the_same() -> None:
    assert BOUND.deletes_changed(retiring=False)
    assert BOUND.deletes_changed(retiring=True)
    assert UNBOUND.deletes_changed(retiring=False)
    assert not UNBOUND.deletes_changed(retiring=True)


def test_only_the_unbound_form_names_a_flag_that_makes_an_autoscaler_silent() -> None:
    assert UNBOUND_SCHEDULER in UNBOUND.silence_hint
    assert BOUND.silence_hint == ""
