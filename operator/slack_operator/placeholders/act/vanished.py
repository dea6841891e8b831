"""Which of our ReplicaSets somebody else has deleted: those that were there, are wanted still, and are gone.

No contest is a ReplicaSet that we deleted ourselves, or that the garbage collector took away with its policy: a policy
that is deleted and created again has another uid. Used by the actuator alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slack.cluster.wire import OwnReplicaSet
from slack.kube.apply import Json
from slack.process.contests import WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class _Seen:
    owners: frozenset[str]
    """Uids."""
    at: float


class Vanished:
    """Remembers a ReplicaSet for as long as the contest about its deletion may last."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._deleted: set[str] = set()
        """Uids of ReplicaSets that we deleted and that the watch still shows."""

    def see(self, sets: Mapping[str, OwnReplicaSet], contested: Collection[str], now: float) -> None:
        """Take in what the watch shows at the beginning of a turn.

        Args:
            sets: our ReplicaSets by name.
            contested: names of ReplicaSets that are left to others now; these are remembered.
            now: monotonic seconds.
        """
        self._deleted &= {found.metadata.uid or "" for found in sets.values()}
        for name, found in sets.items():
            if found.metadata.uid not in self._deleted:
                owners = frozenset(owner.uid for owner in found.metadata.owner_references or ())
                self._seen[name] = _Seen(owners, now)
        for name in contested:
            if (seen := self._seen.get(name)) is not None:
                self._seen[name] = _Seen(seen.owners, now)
        self._seen = {name: seen for name, seen in self._seen.items() if now - seen.at < WINDOW_SECONDS}

    def delete(self, name: str, uid: str) -> None:
        """Note that we delete a ReplicaSet."""
        self._deleted.add(uid)
        self._seen.pop(name, None)

    def is_deleted_by_others(self, manifest: Json) -> bool:
        """Whether a ReplicaSet that is to be created was there for the same owner."""
        metadata = manifest["metadata"]
        seen = self._seen.get(metadata["name"])
        return seen is not None and any(owner["uid"] in seen.owners for owner in metadata.get("ownerReferences", ()))
