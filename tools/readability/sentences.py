"""The sentences of a text: of a Markdown page, of comments in YAML, of a Helm template, of a docstring.

Inline code counts as one word, a link as its text; code blocks are left out. Headings and cells are fragments:
their words are checked, and they count for the longest sentence, but not for the mean, which they would lower.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
_HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`+[^`]+`+")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +")
_END = re.compile(r"""(?<=[.!?])["')*_]*\s+(?=["'(*_`]*[A-Z0-9`<\[])""")
_WORD = re.compile(r"[A-Za-z0-9<][\w<>'/.:%-]*")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|approx)\.\s", re.IGNORECASE)
_COMMENT = re.compile(r"^\s*#+ ?(.*)$|^[^#\n]*\S\s+# (.*)$")
CODE = "CODE"
"""What stands for inline code: one word that no list refuses."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as a reader sees it, and whether it is running text."""

    text: str
    is_prose: bool = True

    @property
    def word_count(self) -> int:
        """How many words it has; inline code is one."""
        return len(_WORD.findall(self.text))


def split_sentences(text: str) -> list[str]:
    """Divide a paragraph at the ends of its sentences."""
    joined = " ".join(_ABBREVIATION.sub(lambda found: found[0].strip().rstrip(".") + " ", text).split())
    return [part for part in _END.split(joined) if _WORD.search(part)]


def markdown_sentences(page: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown page, paragraph by paragraph."""
    page = _IMAGE.sub("", _HTML_COMMENT.sub("", _FENCE.sub("\n\n", page)))
    page = _LINK.sub(r"\1", _CODE.sub(CODE, page))
    paragraph: list[str] = []
    for line in [*page.splitlines(), ""]:
        starts_anew = not line.strip() or _ITEM.match(line) or line.lstrip().startswith(("|", "#", ">"))
        if starts_anew and paragraph:
            yield from map(Sentence, split_sentences(" ".join(paragraph)))
            paragraph = []
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield from (Sentence(part, is_prose=False) for part in split_sentences(cell))
        elif line.lstrip().startswith("#"):
            yield Sentence(line.lstrip("# "), is_prose=False)
        elif line.strip():
            paragraph.append(_ITEM.sub("", line).lstrip("> "))


def comment_sentences(yaml_text: str) -> Iterator[Sentence]:
    """Yield the sentences of comments in YAML: lines in a row are one paragraph, one behind a value is its own."""
    paragraph: list[str] = []
    for line in [*yaml_text.splitlines(), ""]:
        found = _COMMENT.match(line)
        alone = found is not None and found[1] is not None
        if not (alone and found is not None and found[1].strip()) and paragraph:
            yield from map(Sentence, split_sentences(_CODE.sub(CODE, " ".join(paragraph))))
            paragraph = []
        if found is None:
            continue
        if alone:
            paragraph += [found[1]] if found[1].strip() else []
        else:
            yield from (Sentence(part, is_prose=False) for part in split_sentences(_CODE.sub(CODE, found[2])))


def template_sentences(template: str) -> Iterator[Sentence]:
    """Yield the sentences of a Helm template of text; a directive is one word, lines of commands are left out."""
    filled = _TEMPLATE.sub(lambda found: CODE if found[0].startswith("{{ ") else "", template)
    prose = "\n".join(
        "" if line.startswith("   ") and not line.strip()[:1].isupper() else line for line in filled.splitlines()
    )
    yield from markdown_sentences(prose)


def plain_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a help text or a message, in which a blank line ends a paragraph."""
    for paragraph in text.split("\n\n"):
        yield from map(Sentence, split_sentences(_CODE.sub(CODE, paragraph)))
