"""Where pods go at equal load: by requests, as the stock profile scores nodes, and by real load.

The simulator's scheduler places the same pods three times; what differs is its scoring function. Each pod requests an
amount, uses another, and its use varies. The stock profile is NodeResourcesFit (LeastAllocated) with
NodeResourcesBalancedAllocation beside it; with the scorer both are off, as its scheduler-config has them. Metrics come
late: a pod shows after a minute, and is predicted until then.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Report
from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.configuration.arguments import DEFAULT_SCALE
from slack.scorer.model import (
    CPU,
    Algorithm,
    FloatArray,
    IntArray,
    LoadColumns,
    PodDemand,
    RecentPods,
    ScoredNodes,
    Weighted,
    WindowLoad,
)
from slack.scorer.scoring import scale_scores, score_nodes
from slack.simulator.model.node_choice import NodeScoring
from slack.simulator.model.state import ModelledCluster
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import Scenario, parse_scenario

NODES = 60
PODS = 500
SECONDS_BETWEEN = 5.0
SHOWN_AFTER_SECONDS = 60.0
HOT_PERCENT = 80.0
"""Mean and one deviation of a node that is hot."""
CAPACITY = np.array([8_000.0, 32e9])


class Pods(NamedTuple):
    """P pods, in the order in which they come."""

    request: FloatArray
    """[2, P]"""
    use: FloatArray
    """[2, P] mean."""
    deviation: FloatArray
    """[2, P]"""


class Outcome(NamedTuple):
    """Where they went."""

    hot_nodes: int
    used_nodes: int
    hottest_percent: float


def pods(seed: int, count: int = PODS) -> Pods:
    """Return pods of which most use half of what they request, some thrice as much, a few in bursts."""
    rng = np.random.default_rng(seed)
    request = np.stack([rng.choice([100.0, 250.0, 500.0, 1000.0], count), rng.choice([0.5e9, 1e9, 2e9], count)])
    use = request * np.stack([rng.choice([0.2, 0.5, 0.8, 3.0], count, p=[0.4, 0.3, 0.2, 0.1]), np.full(count, 0.6)])
    return Pods(request, use, use * np.stack([rng.choice([0.1, 0.6], count, p=[0.7, 0.3]), np.full(count, 0.05)]))


def play(algorithm: Algorithm | None, own: Pods, scale: int = DEFAULT_SCALE) -> Outcome:
    """Let the simulator's scheduler place all pods; by the stock profile's scores where no algorithm is given.

    Args:
        algorithm: that scores nodes.
        own: the pods.
        scale: the best score that the scheduler is sent.

    Raises:
        ValueError: they do not all fit.
    """
    scoring = NodeScoring(balanced_allocation, beside_stock=True)
    if algorithm is not None:
        scoring = NodeScoring(ByLoad(algorithm, own, scale).score)
    simulation = Simulation(scenario(own), node_scoring=scoring)
    while simulation.step():
        pass
    place = by_number(simulation.cluster, own)
    if (place < 0).any():
        raise ValueError("the pods do not fit: make more nodes or fewer pods")
    mean = _by_node(own.use, place)[CPU] / CAPACITY[CPU] * 100
    deviation = np.sqrt(_by_node(own.deviation**2, place)[CPU]) / CAPACITY[CPU] * 100
    used = int((np.bincount(place, minlength=NODES) > 0).sum())
    return Outcome(int((mean + deviation > HOT_PERCENT).sum()), used, float((mean + deviation).max()))


def scenario(own: Pods) -> Scenario:
    """Return the scenario in which the pods come one after the other, and none goes."""
    arrivals: dict[tuple[float, float], list[list[float | None]]] = {}
    for index, (cpu, memory) in enumerate(own.request.T.tolist()):
        arrivals.setdefault((cpu, memory), []).append([index * SECONDS_BETWEEN, None])
    workloads = [
        {
            "name": f"cpu-{cpu:.0f}m-memory-{memory / 1e6:.0f}m",
            "requests": {"cpu": f"{cpu:.0f}m", "memory": f"{memory:.0f}"},
            "arrivals": {"kind": "replay", "rows": rows},
        }
        for (cpu, memory), rows in arrivals.items()
    ]
    document: dict[str, Any] = {
        "name": "placement",
        "nodeGroups": [
            {
                "name": "n",
                "allocatable": {"cpu": f"{CAPACITY[0]:.0f}m", "memory": f"{CAPACITY[1]:.0f}", "pods": "110"},
                "initial": NODES,
            }
        ],
        "workloads": workloads,
        "autoscaler": {"kind": "none"},
        "slack": {"kind": "none"},
        "duration": f"{int(own.request.shape[1] * SECONDS_BETWEEN) + 60}s",
        "timelineRows": 10,
    }
    return parse_scenario(document, source="benchmarks/scoring/placement.py")


def by_number(cluster: ModelledCluster, own: Pods) -> IntArray:
    """[P] Return the node of each pod in the order in which they came, -1 where it has none (yet)."""
    place: IntArray = np.full(own.request.shape[1], -1, dtype=np.int64)
    place[np.array(cluster.number, dtype=np.int64) - 1] = cluster.node_of
    return place


def balanced_allocation(cluster: ModelledCluster, row: int, now: float) -> IntArray:
    """Score as NodeResourcesBalancedAllocation does: 1 less the deviation of both shares, as whole numbers to 100."""
    size = cluster.size
    requests = cluster.kinds[cluster.kind_of[row]].requests[:2, np.newaxis]
    requested = cluster.allocatable[:2, :size] - cluster.free[:2, :size] + requests
    shares = np.minimum(requested / cluster.allocatable[:2, :size], 1.0)
    balanced: IntArray = np.floor((1 - np.abs(shares[0] - shares[1]) / 2) * 100).astype(np.int64)
    return balanced


class ByLoad:
    """The scorer's algorithm as a scoring function of the simulator, with what metrics would tell at that moment."""

    def __init__(self, algorithm: Algorithm, own: Pods, scale: int) -> None:
        self._scale = scale
        self._algorithms = (Weighted(algorithm),)
        self._own = own
        self._names = tuple(f"n{row}" for row in range(NODES))
        self._capacity = np.repeat(CAPACITY[:, np.newaxis], NODES, axis=1)
        self._came: FloatArray = np.arange(own.request.shape[1], dtype=np.float64) * SECONDS_BETWEEN

    def score(self, cluster: ModelledCluster, row: int, now: float) -> IntArray:
        """Return the scores of `slack.scorer.scoring.score_nodes`."""
        own, place = self._own, by_number(cluster, self._own)
        cpu, memory = own.request[:, cluster.number[row] - 1].tolist()
        demand = PodDemand(requests=(cpu, memory), limits=(cpu, memory), predicted=(cpu, memory))
        nodes = ScoredNodes.from_columns(self._names, self._capacity, requested=_by_node(own.request, place))
        scores = score_nodes(self._algorithms, demand, nodes, self._load(place, now), now)
        return scale_scores(scores.total, self._scale)

    def _load(self, place: IntArray, now: float) -> LoadColumns:
        """Return what metrics tell: pods of the last minute do not show yet, and are told as recent ones."""
        own, size = self._own, CAPACITY[:, np.newaxis]
        shown = np.where(now - self._came >= SHOWN_AFTER_SECONDS, place, -1)
        recent = np.flatnonzero((place >= 0) & (shown < 0))
        window = WindowLoad(
            300.0,
            np.full(NODES, now),
            _by_node(own.use, shown) / size * 100,
            np.sqrt(_by_node(own.deviation**2, shown)) / size * 100,
        )
        return LoadColumns((window,), RecentPods(place[recent], self._came[recent], own.request[:, recent]))


def report(seeds: int = 5) -> Report:
    """Play each profile with the same pods."""
    found = Report(f"Where {PODS} pods go on {NODES} nodes at equal load, mean of {seeds} simulations")
    profiles: dict[str, Algorithm | None] = {
        "stock profile": None,
        "LoadVariationRiskBalancing": LoadVariationRiskBalancing(),
        "TargetLoadPacking": TargetLoadPacking(),
    }
    stock: tuple[float, float] | None = None
    for name, algorithm in profiles.items():
        outcomes = [play(algorithm, pods(seed)) for seed in range(seeds)]
        hot, used, hottest = (float(np.mean(column)) for column in zip(*outcomes, strict=True))
        stock = (hot, used) if stock is None else stock
        found.rows.append(
            {
                "profile": name,
                "hot nodes": f"{hot:.1f}",
                "wanted hot": f"< {stock[0]:.1f}" if name == "LoadVariationRiskBalancing" else "-",
                "nodes used": f"{used:.1f}",
                "wanted used": f"< {stock[1]:.1f}" if name == "TargetLoadPacking" else "-",
                "hottest node": f"{hottest:.0f} %",
            }
        )
    return found


def _by_node(amounts: FloatArray, place: IntArray) -> FloatArray:
    placed = place >= 0
    return np.stack([np.bincount(place[placed], row[placed], minlength=NODES) for row in amounts])
