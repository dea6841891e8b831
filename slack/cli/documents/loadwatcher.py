"""What `load-watcher show` prints."""

from typing import Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class WindowUse(Record):
    """What a node uses of one resource over one window."""

    window: Literal["15m", "10m", "5m"]
    type: Literal["cpu", "memory", "network", "disk"]
    average_percent: float | None
    deviation_percent: float | None


class NodeLoad(Record):
    """What a load watcher knows of a node; no verdict means that its analyser has nothing against it."""

    node: str
    age_seconds: float | None
    verdicts: list[str]
    windows: list[WindowUse]


class NodeLoadList(Record):
    """`load-watcher show`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["NodeLoadList"]
    source: str
    window_end_unix_seconds: int
    error: str | None
    unmatched: list[str]
    items: list[NodeLoad]
