"""The pages of the repository, and what can be read out of them: prose, code blocks, inline code, links, headings."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "charts").rglob("*.md"))]

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def prose(path: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", path.read_text())


def blocks(path: Path, *languages: str) -> Iterator[str]:
    """Code blocks in one of these languages ("" is a block that names none)."""
    for language, body in _FENCE.findall(path.read_text()):
        if language in languages:
            yield body


def inline_code(text: str) -> Iterator[str]:
    """What stands between single backticks, on one line each."""
    return (" ".join(code.split()) for code in _INLINE.findall(text))


def headings(path: Path) -> list[str]:
    return re.findall(r"^#{1,6} +(.+?) *$", prose(path), re.MULTILINE)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in headings(path):
        text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return frozenset(found)


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """Relative links: the file, and the anchor or ''."""
    for link in _LINK.findall(prose(path)):
        if "://" not in link:
            target, _, anchor = link.partition("#")
            yield (path.parent / target).resolve() if target else path, anchor


def section(path: Path, heading: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    _, found, rest = path.read_text().partition(f"\n## {heading}\n")
    assert found, f"{name_of(path)} has no section {heading}"
    return rest.partition("\n## ")[0]
