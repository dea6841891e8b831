"""Write docs/pictures/forms.svg: the two forms of placeholders when they stand by, in a burst, and after the refill.

Usage:
    python docs/pictures/make_forms.py > docs/pictures/forms.svg     # make pictures
"""

import sys
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 384
LEFT, PANEL, TOP, ROW = 16, 246, 84, 148
CELL_WIDTH, CELL_HEIGHT, GAP = 34, 22, 3
SLOTS = 3
STYLE = """
  .paper { fill: #ffffff }  .node { stroke: #8795a3; fill: none }  .name { fill: #1b2733; font-weight: 600 }
  .small { fill: #4a5866 }  .pod { fill: #2f6db0 }  .new { fill: #174a80 }  .slack { fill: #d9a352 }
  .free { fill: none; stroke: #b07c2f; stroke-dasharray: 4 3 }  .pending { fill: #f6ead6; stroke: #b07c2f }
  text { font-family: DejaVu Sans, Verdana, Arial, sans-serif }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14191f }  .node { stroke: #6b7a88 }  .name { fill: #eef3f8 }  .small { fill: #b4c0cc }
    .pod { fill: #4d86c4 }  .new { fill: #9cc4ee }  .slack { fill: #b07c2f }  .free { stroke: #d9a352 }
    .pending { fill: #3a2f1c; stroke: #d9a352 }
  }
"""


class Moment(NamedTuple):
    """One panel: each node's slots from the bottom up, and how many placeholders are Pending beside them."""

    nodes: tuple[str, ...]
    """A letter a slot: p a pod, n a pod of the burst, s a placeholder, f capacity that is kept free."""
    pending: int
    says: str


KINDS = {"p": "pod", "n": "new", "s": "slack", "f": "free"}
MOMENTS = ("1. They stand by", "2. A burst of three pods", "3. The refill")
FORMS = (
    (
        "Unbound",
        (
            Moment(("ppp", "ppf", "pff"), 3, "capacity is free for three"),
            Moment(("ppp", "ppn", "pnn"), 3, "pods start; nothing is preempted"),
            Moment(("ppp", "ppn", "pnn", "fff"), 3, "the same three fit again"),
        ),
    ),
    (
        "Bound",
        (
            Moment(("ppp", "pps", "pss"), 0, "three placeholders run"),
            Moment(("ppp", "ppn", "pnn"), 3, "three are preempted and recreated"),
            Moment(("ppp", "ppn", "pnn", "sss"), 0, "they run on a new node"),
        ),
    ),
)
LEGEND = (("pod", "pod"), ("new", "pod of the burst"), ("slack", "running placeholder"), ("free", "capacity kept free"))


def _text(kind: str, x: float, y: float, words: str, size: int = 12) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}">{escape(words)}</text>'


def _cell(kind: str, x: float, y: float, width: float = CELL_WIDTH) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{CELL_HEIGHT}" rx="3"/>'


def _panel(moment: Moment, x: float, y: float) -> list[str]:
    body = []
    pitch, height = CELL_WIDTH + 2 * GAP + 4, SLOTS * (CELL_HEIGHT + GAP) + GAP
    for number, slots in enumerate(moment.nodes):
        left = x + number * pitch
        body.append(
            f'<rect class="node" x="{left:g}" y="{y:g}" width="{CELL_WIDTH + 2 * GAP}" height="{height}" rx="4"/>'
        )
        for slot, letter in enumerate(slots):
            top = y + height - (slot + 1) * (CELL_HEIGHT + GAP)
            body.append(_cell(KINDS[letter], left + GAP, top))
    for number in range(moment.pending):
        top = y + height - (number + 1) * (CELL_HEIGHT + GAP)
        body.append(_cell("pending", x + 4 * pitch + 6, top, 26))
    body.append(_text("small", x, y + height + 18, moment.says, 11))
    return body


def draw() -> str:
    """Return the picture."""
    title = "Placeholders that are unbound, and bound: standing by, in a burst, after the refill"
    body = [f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>']
    for column, words in enumerate(MOMENTS):
        body.append(_text("name", LEFT + column * PANEL, 30, words, 13))
    for row, (form, moments) in enumerate(FORMS):
        top = TOP + row * ROW
        body.append(_text("name", LEFT, top - 14, form))
        for column, moment in enumerate(moments):
            body += _panel(moment, LEFT + column * PANEL, top)
    x = float(LEFT)
    for kind, words in (*LEGEND, ("pending", "Pending placeholder")):
        body += [_cell(kind, x, HEIGHT - 34, 18), _text("small", x + 24, HEIGHT - 18, words, 11)]
        x += 48 + 6.6 * len(words)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return "\n".join(
        [f'{head} role="img">', f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"]
    )


def main() -> None:
    """Draw."""
    sys.stdout.write(draw())


if __name__ == "__main__":
    main()
