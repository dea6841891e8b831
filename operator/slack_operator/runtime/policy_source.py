"""Policy objects from the API server into `Desired`: kopf's watch, and a plain list every 15 s behind it.

The list is there because a kopf watcher can die while the process lives (nolar/kopf#1145), because kopf has no "the
list is whole" signal, and because a list is what tells that the CRD is absent; kopf starts when the CRD appears. What
cannot be listed is told once an outage, and so is its end.

An object that cannot be decoded is left out and named; kopf ends for such an object, so that only lists are made while
it is there. A collection that is not found is trouble, and no empty list, unless discovery says that the API server has
its kind in no version: for half a minute where nothing was known, for ten minutes where there were objects that no
event has deleted.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from slack.kube.connection import Connection
from slack.kube.discovery import CONFIRM_SECONDS, GONE_SECONDS, is_served
from slack.kube.errors import ApiError, KubeError
from slack.kube.paging import list_all
from slack.kube.unreadable import UnreadableObjects
from slack.kube.watch import Undecodable
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind, KopfWatch

log = logging.getLogger(__name__)

LIST_SECONDS = 15.0
FIRST_SECONDS = 1.0
"""From the first list to the second one, after which kopf begins. To load it takes as much of a core as the first plan,
which would come later."""
ABSENT_SECONDS = 10.0
"""How soon a CRD that was installed later is found."""
ERROR_SECONDS = 2.0
LIST_LIMIT_SECONDS = 120.0
"""A list that takes longer counts as stuck."""
STALE_SECONDS = 60.0
"""After so long without a list, what is known may not be what people want now."""
UNWATCHED_SECONDS = 5.0
"""Between two lists while there is an object that ends kopf's watch, so that no event comes."""


class PolicySource:
    """Keeps `desired` equal to the objects of a kind, from two threads: the lister and kopf's."""

    def __init__(
        self,
        connection: Connection,
        desired: Desired[Any],
        kind: Kind,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kind = kind
        self._clock = clock
        self._absent_since: float | None = None
        self._listed_at: float | None = None
        self._connection = connection
        self._desired = desired
        self._stopping = threading.Event()
        self._absence_said = False
        heart = Heartbeat(f"the thread that lists {kind.plural}", LIST_LIMIT_SECONDS)
        self._lister = SupervisedThread(self._run, name="policies", heart=heart)
        self._watch = KopfWatch(connection, desired, kind)
        self._outages = Outages(clock)
        self._endings = Outages(clock)
        self._unreadable = UnreadableObjects(kind.paths[0])

    def start(self) -> None:
        """Begin to list; kopf follows when there is a CRD to watch and the first plan is probably made."""
        self._lister.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End both threads."""
        self._stopping.set()
        self._lister.join(timeout)
        self._watch.stop(timeout)

    def unhealthy(self) -> str | None:
        """Return why policies are no longer followed; the lister restarts kopf, and is the one that must live."""
        return self._lister.unhealthy()

    def stale(self) -> str | None:
        """Say why what is known may be out of date; None while lists are made."""
        listed_at = self._listed_at
        if listed_at is None:
            return f"{self._kind.plural} are not listed yet"
        if self._clock() - listed_at > STALE_SECONDS:
            return f"{self._kind.plural} have not been listed for more than {STALE_SECONDS:.0f} s"
        return None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._lister.heart.beat()
            until = self._clock() + self.reconcile()
            while (left := until - self._clock()) > 0 and not self._stopping.wait(min(left, ERROR_SECONDS)):
                self._lister.heart.beat()
                if self._watch.died:
                    break  # its events are missed from here on: list at once

    def unreadable(self) -> Mapping[str, Iterable[str]]:
        """Return the names of objects that are there and cannot be read, by path."""
        return {self._kind.paths[0]: self._unreadable.names}

    def reconcile(self) -> float:
        """List once and look after kopf; returns the seconds until the next time."""
        before, bad = self._desired.events, list[Undecodable]()
        try:
            documents = self._list(bad.append)
        except ApiError as error:
            return self._absent(error) if error.not_found else self._troubled(error)
        except (KubeError, msgspec.DecodeError) as error:
            return self._troubled(error)
        self._name(bad)
        self._absence_said, self._absent_since = False, None
        if self._outages.end():
            log.info("%s are listed again", self._kind.plural)
        self._watch.log.well()
        taken, is_first = (
            self._desired.replace_all(documents, events_before=before, unreadable=bad),
            self._listed_at is None,
        )
        self._listed_at = self._clock() if taken else self._listed_at
        if bad:
            self._watch.stop()
            return UNWATCHED_SECONDS if taken else 0.1
        if taken and is_first:
            return FIRST_SECONDS
        if taken and self._desired.changed_by_list and self._watch.alive:
            # seen with 1.45.2: after a 404 its watcher is dead and the operator goes on
            log.warning("kopf has missed a change of %s; starting it again", self._kind.plural)
            self._watch.stop(ERROR_SECONDS)
        self._watch_with_kopf()
        return LIST_SECONDS if taken else 0.1

    def _absent(self, error: ApiError) -> float:
        """The collection is not found."""
        now = self._clock()
        if self._absent_since is None:
            self._absent_since = now
        if is_served(self._connection, self._kind.paths[0]) is not False:
            self._absent_since = None  # without an answer nothing is known
            return self._troubled(error)
        known = bool(self._desired.entries())
        if now - self._absent_since < (GONE_SECONDS if known else CONFIRM_SECONDS):
            return self._troubled(error) if known else ERROR_SECONDS
        if not self._absence_said:
            self._absence_said = True
            log.info("%s", self._kind.without)
        self._watch.stop()
        taken = self._desired.replace_all((), events_before=self._desired.events)
        self._listed_at = now if taken else self._listed_at
        return ABSENT_SECONDS if taken else 0.1

    def _name(self, bad: Sequence[Undecodable]) -> None:
        self._unreadable.begin()
        for each in bad:
            self._unreadable.add_object(each)
        self._unreadable.end()

    def _troubled(self, error: Exception) -> float:
        if self._outages.is_new("list"):
            log.warning("%s cannot be listed: %s", self._kind.plural, error)
        return ERROR_SECONDS

    def _list(self, leave_out: Callable[[Undecodable], None]) -> list[dict[str, Any]]:
        # items of a list carry neither apiVersion nor kind
        ours = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        found = (list_all(self._connection, path, dict[str, Any], leave_out=leave_out) for path in self._kind.paths)
        return [ours | item for items in found for item in items]

    def _watch_with_kopf(self) -> None:
        if self._stopping.is_set() or self._watch.alive:
            return
        if self._watch.died and self._endings.is_new("ended"):
            log.warning("kopf's watcher of %s had ended; it is started again each time", self._kind.plural)
        self._watch.start()


class PolicySources:
    """Several kinds of one process, each with its own source; started and stopped together."""

    def __init__(self, *sources: PolicySource) -> None:
        self._sources = sources

    def start(self) -> None:
        """Begin to list all."""
        for source in self._sources:
            source.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End all threads."""
        for source in self._sources:
            source.stop(timeout)

    def unreadable(self) -> Mapping[str, Iterable[str]]:
        """Return the names of objects that are there and cannot be read, by path."""
        return {path: names for source in self._sources for path, names in source.unreadable().items()}

    def unhealthy(self) -> str | None:
        """Return which kind is no longer followed; None if all are."""
        return first_problem(*self._sources)
