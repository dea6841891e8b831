"""Writes the CpuAuditReports: one a namespace, when something that matters has changed, at most as often as wanted.

What stands is known from a watch, so a report that somebody deletes comes back, and one whose namespace has no policy
or nothing to report on any more goes. A report that is deleted again and again is not made again for a while
(`slack.process.contests`). After a change of leaders nothing is written before the nodes had time to report.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from slack.audit.api.crd import GROUP, REPORT_PLURAL, VERSION
from slack.audit.api.policy import AuditPolicy
from slack.audit.api.report import REPORT_NAME, NamespaceFindings, digest, report
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.process.contests import Contest, Contests, Verdict
from slack.process.logs import fields
from slack_operator.auditor.controller.cluster_view import ReportObject
from slack_operator.runtime.conditions import rfc3339
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

MAX_WRITES = 200
"""In one turn; the others come in the next."""
RECONCILE_SECONDS = 20.0
"""Nor is one begun after so long: an API server that fails must not keep a turn from its end."""
REFUSED_SECONDS = 60.0
SHOWN_SECONDS = 30.0
"""Within this time the watch shows a report that was written."""
SOMEBODY = "somebody"
"""Who deletes a report: nothing tells that afterwards."""


@dataclass(slots=True)
class _Written:
    digest: object
    at: float
    policy: str
    refused: bool = False
    looked_at: float = float("-inf")
    """When it was found to be as it is written; to find that out costs as much as to write it."""


class Reports:
    """What was written, and what is due. Owned by the turn's thread."""

    def __init__(
        self,
        writer: Writer,
        *,
        may_write: Callable[[], bool],
        on_written: Callable[[], None],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._may_write = may_write
        self._on_written = on_written
        self._wall = wall
        self._clock = clock
        self._written: dict[str, _Written] = {}
        self._contests = Contests[str]()

    def contested(self) -> dict[str, Contest[str]]:
        """Return by namespace the reports that somebody deletes each time, and that are not made again for a while."""
        return {contest.subject: contest for contest in self._contests.standing(self._clock())}

    def write(
        self,
        namespaces: Mapping[str, NamespaceFindings],
        policy_of: Mapping[str, AuditPolicy],
        standing: Mapping[str, ReportObject],
    ) -> int:
        """Write what is due and delete what has no ground any more; returns how many requests that took.

        Args:
            namespaces: all that have a policy.
            policy_of: their policies.
            standing: reports there are, by namespace.
        """
        self._written = {name: written for name, written in self._written.items() if name in namespaces}
        count, until = 0, self._clock() + RECONCILE_SECONDS
        worst_first = sorted(namespaces.values(), key=lambda namespace: -len(namespace.findings))
        for namespace in worst_first:
            if count >= MAX_WRITES or self._clock() >= until:
                return count
            count += self._offer(namespace, policy_of[namespace.name], standing.get(namespace.name))
        for name, found in standing.items():
            if name not in namespaces and count < MAX_WRITES and self._clock() < until:
                count += self._delete(name, found)
        return count

    def _offer(self, namespace: NamespaceFindings, policy: AuditPolicy, standing: ReportObject | None) -> int:
        if namespace.unknown:
            return 0
        if namespace.empty:
            silent = namespace.nodes_silent > 0  # then nobody knows, and what was known stays
            return self._delete(namespace.name, standing) if standing is not None and not silent else 0
        now = self._wall()
        known = self._written.get(namespace.name)
        every = policy.spec.report.every.total_seconds()
        if known is not None and known.refused and 0 <= now - known.at < REFUSED_SECONDS:
            return 0
        if known is not None and standing is None and not known.refused and self._is_left(namespace.name, known, now):
            return 0
        last = max(known.at, known.looked_at) if known is not None else _seconds(standing)
        # a clock that was set back must not silence a report for as long
        named = standing.policy if standing is not None else ""  # by anybody who may change the report
        of_this_policy = policy.name == (named if known is None else known.policy)
        if standing is not None and 0 <= now - last < every and of_this_policy:
            return 0
        found = report(namespace, policy, rfc3339(now))
        marks = digest(found)
        if standing is not None and known is not None and known.digest == marks and named == policy.name:
            known.looked_at = now
            return 0
        if not self._may_write():
            raise NotLeading
        try:
            self._writer.apply(_path(namespace.name), found, force=True)
        except ApiError as error:
            self._written[namespace.name] = _Written(None, now, policy.name, refused=True)
            if not error.not_found:  # the namespace went meanwhile
                log.warning("report not written: %s", refusal_text(error), extra=fields(namespace=namespace.name))
            return 1
        self._written[namespace.name] = _Written(marks, now, policy.name)
        self._on_written()
        return 1

    def _is_left(self, namespace: str, known: _Written, now: float) -> bool:
        """Whether a report that was written and is not there is not made again now: it is left to who deletes it."""
        if 0 <= now - known.at < SHOWN_SECONDS or namespace in self.contested():
            return True
        if self._contests.written(namespace, REPORT_NAME, SOMEBODY, self._clock()) is not Verdict.LEAVE:
            return False
        log.warning("a report is deleted each time, and left so for a while", extra=fields(namespace=namespace))
        return True

    def _delete(self, name: str, standing: ReportObject) -> int:
        if not self._may_write():
            raise NotLeading
        self._written.pop(name, None)
        try:
            self._writer.delete(_path(name), uid=standing.metadata.uid)
        except ApiError as error:
            if not error.conflict:
                log.warning("report not deleted: %s", error, extra=fields(namespace=name))
            return 1
        self._on_written()
        return 1


def _path(namespace: str) -> str:
    return resource_path(f"{GROUP}/{VERSION}", REPORT_PLURAL, namespace=namespace, name=REPORT_NAME)


def _seconds(standing: ReportObject | None) -> float:
    try:
        return datetime.fromisoformat(standing.measured_at).timestamp() if standing is not None else 0.0
    except ValueError:
        return 0.0
