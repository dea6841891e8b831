"""A recorded trace as a scenario: its arrivals again, on node groups that start as fast as its nodes did.

What was there when the recording began comes at the start of a warm-up, the recording itself after it. What a
scenario cannot say (required node affinity with several values, topology spread) is left out, and said in the notes.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from slack.cluster.labels import HOSTNAME, KARPENTER_NODE_POOL
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.selectors import matches, term_keys
from slack.simulator.scenario.scenario import InvalidScenario, Scenario, parse_scenario
from slack.simulator.traces.format import InvalidTrace, PodTraceRow, Trace
from slack.simulator.traces.node_groups import distinct, label_text, node_groups, parse_object, price_names, quantities

_NAMES_SHOWN = 12
_LEFT_OUT_SHOWN = 5
WARM_UP = timedelta(minutes=20)
"""Long enough for nodes to start and for one unneeded time (10m) of the autoscaler to pass."""


_Workloads = list[tuple[dict[str, Any], list[PodTraceRow]]]
"""Each as a scenario has it, with its rows."""
_LeftOut = list[tuple[dict[str, Any], list[PodTraceRow], str]]
"""The same, with the reason."""


class UnknownPrice(ValueError):
    """A price of something that is not among the recording's nodes; the text names what is."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The scenario, and what of the recording it leaves out."""

    scenario: Scenario
    notes: tuple[str, ...]
    document: Mapping[str, Any]
    """The scenario as a file has it."""
    left_out: int = 0
    """Recorded pods that are not in the scenario, as no node group that was seen could take them."""


@dataclass(frozen=True, slots=True)
class _Pods:
    """What equal pods share."""

    namespace: str
    workload: str
    cpu_millis: int
    memory_bytes: int
    requests_json: str
    constraints_json: str
    labels_json: str
    priority: int
    preempts: bool


def scenario_of(
    trace: Trace,
    *,
    source: str,
    warm_up: timedelta = WARM_UP,
    prices: Mapping[str, float] | None = None,
    node_prices: NodePrices = NO_PRICES,
) -> Replayed:
    """Return the scenario that plays a trace again.

    Args:
        trace: the recording.
        source: what to call it in complaints.
        warm_up: how long the cluster runs before the recording's first moment.
        prices: price per hour by instance type or by group name; they win over the others.
        node_prices: of a file, by labels and instance types.

    Raises:
        InvalidTrace: when none of its pods fits any of its node groups, with the first row.
        UnknownPrice: for a price of what is no instance type and no node group there.
    """
    notes: list[str] = []
    pods = [pod for pod in trace.pods if not pod.placeholder]
    groups = node_groups(trace, _asked_labels(pods), prices or {}, node_prices)
    notes += _of_prices(groups, prices or {}, source)
    workloads = _workloads(pods, groups, warm_up.total_seconds(), notes)
    karpenter = any(KARPENTER_NODE_POOL in group["labels"] for group in groups)
    document: dict[str, Any] = {
        "name": "recorded",
        "startsAt": (trace.started_at - warm_up).isoformat(),
        "duration": _write(timedelta(seconds=math.ceil(trace.seconds)) + warm_up),
        "warmUp": _write(warm_up),
        **({"currency": node_prices.currency} if node_prices.currency else {}),
        "nodeGroups": groups,
        "autoscaler": {"kind": "karpenter" if karpenter else "clusterAutoscaler"},
    }
    scenario, kept, hopeless = _parse(document, workloads, source)
    notes += [f"{_pods(rows)} of {spec['name']} left out: {why}" for spec, rows, why in hopeless[:_LEFT_OUT_SHOWN]]
    if len(hopeless) > _LEFT_OUT_SHOWN:
        notes.append(f"{len(hopeless) - _LEFT_OUT_SHOWN} more workloads left out for such reasons")
    left_out = sum(len(rows) for _, rows, _ in hopeless)
    return Replayed(scenario, tuple(notes), {**document, "workloads": [spec for spec, _ in kept]}, left_out)


def _parse(document: Mapping[str, Any], workloads: _Workloads, source: str) -> tuple[Scenario, _Workloads, _LeftOut]:
    """Return the scenario of what fits, those workloads, and the others with the reason.

    One pod that no node seen could take (its node group had gone, or was never recorded) costs itself, not the
    recording of days.

    Raises:
        InvalidTrace: nothing of it fits.
    """
    hopeless: _LeftOut = []
    kept = workloads
    while True:
        try:
            scenario = parse_scenario({**document, "workloads": [spec for spec, _ in kept]}, source=source)
            return scenario, kept, hopeless
        except InvalidScenario as error:
            bad = _hopeless(error)
            if len(bad) in (0, len(kept)):
                raise InvalidTrace(tuple(_of_rows(text, kept) for text in error.problems), source) from None
            hopeless += [(*kept[number], why) for number, why in bad.items()]
            kept = [workload for number, workload in enumerate(kept) if number not in bad]


def _of_prices(groups: Sequence[Mapping[str, Any]], prices: Mapping[str, float], source: str) -> Iterator[str]:
    """Check the names of prices, and note which nodes have none where others have one."""
    names = {group["name"]: price_names(group["name"], group["labels"]) for group in groups}
    for name in prices:
        if not any(name in known for known in names.values()):
            shown = [known[0] if len(known) < 2 else f"{known[0]} (node group {known[1]})" for known in names.values()]
            more = f" and {len(shown) - _NAMES_SHOWN} more" if len(shown) > _NAMES_SHOWN else ""
            raise UnknownPrice(
                f"{name!r} is no instance type and no node group of {source}; there are "
                f"{', '.join(shown[:_NAMES_SHOWN])}{more}"
            )
    free = [
        group["name"]
        for group in groups
        if not group["pricePerHour"] and prices.keys().isdisjoint(names[group["name"]])
    ]
    if free and any(group["pricePerHour"] for group in groups):
        more = f" and {len(free) - _NAMES_SHOWN} more" if len(free) > _NAMES_SHOWN else ""
        yield f"no price for {', '.join(free[:_NAMES_SHOWN])}{more}: these nodes count as free"


def _write(value: timedelta) -> str:
    return f"{round(value.total_seconds())}s"


def _asked_labels(pods: Iterable[PodTraceRow]) -> frozenset[str]:
    """Return the label keys that some pod's node selector names."""
    return frozenset(key for text in {pod.constraints_json for pod in pods} for key in _selector(parse_object(text))[0])


def _selector(constraints: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
    """Return the node selector, required affinity with single values included, and whether that was all of it."""
    selector = dict(constraints.get("nodeSelector") or {})
    affinity = constraints.get("affinity") or {}
    node = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = node.get("nodeSelectorTerms") or []
    whole = len(terms) <= 1
    for expression in (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []:
        if expression.get("operator") == "In" and len(expression.get("values") or []) == 1:
            selector[expression["key"]] = expression["values"][0]
        else:
            whole = False
    pinned = selector.pop(HOSTNAME, None) is not None
    return selector, whole and not pinned and not constraints.get("topologySpreadConstraints")


def _apart(constraints: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the required anti-affinity terms over hosts."""
    anti = ((constraints.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or []
    return [term for term in anti if term.get("topologyKey") == HOSTNAME]


def _avoids_itself(terms: Iterable[Mapping[str, Any]], key: _Pods) -> bool:
    """Tell whether terms match the pods' own labels; if those are missing, the terms are left out."""
    if _lacks_labels(terms, key):
        return False
    own = key.namespace, parse_object(key.labels_json)
    return any(matches(term, own, own, {}) for term in terms)


def _lacks_labels(terms: Iterable[Mapping[str, Any]], key: _Pods) -> bool:
    return not key.labels_json and any(asked for term in terms for asked in term_keys(term))


def _of_labels(left_out: Sequence[_Pods]) -> Iterator[str]:
    """Note whose anti-affinity is left out, as the trace does not have the labels that it is about."""
    if left_out:
        names = [f"{key.namespace}/{key.workload}" for key in left_out]
        more = f" and {len(names) - _LEFT_OUT_SHOWN} more" if len(names) > _LEFT_OUT_SHOWN else ""
        yield (
            f"the trace has no labels of pods: the anti-affinity of {', '.join(names[:_LEFT_OUT_SHOWN])}{more} is left "
            "out; record it again for labels"
        )


def _workloads(
    pods: Sequence[PodTraceRow], groups: Sequence[Mapping[str, Any]], warm_up: float, notes: list[str]
) -> list[tuple[dict[str, Any], list[PodTraceRow]]]:
    """Return workloads, each with its rows. Single pods of one form (bare pods, unique jobs) are one workload."""
    alike: dict[_Pods, list[PodTraceRow]] = defaultdict(list)
    for pod in pods:
        alike[_key(pod, pod.workload)].append(pod)
    merged: dict[_Pods, list[PodTraceRow]] = defaultdict(list)
    for key, rows in alike.items():
        kind = key.workload.partition("/")[0]
        single = len(rows) == 1 and kind not in ("deploy", "sts")
        merged[_key(rows[0], f"{kind}/single-{kind}s") if single else key] += rows
    taints = {(taint["key"], taint["effect"]) for group in groups for taint in group["taints"]}
    names: dict[str, Counter[str]] = defaultdict(Counter)
    found = []
    unlabelled: list[_Pods] = []
    for key, rows in merged.items():
        constraints = parse_object(key.constraints_json)
        selector, whole = _selector(constraints)
        name = distinct(label_text(key.workload.partition("/")[2]), names[key.namespace])
        if not whole:
            notes.append(f"{key.namespace}/{key.workload}: its node affinity or topology spread is left out")
        apart = _apart(constraints)
        if _lacks_labels(apart, key):
            unlabelled.append(key)
        requests = {"cpu": key.cpu_millis, "memory": key.memory_bytes, **parse_object(key.requests_json)}
        spec = {
            "name": name,
            "namespace": label_text(key.namespace),
            "ownerKind": label_text(key.workload.partition("/")[0]),
            "requests": quantities(requests),
            "nodeSelector": selector,
            "tolerations": _tolerations(constraints, taints),
            "antiAffinity": "hostname" if _avoids_itself(apart, key) else "none",
            "priority": min(key.priority, 1_000_000_000),
            "preempts": key.preempts,
            "arrivals": {"kind": "replay", "rows": [_arrival(row, warm_up) for row in rows]},
        }
        found.append((spec, rows))
    notes += _of_labels(unlabelled)
    return found


def _key(pod: PodTraceRow, workload: str) -> _Pods:
    return _Pods(
        pod.namespace,
        workload,
        pod.cpu_millis,
        pod.memory_bytes,
        pod.requests_json,
        pod.constraints_json,
        pod.labels_json,
        pod.priority,
        pod.preempts,
    )


def _arrival(row: PodTraceRow, warm_up: float) -> tuple[float, float | None]:
    if row.initial:
        return 0.0, None if row.life_seconds is None else row.life_seconds + warm_up
    return row.time_seconds + warm_up, row.life_seconds


def _tolerations(constraints: Mapping[str, Any], taints: set[tuple[str, str]]) -> list[dict[str, str]]:
    """Return tolerations; one without a key tolerates each taint there is."""
    found = []
    for toleration in constraints.get("tolerations") or []:
        if toleration.get("key"):
            value = {"value": toleration.get("value") or ""} if toleration.get("operator") != "Exists" else {}
            operator = {"operator": toleration.get("operator") or "Equal"}
            found.append({"key": toleration["key"], "effect": toleration.get("effect") or "", **operator, **value})
        else:
            found += [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(taints)]
    return [toleration for toleration in found if toleration["operator"] in ("Equal", "Exists")]


_WORKLOAD = re.compile(r"^workloads\[(\d+)\]")
_REQUEST_COLUMNS = {"cpu": "cpu_millis", "memory": "memory_bytes"}
"""Where a trace has a resource; the others are all in one column."""


def _hopeless(error: InvalidScenario) -> dict[int, str]:
    """Return why which workloads cannot be played; {} where something else is wrong."""
    bad: dict[int, str] = {}
    for problem in error.problems:
        match = _WORKLOAD.match(problem)
        if match is None:
            return {}
        bad.setdefault(int(match[1]), problem.partition(": ")[2])
    return bad


def _of_rows(problem: str, workloads: _Workloads) -> str:
    """Name the row instead of the scenario's field, which nobody has written."""
    match = _WORKLOAD.match(problem)
    if match is None:
        return problem
    first = workloads[int(match[1])][1][0]
    field, _, why = problem.partition(": ")
    if ".nodeSelector" in field or ".tolerations" in field:
        column = "constraints_json"
    elif ".requests." in field:
        column = _REQUEST_COLUMNS.get(field.partition(".requests.")[2], "requests_json")
    else:
        column = "workload"
    row = f", row {first.row}" if first.row else ""  # what comes from a live cluster has no rows
    return f"column {column}{row} ({first.namespace}/{first.workload}): {why}"


def _pods(rows: Sequence[PodTraceRow]) -> str:
    return "1 pod" if len(rows) == 1 else f"{len(rows)} pods"
