"""What scores are computed from, and what comes of it: nodes and load as columns, a pod's demand, scores with terms.

All arrays of one call follow the same order of nodes. Where an array has two axes, the first is the resource: row `CPU`
in millicores, row `MEMORY` in bytes. What is not known is NaN, never 0. Values are never changed after they were made.

Usage:
    nodes = NodeColumns.from_columns(names, capacity, allocatable, ...)
    scores = score_nodes(algorithms, pod, nodes, load, now)      # slack.scorer.scoring
    nodes.names[scores.best], scores.total[scores.best], scores.terms["TargetLoadPacking.utilization_percent"]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Terms = Mapping[str, FloatArray]
"""Every intermediate figure by name, one value a node."""

CPU, MEMORY = 0, 1
RESOURCES = ("cpu", "memory")
HIGHEST_SCORE = 100


@dataclass(frozen=True, slots=True, eq=False)
class ScoredNodes:
    """N nodes, as the API server shows them with the pods that are bound there. Placeholders of slack stand apart."""

    names: tuple[str, ...]
    row_of: Mapping[str, int]
    capacity: FloatArray
    """[2, N] status.capacity: what utilization is a share of."""
    allocatable: FloatArray
    """[2, N] status.allocatable: what requests must fit into."""
    requested: FloatArray
    """[2, N] effective requests of the pods there, without placeholders."""
    limited: FloatArray
    """[2, N] effective limits of the same pods, each at least its requests."""
    placeholders: FloatArray
    """[2, N] effective requests of the placeholders there."""
    pod_count: IntArray
    """[N] pods there, without placeholders."""
    created_seconds: FloatArray
    """[N] Unix time of creation."""

    @classmethod
    def from_columns(
        cls,
        names: tuple[str, ...],
        capacity: FloatArray,
        *,
        allocatable: FloatArray | None = None,
        requested: FloatArray | None = None,
        limited: FloatArray | None = None,
        placeholders: FloatArray | None = None,
        pod_count: IntArray | None = None,
        created_seconds: FloatArray | None = None,
    ) -> "ScoredNodes":
        """Return columns; what is left out: allocatable is the capacity, limits are requests, nothing runs there."""
        size = len(names)
        nothing = np.zeros((len(RESOURCES), size))
        requested = nothing if requested is None else requested
        return cls(
            names=names,
            row_of={name: row for row, name in enumerate(names)},
            capacity=capacity,
            allocatable=capacity if allocatable is None else allocatable,
            requested=requested,
            limited=requested if limited is None else np.maximum(limited, requested),
            placeholders=nothing if placeholders is None else placeholders,
            pod_count=np.zeros(size, dtype=np.int64) if pod_count is None else pod_count,
            created_seconds=np.full(size, np.nan) if created_seconds is None else created_seconds,
        )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class WindowLoad:
    """What nodes used over one window, in percent of their capacity."""

    window_seconds: float
    end_seconds: FloatArray
    """[N] Unix time until which a node's figures reach; NaN for a node of which the window says nothing."""
    mean_percent: FloatArray
    """[2, N] AVG, or where there is none Latest."""
    deviation_percent: FloatArray
    """[2, N] STD."""


@dataclass(frozen=True, slots=True, eq=False)
class RecentPods:
    """P pods that were bound lately, in any order, with the use that is predicted of each.

    Neither placeholders nor finished pods are among them, nor those that the first list of a watch has shown.
    """

    node: IntArray
    """[P] row in `ScoredNodes`."""
    bound_seconds: FloatArray
    """[P] Unix time."""
    use: FloatArray
    """[2, P] predicted, in millicores and bytes."""

    @classmethod
    def none(cls) -> "RecentPods":
        """Return no pods."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((len(RESOURCES), 0)))


@dataclass(frozen=True, slots=True, eq=False)
class LoadColumns:
    """What is known of the load: windows of any lengths, in any order, and the pods that no window covers yet."""

    windows: tuple[WindowLoad, ...]
    recent: RecentPods = field(default_factory=RecentPods.none)


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What the pod that is to be placed asks for, overhead included (`slack.scorer.inputs.prediction.demand_of`)."""

    requests: tuple[float, float] = (0.0, 0.0)
    """Effective requests: millicores, bytes."""
    limits: tuple[float, float] = (0.0, 0.0)
    """Effective limits, at least the requests."""
    predicted: tuple[float, float] = (0.0, 0.0)
    """What it is expected to use."""
    placeholder: bool = False
    """It is one of slack's own: no load, wherever it goes."""


class UsageState(IntEnum):
    """Why a node's use is known, or is not."""

    MEASURED = 0
    """A window that is new enough tells."""
    NEW = 1
    """Just made, without metrics and without older pods: nothing is used but by its recent pods."""
    NO_METRICS = 2
    STALE = 3
    """The newest window is too old."""
    FUTURE = 4
    """The newest window ends later than now: one of the clocks is wrong."""
    NO_CPU = 5
    """Memory is known, CPU is not. A score by memory alone could be above that of a node whose CPU is known."""

    @property
    def known(self) -> bool:
        """Whether the algorithms may score the node; else it has the minimum."""
        return self <= UsageState.NEW


class Coverage(StrEnum):
    """Of how many nodes of the cluster the CPU load is known."""

    ENOUGH = "Enough"
    TOO_FEW = "TooFew"
    """Of fewer than the configured share."""
    NONE = "None"


class DecisionRule(StrEnum):
    """What held for a whole decision."""

    MEASURED = "Measured"
    """Nodes by the algorithms; those that are not known at 0."""
    TOO_FEW_MEASURED = "TooFewMeasured"
    """The load of too few nodes is known: every node the same."""
    SPREAD_ON_ALLOCATIONS = "SpreadOnAllocations"
    """No node of the cluster is known: by what is requested there, the emptiest first."""
    BEST_FIT_ON_ALLOCATIONS = "BestFitOnAllocations"
    """No node of the cluster is known: by what is requested there, the fullest that still has space first."""
    NO_LOAD = "NoLoad"
    """No node of the cluster is known, and the scorer is configured to be neutral then: every node the same."""
    PLACEHOLDER = "Placeholder"
    """The pod is no load: every node the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The answer for one pod, in the order of the rows that were asked for."""

    rows: IntArray
    """[n] rows in `ScoredNodes`."""
    total: IntArray
    """[n] 0 to 100, the mean of the algorithms' scores by their weights."""
    by_algorithm: Mapping[str, IntArray]
    """[n] 0 to 100 each, by the algorithm's name. Empty where the rule is another than Measured."""
    state: npt.NDArray[np.uint8]
    """[n] `UsageState`."""
    rule: DecisionRule
    terms: Terms
    """[n] each; an algorithm's own begin with its name: `TargetLoadPacking.utilization_percent`. Empty where they were
    not asked for."""

    @property
    def order(self) -> IntArray:
        """Return the places in `rows`, the best first."""
        return best_first(self.total, self.state)

    @property
    def best(self) -> int:
        """Return where in `rows` the best node is, as of `order`; -1 without nodes."""
        return int(self.order[0]) if len(self.total) else -1


def best_first(total: IntArray, state: npt.NDArray[np.uint8]) -> IntArray:
    """Return the places of nodes, the best first. Of equal scores, a node whose CPU use is measured is first."""
    order: IntArray = np.lexsort((state != UsageState.MEASURED, -total))
    return order


class Prepared(Protocol):
    """An algorithm with all of it that does not depend on the pod."""

    def score(self, pod: PodDemand, rows: IntArray | slice) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Return scores (0 to 100, not rounded) and terms; what it says of nodes that are not known is not used."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeUsage:
    """What is used on each node as far as can be told now; made by `slack.scorer.usage.usage_of`."""

    state: npt.NDArray[np.uint8]
    """[N] `UsageState`."""
    known: BoolArray
    """[2, N] whether a mean of the resource is known."""
    mean_percent: FloatArray
    """[2, N] of capacity; 0 where it is not known."""
    deviation_percent: FloatArray
    """[2, N] of capacity; where it is not known the largest that is known, 0 where none is."""
    missing: FloatArray
    """[2, N] predicted use of recent pods that the window does not cover: millicores, bytes."""
    age_seconds: FloatArray
    """[N] since the end of the newest window; NaN without one."""
    window_seconds: FloatArray
    """[2, N] of the window that was used; NaN without one."""


class Algorithm(Protocol):
    """One way to score, with its arguments."""

    @property
    def name(self) -> str:
        """Upstream's name of the plugin."""

    def prepare(self, nodes: ScoredNodes, usage: NodeUsage, before: Prepared | None) -> Prepared:
        """Return what scores pods; `before`: what the same algorithm prepared last, which may save work."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """An algorithm and how much its score counts beside the others'."""

    algorithm: Algorithm
    weight: float = 1.0
