"""How slack is, in a word and in a few."""

from slack.health.reasons import REASONS
from slack.health.states import slack_state
from slack.process.reasons import Level
from tests.cases import run_for_each

TROUBLES = [known for known in REASONS if known.level is Level.TROUBLE and known.on and known.about == "SlackPolicy"]


@run_for_each("known", TROUBLES, ids=lambda known: str(known.name))
def test_what_is_wrong_is_said_in_a_few_words_beside_its_reason(known: object) -> None:
    (found,) = [reason for reason in TROUBLES if reason is known]
    state = slack_state([(on.partition("=")[0], found.name, True) for on in found.on])
    name, _, words = state.brief.partition(": ")
    assert name == found.name
    assert 2 < len(words.split()) < 13


def test_a_reason_of_another_version_stands_alone() -> None:
    assert slack_state([("Ready", "NewReason", True)]).brief == "NewReason"


def test_no_reason_that_needs_someone_hides_another_one() -> None:
    said = [
        ("Covered", "CoverageMissed", True),
        ("Feasible", "ShapeFitsNowhere", True),
        ("SlackSatisfied", "Refilling", True),
        ("Ready", "Accepted", False),
    ]
    assert slack_state(said).column == "ShapeFitsNowhere,CoverageMissed"
    blocked = [(kind, "BadPriorityClass", True) for kind in ("Ready", "SlackSatisfied", "Covered", "Feasible")]
    assert slack_state(blocked).column == "BadPriorityClass"
    assert slack_state([("SlackSatisfied", "Reserved", False)]).column == "Reserved"
