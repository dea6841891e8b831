"""Which kinds of pods are avoided by pods that run, and on which nodes these stand: the part of it that arrays answer.

`slack.cluster.avoidance` compares terms with labels; here it is asked for those kinds only whose labels some term asks
for, and only after the kinds, their labels or who runs have changed. Nothing is done where no pod that runs has
required anti-affinity. Owned by `SnapshotBuilder`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from slack.cluster.avoidance import Avoidance, Avoided, AvoidingPods, AvoidingTerms
from slack.cluster.classes import Constraints
from slack.cluster.columns_copy import ColumnsCopy
from slack.cluster.selectors import Labels
from slack.cluster.snapshot import Avoider, AvoiderNodes, IndexArray, IntArray, Workload

_NOBODY = np.zeros(0, dtype=np.int64)


class KindsById(NamedTuple):
    """What of the kinds is asked for here; K rows."""

    position: IndexArray
    """[kind id] row, -1 for ids that are not live."""
    workloads: tuple[Workload, ...]
    """The same object while the kinds are the same."""
    labels: tuple[tuple[tuple[str, str], ...], ...]
    """[K] those that their own terms look at."""
    constraints: IntArray
    """[K] ids."""
    constraints_of: Mapping[int, tuple[Constraints, str]]
    """By such an id."""


class _Runs(NamedTuple):
    """Who avoids others now."""

    workloads: tuple[Workload, ...]
    """Of all kinds: what it was found for."""
    rows: IntArray
    """Kinds with terms of which pods run."""
    numbers: IntArray
    """Of each of these rows, its place in `pods`."""
    daemons: tuple[tuple[AvoidingPods, int], ...]
    pods: tuple[AvoidingPods, ...]
    """Those of DaemonSets are the last."""
    terms: Mapping[int, str]
    """By id of constraints."""


class ShownAvoidance(NamedTuple):
    """What is shown of a snapshot's kinds."""

    avoided: Avoided
    """By row of all kinds."""
    avoiders: tuple[Avoider, ...]
    standing: AvoiderNodes | None
    terms: AvoidingTerms | None = None


class AvoidedKinds:
    """Looks for avoided kinds in one copy of the columns after the other."""

    def __init__(self) -> None:
        self._avoidance = Avoidance()
        self._terms: tuple[object, IntArray, Mapping[int, str]] | None = None
        self._runs: _Runs | None = None
        self._changes: dict[int, Labels | None] = {}
        """Changes of labels that nobody has looked at, as there was no need."""
        self._namespaces: object = None
        self._shown: tuple[_Runs, IntArray, Avoided, tuple[Avoider, ...]] | None = None

    def look(self, copy: ColumnsCopy, kinds: KindsById, running: IntArray, node_position: IndexArray) -> ShownAvoidance:
        """Return the avoided kinds, and who avoids them.

        Args:
            copy: of the columns, the next one.
            kinds: all of them.
            running: [K] pods on nodes.
            node_position: [node row] row in the snapshot, -1 for nodes that are not known.
        """
        self._changes.update(copy.label_changes)
        runs = self._who_runs(kinds, running, copy.avoiding_daemons)
        if not runs.pods:
            return ShownAvoidance({}, (), None)
        if self._changes or copy.namespaces is not self._namespaces:
            self._shown = None
        self._namespaces = copy.namespaces
        self._avoidance.update(runs.pods, self._changes, copy.label_size, copy.namespaces)
        self._changes = {}
        of_pods = np.append(kinds.position, -1).take(copy.kind, mode="wrap")
        pairs = _pairs(len(kinds.workloads), of_pods, copy.pod_labels, self._avoidance)
        if self._shown is None or self._shown[0] is not runs or not np.array_equal(self._shown[1], pairs):
            self._shown = (runs, pairs, *self._avoided(kinds, runs, pairs))
        _, _, avoided, avoiders = self._shown
        if not avoiders:
            return ShownAvoidance(avoided, avoiders, None, self._avoidance.asked)
        number = np.full(len(kinds.workloads) + 1, -1, dtype=np.int64)  # the last is for what is no real pod
        number[runs.rows] = runs.numbers
        place = {own: n for n, own in enumerate(runs.pods)}
        daemons = [(place[own], node) for own, node in copy.avoiding_daemons]
        standing = AvoiderNodes(number, of_pods, copy.node, node_position, daemons)
        return ShownAvoidance(avoided, avoiders, standing, self._avoidance.asked)

    def _who_runs(self, kinds: KindsById, running: IntArray, daemons: tuple[tuple[AvoidingPods, int], ...]) -> _Runs:
        if self._terms is None or self._terms[0] is not kinds.workloads:
            texts = {index: own.anti_affinity for index, (own, _) in kinds.constraints_of.items() if own.anti_affinity}
            rows = np.flatnonzero(np.isin(kinds.constraints, list(texts))) if texts else _NOBODY
            self._terms = kinds.workloads, rows, texts
        _, rows, terms = self._terms
        rows, before = rows[running[rows] > 0], self._runs
        known = before is not None and before.workloads is kinds.workloads and before.daemons is daemons
        if before is not None and known and np.array_equal(before.rows, rows):
            return before
        own = [
            AvoidingPods(kinds.workloads[k], kinds.labels[k], terms[index])
            for k, index in zip(rows.tolist(), kinds.constraints[rows].tolist(), strict=True)
        ]
        # Kinds that differ in other respects only are one; the order of kinds does not depend on that of events.
        pods = tuple(dict.fromkeys((*own, *(pods for pods, _ in daemons))))
        number = {pods: n for n, pods in enumerate(pods)}
        numbers = np.array([number[pods] for pods in own], dtype=np.int64)
        self._runs = _Runs(kinds.workloads, rows, numbers, daemons, pods, terms)
        return self._runs

    def _avoided(self, kinds: KindsById, runs: _Runs, pairs: IntArray) -> tuple[Avoided, tuple[Avoider, ...]]:
        found: Avoided = {}
        for k, index in pairs.tolist():
            matching = self._of_others(kinds, runs, k, index)
            if matching is None or matching:
                before = found.get(k, ())
                found[k] = None if matching is None or before is None else (*before, *matching)
        used = sorted({term for terms in found.values() for term in terms or ()})
        at = {term: number for number, term in enumerate(used)}
        avoided: Avoided = {
            k: None if terms is None else tuple(sorted({at[term] for term in terms})) for k, terms in found.items()
        }
        return avoided, tuple(map(self._avoidance.avoider, used))

    def _of_others(self, kinds: KindsById, runs: _Runs, k: int, index: int) -> list[int] | None:
        """Return the terms that match a kind's pods with these labels and that others than its own pods have."""
        matching = self._avoidance.terms_for(kinds.workloads[k].namespace, index)
        if matching is None:
            return None
        itself = kinds.workloads[k], runs.terms.get(int(kinds.constraints[k]), "")

        def is_of_others(owners: Iterable[int]) -> bool:
            return any((runs.pods[own].workload, runs.pods[own].anti_affinity) != itself for own in owners)

        return [term for term in matching if is_of_others(self._avoidance.owners(term))]


def _pairs(count: int, of_pods: IndexArray, labels: IndexArray, avoidance: Avoidance) -> IntArray:
    """[M, 2] kinds with the ids of their pods' labels, those that some term may match, each once and in order."""
    first = np.full(count + 1, -1, dtype=np.int32)  # the last is for what is no real pod
    first[of_pods] = labels
    first[-1] = -1
    further = np.flatnonzero(labels != first[of_pods])
    further = further[of_pods[further] >= 0]
    rows = np.concatenate([np.arange(count + 1, dtype=np.int64), of_pods[further]])
    ids = np.concatenate([first, labels[further]]).astype(np.int64)
    may = avoidance.may_avoid(ids)
    cells = np.unique(rows[may] << 32 | ids[may])
    return np.stack([cells >> 32, cells & 0xFFFFFFFF], axis=1)
