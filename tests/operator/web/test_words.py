"""The page's words for conditions and reasons: none is missing, and the remedy is the one of `status`."""

from slack.planner.model.result import ConditionType
from slack.process.reasons import Level
from slack.schema.conditions import GOOD_WHEN_TRUE
from slack_operator.web.reasons import REASONS
from slack_operator.web.words import condition_text, help_page, level_of
from tests.cases import run_for_each

OTHERS = ("CpuAudit", "ThrottlePolicy", "Activation")
OURS = [known for known in REASONS if not known.about.startswith(OTHERS) and known.on]
KINDS = {on.partition("=")[0] for known in OURS for on in known.on} | set(ConditionType)


@run_for_each("kind", sorted(KINDS))
def test_each_condition_is_said_as_one_would_like_it_or_else_as_what_is_wrong(kind: str) -> None:
    well, ill = ("True", "False") if kind in GOOD_WHEN_TRUE else ("False", "True")
    assert condition_text(kind, well) != condition_text(kind, ill)
    for words in (condition_text(kind, well), condition_text(kind, ill)):
        assert kind not in words or kind == "Ready"
        assert "True" not in words
        assert "False" not in words


def test_a_condition_of_another_version_stands_as_the_api_has_it() -> None:
    assert condition_text("Novel", "True") == "Novel True"
    assert condition_text("Ready", "Unknown") == "Ready Unknown"
    assert level_of("Ready", "False", "Novel") is Level.TROUBLE


def test_the_page_of_help_has_an_anchor_for_each_reason_and_what_to_do() -> None:
    page = help_page("my-<slack>")
    for known in OURS:
        assert f'id="{known.name}"' in page
    assert "kubectl get events -n my-&lt;slack&gt;" in page
    assert "NAMESPACE" not in page
    assert "http" not in page
