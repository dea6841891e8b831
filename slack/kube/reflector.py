"""A live copy of one collection in somebody's sink: WatchList first, paged LIST where it is refused, then watch.

Without a resourceVersion the reflector syncs (`begin`, every object, `end`), with one it watches from there.
Only the sink's caller matters for locking: one thread, the reflector's, calls it. It never gives up; a server that is
gone for hours is asked at the back-off's pace, and the sink keeps what it knew.
Rules that were found on a real API server: 410 comes inside an HTTP 200; versions of initial events are no resume
point; quiet watches get a bookmark after 121 s, so silence of 180 s means a dead connection.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from slack.kube.connection import CONNECT_SECONDS, Connection, Stream
from slack.kube.discovery import CONFIRM_SECONDS, GONE_SECONDS, is_served
from slack.kube.errors import ApiError, KubeError, QuietStream, Unreachable
from slack.kube.paging import PAGE_SIZE, PageDecoder, Query, pages
from slack.kube.retry import RetryBackoff, is_transient
from slack.kube.sink import KeepingSink, ReflectorCounters, Sink
from slack.kube.unreadable import UnreadableObjects
from slack.kube.watch import MAX_LINE_BYTES, Bookmark, EventType, Undecodable, WatchDecoder
from slack.kube.watch_stream import GATHER_SECONDS, MOST_GATHER_SECONDS, WatchStream
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S", Stream, WatchStream)

IDLE_SECONDS = 180.0
STUCK_SECONDS = 120.0  # beyond that silence: connecting, and what the sink does with a batch
BATCH_EVENTS = 500
BATCH_BYTES = 4 * 1024 * 1024
"""Initial events that wait for the sink hold the lines that they came in."""
PAGE_TRIES = 5
SILENT_STREAMS = 2  # then the server may be waiting for a version that never comes (the same restored backup)
ABSENT_SECONDS = 30.0  # a kind whose CRD may be installed later is asked for again
CONFIRM_PAUSE_SECONDS = 3.0
TOO_LARGE_TRIES = 5  # then the version is from another life of etcd (a restored backup): list again


class Reflector(Generic[T]):
    """Keeps `sink` equal to one collection, in a daemon thread of its own.

    >>> pods = Reflector(connection, "/api/v1/pods", Pod, sink)  # doctest: +SKIP
    >>> pods.start()                                             # doctest: +SKIP
    """

    def __init__(
        self,
        connection: Connection,
        path: str,
        item_type: type[T],
        sink: Sink[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        idle_seconds: float = IDLE_SECONDS,
        max_line_bytes: int = MAX_LINE_BYTES,
        watch_list: bool = True,
        may_be_absent: bool = False,
        rng: random.Random | None = None,
        backoff: RetryBackoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.counters = ReflectorCounters()
        self.unreadable = UnreadableObjects(path)
        self.last_error: str | None = None
        self.forbidden = False
        """Whether the last answer was that we may not ask."""
        self.absent = False
        """Whether the last answer was that there is no such kind, of one that may be absent: nothing to wait for."""
        self._connection = connection
        self._sink = sink
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._page_size = page_size
        self._idle_seconds = idle_seconds
        self._timeout = (CONNECT_SECONDS, idle_seconds)
        self._rng = rng or random.Random()
        self._backoff = backoff or RetryBackoff(rng=self._rng)
        self._clock = clock
        self._decoder = WatchDecoder(item_type, max_line_bytes)
        self._pages = PageDecoder(item_type)
        self._watch_list_works = watch_list
        self._may_be_absent = may_be_absent
        self._watch_lists_cut_short = 0
        self._knows_objects = False
        """Whether a list has ended since the kind was last known to be absent."""
        self._absent_since: float | None = None
        self._version = ""
        self._synced = threading.Event()
        self._heard_at = -math.inf
        # counts syncs that a watch's failure forced; progress of the sync itself does not reset it
        self._resync = RetryBackoff(self._backoff.first_seconds, self._backoff.max_seconds, self._rng)
        self._too_large_in_a_row = 0
        self._silent_in_a_row = 0
        self._stopping = threading.Event()
        self._stream_lock = threading.Lock()
        self._stream: Stream | WatchStream | None = None
        heart = Heartbeat(f"reflector {path}", idle_seconds + STUCK_SECONDS)
        self._thread = SupervisedThread(self.run, name=f"reflector {path}", heart=heart)

    @property
    def synced(self) -> bool:
        """The sink is complete. False before the first sync and from a 410 until the next sync ended."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """Where the watch stood when its stream last began or ended; empty while a sync is due."""
        return self._version

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Block until `synced`; False when the time ran out."""
        return self._synced.wait(timeout)

    def last_heard_age(self, now: float) -> float:
        """Seconds since the last event, bookmark or list page, by the monotonic clock; infinite before the first."""
        return now - self._heard_at

    def start(self) -> None:
        """Run in a daemon thread."""
        self._thread.start()

    def unhealthy(self) -> str | None:
        """Return why nothing is followed any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def stop(self, timeout: float = 2.0) -> None:
        """End the stream and the thread at once, from another thread; safe to call twice.

        A thread that still waits for an answer's first byte is left behind; it is a daemon and touches no sink.
        """
        self._stopping.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.abort()
        self._thread.join(timeout)

    def run(self) -> None:
        """Sync and watch until `stop`. Returns only then."""
        heart = self._thread.heart
        while not self._stopping.is_set():
            heart.beat()
            seconds = self._sync_or_watch()
            if seconds > 0:
                heart.rest(self._stopping, seconds)

    def _sync_or_watch(self) -> float:
        """One list or one stream; how many seconds to wait before the next."""
        try:
            if self._version:
                self._watch()
            elif self._watch_list_works:
                self._watch_list()
            else:
                self._list()
        except ApiError as error:
            return self._after_refusal(error)
        except QuietStream as error:
            if not self._version:  # the first answer is incomplete
                return self._after_error(error)
            # no error: whether the server is there shows the next request
            log.info("reflector %s: quiet for %.0f s, opened again", self.path, self._idle_seconds)
            self._after_silence()
        except Unreachable as error:
            if error.timed_out:
                self._after_silence()
            return self._after_error(error)
        except (KubeError, msgspec.DecodeError) as error:
            self._forget()
            return self._after_error(error, self._resync.next_seconds())
        except Exception as error:
            # a sink that raised may hold half a batch: only a sync makes it whole
            log.exception("reflector %s: the sink failed, syncing again", self.path)
            self._forget()
            return self._after_error(error, self._resync.next_seconds())
        return 0.0

    def _after_refusal(self, error: ApiError) -> float:
        if error.expired:
            self.counters.expired += 1
            self._forget()
            seconds = self._resync.next_seconds()
            # not our fault and cured by the list, so no pause; but a server that says so of what it gave just now
            # would be listed without end
            return 0.0 if self._resync.failures < 3 else seconds
        if error.status in (400, 422) and not self._version and self._watch_list_works:
            log.info("reflector %s: no WatchList here (%s), listing in pages", self.path, error.status)
            self._watch_list_works = False
            return 0.0
        if error.not_found and self._may_be_absent and (pause := self._wait_absent()) is not None:
            return pause
        if error.too_large_version:
            self._too_large_in_a_row += 1
            if self._too_large_in_a_row >= TOO_LARGE_TRIES:
                self._too_large_in_a_row = 0
                self._forget()
        return self._after_error(error, error.retry_after_seconds)

    def _wait_absent(self) -> float | None:
        """Return for how long a kind that the server knows in no version is not asked for; None if it may be served.

        A version that is served no more, and discovery without an answer, are trouble: what is there is not known.
        What was known and no event has deleted stays for ten minutes. Where nothing was known the collection is empty
        after half a minute.
        """
        if is_served(self._connection, self.path) is not False:
            self._absent_since, self.absent = None, False
            return None
        now = self._clock()
        self._absent_since = now if self._absent_since is None else self._absent_since
        self._forget()
        seconds = now - self._absent_since
        if self._knows_objects and seconds < GONE_SECONDS:
            self.absent = True
            log.warning("reflector %s: the kind is not served any more; what is known of it is kept", self.path)
            return ABSENT_SECONDS
        if not self._knows_objects and not self.absent and seconds < CONFIRM_SECONDS:
            self.last_error = f"the API server does not serve it; after {CONFIRM_SECONDS:.0f} s it counts as absent"
            return CONFIRM_PAUSE_SECONDS
        self.absent = True
        self.last_error = None
        self._knows_objects = False
        self._sink.begin()
        self._sink.end()
        return ABSENT_SECONDS

    def _after_error(self, error: Exception, at_least: float | None = None) -> float:
        if self._stopping.is_set():
            return 0.0  # our own abort
        self.counters.errors += 1
        self.last_error = str(error)
        self.forbidden = isinstance(error, ApiError) and error.status in (401, 403)
        seconds = self._backoff.next_seconds(at_least)
        log.warning("reflector %s: %s; again in %.1f s", self.path, error, seconds)
        return seconds

    def _after_silence(self) -> None:
        """Count streams that said nothing.

        A watch from a version that lies in the future is accepted and gets neither events nor bookmarks, nor a 504
        (seen on 1.36.3), so waiting would be for ever.
        """
        self.counters.idle_timeouts += 1
        self._silent_in_a_row += 1
        if self._silent_in_a_row >= SILENT_STREAMS:
            self._silent_in_a_row = 0
            self._forget()

    def _forget(self) -> None:
        self._version = ""
        self._synced.clear()

    def _heard(self) -> None:
        self._thread.heart.beat()
        self._heard_at, self.forbidden, self.absent, self._absent_since = self._clock(), False, False, None
        self._silent_in_a_row = 0
        self._backoff.reset()

    def _lives(self) -> None:
        """The watch brought something after its sync: what forced the last one is over."""
        self._resync.reset()
        self._too_large_in_a_row = 0

    def _begin(self) -> None:
        self._sink.begin()
        self.unreadable.begin()

    def _done(self, version: str) -> None:
        self._sink.end()
        self.unreadable.end()
        self._version = version
        self.last_error = None
        self._knows_objects = True
        self._synced.set()

    def _open_watch(self, query: Query) -> WatchStream:
        return self._keep_stream(
            self._connection.watch(self.path, query=self._selectors | query, timeout=self._timeout)
        )

    def _open_list(self, query: Query) -> Stream:
        query = self._selectors | query
        return self._keep_stream(
            self._connection.stream(self.path, query=query, timeout=self._timeout, verb="list", gzip=True)
        )

    def _keep_stream(self, stream: S) -> S:
        """Keep a stream where `stop` finds it."""
        with self._stream_lock:
            self._stream = stream
        if self._stopping.is_set():  # `stop` came before there was a stream to abort
            stream.abort()
        return stream

    def _list(self) -> None:
        self.counters.lists += 1
        begun = False
        for page in pages(self._page, self._pages.decode, self._page_size):
            if not page.resource_version:
                raise Unreachable(f"list {self.path}: no resourceVersion in the answer")
            if not begun:
                self._begin()
                begun = True
            self._heard()
            for bad in page.undecodable:
                self._skip(bad, syncing=True)
            self._flush([(EventType.ADDED, item) for item in page.items])
            if page.token is None:
                self._done(page.resource_version)

    def _page(self, query: Query, most_bytes: int) -> bytes | None:
        """One page, None when stopping; a hiccup in the middle of 300 pages costs that page, not the list."""
        for left in reversed(range(PAGE_TRIES)):
            try:
                with self._open_list(query) as stream:
                    body = stream.read(most_bytes)
                return None if self._stopping.is_set() else body  # which may be cut short
            except (ApiError, Unreachable) as error:
                if not query["continue"] or left == 0 or not is_transient(error) or self._stopping.is_set():
                    raise
                at_least = error.retry_after_seconds if isinstance(error, ApiError) else None
                self._thread.heart.rest(self._stopping, self._after_error(error, at_least))
        raise AssertionError("unreachable")

    def _watch_list(self) -> None:
        self.counters.watchlists += 1
        query: Query = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}
        try:
            self._consume(query, syncing=True)
        except ApiError as error:
            if not error.without_cache or any(self._selectors.values()):
                raise
            self._list()  # at once: the server lists from etcd what it cannot watch for a second

    def _watch(self) -> None:
        self.counters.watches += 1
        self._consume({"resourceVersion": self._version}, syncing=False)

    def _consume(self, query: Query, *, syncing: bool) -> None:
        query |= {"watch": 1, "allowWatchBookmarks": True, "timeoutSeconds": self._rng.randint(300, 600)}
        self._decoder.reset(self._version)
        began = self._clock()
        heard = False
        with self._open_watch(query) as stream:
            if syncing and not self._stopping.is_set():
                self._begin()
                stream.most_gather_seconds = GATHER_SECONDS
            pending: list[tuple[EventType, T]] = []
            pending_bytes = 0
            try:
                for chunk in stream.chunks():
                    if self._stopping.is_set():
                        return
                    self._thread.heart.beat()
                    pending_bytes += len(chunk)
                    for item in self._decoder.feed(chunk):
                        if isinstance(item, tuple):
                            pending.append(item)
                        elif isinstance(item, Undecodable):
                            self._flush(pending)
                            self._skip(item, syncing=syncing)
                        elif isinstance(item, Bookmark):
                            heard = True
                            self._heard()
                            if not syncing:
                                self._lives()
                            elif item.initial_events_end:
                                self._flush(pending)
                                syncing = False
                                self._watch_lists_cut_short = 0
                                stream.most_gather_seconds = MOST_GATHER_SECONDS
                                self._done(item.resource_version)
                        else:
                            self._flush(pending)
                            raise item
                    if pending and (not syncing or len(pending) >= BATCH_EVENTS or pending_bytes >= BATCH_BYTES):
                        heard = True
                        self._flush(pending)
                        pending_bytes = 0
                        if not syncing:
                            self._lives()
            finally:
                if not syncing:
                    self._version = self._decoder.resource_version
        self._after_end(syncing=syncing, empty=not heard and self._clock() - began < 1.0)

    def _after_end(self, *, syncing: bool, empty: bool) -> None:
        """The server ended the stream: as announced by timeoutSeconds, or for reasons of its own."""
        if syncing and not self._stopping.is_set():
            self._watch_lists_cut_short += 1
            if self._watch_lists_cut_short >= 2:  # takes the parameters and knows no initial events
                self._watch_list_works = False
            raise Unreachable(f"watch {self.path}: ended before the initial events were complete")
        if empty:
            raise Unreachable(f"watch {self.path}: ended at once without an event")

    def _flush(self, pending: list[tuple[EventType, T]]) -> None:
        if pending:
            self._heard()
            self.counters.events += len(pending)
            self._sink.apply(tuple(pending))
            self.unreadable.readable(item for _, item in pending)
            pending.clear()

    def _skip(self, bad: Undecodable, *, syncing: bool) -> None:
        """Leave out an object that cannot be read. It is not gone: what the sink knows of it stays as it was."""
        self._heard()
        self.unreadable.add_object(bad)
        if syncing and bad.who.known and isinstance(self._sink, KeepingSink):
            self._sink.keep(bad.who)
