"""The JSON columns of a trace: what their texts must look like, so that nothing behind them meets a surprise."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slack.cluster.constraints import parse_constraints

_LARGEST_AMOUNT = 1 << 50
"""Bytes, or a count: no node has more of anything, and sums over many nodes stay within int64."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def json_problem(column: str, text: str) -> str | None:
    """Say what is wrong with a text of a JSON column; None when nothing is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return f"{text[:60]!r} is not JSON"
    kind = "list" if column == "taints_json" else "object"
    if not isinstance(value, list if kind == "list" else dict):
        return f"{text[:60]!r} is not a JSON {kind}"
    return _CHECKS[column](value)


def _amounts(value: Mapping[str, Any]) -> str | None:
    for name, amount in value.items():
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= _LARGEST_AMOUNT:
            return f"{name}: {amount!r} is not a whole number from 0 to {_LARGEST_AMOUNT}"
    return None


def _texts(value: object, what: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{what} is not an object"
    wrong = next((key for key, text in value.items() if not isinstance(text, str)), None)
    return None if wrong is None else f"{what}.{wrong}: {value[wrong]!r} is not text"


def _labels(value: Mapping[str, Any]) -> str | None:
    return _texts(value, "labels")


def _taints(value: list[Any]) -> str | None:
    for place, taint in enumerate(value):
        if not isinstance(taint, Mapping):
            return f"[{place}] is not an object"
        wrong = _objects([taint], f"[{place}]", ("key", "value", "effect"))
        if wrong:
            return wrong
        if not taint.get("key") or taint.get("effect") not in _EFFECTS:
            return f"[{place}]: a taint has a key and one of the effects {', '.join(_EFFECTS)}"
    return None


def _constraints(value: Mapping[str, Any]) -> str | None:
    selector = value.get("nodeSelector")
    wrong = _texts(selector, "nodeSelector") if selector is not None else None
    wrong = wrong or _objects(value.get("tolerations"), "tolerations", ("key", "operator", "value", "effect"))
    wrong = wrong or _objects(value.get("topologySpreadConstraints"), "topologySpreadConstraints", ("topologyKey",))
    affinity = value.get("affinity")
    if wrong or affinity is None:
        return wrong
    if not isinstance(affinity, Mapping):
        return "affinity is not an object"
    for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        kind = affinity.get(name)
        if kind is not None and not isinstance(kind, Mapping):
            return f"affinity.{name} is not an object"
    required = (affinity.get("nodeAffinity") or {}).get(_NODE_AFFINITY)
    if required is not None and not isinstance(required, Mapping):
        return f"affinity.nodeAffinity.{_NODE_AFFINITY} is not an object"
    terms = (required or {}).get("nodeSelectorTerms")
    wrong = _objects(terms, "nodeSelectorTerms", ())
    for term in terms or [] if not wrong else []:
        wrong = wrong or _expressions(term.get("matchExpressions"))
    anti = (affinity.get("podAntiAffinity") or {}).get(_NODE_AFFINITY)
    wrong = wrong or _objects(anti, "affinity.podAntiAffinity", ("topologyKey",))
    return wrong or _selectors(affinity)


def _selectors(affinity: Mapping[str, Any]) -> str | None:
    try:
        parse_constraints(affinity=json.dumps(affinity).encode())
    except msgspec.ValidationError as error:
        return f"affinity: {error}"
    return None


def _expressions(value: Any) -> str | None:
    wrong = _objects(value, "matchExpressions", ("key", "operator"))
    for expression in value or [] if not wrong else []:
        values = expression.get("values")
        if not expression.get("key"):
            return "matchExpressions: one has no key"
        if values is not None and not (isinstance(values, list) and all(isinstance(text, str) for text in values)):
            return f"matchExpressions: the values of {expression['key']} are no list of texts"
    return wrong


def _objects(value: Any, what: str, texts: tuple[str, ...]) -> str | None:
    """Check a list of objects some of whose fields are texts; null stands for nothing."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return f"{what} is not a list of objects"
    for item in value:
        for name in texts:
            if item.get(name) is not None and not isinstance(item[name], str):
                return f"{what}: {name} {item[name]!r} is not text"
    return None


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "requests_json": _amounts,
    "daemon_json": _amounts,
    "labels_json": _labels,
    "taints_json": _taints,
    "constraints_json": _constraints,
}
COLUMNS = frozenset(_CHECKS)
"""The columns of which this knows."""
