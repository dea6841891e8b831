"""What the scalableRefs of buffers have come to: replicas and template of each object, by a GET where it may be news.

Objects of the kinds that are watched anyway are read again when their watch shows a change, others every 30 s, as
Karpenter does. Owned by the thread that serves; `mark_changed` may be called by any.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from slack.capacity_buffers.api import BufferReason, CapacityBuffer, ScalableReference, ScaledTarget
from slack.capacity_buffers.plan import Unresolved
from slack.capacity_buffers.scalable_kinds import BUILT_IN_KINDS, SCALABLE_GROUPS, ScalableKind
from slack.cluster import wire
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError, decode_answer
from slack.kube.paging import list_all
from slack.kube.paths import resource_path

POLL_SECONDS = 30.0
READ_SECONDS = 5.0
"""A GET waits so long at most, and a turn begins no further one after so long: a slow kind must not delay the rest."""
AGAIN_SECONDS = 2.0
"""An object that is not found, or whose GET failed, is asked for again."""
MOST_READS = 100
"""A turn."""
Key = tuple[str, str, str, str]
"""Group, kind, namespace, name."""


class _Spec(msgspec.Struct):
    replicas: int | None = None
    parallelism: int | None = None
    template: wire.PodTemplate | None = None


class _Count(msgspec.Struct):
    replicas: int | None = None
    selector: str | msgspec.Raw = ""
    """Of a Scale: a label selector as text."""


class _Object(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Count | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None
    labels: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: wire.PodSpec | None = None


@dataclass(slots=True)
class _Known:
    target: ScaledTarget | Unresolved | None = None
    due: float = 0.0
    """Monotonic seconds from which it is read again; infinite where a watch tells."""


_OBJECT = msgspec.json.Decoder(_Object)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Targets:
    """See the module's docstring."""

    def __init__(
        self,
        connection: Connection,
        kinds: Mapping[tuple[str, str], ScalableKind],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is known yet.

        Args:
            connection: to the API server.
            kinds: by group and kind, beside those that are built in.
            clock: monotonic seconds.
        """
        self._connection = connection
        self._clock = clock
        self._kinds = {**BUILT_IN_KINDS, **kinds}
        self._known: dict[Key, _Known] = {}
        self._listed: list[CapacityBuffer] = []
        """The buffers that were looked at last."""
        self._lock = threading.Lock()

    def target_of(self, buffer: CapacityBuffer) -> ScaledTarget | Unresolved | None:
        """Return what a buffer's reference has come to; None while that is not known."""
        reference = buffer.spec.scalable_ref
        if reference is None:
            return None
        key = _key(buffer.namespace, reference)
        if key[:2] not in self._kinds:
            named = f"{key[0]}/{key[1]}" if key[0] else key[1]
            text = f"kind {named} is none that may be read: name it in capacityBuffers.scalableKinds"
            return Unresolved(BufferReason.RESOLUTION_FAILED, text)
        known = self._known.get(key)
        return None if known is None else known.target

    def mark_changed(self, kind: str, namespace: str, name: str) -> bool:
        """Have an object read again if a buffer names it; return whether one does."""
        key = (SCALABLE_GROUPS.get(kind, ""), kind, namespace, name)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.due = 0.0
        return known is not None

    def refresh(self, buffers: Iterable[CapacityBuffer], now: float) -> float | None:
        """Read what is due, and forget what no buffer names; return the seconds until more is due, None for never."""
        listed = list(buffers)
        with self._lock:
            if listed != self._listed:
                self._listed = listed
                wanted = {
                    key
                    for own in listed
                    if own.spec.scalable_ref is not None
                    and (key := _key(own.namespace, own.spec.scalable_ref))[:2] in self._kinds
                }
                self._known = {key: self._known.get(key) or _Known() for key in sorted(wanted)}
            due = sorted((known.due, key) for key, known in self._known.items() if known.due <= now)[:MOST_READS]
            for _, key in due:
                self._known[key].due = float("inf")  # before it is read: a change meanwhile makes it due again
        begun = self._clock()
        for at, key in due:
            known = self._known[key]
            if self._clock() - begun >= READ_SECONDS:
                known.due = min(known.due, at)
                continue
            target, again = self._read(key)
            if target is not None:
                known.target = target
            if again is not None:
                known.due = min(known.due, now + again)
        waits = [known.due for known in self._known.values()]
        nearest = min(waits, default=float("inf"))
        return None if nearest == float("inf") else max(nearest - now, 0.0)

    def _read(self, key: Key) -> tuple[ScaledTarget | Unresolved | None, float | None]:
        """Return what an object is, None where that cannot be told, and after how long to ask again."""
        group, kind, namespace, name = key
        scalable = self._kinds[group, kind]
        path = resource_path(scalable.api_version, scalable.plural, namespace=namespace, name=name)
        path += "" if scalable.has_template else "/scale"
        try:
            answer = self._connection.request("GET", path, timeout=READ_SECONDS)
            found = decode_answer(f"GET {path}", answer, _OBJECT)
            target = _target(found) if scalable.has_template else self._target_of_scale(namespace, found)
        except ApiError as error:
            if error.not_found:
                return Unresolved(BufferReason.SCALABLE_REF_NOT_FOUND, f"there is no {kind} {namespace}/{name}"), (
                    AGAIN_SECONDS
                )
            if error.status == 403:
                return Unresolved(BufferReason.RESOLUTION_FAILED, f"{kind} {namespace}/{name}: {error.message}"), (
                    POLL_SECONDS
                )
            return None, AGAIN_SECONDS
        except KubeError:
            return None, AGAIN_SECONDS
        return target, None if scalable.is_watched else POLL_SECONDS

    def _target_of_scale(self, namespace: str, found: _Object) -> ScaledTarget:
        """Return what a Scale says; its selector finds the pods, as their owner may be another object.

        Raises:
            KubeError: when the pods cannot be listed.
        """
        target = _target(found)
        selector = found.status.selector if found.status is not None else ""
        if not isinstance(selector, str) or not selector:
            return target
        path = resource_path("v1", "pods", namespace=namespace)
        pods = list_all(self._connection, path, _Pod, label_selector=selector)
        newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp or _BEGINNING, default=None)
        if newest is None or newest.spec is None:
            return target
        replicas = target.replicas if target.observed is None else target.observed
        spec = newest.spec.detach()
        return ScaledTarget(replicas, spec, newest.metadata.labels or {}, target.observed, is_of_pod=True)


def _key(namespace: str, reference: ScalableReference) -> Key:
    group = reference.api_group
    if group == "core":
        group = ""
    return group or SCALABLE_GROUPS.get(reference.kind, ""), reference.kind, namespace, reference.name


def _target(found: _Object) -> ScaledTarget:
    spec, template = found.spec, found.spec.template
    observed = None
    if spec.parallelism is not None:
        replicas = spec.parallelism
    else:
        replicas = 1 if spec.replicas is None else spec.replicas
        observed = found.status.replicas if found.status is not None else None
    labels = (template.metadata.labels if template is not None and template.metadata is not None else None) or {}
    own = None if template is None or template.spec is None else template.spec.detach()
    return ScaledTarget(replicas, own, dict(labels), observed)
