"""The policies that are wanted now, as far as the API server has told: one entry an object, good or bad.

Fed from kopf's thread (events) and from the policy source's thread (lists), read by the planning loop. Every answer is
an immutable tuple. A list that events overtook is refused, so nothing deleted comes back. A list that is taken is
right, whatever was known before: a restored etcd has earlier generations of the same objects. An object that cannot be
decoded is kept as it was last known, beside the reason.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from slack.kube.object_names import ObjectName
from slack.kube.watch import Undecodable
from slack.schema.documents import InvalidDocument

Document = Mapping[str, Any]
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Parse(Protocol[P_co]):
    """Reads a document of one kind; raises `InvalidDocument`."""

    def __call__(self, document: object, *, source: str) -> P_co:
        """Return the typed policy."""


@dataclass(frozen=True)  # with slots, calling the alias of a generic class fails in Python 3.11
class Entry(Generic[P]):
    """One policy object."""

    name: str
    uid: str
    generation: int
    policy: P | None
    """Its spec; the last good one while the present one is bad, None when there never was a good one."""
    problems: tuple[str, ...]
    """Why the present spec cannot be used, each with the field's path."""
    status: Mapping[str, Any]
    """As last seen, which is what a restarted operator goes on from."""
    policy_generation: int = 0
    """The generation that `policy` is of; not `generation` while the present spec cannot be used."""
    namespace: str = ""
    """Empty for kinds that are in none."""


class Desired(Generic[P]):
    """The map from namespaces and names to entries, of one kind."""

    def __init__(self, on_change: Callable[[], None], parse: Parse[P], source: str) -> None:
        """Nothing is known yet.

        Args:
            on_change: called when something changed that matters to whoever acts on policies.
            parse: reads one document.
            source: what to call the kind in complaints: `slackpolicy`.
        """
        self._on_change = on_change
        self._parse = parse
        self._source = source
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Entry[P]] = {}
        self._specs: dict[tuple[str, str], bytes] = {}
        """Digests of the specs that the entries were made of."""
        self._events = 0
        self._synced = False
        self.changed_by_list = False
        """Whether the last list had something that no event had told."""

    @property
    def synced(self) -> bool:
        """Whether a whole list has been seen: before that, an empty map means nothing."""
        return self._synced

    @property
    def events(self) -> int:
        """How many events have come; taken before a list, it tells whether the list was overtaken."""
        return self._events

    def entries(self) -> tuple[Entry[P], ...]:
        """Return all entries, sorted by namespace and name."""
        with self._lock:
            return tuple(self._entries[place] for place in sorted(self._entries))

    def apply(self, document: Document) -> None:
        """Take one object as an event has it; one that is being deleted is gone already."""
        if document.get("metadata", {}).get("deletionTimestamp"):
            self.drop(document)
            return
        with self._lock:
            self._events += 1
            changed = self._put(document)
        if changed:
            self._on_change()

    def drop(self, document: Document) -> None:
        """Forget one object, unless another of its name has come since."""
        metadata = document.get("metadata", {})
        with self._lock:
            self._events += 1
            known = self._entries.get(_place(metadata))
            gone = known is not None and known.uid == str(metadata.get("uid") or "")
            if known is not None and gone:
                self._forget((known.namespace, known.name))
        if gone:
            self._on_change()

    def replace_all(
        self, documents: Iterable[Document], *, events_before: int, unreadable: Sequence[Undecodable] = ()
    ) -> bool:
        """Take a whole list.

        Args:
            documents: every object there is that can be decoded.
            unreadable: those that cannot.
            events_before: `events` as it was before the list was asked for.

        Returns:
            False, and nothing changes, when an event came meanwhile: list again.
        """
        with self._lock:
            if self._events != events_before:
                return False
            alive = [document for document in documents if not document.get("metadata", {}).get("deletionTimestamp")]
            places = {_place(document.get("metadata", {})) for document in alive}
            places |= {(bad.who.namespace, bad.who.name) for bad in unreadable}
            gone = set(self._entries) - places
            changed = not self._synced or bool(gone)
            for place in gone:
                self._forget(place)
            for document in alive:
                changed |= self._put(document, listed=True)
            for bad in unreadable:
                changed |= bad.who.known and self._put_unreadable(bad.who, bad.why)
            self._synced = True
            self.changed_by_list = changed
        if changed:
            self._on_change()
        return True

    def _forget(self, place: tuple[str, str]) -> None:
        del self._entries[place]
        self._specs.pop(place, None)

    def _put_unreadable(self, who: ObjectName, why: str) -> bool:
        """Keep an object that cannot be decoded as it was last known; True when that is new."""
        place = who.namespace, who.name
        known = self._entries.get(place)
        if known is None or known.uid != who.uid:
            known = Entry(who.name, who.uid, who.generation, None, (), MappingProxyType({}), 0, who.namespace)
        entry = replace(known, generation=who.generation, problems=(f"the object cannot be read: {why}",))
        changed = entry != self._entries.get(place)
        self._entries[place] = entry
        self._specs.pop(place, None)
        return changed

    def _put(self, document: Document, *, listed: bool = False) -> bool:
        """Store one object; True when something that the plan depends on is new."""
        metadata = document.get("metadata", {})
        place, uid = _place(metadata), str(metadata.get("uid") or "")
        namespace, name = place
        known = self._entries.get(place)
        if known is not None and known.uid != uid:
            known = None  # another object of the same name: nothing of the old one counts
        status = MappingProxyType(dict(document.get("status") or {}))
        generation = int(metadata.get("generation") or 0)
        if known is not None and generation < known.generation and not listed:
            return False  # an old event behind a newer list
        digest = _digest(document.get("spec"))
        if known is not None and known.generation == generation and self._specs.get(place) == digest:
            self._entries[place] = replace(known, status=status)  # our own status write came back
            return False
        policy = known.policy if known is not None else None
        problems: tuple[str, ...] = ()
        good = known.policy_generation if known is not None else 0
        try:
            policy, good = (
                self._parse(document, source=f"{self._source}/{namespace + '/' if namespace else ''}{name}"),
                generation,
            )
        except InvalidDocument as error:
            problems = error.problems
        except RecursionError:
            problems = ("spec: it is nested too deeply",)
        self._specs[place] = digest
        self._entries[place] = Entry(name, uid, generation, policy, problems, status, good, namespace)
        return True


def _digest(spec: object) -> bytes:
    """Return what tells one spec from another; the same for all that are nested too deeply."""
    try:
        return hashlib.blake2b(msgspec.json.encode(spec), digest_size=16).digest()
    except RecursionError:
        return b""


def _place(metadata: Document) -> tuple[str, str]:
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
