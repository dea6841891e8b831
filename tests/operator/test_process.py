"""The process around the loop: wake-ups, gates, health, metrics, exit codes."""

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from slack.kube.errors import Unreachable
from slack_operator.app import BAD_INPUT, main
from slack_operator.health import HealthServer
from slack_operator.metrics import Metrics, WatchRestarts
from slack_operator.wake import Wake
from tests.operator.fakes import Clock, World, policy


def test_a_plan_is_due_every_interval_and_soon_after_a_change() -> None:
    clock = Clock(0.0)
    wake = Wake(10.0, clock)
    assert wake.due_in() == 0.0
    wake.begun()
    wake.ended(0.01)
    assert wake.due_in() == 10.0
    clock.now = 3.0
    wake.touch()
    assert wake.due_in() == pytest.approx(0.2)
    clock.now = 3.1
    wake.touch()  # a change that follows does not put it off
    assert wake.due_in() == pytest.approx(0.1)


def test_changes_without_end_do_not_make_plans_without_end() -> None:
    clock = Clock(0.0)
    wake = Wake(10.0, clock)
    wake.begun()
    wake.ended(1.0)
    wake.touch()
    assert wake.due_in() == pytest.approx(4.0)


def test_a_touch_ends_the_wait() -> None:
    wake = Wake(10.0, Clock())
    wake.begun()
    threading.Timer(0.01, wake.touch).start()
    wake.wait(60.0)
    assert wake.due_in() == pytest.approx(0.2)


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
        assert get(server.port, "/healthz") == (200, "ok")
        assert get(server.port, "/readyz") == (503, "pods are not listed yet")
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
        with pytest.raises(OSError, match=str(first.port)):
            second.start()
    finally:
        first.stop()
        second.stop()


def test_an_error_costs_its_turn_only(caplog: pytest.LogCaptureFixture) -> None:
    w = World()
    w.apply_policy(policy("web"))
    w.observe()
    stopping = threading.Event()
    errors: list[Exception] = [Unreachable("refused"), RuntimeError("a bug")]
    turns: list[int] = []

    def turn() -> None:
        w.clock.now += 10
        turns.append(1)
        if errors:
            raise errors.pop(0)
        stopping.set()

    w.loop.turn = turn  # type: ignore[method-assign]
    w.loop.run(stopping)
    assert len(turns) == 3
    assert "the API server did not answer" in caplog.text
    assert "a bug" in caplog.text


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
