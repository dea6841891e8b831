"""What Docker's programs make on a machine whatever folders they are given, taken away where it was not there before.

Only what is empty goes, sockets at which nobody listens, and dockerd's own key: another Docker that was started
meanwhile keeps what it uses.
"""

import errno
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_KEY = Path("/etc/docker/key.json")
"""dockerd before 23 makes one for image manifests of a form that is out of use."""
_FOLDERS = ("/etc/docker", "/run/docker", "/run/containerd", "/lib/modules")
"""kind mounts the last into each node, and Docker makes what it is to mount."""
_GROUPS = Path("/sys/fs/cgroup")
_TRIES = 20


def present() -> list[str]:
    """Return which of them are there."""
    groups = [_GROUPS / "docker", *_GROUPS.glob("*/docker")]  # of version 2, and of each hierarchy of version 1
    found = [path for path in (*map(Path, _FOLDERS), *groups) if path.is_dir()]
    return [str(path) for path in ([_KEY] if _KEY.exists() else []) + found]


def remove_new(before: Collection[str]) -> None:
    """Take away what was not there before."""
    for name in present():
        if name in before:
            continue
        if name == str(_KEY):
            _KEY.unlink()
        else:
            remove_empty(Path(name))


def remove_empty(top: Path) -> None:
    """Take away a folder and those in it, if there is nothing but sockets that nobody listens at: of shims, killed.

    A control group is busy until all that was in it is reaped.
    """
    for again in range(_TRIES):
        for path in [*sorted(top.rglob("*"), reverse=True), top]:  # what is within a folder first
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                elif _is_dead(path):
                    path.unlink()
        if not top.exists():
            return
        time.sleep(0.02 * again)


def _is_dead(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == errno.ECONNREFUSED
