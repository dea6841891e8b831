"""One turn of the controller: what agents told becomes reports, Events, changes, status and metrics.

Level-triggered: each turn starts from what is known now, and what a turn could not write the next one does. A lost
lease ends the turn before the next write.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slack.audit.api.crd import GROUP, POLICY_PLURAL, VERSION
from slack.audit.api.policy import KIND, AuditPolicy, assign
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import WRITE_FAILURES, is_another_object
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack.schema.conditions import is_trouble
from slack_operator.auditor.controller import policy_status
from slack_operator.auditor.controller.aggregation import ClusterFindings, Criteria
from slack_operator.auditor.controller.cluster_view import AuditedClusterView
from slack_operator.auditor.controller.enforcer import Enforcer
from slack_operator.auditor.controller.event_reporter import AuditEventReporter
from slack_operator.auditor.controller.metrics import AuditControllerMetrics
from slack_operator.auditor.controller.node_findings import DEFAULT_PUSH_SECONDS, NodeFindings
from slack_operator.auditor.controller.policy_status import COUNTERS_SECONDS, AuditObservation, Enforcement, headline
from slack_operator.auditor.controller.reports import Reports
from slack_operator.runtime.conditions import manifest, rfc3339, turned
from slack_operator.runtime.desired import Desired, Entry
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.write_retries import WriteRetries

log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.5 * DEFAULT_PUSH_SECONDS
"""After so long every agent has had its turn to report, or is late."""


class Sync(Protocol):
    """Whether what is watched is whole."""

    def stale(self) -> str | None:
        """Say what is missing; None when nothing is."""


class Reconciler:
    """Owned by the loop's thread."""

    def __init__(
        self,
        *,
        view: AuditedClusterView,
        watches: Sync,
        desired: Desired[AuditPolicy],
        nodes: NodeFindings,
        writer: Writer,
        reports: Reports,
        event_reporter: AuditEventReporter,
        enforcer: Enforcer,
        metrics: AuditControllerMetrics,
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._view, self._watches, self._desired, self._nodes = view, watches, desired, nodes
        self._writer, self._reports, self._event_reporter, self._enforcer = writer, reports, event_reporter, enforcer
        self._metrics, self._may_write = metrics, may_write
        self._clock, self._wall = clock, wall
        self._led_since: float | None = None
        self._settled = False
        self._status: dict[str, tuple[Mapping[str, Any], float]] = {}
        self._retries = WriteRetries(clock)

    def reconcile(self) -> None:
        """Do what is due; nothing while another leads or the view is not whole.

        Raises:
            NotLeading: the lease is gone; nothing was written after that.
            KubeError: the API server does not answer.
        """
        leading = self._may_write()
        self._metrics.leader.set(1 if leading else 0)
        if not leading or self._watches.stale() or not self._desired.synced:
            if not leading:
                self._led_since, self._settled = None, False
            return
        if self._led_since is None:
            self._led_since = self._clock()
        self._lead()
        self._metrics.turns.inc()

    def settled(self, findings: ClusterFindings) -> bool:
        """Whether every node has had the time to report since this process leads; stays so."""
        waited = self._clock() - self._led_since if self._led_since is not None else 0.0
        heard = findings.reporting | findings.silent
        self._settled = self._settled or waited >= SETTLE_SECONDS or self._view.nodes().keys() <= heard
        return self._settled

    def _lead(self) -> None:
        entries = self._desired.entries()
        good = {entry.name: entry.policy for entry in entries if entry.policy is not None}
        policy_of, lost = assign(good, self._view.namespaces())
        findings = self._nodes.findings(
            {
                name: Criteria(good[owner].spec.window, good[owner].spec.thresholds.thresholds())
                for name, owner in policy_of.items()
            }
        )
        told = [named.told.finding for found in findings.judged.values() for named in found]
        self._metrics.show([*told, *findings.above], reporting=len(findings.reporting), silent=len(findings.silent))
        owners = {name: good[owner] for name, owner in policy_of.items()}
        settled = self.settled(findings)
        if settled:
            self._reports.write(findings.namespaces, owners, self._view.reports())
        self._event_reporter.report(findings.judged, owners)
        enforcement = self._enforcer.reconcile(good.values(), policy_of, findings)
        for entry in entries:
            self._report_status(entry, policy_of, lost, findings, enforcement, settled=settled)
        known = {entry.uid for entry in entries}
        self._status = {uid: written for uid, written in self._status.items() if uid in known}
        self._retries.keep_only(known)

    def _report_status(
        self,
        entry: Entry[AuditPolicy],
        policy_of: Mapping[str, str],
        lost: Mapping[str, Mapping[str, str]],
        findings: ClusterFindings,
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
            observed = AuditObservation(
                entry.policy,
                mine,
                findings.reporting,
                findings.silent,
                lost.get(entry.name, {}),
                enforcement.get(entry.name, Enforcement()),
                {
                    name: contest
                    for name, contest in self._reports.contested().items()
                    if policy_of.get(name) == entry.name
                },
            )
            status = policy_status.status_of(observed, previous, now)
        if status == previous or self._retries.wait_seconds(entry.uid):
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
            self._writer.apply(path, manifest(KIND, entry.name, entry.uid, status), force=True)
        except WRITE_FAILURES as error:
            self._retries.failed(entry.uid, error)
            if not is_another_object(error):
                log.warning("status not written: %s", refusal_text(error), extra=fields(policy=entry.name))
            return
        self._retries.succeeded(entry.uid)
        self._status[entry.uid] = status, self._clock()
        for condition in turned(previous, status):
            level = logging.WARNING if is_trouble(condition["type"], condition["status"]) else logging.INFO
            said = fields(
                policy=entry.name, condition=condition["type"], status=condition["status"], reason=condition["reason"]
            )
            log.log(level, "%s", condition["message"], extra=said)
