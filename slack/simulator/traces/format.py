"""What a recorded trace holds, as values: pods that came, nodes that started. Its bytes are the room's `parquet`.

One table, so that one file is one recording. The column `kind` says what a row is; columns that do not concern a
kind are null in its rows. Times of rows count from the recording's start; what was there already is `initial` and
stands at 0. A new column makes a new version.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from slack.errors import InvalidInput

VERSION = 1
METADATA_KEY = b"resource-slack.trace"
"""Key of the file's metadata; its value is JSON: version, started_at, ended_at, source."""

Source = Literal["watch", "prometheus"]


class InvalidTrace(InvalidInput):
    """A trace that cannot be used; each problem names the column and the row, and what would be right.

    Rows are those of the file, counted from 1 as people count: data frames show one less.
    """


class RowKind(StrEnum):
    """What a row is about."""

    POD = "pod"
    PLACEHOLDER = "placeholder"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTraceRow:
    """A pod that came. Placeholders are kept too: what they wait for shows how long nodes take."""

    time_seconds: float
    """Creation."""
    namespace: str
    workload: str
    """`deploy/api`, as people name it."""
    cpu_millis: int
    """Effective request."""
    memory_bytes: int
    requests_json: str = ""
    """Requests of further resources by name, as JSON; '' when there are none."""
    constraints_json: str = ""
    """The pod's nodeSelector, affinity, tolerations and topologySpreadConstraints, as JSON; '' when there are none."""
    labels_json: str = ""
    """Those labels that the pod's own (anti-)affinity and spread look at, as JSON. '' if nothing looks at any, and in
    traces of Prometheus and of earlier versions, which have no labels of pods."""
    priority: int = 0
    preempts: bool = True
    """False: preemptionPolicy Never."""
    placeholder: bool = False
    initial: bool = False
    """It was there when the recording began."""
    bound_seconds: float | None = None
    """From creation to binding; null when it was not bound before the recording ended."""
    ready_seconds: float | None = None
    """From creation to Ready; null when it was not seen to become Ready, and in older traces."""
    life_seconds: float | None = None
    """From binding (of an initial pod: from the start) to its end; null when it outlived the recording."""
    node: str = ""
    """Where it was bound."""
    row: int = field(default=0, compare=False)
    """Its row in the file it was read from, counted from 1, for complaints; 0 when there is no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraceRow:
    """A node that was there or started."""

    name: str
    time_seconds: float
    """Creation of the Node object: when its kubelet registered, not when the machine was asked for."""
    labels_json: str = ""
    taints_json: str = ""
    """Lasting taints, as JSON: key, value, effect."""
    cpu_millis: int
    """Allocatable."""
    memory_bytes: int
    requests_json: str = ""
    """Allocatable of further resources by name, `pods` included, as JSON."""
    daemon_json: str = ""
    """What DaemonSet and static pods request there, together, `pods` being their number, as JSON."""
    initial: bool = False
    ready_seconds: float | None = None
    """From creation to Ready; null for initial nodes and those that never were."""
    life_seconds: float | None = None
    """From creation (of an initial node: from the start) until it was gone; null when it outlived the recording."""
    row: int = field(default=0, compare=False)
    """As in PodRow."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One recording. Rows are in order of time."""

    started_at: datetime
    ended_at: datetime
    source: Source
    pods: tuple[PodTraceRow, ...]
    nodes: tuple[NodeTraceRow, ...]

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.ended_at - self.started_at).total_seconds()
