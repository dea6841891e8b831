"""The README's first screen: what a new reader sees before the first heading, and that its figures are the pages'."""

import re

from tests.docs.pages import DOCS, ROOT, section

SCREEN = (ROOT / "README.md").read_text().partition("\n## ")[0]


def rows(text: str, header: str) -> list[list[str]]:
    """The cells of the table that has this beginning of a header."""
    table = text[text.index(header) :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_it_is_one_sentence_one_picture_how_to_install_the_two_tables_and_then_the_two_commands() -> None:
    order = [
        "\n**New pods ",
        "![",
        "helm install ",
        "\n| pods | pause pods |",
        "\n| load, at once without slack |",
        "`resource-slack migrate`",
        "make demo ",
        "make test ",
    ]
    places = [SCREEN.index(text) for text in order]
    assert places == sorted(places)
    sentence = SCREEN.split("\n\n")[1]
    assert re.fullmatch(r"\*\*[^.]+\.\*\*", sentence), "one sentence"
    assert SCREEN.count("![") == 1


def test_it_answers_why_not_each_of_the_others() -> None:
    for other in ("Karpenter or the Cluster Autoscaler alone?", "four pause pods?", "CapacityBuffer?"):
        assert f"**Why not {other}**" in SCREEN


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
    told = rows(SCREEN, "| pods | pause pods |")
    assert len(told) == 5
    for pods, *cells in told:
        assert cells == [measured[pods, into] for into in columns], (
            f"{pods} pods: docs/performance.md has other figures"
        )


def test_its_figures_of_sizes_are_those_of_the_page_about_rates() -> None:
    page = rows(section(DOCS / "choosing-a-rate.md", "Which kind of slack"), "| load, at once without slack")
    figures = [re.findall(r"[0-9.]+(?= ?%)", " ".join(cells)) for cells in page]
    told = [re.findall(r"[0-9.]+(?= ?%)", " ".join(cells)) for cells in rows(SCREEN, "| load, at once without slack")]
    assert told == figures
