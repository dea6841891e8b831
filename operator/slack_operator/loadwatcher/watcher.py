"""The watcher's loop: sample, fetch, judge, match, put up, keep. One thread, the process's main one.

Turns are timed by the monotonic clock, figures by the wall clock: when that jumps, the analyser drops what is then old
or from the future, and the next fetch is right again. A fetch that fails leaves up what was fetched before; the board
stops telling it once it is too old.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from slack.loadwatcher.analysis import Analyser, Dropped, Judgement
from slack.loadwatcher.node_names import KnownNode, NodeNames
from slack.loadwatcher.payload import REQUIRED, WINDOWS, LoadReport
from slack.loadwatcher.readings import Readings
from slack.loadwatcher.reports import assemble
from slack.loadwatcher.verdicts import MOST_NAMED, DroppedSeries, Verdicts
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.process.stopping import Stopping
from slack.supervision.heartbeat import Heartbeat
from slack_operator.loadwatcher.http_source import FetchFailed
from slack_operator.loadwatcher.metrics import FAILED, FETCHED, LoadWatcherMetrics
from slack_operator.loadwatcher.provider import LoadProvider
from slack_operator.loadwatcher.report_store import LoadSnapshot, ReportStore
from slack_operator.loadwatcher.settings import LoadWatcherSettings
from slack_operator.loadwatcher.store import Store

log = logging.getLogger(__name__)

Clock = Callable[[], float]
HEALTHY_SECONDS = 120.0
"""Beyond an interval, without a turn: a provider that hangs is given up after half a minute a question."""


class KnownNodes(Protocol):
    """What is known of the cluster's nodes."""

    def names(self) -> NodeNames:
        """What they go by."""

    def stale(self) -> str | None:
        """Why they are not known; None when they are."""

    def known(self) -> tuple[KnownNode, ...] | None:
        """All of them; None where no cluster is asked."""


class Watcher:
    """Turn after turn."""

    def __init__(
        self,
        settings: LoadWatcherSettings,
        provider: LoadProvider,
        nodes: KnownNodes,
        board: ReportStore,
        metrics: LoadWatcherMetrics,
        *,
        store: Store | None = None,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._interval = settings.interval
        self._provider = provider
        self._nodes = nodes
        self._board = board
        self._metrics = metrics
        self._store = store
        self._clock = clock
        self._wall = wall
        self._analyser = Analyser(max_age_seconds=settings.max_age)
        self._outages = Outages(clock)
        self._fetch_due = self._sample_due = self._made_at = clock()
        self.heart = Heartbeat("the loop that fetches", HEALTHY_SECONDS + settings.interval, clock=clock)
        self._error: str | None = "nothing was fetched yet"

    @property
    def error(self) -> str | None:
        """Why the last fetch failed; None when it did not."""
        return self._error

    @property
    def age_seconds(self) -> float:
        """For how long it has existed."""
        return self._clock() - self._made_at

    def unhealthy(self) -> str | None:
        """Return why nothing is fetched or tried any more; None if the loop turns."""
        return self.heart.late()

    def run(self, stopping: Stopping, before_each: Callable[[], None] = lambda: None) -> None:
        """Turn until the end is asked for."""
        while not stopping.wait(max(0.0, self._due() - self._clock())):
            before_each()
            self.fetch_due()

    def fetch_due(self) -> None:
        """Do what is due."""
        now = self._clock()
        every = self._provider.sample_seconds
        if every is not None and now >= self._sample_due:
            self._sample_due = max(self._sample_due + every, now + every / 2)
            self._sample()
        if now >= self._fetch_due:
            self._fetch_due = max(self._fetch_due + self._interval, now + self._interval / 2)
            self._fetch()
        self.heart.beat()

    def _due(self) -> float:
        return self._fetch_due if self._provider.sample_seconds is None else min(self._fetch_due, self._sample_due)

    def _sample(self) -> None:
        if self._nodes.stale() is None:
            try:
                self._provider.sample(self._wall())
            except FetchFailed as error:
                self._tell(str(error))

    def _fetch(self) -> None:
        began = time.perf_counter()
        now = self._wall()
        stale = self._nodes.stale()
        try:
            if stale is not None:
                raise FetchFailed(f"nodes are not known: {stale}")
            readings = self._provider.fetch(now)
        except FetchFailed as error:
            self._metrics.on_fetch(FAILED, time.perf_counter() - began)
            self._tell(str(error))
            self._fail(str(error))
            return
        self._error = None
        if self._outages.end():
            log.info("the provider answers again")
        self._take(readings, now)
        self._metrics.on_fetch(FETCHED, time.perf_counter() - began)

    def _take(self, readings: Readings, now: float) -> None:
        names = self._nodes.names()
        judgement = self._analyser.judge(readings, now)
        made = assemble(readings, judgement, names, source=self._provider.source)
        first = not self._board.view.reports and made.reports
        verdicts = self._verdicts(readings, judgement, names, made.unmatched, made.reports.get(WINDOWS[-1]))
        self._board.publish(LoadSnapshot(made.reports, names, verdicts))
        if first:
            log.info(
                "nodes' use is known", extra=fields(nodes=max(len(found.nodes) for found in made.reports.values()))
            )
        self._show(judgement, len(made.unmatched), len(verdicts.unknown), now)
        if self._store is not None and made.reports:
            self._store.save(made.reports, self._clock())

    def _verdicts(
        self,
        readings: Readings,
        judgement: Judgement,
        names: NodeNames,
        unmatched: tuple[str, ...],
        newest: LoadReport | None,
    ) -> Verdicts:
        told = {} if newest is None else newest.nodes
        known = self._nodes.known()
        unknown = () if known is None else tuple(sorted(node.name for node in known if node.name not in told))
        dropped = tuple(_dropped_series(found, names) for found in judgement.dropped[:MOST_NAMED])
        return Verdicts(self._provider.source, int(readings.ends_at), None, dropped, unmatched[:MOST_NAMED], unknown)

    def _fail(self, why: str) -> None:
        self._error = why
        view = self._board.view
        if view.verdicts is not None and view.verdicts.error != why:
            before = view.verdicts
            verdicts = Verdicts(before.source, before.fetched_at, why, before.dropped, before.unmatched, before.unknown)
            self._board.publish(LoadSnapshot(view.reports, view.names, verdicts))

    def _show(self, judgement: Judgement, unmatched: int, unknown: int, now: float) -> None:
        reports = self._board.view.reports
        newest = reports.get(WINDOWS[-1])
        states: Counter[str] = Counter(measured=0, partial=0, unknown=unknown)
        for load in () if newest is None else newest.nodes.values():
            types = {metric.type for metric in load.metrics}
            states["measured" if types.issuperset(REQUIRED) else "partial"] += 1
        seen = [] if newest is None else [load.observed_at or newest.window.end for load in newest.nodes.values()]
        self._metrics.show(
            reports,
            dropped=judgement.counts(),
            nodes=states,
            unmatched=unmatched,
            oldest_seconds=now - min(seen) if seen else 0.0,
        )

    def _tell(self, why: str) -> None:
        if self._outages.is_new(why):
            log.warning("no figures: %s", why)


def _dropped_series(dropped: Dropped, names: NodeNames) -> DroppedSeries:
    return DroppedSeries(dropped.name, names.node(dropped.name), dropped.type, dropped.fault, dropped.detail)
