"""One turn of the leader: what agents reported becomes the policies' status, and Events where a condition turned.

Level-triggered: each turn starts from what is known now, and what a turn could not write the next one does. In a
cluster where nothing starts nothing is written.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import WRITE_FAILURES, is_another_object
from slack.kube.events import EventKind, ObjectRef, RecordsEvents
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack.schema.conditions import is_trouble
from slack.throttler.config import KIND, ThrottlePolicy
from slack.throttler.crd import PLURAL
from slack.throttler.reports.summary import total
from slack_operator.runtime.conditions import manifest, rfc3339, turned
from slack_operator.runtime.desired import Desired, Entry
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.write_retries import WriteRetries
from slack_operator.throttler.controller import policy_status
from slack_operator.throttler.controller.metrics import ThrottlerControllerMetrics
from slack_operator.throttler.controller.node_labels import NodeLabels
from slack_operator.throttler.controller.policy_status import ThrottleObservation, figures, headline
from slack_operator.throttler.controller.starts import QUIET_SECONDS, Starts

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.5 * QUIET_SECONDS
"""After so long every agent has had its turn to report, or is late."""
HEADLINE_SECONDS, FIGURES_SECONDS, WAITS_SECONDS = 2.0, 5.0, 30.0
"""A policy's status is written at most so often: as a condition turns, as counts change, as somebody still waits."""


class PolicyReporter:
    """Owned by the loop's thread."""

    def __init__(
        self,
        *,
        desired: Desired[ThrottlePolicy],
        labels: NodeLabels,
        starts: Starts,
        writer: Writer,
        recorder: RecordsEvents,
        metrics: ThrottlerControllerMetrics,
        may_write: Callable[[], bool],
        stale: Callable[[], str | None],
        sees_nodes: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is written yet.

        Args:
            desired: the policies.
            labels: the nodes.
            starts: the reports.
            writer: of statuses.
            recorder: of Events.
            metrics: told how many nodes report.
            may_write: whether this process leads.
            stale: why the nodes are not seen whole; None when they are.
            sees_nodes: whether nodes may be watched; if not, those that report are all that is known.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._desired, self._labels, self._starts = desired, labels, starts
        self._writer, self._recorder, self._metrics = writer, recorder, metrics
        self._may_write, self._stale, self._sees_nodes = may_write, stale, sees_nodes
        self._clock, self._wall = clock, wall
        self._led_since: float | None = None
        self._settled = False
        self._written: dict[str, tuple[Mapping[str, Any], float]] = {}
        self._retries = WriteRetries(clock)

    def write_due(self) -> None:
        """Do what is due; nothing while another leads, or the nodes are not seen whole.

        Raises:
            NotLeading: the lease is gone; nothing was written after that.
            Stopped: the process ends.
        """
        leading = self._may_write()
        self._metrics.show_leader(leading)
        if not leading:
            if self._led_since is not None:
                self._starts.forget()
                self._metrics.show_nodes(0, 0)
            self._led_since, self._settled = None, False
            return
        if self._led_since is None:
            self._led_since = self._clock()
        if self._stale() is None and self._desired.synced:
            self._lead()

    def _lead(self) -> None:
        entries = self._desired.entries()
        good = [entry.policy for entry in entries if entry.policy is not None]
        if self._sees_nodes():
            self._starts.keep(self._labels.names)
        heard = self._starts.heard()
        assigned = self._labels.assigned(good)
        reporting = frozenset(name for name, (_, fresh) in heard.items() if fresh)
        self._metrics.show_nodes(len(reporting), len(heard) - len(reporting))
        settled = self._has_settled(frozenset(heard))
        now = self._clock()
        for entry in entries:
            mine = assigned.nodes.get(entry.name, frozenset())
            if entry.policy is None or entry.problems:
                self._report(entry, None, now)
            elif settled:
                those = mine & reporting
                totals = total((heard[name][0] for name in those), now)
                silent = (mine & heard.keys()) - those
                lost = assigned.lost.get(entry.name, {})
                self._report(entry, ThrottleObservation(entry.policy, mine, those, silent, totals, lost), now)
        known = {entry.uid for entry in entries}
        self._written = {uid: written for uid, written in self._written.items() if uid in known}
        self._retries.keep_only(known)

    def _has_settled(self, heard: frozenset[str]) -> bool:
        """Whether every node has had the time to report since this process leads; stays so."""
        waited = self._clock() - self._led_since if self._led_since is not None else 0.0
        self._settled = self._settled or waited >= SETTLE_SECONDS or (bool(heard) and self._labels.names <= heard)
        return self._settled

    def _report(self, entry: Entry[ThrottlePolicy], observed: ThrottleObservation | None, now: float) -> None:
        written = self._written.get(entry.uid)
        previous, at = written if written is not None else (entry.status, float("-inf"))
        text = rfc3339(self._wall())
        if observed is None:
            status = policy_status.invalid(entry.problems, entry.generation, previous, text)
        else:
            status = policy_status.status_of(observed, previous, text)
        if status == previous:
            return
        pause = WAITS_SECONDS
        if headline(status) != headline(previous):
            pause = HEADLINE_SECONDS
        elif figures(status) != figures(previous):
            pause = FIGURES_SECONDS
        if now - at >= pause and not self._retries.wait_seconds(entry.uid):
            self._write(entry, status, previous, now)

    def _write(
        self, entry: Entry[ThrottlePolicy], status: Mapping[str, Any], previous: Mapping[str, Any], now: float
    ) -> None:
        if not self._may_write():
            raise NotLeading
        path = resource_path(API_VERSION, PLURAL, name=entry.name) + "/status"
        try:
            # force: nobody else has a say in it, whatever has touched it meanwhile
            self._writer.apply(path, manifest(KIND, entry.name, entry.uid, status), force=True)
        except WRITE_FAILURES as error:
            self._retries.failed(entry.uid, error)
            if not is_another_object(error):
                log.warning("status not written: %s", refusal_text(error), extra=fields(policy=entry.name))
            return
        self._retries.succeeded(entry.uid)
        self._written[entry.uid] = status, now
        about = ObjectRef(API_VERSION, KIND, entry.name, entry.uid)
        for condition in turned(previous, status):
            trouble = is_trouble(condition["type"], condition["status"])
            said = fields(policy=entry.name, condition=condition["type"], status=condition["status"])
            log.log(logging.WARNING if trouble else logging.INFO, "%s", condition["message"], extra=said)
            kind = EventKind.WARNING if trouble else EventKind.NORMAL
            self._recorder.record(about, kind, condition["reason"], condition["message"])
