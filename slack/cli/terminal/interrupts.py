"""Ctrl-C, SIGTERM and SIGHUP: whenever one comes, the program ends with 128 + its number and without a traceback.

The first one becomes KeyboardInterrupt, so that files, worker processes and everything else that a command removes at
its end are left in order, also if the terminal was closed. Where that would be lost
or told as another error (while a module loads, in a destructor), and for a second one, the process leaves at once.
Nothing heavy is imported here: this is what guards the imports.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
_SHOW_CURSOR = b"\x1b[?25h"

_came = 0
"""The signal that has come; 0 for none."""
_ended = False
_process_id = os.getpid()
_holding = False
_waiting = 0
"""A signal that has come and is held; 0 for none."""


def is_interrupted() -> bool:
    """Tell whether a signal has come: an error that follows is its consequence."""
    return bool(_came)


@contextmanager
def guard_signals() -> Iterator[None]:
    """Guard the whole program. A signal that was ignored at its start (`nohup`, a shell's `&`) stays ignored."""
    global _ended
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)
        sys.unraisablehook = _unraisable
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _handle)
    try:
        yield
    except BaseException as error:
        if _came or isinstance(error, KeyboardInterrupt):
            raise SystemExit(128 + (_came or signal.SIGINT)) from None
        raise
    finally:
        _ended = True  # what is left is Python's own end, which reports an interrupt as a traceback


@contextmanager
def hold_signals() -> Iterator[None]:
    """Let signals wait. Processes that are started here never see Ctrl-C: they inherit that it is blocked."""
    global _holding
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    _holding = True  # the system may still choose a thread of some library, which blocks nothing
    try:
        yield
    finally:
        _holding = False
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if _waiting:
            signal.raise_signal(_waiting)


def end_workers() -> None:
    """End the processes of a pool that is not waited for; they would finish their runs first."""
    children = getattr(sys.modules.get("multiprocessing.process"), "active_children", list)
    for process in children():
        process.terminate()


def _handle(number: int, frame: FrameType | None) -> None:
    global _came, _waiting
    if os.getpid() != _process_id:
        os._exit(128 + number)  # a worker that was forked and has not set its own handlers yet
    _waiting = number if _holding else 0
    if _holding or (_came and not _ended and number == signal.SIGHUP):
        return  # a terminal that closes may send several: one is enough, and cleaning up goes on
    if _came or _ended or _loads_a_module(frame):
        _came = _came or number
        _leave()
    _came = number
    raise KeyboardInterrupt


def _loads_a_module(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unraisable(unraisable: "UnraisableHookArgs") -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(unraisable)


def _leave() -> NoReturn:
    end_workers()
    if "rich.live" in sys.modules and os.isatty(2):
        os.write(2, _SHOW_CURSOR)  # a progress bar hides it
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, RuntimeError):  # the terminal may be closed
            stream.flush()
    os._exit(128 + (_came or signal.SIGINT))
