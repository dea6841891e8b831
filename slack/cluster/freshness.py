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


class Freshness:
    """Which events of one collection are news: by version, by what was deleted lately, and in a list by generation.

    Of an object that is known the caller keeps the version and the generation of its last news.
    """

    def __init__(self, tombstones: int = 10_000) -> None:
        self.generation = 0
        """Of the last list, or of the one that is being read."""
        self.listing = False
        self._most = tombstones
        self._deleted: dict[int, int] = {}
        """Versions of the last deleted objects by uid, the oldest first, so that a late event raises no ghost."""

    def begin(self) -> None:
        """A list begins; it knows better than what was known."""
        self.generation += 1
        self.listing = True
        self._deleted.clear()

    def end(self) -> bool:
        """The list is whole; says whether one had begun."""
        was, self.listing = self.listing, False
        return was

    def news(self, uid: int, resource_version: str | None, known: tuple[int, int] | None) -> int | None:
        """Return an event's version as a number, None when the event is older than what is known.

        Args:
            uid: of the object.
            resource_version: which the event says.
            known: version and generation of the last news of an object of that name.
        """
        version = version_number(resource_version)
        if self.listing and (known is None or known[1] != self.generation):
            return version
        last = self._deleted.get(uid, NO_VERSION) + 1 if known is None else known[0]
        return None if version != NO_VERSION and version < last else version

    def deleted(self, uid: int, resource_version: str | None) -> None:
        """An object is gone."""
        self._deleted.pop(uid, None)
        self._deleted[uid] = version_number(resource_version)
        if len(self._deleted) > self._most:
            del self._deleted[next(iter(self._deleted))]
