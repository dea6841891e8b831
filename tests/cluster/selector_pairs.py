"""Ten thousand pairs of pods for the comparison with kube-scheduler's own code, the same ones in every run.

Printed as JSON lines, they are the input of `e2e/controlplane/kubernetes/selectors`, whose answers are kept in
`selector_answers.txt` beside this file:

    python -m tests.cluster.selector_pairs > pairs.jsonl
    (cd e2e/controlplane/kubernetes && go run ./selectors) < pairs.jsonl > tests/cluster/selector_answers.txt
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.cluster.build import Json

PAIRS = 10_000
_KEYS = ("app", "tier", "rev")
_VALUES = ("a", "b", "")
_NAMESPACES: dict[str, dict[str, str]] = {"shop": {"team": "a"}, "batch": {"team": "b", "env": "x"}, "bare": {}}


class Pair(NamedTuple):
    """A pod with a term and a spread constraint, and a pod that they may select."""

    affinity: bool
    """The term is one of podAffinity, else of podAntiAffinity."""
    term: Json
    spread: Json
    namespace: str
    labels: dict[str, str]
    other_namespace: str
    other_labels: dict[str, str]

    def document(self) -> Json:
        """Return the pair as the scheduler's side reads it."""
        kind = "podAffinity" if self.affinity else "podAntiAffinity"
        spec = {
            "containers": [{"name": "main"}],
            "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [self.term]}},
            "topologySpreadConstraints": [self.spread],
        }
        other = {"name": "other", "namespace": self.other_namespace, "labels": self.other_labels}
        return {
            "pod": {
                "metadata": {"name": "pod", "namespace": self.namespace, "labels": self.labels},
                "spec": spec,
            },
            "other": {"metadata": other, "spec": {"containers": [{"name": "main"}]}},
            "namespaces": _NAMESPACES,
        }


class _Draw:
    """A generator of its own: the same numbers with every version of Python."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self._state >> 33) % bound

    def one(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]

    def some(self, values: Sequence[str]) -> list[str]:
        return [value for value in values if self.below(2)]


def pairs() -> Iterator[Pair]:
    """Yield the pairs."""
    draw = _Draw(20260504)
    for _ in range(PAIRS):
        keys, unlike = draw.some(_KEYS), []
        if draw.below(2):
            keys, unlike = [], keys
        else:
            unlike = [key for key in draw.some(_KEYS) if key not in keys] if draw.below(2) else []
        term = {"topologyKey": "kubernetes.io/hostname", **_asking(draw, keys, unlike)}
        if draw.below(3) == 0:
            term["namespaces"] = draw.some(tuple(_NAMESPACES))
        if draw.below(3) == 0:
            term["namespaceSelector"] = _selector(draw, ("team", "env"), ("a", "b", "x"))
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            **_asking(draw, draw.some(_KEYS) if draw.below(3) == 0 else [], []),
        }
        yield Pair(
            affinity=bool(draw.below(2)),
            term=term,
            spread=spread,
            namespace=draw.one(tuple(_NAMESPACES)),
            labels=_labels(draw),
            other_namespace=draw.one(tuple(_NAMESPACES)),
            other_labels=_labels(draw),
        )


def namespaces() -> dict[str, dict[str, str]]:
    """Return the labels of the namespaces."""
    return _NAMESPACES


def _labels(draw: _Draw) -> dict[str, str]:
    return {key: draw.one(_VALUES) for key in draw.some(_KEYS)}


def _asking(draw: _Draw, keys: list[str], unlike: list[str]) -> Json:
    """Return a selector, null now and then, with the keys that validation allows beside it."""
    if draw.below(12) == 0:
        return {"labelSelector": None}
    selector = _selector(draw, _KEYS, _VALUES)
    named = {*selector.get("matchLabels", ()), *(own["key"] for own in selector.get("matchExpressions", ()))}
    found: Json = {"labelSelector": selector}
    if kept := [key for key in keys if key not in named]:
        found["matchLabelKeys"] = kept
    if kept := [key for key in unlike if key not in named]:
        found["mismatchLabelKeys"] = kept
    return found


def _selector(draw: _Draw, keys: Sequence[str], values: Sequence[str]) -> Json:
    found: Json = {}
    if draw.below(3) == 0:
        found["matchLabels"] = {draw.one(keys): draw.one(values)}
    if draw.below(2) == 0:
        found["matchExpressions"] = [_expression(draw, keys, values) for _ in range(draw.below(3))]
    return found


def _expression(draw: _Draw, keys: Sequence[str], values: Sequence[str]) -> Json:
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist"))
    found: Json = {"key": draw.one(keys), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = draw.some(values) or [draw.one(values)]
    return found


if __name__ == "__main__":
    for pair in pairs():
        print(json.dumps(pair.document(), separators=(",", ":")))
