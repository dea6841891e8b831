"""Comments and docstrings cite what a reader can open: pages, their headings, requirements, files, modules."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, headings, name_of
from tests.docs.test_names import absent

FOLDERS = (
    "slack",
    "operator",
    "tests",
    "e2e",
    "benchmarks",
    "tools",
    "charts",
    "deploy",
    "examples",
    "fuzz",
    "docs",
    ".ci",
)
KINDS = {".py", ".sh", ".yaml", ".yml", ".toml", ".tpl", ".go", ".txt", ".in", ""}
FILES = [
    path
    for path in (
        *sorted(ROOT.glob("*")),
        *(file for package in FOLDERS for file in sorted((ROOT / package).rglob("*"))),
    )
    if path.is_file()
    and path.suffix in KINDS
    and path.name not in ("LICENSE", ".coverage")
    and "__pycache__" not in path.parts
]
PYTHON = [path for path in FILES if path.suffix == ".py"]

_PAGE = re.compile(r'(?<![\w/.{-])([\w./-]*\w\.md)\b(?:, "([^"]+)")?')
_REQUIREMENT = re.compile(r"\b([RS]\d{1,2}(?:-\d)?)\b")
_STEP = re.compile(r"\b([RS]\d{1,2}) (step \d)\b")
_SECTION = re.compile(r"§|\.md\W{0,2} ?\d+\.\d|\b(?:section|chapter|sec\.) \d", re.IGNORECASE)
NAMES = {"NAME.md", "name.md", "flags.md"}
"""Names that stand for others, and a file that an example writes."""


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements at any depth, without the expressions in them, which are most of a tree."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(statement, field, ()))


@cache
def words_for_readers(path: Path) -> tuple[tuple[int, str], ...]:
    """The comments and docstrings of a Python file, each with its line."""
    return tuple(_words_for_readers(path.read_text()))


def _words_for_readers(text: str) -> Iterator[tuple[int, str]]:
    for line, comment in enumerate(text.splitlines(), start=1):
        if "#" in comment:
            yield line, comment.partition("#")[2]
    for statement in statements(ast.parse(text).body):
        # a text that stands alone is a docstring: of what it is in, or of the field before it
        match statement:
            case ast.Expr(value=ast.Constant(value=str() as words)):
                yield statement.lineno, words


def exists(page: str, beside: Path) -> bool:
    return any((folder / page).is_file() for folder in (ROOT, beside.parent, DOCS, DOCS / "reference"))


def test_only_pages_that_are_there_are_cited() -> None:
    wrong = []
    for path in FILES:
        for page, heading in _PAGE.findall(path.read_text()):
            if Path(page).name in NAMES:
                continue
            if not exists(page, path):
                wrong.append(f"{name_of(path)} cites {page}, which is not there")
            elif heading and not any(found.startswith(heading) for found in headings(ROOT / page)):
                wrong.append(f"{name_of(path)}: {page} has no heading {heading}")
    assert not wrong, "\n".join(wrong)


def test_requirements_and_sections_that_are_cited_are_there() -> None:
    """R1 to S7 and their steps are rows of the page; our pages have headings and no numbered sections."""
    page = (DOCS / "requirements.md").read_text()
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if re.match(r"\| [RS]\d", line)}
    wrong = []
    for path in PYTHON:
        text = path.read_text()
        if not _REQUIREMENT.search(text) and not _SECTION.search(text):
            continue  # not worth a parse
        for line, words in words_for_readers(path):
            place = f"{name_of(path)}:{line}"
            wrong += [f"{place}: {name} is no requirement" for name in set(_REQUIREMENT.findall(words)) - set(rows)]
            wrong += [
                f"{place}: {name} has no {step}"
                for name, step in _STEP.findall(words)
                if f"({step})" not in rows.get(name, "")
            ]
            wrong += [f"{place}: cite a heading, not a number"] if _SECTION.search(words) else []
    assert not wrong, "\n".join(wrong)


def test_files_and_modules_that_are_named_in_comments_are_there() -> None:
    wrong = []
    for path in FILES:
        text = path.read_text()
        if path.suffix != ".py":
            said = re.findall(r"#(.*)", text)
        elif not absent(text.replace("\\n", "\n"), path):
            continue  # all that it names is there, in code as well: not worth a parse
        else:
            said = [words for _, words in words_for_readers(path)]
        wrong += [f"{name_of(path)}: {name}" for words in said for name in absent(words, path)]
    assert not wrong, "\n".join(wrong)
