"""The process around the loop: health, metrics, exit codes."""

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from slack.process.exit_codes import BAD_INPUT
from slack.process.health import HealthServer
from slack_operator.app import main
from slack_operator.placeholders.report.metrics import Metrics, WatchRestarts


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_pages_give_the_reason() -> None:
    metrics = Metrics()
    metrics.registry.register(WatchRestarts(lambda: {"/api/v1/pods": 2}))
    metrics.on_request("list", 200)
    server = HealthServer(
        "127.0.0.1", 0, healthy=lambda: "", ready=lambda: "pods are not listed yet", registry=metrics.registry
    )
    server.start()
    try:
        assert get(server.port, "/healthz") == (200, "ok\n")
        assert get(server.port, "/readyz") == (503, "pods are not listed yet\n")
        page = get(server.port, "/metrics")[1]
    finally:
        server.stop()
    assert 'slack_watch_restarts_total{path="/api/v1/pods"} 2.0' in page
    assert 'slack_api_requests_total{code="200",verb="list"} 1.0' in page


def test_an_address_that_is_taken_is_an_error() -> None:
    first = HealthServer("127.0.0.1", 0, healthy=str, ready=str, registry=Metrics().registry)
    first.start()
    second = HealthServer("127.0.0.1", first.port, healthy=str, ready=str, registry=Metrics().registry)
    try:
        with pytest.raises(OSError, match="Address already in use"):
            second.start()
    finally:
        first.stop()
        second.stop()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--interwal=5s"], "--interwal: unknown flag"),
        (["--extra-capacity-min-rate=10%"], "--extra-capacity-min-rate: '10%' is a percentage; write 0.1"),
    ],
)
def test_bad_flags_end_the_process_with_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == BAD_INPUT
    assert words in capsys.readouterr().err


def test_the_interval_is_told_whoever_leads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Metrics] = []

    def make() -> Metrics:
        made.append(Metrics())
        return made[-1]

    monkeypatch.setattr("slack_operator.app.Metrics", make)
    assert main(["--interval=10m", f"--kubeconfig={tmp_path}/none"]) == BAD_INPUT
    assert made[0].registry.get_sample_value("slack_plan_interval_seconds") == 600


def test_a_start_loads_neither_kopf_nor_what_serves_the_page() -> None:
    """Half a second of CPU, before the first plan: kopf is loaded when there are policies to watch."""
    code = "import sys; import slack_operator.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"kopf", "aiohttp", "typer", "slack_operator.web.server"}.isdisjoint(done.stdout.split())
