"""What must be known of a node beside its cgroups: online CPUs and the kernel."""

import os
import re
from pathlib import Path

from slack.audit.findings.sample import NodeFacts

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_RELEASE = re.compile(r"Linux version (\S+)")
_MOST_BYTES = 64 << 10


def read_facts(root: Path, hierarchy: str) -> NodeFacts:
    """Return the facts of the machine whose file system begins at `root`; what cannot be read is None or ''."""
    version = _text(root / "proc" / "version")
    release = _text(root / "proc" / "sys" / "kernel" / "osrelease")
    if not release and (found := _RELEASE.match(version)):
        release = found[1]
    cpus = count_cpus(_text(root / "sys" / "devices" / "system" / "cpu" / "online"))
    if root == Path("/"):
        release, cpus = release or os.uname().release, cpus or os.cpu_count()
    return NodeFacts(cpus, release, version, hierarchy)


def count_cpus(online: str) -> int | None:
    """Count a list of CPUs such as 0-3,8; None when it is none.

    >>> count_cpus("0-3,8")
    5
    """
    total = 0
    for part in online.strip().split(","):
        found = _RANGE.fullmatch(part)
        if not found:
            return None
        first = int(found[1])
        last = int(found[2] or first)
        if last < first:
            return None
        total += last - first + 1
    return total


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
