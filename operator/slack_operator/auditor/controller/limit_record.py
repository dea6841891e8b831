"""The record of raised limits: a ConfigMap in the controller's namespace, with one key for each pod.

It is read once, when this process first needs it, and kept in memory from then on: only the leader writes it. Each
write is a merge patch of one pod's key, so that its cost does not grow with the record. Without a ConfigMap the record
begins with what may be taken over from annotations of an earlier release
(`slack.audit.enforcement.raised_limits.adoptable`).
Owned by the turn's thread.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from slack.audit.enforcement.raised_limits import FormerLimit, RaisedLimit, adoptable, read_former, write_former
from slack.audit.sources.pods import AuditedPodFacts
from slack.cluster.labels import LABEL_MANAGED_BY, MANAGED_BY
from slack.kube.apply import Json, Writer
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

RECORD_NAME: Final = "resource-slack-audit-former-limits"
MAX_RECORD_BYTES: Final = 900_000
"""A ConfigMap has room for 1 MiB. One container takes about 250 bytes, so this is about 3,600 of them."""
AGAIN_SECONDS: Final = 60.0
"""Between two attempts at reading the record, while a policy acts."""
IDLE_AGAIN_SECONDS: Final = 3600.0
"""The same, while every policy only reports."""
MAX_FORGOTTEN: Final = 500
"""Keys of pods that are gone, deleted with one request."""


class RecordFull(ApiError):
    """The record has no space for another pod; nothing is raised before some are gone."""

    def __init__(self) -> None:
        text = f"ConfigMap {RECORD_NAME} is full, so no further former limit can be recorded"
        super().__init__(507, "RecordFull", text)


class KnownPods(Protocol):
    """Where pods are known."""

    def pod(self, uid: str) -> AuditedPodFacts | None:
        """Return a pod by its uid."""

    def annotated(self) -> Mapping[str, str]:
        """Return by uid the annotations that an earlier release may have written."""

    def drop_annotated(self) -> None:
        """Keep such annotations no longer."""


class _Written(msgspec.Struct, frozen=True):
    """One pod's value in the ConfigMap."""

    pod: str
    """Its namespace and name, for people."""
    containers: msgspec.Raw


_VALUE = msgspec.json.Decoder(_Written)


class LimitRecord:
    """Former limits by pod uid and container."""

    def __init__(
        self,
        writer: Writer,
        namespace: str,
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._namespace = namespace
        self._may_write = may_write
        self._clock = clock
        self._former: dict[str, dict[str, FormerLimit]] = {}
        self._names: dict[str, str] = {}
        self._bytes: dict[str, int] = {}
        self._size_bytes = 0
        self._is_read = False
        self._problem: str | None = "not read yet"
        self._read_at = float("-inf")
        self._acted = False
        self._exists = False

    def read(self, pods: KnownPods, now: float, *, acting: bool) -> str | None:
        """Read the record if that was not done yet.

        Args:
            pods: where pods and their annotations are known.
            now: Unix seconds.
            acting: whether a policy would raise a limit or put one back.

        Returns:
            Why it is not known; None when it is.
        """
        again = AGAIN_SECONDS if acting and self._acted else 0.0 if acting else IDLE_AGAIN_SECONDS
        if self._is_read or self._clock() - self._read_at < again:
            return self._problem
        self._read_at, self._acted = self._clock(), acting
        try:
            self._read(pods, now, acting=acting)
        except ApiError as error:
            self._problem = f"ConfigMap {self._namespace}/{RECORD_NAME} cannot be used: {error.message}"
        return self._problem

    def _read(self, pods: KnownPods, now: float, *, acting: bool) -> None:
        for kept in (self._former, self._names, self._bytes):
            kept.clear()
        self._size_bytes = 0
        try:
            self._load(self._writer.get(self._path))
        except ApiError as error:
            if not error.not_found:
                raise
            if not acting:
                self._problem = "there is no record yet"
                return
            self._adopt(pods, now)
        pods.drop_annotated()
        self._is_read, self._problem = True, None

    def raised(self, pods: KnownPods) -> tuple[RaisedLimit, ...]:
        """Return all containers that the record names and that are there."""
        result = []
        for uid, former in self._former.items():
            pod = pods.pod(uid)
            if pod is None or pod.uid != uid:  # found by the uid that an annotation claims for its cgroup
                continue
            for name, limit in former.items():
                if (container := pod.container(name)) is not None:
                    result.append(RaisedLimit(pod, container, limit))
        return tuple(result)

    def get(self, uid: str, container: str) -> FormerLimit | None:
        """Return one container's entry."""
        return self._former.get(uid, {}).get(container)

    def put(self, pod: AuditedPodFacts, container: str, limit: FormerLimit | None) -> None:
        """Record one container's former limit; None deletes the entry.

        Raises:
            RecordFull: it has no space; the record is as it was.
            ApiError: it is refused; the record is as it was.
            NotLeading: the lease is gone.
        """
        rest = {name: kept for name, kept in self._former.get(pod.uid, {}).items() if name != container}
        entries = rest if limit is None else rest | {container: limit}
        value = _value(f"{pod.namespace}/{pod.name}", entries)
        if value is not None and self._size_with(pod.uid, value) > MAX_RECORD_BYTES:
            raise RecordFull
        self._patch({pod.uid: value})
        self._remember(pod.uid, f"{pod.namespace}/{pod.name}", entries, value)

    def forget_gone(self, pods: KnownPods) -> None:
        """Delete the keys of pods that are gone, some with each call.

        Raises:
            ApiError: it is refused; the next call tries again.
            NotLeading: the lease is gone.
        """
        known = ((uid, pods.pod(uid)) for uid in self._former)
        gone = [uid for uid, pod in known if pod is None or pod.uid != uid][:MAX_FORGOTTEN]
        if not gone:
            return
        self._patch(dict.fromkeys(gone))
        for uid in gone:
            self._remember(uid, "", {}, None)

    def __len__(self) -> int:
        """Return how many pods it has."""
        return len(self._former)

    @property
    def _path(self) -> str:
        return resource_path("v1", "configmaps", namespace=self._namespace, name=RECORD_NAME)

    def _load(self, found: Mapping[str, Any]) -> None:
        for uid, text in (found.get("data") or {}).items():
            name, entries = _entries(str(text))
            if not entries:
                log.warning("an entry of the record cannot be read and is ignored", extra=fields(pod_uid=uid))
                continue
            self._remember(uid, name, entries, str(text))
        self._exists = True

    def _adopt(self, pods: KnownPods, now: float) -> None:
        """Begin the record with what an earlier release left at pods; written with the first entry at the latest."""
        left = 0
        for uid, text in pods.annotated().items():
            pod = pods.pod(uid)
            entries = adoptable(pod, text, now) if pod is not None else {}
            if pod is None or not entries:
                continue
            name = f"{pod.namespace}/{pod.name}"
            value = _value(name, entries) or ""
            if self._size_with(uid, value) > MAX_RECORD_BYTES:
                left += 1
                continue
            self._remember(uid, name, entries, value)
        self._create()
        log.info("the record of raised limits begins", extra=fields(pods=len(self._former), left_out=left))

    def _size_with(self, uid: str, value: str) -> int:
        return self._size_bytes - self._bytes.get(uid, 0) + len(uid) + len(value)

    def _remember(self, uid: str, name: str, entries: Mapping[str, FormerLimit], value: str | None) -> None:
        self._size_bytes -= self._bytes.get(uid, 0)
        if value is None or not entries:
            for kept in (self._former, self._names, self._bytes):
                kept.pop(uid, None)
            return
        self._former[uid], self._names[uid], self._bytes[uid] = dict(entries), name, len(uid) + len(value)
        self._size_bytes += self._bytes[uid]

    def _patch(self, data: Mapping[str, str | None]) -> None:
        if not self._may_write():
            raise NotLeading
        if self._exists:
            try:
                self._writer.merge_patch(self._path, {"data": dict(data)})
            except ApiError as error:
                if not error.not_found:
                    raise
                log.warning("ConfigMap %s was deleted, and is made again from memory", RECORD_NAME)
            else:
                return
        self._create(data)

    def _create(self, data: Mapping[str, str | None] | None = None) -> None:
        """Make the ConfigMap with all that is known, and with `data` over it."""
        if not self._may_write():
            raise NotLeading
        known = {uid: _value(self._names[uid], entries) for uid, entries in self._former.items()} | dict(data or {})
        manifest: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": RECORD_NAME,
                "namespace": self._namespace,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY},
            },
            "data": {uid: value for uid, value in known.items() if value is not None},
        }
        try:
            self._writer.create(resource_path("v1", "configmaps", namespace=self._namespace), manifest)
        except ApiError as error:
            if error.conflict:  # somebody made it, or the answer to an earlier try was lost: what it has counts
                self._is_read, self._problem, self._read_at = False, "it was made meanwhile", float("-inf")
            raise
        self._exists = True


def _value(name: str, entries: Mapping[str, FormerLimit]) -> str | None:
    text = write_former(entries)
    return None if text is None else msgspec.json.encode(_Written(name, msgspec.Raw(text.encode()))).decode()


def _entries(text: str) -> tuple[str, dict[str, FormerLimit]]:
    try:
        found = _VALUE.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "", {}
    return found.pod, read_former(bytes(found.containers).decode())
