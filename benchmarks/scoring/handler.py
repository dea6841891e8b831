"""All four algorithms over nodes: numpy over all at once, the same formulas in Go node by node, and a Python loop.

All three score the same cluster for the same pod, and each score is compared with Go's. Go computes what a plugin in
the scheduler does for each pod, the load's risk included, which ours computes once a refresh: its time has a row.
"""

import json
import math
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Report, Row
from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.peaks import Peaks, PowerModel
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.model import (
    FloatArray,
    IntArray,
    LoadColumns,
    PodDemand,
    RecentPods,
    ScoredNodes,
    Weighted,
    WindowLoad,
)
from slack.scorer.scoring import Basis, prepare, score

NODES = 5_000
LISTED = 500
"""Names in a call at 5,000 nodes, where percentageOfNodesToScore is left alone."""
RUNS = 300
TARGET_PERCENT = 40.0
NOW = 1_800_000_000.0
FORMULAS = Path(__file__).with_name("formulas")
POD = PodDemand(requests=(500.0, 1e9), limits=(1000.0, 2e9), predicted=(1000.0, 2e9))
TARGETS_US = {LISTED: 200, NODES: 1000}


class Cluster(NamedTuple):
    """Nodes with load and recent pods, and the algorithms that score them."""

    nodes: ScoredNodes
    load: LoadColumns
    algorithms: tuple[Weighted, ...]
    power: FloatArray
    """[2, N] k1 and k2."""


def cluster(size: int = NODES, seed: int = 1) -> Cluster:
    """Return a cluster like those of its size: nodes of a few types, every tenth with a recent pod."""
    rng = np.random.default_rng(seed)
    capacity = np.stack([rng.choice([4000.0, 8000.0, 16000.0], size), rng.choice([16e9, 32e9, 64e9], size)])
    requested = capacity * rng.uniform(0.2, 0.9, (2, size))
    names = tuple(f"ip-10-{row // 250}-{row % 250}-17.eu-central-1.compute.internal" for row in range(size))
    power = np.stack([rng.uniform(10, 60, size), rng.uniform(0.01, 0.03, size)])
    models = {name: PowerModel(90.0, k1, k2) for name, k1, k2 in zip(names, *power.tolist(), strict=True)}
    window = WindowLoad(
        300.0,
        np.full(size, NOW),
        rng.uniform(5, 80, (2, size)),
        rng.uniform(0.5, 15, (2, size)),
    )
    recent = RecentPods(
        np.arange(0, size, 10, dtype=np.int64), np.full(len(range(0, size, 10)), NOW - 30.0),
        np.full((2, len(range(0, size, 10))), [[500.0], [1e9]]),
    )  # fmt: skip
    algorithms = tuple(
        Weighted(own)
        for own in (
            TargetLoadPacking(TARGET_PERCENT), LoadVariationRiskBalancing(), LowRiskOverCommitment(), Peaks(models)
        )
    )  # fmt: skip
    nodes = ScoredNodes.from_columns(
        names, capacity, requested=requested, limited=requested * rng.uniform(1, 1.6, (2, size))
    )
    return Cluster(nodes, LoadColumns((window,), recent), algorithms, power)


def report(runs: int = RUNS) -> Report:
    """Measure: both sizes of a call, and a refresh."""
    own = cluster()
    basis = prepare(own.algorithms, own.nodes, own.load, NOW)
    found = Report("All four algorithms for one pod: ours, the formulas in Go node by node, a Python loop")
    for listed in (LISTED, NODES):
        rows = np.arange(listed, dtype=np.int64) * (NODES // listed)
        found.rows.append(_row(own, basis, rows, runs))
    refreshes = {
        "refresh, all nodes changed": _micros(lambda: prepare(own.algorithms, own.nodes, own.load, NOW), runs // 10),
        "refresh, no node changed": _micros(
            lambda: prepare(own.algorithms, own.nodes, own.load, NOW, before=basis), runs // 10
        ),
    }
    for what, micros in refreshes.items():
        nothing = {"target p50 us": None, "Go p50 us": None, "Go p99 us": None, "Python us": None}
        found.rows.append({"what": what, **_spread(micros), **nothing})
    return found


def _row(own: Cluster, basis: Basis, rows: IntArray, runs: int) -> Row:
    micros = _micros(lambda: score(basis, POD, rows, with_terms=False), runs)
    go = _go(own, basis, rows, runs)
    if go is not None:
        scores = score(basis, POD, rows).by_algorithm
        for algorithm, theirs in zip(own.algorithms, go["scores"], strict=True):
            ours = scores[algorithm.algorithm.name]
            worst = int(np.abs(ours - np.array(theirs)).max())
            if worst > 0:
                raise ValueError(f"{algorithm.algorithm.name}: a score differs from Go's by {worst}")
    return {
        "what": f"{len(rows):,} nodes",
        **_spread(micros),
        "target p50 us": TARGETS_US[len(rows)],
        "Go p50 us": None if go is None else _at(go["micros"], 50),
        "Go p99 us": None if go is None else _at(go["micros"], 99),
        "Python us": _at(_micros(lambda: _python_loop(own, basis, rows), 5), 50),
    }


def _micros(work: Callable[[], object], runs: int) -> list[float]:
    work()
    micros = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        micros.append((time.perf_counter() - began) * 1e6)
    return micros


def _spread(micros: list[float]) -> dict[str, float]:
    return {"least us": min(micros), "p50 us": _at(micros, 50), "p99 us": _at(micros, 99)}


def _at(micros: list[float], percentile: int) -> float:
    return quantiles(micros, n=100, method="inclusive")[percentile - 1]


def _go(own: Cluster, basis: Basis, rows: IntArray, runs: int) -> Any:
    """Return what the Go program says; None where there is no Go."""
    if shutil.which("go") is None:
        return None
    nodes, usage = own.nodes, basis.usage
    columns = {
        "capacity": nodes.capacity, "requested": nodes.requested, "limited": nodes.limited,
        "mean": usage.mean_percent, "deviation": usage.deviation_percent, "missing": usage.missing,
    }  # fmt: skip
    asked = {
        "runs": runs,
        "rows": rows.tolist(),
        "target": TARGET_PERCENT,
        "pod": {"requests": POD.requests, "limits": POD.limits, "predicted": POD.predicted[0]},
        "nodes": [
            {name: column[:, row].tolist() for name, column in columns.items()}
            | {"k1": own.power[0, row], "k2": own.power[1, row]}
            for row in range(len(nodes))
        ],
    }
    answer = subprocess.run(
        ["go", "run", "."],
        cwd=FORMULAS,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(answer.stdout)


def _python_loop(own: Cluster, basis: Basis, rows: IntArray) -> list[float]:
    """Score node by node, without LowRiskOverCommitment's beta distribution, which would take seconds."""
    nodes, usage = own.nodes, basis.usage
    totals = []
    for row in rows.tolist():
        capacity, memory = float(nodes.capacity[0, row]), float(nodes.capacity[1, row])
        mean = float(usage.mean_percent[0, row])
        utilization = mean + 100 * (POD.predicted[0] + float(usage.missing[0, row])) / capacity
        if utilization > 100:
            packing = 0.0
        elif utilization > TARGET_PERCENT:
            packing = TARGET_PERCENT * (100 - utilization) / (100 - TARGET_PERCENT)
        else:
            packing = (100 - TARGET_PERCENT) * utilization / TARGET_PERCENT + TARGET_PERCENT
        risks = [
            (min(float(usage.mean_percent[resource, row]) / 100 + request / size, 1)
             + float(usage.deviation_percent[resource, row]) / 100) / 2
            for resource, request, size in ((0, POD.requests[0], capacity), (1, POD.requests[1], memory))
        ]  # fmt: skip
        jump = math.exp(0.02 * (mean + 100 * POD.requests[0] / capacity)) - math.exp(0.02 * mean)
        totals.append(packing + 100 * (1 - max(risks)) + jump)
    return totals
