"""Containers that are processes of this node: a proxy each. For laptops, tests and benchmarks.

What a cluster does with pods is done here with processes: they are created, become ready, and end when they are told to
(SIGTERM drains) or by themselves. A process says that it is ready as a service tells systemd (`NOTIFY_SOCKET`), so
nothing is polled. A delay of creation may stand for what an engine takes to make a container.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from slack.demand.model import ContainerState, Creation, Ending, PoolContainer

log = logging.getLogger(__name__)

COMMAND: Final[Sequence[str]] = (sys.executable, "-P", "-m", "slack_operator.demand.proxy.process")
"""-P: what lies in the working directory must not stand in for a module."""
NOTIFY: Final = "NOTIFY_SOCKET"
_DATAGRAM_BYTES: Final = 4096
_END_SECONDS: Final = 10.0
_LISTEN_SECONDS: Final = 0.2


@dataclass(slots=True, eq=False)
class _Process:
    creation: Creation
    created_at: float
    timer: threading.Timer | None = None
    popen: "subprocess.Popen[bytes] | None" = None
    ready_at: float | None = None
    ending: bool = False


class Processes:
    """`Containers` of one node. The loop's thread calls; processes begin in threads of their own."""

    def __init__(
        self,
        flags: Callable[[Creation], Sequence[str]],
        on_failure: Callable[[str, str], None] = lambda *_: None,
        *,
        delay_seconds: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.time,
        log_file: Path | None = None,
    ) -> None:
        """Begin with none.

        Args:
            flags: of the proxy of a creation.
            on_failure: told of what could not be started, and of what ended before it was ready.
            delay_seconds: what a creation takes beside the process's own start.
            clock: of the times in `PoolContainer`.
            log_file: where the processes' own lines go; None: nowhere.
        """
        self._flags = flags
        self._on_failure = on_failure
        self._delay_seconds = delay_seconds
        self._clock = clock
        self._log_file = log_file
        self._processes: dict[str, _Process] = {}
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="resource-slack-")
        self._path = str(Path(self._folder.name) / "ready")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path)
        self._socket.settimeout(_LISTEN_SECONDS)
        self._closed = threading.Event()
        self.started = 0
        """Processes that were started so far."""
        self.ready = 0
        """Of these, those that have said that they are ready."""
        self._hearing = threading.Thread(target=self._hear, name="processes", daemon=True)
        self._hearing.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seen(self) -> Sequence[PoolContainer]:
        """Return the processes that are there, those included whose creation has begun."""
        with self._lock:
            for name, process in list(self._processes.items()):
                code = None if process.popen is None else process.popen.poll()
                if code is None:
                    continue
                del self._processes[name]
                if process.ready_at is None and not process.ending:
                    self._on_failure(name, f"the process ended with {code} before it was ready")
            return [_container(process) for process in self._processes.values()]

    def create(self, creations: Sequence[Creation]) -> None:
        """Begin to create; one that is there is not made a second time."""
        for creation in creations:
            with self._lock:
                if creation.id in self._processes:
                    continue
                process = self._processes[creation.id] = _Process(creation, self._clock())
            process.timer = threading.Timer(self._delay_seconds(), self._start, (process,))
            process.timer.daemon = True
            process.timer.start()

    def end(self, endings: Sequence[Ending]) -> None:
        """Tell them to drain; what is not started yet is not started."""
        for ending in endings:
            with self._lock:
                process = self._processes.get(ending.container_id)
                if process is None or process.ending:
                    continue
                process.ending = True
                if process.popen is None:
                    del self._processes[ending.container_id]
            if process.popen is None and process.timer is not None:
                process.timer.cancel()
            elif process.popen is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.popen.send_signal(signal.SIGTERM)

    def kill(self, container_id: str) -> None:
        """End one at once, as a crash would."""
        with self._lock:
            process = self._processes[container_id]
        if process.popen is not None:
            process.popen.kill()

    def close(self) -> None:
        """End all: SIGTERM, and SIGKILL for those that take too long."""
        with self._lock:
            processes = list(self._processes.values())
            self._processes.clear()
        for process in processes:
            if process.timer is not None:
                process.timer.cancel()
            process.ending = True
        running = [process.popen for process in processes if process.popen is not None]
        for popen in running:
            with contextlib.suppress(ProcessLookupError):
                popen.terminate()
        deadline = time.monotonic() + _END_SECONDS
        for popen in running:
            try:
                popen.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        self._closed.set()
        self._hearing.join()
        self._socket.close()
        self._folder.cleanup()

    def _start(self, process: _Process) -> None:
        creation = process.creation
        command = [*COMMAND, *self._flags(creation)]
        environment = {**os.environ, NOTIFY: self._path}
        try:
            with contextlib.ExitStack() as opened:
                told = subprocess.DEVNULL if self._log_file is None else opened.enter_context(self._log_file.open("ab"))
                with self._lock:
                    if process.ending or self._processes.get(creation.id) is not process:
                        return
                    process.popen = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=told,
                        stderr=subprocess.STDOUT,
                        env=environment,
                        start_new_session=True,
                    )
                    self.started += 1
        except OSError as error:
            with self._lock:
                self._processes.pop(creation.id, None)
            self._on_failure(creation.id, f"cannot be started: {error.strerror}")

    def _hear(self) -> None:
        """Take what processes say, as it comes: the kernel keeps ten datagrams, and who sends the next one waits."""
        while not self._closed.is_set():
            try:
                told = self._socket.recv(_DATAGRAM_BYTES)
            except TimeoutError:
                continue
            lines = told.decode("utf-8", "replace").splitlines()
            name = next((line.partition("=")[2] for line in lines if line.startswith("X_CONTAINER=")), "")
            with self._lock:
                process = self._processes.get(name)
                if process is not None and "READY=1" in lines and process.ready_at is None:
                    process.ready_at = self._clock()
                    self.ready += 1


def _container(process: _Process) -> PoolContainer:
    creation = process.creation
    state = ContainerState.READY if process.ready_at is not None else ContainerState.CREATING
    return PoolContainer(
        id=creation.id,
        namespace=creation.key.namespace,
        pool=creation.key.action,
        revision=creation.revision,
        subject=creation.subject,
        also=creation.also,
        node=creation.node_hint,
        state=ContainerState.DRAINING if process.ending else state,
        created_at_seconds=process.created_at,
        ready_at_seconds=process.ready_at,
    )
