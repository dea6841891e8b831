"""One harness's Docker at a time on a machine, whatever cache folder a run has.

Bridge, packet filter and kernel settings are the machine's, so whoever waits for them and what is to be put back stand
in a place of the machine's, too. `/run/lock` is everybody's to write, so only a folder of this user's own is taken.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.harness.errors import UnavailableError

PLACE = Path("/run/lock")
_NAME = "resource-slack-docker"


def folder(fallback: Path) -> Path:
    """Return the folder of what is there once on a machine, and make it; `fallback` where there is no `/run/lock`.

    Raises:
        UnavailableError: what is at its place is somebody else's.
    """
    if not (PLACE.is_dir() and os.access(PLACE, os.W_OK | os.X_OK)):
        fallback.mkdir(parents=True, exist_ok=True)
        return fallback
    found = PLACE / _NAME
    found.mkdir(mode=0o700, exist_ok=True)
    if found.is_symlink() or found.stat().st_uid != os.geteuid():
        raise UnavailableError(f"{found} is not this user's, who cannot rely on what is in it; take it away")
    return found


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock; whoever comes while another run holds it waits."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("docker: another run on this machine has the harness's Docker; waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
