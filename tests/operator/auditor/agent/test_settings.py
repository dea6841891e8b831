"""How the agent is told what to do: flags over environment over file over defaults, and words for what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from slack.process.logs import LogFormat
from slack.process.settings import InvalidSettings, load
from slack.process.values import host_port
from slack_operator.auditor.agent.settings import AgentSettings
from tests.cases import run_for_each


def settings(environ: dict[str, str] | None = None, file: Path | None = None, **flags: object) -> AgentSettings:
    return load(AgentSettings, flags, environ or {}, file=file)


def problems(environ: dict[str, str] | None = None, file: Path | None = None, **flags: object) -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as caught:
        settings(environ, file, **flags)
    return caught.value.problems


def test_without_anything_it_samples_every_ten_seconds_and_tells_nobody() -> None:
    found = settings()
    assert (found.interval, found.push_interval, found.controller, found.write_burst) == (10.0, 60.0, None, False)
    assert host_port(found.listen) == ("127.0.0.1", 8080)
    assert found.node_name


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("interval: 5s\npush-interval: 30s\nlog-format: json\nwrite-burst: true\n")
    environ = {"RESOURCE_SLACK_AUDIT_PUSH_INTERVAL": "45s", "RESOURCE_SLACK_AUDIT_INTERVAL": "7s"}
    found = settings(environ, file, interval="20s", node=None)
    assert (found.interval, found.push_interval, found.log_format) == (20.0, 45.0, LogFormat.JSON)
    assert found.write_burst
    environ["RESOURCE_SLACK_AUDIT_CONFIG"] = str(file)
    assert settings(environ).log_format is LogFormat.JSON


def test_the_node_is_named_by_the_flag_or_by_what_the_pod_template_gives_or_by_the_host() -> None:
    assert settings({"NODE_NAME": "worker-1"}).node_name == "worker-1"
    assert settings({"NODE_NAME": "worker-1"}, node="worker-2").node_name == "worker-2"
    assert settings({"NODE_NAME": "worker-1", "RESOURCE_SLACK_AUDIT_NODE": "worker-3"}).node_name == "worker-3"


@run_for_each(
    ("flags", "words"),
    [
        ({"interval": "soon"}, "--interval: 'soon' is not a duration such as 30s, 10m or 1h30m"),
        ({"interval": "0s"}, "--interval: must be at least 1s and at most 24h, not '0s'"),
        ({"interval": float("nan")}, "--interval: must be at least 1s"),
        ({"interval": True}, "--interval: True is not a duration"),
        ({"push_interval": "48h"}, "--push-interval: must be at least 5s and at most 24h"),
        ({"controller": "audit:8443"}, "--controller: 'audit:8443' is no URL such as https://"),
        ({"controller": "https://a:b@c"}, "--controller: should be a scheme, a host and a port"),
        ({"controller": "https://[::1"}, "--controller: 'https://[::1' is no URL"),
        ({"controller": "http://audit.svc:80"}, "would send the agent's token in the clear; use https"),
        ({"listen": "8080"}, "--listen: '8080' is no address such as 127.0.0.1:8080"),
        ({"listen": "::1:80"}, "--listen: '::1:80' is no address"),
        ({"write_burst": "perhaps"}, "--write-burst: should be true or false, not 'perhaps'"),
        ({"log_level": "loud"}, "--log-level: should be 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ({"node": "Worker_1"}, "--node: 'Worker_1' is no name of a node"),
        ({"root": ""}, "--root: should be a path, not ''"),
        ({"token_file": 5}, "--token-file: should be a path, not 5"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_flag(flags: dict[str, object], words: str) -> None:
    (problem,) = problems(None, None, **flags)
    assert words in problem


def test_every_problem_is_told_at_once_and_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("interval: [1]\ncolour: blue\n")
    found = problems({"RESOURCE_SLACK_AUDIT_LISTEN": "x"}, file)
    assert len(found) == 3
    assert any(f"colour in {file}: unknown setting; known are node, root, interval" in message for message in found)
    assert any(message.startswith(f"--interval (from interval in {file}): ") for message in found)
    assert any(message.startswith("--listen (from RESOURCE_SLACK_AUDIT_LISTEN): ") for message in found)


@pytest.mark.parametrize(
    ("content", "words"),
    [("- a\n", "expected keys such as push-interval, found list"), ("{", "is no YAML"), (None, "cannot be read")],
)
def test_a_file_that_holds_no_settings_is_told(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "agent.yaml"
    if content is not None:
        file.write_text(content)
    (problem,) = problems(file=file)
    assert words in problem


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("")
    assert settings(file=tmp_path / "agent.yaml") == settings()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8090/", "http://localhost:1", "http://[::1]:9", "https://a.b.svc:8443"]
)
def test_https_goes_anywhere_and_http_only_to_the_machine_itself(url: str) -> None:
    assert settings(controller=url).controller == url.rstrip("/")


def test_an_address_has_two_parts() -> None:
    assert host_port("[::1]:80") == ("::1", 80)


def test_bad_settings_end_the_process_with_2_and_words() -> None:
    command = [sys.executable, "-m", "slack_operator.auditor.agent.process", "--interval=0s", "--colour=blue"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "--colour: unknown flag\n"
    done = subprocess.run(command[:-1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--interval: must be at least 1s")
