"""Extended resources that device claims serve (KEP-5004): the scheduler makes the claim, no node offers the resource.

A pod for which there is such a claim says so in its status. What one pod says of a name holds for all: pods that still
wait, and templates, request the same resource. Used by `SnapshotBuilder`.
"""

from collections.abc import Mapping, Sequence

from slack.cluster.snapshot import Amounts
from slack.cluster.unchecked import Unchecked

BY_CLASS_NAME = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass: a resource of this name is served by a claim, and never offered by a node."""


class Claims:
    """Which resources claims serve, for the kinds of one cluster."""

    def __init__(self, by_kind: Mapping[int, tuple[str, ...]], ids: Sequence[int]) -> None:
        """Take what kinds say.

        Args:
            by_kind: by id of a kind, the resources that claims serve for its pods; few kinds have any.
            ids: [K] of all kinds.
        """
        self._names = frozenset(name for names in by_kind.values() for name in names)
        self._own = [row for row, index in enumerate(ids) if index in by_kind] if by_kind else []

    def without(self, unoffered: Amounts) -> Amounts:
        """Return what pods request of resources that no node has, less what claims serve."""
        if not unoffered:
            return unoffered
        return tuple(pair for pair in unoffered if not self._serve(pair[0]))

    def left(self, unoffered: tuple[Amounts, ...]) -> tuple[Amounts, ...]:
        """[K] the same for all kinds."""
        return tuple(map(self.without, unoffered)) if any(unoffered) else unoffered

    def unchecked(
        self, unchecked: tuple[tuple[Unchecked, ...], ...], unoffered: tuple[Amounts, ...]
    ) -> tuple[tuple[Unchecked, ...], ...]:
        """[K] what no plan checks of pods, with the devices that claims serve.

        Args:
            unchecked: [K] what pods' specs say.
            unoffered: [K] what pods request of resources that no node has, with what claims serve.
        """
        rows = {*self._own, *(row for row, own in enumerate(unoffered) if own and self.without(own) != own)}
        if not rows:
            return unchecked
        found = list(unchecked)
        for row in rows:
            found[row] = (Unchecked.CLAIMED_RESOURCES, *found[row])
        return tuple(found)

    def _serve(self, name: str) -> bool:
        return name in self._names or name.startswith(BY_CLASS_NAME)
