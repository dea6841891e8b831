"""What agents and controller say to one another comes back as it went out, within bounds."""

import re

import pytest

from slack.throttler.fsm import StartState
from slack.throttler.protocol import InvalidThrottlerMessage
from slack.throttler.reports import messages
from slack.throttler.reports.messages import ContainerRow, NodeReport, ReportAnswer, SilentNode, View

ROW = ContainerRow(namespace="shop", pod="api-0", uid="u", container="app", state=StartState.PENDING, position=1)
REPORT = NodeReport(node="n1", at=1.0, slots=6, counts={StartState.PENDING: 1}, containers=(ROW,))


def test_report_answer_and_view_come_back() -> None:
    assert messages.decode_report(messages.encode(REPORT)) == REPORT
    assert messages.decode_answer(messages.encode(ReportAnswer(every_seconds=5.0))) == ReportAnswer(every_seconds=5.0)
    view = View(at=2.0, reports=(REPORT,), silent=(SilentNode(node="n2", policy="default", at=1.0),))
    assert messages.decode_view(messages.encode(view)) == view


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "missing required field `node`"),
        (b'{"node": "n", "at": 1, "counts": {"asleep": 1}}', "Invalid enum value 'asleep'"),
        (b'{"node": "n", "at": 1, "forced": -1}', "`int` >= 0 - at `$.forced`"),
        (b" " * (messages.MAX_REPORT_BYTES + 1), "longer than 4194304 bytes"),
    ],
)
def test_a_bad_report_is_refused_by_its_field(body: bytes, words: str) -> None:
    with pytest.raises(InvalidThrottlerMessage, match=re.escape(words)):
        messages.decode_report(body)
