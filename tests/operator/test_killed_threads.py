"""Each thread and each task of each process is killed in turn, and /healthz fails each time.

kopf's threads and tasks are left out: what lists policies starts kopf again (test_policy_source).
"""

import asyncio
import ctypes
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.process.audit_settings import AgentSettings, ControllerSettings
from slack.process.demand_controller_settings import DemandControllerSettings
from slack.process.load_watcher_settings import LoadWatcherSettings, Provider
from slack.process.operator_settings import OperatorSettings
from slack.process.running import Work
from slack.process.scorer_settings import ScorerSettings
from slack.process.stopping import Stopping
from slack.process.throttler_agent_settings import ThrottlerAgentSettings
from slack.process.throttler_controller_settings import Backend, ThrottlerControllerSettings
from slack.supervision import heartbeat
from slack_operator import app
from slack_operator.auditor.agent.process import Agent
from slack_operator.auditor.controller import process as audit_controller
from slack_operator.demand import controller as demand_controller
from slack_operator.loadwatcher import process as load_watcher
from slack_operator.runtime import policy_source
from slack_operator.scorer import process as scorer
from slack_operator.throttler.agent import process as throttler_agent
from slack_operator.throttler.controller import process as throttler_controller
from tests.kube.fake_api import FakeApi

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
LIMIT_SECONDS = 30.0
ANY = "127.0.0.1:0"
NOWHERE = "http://127.0.0.1:9"
LEFT_OUT = ("Thread-", "MainThread", "pydevd", "asyncio_", "stop", "kopf")
"""Threads of the fake API server, of pytest and of kopf."""


class Process(Work, Protocol):
    def unhealthy(self) -> str | None:
        """Return what is dead or stuck."""


@dataclass
class Place:
    api: FakeApi
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def connect(self, module: Any, name: str = "connected") -> None:
        self.monkeypatch.setattr(module, name, lambda *_, **__: self.api.connection())


def operator(place: Place) -> Process:
    place.connect(app)
    return app.operator(OperatorSettings(listen=ANY, web_listen=ANY, web_load_watcher=NOWHERE), Stopping())


def auditor(place: Place) -> Process:
    place.connect(audit_controller)
    return audit_controller.controller(ControllerSettings(listen=ANY, reports_listen=ANY), Stopping())


def audit_agent(place: Place) -> Process:
    settings = AgentSettings(
        node="n", root=place.folder, listen=ANY, state_dir=place.folder / "state", controller=NOWHERE
    )
    return Agent(settings, Stopping())


def throttling_agent(place: Place) -> Process:
    place.connect(throttler_agent)
    files = place.folder
    return throttler_agent.ThrottlerAgent(
        ThrottlerAgentSettings(
            node="n",
            proc=files / "proc",
            state_dir=files / "state",
            listen=ANY,
            gates_listen=ANY,
            tls_cert_file=files / "tls.crt",
            tls_key_file=files / "tls.key",
            controller=NOWHERE,
        ),
        Stopping(),
    )


def throttling_controller(place: Place) -> Process:
    place.connect(throttler_controller)
    files = place.folder
    settings = ThrottlerControllerSettings(
        listen=ANY,
        webhook_listen=ANY,
        reports_listen=ANY,
        backend=Backend.CONFIGMAP,
        tls_cert_file=files / "tls.crt",
        tls_key_file=files / "tls.key",
    )
    return throttler_controller.controller(settings, Stopping())


def scoring(place: Place) -> Process:
    place.connect(scorer, "connect")
    place.monkeypatch.setattr(scorer, "must_answer", lambda _: None)
    settings = ScorerSettings(
        listen=ANY, extender_listen=ANY, load_watcher=NOWHERE, refresh=1.0, record=place.folder / "record"
    )
    return scorer.Scorer(settings, Stopping())


def watching_load(place: Place) -> Process:
    place.connect(load_watcher)
    settings = LoadWatcherSettings(listen=ANY, api_listen=ANY, provider=Provider.PROMETHEUS, address=NOWHERE)
    return load_watcher.LoadWatcher(settings, Stopping())


def demanding(place: Place) -> Process:
    place.connect(demand_controller)
    settings = DemandControllerSettings(
        listen=ANY,
        throttle_listen=ANY,
        broker_url="nats://127.0.0.1:9",
        proxy_image="i",
        interval=1.0,
        record=place.folder / "record",
    )
    return demand_controller.controller(settings, Stopping())


PROCESSES: dict[str, Callable[[Place], Process]] = {
    "operator": operator,
    "audit controller": auditor,
    "audit agent": audit_agent,
    "throttler agent": throttling_agent,
    "throttler controller": throttling_controller,
    "scorer": scoring,
    "load watcher": watching_load,
    "demand controller": demanding,
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(heartbeat, "LONGEST_REST_SECONDS", 0.05)
    monkeypatch.setattr(policy_source, "ERROR_SECONDS", 0.1)
    pair = Authority.create(tmp_path / "one").issue("a", hosts=["localhost"])
    (tmp_path / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (tmp_path / "tls.key").write_bytes(pair.key.read_bytes())
    with FakeApi() as api:
        api.put("/api/v1/nodes/n", metadata={"labels": {}}, status={"allocatable": {"cpu": "4", "memory": "8Gi"}})
        yield Place(api, tmp_path, monkeypatch)
    gc.collect()  # a killed thread closes no socket: that is told here, where it is expected


def _threads() -> dict[str, threading.Thread]:
    """Return the threads of ours: those of the fake API server have no name."""
    return {thread.name: thread for thread in threading.enumerate() if not thread.name.startswith(LEFT_OUT)}


@contextmanager
def started(
    place: Place, make: Callable[[Place], Process], wanted: frozenset[str] = frozenset()
) -> Iterator[tuple[Process, dict[str, threading.Thread]]]:
    """Start a process, and wait until it has all its threads."""
    before = set(_threads().values())
    process = make(place)
    process.start()
    try:
        found: dict[str, threading.Thread] = {}
        calm = 0
        deadline = time.monotonic() + LIMIT_SECONDS
        while calm < 10 or (not wanted <= found.keys() and time.monotonic() < deadline):
            time.sleep(0.05)
            now = {name: thread for name, thread in _threads().items() if thread not in before}
            calm = calm + 1 if now.keys() == found.keys() else 0
            found = now
        yield process, found
    finally:
        process.stop()


def _kill(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread at its next step."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


def _wait_for_problem(what: str, place: Place, process: Process, poke: Callable[[], None]) -> str | None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if (problem := process.unhealthy()) is not None:
            return problem
        poke()
        place.api.bookmark()
        time.sleep(0.05)
    raise AssertionError(f"{what} is dead, and /healthz says ok")


@pytest.mark.parametrize("name", PROCESSES)
def test_a_thread_that_is_killed_is_unhealthy_whichever_it_is(name: str, place: Place) -> None:
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    with started(place, PROCESSES[name]) as (process, threads):
        assert process.unhealthy() is None
        names = sorted(threads)
    assert len(names) >= (2 if name == "audit agent" else 3), names
    for victim in names:
        with started(place, PROCESSES[name], frozenset(names)) as (process, threads):
            assert process.unhealthy() is None, victim
            _wait_for_problem(victim, place, process, partial(_kill, threads[victim]))


def _tasks(threads: dict[str, threading.Thread]) -> "list[asyncio.Task[Any]]":
    """Return the tasks that stay of all event loops in these threads; the broker's client looks after its own."""
    identities = {thread.ident for thread in threads.values()}
    found: list[set[asyncio.Task[Any]]] = []
    for _ in range(2):
        found.append(set())
        for loop in gc.get_objects():
            if isinstance(loop, asyncio.BaseEventLoop) and loop.is_running() and loop._thread_id in identities:  # type: ignore[attr-defined]
                found[-1] |= {task for task in asyncio.all_tasks(loop) if "nats" not in repr(task.get_coro())}
        time.sleep(0.5)
    return sorted(found[0] & found[1], key=lambda task: repr(task.get_coro()).partition(" at ")[0])


@pytest.mark.parametrize("name", PROCESSES)
def test_a_task_that_is_cancelled_is_unhealthy_whichever_it_is(name: str, place: Place) -> None:
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    number = 0
    while True:
        with started(place, PROCESSES[name]) as (process, threads):
            assert process.unhealthy() is None
            tasks = _tasks(threads)
            if number >= len(tasks):
                break
            task = tasks[number]
            task.get_loop().call_soon_threadsafe(task.cancel)
            _wait_for_problem(repr(task), place, process, lambda: None)
        number += 1
    assert number >= 2
