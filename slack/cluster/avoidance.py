"""Whom pods that run avoid: kube-scheduler heeds required anti-affinity in both directions.

It keeps a pod off each topology domain in which a pod stands whose required anti-affinity matches it (plugin
InterPodAffinity, v1.36.3, `getExistingAntiAffinityCounts`). Only pods with such terms are looked at. Terms are found by
the labels that they ask for, and what was found for labels is kept, so work grows neither with pods x nodes nor with
kinds x terms. Owned by `SnapshotBuilder`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slack.cluster.selectors import Labels, Namespaces, matches, resolved, terms_of
from slack.cluster.snapshot import Avoider, IntArray, Workload

MOST_CHECKS = 100_000
"""Comparisons of a term with labels for one snapshot. Beyond them, who is avoided is not known."""
MOST_CHECKS_OF_ONE = 1_000
"""Comparisons of terms with the labels of one template."""
MOST_AVOIDERS = 64
"""Of one kind of pods; if more avoid it, that is not known."""
_NAMED = 3
"""Workloads of one term that are named."""
_Items = tuple[tuple[str, str], ...]
_ANY: tuple[str, str] = ("", "")
"""Stands for terms that ask for no value of any label."""
Avoided = dict[int, tuple[int, ...] | None]
"""Kinds by row: which of the avoiders avoid its pods; None where that is not known."""


class AvoidingPods(NamedTuple):
    """Pods with the same terms that run, of one workload."""

    workload: Workload
    labels: _Items
    """Those of their own that their terms look at."""
    anti_affinity: str
    """As `Constraints` has it."""


@dataclass(slots=True)
class _Term:
    """A term, and who has it."""

    term: Mapping[str, Any]
    namespace: str
    owners: list[int] = field(default_factory=list)
    """Numbers of `AvoidingPods`."""


@dataclass(frozen=True, slots=True, eq=False)
class AvoidingTerms:
    """The terms of pods that run, for questions about pods that are not there yet. It never changes."""

    terms: Sequence[_Term] = ()
    by_label: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    namespaces: Namespaces = field(default_factory=dict)
    workloads: Sequence[Workload] = ()
    """By number of the owners of terms."""

    def avoiders(self, namespace: str, labels: Labels) -> frozenset[Workload] | None:
        """Return the workloads whose terms match pods with these labels; None if too many would have to be compared."""
        numbers = [number for pair in (_ANY, *labels.items()) for number in self.by_label.get(pair, ())]
        if len(numbers) > MOST_CHECKS_OF_ONE:
            return None
        found = [own for own in map(self.terms.__getitem__, numbers) if self._matches(own, namespace, labels)]
        return frozenset(self.workloads[owner] for own in found for owner in own.owners)

    def _matches(self, own: _Term, namespace: str, labels: Labels) -> bool:
        return matches(own.term, (own.namespace, {}), (namespace, labels), self.namespaces)


class Avoidance:
    """The terms of pods that run, by the labels that they ask for."""

    def __init__(self) -> None:
        self.asked = AvoidingTerms()
        """The same terms for others."""
        self._pods: tuple[AvoidingPods, ...] = ()
        self._namespaces: Namespaces = {}
        self._terms: list[_Term] = []
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._labels: dict[int, Labels | None] = {}
        """By id of a set of labels; None for one that is not kept."""
        self._may: npt.NDArray[np.bool_] = np.zeros(1, dtype=bool)
        """[id of labels] some term asks for one of them, or for none."""
        self._found: dict[tuple[str, int], tuple[int, ...] | None] = {}
        """Terms by namespace and id of labels."""
        self._checks_left = 0

    def update(
        self, pods: tuple[AvoidingPods, ...], changes: Mapping[int, Labels | None], size: int, namespaces: Namespaces
    ) -> None:
        """Take in who runs, and which labels have come and gone.

        Args:
            pods: those with terms.
            changes: labels by id; None for those that have gone.
            size: one more than the largest id of labels.
            namespaces: labels by name.
        """
        self._checks_left = MOST_CHECKS
        self._labels.update(changes)
        if pods != self._pods or namespaces is not self._namespaces:
            self._pods, self._namespaces = pods, namespaces
            self._terms, self._by_label = _by_label(pods)
            self.asked = AvoidingTerms(self._terms, self._by_label, namespaces, [own.workload for own in pods])
            self._found = {}
            self._may = np.zeros(0, dtype=bool)
            changes = self._labels
        elif changes:
            self._found = {key: found for key, found in self._found.items() if key[1] not in changes}
        if size > self._may.size:
            more = np.ones(max(size, 2 * self._may.size) - self._may.size, dtype=bool)
            self._may = np.concatenate([self._may, more])
        for index in changes:
            self._may[index] = self._asks_for(self._labels[index])

    def may_avoid(self, labels: IntArray) -> npt.NDArray[np.bool_]:
        """Tell for ids of labels whether some term may match them; an id of -1 is no pod's."""
        may: npt.NDArray[np.bool_] = (labels >= 0) & self._may.take(labels, mode="clip")
        return may

    def terms_for(self, namespace: str, index: int) -> tuple[int, ...] | None:
        """Return which terms match pods with these labels; None where that is not known."""
        key = namespace, index
        if key not in self._found:
            self._found[key] = self._matching(namespace, self._labels.get(index))
        return self._found[key]

    def owners(self, term: int) -> Sequence[int]:
        """Return the numbers of the pods that have a term."""
        return self._terms[term].owners

    def avoider(self, term: int) -> Avoider:
        """Return a term as a snapshot shows it."""
        own = self._terms[term]
        workloads = sorted({self._pods[owner].workload for owner in own.owners})
        key = str(own.term.get("topologyKey", ""))
        return Avoider(tuple(workloads[:_NAMED]), len(workloads), key, tuple(own.owners))

    def _asks_for(self, labels: Labels | None) -> bool:
        known = self._by_label
        return labels is None or _ANY in known or not known.keys().isdisjoint(labels.items())

    def _matching(self, namespace: str, labels: Labels | None) -> tuple[int, ...] | None:
        if labels is None:
            return None if self._terms else ()
        found = []
        for pair in (_ANY, *labels.items()):
            for number in self._by_label.get(pair, ()):
                if not self._checks_left:
                    return None
                self._checks_left -= 1
                own = self._terms[number]
                if matches(own.term, (own.namespace, {}), (namespace, labels), self._namespaces):
                    found.append(number)
        return tuple(found) if len(found) <= MOST_AVOIDERS else None


def _by_label(pods: Iterable[AvoidingPods]) -> tuple[list[_Term], dict[tuple[str, str], list[int]]]:
    """Collect terms, equal ones once, and index each by the values of one label that it asks for."""
    terms: list[_Term] = []
    by_label: dict[tuple[str, str], list[int]] = {}
    numbers: dict[tuple[str, str], int] = {}
    for owner, own in enumerate(pods):
        for text, term in _resolved(own.anti_affinity, own.labels):
            key = own.workload.namespace, text
            if key not in numbers:
                numbers[key] = len(terms)
                terms.append(_Term(term, own.workload.namespace))
                for pair in _asked(term, by_label):
                    by_label.setdefault(pair, []).append(numbers[key])
            terms[numbers[key]].owners.append(owner)
    return terms, by_label


@lru_cache(maxsize=16_384)
def _resolved(anti_affinity: str, labels: _Items) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return terms with the values of their pods' labels in them, each as a text and as it is."""
    own = dict(labels)
    found = (resolved(term, own) for term in terms_of(anti_affinity))
    return tuple((msgspec.json.encode(term, order="sorted").decode(), term) for term in found)


def _asked(term: Mapping[str, Any], by_label: Mapping[tuple[str, str], Sequence[int]]) -> list[tuple[str, str]]:
    """Return the values of one label of which a term asks for one: of the label that fewest terms ask for."""
    choices = list(_choices(term.get("labelSelector")))
    return min(choices, key=lambda pairs: sum(len(by_label.get(pair, ())) for pair in pairs), default=[_ANY])


def _choices(selector: Mapping[str, Any] | None) -> Iterator[list[tuple[str, str]]]:
    if selector is None:  # it matches nothing
        yield []
        return
    for key, value in (selector.get("matchLabels") or {}).items():
        yield [(key, value or "")]
    for expression in selector.get("matchExpressions") or ():
        if expression.get("operator") == "In":
            yield [(expression.get("key") or "", value) for value in dict.fromkeys(expression.get("values") or ())]
