"""CONTRIBUTING.md's recipes, each held to an example: the files that it names are those in which the example occurs."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from release.version import PLACES
from tests.docs.pages import ROOT, inline_code, name_of, section

PAGE = ROOT / "CONTRIBUTING.md"
PRODUCT = ("slack", "operator", "charts", "examples", "docs/reference", "e2e/monitoring", "tools")
"""Where a forgotten file is a fault: what runs, what is installed, what is generated."""
ALONE = ("Makefile", "pyproject.toml", "Dockerfile")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+|\w+\.(?:md|toml)|Makefile|Dockerfile")
_VERSION = re.compile(r'(?:resource-slack[:-]|[Vv]ersion: "?|VERSION=|^version = ")(\d+\.\d+\.\d+)\b', re.MULTILINE)
_STEP = re.compile(r"^\d+\. (.*?)(?=^\d+\. |\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.;]) (?=\(?[A-Z`w])")
_CONDITIONAL = re.compile(r"^\(?(?:Where|The auditor's|where)\b")


@cache
def text_of(path: Path) -> str:
    return path.read_text()


def files(*packages: str) -> list[Path]:
    found = [
        path for package in packages for path in (ROOT / package).rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    return [*found, *(ROOT / name for name in ALONE)]


def occurrences(pattern: str) -> set[str]:
    return {name_of(path) for path in files(*PRODUCT) if re.search(pattern, text_of(path), re.MULTILINE)}


def paths_in(text: str) -> set[str]:
    return {code for code in inline_code(text) if _PATH.fullmatch(code)}


def named(heading: str) -> set[str]:
    return paths_in(section(PAGE, heading))


def wanted_always(heading: str) -> set[str]:
    """The paths of a recipe that do not stand behind a Where."""
    steps = [" ".join(step.split()) for step in _STEP.findall(section(PAGE, heading))]
    sentences = [sentence for step in steps for sentence in _SENTENCE.split(step)]
    return {path for sentence in sentences if not _CONDITIONAL.match(sentence) for path in paths_in(sentence)}


def below(path: str, packages: Iterable[str]) -> bool:
    return any(path == package or path.startswith(f"{package}/") for package in packages)


RECIPES = {
    "Recipe: a field of a policy": r"\b(?:shrinkDelay|shrink_delay(?:_seconds)?)\b",
    "Recipe: a metric with its alert": r"\b(?:slack_watch_restarts_total|ResourceSlackWatchRestarts|WATCH_RESTARTS)\b",
    "Recipe: a command": (
        r"slack\.cli\.explain\b|^## resource-slack explain$|\| explain \||`explain`: "
        r'|"explain": \(|^    """`explain`|"explain", "-n"'
    ),
    "Recipe: a flag with its Helm value": r"(?i)rescue[-_]?stuck[-_]?preemptors",
    "Recipe: a broker": r"(?i)kafka(?!\|elasticsearch)",
    "Recipe: a companion": r"(?i)audit",
}
NOT_ITS_OWN = {
    "CHANGELOG.md",
    "docs/decisions.md",
    "slack/schema",
    "operator/slack_operator/demand/brokers/opening.py",
    "operator/slack_operator/runtime/process.py",
    "slack/process/running.py",
    "tests/chart/test_settings.py",
}
"""What a recipe names for another reason than that the example occurs there."""


@pytest.mark.parametrize("heading", [*RECIPES, "A release"])
def test_every_path_of_a_recipe_is_there(heading: str) -> None:
    assert named(heading)
    assert [path for path in named(heading) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("heading", "pattern"), RECIPES.items())
def test_the_recipe_names_every_file_of_the_product_in_which_its_example_occurs(heading: str, pattern: str) -> None:
    assert [path for path in sorted(occurrences(pattern)) if not below(path, named(heading) | GENERATED)] == []


GENERATED = {
    *("docs/reference/audit.md", "docs/reference/cpuauditpolicy.md", "docs/reference/cpuauditreport.md"),
    *("docs/reference/flags.md", "docs/reference/metrics.md", "docs/reference/events.md"),
    *("charts/resource-slack/rules/resource-slack.yaml", "charts/resource-slack/dashboards"),
    *("slack/monitoring/rules.yaml", "slack/monitoring/dashboards", "tools/readability/allowed.json"),
    *("charts/resource-slack/templates/crds/_digests.tpl", "docs/reference/schemas"),
}
"""What `make reference`, `make monitoring` and `python -m tools.readability --lower` write, whichever recipe it was."""


@pytest.mark.parametrize(("heading", "pattern"), RECIPES.items())
def test_the_example_occurs_in_every_file_that_the_recipe_asks_for(heading: str, pattern: str) -> None:
    for path in wanted_always(heading) - NOT_ITS_OWN:
        place = ROOT / path
        inside = [place] if place.is_file() else [file for file in place.rglob("*") if file.suffix not in ("", ".pyc")]
        assert any(re.search(pattern, text_of(file), re.MULTILINE) for file in inside if file.is_file()), path


def test_the_version_is_the_same_everywhere_and_one_command_writes_each_place() -> None:
    pages = [*files("charts", "deploy", "docs", "slack", "operator"), ROOT / "README.md"]
    told = {name_of(path): set(_VERSION.findall(text_of(path))) for path in pages if path.suffix != ".png"}
    stated = {name: versions for name, versions in told.items() if versions}
    generated = {name for name in stated if name.startswith("charts/resource-slack/crds/")} | {"deploy/operator.yaml"}
    assert set(stated) <= {*PLACES, *generated}  # `make crds deploy` brings it there
    assert {"pyproject.toml", "Dockerfile", "charts/resource-slack/Chart.yaml", "deploy/operator.yaml"} <= set(stated)
    assert len(set().union(*stated.values())) == 1, stated
