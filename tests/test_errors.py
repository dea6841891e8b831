"""The tree of errors: everything that says it is invalid input is one that a command prints with exit code 2."""

import importlib
import pickle
import re

import pytest

from slack.errors import InvalidInput, UserFacingError
from tests.test_names import PRODUCT, ROOT

NOT_FOR_USERS = {
    "operator/slack_operator/throttler/agent/gate_server.py": {"InvalidToken"},  # a peer's credentials, answered to it
    "operator/slack_operator/throttler/gate/settings.py": {"InvalidGateSettings"},  # imports the standard library alone
    "slack/throttler/fsm.py": {"InvalidChange"},  # a mistake of the caller, never of a user
}


def error_classes() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), name)
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in re.findall(r"^ *class ((?:Bad|_Bad|Invalid)\w*)\(", path.read_text(), re.MULTILINE)
    ]


def test_no_class_of_an_error_is_called_bad() -> None:
    assert [found for found in error_classes() if "Bad" in found[1]] == []
    assert len(error_classes()) > 30


def test_what_says_it_is_invalid_has_the_base_class_for_users() -> None:
    others = []
    for path, name in error_classes():
        module = importlib.import_module(path.removesuffix(".py").removeprefix("operator/").replace("/", "."))
        if name not in NOT_FOR_USERS.get(path, ()) and not issubclass(getattr(module, name), UserFacingError):
            others.append((path, name))
    assert others == []


def test_the_exceptions_to_that_are_there() -> None:
    assert {(path, name) for path, names in NOT_FOR_USERS.items() for name in names} <= set(error_classes())


@pytest.mark.parametrize(
    ("problems", "source", "text"),
    [
        ("spec.rate: is negative", "", "spec.rate: is negative"),
        ("spec.rate: is negative", "web.yaml", "web.yaml: spec.rate: is negative"),
        (("a: is missing", "b: is missing"), "web.yaml", "web.yaml: a: is missing; b: is missing"),
        (("a: is missing", "b: is missing"), "", "a: is missing; b: is missing"),
    ],
)
def test_an_errors_text_names_its_source_and_every_problem(
    problems: str | tuple[str, ...], source: str, text: str
) -> None:
    error = InvalidInput(problems, source)
    assert str(error) == text
    assert error.source == source
    assert error.problems == ((problems,) if isinstance(problems, str) else problems)
    assert isinstance(error, ValueError)


def test_an_error_keeps_its_text_from_one_process_to_another() -> None:
    error = pickle.loads(pickle.dumps(InvalidInput(("a: is missing", "b: is missing"), "web.yaml")))
    assert str(error) == "web.yaml: a: is missing; b: is missing"
