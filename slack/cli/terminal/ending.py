"""The end of a command, without taking Python's house down brick by brick first: that takes a tenth of a second.

What somebody has registered for the end is run, and what is buffered is written. Then the process leaves; the system
takes back memory, files and sockets more quickly than Python does. Nothing heavy is imported here.
"""

import atexit
import os
import sys
from contextlib import suppress


def end_at_once(code: object) -> None:
    """Leave with an exit code; return where Python itself is to end: the code is a text, or threads still work."""
    if code is not None and not isinstance(code, int):
        return
    threading = sys.modules.get("threading")
    if threading is not None and any(
        not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
    ):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader who has gone has been dealt with by `output_checked`
            if stream is not None:
                stream.flush()
    os._exit((code or 0) & 0xFF)
