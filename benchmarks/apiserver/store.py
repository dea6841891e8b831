"""What the benchmarks' API server has: a generated cluster that goes on by churn, and the few objects written to it.

Generated pods are never stored: lists and watch lines are rendered when they are asked for, so 150,000 of them cost
this process tens of MB. All versions come from one counter, as from one etcd. Whoever reads or changes holds `changed`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from benchmarks.apiserver.owners import COLLECTIONS, owners
from benchmarks.apiserver.watch_history import Happened, History, Refused
from benchmarks.generator import Churn, Json, Size, node_pages
from benchmarks.generator.pod_template import NEVER_PREEMPTING, PRIORITIES

PODS, NODES = ("v1", "pods"), ("v1", "nodes")
GENERATED = {PODS: "Pod", NODES: "Node"} | {(version, plural): kind for version, plural, kind in COLLECTIONS}
"""Kinds of generated objects by collection."""
_FINISHED = (b'"phase":"Succeeded"', b'"phase":"Failed"')

Collection = tuple[str, str]
"""apiVersion and plural."""


class Phase(Enum):
    """Which pods somebody has asked for, by a field selector."""

    ANY = "any"
    UNFINISHED = "unfinished"
    FINISHED = "finished"

    @classmethod
    def of(cls, field_selector: str) -> "Phase":
        """Read a selector; the operator has these two."""
        if "status.phase!=Succeeded" in field_selector:
            return cls.UNFINISHED
        return cls.FINISHED if "status.phase!=Running" in field_selector else cls.ANY

    def seen(self, line: bytes) -> bytes | None:
        """Return the line that such a watch gets of one about a pod; None for none."""
        if self is Phase.UNFINISHED:
            return seen_unfinished(line)
        return line if self is Phase.ANY or finished(line) else None


class Key(NamedTuple):
    """Where an object lives; namespace and name are '' where there is none."""

    api_version: str
    plural: str
    namespace: str = ""
    name: str = ""

    @property
    def collection(self) -> Collection:
        """Return what it is one of."""
        return self.api_version, self.plural

    @property
    def api_kind(self) -> bytes:
        """Return the first fields of an object of its own; items of a list lack them."""
        return f'"kind":"{GENERATED[self.collection]}","apiVersion":"{self.api_version}",'.encode()


class Store:
    """All collections.

    Usage:
        store = Store(scaled(1 / 25))
        with store.changed: store.advance(20)
    """

    def __init__(self, size: Size, seed: int = 1) -> None:
        self.changed = threading.Condition()
        self.size = size
        self.seed = seed
        self.churn = Churn(size, seed)
        self.objects: dict[Key, Json] = {}
        self.writes: dict[tuple[str, str], int] = {}
        """By verb and plural."""
        self.on_write: list[Callable[[str, Key, Json], None]] = []
        """Told of each stored write (ADDED, MODIFIED, DELETED): what controllers are."""
        self.shown = 0
        """Events that a watch of unfinished pods was to get, so far."""
        self._owned: dict[str, set[Key]] = {}
        """By uid of an owner: a garbage collector that looks through all of them costs their square."""
        self._histories: dict[Collection, History] = {}
        self._nodes: dict[Key, bytes] = {}
        for page in node_pages(size, seed):
            for item in _items(page):
                self._nodes[Key(*NODES, name=msgspec.json.decode(item, type=_Named).metadata.name)] = item
        self._node_names = [key.name for key in self._nodes]
        with self.changed:
            for name, value in PRIORITIES.items():
                if name:
                    self.put(Key("scheduling.k8s.io/v1", "priorityclasses", name=name), _priority_class(name, value))

    @property
    def version(self) -> int:
        """Return the newest resourceVersion."""
        return self.churn.version

    def history(self, collection: Collection) -> History:
        """Return a collection's events."""
        return self._histories.setdefault(collection, History())

    def advance(self, events: int) -> int:
        """Let so many things happen to generated pods; returns the version of the last."""
        history = self.history(PODS)
        for line in self.churn.lines(events):
            history.add(Happened(self.churn.version, _namespace(line), line))
            self.shown += seen_unfinished(line) is not None
        self.changed.notify_all()
        return self.churn.version

    def node_name(self, number: int) -> str:
        """Return a node's name."""
        return self._node_names[number]

    def touch_node(self, number: int, cordoned: bool) -> str:
        """Cordon a node, or not; returns its name."""
        key = Key(*NODES, name=self.node_name(number))
        node = msgspec.json.decode(self._nodes[key])
        node["spec"]["unschedulable"] = cordoned
        node["metadata"]["resourceVersion"] = str(self._next_version())
        raw = self._nodes[key] = msgspec.json.encode(node)
        self._say("MODIFIED", key, b"{" + key.api_kind + raw[1:])
        return key.name

    def items(self, key: Key, phase: Phase) -> Iterator[bytes]:
        """Yield a collection's items as of now, whatever happens while they are read."""
        stored = [
            msgspec.json.encode(body)
            for name, body in sorted(self.objects.items())
            if name.collection == key.collection and key.namespace in ("", name.namespace)
        ]
        if key.collection == NODES:
            return iter(list(self._nodes.values()))
        if key.collection == PODS:
            generated = (item for page in self.churn.pages() for item in _items(page))
            found = chain(() if key.namespace else generated, stored)
            return (item for item in found if phase is Phase.ANY or finished(item) is (phase is Phase.FINISHED))
        if key.collection in GENERATED and not key.namespace:
            return chain((item.encode("ascii") for item in owners(self.size, self.seed, key.plural)), stored)
        return iter(stored)

    def get(self, key: Key) -> Json:
        """Return one stored object.

        Raises:
            Refused: 404.
        """
        found = self.objects.get(key)
        if found is None:
            raise Refused(404, "NotFound", f"{key.plural} {key.name!r} not found")
        return found

    def put(self, key: Key, body: Json) -> Json:
        """Store an object, as it is but for what the server itself writes; what has not changed is not written."""
        old = self.objects.get(key)
        metadata = dict(body["metadata"]) | {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
        if old is not None:
            given = {name: old["metadata"][name] for name in ("uid", "creationTimestamp", "resourceVersion")}
            metadata |= given | {"generation": old["metadata"]["generation"]}
            if {**body, "metadata": metadata} == old:
                return old
            metadata["generation"] += body.get("spec") != old.get("spec")
            metadata["resourceVersion"] = str(self._next_version())
        else:
            version = self._next_version()
            metadata |= {"uid": f"00000000-0000-4000-a000-{version:012}", "resourceVersion": str(version)}
            metadata |= {"generation": 1, "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        for owner in metadata.get("ownerReferences", ()):
            self._owned.setdefault(owner["uid"], set()).add(key)
        stored = self.objects[key] = {**body, "metadata": metadata}
        self._wrote("ADDED" if old is None else "MODIFIED", key, stored)
        return stored

    def remove(self, key: Key) -> Json:
        """Delete a stored object and what it owns."""
        gone = self.get(key)
        del self.objects[key]
        version = str(self._next_version())
        self._wrote("DELETED", key, {**gone, "metadata": gone["metadata"] | {"resourceVersion": version}})
        for owner in gone["metadata"].get("ownerReferences", ()):
            self._owned.get(owner["uid"], set()).discard(key)
        for other in self.owned(gone["metadata"]["uid"]):
            self.remove(other)
        self._owned.pop(gone["metadata"]["uid"], None)
        return gone

    def owned(self, uid: str) -> list[Key]:
        """Return what an object owns, by name."""
        return [key for key in sorted(self._owned.get(uid, ())) if _has_owner(self.objects.get(key), uid)]

    def _wrote(self, event: str, key: Key, body: Json) -> None:
        self._say(event, key, json.dumps(body, separators=(",", ":")).encode())
        for told in self.on_write:
            told(event, key, body)

    def _say(self, event: str, key: Key, raw: bytes) -> None:
        self.shown += key.collection == PODS
        self.history(key.collection).add(Happened(self.version, key.namespace, line_of(event, raw)))
        self.changed.notify_all()

    def _next_version(self) -> int:
        self.churn.version += 1
        return self.churn.version


class Pace:
    """How many of so many a second are due.

    Usage:
        pace = Pace(2000.0)
        while ...: store.advance(pace.due()); time.sleep(0.01)
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self.restart()

    def restart(self) -> None:
        """Begin now."""
        self._began = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        """Return how many are due, and count them as sent."""
        count = int((time.monotonic() - self._began) * self._per_second) - self._sent
        self._sent += count
        return count


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


class _Line(msgspec.Struct):
    object: _Named


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]


_PAGES = msgspec.json.Decoder(_Page)
_LINES = msgspec.json.Decoder(_Line)


def _has_owner(body: Json | None, uid: str) -> bool:
    return body is not None and any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences", ()))


def finished(raw: bytes) -> bool:
    """Say whether a pod, or a line about one, is of a finished pod."""
    return any(text in raw for text in _FINISHED)


def line_of(event: str, raw: bytes) -> bytes:
    """Return a line of a watch about an object."""
    return b'{"type":"%s","object":%s}\n' % (event.encode(), raw)


def seen_unfinished(line: bytes) -> bytes | None:
    """Return the line that a watch of unfinished pods gets: a pod that finishes leaves it, with what it then is."""
    if not finished(line):
        return line
    return line.replace(b'"MODIFIED"', b'"DELETED"', 1) if line.startswith(b'{"type":"MODIFIED"') else None


def _priority_class(name: str, value: int) -> Json:
    policy = "Never" if name in NEVER_PREEMPTING else "PreemptLowerPriority"
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return head | {"value": value, "preemptionPolicy": policy}


def _items(page: bytes) -> Iterator[bytes]:
    return (bytes(item) for item in _PAGES.decode(page).items)


def _namespace(line: bytes) -> str:
    return _LINES.decode(line).object.metadata.namespace


def merged(old: Json, patch: Json) -> Json:
    """Return an object with a merge patch applied; near enough to server-side apply for objects with one owner."""
    out: dict[str, Any] = dict(old)
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merged(out.get(name) or {}, value) if isinstance(value, dict) else value
    return out
