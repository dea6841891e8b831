"""Nothing is cut at any width: not flags, not values, not names, also in a pipe."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.table import Table
from typer.testing import CliRunner

from slack.cli.command_table import ENTRIES, help_text
from slack.cli.commands import app
from slack.cli.terminal.console import console, print_table
from tests.cases import run_for_each
from tests.cli.conftest import Run


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for below, child in (getattr(command, "commands", None) or {}).items():
        yield from _commands(f"{name} {below}".strip(), child)


COMMANDS = dict(_commands("", typer.main.get_command(app)))


@run_for_each("columns", [40, 80])
@run_for_each("name", COMMANDS)
def test_every_flag_and_word_of_a_help_text_is_whole(name: str, columns: int) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": str(columns)}).output
    assert "…" not in shown
    words = set(shown.split())
    for parameter in COMMANDS[name].params:
        for flag in (*parameter.opts, *parameter.secondary_opts):
            assert not flag.startswith("--") or words & {flag, f"{flag},"}
        assert set((parameter.help or "").split()) <= words


def test_lines_of_a_help_text_fit_where_no_word_is_wider() -> None:
    shown = CliRunner().invoke(app, ["operator", "--help"], env={"COLUMNS": "80"}).output
    assert max(len(line) for line in shown.splitlines() if not line.startswith("    resource-slack")) <= 80


def test_the_quick_help_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    quick = help_text("resource-slack").split()
    whole = CliRunner().invoke(app, ["--help"], prog_name="resource-slack").output.split()
    assert sorted(set(quick) - {"COMMAND"}) == sorted(set(whole) - {"[COMMAND]"})
    assert all(entry.name in quick for entry in ENTRIES)


@pytest.mark.parametrize("columns", [20, 60, 80])
def test_names_in_a_table_are_whole_at_any_width(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("SHAPE", no_wrap=True)
    table.add_column("FOR")
    table.add_row("1500m cpu, 3Gi memory", "shop/deploy/a-frontend-with-a-long-name, shop/deploy/catalog and 17 more")
    print_table(console(), table)
    shown = capsys.readouterr().out
    assert "1500m cpu, 3Gi memory" in shown
    assert {"shop/deploy/a-frontend-with-a-long-name,", "shop/deploy/catalog"} <= set(shown.split())


def test_a_plan_has_its_names_in_a_narrow_pipe(run: Run, cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = run("plan", "--snapshot", str(cluster)).stdout
    monkeypatch.setenv("COLUMNS", "40")
    narrow = run("plan", "--snapshot", str(cluster)).stdout
    assert sorted(narrow.split()) == sorted(wide.split())
    assert "…" not in narrow


def test_a_wrong_value_is_told_in_our_words() -> None:
    found = CliRunner().invoke(app, ["plan", "-o", "wid"])
    assert found.exit_code == 2
    assert "Value error" not in found.output
    assert re.search(r"'wid' is not one of 'table'", found.output)


def test_help_waits_for_no_library() -> None:
    code = (
        "import sys; sys.argv = ['resource-slack', '--help']\n"
        "from slack.cli.main import main\nmain()\nprint(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Look (reads only)" in found.stdout
    assert not set(found.stderr.split()) & {"typer", "rich", "numpy", "msgspec", "yaml", "pydantic", "kubernetes"}
