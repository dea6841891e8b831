"""docs/requirements.md names a test for every requirement; each of them must be there."""

import ast
import re

from tests.cases import run_for_each
from tests.docs.pages import ROOT

TEXT = (ROOT / "docs" / "requirements.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))
ROWS = {line.split("|")[1].strip(): line for line in TEXT.splitlines() if re.match(r"\| [ARSTPCDX]\d", line)}
WANTED = [*(f"R{n}" for n in range(1, 11)), "R1-1", "R1-2", *(f"S{n}" for n in range(1, 8))]
STARTS = [
    f"{letter}{n}" for letter, last in (("T", 9), ("P", 4), ("C", 2), ("D", 3), ("X", 2)) for n in range(1, last + 1)
]
QUEUES = [f"A{n}" for n in range(1, 39)]
NOTHING_BUILT = {"T3", "A36", "A37"}


@run_for_each("requirement", [*WANTED, *(name for name in [*STARTS, *QUEUES] if name not in NOTHING_BUILT)])
def test_every_requirement_names_code_and_a_test(requirement: str) -> None:
    _, _, _, done, proved, _ = ROWS[requirement].split("|")
    assert done.strip()
    assert "::test_" in proved


def test_every_row_of_the_study_on_starts_and_of_the_proposal_on_queues_is_there() -> None:
    assert {*STARTS, *QUEUES} <= set(ROWS)


@run_for_each(("file", "test"), NAMED, ids=[name for _, name in NAMED])
def test_every_named_test_exists(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert test in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}


def test_every_named_file_exists() -> None:
    for path in set(re.findall(r"`(slack/[\w/]+\.py)`", TEXT)):
        assert (ROOT / path).is_file(), path
