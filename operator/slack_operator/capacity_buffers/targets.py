"""What the scalableRefs of buffers have come to: replicas and template of each object, by a GET where it may be news.

Objects of the kinds that are watched anyway are read again when their watch shows a change, others every 30 s, as
Karpenter does. Owned by the thread that serves; `mark_changed` may be called by any.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from slack.capacity_buffers.api import BufferReason, CapacityBuffer, ScalableReference, ScaledTarget
from slack.capacity_buffers.plan import Unresolved
from slack.capacity_buffers.scalable_kinds import BUILT_IN_KINDS, SCALABLE_GROUPS, ScalableKind
from slack.cluster import wire
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError, decode_answer
from slack.kube.paths import resource_path

POLL_SECONDS = 30.0
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


class _Object(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Count | None = None


@dataclass(slots=True)
class _Known:
    target: ScaledTarget | Unresolved | None = None
    due: float = 0.0
    """Monotonic seconds from which it is read again; infinite where a watch tells."""


_OBJECT = msgspec.json.Decoder(_Object)


class Targets:
    """See the module's docstring."""

    def __init__(self, connection: Connection, kinds: Mapping[tuple[str, str], ScalableKind]) -> None:
        """Nothing is known yet.

        Args:
            connection: to the API server.
            kinds: by group and kind, beside those that are built in.
        """
        self._connection = connection
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
        for _, key in due:
            known = self._known[key]
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
            found = decode_answer(f"GET {path}", self._connection.request("GET", path), _OBJECT)
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
        return _target(found), None if scalable.is_watched else POLL_SECONDS


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
