"""What pages, runbooks, alerts and dashboards name is there: files, modules, make targets, metrics."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from slack_operator.auditor.metric_definitions import AGENT_FAMILIES, CONTROLLER_FAMILIES
from slack_operator.demand.metric_definitions import DEMAND_CONTROLLER_FAMILIES
from slack_operator.loadwatcher.metric_definitions import LOAD_WATCHER_FAMILIES
from slack_operator.placeholders.report.metric_definitions import FAMILIES
from slack_operator.scorer.metric_definitions import SCORER_FAMILIES
from slack_operator.throttler.agent.metric_definitions import THROTTLER_AGENT_FAMILIES
from slack_operator.throttler.controller.metric_definitions import THROTTLER_CONTROLLER_FAMILIES
from tests.cases import run_for_each
from tests.docs.pages import PAGES, ROOT, blocks, inline_code, name_of, prose
from tests.tools.monitoring.promql import family_of

GENERATED = [
    *sorted((ROOT / "charts" / "resource-slack").rglob("*.json")),
    *sorted((ROOT / "charts" / "resource-slack").rglob("*.yaml")),
    *sorted((ROOT / "e2e" / "monitoring").glob("*.yaml")),
]
CODE = ("slack", "operator", "tests", "e2e", "benchmarks", "tools", "fuzz", "charts", "docs")
EXPORTED = {
    family.name
    for family in (
        *FAMILIES,
        *AGENT_FAMILIES,
        *CONTROLLER_FAMILIES,
        *LOAD_WATCHER_FAMILIES,
        *SCORER_FAMILIES,
        *THROTTLER_AGENT_FAMILIES,
        *THROTTLER_CONTROLLER_FAMILIES,
        *DEMAND_CONTROLLER_FAMILIES,
    )
}
FORMER = {"CHANGELOG.md": "slack_cfs_"}
"""Pages that tell of former metrics, and how those began."""

_TOP = "slack|operator|tests|e2e|benchmarks|tools|charts|deploy|docs|examples|fuzz|requirements|\\.ci"
_PATH = re.compile(rf"(?<![\w/.:-])((?:{_TOP})/[\w./*{{}},-]*)")
_DEPLOYMENT = re.compile(r"deploy/[\w-]+(/[\w-]+)?")
"""`deploy/api` is a Deployment; the folder has files with an ending."""
_MODULE = re.compile(r"(?<![\w/.-])((?:slack|slack_operator|tests|e2e|benchmarks|tools)(?:\.[a-zA-Z_]\w*)+)(?![\w/-])")
_FILE = re.compile(r"(?<![\w/.-])(\w+\.py)\b")
_METRIC = re.compile(r"\bslack_[a-z_]+\b\*?")
_TARGET = re.compile(r"\bmake ((?:[a-z][a-z0-9-]* ?)+)")


def code_in(page: Path) -> Iterator[str]:
    """Inline code and code blocks of every language but YAML, which has keys that look like modules."""
    yield from inline_code(prose(page))
    yield from blocks(page, "", "sh", "bash", "console", "python", "toml")


def absent(words: str, beside: Path) -> list[str]:
    """The paths and modules of ours in a text that are not there."""
    paths = [found.rstrip(".,/") for found in _PATH.findall(words)]
    wrong = [
        path
        for path in paths
        if not ("{" in path or _DEPLOYMENT.fullmatch(path) or "NAME" in path)
        and not (any(ROOT.glob(path)) or (beside.parent / path).exists())
    ]
    return wrong + [dotted for dotted in _MODULE.findall(words) if not module_exists(dotted)]


@run_for_each("page", PAGES, ids=name_of)
def test_every_path_and_module_is_there(page: Path) -> None:
    assert [name for code in code_in(page) for name in absent(code, page)] == []


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a module defines at its top, and its classes' methods."""
    tree = ast.parse(path.read_text())
    names = {
        alias.asname or alias.name for item in tree.body if isinstance(item, ast.ImportFrom) for alias in item.names
    }
    for item in ast.walk(tree):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(item.name)
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            names.add(item.id)
    return frozenset(names)


@cache
def module_exists(dotted: str) -> bool:
    """Whether it is a package or module, or a name in one."""
    for folder in (ROOT, ROOT / "operator"):
        here = folder
        for index, part in enumerate(parts := dotted.split(".")):
            if (here / part).is_dir():
                here /= part
            elif (module := here / f"{part}.py").is_file():
                return not parts[index + 1 :] or parts[index + 1] in names_in(module)
            else:
                break
        else:
            return True
    return False


@cache
def python_files() -> frozenset[str]:
    return frozenset(path.name for package in CODE for path in (ROOT / package).rglob("*.py"))


@run_for_each("page", PAGES, ids=name_of)
def test_every_file_that_is_named_without_its_room_is_there(page: Path) -> None:
    """As in the tables of profiles: `columns.py apply_pods`."""
    for code in code_in(page):
        for name in _FILE.findall(code):
            assert name in python_files(), f"there is no {name}"


@cache
def make_targets() -> frozenset[str]:
    lines = re.findall(r"^([a-z][\w -]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return frozenset(name for line in lines for name in line.split())


@run_for_each("page", PAGES, ids=name_of)
def test_every_make_target_is_there(page: Path) -> None:
    for code in code_in(page):
        for targets in _TARGET.findall(re.sub(r"#.*", "", code)):
            assert set(targets.split()) <= make_targets(), f"make {targets}"


@run_for_each("page", [*PAGES, *GENERATED], ids=name_of)
def test_every_metric_is_there(page: Path) -> None:
    former = FORMER.get(name_of(page))
    for name in _METRIC.findall(page.read_text()):
        if name == "slack_operator" or (former and name.startswith(former)):
            continue
        prefix = name.rstrip("*")
        if prefix != name or name.endswith("_"):
            assert any(family.startswith(prefix) for family in EXPORTED), f"no metric begins with {prefix}"
        else:
            assert family_of(name) in EXPORTED, f"there is no metric {name}"


def test_former_metrics_are_told_of_only_where_they_were() -> None:
    """Each that an agent exported before has its successor under the same name."""
    for page, prefix in FORMER.items():
        told = set(re.findall(rf"\b{prefix}[a-z_]+[a-z]\b", (ROOT / page).read_text()))
        assert told
        assert {name.replace(prefix, "slack_audit_") for name in told} <= EXPORTED


def test_the_map_for_contributors_has_every_package() -> None:
    """Top-level folders and the packages of the library, no more and no less."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Map\n")[2]
    rows = text.partition("```\n")[2].partition("```")[0].splitlines()
    inner = {row.split("/")[0].strip() for row in rows if row.startswith("  ") and row.strip()}
    packages = {path.parent.name for path in (ROOT / "slack").glob("*/__init__.py")}
    assert inner == packages
    tops = {row.split("/")[0].split()[0] for row in rows if row and not row.startswith(" ")}
    ignored = {"__pycache__", "node_modules", "dist", "build", "htmlcov"}
    assert tops == {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."} - ignored
