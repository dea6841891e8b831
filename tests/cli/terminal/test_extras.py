"""What is said where an optional part is not installed can be pasted, wherever the program came from."""

import tomllib
from pathlib import Path

import pytest

from slack.cli.terminal import extras
from slack.cli.terminal.problems import UserError

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(("module", "extra"), [("pyarrow", "traces"), ("matplotlib", "pictures")])
def test_what_is_missing_is_told_with_the_package_to_install(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(UserError) as told:
        extras.require_extra(module, extra, "--picture")
    assert str(told.value) == f"--picture: this needs {module}; install it with: pip install '{EXTRAS[extra][0]}'"


def test_what_is_there_is_asked_for_by_nobody() -> None:
    extras.require_extra("json", "none", "nothing")
