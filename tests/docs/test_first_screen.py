"""The README in the order in which people read it, and that its figures are those that were measured."""

import re
from itertools import pairwise

from tests.cases import run_for_each
from tests.docs.pages import DOCS, ROOT, section

README = (ROOT / "README.md").read_text()
SCREEN = README.partition("\n## ")[0]
ORDER = (
    "\n**resource-slack keeps spare capacity",
    "pictures/components.svg",
    "helm install ",
    "(docs/compatibility.md)",
    "\n## The problem, and what it does\n",
    "\n## See a burst\n",
    "\n## Is my slack there?\n",
    "\n## When to use it, and when not\n",
    "\n## Companions\n",
    "\n## How mature is it?\n",
    "\n## Next\n",
)
SEARCHED = ("overprovisioning", "headroom", "pause pods", "spare capacity", "cold start", "warm", "CapacityBuffer")
"""The words with which people search for such a program."""
INSTALL_ENDS_BY_LINE, WHAT_IT_IS_BY_LINE = 15, 3


def rows(text: str, header: str) -> list[list[str]]:
    """The cells of the table that has this beginning of a header."""
    table = text[text.index(header) :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_it_is_in_the_order_in_which_people_read() -> None:
    places = [README.index(text) for text in ORDER]
    assert all(one < next_one for one, next_one in pairwise(places))


def test_what_it_is_and_how_to_install_it_are_on_the_first_screen() -> None:
    lines = README.splitlines()
    assert re.fullmatch(r"\*\*[^.]+\.\*\*", lines[WHAT_IT_IS_BY_LINE - 1]), "one sentence"
    (start,) = [number for number, line in enumerate(lines, start=1) if line.startswith("helm install ")]
    end = next(number for number, line in enumerate(lines, start=1) if number > start and line == "```")
    assert end - 1 <= INSTALL_ENDS_BY_LINE
    commands = re.sub(r"\\\n\s*", "", SCREEN.partition("```\n")[2].partition("```")[0]).splitlines()
    assert [command.split()[0] for command in commands] == ["docker", "docker", "helm"]
    assert SCREEN.count("![") == 1


@run_for_each("word", SEARCHED)
def test_it_has_the_words_that_people_search_for(word: str) -> None:
    assert word in " ".join(README.split())


def test_its_figures_of_bursts_are_those_that_were_measured() -> None:
    page = section(DOCS / "performance.md", "Bursts")
    measured: dict[tuple[str, str], str] = {}
    for pods, owner, free, unbound, _, at_once, *_ in rows(page, "| pods | owner | free capacity"):
        if owner == "Deployment":
            shares = at_once.split("; ")
            for into, waits, share in zip(("free", "unbound"), (free, unbound), shares, strict=True):
                measured[pods, into] = f"{waits.partition(' / ')[2]} s, {share}"
    for pods, owner, into, waits, _, share, *_ in rows(page, "| pods | owner | into"):
        if owner == "Deployment":
            measured[pods, into] = f"{waits.partition(' / ')[2]} s, {share}"
    columns = ("bound placeholders", "unbound", "making way", "free")
    shown = rows(README, "| pods | pause pods |")
    assert [pods for pods, *_ in shown] == ["10", "100", "400"], (
        "small, medium, and the largest, which is not flattering"
    )
    for pods, *cells in shown:
        assert cells == [measured[pods, into] for into in columns], f"{pods} pods: docs/performance.md differs"
