"""docs/decisions.md: each decision has its reason, its figure and what would overturn it; figures are those told."""

import re

from tests.cases import run_for_each
from tests.docs.pages import DOCS, headings, section

PAGE = DOCS / "decisions.md"
DECISIONS = headings(PAGE)[1:]
PARTS = ("Instead of", "Why.", "Figure.", "Would be overturned by", "Where.")
_MEASURED = re.compile(r"\d[\d,]*\.?\d*")
_LINKED = re.compile(r"\((\w+\.md)(?:#[\w-]+)?\)")
_TEST = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(\w+))?`")


def part(decision: str, name: str) -> str:
    """The paragraph of a decision that begins with this word."""
    return section(PAGE, decision).partition(f"**{name}**")[2].partition("\n\n")[0]


@run_for_each("decision", DECISIONS)
def test_a_decision_says_all_of_it(decision: str) -> None:
    assert [name for name in PARTS if not part(decision, name).strip()] == []
    assert f"[{decision}](#" in PAGE.read_text().partition("\n## ")[0]


@run_for_each("decision", DECISIONS)
def test_its_figures_are_those_of_the_pages_that_it_names_or_of_a_test(decision: str) -> None:
    figure = part(decision, "Figure.")
    pages = [(DOCS / name).read_text() for name in _LINKED.findall(figure)]
    known = {number for page in pages for number in _MEASURED.findall(page)}
    words = re.sub(r"\([^)]*\)|`[^`]*`", "", figure)
    if pages:
        assert set(_MEASURED.findall(words)) <= known
    else:
        assert _TEST.search(figure) or "`make check`" in figure, "no page, test or command shows it"


def test_the_tests_that_it_names_are_there() -> None:
    for file, test in _TEST.findall(PAGE.read_text()):
        text = (DOCS.parent / file).read_text()
        assert not test or f"def {test}(" in text
