"""Decisions as lines of JSON: what was asked and everything that was gone by, so that they can be made again.

A line has the nodes that the scheduler listed, with their use as it was known then, and the pod's resources: other
algorithms, other arguments and another prediction of the pod's use can be tried on it. How use was told from windows
is not made again. Numbers that are not known are null. `version` rises when a line's form changes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from slack.cluster.wire import ABSENT, Container, Pod, PodSpec
from slack.errors import InvalidInput
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import (
    HIGHEST_SCORE,
    BoolArray,
    Coverage,
    FloatArray,
    IntArray,
    NodeUsage,
    PodDemand,
    ScoredNodes,
    Scores,
    UsageState,
    Weighted,
)
from slack.scorer.rules import MetricRules, Prediction
from slack.scorer.scoring import DEFAULT_RULES, Basis, basis_of

VERSION = 2
MOST_BYTES = 16 << 20
"""Of a line; 5,000 nodes are 2 MiB."""
MOST_SECONDS = 1e11
"""Unix time; the year 5138."""
MOST_OF_ANYTHING = 1e24
"""Millicores, bytes, percent, seconds; a sum of the largest quantities that a cluster takes is less."""
Amount = Annotated[float, msgspec.Meta(ge=0, le=MOST_OF_ANYTHING)]
Seconds = Annotated[float, msgspec.Meta(ge=-MOST_SECONDS, le=MOST_SECONDS)]
"""Negative where a window ends in the future."""
Column = list[float | None]
Score = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_SCORE)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Pair = tuple[list[Amount | None], list[Amount | None]]
"""CPU and memory."""


class InvalidRecord(InvalidInput):
    """A line that is no recorded decision; the text says why."""


class _Nodes(msgspec.Struct):
    names: list[str]
    capacity: Pair
    allocatable: Pair
    requested: Pair
    limited: Pair
    placeholders: Pair
    pods: list[Count]
    state: list[UsageState]
    known: tuple[list[bool], list[bool]]
    mean_percent: Pair
    deviation_percent: Pair
    missing: Pair
    age_seconds: list[Seconds | None]
    window_seconds: Pair


class _Pod(msgspec.Struct):
    namespace: str
    name: str
    placeholder: bool
    spec: PodSpec


class _Line(msgspec.Struct):
    version: int
    at: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
    coverage: Coverage
    pod: _Pod
    nodes: _Nodes
    scores: list[Score]
    """0 to 100, as they were then."""
    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A decision that was read back."""

    at: float
    namespace: str
    name: str
    spec: PodSpec
    placeholder: bool
    nodes: ScoredNodes
    usage: NodeUsage
    coverage: Coverage
    total: IntArray
    """As it was then."""
    rule: str

    def demand(self, prediction: Prediction) -> PodDemand:
        """Return what the pod asks for.

        Raises:
            RequestError: when a quantity of the pod cannot be read.
        """
        return demand_of(self.spec, prediction, placeholder=self.placeholder)

    def basis(self, algorithms: Sequence[Weighted], rules: MetricRules = DEFAULT_RULES) -> Basis:
        """Return what these algorithms score by."""
        return basis_of(algorithms, self.nodes, self.usage, self.at, rules, coverage=self.coverage)


def line_of(at: float, pod: Pod, placeholder: bool, basis: Basis, scores: Scores) -> bytes:
    """Return a decision as a line, its end included.

    Args:
        at: Unix seconds.
        pod: that was to be placed.
        placeholder: it is one of slack's own.
        basis: what it was scored by.
        scores: what came of it.
    """
    rows, nodes, usage = scores.rows, basis.nodes, basis.usage
    document = {
        "version": VERSION,
        "at": at,
        "coverage": str(basis.coverage),
        "pod": {
            "namespace": pod.metadata.namespace or "default",
            "name": pod.metadata.name,
            "placeholder": placeholder,
            "spec": _spec(pod.spec),
        },
        "nodes": {
            "names": [nodes.names[row] for row in rows.tolist()],
            "capacity": _pair(nodes.capacity, rows),
            "allocatable": _pair(nodes.allocatable, rows),
            "requested": _pair(nodes.requested, rows),
            "limited": _pair(nodes.limited, rows),
            "placeholders": _pair(nodes.placeholders, rows),
            "pods": nodes.pod_count[rows].tolist(),
            "state": usage.state[rows].tolist(),
            "known": usage.known[:, rows].tolist(),
            "mean_percent": _pair(usage.mean_percent, rows),
            "deviation_percent": _pair(usage.deviation_percent, rows),
            "missing": _pair(usage.missing, rows),
            "age_seconds": _column(usage.age_seconds[rows]),
            "window_seconds": _pair(usage.window_seconds, rows),
        },
        "scores": scores.total.tolist(),
        "rule": str(scores.rule),
    }
    return msgspec.json.encode(document) + b"\n"


_decoder = msgspec.json.Decoder(_Line)


def read_line(line: bytes) -> Recorded:
    """Read a line.

    Raises:
        InvalidRecord: it is no recorded decision.
    """
    if len(line) > MOST_BYTES:
        raise InvalidRecord(f"is longer than {MOST_BYTES >> 20} MiB")
    try:
        line.decode()  # what the pod's resources are is read later, from the same bytes
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(f"no recorded decision: {error}") from None
    if found.version != VERSION:
        raise InvalidRecord(f"version {found.version} of recorded decisions; this is for version {VERSION}")
    own, size = found.nodes, len(found.nodes.names)
    columns = [getattr(own, name) for name in _Nodes.__struct_fields__]
    flat = [column for value in columns for column in (value if isinstance(value, tuple) else (value,))]
    if any(len(column) != size for column in [*flat, found.scores]):
        raise InvalidRecord("no recorded decision: not every column has a value for each node")
    nodes = ScoredNodes.from_columns(
        tuple(own.names),
        _array(own.capacity),
        allocatable=_array(own.allocatable),
        requested=_array(own.requested),
        limited=_array(own.limited),
        placeholders=_array(own.placeholders),
        pod_count=np.array(own.pods, dtype=np.int64),
    )
    known: BoolArray = np.array(own.known, dtype=np.bool_).reshape(2, size)
    usage = NodeUsage(
        state=np.array(own.state, dtype=np.uint8),
        known=known,
        mean_percent=_array(own.mean_percent),
        deviation_percent=_array(own.deviation_percent),
        missing=_array(own.missing),
        age_seconds=_array((own.age_seconds, own.age_seconds))[0],
        window_seconds=_array(own.window_seconds),
    )
    return Recorded(
        found.at, found.pod.namespace, found.pod.name, found.pod.spec, found.pod.placeholder, nodes, usage,
        found.coverage, np.array(found.scores, dtype=np.int64), found.rule,
    )  # fmt: skip


def _spec(spec: PodSpec | None) -> dict[str, Any]:
    """Return what of a pod's spec its demand is read from."""
    if spec is None:
        return {}
    parts = {"overhead": spec.overhead, "resources": spec.resources}
    return {
        "containers": [_container(own) for own in spec.containers or ()],
        "initContainers": [_container(own) for own in spec.init_containers or ()],
    } | {name: raw for name, raw in parts.items() if raw != ABSENT}


def _container(own: Container) -> dict[str, Any]:
    parts = {"name": own.name, "resources": own.resources}
    found: dict[str, Any] = {name: raw for name, raw in parts.items() if raw != ABSENT}
    return found | ({"restartPolicy": own.restart_policy} if own.restart_policy else {})


def _pair(columns: FloatArray, rows: IntArray) -> list[Column]:
    return [_column(column[rows]) for column in columns]


def _column(values: FloatArray) -> Column:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _array(pair: Iterable[Column]) -> FloatArray:
    return np.array([[np.nan if value is None else value for value in column] for column in pair], dtype=np.float64)
