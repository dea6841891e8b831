"""Reports to the controller, in a thread of their own: soon when somebody begins to wait, rarely while nobody does."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from slack.process.reporting.posting import SENT, NotSent, Post
from slack.process.reporting.pushing import Pusher
from slack.throttler.protocol import InvalidThrottlerMessage
from slack.throttler.reports.messages import (
    MAX_ANSWER_BYTES,
    REPORTS_PATH,
    NodeReport,
    ReportAnswer,
    decode_answer,
    encode,
)
from slack.throttler.reports.summary import is_moving

QUIET_SECONDS = 60.0
"""Between reports, before the controller has said."""
AGAIN_SECONDS = 5.0
"""While somebody waits, a controller that took no report is tried again so soon: it may have permits to write."""


class Reporting:
    """The agent's side. `start` and `stop` belong to whoever made it, `moved` to any thread."""

    def __init__(
        self,
        url: str,
        ca_file: Path | None,
        token_file: Path,
        make: Callable[[], NodeReport | None],
        count: Callable[[str], None],
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: the controller's.
            ca_file: who signs its certificate; None: the system's authorities.
            token_file: has the token that says who reports.
            make: makes a report of now; None: it is too early. Called in the thread that sends.
            count: counts what became of reports: sent, refused, failed.
        """
        self._post = Post(url + REPORTS_PATH, ca_file, token_file, "resource-slack-throttler-agent", MAX_ANSWER_BYTES)
        self._make = make
        self._moves = False
        self._told_quiet = False
        """The last report that arrived was of a node where nothing waits."""
        self._again_at: float | None = None
        """When to try again, after a report that did not arrive."""
        self._count = count
        self._pusher: Pusher[NodeReport, ReportAnswer] = Pusher(
            self._send, self._made, self._take, interval_seconds=QUIET_SECONDS, count=self._counted
        )

    def unhealthy(self) -> str | None:
        """Return why no report is sent any more; None if the thread works, or has not begun."""
        return self._pusher.unhealthy()

    def start(self) -> None:
        """Begin to report."""
        self._pusher.start()

    def stop(self) -> None:
        """End; what is under way is left to the process's end."""
        self._pusher.stop()

    def moved(self) -> None:
        """Something waits or starts on the node."""
        again = self._again_at is not None and time.monotonic() >= self._again_at
        if self._told_quiet or again:
            self._told_quiet, self._again_at = False, None
            self._pusher.hurry()

    def hurry(self) -> None:
        """Somebody may start, as soon as the controller hears of it."""
        self._pusher.hurry()

    def _counted(self, outcome: str) -> None:
        spread = random.uniform(1.0, 2.0)
        self._again_at = None if outcome == SENT else time.monotonic() + AGAIN_SECONDS * spread
        self._count(outcome)

    def _made(self) -> NodeReport | None:
        report = self._make()
        self._moves = report is not None and is_moving(report)
        return report

    def _send(self, report: NodeReport) -> ReportAnswer:
        try:
            return decode_answer(self._post.send(encode(report)))
        except InvalidThrottlerMessage as error:
            raise NotSent(f"its answer cannot be read: {error}") from None

    def _take(self, answer: ReportAnswer) -> float:
        self._told_quiet = not self._moves
        return max(1.0, answer.moving_seconds if self._moves else answer.every_seconds)
