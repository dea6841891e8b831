"""The glossary stays short, sorted and plain."""

import re

from tests.cases import run_for_each
from tests.docs.pages import ROOT

MOST_TERMS, MOST_WORDS, MOST_SENTENCES = 60, 25, 2
_ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def entries() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "glossary.md").read_text()
    return [(row["term"], row["meaning"]) for row in _ROW.finditer(text) if row["term"] not in ("term",)]


def test_it_has_at_most_sixty_terms_each_once_and_sorted() -> None:
    terms = [term.casefold() for term, _ in entries()]
    assert 40 <= len(terms) <= MOST_TERMS
    assert terms == sorted(set(terms))


@run_for_each(("term", "meaning"), entries())
def test_a_meaning_is_one_or_two_short_sentences(term: str, meaning: str) -> None:
    sentences = re.findall(r"[^.]*(?:\.(?!\s|$)[^.]*)*\.(?=\s|$)", meaning)
    assert 1 <= len(sentences) <= MOST_SENTENCES, term
    assert all(len(sentence.split()) <= MOST_WORDS for sentence in sentences), term
    assert meaning.endswith("."), term


def test_the_list_of_documents_leads_to_it() -> None:
    assert "](glossary.md)" in (ROOT / "docs" / "README.md").read_text()
