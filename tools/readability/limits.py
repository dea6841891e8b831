"""What a text may measure, and the larger figures that some still have.

`allowed.json` holds the figures of texts that are not yet as wanted. They may shrink only: `--lower` writes each figure
that has become smaller, and removes a text that is as wanted.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tools.readability.refused import refused_words
from tools.readability.texts import Text

ALLOWED = Path(__file__).with_name("allowed.json")
TOTAL_WORDS = 25_000
"""What all pages for users have together, at most."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is measured of a text."""

    words: int
    mean_sentence: float
    longest_sentence: int
    refused: int

    def exceeded_by(self, other: "Figures") -> list[str]:
        """Name the figures of which the other one has more."""
        return [field.name for field in fields(self) if getattr(other, field.name) > getattr(self, field.name)]


WANTED = Figures(words=1_200, mean_sentence=15.0, longest_sentence=30, refused=0)
"""The figures that a text for users has, each at most."""


def measure(text: Text) -> Figures:
    """Measure a text; messages and comments have no bound of their length, so their words are 0."""
    prose = [sentence.word_count for sentence in text.sentences if sentence.is_prose]
    return Figures(
        words=text.word_count if text.is_page else 0,
        mean_sentence=round(sum(prose) / len(prose), 1) if prose else 0.0,
        longest_sentence=max((sentence.word_count for sentence in text.sentences), default=0),
        refused=sum(len(list(refused_words(sentence.text))) for sentence in text.sentences),
    )


def read_allowed(path: Path = ALLOWED) -> dict[str, Figures]:
    """Read the figures of texts that are not yet as wanted."""
    return {name: Figures(**figures) for name, figures in json.loads(path.read_text()).items()}


def lowered(allowed: Mapping[str, Figures], measured: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return the allowed figures, each lowered to what is measured; a text that is as wanted is left out."""
    lower = {}
    for name, bound in sorted(allowed.items()):
        if name not in measured:
            continue
        pairs = (
            (field.name, getattr(bound, field.name), getattr(measured[name], field.name)) for field in fields(Figures)
        )
        figures = Figures(**{key: max(min(old, new), getattr(WANTED, key)) for key, old, new in pairs})
        if figures != WANTED:
            lower[name] = figures
    return lower


def write_allowed(allowed: Mapping[str, Figures], path: Path = ALLOWED) -> None:
    """Write the figures of texts that are not yet as wanted."""
    path.write_text(json.dumps({name: asdict(figures) for name, figures in sorted(allowed.items())}, indent=2) + "\n")


def problems(text: Text, bound: Figures) -> list[str]:
    """Say what is wrong with a text: each figure above its bound, with the sentences or words that make it so."""
    figures = measure(text)
    found = []
    for name in bound.exceeded_by(figures):
        found.append(f"{text.name}: {name} is {getattr(figures, name)}, at most {getattr(bound, name)} allowed")
        if name == "longest_sentence":
            found += [
                f"    {sentence.word_count} words: {sentence.text}"
                for sentence in text.sentences
                if sentence.word_count > bound.longest_sentence
            ]
        elif name == "refused":
            found += [
                f"    {word!r} (write: {better}): {sentence.text}"
                for sentence in text.sentences
                for word, better in refused_words(sentence.text)
            ]
    return found
