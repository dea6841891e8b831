"""What it costs to live in this code: the tests, the start of a command, lines and packages; this commit beside
another.

Usage:
    python -m benchmarks.house                       # both sides; the tests take half an hour
    python -m benchmarks.house --no-tests            # two minutes
    python -m benchmarks.house --sizes               # seconds: the code itself, nothing is run
    python -m benchmarks.house --base HEAD~10 -o json

The base is a git worktree in a temporary folder, set up by its own `make setup`. Both sides are measured in turns;
figures are medians of three, after a run that is not counted.
"""

import ast
import io
import os
import statistics
import subprocess
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Report, Row, parser, say, show

ROOT = Path(__file__).resolve().parents[1]
BASE = "2372eda"
"""The last commit before folders became packages."""
RUNS = 3
PRODUCT = ("slack", "operator/slack_operator")
AROUND = ("slack/cli/", "slack/process/", "slack/monitoring/", "slack/documents/")
"""What surrounds the decisions."""
DECLARATIONS = frozenset({"metric_definitions", "metrics", "families", "status_schema", "report_schema"})
"""Modules, in whatever package, that declare metrics and statuses."""
MOST_LINES, MOST_COMPLEX = 60, 15
COMMAND = ".venv/bin/resource-slack"
EXAMPLE = ("-f", "examples/slackpolicy.yaml", "--snapshot", "examples/cluster.json", "--at", "2026-01-15T10:00:00Z")
COMMANDS = {
    "resource-slack --help": (COMMAND, "--help"),
    "plan of the example cluster": (COMMAND, "plan", *EXAMPLE),
}
TESTS = {"make test": ("make", "-s", "test")}
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Cost(NamedTuple):
    """What one run of a command took."""

    wall_seconds: float
    cpu_seconds: float
    """Of all its processes, user and system."""


def run(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in a checkout, without what the surroundings say about bytecode and clusters."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "KUBE", "MAKE"))}
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(wall, cpu)


@contextmanager
def checkout(commit: str, *, set_up: bool) -> Iterator[Path]:
    """Yield a worktree of a commit, set up if something is to run in it."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", base, commit], cwd=ROOT, check=True)
        try:
            if set_up:
                run(("make", "-s", "setup"), base)
            yield base
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", base], cwd=ROOT, check=True)


def code_lines(source: str) -> int:
    """Count lines that hold code: no blanks, comments, docstrings, nor the strings that describe a field."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def size_of(folder: Path) -> dict[str, int]:
    """Return how much product code a checkout has, and in how large packages."""
    files = [file for package in PRODUCT for file in (folder / package).rglob("*.py")]
    modules = [file for file in files if file.name != "__init__.py"]
    packages = Counter(file.parent for file in modules)
    lines = {file.relative_to(folder).as_posix(): code_lines(file.read_text()) for file in files}
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = Counter(n.name for n in nodes if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))
    return {
        "lines of product code": sum(lines.values()),
        "of these: commands, settings, rules, metrics, statuses": sum(
            count for name, count in lines.items() if name.startswith(AROUND) or Path(name).stem in DECLARATIONS
        ),
        f"functions of more than {MOST_LINES} lines": sum(
            (node.end_lineno or node.lineno) - node.lineno >= MOST_LINES for node in functions
        ),
        f"functions of a complexity above {MOST_COMPLEX}": complex_functions(folder),
        "class names that stand for several classes": sum(count > 1 for count in classes.values()),
        "modules": len(modules),
        "packages": len(packages),
        "modules of the largest package": max(packages.values()),
    }


def complex_functions(folder: Path) -> int:
    """Count functions that branch too often, by ruff's measure."""
    limit = f"lint.mccabe.max-complexity={MOST_COMPLEX}"
    command = (
        ".venv/bin/ruff",
        "check",
        "--isolated",
        "--ignore-noqa",
        "--select=C901",
        f"--config={limit}",
        "--output-format=concise",
    )
    found = subprocess.run((*command, *(folder / name for name in PRODUCT)), cwd=ROOT, capture_output=True, text=True)
    return found.stdout.count(" C901 ")


def costs(commands: Mapping[str, Sequence[str]], sides: Sequence[Path]) -> Iterator[Row]:
    """Measure commands on both sides in turns; yield the medians, wall and CPU."""
    for name, command in commands.items():
        found: list[list[Cost]] = [[] for _ in sides]
        for number in range(RUNS + 1):
            for side, kept in zip(sides, found, strict=True):
                cost = run(command, side)
                say(f"{name}: {'warm-up' if number == 0 else number}, {side}: {cost.wall_seconds:.2f} s")
                if number:
                    kept.append(cost)
        for kind in Cost._fields:
            base, now = (statistics.median(getattr(cost, kind) for cost in kept) for kept in found)
            word = "CPU" if kind == "cpu_seconds" else "wall"
            yield {"what": f"{name}, {word}", "base s": base, "now s": now, "ratio": now / base}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("this commit beside another: tests, commands, lines, packages")
    options.add_argument("--base", default=BASE, help=f"the commit to compare with ({BASE})")
    options.add_argument("--no-tests", action="store_true", help="leave out `make test`")
    options.add_argument("--sizes", action="store_true", help="only count lines, functions, classes and packages")
    asked = options.parse_args(arguments)
    run(("make", "-s", "setup"), ROOT)
    times = []
    with checkout(asked.base, set_up=not asked.sizes) as base:
        if not asked.sizes:
            commands = COMMANDS | ({} if asked.no_tests else TESTS)
            times = [Report(f"Beside {asked.base}: time, medians of {RUNS}", [*costs(commands, (base, ROOT))])]
        before, now = size_of(base), size_of(ROOT)
    sizes: list[Row] = [
        {
            "what": name,
            "base": before[name],
            "now": now[name],
            "ratio": now[name] / before[name] if before[name] else None,
        }
        for name in now
    ]
    show([*times, Report(f"Beside {asked.base}: the code itself", sizes)], asked.output)


if __name__ == "__main__":
    main()
