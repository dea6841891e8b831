"""The comparisons in docs/compatibility.md: each thing that others have and we lack has its reason."""

import re

from tests.cases import run_for_each
from tests.docs.pages import DOCS, section

PAGE = DOCS / "compatibility.md"
PEERS = {
    "Compared with the charts of others": ("KEDA", "Karpenter", "cert-manager", "Kueue"),
    "Compared with kubectl-kueue": ("kubectl-kueue",),
}


def table(title: str) -> list[list[str]]:
    lines = [line for line in section(PAGE, title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@run_for_each(("title", "peers"), PEERS.items())
def test_every_peer_has_a_column_and_every_row_is_whole(title: str, peers: tuple[str, ...]) -> None:
    heading, _, *rows = table(title)
    assert heading[1:-1] == list(peers)
    assert rows
    assert all(len(row) == len(heading) and all(row) for row in rows)


@run_for_each("title", PEERS)
def test_what_is_lacking_has_its_reason(title: str) -> None:
    ours = [row[-1] for row in table(title)[2:]]
    lacking = [cell for cell in ours if re.search(r"\black\b", cell)]
    assert lacking
    assert [cell for cell in lacking if not re.search(r"\black: \S+ \S+ \S+", cell)] == []
    assert [cell for cell in ours if cell in ("no", "-", "none")] == []
