"""One sample of one node, and for how long samples are kept: apart from `samples`, for numpy is 16 MiB."""

from typing import NamedTuple

from slack.loadwatcher.payload import WINDOWS

KEPT_SECONDS = float(WINDOWS[0].seconds)


class LoadSample(NamedTuple):
    """One node at one time."""

    node: str
    at: float
    """Unix seconds."""
    cpu_percent: float
    memory_percent: float
