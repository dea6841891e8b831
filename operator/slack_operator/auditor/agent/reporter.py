"""The auditor's reports to its controller, and the answers."""

from dataclasses import dataclass
from pathlib import Path

from slack.audit.api.encoding import InvalidAuditMessage, decode_answer, encode
from slack.audit.api.messages import MAX_ANSWER_BYTES, REPORTS_PATH, AgentReport, ControllerAnswer
from slack.process.reporting.posting import NotSent, Post


@dataclass(frozen=True)
class Controller:
    """Where reports go and how the agent says who it is."""

    url: str
    ca_file: Path | None
    token_file: Path

    def send(self, report: AgentReport) -> ControllerAnswer:
        """Send a report and return the answer.

        Raises:
            NotSent: with the cause in words.
        """
        post = Post(
            self.url.rstrip("/") + REPORTS_PATH,
            self.ca_file,
            self.token_file,
            agent="resource-slack-audit-agent",
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        try:
            return decode_answer(post.send(encode(report)))
        except InvalidAuditMessage as error:
            raise NotSent(f"its answer cannot be read: {error}") from None
