"""How long tasks of the node waited for a CPU: pressure stall information (Documentation/accounting/psi.rst)."""

import re
from pathlib import Path

_OWN = Path("/proc/pressure/cpu")
"""The machine's, from every container on it."""
_PLACES = ("proc/pressure/cpu", "sys/fs/cgroup/cpu.pressure", "sys/fs/cgroup/unified/cpu.pressure")
"""The file that needs no cgroups, v2's root, and a hybrid's; they say the same. Not the other way round: in a container
/sys/fs/cgroup may begin at its own cgroup."""
_SOME = re.compile(rb"some avg10=\S+ avg60=\S+ avg300=\S+ total=(\d{1,20})\n")


def cpu_pressure_seconds(root: Path, own: Path = _OWN) -> float | None:
    """Return the time since boot in which some task waited for a CPU, of the machine whose root directory is given.

    Where nothing but the cgroups of the node is mounted there, `own` tells. None without PSI: it is not built in, or
    off (psi=0), where the files are absent or cannot be read.
    """
    for place in (*(root / file_name for file_name in _PLACES), own):
        try:
            with place.open("rb") as file:
                found = _SOME.match(file.read(4096))
        except OSError:
            continue
        if found:
            return int(found[1]) / 1e6
    return None
