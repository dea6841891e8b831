"""One turn of the controller: what agents told becomes reports, Events, changes, status and metrics.

Level-triggered: each turn starts from what is known now, and what a turn could not write the next one does. A lost
lease ends the turn before the next write.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slack.cfs.crd import GROUP, POLICY_PLURAL, VERSION
from slack.cfs.policy import AuditPolicy, assign
from slack.kube.apply import Writer
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack_operator.actuate import NotLeading
from slack_operator.audit import policy_status
from slack_operator.audit.controller_metrics import ControllerMetrics
from slack_operator.audit.enforcing import Enforcer
from slack_operator.audit.judging import DEFAULT_PUSH_SECONDS, Nodes
from slack_operator.audit.pods_view import ClusterView
from slack_operator.audit.policy_status import COUNTERS_SECONDS, Enforcement, Seen, headline
from slack_operator.audit.reports import Reports
from slack_operator.audit.summing import Findings, How
from slack_operator.audit.telling import Teller
from slack_operator.desired import Desired, Entry
from slack_operator.status import is_trouble, rfc3339, turned

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.5 * DEFAULT_PUSH_SECONDS
"""After so long every agent has had its turn to report, or is late."""


class Sync(Protocol):
    """Whether what is watched is whole."""

    def stale(self) -> str:
        """Say what is missing; '' for nothing."""


class Turner:
    """Makes the turns. Owned by one thread."""

    def __init__(
        self,
        *,
        view: ClusterView,
        watches: Sync,
        desired: Desired[AuditPolicy],
        nodes: Nodes,
        writer: Writer,
        reports: Reports,
        teller: Teller,
        enforcer: Enforcer,
        metrics: ControllerMetrics,
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.beat_at = clock()
        self._view, self._watches, self._desired, self._nodes = view, watches, desired, nodes
        self._writer, self._reports, self._teller, self._enforcer = writer, reports, teller, enforcer
        self._metrics, self._may_write = metrics, may_write
        self._clock, self._wall = clock, wall
        self._led_since: float | None = None
        self._settled = False
        self._status: dict[str, tuple[Mapping[str, Any], float]] = {}

    def turn(self) -> None:
        """Do what is due; nothing while another leads or the view is not whole."""
        self.beat_at = self._clock()
        leading = self._may_write()
        self._metrics.leader.set(1 if leading else 0)
        if not leading or self._watches.stale() or not self._desired.synced:
            if not leading:
                self._led_since, self._settled = None, False
            return
        if self._led_since is None:
            self._led_since = self._clock()
        try:
            self._lead()
            self._metrics.turns.inc()
        except NotLeading:
            log.info("the turn was given up: another leads")
        except KubeError as error:
            log.warning("the turn was given up: %s", error)

    def settled(self, findings: Findings) -> bool:
        """Whether every node has had the time to report since this process leads; stays so."""
        waited = self._clock() - self._led_since if self._led_since is not None else 0.0
        heard = findings.reporting | findings.silent
        self._settled = self._settled or waited >= SETTLE_SECONDS or self._view.nodes().keys() <= heard
        return self._settled

    def _lead(self) -> None:
        entries = self._desired.entries()
        good = {one.name: one.policy for one in entries if one.policy is not None}
        policy_of, lost = assign(good, self._view.namespaces())
        findings = self._nodes.look(
            {
                name: How(good[owner].spec.window, good[owner].spec.thresholds.thresholds())
                for name, owner in policy_of.items()
            }
        )
        told = [one.told.finding for found in findings.judged.values() for one in found]
        self._metrics.show([*told, *findings.above], reporting=len(findings.reporting), silent=len(findings.silent))
        owners = {name: good[owner] for name, owner in policy_of.items()}
        settled = self.settled(findings)
        if settled:
            self._reports.write(findings.namespaces, owners, self._view.reports())
        self._teller.tell(findings.judged, owners)
        enforcement = self._enforcer.turn(good.values(), policy_of, findings)
        for entry in entries:
            self._tell_status(entry, policy_of, lost, findings, enforcement, settled=settled)
        self._status = {uid: one for uid, one in self._status.items() if uid in {entry.uid for entry in entries}}

    def _tell_status(
        self,
        entry: Entry[AuditPolicy],
        policy_of: Mapping[str, str],
        lost: Mapping[str, Mapping[str, str]],
        findings: Findings,
        enforcement: Mapping[str, Enforcement],
        *,
        settled: bool,
    ) -> None:
        now = rfc3339(self._wall())
        previous, at = self._status.get(entry.uid, (entry.status, float("-inf")))
        if entry.policy is None or entry.problems:
            status = policy_status.invalid(entry.problems, entry.generation, previous, now)
        elif not settled:
            return  # who has not reported yet is not missing
        else:
            mine = [findings.namespaces[name] for name, owner in policy_of.items() if owner == entry.name]
            seen = Seen(
                entry.policy,
                mine,
                findings.reporting,
                findings.silent,
                lost.get(entry.name, {}),
                enforcement.get(entry.name, Enforcement()),
            )
            status = policy_status.status_of(seen, previous, now)
        if status == previous:
            return
        if headline(status) == headline(previous) and self._clock() - at < COUNTERS_SECONDS:
            return
        self._write_status(entry, status, previous)

    def _write_status(self, entry: Entry[AuditPolicy], status: Mapping[str, Any], previous: Mapping[str, Any]) -> None:
        if not self._may_write():
            raise NotLeading
        path = resource_path(f"{GROUP}/{VERSION}", POLICY_PLURAL, name=entry.name) + "/status"
        try:
            # force: nobody else has a say in it, whatever has touched it meanwhile
            self._writer.apply(path, policy_status.manifest(entry.name, entry.uid, status), force=True)
        except ApiError as error:
            if not (error.not_found or error.conflict):  # deleted, or another object of its name by now
                log.warning("status not written: %s", error, extra=fields(policy=entry.name))
            return
        self._status[entry.uid] = status, self._clock()
        for one in turned(previous, status):
            level = logging.WARNING if is_trouble(one) else logging.INFO
            said = fields(policy=entry.name, condition=one["type"], status=one["status"], reason=one["reason"])
            log.log(level, "%s", one["message"], extra=said)
