"""Which releases of Kubernetes have a scheduler that forgets preemptors. A table and a pure function over it.

Asynchronous preemption, which makes the hang, came with 1.32 behind a feature gate and is on by default since 1.33
(KEP-4832). kubernetes/kubernetes#139162 (1.37.0, 1.36.4 by #140685, 1.35 by #140637) lets such pods be tried again
after five minutes; what forgets them is #141694, open, with #142294 proposed: no release is known to have it.
"""

import re

FIRST = (1, 32)
"""The first minor version with asynchronous preemption."""
MENDED: dict[tuple[int, int], int] = {}
"""The first patch release of each minor version in which no preemptor is forgotten; minor versions after the last have
it from their beginning. To be filled in when #141694 is closed."""
_VERSION = re.compile(r"v?(?P<major>\d{1,6})\.(?P<minor>\d{1,6})(?:\+|\.(?P<patch>\d{1,6}))?(?:[^0-9].*)?", re.DOTALL)


def may_hang(git_version: str, mended: dict[tuple[int, int], int] | None = None) -> bool:
    """Say whether preemptors can hang with a scheduler of this version; True for one that cannot be read.

    Args:
        git_version: as `/version` says it; vendors add to it (`v1.36.4-gke.100`, `v1.33.5-eks-1-33-9`, `v1.32.3+k3s1`).
        mended: another table than `MENDED`.
    """
    table = MENDED if mended is None else mended
    match = _VERSION.fullmatch(git_version.strip())
    if match is None:
        return True
    minor = (int(match["major"]), int(match["minor"]))
    if minor < FIRST:
        return False
    if minor in table:
        patch = int(match["patch"] or 0)
        # v1.40.0-alpha.1 comes before v1.40.0; a vendor's suffix does not
        before = re.search(r"-(alpha|beta|rc)\.", git_version) is not None
        return patch < table[minor] or (before and patch == table[minor])
    return not table or minor < max(table)
