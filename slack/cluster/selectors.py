"""Which pods the terms of a pod select: (anti-)affinity and topology spread, by labels, as kube-scheduler decides it.

Terms are JSON as the API has it. The rules, from Kubernetes v1.36.3:

1. A null selector matches no pod, an empty one every pod (apimachinery, `LabelSelectorAsSelector`).
2. The API server adds matchLabelKeys and mismatchLabelKeys to a selector that is not null, each key with the pod's own
   value; a key that the pod does not have is passed over (pkg/registry/core/pod/strategy.go).
3. An affinity term without namespaces and without namespaceSelector means the pod's namespace. An empty
   namespaceSelector means every namespace (kube-scheduler, framework/types.go, `AffinityTerm.Matches`).
4. A spread constraint counts pods of the pod's namespace; one with an empty selector counts none
   (podtopologyspread/common.go, `countPodsMatchSelector`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from slack.cluster.classes import Constraints

Labels = Mapping[str, str]
Term = Mapping[str, Any]
"""One required (anti-)affinity term, or one spread constraint."""
Namespaces = Mapping[str, Labels]
"""Labels of namespaces, by name."""
_NO_LABELS: Labels = {}
_KEYS = ("matchLabelKeys", "mismatchLabelKeys")


def terms_of(text: str) -> list[dict[str, Any]]:
    """Return the terms of a field of `Constraints`."""
    terms: list[dict[str, Any]] = msgspec.json.decode(text) if text else []
    return terms


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Tell whether a label selector matches a pod's or a namespace's labels."""
    if selector is None:
        return False
    if any(labels.get(key) != (value or "") for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(expression, labels) for expression in selector.get("matchExpressions") or ())


def _meets(expression: Mapping[str, Any], labels: Labels) -> bool:
    value, values = labels.get(expression.get("key") or ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:  # the API server refuses any other
            return False


def resolved(term: Term, labels: Labels) -> dict[str, Any]:
    """Return a term with the values of its pod's labels in place of the keys that ask for them."""
    kept = {key: value for key, value in term.items() if key not in _KEYS}
    selector = term.get("labelSelector")
    if selector is None:
        return kept
    further = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in zip(_KEYS, ("In", "NotIn"), strict=True)
        for key in term.get(name) or ()
        if key in labels
    ]
    own = selector.get("matchExpressions") or []
    further = [expression for expression in further if expression not in own]
    if further:
        kept["labelSelector"] = {**selector, "matchExpressions": [*own, *further]}
    return kept


def matches(term: Term, of: tuple[str, Labels], pod: tuple[str, Labels], namespaces: Namespaces) -> bool:
    """Tell whether a pod's (anti-)affinity term matches a pod.

    Args:
        term: the term, as the pod or its template has it.
        of: namespace and labels of the pod whose term it is.
        pod: namespace and labels of the pod that it may match.
        namespaces: labels of the namespaces; one that is not there has none.
    """
    own, own_labels = of
    namespace, labels = pod
    names, chosen = term.get("namespaces") or (), term.get("namespaceSelector")
    if not names and chosen is None:
        names = (own,)
    if namespace not in names and not selects(chosen, namespaces.get(namespace, _NO_LABELS)):
        return False
    return selects(resolved(term, own_labels).get("labelSelector"), labels)


def counts(constraint: Term, own_labels: Labels, labels: Labels) -> bool:
    """Tell whether a pod's spread constraint counts a pod with these labels in the same namespace."""
    selector = resolved(constraint, own_labels).get("labelSelector")
    if selector is None or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return False
    return selects(selector, labels)


def label_keys(constraints: Constraints) -> frozenset[str]:
    """Return the keys of pod labels that these constraints look at."""
    texts = (constraints.anti_affinity, constraints.pod_affinity, constraints.topology_spread)
    return frozenset(key for text in texts for term in terms_of(text) for key in term_keys(term))


def term_keys(term: Term) -> Iterable[str]:
    """Yield the keys of pod labels that a term looks at."""
    selector = term.get("labelSelector") or {}
    yield from selector.get("matchLabels") or ()
    yield from (expression.get("key") or "" for expression in selector.get("matchExpressions") or ())
    for name in _KEYS:
        yield from term.get(name) or ()
