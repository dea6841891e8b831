"""One way to run a process: what starts and stops in which order, what a lost lease skips, and the exit codes."""

import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, Unreachable
from slack.process import running
from slack.process.running import CannotStart
from slack.process.shared_settings import LeadingSettings
from slack.process.stopping import Stopping
from slack_operator.runtime.connecting import answers
from slack_operator.runtime.process import Components, Process, ProcessContext, Server


def leading_settings(listen: str = "127.0.0.1:0") -> LeadingSettings:
    return LeadingSettings(namespace="slack", lease_name="lease", leader_elect=False, listen=listen)


@dataclass
class Recorded:
    """Stands for any component: notes what it is asked."""

    name: str
    calls: list[str]
    stales: list[str] = field(default_factory=list)
    problem: str | None = None

    def start(self, *_: object) -> None:
        self.calls.append(f"start {self.name}")

    def stop(self) -> None:
        self.calls.append(f"stop {self.name}")

    close = stop

    def ask_to_stop(self) -> None:
        self.calls.append(f"ask {self.name}")

    def join(self) -> None:
        self.calls.append(f"join {self.name}")

    def request(self, *_: object, **__: object) -> bytes:
        """Answer, as an API server does."""
        return b"{}"

    def unhealthy(self) -> str | None:
        return self.problem

    def stale(self) -> str | None:
        return self.stales.pop(0) if self.stales else None


class World:
    def __init__(self, settings: LeadingSettings, stopping: Stopping, *stales: str) -> None:
        self.calls: list[str] = []

        def component(name: str, *stales: str) -> Any:
            return Recorded(name, self.calls, list(stales))

        self.context = ProcessContext(settings, component("connection"), stopping, component="test")
        self.context.recorder = component("events")
        self.policies, self.unready = component("policies"), ["pods are not listed yet"]
        components = Components(
            watches=component("watches", *stales),
            policies=self.policies,
            loop=component("loop"),
            registry=CollectorRegistry(),
            unready=lambda: self.unready[0] if self.unready else None,
            whole=lambda: {"pods": 5},
            servers=(Server(component("page"), "--page", "here", "the page"),),
        )
        self.process = Process(self.context, components)


STARTED = ["start page", "start watches", "start events", "start policies", "start loop"]


@pytest.fixture
def world() -> Iterator[World]:
    made = World(leading_settings(), Stopping())
    made.process.start()
    yield made
    made.process.stop()


def test_everything_starts_and_stops_in_order() -> None:
    world = World(leading_settings(), Stopping())
    world.process.start()
    assert world.calls == STARTED
    assert world.context.leadership.may_write()
    world.calls.clear()
    world.process.stop()
    assert world.calls == [
        *("ask loop", "stop page", "join loop", "stop policies", "stop events", "stop watches", "stop connection")
    ]
    assert not world.context.leadership.may_write()


def test_a_lost_lease_closes_the_gate_ends_with_1_and_waits_for_no_write() -> None:
    stopping = Stopping()
    world = World(leading_settings(), stopping)
    world.process.start()
    world.context.leadership._lose()
    assert not world.context.leadership.may_write()
    assert (stopping.reason, stopping.exit_code) == ("the lease is lost", 1)
    world.calls.clear()
    world.process.stop()
    assert "join loop" not in world.calls
    assert "stop events" not in world.calls


def test_an_end_waits_neither_for_an_api_server_that_hangs_nor_for_what_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(leading_settings(), Stopping())
    world.process.start()
    released = threading.Event()

    def hang(*_: object, **__: object) -> bytes:
        released.wait(30)
        raise Unreachable("GET /version: no answer")

    monkeypatch.setattr(world.context.connection, "request", hang)
    monkeypatch.setattr(world.policies, "stop", lambda: released.wait(30))
    began = time.monotonic()
    world.process.stop()
    seconds = time.monotonic() - began
    released.set()
    assert seconds < 1.0
    assert not world.context.leadership.may_write()
    assert "join loop" not in world.calls
    assert "the API server does not answer: no write is waited for, and the lease runs out by itself" in caplog.messages
    world.process.health.stop()


@pytest.mark.parametrize(
    ("error", "answered"), [(None, True), (ApiError(500, "", ""), True), (Unreachable("x"), False)]
)
def test_an_answer_is_whatever_an_api_server_says(error: Exception | None, answered: bool) -> None:
    class Asked:
        def request(self, *_: object, **__: object) -> bytes:
            if error is not None:
                raise error
            return b"{}"

    assert answers(cast(Connection, Asked()), 5.0) == answered


def test_it_waits_until_all_is_whole_and_says_for_what_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(
        leading_settings(), Stopping(), *["pods is not listed yet"] * 2, *["pods is not listed yet: refused"] * 2
    )
    world.process.start()
    assert [message for message in caplog.messages if message.startswith("waiting")] == [
        "waiting: pods is not listed yet: refused"
    ]
    assert caplog.messages[-2:] == ["the view of the cluster is whole", "leading"]
    world.process.stop()


def test_an_end_that_comes_while_it_waits_starts_nothing_more() -> None:
    stopping = Stopping()
    stopping.request("SIGTERM")
    world = World(leading_settings(), stopping, *["not yet"] * 3)
    world.process.start()
    assert world.calls == STARTED[:2]
    world.process.stop()


def answer(world: World, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{world.process.health.port}{path}", timeout=5) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_is_of_the_threads_and_readiness_of_what_is_seen(world: World) -> None:
    assert answer(world, "/healthz") == (200, "ok\n")
    assert answer(world, "/readyz") == (503, "pods are not listed yet\n")
    world.unready.clear()
    assert answer(world, "/readyz") == (200, "ok\n")
    world.policies.problem = "the lister has ended"
    assert answer(world, "/healthz") == (503, "the lister has ended\n")


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep the root logger as it is for other tests."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("quiet")
def test_an_address_that_is_taken_is_bad_input_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = leading_settings(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        assert running.run(settings, lambda mine, stopping: World(mine, stopping).process) == 2
    assert f"--listen {settings.listen}: cannot listen: Address already in use" in capsys.readouterr().err


@pytest.mark.usefixtures("quiet")
def test_the_exit_code_is_what_the_end_was_for(capsys: pytest.CaptureFixture[str]) -> None:
    def make(_: LeadingSettings, stopping: Stopping) -> Process:
        stopping.request("the lease is lost", exit_code=1)
        return World(leading_settings(), stopping).process

    assert running.run(leading_settings(), make) == 1
    assert "stopping: the lease is lost" in capsys.readouterr().err

    def cannot(_: LeadingSettings, __: Stopping) -> Process:
        raise CannotStart("cannot start: refused", exit_code=1)

    assert running.run(leading_settings(), cannot) == 1
    assert "cannot start: refused" in capsys.readouterr().err
