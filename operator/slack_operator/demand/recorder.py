"""A run of the demand controller written down as it happens, for `demand replay`."""

from pathlib import Path

from slack.demand.trace import Line, encode
from slack.process.line_recorder import LineRecorder

BEGIN = b'{"type"'
"""Of each line of ours."""


def trace_recorder(file: Path) -> LineRecorder[Line]:
    """Make what records ticks and settings to a file."""
    return LineRecorder(file, encode, what="ticks", begin=BEGIN)
