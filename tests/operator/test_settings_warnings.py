"""What is given and has no effect is told at the start, and what others put into the environment is not."""

import logging
from pathlib import Path

import pytest

from slack.process.exit_codes import BAD_INPUT
from slack.process.settings import declared_settings, load
from slack_operator.app import run
from slack_operator.settings import OperatorSettings
from slack_operator.settings_warnings import settings_warnings

NOWHERE = Path("/nonexistent/namespace")


def settings(**flags: object) -> OperatorSettings:
    return load(OperatorSettings, flags, {}, files={"namespace": NOWHERE})


@pytest.mark.parametrize("flags", [{"web_listen": "127.0.0.1:9000"}, {"web_token_file": "/run/token"}])
def test_flags_of_a_page_that_is_off_are_told(flags: dict[str, object]) -> None:
    (told,) = settings_warnings(settings(**flags), {})
    assert told == f"--{next(iter(flags)).replace('_', '-')} has no effect: the web page is off; add --web"
    assert settings_warnings(settings(web=True, **flags), {}) == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("LOG_LEVL", "LOG_LEVEL"),
        ("LEASENAME", "LEASE_NAME"),
        ("INTERVALL", "INTERVAL"),
        ("MIN_RATE", "EXTRA_CAPACITY_MIN_RATE"),
        ("CONFIGS", "CONFIG"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_told(written: str, meant: str) -> None:
    assert settings_warnings(settings(), {f"RESOURCE_SLACK_{written}": "1"}) == (
        f"RESOURCE_SLACK_{written} is no setting and has no effect; is RESOURCE_SLACK_{meant} meant?",
    )


def test_variables_of_settings_of_kubernetes_and_of_others_are_not_told() -> None:
    names = [found.name.upper() for found in declared_settings(OperatorSettings)]
    names += ["CONFIG", "CACHE", "DEBUG", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_METRICS", "PORT"]
    names += ["PORT_8080_TCP", "PORT_8080_TCP_ADDR", "WEB_SERVICE_HOST", "WEB_PORT_8081_TCP_PROTO", "OWNER"]
    environ = {f"RESOURCE_SLACK_{name}": "x" for name in names} | {"LOG_LEVL": "x"}
    assert settings_warnings(settings(), environ) == ()


def test_the_operator_logs_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setenv("RESOURCE_SLACK_LOG_LEVL", "debug")
    try:
        assert run(settings(kubeconfig="/nonexistent/kubeconfig")) == BAD_INPUT
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert "is RESOURCE_SLACK_LOG_LEVEL meant?" in capsys.readouterr().err
