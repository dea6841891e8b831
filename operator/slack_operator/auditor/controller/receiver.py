"""POST /v1/reports: agents' reports in, names and burst orders out.

Only the leader is ready, so that a Service leads every agent to it.
"""

from typing import Protocol

from slack.audit.api.encoding import InvalidAuditMessage, decode_report, encode
from slack.audit.api.messages import MAX_REPORT_BYTES, AgentReport, ControllerAnswer
from slack.process.reporting.packing import InvalidReportBody, unpack
from slack_operator.runtime.callers import Caller, CallerRefused
from slack_operator.runtime.report_receiver import Body, Take


class Inbox(Protocol):
    """Where reports go."""

    def put(self, report: AgentReport) -> None:
        """Take the newest report of a node."""

    def answer(self, report: AgentReport) -> ControllerAnswer:
        """Return what to say to it."""


def into(inbox: Inbox) -> Take:
    """Return what takes a report into an inbox, in whatever thread."""

    def take(caller: Caller, body: Body) -> bytes:
        try:
            report = decode_report(unpack(body.data, body.encoding, MAX_REPORT_BYTES))
        except (InvalidReportBody, InvalidAuditMessage) as error:
            raise CallerRefused(400, f"the report cannot be read: {error}") from None
        if report.node != caller.node:
            raise CallerRefused(403, f"pod {caller.pod} is on node {caller.node} and may not report on {report.node}")
        inbox.put(report)
        return encode(inbox.answer(report))

    return take
