"""From settings to an exit code: logs, signals, start, work, stop. The same for every process, and light.

0 is an end that was asked for, 1 one that was not (no API server, a lost lease), 2 what the user can mend.
"""

import gc
import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from slack.process import logs
from slack.process.exit_codes import BAD_INPUT
from slack.process.shared_settings import LoggingSettings
from slack.process.stopping import Interrupted, Stopping
from slack.supervision.supervisor import Startable

_COLLECTED_EVERY = 700
"""Containers made and not gone again between two looks at the young ones: Python's own value."""
log = logging.getLogger(__name__)


class CannotStart(Exception):
    """Why a process ends before it has begun; the text is its last line."""

    def __init__(self, text: str, *, exit_code: int = BAD_INPUT) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Component(Startable, Protocol):
    """What begins and ends with a process."""

    def stop(self) -> None:
        """End, within seconds; nothing where it was never started."""


class RunnableProcess(Protocol):
    """All components of one process. Everything belongs to the main thread."""

    def start(self) -> None:
        """Begin."""

    def run(self) -> None:
        """Do what the main thread does, until the end is asked for."""

    def stop(self) -> None:
        """End, within seconds; nothing where it was never started."""


def listen(server: Component, flag: str, address: str) -> None:
    """Start a server.

    Raises:
        CannotStart: its address cannot be bound; the flag is named.
    """
    try:
        server.start()
    except OSError as error:
        raise CannotStart(f"{flag} {address}: cannot listen: {error.strerror or error}") from None


S = TypeVar("S", bound=LoggingSettings)


def run(settings: S, build: Callable[[S, Stopping], RunnableProcess]) -> int:
    """Build a process and run it until a signal or a component of it asks for the end; returns its exit code."""
    logs.set_up(settings.log_format, settings.log_level)
    stopping = Stopping()
    if threading.current_thread() is threading.main_thread():
        stopping.on_signals()
    process: RunnableProcess | None = None
    try:
        with stopping.interrupts():
            process = build(settings, stopping)
            # What the imports have made lives as long as the process: collections need not walk it. Its garbage is not
            # looked for: that would take a tenth of a second of each start, and finds 0.3 MiB.
            gc.freeze()
            gc.set_threshold(_COLLECTED_EVERY)  # a command looks for garbage less often
            process.start()
        process.run()
    except CannotStart as problem:
        log.error("%s", problem)
        return problem.exit_code
    except Interrupted:
        stopping.wait()  # another thread is about to say so
    log.info("stopping: %s", stopping.reason)
    if process is not None:
        process.stop()
    return stopping.exit_code
