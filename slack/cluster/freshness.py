"""Which events are news: resourceVersions compared, deletions remembered for a while.

Kubernetes promises since 1.35 (KEP-5504) that resourceVersions of a resource are integers that grow, as they have
been with etcd all along. An event that is older than what is known is dropped, except during a re-list, which is
right by definition (an etcd restore can turn versions back). Objects without a version (files, tests) are always news.
"""

NO_VERSION = -1


def version_number(resource_version: str | None) -> int:
    """Return a resourceVersion as a number, NO_VERSION where there is none that can be compared."""
    if resource_version and resource_version.isdecimal() and len(resource_version) < 19:
        return int(resource_version)
    return NO_VERSION


class Tombstones:
    """The last deleted objects with their version, oldest forgotten first, so that a late event raises no ghost."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._versions: dict[int, int] = {}

    def add(self, uid: int, version: int) -> None:
        """Remember that an object is gone."""
        self._versions.pop(uid, None)
        self._versions[uid] = version
        if len(self._versions) > self._limit:
            del self._versions[next(iter(self._versions))]

    def buries(self, uid: int, version: int) -> bool:
        """Say whether an event is older than the object's deletion."""
        return version != NO_VERSION and version <= self._versions.get(uid, NO_VERSION)

    def clear(self) -> None:
        """Forget all: a re-list knows better."""
        self._versions.clear()
