"""What the extender answers: scores from what stands, and afterwards why a pod went where it went.

`prioritize` runs in the extender's thread and computes from one immutable basis. A decision is kept until the pod is
seen on a node, for ten minutes and a few pods at most. Then its explanation is kept for as long as the pod runs, of two
thousand pods at most. Nothing of that changes a later answer.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import numpy as np

from slack.cluster.identity import PLACEHOLDER, role_of
from slack.cluster.requests import request_text
from slack.cluster.wire import Pod, PodMetadata, PodSpec, PodStatus
from slack.scorer.asgi import NotKnown
from slack.scorer.ceiling import Ceiling, WhenAllAbove, is_exempt, nodes_above
from slack.scorer.extender import InvalidRequest, ScoreReplies
from slack.scorer.model import DecisionRule, IntArray, PodDemand, Scores, UsageState
from slack.scorer.scoring import scale_scores, score
from slack_operator.scorer.cluster_view import ScorerView
from slack_operator.scorer.score_cache import ScoreBasis

MOST_OPEN = 32
"""Decisions whose pod has no node yet; each may hold the basis of its time."""
MOST_EXPLAINED = 2_000
NO_CEILING = Ceiling()
MOST_TEXT_BYTES = 8 << 20
"""Of pods' resources whose demand is known already: about 200 bytes a workload, and a tenant may write a megabyte."""
KEPT_SECONDS = 600.0
"""A decision whose pod gets no node, and an explanation of a pod that is gone, are kept for so long."""
SHOWN = 5
_NO_SPEC, _NO_STATUS = PodSpec(), PodStatus()

DemandOf = Callable[[Pod], PodDemand]


class DecisionListener(Protocol):
    """Who counts what was decided."""

    def decided(self, rule: DecisionRule | None, nodes: int, unknown: int) -> None:
        """One answer: what held, of how many nodes, and how many of them are not known."""

    def all_above(self) -> None:
        """Every node that was asked about is above the ceiling."""


class ScoringDecision(NamedTuple):
    """One answer to the scheduler; terms of single nodes are worked out when they are asked for."""

    at: float
    pod: Pod
    demand: PodDemand
    standing: ScoreBasis
    rows: IntArray
    unknown: tuple[str, ...]
    scores: Scores


class DecisionRecord(Protocol):
    """Who writes decisions down."""

    def add_item(self, decision: ScoringDecision) -> None:
        """Take one; returns at once."""


class LiveScores:
    """The extender's `Scores`; `bound` is called by the watch of pods, `explain` by anybody."""

    def __init__(
        self,
        standing: Callable[[], ScoreBasis | None],
        view: ScorerView,
        demand_of: DemandOf,
        placeholder_namespace: str,
        told: DecisionListener,
        *,
        highest: int = 100,
        ceiling: Ceiling = NO_CEILING,
        record: DecisionRecord | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._standing = standing
        self._view = view
        self._demand_of = demand_of
        self._placeholder_namespace = placeholder_namespace
        self._told = told
        self._highest = highest
        self._ceiling = ceiling
        self._record = record
        self._wall = wall
        self._demands: dict[tuple[bytes, bool], PodDemand] = {}
        self._demand_bytes = 0
        self._forgot_at = wall()
        self._lock = threading.Lock()
        self._open: OrderedDict[str, ScoringDecision] = OrderedDict()
        self._explained: OrderedDict[str, tuple[float, Mapping[str, Any]]] = OrderedDict()
        """With the time of the decision."""

    def prioritize(self, pod: Pod, names: Sequence[str]) -> bytes:
        """Return a HostPriorityList; see `slack.scorer.asgi.NodeScorer`."""
        standing = self._standing()
        demand = self._demand(pod)
        if standing is None:
            self._told.decided(None, len(names), 0)
            return ScoreReplies(()).reply(names, [0] * len(names))
        rows, unknown = _rows(standing, names)
        scores = score(standing.basis, demand, rows if not unknown else rows[rows >= 0], with_terms=False)
        total = scale_scores(scores.total, self._highest)
        if unknown:
            all_total = np.zeros(len(names), dtype=np.int64)  # a node that is not known has the minimum
            all_total[rows >= 0] = total
            total = all_total
        self._told.decided(scores.rule, len(names), len(unknown))
        decision = ScoringDecision(self._wall(), pod, demand, standing, scores.rows, unknown, scores)
        key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        with self._lock:
            self._open[key] = decision
            self._open.move_to_end(key)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        if self._record is not None:
            self._record.add_item(decision)
        return standing.replies.reply(names, total.tolist())

    def refused(self, pod: Pod, names: Sequence[str], *, nominated: str = "") -> Mapping[str, str]:
        """Return nodes that the pod would bring above the ceiling; nodes of which nothing is known stay.

        A node that hovers about the ceiling may be below it when the scheduler evicts pods there, and above it when
        the pod is to follow. To refuse it then would cost the next node its pods too, and again: so it is not refused.
        """
        standing, demand = self._standing(), self._demand(pod)
        if standing is None or not self._ceiling or is_exempt(pod):
            return {}
        rows, _ = _rows(standing, names)
        above = nodes_above(standing.basis, demand, rows[rows >= 0], self._ceiling)
        found = {name: why for name, why in above.items() if name != nominated}
        if found and len(found) == len(names):
            self._told.all_above()
            if self._ceiling.when_all_above is WhenAllAbove.ADMIT:
                return {}
        return found

    def bound(self, namespace: str, name: str, node: str) -> None:
        """The pod was seen on a node: what was said of that node is kept, the rest of the decision is not."""
        key = f"{namespace}/{name}"
        with self._lock:
            decision = self._open.pop(key, None)
        if decision is None:
            return
        explained = _explain_node(key, decision, node, self._highest)
        with self._lock:
            self._explained[key] = decision.at, explained
            self._explained.move_to_end(key)
            if len(self._explained) > MOST_EXPLAINED:
                self._explained.popitem(last=False)

    def explain(self, namespace: str, pod: str) -> Mapping[str, Any]:
        """Return why a pod went where it went, or would."""
        key = f"{namespace}/{pod}"
        with self._lock:
            known, decision = self._explained.get(key), self._open.get(key)
        if known is not None:
            return known[1]
        if decision is not None:
            return _explain_node(key, decision, None, self._highest)
        with self._view.lock:
            node = self._view.state.node_of(namespace, pod)
            demand = self._view.state.demand_of_bound(namespace, pod)
        standing = self._standing()
        if node is None or demand is None or standing is None:
            raise NotKnown(
                f"nothing is known of pod {key}: it has no node and none was asked for, or it was deleted, or another "
                "scheduler places it and it is not there yet"
            )
        scores = score(standing.basis, demand, with_terms=False)
        now = ScoringDecision(
            self._wall(),
            Pod(metadata=PodMetadata(name=pod, namespace=namespace)),
            demand,
            standing,
            scores.rows,
            (),
            scores,
        )
        return {**_explain_node(key, now, node, self._highest), "remembered": False}

    def tidy(self) -> None:
        """Forget decisions whose pod has no node after a while, and explanations of pods that are gone."""
        now = self._wall()
        oldest = now - KEPT_SECONDS
        with self._lock:
            for key in [key for key, decision in self._open.items() if decision.at < oldest]:
                del self._open[key]
            aged = [key for key, (at, _) in self._explained.items() if at < oldest]
        with self._view.lock:
            gone = [key for key in aged if self._view.state.node_of(*key.split("/", 1)) is None]
        with self._lock:
            for key in gone:
                self._explained.pop(key, None)
        if now - self._forgot_at >= KEPT_SECONDS:
            self._forgot_at = now
            self._forget_demands()

    def _forget_demands(self) -> None:
        self._demands, self._demand_bytes = {}, 0

    def _demand(self, pod: Pod) -> PodDemand:
        placeholder = role_of(pod.metadata, self._placeholder_namespace) == PLACEHOLDER
        try:
            text = request_text(pod.spec or _NO_SPEC, pod.status or _NO_STATUS), placeholder
            found = self._demands.get(text)
            if found is None:
                found = replace(self._demand_of(pod), placeholder=placeholder)
                self._demand_bytes += len(text[0])
                if self._demand_bytes > MOST_TEXT_BYTES:
                    self._forget_demands()
                self._demands[text] = found
        except ValueError as error:
            raise InvalidRequest(f"Pod: {error}") from None
        return found


def _rows(standing: ScoreBasis, names: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return the row of each name, -1 for one that is not known; and those names."""
    row_of = standing.basis.nodes.row_of
    try:
        return np.fromiter(map(row_of.__getitem__, names), dtype=np.int64, count=len(names)), ()
    except KeyError:
        rows = np.fromiter((row_of.get(name, -1) for name in names), dtype=np.int64, count=len(names))
        return rows, tuple(name for name in names if name not in row_of)


def _place(decision: ScoringDecision, node: str | None) -> int | None:
    """Return where in the decision a node is; None where it was not asked about."""
    row = None if node is None else decision.standing.basis.nodes.row_of.get(node)
    if row is None:
        return None
    found = np.flatnonzero(decision.scores.rows == row)
    return int(found[0]) if found.size else None


def _explain_node(key: str, decision: ScoringDecision, node: str | None, highest: int) -> Mapping[str, Any]:
    scores, names = decision.scores, decision.standing.basis.nodes.names
    places = {names[int(scores.rows[place])]: int(place) for place in scores.order[:SHOWN]}
    chosen = _place(decision, node)
    shown = [*places.values(), *([] if chosen is None else [chosen])]
    details = score(decision.standing.basis, decision.demand, scores.rows[np.array(shown, dtype=np.int64)])
    result: dict[str, Any] = {
        "pod": key,
        "at": datetime.fromtimestamp(decision.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "rule": str(scores.rule),
        "remembered": True,
        "nodes_asked": len(scores.rows) + len(decision.unknown),
        "nodes_unknown": list(decision.unknown[:SHOWN]),
        "requests": dict(zip(("cpu_millis", "memory_bytes"), decision.demand.requests, strict=True)),
        "predicted": dict(zip(("cpu_millis", "memory_bytes"), decision.demand.predicted, strict=True)),
        "highest_score": highest,
        "node": node,
        "chosen": None if chosen is None else _of_node(node or "", scores, chosen, details, len(places), highest),
        "best": [
            _of_node(name, scores, place, details, at, highest) for at, (name, place) in enumerate(places.items())
        ],
    }
    if chosen is not None:
        result["nodes_with_a_better_score"] = int((scores.total > scores.total[chosen]).sum())
    return result


def _of_node(name: str, scores: Scores, place: int, details: Scores, at: int, highest: int) -> Mapping[str, Any]:
    """Describe one node: its scores as they were answered, its terms from the details."""
    return {
        "node": name,
        "score": int(scale_scores(scores.total[place : place + 1], highest)[0]),
        "state": UsageState(int(scores.state[place])).name.title().replace("_", ""),
        "algorithms": {algorithm: int(own[place]) for algorithm, own in scores.by_algorithm.items()},
        "terms": {
            term: round(float(values[at]), 6) if np.isfinite(values[at]) else None
            for term, values in details.terms.items()
        },
    }
