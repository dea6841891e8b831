"""Ctrl-C, SIGTERM and SIGHUP ask for an orderly end: what was made is removed, and what is known is printed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from slack.process.stopping import STOP_SIGNALS, Stopping


@contextmanager
def stopping_on_signals() -> Iterator[Stopping]:
    """Let the first signal ask for the end, and one more a second later end at once; outside all is as it was."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    stopping = Stopping()
    stopping.on_signals()
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
