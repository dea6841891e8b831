"""Ctrl-C: whenever it comes, the program ends with 130 and without a traceback.

The first one becomes KeyboardInterrupt, so that files and worker processes are left in order. Where that would be lost
or told as another error (while a module loads, in a destructor), and for a second one, the process leaves at once.
Nothing heavy is imported here: this is what guards the imports.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
_SHOW_CURSOR = b"\x1b[?25h"

_came = False
_holding = False
_waiting = False
"""One has come that is held."""


def interrupted() -> bool:
    """Tell whether Ctrl-C has come: an error that follows is its consequence."""
    return _came


@contextmanager
def guarded() -> Iterator[None]:
    """Around the whole program. Who started it with SIGINT ignored (`nohup`, a shell's `&`) keeps that."""
    global _came
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)
        sys.unraisablehook = _unraisable
    try:
        yield
    except BaseException as error:
        if _came or isinstance(error, KeyboardInterrupt):
            raise SystemExit(INTERRUPTED) from None
        raise
    finally:
        _came = True  # what is left is Python's own end, which tells an interrupt as a traceback


@contextmanager
def held() -> Iterator[None]:
    """Let Ctrl-C wait. Processes that are started here never see it: they inherit that it is blocked."""
    global _holding
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    _holding = True  # the system may still choose a thread of some library, which blocks nothing
    try:
        yield
    finally:
        _holding = False
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if _waiting:
            signal.raise_signal(signal.SIGINT)


def end_workers() -> None:
    """End the processes of a pool that is not waited for; they would finish their runs first."""
    children = getattr(sys.modules.get("multiprocessing.process"), "active_children", list)
    for process in children():
        process.terminate()


def _handle(_: int, frame: FrameType | None) -> None:
    global _came, _waiting
    _waiting = _holding
    if _holding:
        return
    if _came or _loads_a_module(frame):
        _leave()
    _came = True
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
    os._exit(INTERRUPTED)
