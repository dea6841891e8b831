"""The writes that may follow from a plan, and what they are decided from. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slack.cluster.identity import owner_name
from slack.cluster.labels import LABEL_SHAPE
from slack.cluster.wire import OwnReplicaSet, Pod
from slack.planner.objects.drift import OwnedField
from slack.planner.removal.reasons import RemovalReason

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Taken:
    """A part of an object of ours that somebody else has written."""

    part: OwnedField
    holder: str
    """The field manager, or kind and name of a foreign owner."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of a ReplicaSet."""

    manifest: Manifest
    before: int | None
    """spec.replicas as the watch shows it; None when the ReplicaSet is new."""
    after: int
    leaving: int = 0
    """How many bound placeholders go by it."""
    why: str = ""
    """For the log."""
    taken: tuple[Taken, ...] = ()
    """What is taken back by it."""
    patch: Manifest | None = None
    """JSON merge patch that goes before it, for what an apply would leave."""
    uid: str = ""
    """Of the ReplicaSet that the patch is for."""

    @property
    def name(self) -> str:
        """The ReplicaSet's."""
        return str(self.manifest["metadata"]["name"])

    @property
    def shape(self) -> str:
        """The name of its shape."""
        return str(self.manifest["metadata"]["labels"][LABEL_SHAPE])


@dataclass(frozen=True, slots=True)
class SetCost:
    """Write a pod's deletion cost; None takes it away."""

    pod: str
    replica_set: str
    cost: int | None


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Delete a ReplicaSet, this very one."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a placeholder, this very one."""

    name: str
    uid: str
    reason: RemovalReason
    """Only what is pushed out is displaced; for any other reason it is no placeholder of the plan."""
    replica_set: str = ""
    """That controls it, or has made it; '' where that is no matter."""
    cause: str = ""
    """Why it has ended."""

    @property
    def why(self) -> str:
        """The reason for the log."""
        return f"{self.reason}: {self.cause}" if self.cause else str(self.reason)


@dataclass(frozen=True, slots=True)
class Stop:
    """Have no placeholder of a PriorityClass made for some seconds: a controller makes too many."""

    priority_class: str


Action = Stop | Apply | SetCost | DeleteSet | DeletePod


@dataclass(frozen=True)
class Present:
    """What our watch shows in our namespace."""

    sets: Mapping[str, OwnReplicaSet]
    pods: Mapping[str, Pod]
    """Placeholders by name, those on their way out included."""

    def alive(self, replica_set: str) -> list[Pod]:
        """Return a ReplicaSet's pods that are not on their way out, by name."""
        return self._alive.get(replica_set, [])

    @cached_property
    def _alive(self) -> dict[str | None, list[Pod]]:
        """By ReplicaSet: each asks several times, so their pods are looked for once."""
        found: dict[str | None, list[Pod]] = {}
        for name in sorted(self.pods):
            if self.pods[name].metadata.deletion_timestamp is None:
                found.setdefault(owner_name(self.pods[name]), []).append(self.pods[name])
        return found
