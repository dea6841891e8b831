"""Scores of one pod on many nodes: algorithms weighed, and the rules that hold when nothing is known.

`prepare` does what depends on nodes and load alone, once a refresh; `score` what depends on the pod. `score_nodes` is
both. A node whose CPU use is not known has the minimum. A new node, whose use is taken to be that of its recent pods,
has at most the lowest score of the measured nodes that are asked for beside it. So neither is ever above a node whose
CPU use is known. If the load of too few nodes is known, all nodes score the same. If no node's load is known,
`MetricRules.without_load` says what decides. A placeholder is no load, and scores the same everywhere. No data is
never the best score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slack.scorer.algorithms.allocation import allocated_percent
from slack.scorer.algorithms.figures import round_scores, take_columns
from slack.scorer.model import (
    HIGHEST_SCORE,
    Coverage,
    DecisionRule,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeUsage,
    PodDemand,
    Prepared,
    ScoredNodes,
    Scores,
    UsageState,
    Weighted,
)
from slack.scorer.rules import MetricRules, WithoutLoad
from slack.scorer.usage import SaidByWindows, said_by, usage_of

DEFAULT_RULES = MetricRules()
_EVERY_ROW = slice(None)
_LAST_KNOWN = int(UsageState.NEW)
_BY_ALLOCATIONS = (DecisionRule.SPREAD_ON_ALLOCATIONS, DecisionRule.BEST_FIT_ON_ALLOCATIONS)
_RULES_WITHOUT_LOAD = {
    WithoutLoad.SPREAD: DecisionRule.SPREAD_ON_ALLOCATIONS,
    WithoutLoad.NEUTRAL: DecisionRule.NO_LOAD,
    WithoutLoad.PACK: DecisionRule.BEST_FIT_ON_ALLOCATIONS,
}
_SEEN = ("age_seconds", "window_seconds", "missing_cpu_millis", "missing_memory_bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """All that does not depend on the pod: valid for as long as nodes and load are, some seconds."""

    algorithms: tuple[Weighted, ...]
    prepared: tuple[Prepared, ...]
    nodes: ScoredNodes
    usage: NodeUsage
    seen: FloatArray
    """[4, N] age of the newest window, length of the one that tells of CPU, what of CPU and memory no window shows."""
    now: float
    coverage: Coverage
    """Of the cluster's nodes."""
    without_load: WithoutLoad
    """What decides if the coverage is none."""
    said: SaidByWindows | None = None
    """What windows said, for the basis that comes next; None where use was known already."""


def score_nodes(
    algorithms: Sequence[Weighted],
    pod: PodDemand,
    nodes: ScoredNodes,
    load: LoadColumns,
    now: float,
    rules: MetricRules = DEFAULT_RULES,
) -> Scores:
    """Score every node for a pod.

    Args:
        algorithms: at least one, none twice.
        pod: what it asks for.
        nodes: all nodes of the cluster.
        load: what is known of their load, in the same order.
        now: Unix seconds.
        rules: what holds when metrics are missing, late or wrong.
    """
    return score(prepare(algorithms, nodes, load, now, rules), pod)


def prepare(
    algorithms: Sequence[Weighted],
    nodes: ScoredNodes,
    load: LoadColumns,
    now: float,
    rules: MetricRules = DEFAULT_RULES,
    before: Basis | None = None,
) -> Basis:
    """Do what does not depend on the pod; see `score_nodes`. `before`: the basis of last time, which may save work."""
    said = before.said if before is not None else None
    if (
        said is None
        or before is None
        or before.nodes.names is not nodes.names
        or not said.holds(load.windows, rules, now)
    ):
        said = said_by(load.windows, len(nodes), rules, now)
    basis = basis_of(algorithms, nodes, usage_of(nodes, load, rules, now, said), now, rules, before=before)
    return replace(basis, said=said)


def basis_of(
    algorithms: Sequence[Weighted],
    nodes: ScoredNodes,
    usage: NodeUsage,
    now: float,
    rules: MetricRules = DEFAULT_RULES,
    *,
    coverage: Coverage | None = None,
    before: Basis | None = None,
) -> Basis:
    """Return a basis of use that is known already.

    Args:
        algorithms: at least one, none twice.
        nodes: those that may be asked for.
        usage: of these nodes.
        now: Unix seconds.
        rules: what holds if metrics are missing.
        coverage: of the cluster's nodes, if these are not all of them.
        before: the basis of last time, which may save work.
    """
    same = before is not None and before.algorithms == tuple(algorithms)
    prepared = tuple(
        weighted.algorithm.prepare(nodes, usage, before.prepared[index] if same and before is not None else None)
        for index, weighted in enumerate(algorithms)
    )
    if coverage is None:
        coverage = coverage_of(usage, rules.min_measured_share)
    seen = np.stack([usage.age_seconds, usage.window_seconds[0], *usage.missing])
    return Basis(tuple(algorithms), prepared, nodes, usage, seen, now, coverage, rules.without_load)


def coverage_of(usage: NodeUsage, min_share: float) -> Coverage:
    """Return of how many nodes the CPU load is known; new nodes, which nobody expects to be measured, do not count."""
    measured = int((usage.state == UsageState.MEASURED).sum())
    if not measured:
        return Coverage.NONE
    expected = len(usage.state) - int((usage.state == UsageState.NEW).sum())
    return Coverage.ENOUGH if measured >= min_share * expected else Coverage.TOO_FEW


def score(basis: Basis, pod: PodDemand, rows: IntArray | None = None, *, with_terms: bool = True) -> Scores:
    """Score the nodes of these rows, all where none are given.

    Without terms it is quicker and holds a tenth of the memory; those of single rows can be had later, as a basis never
    changes.
    """
    asked = _EVERY_ROW if rows is None else rows
    own_rows = np.arange(len(basis.nodes)) if rows is None else rows
    state = basis.usage.state[asked]
    terms: dict[str, FloatArray] = dict(zip(_SEEN, take_columns(basis.seen, asked), strict=True)) if with_terms else {}
    by_algorithm: dict[str, IntArray] = {}
    rule = rule_of(basis, pod)
    if rule in _BY_ALLOCATIONS:
        percent = allocated_percent(basis.nodes, pod, asked)
        if with_terms:
            terms["allocation_percent"] = percent
        preferred = percent if rule is DecisionRule.BEST_FIT_ON_ALLOCATIONS else HIGHEST_SCORE - percent
        total = round_scores(np.where(percent <= HIGHEST_SCORE, preferred, 0.0))
    elif rule is not DecisionRule.MEASURED:
        total = np.zeros(len(own_rows), dtype=np.int64)
    else:
        own_scores: list[FloatArray] = []
        for weighted, prepared in zip(basis.algorithms, basis.prepared, strict=True):
            own_score, own_terms = prepared.score(pod, asked)
            own_scores.append(own_score)
            if with_terms:
                terms |= {f"{weighted.algorithm.name}.{term}": values for term, values in own_terms.items()}
        rounded = _held_to_measured(round_scores(np.stack(own_scores)) * (state <= _LAST_KNOWN), state)
        by_algorithm = {found.algorithm.name: own for found, own in zip(basis.algorithms, rounded, strict=True)}
        total = _weighted_sum(basis.algorithms, rounded)
    return Scores(own_rows, total, by_algorithm, state, rule, terms)


def rule_of(basis: Basis, pod: PodDemand) -> DecisionRule:
    """Return what decides for a pod."""
    if pod.placeholder:
        return DecisionRule.PLACEHOLDER
    if basis.coverage is Coverage.NONE:
        return _RULES_WITHOUT_LOAD[basis.without_load]
    return DecisionRule.MEASURED if basis.coverage is Coverage.ENOUGH else DecisionRule.TOO_FEW_MEASURED


def _held_to_measured(scores: IntArray, state: npt.NDArray[np.uint8]) -> IntArray:
    """Hold new nodes to the lowest score of a measured one, by algorithm; among new nodes alone nothing is changed."""
    is_new, measured = state == UsageState.NEW, state == UsageState.MEASURED
    if is_new.any() and measured.any():
        lowest = scores[:, measured].min(axis=1, keepdims=True)
        scores[:, is_new] = np.minimum(scores[:, is_new], lowest)
    return scores


def _weighted_sum(algorithms: Sequence[Weighted], scores: IntArray) -> IntArray:
    if len(algorithms) == 1:
        only: IntArray = scores[0]
        return only
    weights = np.array([weighted.weight for weighted in algorithms])
    return round_scores((weights / weights.sum()) @ scores.astype(np.float64))


def scale_scores(total: IntArray, highest: int) -> IntArray:
    """Return scores of 0 to 100 as scores of 0 to `highest`: 10 is the convention of extenders."""
    return total if highest == HIGHEST_SCORE else round_scores(total.astype(np.float64) * (highest / HIGHEST_SCORE))
