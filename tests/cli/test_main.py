"""The program as a whole: names, help, versions, switches."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from slack.cli.command_table import program
from slack.cli.commands import app
from slack.cli.terminal.lazy import LazyGroup
from tests.cases import run_for_each
from tests.cli.conftest import COMMAND, ROOT, Run


def _commands() -> list[str]:
    command = typer.main.get_command(app)
    return [
        f"{name} {below}".strip()
        for name, entry in getattr(command, "commands", {}).items()
        for below in getattr(entry, "commands", {"": None})
    ]


@run_for_each("command", _commands())
def test_the_help_of_every_command_teaches_with_an_example(command: str) -> None:
    found = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    assert re.search(rf"(resource-slack|kubectl slack) {command}\b", found.output.partition("Example")[2])


def test_pipes_get_no_colours(run: Run, cluster: Path) -> None:
    for args in (["plan", "--help"], ["plan", "--snapshot", str(cluster)]):
        found = run(*args)
        assert "\x1b" not in found.stdout + found.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), pytest.param("TERM", "dumb", marks=pytest.mark.thorough)]
)
def test_a_terminal_gets_no_colours_where_the_user_wants_none(name: str, value: str) -> None:
    ours, theirs = pty.openpty()
    environment = {key: text for key, text in os.environ.items() if key != "FORCE_COLOR"} | {name: value}
    found = subprocess.run(
        [COMMAND, "plan", "--help"], stdout=theirs, env={"TERM": "xterm", **environment}, check=False
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of a terminal is an error
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert found.returncode == 0
    assert b"dry run" in shown
    assert not re.search(rb"\x1b\[(\d+;)*(3[0-7]|9[0-7])m", shown)


def test_kubectl_runs_it_as_its_plugin() -> None:
    plugin = [str(COMMAND.with_name("kubectl-slack")), "plan", "--help"]
    found = subprocess.run(plugin, capture_output=True, text=True, check=True)
    assert "kubectl slack plan" in found.stdout


def test_it_is_called_as_it_was_started() -> None:
    assert program("/usr/bin/kubectl-slack") == "kubectl slack"
    assert program("/usr/bin/resource-slack") == "resource-slack"


HEAVY = {"numpy", "kubernetes", "kopf", "msgspec", "yaml", "slack.planner", "slack.simulator"}
"""What a help text and a key press must not wait for."""


def loaded_by(*args: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", str(COMMAND), *args]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in found.stderr.splitlines() if line.startswith("import time:")}


def test_help_and_completion_load_nothing_heavy() -> None:
    shown, completed = loaded_by("--help"), loaded_by("__complete", "pl")
    assert "slack.cli.command_table" in shown & completed
    assert not shown & (HEAVY | {"pydantic", "typer", "rich"})
    assert not completed & HEAVY  # the command line library reads values with pydantic


def test_a_snapshot_in_json_is_planned_without_yaml_or_a_client() -> None:
    loaded = loaded_by("plan", "--snapshot", str(ROOT / "examples/cluster.json"), "-o", "json")
    assert "slack.planner.plan" in loaded
    assert not loaded & {"yaml", "kubernetes", "slack.cluster.load_yaml", "slack_operator", "matplotlib", "rich"}


def test_help_loads_no_command() -> None:
    code = "import sys; from slack.cli.commands import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in found.stdout.splitlines()[-1].split() if name.startswith("slack.cli.")}
    assert loaded <= {"slack.cli.commands", "slack.cli.command_table", "slack.cli.terminal"} | {
        f"slack.cli.terminal.{name}"
        for name in ("candidates", "command_entry", "help_layout", "interrupts", "lazy", "output", "problems")
    }


def test_the_table_of_commands_says_what_the_commands_say() -> None:
    program: Any = typer.main.get_command(app)
    assert isinstance(program, LazyGroup)
    for entry in program.entries:
        command = program.commands[entry.name]
        assert entry.summary == " ".join(command.help.partition("\n\n")[0].split())
        assert (command.name, command.rich_help_panel) == (entry.name, entry.panel)


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        *(pytest.param(more, marks=pytest.mark.thorough) for more in (["crd"], ["version"], ["plan", "--help"])),
    ],
)
@pytest.mark.parametrize(("to", "why"), [("/dev/full", "no space left on device"), ("&-", "bad file descriptor")])
def test_output_that_cannot_be_written_is_one_line_and_no_success(args: list[str], to: str, why: str) -> None:
    shell = ["bash", "-c", f'"$@" >{to}', "bash", str(COMMAND), *args]
    found = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr) == (1, f"error: the output cannot be written: {why}\n")


@pytest.mark.thorough
def test_a_process_that_prints_nothing_needs_no_output() -> None:
    shell = ["bash", "-c", '"$@" >&-', "bash", str(COMMAND), "operator", "--config", "none.yaml"]
    found = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 2
    assert "none.yaml" in found.stderr


def test_the_version_is_one_line(run: Run) -> None:
    found = run("version")
    assert found.code == 0
    assert found.stdout.startswith("resource-slack ")
    assert len(found.stdout.splitlines()) == 1


def test_the_version_is_a_flag_too(run: Run) -> None:
    assert run("--version") == run("version")


def test_the_crd_is_printed_as_yaml(run: Run) -> None:
    document = yaml.safe_load(run("crd").stdout)
    assert document["kind"] == "CustomResourceDefinition"
    assert document["metadata"]["name"] == "slackpolicies.resource-slack.io"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], None),
        (["--rescue-stuck-preemptors"], True),
        (["--rescue-stuck-preemptors=true"], True),
        (["--rescue-stuck-preemptors=false"], False),
        (["--no-rescue-stuck-preemptors"], False),
    ],
)
def test_switches_take_values_as_kubernetes_programs_do(
    monkeypatch: pytest.MonkeyPatch, args: list[str], expected: bool | None
) -> None:
    seen: dict[str, Any] = {}

    def load(_: object, flags: dict[str, Any], *__: object, **___: object) -> object:
        seen.update(flags)
        raise SystemExit(0)

    monkeypatch.setattr("slack.process.settings.load", load)
    CliRunner().invoke(app, ["operator", *args])
    assert seen["rescue_stuck_preemptors"] is expected


def test_a_mistake_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch, cluster: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("slack.planner.plan.plan", broken)
    found = CliRunner().invoke(app, ["plan", "--snapshot", str(cluster)])
    assert found.exit_code == 1
    assert "this is a mistake in resource-slack: ZeroDivisionError: of all things" in found.output
    assert "Traceback" not in found.output
