"""Draws the pictures of docs/architecture.md, and writes its lists of packages and contracts: from the code and the
page.

    python docs/pictures/make_architecture.py      # writes what is not up to date (`make architecture`)

Packages are the folders of the library and of the operator's package; what a package is for is the first sentence of
its docstring, and its arrows are the imports of its modules. A way is a table of the page: step, file and function,
what happens there. The same code and page give the same bytes.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "architecture.md"
FLOORS = {"slack": ROOT / "slack", "slack_operator": ROOT / "operator" / "slack_operator"}
WAYS = {"A pod's event": "way_event.svg", "A policy's field": "way_field.svg", "A cgroup's sample": "way_sample.svg"}
"""Sections of the page that tell a way, and the picture of each."""
FOREIGN = ("kubernetes", "kopf", "numpy", "msgspec", "pydantic", "aiohttp", "prometheus_client", "typer")
"""Packages whose place is worth a word."""


@dataclass(frozen=True)
class Package:
    """A folder of modules."""

    name: str
    """Dotted, such as slack.planner.rollout."""
    summary: str
    packages: tuple[str, ...]
    """That its own modules import from, without itself."""
    foreign: tuple[str, ...]

    @property
    def path(self) -> str:
        """The folder as pages write it."""
        return (
            self.name.replace(".", "/") if self.name.startswith("slack.") else "operator/" + self.name.replace(".", "/")
        )


@cache
def modules() -> Mapping[str, Path]:
    """Every module and package by its dotted name."""
    found = {}
    for name, folder in FLOORS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (name, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def package_of(module: str) -> str:
    """The folder that a module lies in."""
    return module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it."""
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                below = f"{statement.module}.{alias.name}"
                yield below if below in modules() else statement.module
        elif isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)


@cache
def packages() -> Mapping[str, Package]:
    """Every package by its name, in the order of the tree."""
    found = {}
    for name, path in modules().items():
        if path.name != "__init__.py" or name in ("slack",):
            continue
        mine = [module for other, module in modules().items() if package_of(other) == name]
        named = {target for module in mine for target in imports(module)}
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[name] = Package(
            name,
            docstring.partition("\n\n")[0].replace("\n", " "),
            tuple(sorted({package_of(target) for target in named if target in modules()} - {name, "slack"})),
            tuple(package for package in FOREIGN if any(target.split(".")[0] == package for target in named)),
        )
    return found


def contracts() -> str:
    """What import-linter holds, in the words of its contracts."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return "\n".join(f"- {contract['name']}" for contract in told)


def table() -> str:
    """Every package with what it is for and which others it calls."""
    rows = ["| package | what it is for | calls |", "|---|---|---|"]
    for package in packages().values():
        above = package.name.rpartition(".")[0]
        near = [
            name.rpartition(".")[2]
            for name in package.packages
            if name.rpartition(".")[0] == above and above != "slack"
        ]
        far = [name for name in package.packages if name.rpartition(".")[0] != above or above == "slack"]
        own = sorted({name.removeprefix(f"{package.name}.") for name in far if name.startswith(f"{package.name}.")})
        other = sorted({".".join(name.split(".")[:2]) for name in far if not name.startswith(f"{package.name}.")})
        told = [*other, *near, *(f"its {name}" for name in own)]
        rows.append(f"| `{package.path}` | {package.summary} | {', '.join(told) or '-'} |")
    return "\n".join(rows)


# --- drawing ---------------------------------------------------------------------------------------------------------

STYLE = """
  .paper { fill: #ffffff }  .box { fill: #eef3fa; stroke: #5b7aa8 }  .box.process { fill: #fbf1e3; stroke: #b07c2f }
  .name { font-weight: 600; fill: #1b2733 }  .small { fill: #4a5866 }  .arrow { fill: none; stroke: #7d8b99 }
  .head { fill: #7d8b99 }  text { font-family: DejaVu Sans, Verdana, Arial, sans-serif }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14191f }  .box { fill: #1f2c3d; stroke: #7fa3d6 }  .box.process { fill: #3a2d19; stroke: #d9a352 }
    .name { fill: #eef3f8 }  .small { fill: #b4c0cc }  .arrow { stroke: #8696a6 }  .head { fill: #8696a6 }
  }
"""


def svg(width: float, height: float, title: str, body: Sequence[str]) -> str:
    """A whole picture on a paper of its own, so that it can be read on light and on dark pages."""
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<defs>{head}<path class="head" d="M0,0 L8,4 L0,8 z"/></marker></defs>',
            f'<rect class="paper" width="{width:g}" height="{height:g}" rx="6"/>',
            *body,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, words: str, kind: str, size: int = 12, anchor: str = "start") -> str:
    """One line of text."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def width_of(words: str, size: int = 12) -> float:
    """How wide a line may get: DejaVu Sans and Verdana, bold, take no more for words in small letters."""
    return 0.7 * size * len(words)


def wrapped(words: str, most: int) -> list[str]:
    """Lines of at most so many letters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def shown_graph() -> dict[str, set[str]]:
    """The packages of the two uppermost floors, each with those that it imports, less what follows from the others."""

    def short(name: str) -> str:
        return ".".join(name.split(".")[:2])

    graph: dict[str, set[str]] = {}
    for package in packages().values():
        graph.setdefault(short(package.name), set()).update(short(name) for name in package.packages)
    graph = {name: targets - {name} for name, targets in graph.items()}

    def reaches(start: str, goal: str) -> bool:
        return any(step == goal or reaches(step, goal) for step in graph[start])

    return {
        name: {goal for goal in goals if not any(reaches(step, goal) for step in goals - {goal})}
        for name, goals in graph.items()
    }


def levels(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """How far above the ground each package is: one above the highest that it imports."""

    @cache
    def height(name: str) -> int:
        return 1 + max((height(goal) for goal in graph[name]), default=-1)

    return {name: height(name) for name in graph}


def ordered(layers: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Each layer in an order with few crossings: by the mean place of what stands above and below."""
    best, fewest = layers, None
    for sweep in range(40):
        places = {node: i / max(len(layer), 1) for layer in layers for i, node in enumerate(layer)}
        side = sweep % 2
        layers = [
            sorted(
                layer,
                key=lambda node: (
                    _mean([places[pair[1 - side]] for pair in edges if pair[side] == node], places[node]),
                    node,
                ),
            )
            for layer in layers
        ]
        crossings = _crossings(layers, edges)
        if fewest is None or crossings < fewest:
            best, fewest = layers, crossings
    return best


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(layers: list[list[str]], edges: Sequence[tuple[str, str]]) -> int:
    level = {node: (depth, i) for depth, layer in enumerate(layers) for i, node in enumerate(layer)}
    return sum(
        level[a][0] == level[c][0] and (level[a][1] - level[c][1]) * (level[b][1] - level[d][1]) < 0
        for n, (a, b) in enumerate(edges)
        for c, d in edges[:n]
    )


BOX, GAP, ROW, HIGH = 320, 18, 188, 128
MOST_ARROWS = 4
"""A package that needs more has none, and its box says so: nobody could follow them."""


def packages_picture() -> str:
    """The packages in layers, each above all that it imports."""
    graph = shown_graph()
    level = levels(graph)
    top = max(level.values())
    layers: list[list[str]] = [[] for _ in range(top + 1)]
    for name in graph:
        layers[top - level[name]].append(name)
    edges: list[tuple[str, str]] = []
    bends: dict[tuple[str, str], list[str]] = {}
    for name, goals in graph.items():
        for goal in sorted(goals) if len(goals) <= MOST_ARROWS else ():
            chain = [name, *(f"{name}>{goal}@{step}" for step in range(level[name] - 1, level[goal], -1)), goal]
            bends[name, goal] = chain
            edges += list(pairwise(chain))
            for step, bend in zip(range(level[name] - 1, level[goal], -1), chain[1:-1], strict=True):
                layers[top - step].append(bend)
    layers = ordered(layers, edges)
    widths = {node: 0 if "@" in node else BOX for layer in layers for node in layer}
    widest = max(sum(widths[node] + GAP for node in layer) for layer in layers)
    places: dict[str, tuple[float, float]] = {}
    for depth, layer in enumerate(layers):
        left = GAP + (widest - sum(widths[node] + GAP for node in layer)) / 2
        for node in layer:
            places[node] = left + widths[node] / 2, GAP + depth * ROW + HIGH / 2
            left += widths[node] + GAP
    body = [
        _arrow(
            [
                (_port(name, chain[1], [drawn[1] for (start, _), drawn in bends.items() if start == name], places)),
                *(places[bend] for bend in chain[1:-1]),
                (_port(goal, chain[-2], [drawn[-2] for (_, end), drawn in bends.items() if end == goal], places)),
            ]
        )
        for (name, goal), chain in bends.items()
    ]
    for name, goals in graph.items():
        body += _package_box(name, *places[name], calls_nearly_all=len(goals) > MOST_ARROWS)
    return svg(
        widest + GAP, len(layers) * ROW - ROW + HIGH + 2 * GAP, "The packages, each above all that it calls", body
    )


def _port(
    package: str, towards: str, all_towards: Sequence[str], places: Mapping[str, tuple[float, float]]
) -> tuple[float, float]:
    """Where on a package's edge an arrow begins or ends: each has its own place, in the order of where they go."""
    x, y = places[package]
    turn = sorted(all_towards, key=lambda node: (places[node][0], node)).index(towards)
    return x + BOX * 0.8 * ((turn + 1) / (len(all_towards) + 1) - 0.5), y


def _arrow(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    y += HIGH / 2
    path = f"M{x:g},{y:g}"
    for i, (to_x, to_y) in enumerate(rest):
        end_y = to_y - HIGH / 2 - (2 if i == len(rest) - 1 else 0)
        middle = (y + end_y) / 2
        path += f" C{x:g},{middle:g} {to_x:g},{middle:g} {to_x:g},{end_y:g}"
        x, y = to_x, end_y
        if i < len(rest) - 1:
            y = to_y + HIGH / 2
            path += f" L{x:g},{y:g}"
    return f'<path class="arrow" d="{path}" marker-end="url(#head)"/>'


def _package_box(name: str, x: float, y: float, *, calls_nearly_all: bool) -> list[str]:
    below = [package for package in packages().values() if package.name.startswith(f"{name}.") and name.count(".")]
    inner = [
        package.name.removeprefix(f"{name}.") for package in below if package.name.count(".") == name.count(".") + 1
    ]
    foreign = [other for other in FOREIGN if any(other in package.foreign for package in (packages()[name], *below))]
    floor, _, last = name.rpartition(".")
    about = re.split(r"[:.,;]", packages()[name].summary)[0]
    lines = [*wrapped(about, 40)[:2], *(wrapped(", ".join(inner), 40) if inner else [])]
    lines += ["calls nearly all; arrows left out"] if calls_nearly_all else []
    lines += [f"[{', '.join(foreign)}]"] if foreign else []
    top = y - HIGH / 2
    return [
        f'<rect class="{"box process" if name.startswith("slack_operator") else "box"}" x="{x - BOX / 2:g}" y="{top:g}"'
        f' width="{BOX}" height="{HIGH}" rx="7"/>',
        text(x, top + 20, f"operator: {last}" if floor == "slack_operator" else last, "name", 14, "middle"),
        *(text(x, top + 37 + 14 * i, line, "small", 12, "middle") for i, line in enumerate(lines)),
    ]


@dataclass(frozen=True)
class Step:
    """One row of a way."""

    file: str
    function: str
    happens: str

    @property
    def package(self) -> str:
        """The folder, without the floor."""
        folder = self.file.rpartition("/")[0]
        return folder.removeprefix("operator/slack_operator/").removeprefix("slack/")

    @property
    def label(self) -> str:
        """File and function."""
        return self.file.rpartition("/")[2] + (f": {self.function}" if self.function else "")

    @property
    def branches_from(self) -> int | None:
        """The step that it follows, where that is not the one before."""
        found = re.match(r"from step (\d+):", self.happens)
        return int(found[1]) if found else None


_ROW = re.compile(r"^\| \d+ \| `([\w./-]+)`(?: `(\w+)`)? \| (.+) \|$", re.MULTILINE)


def way(heading: str) -> list[Step]:
    """The steps of a way, as the page tells them."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [Step(*found) for found in _ROW.findall(section)]


def way_picture(heading: str) -> str:
    """The steps from the top down, each in the column of its package: an arrow to the left comes back to a package."""
    steps = way(heading)
    columns = list(dict.fromkeys(step.package for step in steps))
    lane, row, high, top = 52, 70, 46, 58
    labels = [f"{number}  {step.label}" for number, step in enumerate(steps, 1)]
    box = max(width_of(label) for label in labels) + 20
    places = [(GAP + columns.index(step.package) * lane, top + i * row) for i, step in enumerate(steps)]
    right = GAP + (len(columns) - 1) * lane + box
    words_at = right + 2 * GAP
    body = [
        text(
            GAP, 26, "Each package has a column, in the order in which the way comes to them: an arrow to the", "small"
        ),
        text(GAP, 42, "left comes back to a package. Blue is the library, brown what runs in a cluster.", "small"),
    ]
    for number, (step, label, (x, y)) in enumerate(zip(steps, labels, places, strict=True), 1):
        if step.branches_from is not None:
            from_x, from_y = places[step.branches_from - 1]
            path = f"M{from_x + box:g},{from_y + high / 2:g} C{right + GAP:g},{from_y + high / 2:g} "
            path += f"{right + GAP:g},{y + high / 2:g} {x + box + 2:g},{y + high / 2:g}"
            body.append(f'<path class="arrow" d="{path}" marker-end="url(#head)"/>')
        elif number > 1:
            from_x, from_y = places[number - 2][0] + 26, places[number - 2][1] + high
            bend = (from_y + y) / 2
            path = f"M{from_x:g},{from_y:g} C{from_x:g},{bend:g} {x + 26:g},{bend:g} {x + 26:g},{y - 2:g}"
            body.append(f'<path class="arrow" d="{path}" marker-end="url(#head)"/>')
        kind = "box process" if step.file.startswith("operator/") else "box"
        body += [
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{box:g}" height="{high}" rx="6"/>',
            text(x + 10, y + 18, label, "name"),
            text(x + 10, y + 36, step.package, "small"),
        ]
        lines = wrapped(re.sub(r"[`*]", "", step.happens), 62)
        first = y + high / 2 + 4 - 7.5 * (len(lines) - 1)
        body += [text(words_at, first + 15 * n, line, "small") for n, line in enumerate(lines)]
    return svg(words_at + 450, top + len(steps) * row, heading, body)


def written() -> dict[Path, str]:
    """Every file that is made here, with its text."""
    files = {PICTURES / "packages.svg": packages_picture()}
    files |= {PICTURES / name: way_picture(heading) for heading, name in WAYS.items()}
    page = PAGE.read_text()
    for name, content in (("packages", table()), ("contracts", contracts())):
        page = re.sub(
            rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)", rf"\1\n{content}\n\n\2", page, flags=re.DOTALL
        )
    return files | {PAGE: page}


def main() -> None:
    """Write what is not up to date."""
    for path, content in written().items():
        if not path.exists() or path.read_text() != content:
            path.write_text(content)


if __name__ == "__main__":
    main()
