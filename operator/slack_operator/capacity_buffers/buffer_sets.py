"""The ReplicaSets that should hold the chunks of buffers; made anew only where a buffer's plan has changed.

Owned by the thread that serves.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from slack.capacity_buffers.objects import buffer_set
from slack.capacity_buffers.plan import BufferPlan
from slack.cluster.labels import LABEL_BUFFER
from slack.cluster.wire import OwnReplicaSet
from slack.planner.model.shape import Shape
from slack.planner.policy.placeholders import Placeholders
from slack_operator.capacity_buffers.buffer_writer import BufferSet

_Known = tuple[BufferPlan, str, tuple[BufferSet, ...], tuple[Shape, ...]]
"""A plan, the uid of the owner, and what was made of both, with its shapes."""


class BufferSets:
    """See the module's docstring."""

    def __init__(self, *, namespace: str, image: str, user: int | None, extras: Placeholders) -> None:
        """Nothing is known yet.

        Args:
            namespace: the operator's own.
            image: of the pause container.
            user: that it runs as; None leaves that to image and cluster.
            extras: what the operator gives all placeholders.
        """
        self._namespace = namespace
        self._image = image
        self._user = user
        self._extras = extras
        self._known: dict[str, _Known] = {}
        """By uid of a buffer."""

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget buffers that are gone."""
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}

    def list_wanted(
        self, plans: Sequence[BufferPlan], present: Mapping[str, OwnReplicaSet], owner: Mapping[str, Any] | None
    ) -> dict[str, BufferSet]:
        """Return the ReplicaSets that should be there, by name; those of buffers that wait stay as they are.

        Args:
            plans: of all buffers.
            present: what is there, by name.
            owner: ownerReference of each.
        """
        found = {own.name: own for plan in plans if plan.parts for own in self.sets_of(plan, owner)}
        waiting = {plan.buffer.uid for plan in plans if plan.is_waiting}
        if waiting:
            for name, there in present.items():
                if there.metadata.label(LABEL_BUFFER) in waiting:
                    found[name] = BufferSet.as_found(name, there)
        return found

    def sets_of(self, plan: BufferPlan, owner: Mapping[str, Any] | None) -> tuple[BufferSet, ...]:
        """Return the ReplicaSets of one plan."""
        uid, owner_uid = plan.buffer.uid, "" if owner is None else str(owner["uid"])
        known = self._known.get(uid)
        if known is not None and known[0] is plan and known[1] == owner_uid:
            return known[2]
        made = {}
        if known is not None and known[1] == owner_uid:
            made = {shape: own.manifest for shape, own in zip(known[3], known[2], strict=True)}
        found = tuple(
            BufferSet(made.get(shape) or self._manifest(plan, shape, owner), count) for shape, count in plan.parts
        )
        self._known[uid] = (plan, owner_uid, found, tuple(shape for shape, _ in plan.parts))
        return found

    def _manifest(self, plan: BufferPlan, shape: Shape, owner: Mapping[str, Any] | None) -> dict[str, Any]:
        return buffer_set(
            plan.buffer,
            shape,
            namespace=self._namespace,
            owner=owner,
            image=self._image,
            user=self._user,
            extras=self._extras,
        )
