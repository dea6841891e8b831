"""The check of texts for users: it fails on a long sentence, a refused word and a long page, and bounds shrink only."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases import run_for_each
from tests.docs.pages import DOCS, PAGES, name_of
from tools.readability.__main__ import check
from tools.readability.limits import WANTED, Figures, lowered, measure, problems, read_allowed, write_allowed
from tools.readability.refused import refused_words
from tools.readability.sentences import Sentence
from tools.readability.texts import MAINTAINERS, REFERENCE, Text, all_pages, below, user_pages

GOOD = Text("a page", (Sentence("Placeholders reserve capacity."),) * 10, is_page=True)


def with_sentence(text: str) -> Text:
    return replace(GOOD, sentences=(*GOOD.sentences, Sentence(text)))


def test_a_good_page_has_no_problem() -> None:
    assert check([GOOD], {}) == []


@run_for_each(
    ("text", "problem"),
    [
        (with_sentence("word " * 31), "longest_sentence is 31, at most 30"),
        (with_sentence("The operator makes room."), "'room' (write: capacity, space)"),
        (replace(GOOD, sentences=GOOD.sentences * 41), "words is 1230, at most 1200"),
        (Text("a page", (Sentence("word " * 16),) * 3, is_page=True), "mean_sentence is 16.0, at most 15.0"),
    ],
)
def test_a_page_above_a_bound_is_named_with_the_reason(text: Text, problem: str) -> None:
    assert problem in "\n".join(check([text], {}))


def test_all_pages_together_have_a_bound() -> None:
    assert check([GOOD, GOOD], {}, most_words=59) == ["pages for users have 60 words, at most 59 allowed"]
    assert check([GOOD, GOOD], {}, most_words=60) == []


def test_a_text_may_have_what_was_allowed_and_no_more() -> None:
    text = with_sentence("word " * 40)
    assert problems(text, replace(WANTED, longest_sentence=40)) == []
    assert problems(text, replace(WANTED, longest_sentence=39))


def test_bounds_are_lowered_and_never_raised() -> None:
    allowed = {"a": Figures(2000, 20.0, 50, 9), "b": Figures(1300, 15.0, 30, 0), "gone": Figures(1300, 15.0, 30, 0)}
    measured = {"a": Figures(900, 21.0, 40, 3), "b": Figures(1100, 12.0, 25, 0)}
    assert lowered(allowed, measured) == {"a": Figures(1200, 20.0, 40, 3)}


def test_bounds_are_kept_in_a_file(tmp_path: Path) -> None:
    allowed = {"a": Figures(2000, 20.5, 50, 9)}
    write_allowed(allowed, tmp_path / "allowed.json")
    assert read_allowed(tmp_path / "allowed.json") == allowed


def test_a_bound_of_a_text_that_is_gone_is_a_problem() -> None:
    assert check([GOOD], {"gone": WANTED}) == ["allowed.json: there is no text gone"]


@run_for_each(
    ("sentence", "word"),
    [
        ("Pods start at once.", "at once"),
        ("Where nothing is known, it waits.", "Where"),
        ("It costs 3 EUR an hour.", "EUR an hour"),
        ("A node comes again.", "comes again"),
        ("The pod is displaced.", "displaced"),
    ],
)
def test_house_words_are_refused(sentence: str, word: str) -> None:
    assert [found for found, _ in refused_words(sentence)] == [word]


@run_for_each("sentence", ["AT ONCE", "Where is the log?", "The bathroom is not a node.", "A pod starts in an hour."])
def test_other_uses_are_not(sentence: str) -> None:
    assert list(refused_words(sentence)) == []


def test_every_page_is_for_users_or_reference_or_for_maintainers() -> None:
    assert {name_of(page) for page in PAGES} == set(all_pages())
    assert [name for name in all_pages() if below(name, REFERENCE) and below(name, MAINTAINERS)] == []
    assert {"README.md", "docs/quickstart.md", "docs/troubleshooting.md"} <= set(user_pages())
    for place in (*REFERENCE, *MAINTAINERS):
        assert any(below(name, (place,)) for name in all_pages()), place


@pytest.mark.parametrize("place", [place for place in (*REFERENCE, *MAINTAINERS) if place.startswith("docs/")])
def test_pages_that_users_do_not_read_from_the_top_are_listed_apart(place: str) -> None:
    listed = (DOCS / "README.md").read_text().partition("\n## Reference\n")[2]
    assert f"({place.removeprefix('docs/')}" in listed or place in ("docs/glossary.md", "docs/runbooks")


def test_measure_counts_a_message_without_a_bound_of_its_length() -> None:
    assert measure(replace(GOOD, is_page=False)).words == 0
