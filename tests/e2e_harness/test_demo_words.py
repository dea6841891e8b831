"""What the demo and the playground say follows from what was measured."""

import pytest

from e2e.demo import told_burst, told_form, told_placeholders, told_ratio, told_refill, told_whole
from e2e.playground import told


@pytest.mark.parametrize(
    ("made", "waiting", "said"),
    [
        (1, 0, "makes 1 placeholder; there is room for all of them"),
        (4, 2, "makes 4 placeholders; for 2 there is no node yet"),
        (2, 2, "makes 2 placeholders; there is no node for them yet"),
    ],
)
def test_placeholders_are_told_as_they_are(made: int, waiting: int, said: str) -> None:
    assert told_placeholders(0.25, made, waiting) == f"a SlackPolicy of 25 % {said}"


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (["Unbound", "Unbound"], "they are unbound: Pending on purpose, and their capacity is free"),
        (["Unbound", None], "1 of 2 placeholders are bound to nodes"),
    ],
)
def test_the_form_is_told_by_the_placeholders_that_are_there(holds: list[str | None], said: str) -> None:
    labels = [{"resource-slack.io/hold": hold} if hold else {} for hold in holds]
    assert told_form([{"metadata": {"labels": each}} for each in labels]) == said


def test_a_node_that_nobody_added_is_not_told() -> None:
    assert told_whole(0) == "no node was added: slack is whole"
    assert told_whole(1) == "the autoscaler added 1 node: slack is whole"


def test_a_burst_that_was_late_is_not_told_as_at_once() -> None:
    assert told_burst([0.1, 9.0]).startswith("a burst: 1 of 2 pods were bound within 2 s (p50")
    assert told_burst([0.1, 0.2]).startswith("a burst: 2 of 2 pods")


def test_a_refill_without_new_placeholders_is_told() -> None:
    assert told_refill(0, 3) == "none had to leave: 3 placeholders never moved"
    assert told_refill(1, 2) == "refilled: 1 placeholder new, 2 never moved"


def test_slack_that_did_not_help_is_told() -> None:
    assert told_ratio([8.0, 8.0], [0.1, 0.1]) == "With slack pods were bound 80 times sooner."
    assert "were not bound sooner" in told_ratio([8.0, 8.0], [8.1, 9.0])


def test_the_playground_names_the_page_and_the_watch() -> None:
    text = told("/tmp/kubeconfig")
    assert "export KUBECONFIG=/tmp/kubeconfig" in text
    assert "resource-slack operator --interval 2s --web" in text
    assert "http://127.0.0.1:8081" in text
    assert "kubectl slack status --watch" in text
    assert "Pending on purpose" in text
