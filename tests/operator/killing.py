"""Kills each thread or each task of one process in turn, and looks whether /healthz fails each time.

`python -m tests.operator.killing NAME threads|tasks` in a process of its own: a killed thread closes no socket and no
file, and what it leaves would be found by the tests that come later. Ends with 0, or with what was dead and looked
healthy.
"""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from e2e.harness.cluster.certificates import Authority
from slack.process.running import RunnableProcess
from slack.process.stopping import Stopping
from slack.supervision import heartbeat
from slack_operator import app
from slack_operator.auditor.agent.process import AuditAgent
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller import process as audit_controller
from slack_operator.auditor.controller.settings import ControllerSettings
from slack_operator.demand import controller as demand_controller
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.demand.proxy import process as proxy
from slack_operator.demand.proxy.settings import DemandProxySettings, RunMode
from slack_operator.loadwatcher import process as load_watcher
from slack_operator.loadwatcher.settings import LoadWatcherSettings, Provider
from slack_operator.runtime import policy_source
from slack_operator.scorer import process as scorer
from slack_operator.scorer.settings import ScorerSettings
from slack_operator.settings import OperatorSettings
from slack_operator.throttler.agent import process as throttler_agent
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.controller import process as throttler_controller
from slack_operator.throttler.controller.settings import PermitBackend, ThrottlerControllerSettings
from tests.kube.fake_api import FakeApi
from tests.operator.demand.memory_broker import MemoryBroker

LIMIT_SECONDS = 30.0
ANY = "127.0.0.1:0"
NOWHERE = "http://127.0.0.1:9"
LEFT_OUT = ("Thread-", "MainThread", "pydevd", "asyncio_", "stop")
"""Threads of the fake API server and of Python."""
COME_BACK = ("kopf",)
"""Threads that another one starts again."""


class Process(RunnableProcess, Protocol):
    def unhealthy(self) -> str | None:
        """Return what is dead or stuck."""


def put(module: Any, name: str, value: object) -> None:
    """Replace what a module has."""
    setattr(module, name, value)


@dataclass
class Place:
    api: FakeApi
    folder: Path

    def connect(self, module: Any, name: str = "connected") -> None:
        put(module, name, lambda *_, **__: self.api.connection())


def operator(place: Place) -> Process:
    place.connect(app)
    return app.build(OperatorSettings(listen=ANY, web_listen=ANY, web_load_watcher=NOWHERE), Stopping())


def auditor(place: Place) -> Process:
    place.connect(audit_controller)
    return audit_controller.build(ControllerSettings(listen=ANY, reports_listen=ANY), Stopping())


def audit_agent(place: Place) -> Process:
    settings = AgentSettings(
        node="n", root=place.folder, listen=ANY, state_dir=place.folder / "state", controller=NOWHERE
    )
    return AuditAgent(settings, Stopping())


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
        backend=PermitBackend.CONFIGMAP,
        tls_cert_file=files / "tls.crt",
        tls_key_file=files / "tls.key",
    )
    return throttler_controller.build(settings, Stopping())


def scoring(place: Place) -> Process:
    place.connect(scorer, "connect")
    put(scorer, "must_answer", lambda _: None)
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
    return demand_controller.build(settings, Stopping())


class ProxyInThread:
    """A proxy as its process runs it, and its end as /healthz of a process that has ended."""

    def __init__(self, settings: DemandProxySettings) -> None:
        self._stopping = Stopping()
        self._proxy = proxy.ProxyProcess(settings, self._stopping)
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        """Serve probes, and pull messages in a thread."""
        self._proxy.start()
        self._thread.start()

    def unhealthy(self) -> str | None:
        """Return what is dead or stuck."""
        return self._proxy.unhealthy() if self._thread.is_alive() else "the process has ended"

    def run(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def stop(self) -> None:
        """End both."""
        self._stopping.request("the test ends")
        self._thread.join(2.0)  # without the task that watches it does not end
        self._proxy.stop()

    def _run(self) -> None:
        with contextlib.suppress(BaseException):
            self._proxy.run()


def pulling(_: Place) -> Process:
    async def opened(*_: object, **__: object) -> MemoryBroker:
        return MemoryBroker()

    put(proxy, "open_message_queue", opened)
    return ProxyInThread(_proxy_settings("memory://"))


def pulling_from_nats(_: Place) -> Process:
    return ProxyInThread(_proxy_settings("nats://127.0.0.1:9"))


def _proxy_settings(url: str) -> DemandProxySettings:
    return DemandProxySettings(
        broker_url=url, container="c", queues=("act.a.b.1",), slots=2, mode=RunMode.WAIT, wait=0.1, listen=ANY
    )


PROCESSES: dict[str, Callable[[Place], Process]] = {
    "operator": operator,
    "audit controller": auditor,
    "audit agent": audit_agent,
    "throttler agent": throttling_agent,
    "throttler controller": throttling_controller,
    "scorer": scoring,
    "load watcher": watching_load,
    "demand controller": demanding,
    "demand proxy": pulling,
    "demand proxy without a server": pulling_from_nats,
}


@contextmanager
def placed(folder: Path) -> Iterator[Place]:
    """Make an API server, and what processes find on disk."""
    put(heartbeat, "LONGEST_REST_SECONDS", 0.05)
    put(policy_source, "ERROR_SECONDS", 0.1)
    pair = Authority.create(folder / "one").issue("a", hosts=["localhost"])
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    with FakeApi() as api:
        api.put("/api/v1/nodes/n", metadata={"labels": {}}, status={"allocatable": {"cpu": "4", "memory": "8Gi"}})
        yield Place(api, folder)


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


def _wait_for_return(what: str, place: Place, process: Process, is_back: Callable[[], bool]) -> None:
    """Wait until another has taken the place of what was killed, or the process is unhealthy."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while process.unhealthy() is None and not is_back():
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} is dead and does not come back, and /healthz says ok")
        place.api.bookmark()
        time.sleep(0.05)


def kill_threads(place: Place, make: Callable[[Place], Process]) -> list[str]:
    """Kill each thread in turn, each of a fresh process; return their names."""
    with started(place, make) as (process, threads):
        assert process.unhealthy() is None
        names = sorted(threads)
    for victim in names:
        with started(place, make, frozenset(names)) as (process, threads):
            assert process.unhealthy() is None, victim
            thread = threads[victim]
            if victim in COME_BACK:
                _kill_for_good(thread, place)
                _wait_for_return(victim, place, process, partial(_is_replaced, thread))
            else:
                _wait_for_problem(victim, place, process, partial(_kill, thread))
    return names


def _kill_for_good(thread: threading.Thread, place: Place) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        _kill(thread)
        place.api.bookmark()
        time.sleep(0.05)


def _is_replaced(thread: threading.Thread) -> bool:
    return any(other.name == thread.name and other is not thread for other in threading.enumerate())


def _tasks(threads: dict[str, threading.Thread]) -> "list[asyncio.Task[Any]]":
    """Return the tasks that stay of all event loops in these threads."""
    identities = {thread.ident for name, thread in threads.items() if name not in COME_BACK}
    found: list[set[asyncio.Task[Any]]] = []
    for _ in range(2):
        found.append(set())
        for loop in gc.get_objects():
            if not isinstance(loop, asyncio.BaseEventLoop) or not loop.is_running():
                continue
            if loop._thread_id in identities:  # type: ignore[attr-defined]  # no public name says whose thread it is
                found[-1] |= asyncio.all_tasks(loop)
        time.sleep(0.5)
    return sorted(found[0] & found[1], key=_work_of)


def _work_of(task: "asyncio.Task[Any]") -> str:
    """Name a task by its coroutine, without its address."""
    return repr(task.get_coro()).partition(" at ")[0]


def _cancelled(task: "asyncio.Task[Any]") -> bool:
    """Cancel a task of another thread's loop; whether it was still there."""
    was_there: Future[bool] = Future()
    task.get_loop().call_soon_threadsafe(lambda: was_there.set_result(task.cancel()))
    return was_there.result(LIMIT_SECONDS)


def kill_tasks(place: Place, make: Callable[[Place], Process]) -> list[str]:
    """Cancel each task in turn, each of a fresh process; return what they ran."""
    names: list[str] = []
    while True:
        with started(place, make) as (process, threads):
            assert process.unhealthy() is None
            tasks = _tasks(threads)
            if len(names) >= len(tasks):
                return names
            task = tasks[len(names)]
            names.append(_work_of(task))
            before = {id(other) for other in tasks if _work_of(other) == names[-1]}
            if not _cancelled(task):
                names.pop()  # it had come to its end meanwhile: the process is looked at anew
                continue
            if "nats" in names[-1].lower():
                _wait_for_return(names[-1], place, process, partial(_is_new, threads, names[-1], before))
            else:
                _wait_for_problem(repr(task), place, process, lambda: None)


def _is_new(threads: dict[str, threading.Thread], work: str, before: set[int]) -> bool:
    return any(_work_of(task) == work and id(task) not in before for task in _tasks(threads))


def main(name: str, what: str) -> None:
    """Kill all of one process, and print what was killed."""
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    kill = {"threads": kill_threads, "tasks": kill_tasks}[what]
    with tempfile.TemporaryDirectory() as folder, placed(Path(folder)) as place:
        killed = kill(place, PROCESSES[name])
    print("\n".join(killed), flush=True)


if __name__ == "__main__":
    code = 1
    try:
        main(*sys.argv[1:])
        code = 0
    finally:
        if code:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # threads that could not be killed hold nothing up
