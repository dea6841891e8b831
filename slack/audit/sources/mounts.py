"""Where the cpu controller's files are: mountinfo of the node (proc_pid_mountinfo(5)), or a tree as it is found.

v1 has `cpu` alone or together with `cpuacct` in either order; alone, the time used is counted in a second mount. A
machine with v1 controllers and a v2 mount is a hybrid: a controller is bound to one of the two, so v2 counts only where
its cgroup.controllers names cpu. A mount may show a part of the hierarchy only (a container's bind mount): paths are
told from the hierarchy's root all the same.
"""

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from slack.errors import UserFacingError

V1 = "v1"
V2 = "v2"
HYBRID = "hybrid"
_MOST_BYTES = 16 << 20
"""Of a mountinfo: nodes with thousands of pods have some MiB."""
_ESCAPE = re.compile(r"\\([0-7]{3})")
_V1_NAMES = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
_USAGE_NAMES = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


class InvalidMounts(UserFacingError):
    """There is no cpu controller to be found; the text says what was looked for, and where."""


@dataclass(frozen=True, slots=True)
class CgroupMount:
    """One mount of a cgroup hierarchy."""

    directory: str
    """Where it can be read from here."""
    root: str
    """Which cgroup of the hierarchy is shown there; '/' for the whole."""
    controllers: frozenset[str] = frozenset()
    """v1 only: what is bound to it, and name=systemd and the like."""
    is_v2: bool = False


@dataclass(frozen=True, slots=True)
class CpuMounts:
    """Where the files of the cpu controller are."""

    hierarchy: str
    """v1, v2 or hybrid."""
    cpu: CgroupMount
    usage: CgroupMount | None
    """v1: where cpuacct.usage is, which may be the same; None: nowhere. v2: the same as `cpu`."""
    unified: CgroupMount | None
    """v2's mount, with or without the cpu controller; its root has cpu.pressure."""


def find_mounts(root: Path) -> CpuMounts:
    """Find them for a machine whose file system begins at `root`.

    Raises:
        InvalidMounts: There is no cpu controller, or nothing there can be read.
    """
    looked: list[str] = []
    # One's own view for the machine that one runs on; that of PID 1 where a node's root is mounted somewhere.
    info = root / "proc" / ("self" if root == Path("/") else "1") / "mountinfo"
    try:
        with info.open("rb") as file:
            mounts = parse_mountinfo(file.read(_MOST_BYTES))
    except OSError as error:
        looked.append(f"{info}: {_words(error)}")
    else:
        looked.append(f"{info}: {_described(mounts)}")
        if found := _choose([_seen_from(root, mount) for mount in mounts]):
            return found
    tree = root / "sys" / "fs" / "cgroup"
    if found := _choose(_laid_out(tree)):
        return found
    looked.append(f"{tree}: neither cgroup.controllers with cpu in it (v2) nor {' or '.join(_V1_NAMES)} (v1)")
    raise InvalidMounts(f"no cgroup cpu controller under {root}: " + "; ".join(looked))


def parse_mountinfo(data: bytes) -> list[CgroupMount]:
    """Return the cgroup mounts, in the order in which they were made; lines of other kinds and half lines are none."""
    found = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        left, separator, right = line.partition(" - ")
        head, tail = left.split(" "), right.split(" ")
        if not separator or len(head) < 6 or len(tail) < 3 or tail[0] not in ("cgroup", "cgroup2"):
            continue
        shown, directory = _unescaped(head[3]), _unescaped(head[4])
        if not shown.startswith("/") or not directory.startswith("/") or "\0" in directory:
            continue
        is_v2 = tail[0] == "cgroup2"
        controllers = frozenset() if is_v2 else frozenset(tail[2].split(","))
        found.append(CgroupMount(directory, _inside(shown), controllers, is_v2))
    return found


def _choose(mounts: list[CgroupMount]) -> CpuMounts | None:
    # A later mount hides an earlier one of the same place. Every read goes through the whole path: no symlinks in it.
    last = {mount.directory: replace(mount, directory=os.path.realpath(mount.directory)) for mount in mounts}
    readable = [mount for mount in last.values() if _readable(mount)]
    unified = _best(mount for mount in readable if mount.is_v2)
    cpu = _best(mount for mount in readable if "cpu" in mount.controllers)
    if cpu is not None:
        usage = cpu if "cpuacct" in cpu.controllers else None
        usage = usage or _best(mount for mount in readable if "cpuacct" in mount.controllers and mount.root == cpu.root)
        return CpuMounts(HYBRID if unified else V1, cpu, usage, unified)
    if unified is not None and _has_cpu(unified):
        return CpuMounts(V2, unified, unified, unified)
    return None


def _best(mounts: Iterable[CgroupMount]) -> CgroupMount | None:
    """The one that shows the most, and of these the one with the shortest name: others are somebody's bind mounts."""
    return min(
        mounts, key=lambda mount: (mount.root.count("/") + (mount.root != "/"), len(mount.directory)), default=None
    )


def _readable(mount: CgroupMount) -> bool:
    # cpu.stat is in every cgroup of both, the root's too; a cpuacct mount has only usage.
    wanted = ("cgroup.controllers", "cpu.stat") if mount.is_v2 else ("cpu.stat", "cpuacct.usage")
    return any(os.access(f"{mount.directory}/{name}", os.F_OK) for name in wanted)


def _has_cpu(mount: CgroupMount) -> bool:
    try:
        named = Path(mount.directory, "cgroup.controllers").read_bytes()
    except FileNotFoundError:
        return True  # a recorded tree may have left it out
    except OSError:
        return False
    return b"cpu" in named.split()


def _laid_out(tree: Path) -> list[CgroupMount]:
    """What is to be seen under a sys/fs/cgroup without a mountinfo: every usual place of a mount."""
    mounts = [CgroupMount(str(tree), "/", is_v2=True), CgroupMount(str(tree / "unified"), "/", is_v2=True)]
    names = dict.fromkeys([*_V1_NAMES, *_USAGE_NAMES])
    return mounts + [CgroupMount(str(tree / name), "/", frozenset(name.split(","))) for name in names]


def _seen_from(root: Path, mount: CgroupMount) -> CgroupMount:
    directory = mount.directory if root == Path("/") else str(root) + mount.directory
    return CgroupMount(directory, mount.root, mount.controllers, mount.is_v2)


def _inside(shown: str) -> str:
    """Outside of the reader's cgroup namespace the kernel writes /../..; where that is, nobody here can know."""
    return "/" if shown.startswith("/..") else shown


def _unescaped(field: str) -> str:
    return _ESCAPE.sub(lambda code: chr(int(code[1], 8) & 0xFF), field)


def _described(mounts: list[CgroupMount]) -> str:
    if not mounts:
        return "has no mount of type cgroup or cgroup2"
    names = ["cgroup2" if mount.is_v2 else ",".join(sorted(mount.controllers)) for mount in mounts]
    return f"has {', '.join(dict.fromkeys(names))}, of which none with cpu can be read"


def _words(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "not there"
    return (error.strerror or "cannot be read").lower()
