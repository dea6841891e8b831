"""What the leader knows becomes the status of pools and quotas, and an Event where a condition turned.

A status is written when it has changed: soon where a condition did, every two seconds where figures did, and of a pool
that refuses messages each second, for standbys answer from it. All together no more than so many a second are written,
those that wait longest first, so that thousands of pools do not fill the API server.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slack.cluster.labels import API_VERSION
from slack.demand.crd import POOL_PLURAL, QUOTA_PLURAL
from slack.demand.model import OPEN, ContainerState, PoolContainer, PoolSettings, PoolTarget, QueueKey
from slack.demand.policy import POOL_KIND, QUOTA_KIND, ActivationPool
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import WRITE_FAILURES, is_another_object
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack.schema.conditions import is_trouble
from slack_operator.demand.loop import TickReport
from slack_operator.demand.pool_registry import DesiredPools, PoolRegistry
from slack_operator.demand.status import (
    PoolObservation,
    announces,
    figures_of,
    headline,
    pool_status,
    quota_status,
    refused_status,
)
from slack_operator.demand.tick_state import TickState
from slack_operator.runtime.conditions import manifest, rfc3339, turned
from slack_operator.runtime.desired import Entry
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.write_retries import WriteRetries

log = logging.getLogger(__name__)

WRITES_A_TURN: Final = 40
FIGURES_SECONDS: Final = 2.0
REFUSING_SECONDS: Final = 1.0
ANNOUNCED_SECONDS: Final = 60.0
"""So often slack is told again what a pool still wants of it: what was said three minutes ago begins to fade there."""
Status = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Due:
    """A status that should be written."""

    written_at: float
    """When this object's status was written last; monotonic."""
    entry: Entry[Any]
    kind: str
    plural: str
    status: Status
    previous: Status


class PoolReporter:
    """Owned by the reporting loop's thread."""

    def __init__(
        self,
        *,
        books: PoolRegistry,
        board: TickState,
        writer: Writer,
        recorder: EventRecorder,
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing was written yet.

        Args:
            books: what is wanted.
            board: what was decided last.
            writer: for statuses.
            recorder: for Events.
            may_write: whether this process leads.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._books = books
        self._board = board
        self._writer = writer
        self._recorder = recorder
        self._may_write = may_write
        self._clock = clock
        self._wall = wall
        self._written: dict[str, tuple[Status, float]] = {}
        self._retries = WriteRetries(clock)

    def write_due(self) -> None:
        """Write what is due."""
        turn = self._board.turn
        if not self._may_write() or turn is None or not self._books.synced:
            return
        book, now, text = self._books.now(), self._clock(), rfc3339(self._wall())
        found = (*self._pools_due(book, turn, now, text), *self._quotas_due(book, turn, now, text))
        due = [item for item in found if not self._retries.wait_seconds(item.entry.uid)]
        due.sort(key=lambda item: (headline(item.status) == headline(item.previous), item.written_at))
        for item in due[:WRITES_A_TURN]:
            self._write(item, now)
        known = {entry.uid for entry in book.pools.values()} | {q.uid for found in book.quotas.values() for q in found}
        self._written = {uid: written for uid, written in self._written.items() if uid in known}
        self._retries.keep_only(known)

    def _pools_due(self, book: DesiredPools, turn: TickReport, now: float, text: str) -> Iterator[_Due]:
        containers: defaultdict[QueueKey, list[PoolContainer]] = defaultdict(list)
        for container in turn.containers:
            containers[container.key].append(container)
        for key, entry in book.pools.items():
            previous, at = self._previous(entry)
            status: Status = self._pool(book, turn, key, entry, containers.get(key, []), previous, text)
            if self._is_due(status, previous, now - at):
                yield _Due(at, entry, POOL_KIND, POOL_PLURAL, status, previous)

    def _quotas_due(self, book: DesiredPools, turn: TickReport, now: float, text: str) -> Iterator[_Due]:
        """Yield statuses of quotas. All pools, containers and verdicts are looked at once, not once per namespace."""
        if not book.quotas:
            return
        pools: defaultdict[str, dict[str, PoolSettings]] = defaultdict(dict)
        for pool in book.wanted.pools:
            pools[pool.key.namespace][pool.key.action] = pool
        containers: defaultdict[str, list[PoolContainer]] = defaultdict(list)
        for container in turn.containers:
            containers[container.namespace].append(container)
        throttled = Counter(key.namespace for key, verdict in turn.result.verdicts.items() if verdict.reject)
        for namespace, quotas in book.quotas.items():
            for quota in quotas:
                previous, at = self._previous(quota)
                status = quota_status(
                    pools.get(namespace, {}),
                    containers.get(namespace, ()),
                    throttled[namespace],
                    quota.generation,
                    quota.problems,
                    previous,
                    text,
                )
                if self._is_due(status, previous, now - at):
                    yield _Due(at, quota, QUOTA_KIND, QUOTA_PLURAL, status, previous)

    def _previous(self, entry: Entry[Any]) -> tuple[Status, float]:
        return self._written.get(entry.uid, (entry.status, float("-inf")))

    def _pool(
        self,
        book: DesiredPools,
        turn: TickReport,
        key: QueueKey,
        entry: Entry[ActivationPool],
        containers: list[PoolContainer],
        previous: Status,
        now: str,
    ) -> dict[str, Any]:
        refusal = book.refused.get(key)
        pool = book.usable(key)
        if refusal is not None or pool is None:
            assert refusal is not None, "what is not usable was refused"
            return refused_status(refusal, entry.generation, previous, now)
        observed = PoolObservation(
            pool=pool,
            generation=entry.generation,
            problems=entry.problems,
            containers=containers,
            lag=None if turn.lags is None else turn.lags.get(pool.subject),
            rates=self._board.rates(pool.subject),
            target=turn.targets.get(
                key, PoolTarget(wanted=sum(c.state is not ContainerState.DRAINING for c in containers))
            ),
            verdict=turn.result.verdicts.get(key, OPEN),
            figures=turn.result.figures.get(key),
            told=self._board.told.get(key),
            failing=turn.failing.get(key),
            broker_problem=turn.broker_problem if turn.lags is None else None,
            queue_problem=turn.refused.get(pool.subject),
            queue_silent=turn.unread.get(pool.subject),
            warning=book.warned.get(key),
            unix_seconds=turn.unix_seconds,
            node_start_seconds=turn.node_start_seconds,
        )
        return pool_status(observed, previous, now)

    @staticmethod
    def _is_due(status: Status, previous: Status, age_seconds: float) -> bool:
        if headline(status) != headline(previous):
            return True
        if status.get("throttled") is True:
            return age_seconds >= REFUSING_SECONDS
        if announces(status) and age_seconds >= ANNOUNCED_SECONDS:
            return True
        return figures_of(status) != figures_of(previous) and age_seconds >= FIGURES_SECONDS

    def _write(self, due: _Due, now: float) -> None:
        if not self._may_write():
            raise NotLeading
        entry, kind, status, previous = due.entry, due.kind, due.status, due.previous
        path = resource_path(API_VERSION, due.plural, namespace=entry.namespace, name=entry.name) + "/status"
        applied = manifest(kind, entry.name, entry.uid, status)
        applied["metadata"]["namespace"] = entry.namespace
        about = fields(namespace=entry.namespace, name=entry.name)
        try:
            # force: nobody else has a say in it, whatever has touched it meanwhile
            self._writer.apply(path, applied, force=True)
        except WRITE_FAILURES as error:
            self._retries.failed(entry.uid, error)
            if not is_another_object(error):
                log.warning("status not written: %s", refusal_text(error), extra=about)
            return
        self._retries.succeeded(entry.uid)
        self._written[entry.uid] = status, now
        regarding = ObjectRef(API_VERSION, kind, entry.name, entry.uid, entry.namespace)
        for condition in turned(previous, status):
            trouble = is_trouble(condition["type"], condition["status"])
            log.log(
                logging.WARNING if trouble else logging.INFO,
                "%s/%s: %s",
                entry.namespace,
                entry.name,
                condition["message"],
                extra=fields(condition=condition["type"], status=condition["status"]),
            )
            what = EventKind.WARNING if trouble else EventKind.NORMAL
            self._recorder.record(regarding, what, condition["reason"], condition["message"])
