"""Short turns on the processor for the thread that answers: the scheduler's cycle waits for it.

Linux (6.12 and later) lets a thread ask for a shorter slice than others have (sched_setattr(2), `sched_runtime` of a
normal thread). It then gets no more of the processor, but is not kept waiting for the slice of whoever runs when it
wakes: on cores that a scheduler, an API server and others keep busy that is most of what a short call takes. No right
is needed. Where the kernel knows nothing of it, or refuses, all stays as it was.
"""

import ctypes
import logging
import os
import platform
import struct

log = logging.getLogger(__name__)

SLICE_NANOSECONDS = 200_000
"""Some calls fit in; 100,000 is the least that the kernel takes."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime, deadline, period: sched_attr as of Linux 3.14."""
_ITSELF = 0


def ask(nanoseconds: int = SLICE_NANOSECONDS) -> bool:
    """Ask for the calling thread; return whether the kernel took it. A thread of another policy is left as it is."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or os.sched_getscheduler(_ITSELF) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, _ITSELF)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _ITSELF, wanted, 0) != 0:
        log.info("the kernel gives no short turns: %s", os.strerror(ctypes.get_errno()))
        return False
    return True


def slice_nanoseconds() -> int | None:
    """Return the slice of the calling thread in nanoseconds; None where the kernel does not tell."""
    number = _SCHED_GETATTR.get(platform.machine())
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if number is None or ctypes.CDLL(None).syscall(number, _ITSELF, found, _ATTRIBUTES.size, 0) != 0:
        return None
    runtime: int = _ATTRIBUTES.unpack(found.raw)[5]
    return runtime or None
