"""Counts have the right plural, everywhere they are printed."""

import re

from slack.cli.terminal.counts import count_text
from tests.cases import run_for_each
from tests.docs.pages import ROOT

PLURAL = re.compile(r"\{[^{}'\"]*(count|len\(|number|pods|nodes|total)[^{}'\"]*\} (pods|nodes|placeholders)\b")
FIGURES = 3
"""Places with a rate or a range before a plural, and an axis; none may be added."""


@run_for_each(
    ("number", "noun", "plural", "text"),
    [
        (0, "pod", "", "0 pods"),
        (1, "pod", "", "1 pod"),
        (1503, "cgroup", "", "1,503 cgroups"),
        (1, "policy", "policies", "1 policy"),
        (2, "policy", "policies", "2 policies"),
    ],
)
def test_a_count_has_the_right_plural(number: int, noun: str, plural: str, text: str) -> None:
    assert count_text(number, noun, plural) == text


def test_no_command_prints_a_plural_behind_a_bare_number_in_more_places_than_before() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in sorted((ROOT / "slack" / "cli").rglob("*.py"))
        for match in PLURAL.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(found) <= FIGURES, "\n".join(found)
