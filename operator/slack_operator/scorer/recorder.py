"""Decisions of the scorer written down as they are made, for `scorer score --lines`."""

from pathlib import Path

from slack.process.line_recorder import LineRecorder
from slack.scorer.record import line_of
from slack_operator.scorer.scores import ScoringDecision

BEGIN = b'{"version"'
"""Of each line of ours."""
MOST_FILE_BYTES = 256 << 20
"""A file that would be longer is renamed, with `.1` at its end, and another begun: so a disk holds twice as much."""


def decision_recorder(file: Path, *, most_bytes: int = MOST_FILE_BYTES) -> LineRecorder[ScoringDecision]:
    """Make what records decisions to a file."""
    return LineRecorder(file, _line, what="decisions", begin=BEGIN, most_bytes=most_bytes)


def _line(decision: ScoringDecision) -> bytes:
    placeholder, basis = decision.demand.placeholder, decision.standing.basis
    return line_of(decision.at, decision.pod, placeholder, basis, decision.scores)
