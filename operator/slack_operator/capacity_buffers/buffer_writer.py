"""Writes what serving comes to: ReplicaSets of chunks, and statuses of buffers; so many a turn at most, none twice.

A write that our watch has not shown yet is not repeated for `SHOWN_SECONDS`. Owned by the thread that serves.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from slack.capacity_buffers.api import PLURAL, CapacityBuffer
from slack.capacity_buffers.conditions import says_same
from slack.capacity_buffers.objects import with_count
from slack.cluster.labels import ANNOTATION_APPLIED
from slack.cluster.wire import OwnReplicaSet
from slack.kube.apply import Writer
from slack.kube.errors import WRITE_FAILURES, KubeError, is_another_object
from slack.kube.paths import resource_path
from slack.planner.objects.adoption import replicas_of
from slack_operator.runtime.write_retries import WriteRetries

log = logging.getLogger(__name__)

MOST_WRITES = 100
"""A turn."""
SHOWN_SECONDS = 5.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BufferSet:
    """A ReplicaSet that should be there."""

    manifest: Json
    """Without a count."""
    replicas: int

    @property
    def name(self) -> str:
        """Return its name."""
        name: str = self.manifest["metadata"]["name"]
        return name

    @classmethod
    def as_found(cls, name: str, found: OwnReplicaSet) -> "BufferSet":
        """Return one that is to stay as it is."""
        applied = found.metadata.annotation(ANNOTATION_APPLIED)
        return cls({"metadata": {"name": name, "annotations": {ANNOTATION_APPLIED: applied}}}, replicas_of(found))


class BufferWriter:
    """See the module's docstring."""

    def __init__(
        self, writer: Writer, *, namespace: str, may_write: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._namespace = namespace
        self._may_write = may_write
        self._clock = clock
        self._retries = WriteRetries(clock)
        self._left = MOST_WRITES
        self._written: dict[str, tuple[object, float]] = {}
        """By ReplicaSet or uid of a buffer: what was written last, and when."""
        self._in_order: dict[str, tuple[OwnReplicaSet, BufferSet]] = {}
        """By name: what is there as it should be, and what should."""
        self.is_behind = False
        """Whether more is to be written than a turn may, or after what it has written."""
        self.writes = 0

    def begin_turn(self) -> None:
        """Another turn may write as much again."""
        self._left, self.is_behind = MOST_WRITES, False

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget what is gone."""
        self._written = {key: value for key, value in self._written.items() if key in keys}
        self._retries.keep_only(keys)

    def carry_out(self, present: Mapping[str, OwnReplicaSet], wanted: Mapping[str, BufferSet]) -> None:
        """Make the ReplicaSets what is wanted: what is not is deleted first, then counts fall, then they rise.

        One that is not wanted gets the count 0 before it is deleted: its controller deletes pods sooner than the
        garbage collector, and another server may hold the same chunks by then.
        """
        unwanted = [present[name] for name in sorted(present.keys() - wanted.keys())]
        going = [own for own in unwanted if own.metadata.deletion_timestamp is None]
        for found in going:
            if replicas_of(found):
                self._empty(found.metadata.name, found.metadata.uid or "")
                self.is_behind = True
        for found in going:
            if not replicas_of(found):
                self._delete(found.metadata.name, found.metadata.uid or "")
        changes = []
        in_order: dict[str, tuple[OwnReplicaSet, BufferSet]] = {}
        for name, own in wanted.items():
            there = present.get(name)
            last = self._in_order.get(name)
            if there is not None and last is not None and last[0] is there and last[1] is own:
                in_order[name] = last
                continue
            before = 0 if there is None else replicas_of(there)
            if there is None or before != own.replicas or _is_changed(there, own.manifest):
                changes.append((own.replicas - before, name))
            else:
                in_order[name] = (there, own)
        self._in_order = in_order
        for _, name in sorted(changes):
            self._apply(wanted[name])

    def _empty(self, name: str, uid: str) -> None:
        path = resource_path("apps/v1", "replicasets", namespace=self._namespace, name=name)
        body = {"metadata": {"uid": uid}, "spec": {"replicas": 0}}
        self._write(name, ("empty", uid), lambda: self._writer.merge_patch(path, body))

    def _delete(self, name: str, uid: str) -> None:
        path = resource_path("apps/v1", "replicasets", namespace=self._namespace, name=name)
        self._write(name, ("delete", uid), lambda: self._writer.delete(path, uid=uid))

    def _apply(self, own: BufferSet) -> None:
        path = resource_path("apps/v1", "replicasets", namespace=self._namespace, name=own.name)
        manifest = with_count(own.manifest, own.replicas)
        mark = (own.manifest["metadata"]["annotations"][ANNOTATION_APPLIED], own.replicas)
        self._write(own.name, mark, lambda: self._writer.apply(path, manifest, force=True))

    def write_status(self, buffer: CapacityBuffer, api_version: str, status: Json) -> bool:
        """Write a status, unless it says so already; return whether it was written."""
        if says_same(buffer.status, status):
            return False
        name, uid = buffer.metadata.name, buffer.uid
        path = resource_path(api_version, PLURAL, namespace=buffer.namespace, name=name) + "/status"
        body = {"metadata": {"uid": uid}, "status": status}
        mark = {**status, "conditions": [_plain(each) for each in status.get("conditions", ())]}
        return self._write(uid, mark, lambda: self._writer.merge_patch(path, body))

    @staticmethod
    def is_told(buffer: CapacityBuffer, status: Json) -> bool:
        """Say whether a buffer was seen with this status."""
        return says_same(buffer.status, status)

    def _write(self, key: str, mark: object, write: Callable[[], object]) -> bool:
        now = self._clock()
        last = self._written.get(key)
        if (last is not None and last[0] == mark and now - last[1] < SHOWN_SECONDS) or self._retries.wait_seconds(key):
            return False
        if self._left <= 0 or not self._may_write():
            self.is_behind = True
            return False
        self._left -= 1
        self.writes += 1
        try:
            write()
        except WRITE_FAILURES as error:
            self._retries.failed(key, error)
            if not is_another_object(error) and isinstance(error, KubeError):
                log.warning("not written for a CapacityBuffer: %s", error)
            return False
        self._retries.succeeded(key)
        self._written[key] = (mark, now)
        return True


def _plain(condition: Mapping[str, Any]) -> Json:
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


def _is_changed(found: OwnReplicaSet, manifest: Json) -> bool:
    applied = str(manifest["metadata"]["annotations"][ANNOTATION_APPLIED])
    return found.metadata.annotation(ANNOTATION_APPLIED) != applied
