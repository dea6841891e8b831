"""Flags about placeholders are checked before anything is connected to."""

import pytest

from slack.cluster.hold import Hold
from slack.planner.policy.placeholders import LABEL_TAKEN, Placeholders
from slack.process.exit_codes import BAD_INPUT
from slack.process.running import CannotStart
from slack.process.settings import InvalidSettings, load
from slack_operator import app
from slack_operator.settings import OperatorSettings


def settings(text: str) -> OperatorSettings:
    return load(OperatorSettings, {"placeholders": text}, {}, files={})


def test_no_placeholder_is_asked_to_be_bound_where_that_is_switched_off() -> None:
    with pytest.raises(InvalidSettings) as error:
        load(OperatorSettings, {"hold": Hold.BOUND, "bound": False}, {}, files={})
    assert error.value.problems == (
        "--hold: Bound needs bound placeholders, and --no-bound switches them off; write Auto or Unbound",
    )
    for hold, bound in ((Hold.AUTO, False), (Hold.UNBOUND, False), (Hold.BOUND, True)):
        assert load(OperatorSettings, {"hold": hold, "bound": bound}, {}, files={}).hold is hold


def test_without_the_flag_placeholders_have_nothing_more() -> None:
    assert app._placeholders(load(OperatorSettings, {}, {}, files={})) == Placeholders()


def test_the_fields_are_those_of_a_policy() -> None:
    found = app._placeholders(settings('{"labels": {"team": "a"}, "imagePullSecrets": [{"name": "corp"}]}'))
    assert found == Placeholders.model_validate({"labels": {"team": "a"}, "imagePullSecrets": [{"name": "corp"}]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"label": {}}', "--placeholders: label: unknown field; did you mean labels?"),
        ('{"image_pull_secrets": []}', "--placeholders: image_pull_secrets: unknown field"),
        ('{"limits": "Some"}', "--placeholders: limits: "),
        ('{"labels": {"resource-slack.io/policy": "x"}}', f"--placeholders: {LABEL_TAKEN}"),
        ('{"securityContext": {"runAsUser": 0}}', "--placeholders: securityContext.runAsUser: "),
    ],
)
def test_what_is_none_of_them_ends_the_process_with_the_field(text: str, words: str) -> None:
    with pytest.raises(CannotStart) as caught:
        app._placeholders(settings(text))
    assert str(caught.value).startswith(words)
    assert caught.value.exit_code == BAD_INPUT
