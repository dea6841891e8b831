"""What `load` prints."""

from typing import Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class LoadMoment(Record):
    """What there was at a moment."""

    seconds: float
    bound: int
    waiting: int
    placeholders: int
    nodes: int


class Load(Record):
    """`load`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Load"]
    pods: int
    unbound: int
    at_once: int
    p50_seconds: float | None
    p99_seconds: float | None
    displaced: int
    nodes_before: int
    nodes_most: int
    nodes_now: int
    nodes_gone_seconds: float | None
    waits_for: str
    notes: list[str]
    timeline: list[LoadMoment]
