"""Write docs/pictures/components.svg: operator, placeholders, autoscaler, scheduler and nodes, and who does what.

Usage:
    python docs/pictures/make_components.py > docs/pictures/components.svg     # make pictures
"""

import sys
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 330
STYLE = """
  .paper { fill: #ffffff }  .box { fill: #f3f6f9; stroke: #8795a3 }  .ours { fill: #f6ead6; stroke: #b07c2f }
  .name { fill: #1b2733; font-weight: 600 }  .small { fill: #4a5866 }  .step { fill: #174a80; font-weight: 600 }
  .arrow { stroke: #4a5866; stroke-width: 1.5; fill: none; marker-end: url(#tip) }  .tip { fill: #4a5866 }
  text { font-family: DejaVu Sans, Verdana, Arial, sans-serif }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14191f }  .box { fill: #1f2730; stroke: #6b7a88 }  .ours { fill: #3a2f1c; stroke: #d9a352 }
    .name { fill: #eef3f8 }  .small { fill: #b4c0cc }  .step { fill: #9cc4ee }
    .arrow { stroke: #b4c0cc }  .tip { fill: #b4c0cc }
  }
"""


class Box(NamedTuple):
    """A component: its place, its name, and what it does in one or two lines."""

    x: int
    y: int
    width: int
    kind: str
    name: str
    lines: tuple[str, ...]


BOX_HEIGHT = 66
BOXES = (
    Box(16, 34, 200, "ours", "resource-slack operator", ("sizes the headroom from", "your pods and policies")),
    Box(286, 34, 190, "ours", "placeholder pods", ("low priority, do nothing,", "like pause pods")),
    Box(546, 34, 198, "box", "autoscaler", ("Cluster Autoscaler", "or Karpenter, unchanged")),
    Box(16, 232, 200, "box", "your pods", ("a burst, a rollout, a Job,", "an HPA that scales up")),
    Box(286, 232, 190, "box", "scheduler", ("kube-scheduler,", "unchanged")),
    Box(546, 232, 198, "box", "nodes", ("with spare capacity", "for the next pods")),
)
ARROWS = (
    ("M216 67 H278", "1 creates", 222, 58),
    ("M476 67 H538", "2 need", 483, 58),
    ("M645 100 V224", "3 adds nodes early, and keeps them", 404, 168),
    ("M216 265 H278", "4 arrive", 221, 256),
    ("M476 265 H538", "5 bind", 485, 256),
    ("M116 232 V108", "watched by the operator", 126, 168),
)


def _text(kind: str, x: float, y: float, words: str, size: int = 12) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}">{escape(words)}</text>'


def draw() -> str:
    """Return the picture."""
    title = "The operator creates placeholders; the autoscaler adds nodes for them; your pods start on those nodes"
    body = [f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>']
    body.append(
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 Z"/></marker></defs>'
    )
    for box in BOXES:
        body.append(
            f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{BOX_HEIGHT}" rx="5"/>'
        )
        body.append(_text("name", box.x + 10, box.y + 21, box.name, 13))
        body += [_text("small", box.x + 10, box.y + 39 + 15 * i, line, 11) for i, line in enumerate(box.lines)]
    for path, words, x, y in ARROWS:
        body += [f'<path class="arrow" d="{path}"/>', _text("step", x, y, words, 11)]
    body.append(
        _text("small", 16, HEIGHT - 12, "Your pods do not wait for a node: it was added earlier, for a placeholder.")
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return "\n".join(
        [f'{head} role="img">', f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>\n"]
    )


def main() -> None:
    """Draw."""
    sys.stdout.write(draw())


if __name__ == "__main__":
    main()
