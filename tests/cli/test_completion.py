"""Shell completion: what is offered, and that each shell's script asks for it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from slack.cli.commands import app
from slack.cli.completion import SCRIPTS
from slack.cli.terminal.candidates import completion_answer
from tests.cli.conftest import COMMAND, Run
from tests.kube.fake_api import FakeApi


def offered(*words: str) -> list[str]:
    *lines, directive = completion_answer(app, list(words)).splitlines()
    assert directive == (":4" if lines else ":0")
    return [line.partition("\t")[0] for line in lines]


def test_commands_flags_and_values_are_offered() -> None:
    assert {"status", "plan", "migrate", "completion"} <= set(offered(""))
    assert offered("pl") == ["plan"]
    assert {"--watch", "--output"} <= set(offered("status", "--"))
    assert offered("status", "--output", "w") == ["wide"]
    assert offered("completion", "") == ["bash", "zsh", "fish", "kubectl"]


@pytest.mark.parametrize("command", ["operator", "status", "tune", "audit"])
def test_a_long_help_text_is_no_further_candidate(command: str) -> None:
    found = offered(command, "--")
    assert found
    assert [line for line in found if not line.startswith("--")] == []


def test_files_are_offered_where_nothing_else_is() -> None:
    assert offered("plan", "--snapshot", "x") == []


def test_a_help_text_comes_with_each() -> None:
    assert "version\tPrint the version\n" in completion_answer(app, ["ver"])


def test_the_environment_is_as_it_was_and_no_cluster_is_no_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "kept")
    assert offered("status", "") == []
    import os

    assert os.environ["_TYPER_COMPLETE_ARGS"] == "kept"
    assert "_RESOURCE_SLACK_COMPLETE" not in os.environ


def test_names_of_policies_are_offered(run: Run, tmp_path: Path) -> None:
    with FakeApi() as api:
        cluster = {"name": "a", "cluster": {"server": api.connection().host}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        config = {"clusters": [cluster], "users": [{"name": "a", "user": {}}], "contexts": [context]}
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **config}))
        for name in ("web", "batch", "worker"):
            api.put(f"/apis/resource-slack.io/v1alpha1/slackpolicies/{name}", spec={})
        assert offered("status", "--kubeconfig", str(path), "w") == ["web", "worker"]
        found = run("__complete", "status", "b", KUBECONFIG=str(path))
    assert (found.code, found.stdout) == (0, "batch\n:4\n")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_for_each_shell_is_printed(shell: str) -> None:
    found = CliRunner().invoke(app, ["completion", shell])
    assert (found.exit_code, found.stdout) == (0, SCRIPTS[shell])


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"]), ("sh", ["-n"])]
)
def test_the_shell_can_read_its_script(shell: str, check: list[str], tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not here")
    script = tmp_path / "script"
    script.write_text(SCRIPTS["kubectl" if shell == "sh" else shell])
    subprocess.run([program, *check, script], check=True)


def test_bash_completes_with_it(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    lines = (
        "source ./script",
        f"COMP_WORDS=({COMMAND} pl); COMP_CWORD=1",
        "_resource_slack",
        'printf "%s " "${COMPREPLY[@]}"',
    )
    found = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["plan"]


def test_kubectls_program_answers_as_kubectl_asks() -> None:
    code = "import sys; from slack.cli.main import complete; sys.argv = ['kubectl_complete-slack', 'vers']; complete()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "version\tPrint the version\n:4\n"
