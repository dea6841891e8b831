"""A decision of files: a snapshot's nodes and pods, what load watchers answered, and a pod."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from slack.cli.terminal.problems import UserError
from slack.cluster.identity import PLACEHOLDER, role_of
from slack.cluster.labels import API_VERSION
from slack.cluster.load import InvalidSnapshot, objects
from slack.cluster.wire import Pod, PodTemplate
from slack.loadwatcher.decoding import InvalidPayload, decode
from slack.loadwatcher.payload import LoadReport
from slack.scorer.configuration.arguments import ScorerConfig, parse_config
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.load_reader import window_load
from slack.scorer.inputs.node_names import NodeRowsByName
from slack.scorer.inputs.objects import NodeObject
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import LoadColumns, PodDemand, Scores, UsageState, best_first
from slack.scorer.record import MOST_SECONDS, InvalidRecord, Recorded, read_line
from slack.scorer.scoring import scale_scores, score, score_nodes
from slack_operator.scorer.settings import ScorerSettings

NamedBytes = tuple[str, bytes]
_SCHEDULED = b"PodScheduled"
_DIGITS = 6
_UNMATCHED_SHOWN = 20


class Files(NamedTuple):
    """Names and contents."""

    snapshot: NamedBytes
    loads: tuple[NamedBytes, ...]
    pod: NamedBytes


class _Spec(msgspec.Struct):
    template: PodTemplate | None = None


class _Templated(msgspec.Struct):
    metadata: dict[str, Any] | None = None
    spec: _Spec | None = None


def config_of(settings: ScorerSettings) -> ScorerConfig:
    """Return what the scorer goes by.

    Raises:
        InvalidScorerConfig: an argument cannot be meant.
    """
    from slack_operator.scorer.process import rules_of

    config = parse_config({"algorithms": list(settings.algorithms)}, rules_of(settings))
    return replace(config, scale=settings.scale)


def score_document(files: Files, settings: ScorerSettings, at: float | None, now_without_load: float) -> dict[str, Any]:
    """Return the decision as a document.

    Args:
        files: what it is made of.
        settings: those of the scorer.
        at: Unix seconds; None for when the newest load was told.
        now_without_load: what is taken where no load was told.

    Raises:
        UserError: a file cannot be used.
    """
    config = config_of(settings)
    reports = [_report(*named) for named in files.loads]
    now = at if at is not None else max((report.timestamp for report in reports), default=now_without_load)
    state = _state(*files.snapshot, settings.namespace, config, now)
    pod = _pod(*files.pod)
    try:
        demand = demand_of(
            pod.spec,
            config.prediction,
            status=pod.status,
            placeholder=role_of(pod.metadata, settings.namespace) == PLACEHOLDER,
        )
    except ValueError as error:
        raise UserError(f"{files.pod[0]}: {error}") from None
    nodes = state.nodes()
    names = NodeRowsByName(nodes.row_of, state.aliases())
    read = [window_load(report, names, len(nodes)) for report in reports]
    load = LoadColumns(tuple(window for window, _ in read), state.recent(now))
    scores = score_nodes(config.algorithms, demand, nodes, load, now, config.rules)
    unmatched = tuple(dict.fromkeys(name for _, own in read for name in own))
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeScores",
        "pod": f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}",
        **demand_document(demand),
        "at": rfc3339(now),
        "rule": str(scores.rule),
        "highest_score": config.scale,
        "best": nodes.names[scores.best] if scores.best >= 0 else None,
        "unmatched": list(unmatched[:_UNMATCHED_SHOWN]),
        "items": node_documents(scores, nodes.names, config.scale),
    }


def rfc3339(seconds: float) -> str:
    """Return a time as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def demand_document(demand: PodDemand) -> dict[str, Any]:
    """Return what a pod asks for."""
    units = ("cpu_millis", "memory_bytes")
    return {
        "requests": {unit: int(value) for unit, value in zip(units, demand.requests, strict=True)},
        "predicted": {unit: int(value) for unit, value in zip(units, demand.predicted, strict=True)},
        "placeholder": demand.placeholder,
    }


def node_documents(scores: Scores, names: tuple[str, ...], highest: int) -> list[dict[str, Any]]:
    """Return the nodes with their figures, the best first."""
    told = scale_scores(scores.total, highest).tolist()
    return [
        {
            "node": names[scores.rows[place]],
            "score": told[place],
            "state": UsageState(int(scores.state[place])).name.title().replace("_", ""),
            "algorithms": [
                {
                    "name": name,
                    "score": int(own[place]),
                    "terms": {
                        term.partition(".")[2]: _number(values[place])
                        for term, values in scores.terms.items()
                        if term.partition(".")[0] == name
                    },
                }
                for name, own in scores.by_algorithm.items()
            ],
            "terms": {term: _number(values[place]) for term, values in scores.terms.items() if "." not in term},
        }
        for place in scores.order.tolist()
    ]


def _number(value: float) -> float | None:
    return round(float(value), _DIGITS) if np.isfinite(value) else None


def _report(source: str, data: bytes) -> LoadReport:
    try:
        report = decode(data).report
    except InvalidPayload as error:
        raise UserError(f"{source}: {error}; expected what a load watcher answers at /watcher") from None
    if report.timestamp > MOST_SECONDS:
        raise UserError(f"{source}: timestamp: {report.timestamp} is no time in Unix seconds")
    return report


def _state(source: str, data: bytes, namespace: str, config: ScorerConfig, now: float) -> ClusterState:
    def refuse(name: str, error: ValueError) -> None:
        raise UserError(f"{source}: {name}: {error}")

    state = ClusterState(
        lambda pod: demand_of(pod.spec, config.rules.prediction, status=pod.status),
        namespace,
        config.rules.recent_kept_seconds,
        refuse,
    )
    recent: list[Pod] = []
    count = 0
    for path, kind, item in objects(data, source=source):
        try:
            if kind == "Node":
                count += 1
                state.apply_node(False, msgspec.json.decode(item, type=NodeObject))
            elif kind == "Pod":
                pod = msgspec.json.decode(item, type=Pod)
                # When it was bound says its condition; a pod without one is not taken for recent.
                if pod.status is not None and _SCHEDULED in bytes(pod.status.conditions_json):
                    recent.append(pod.detach())
                else:
                    state.apply_pod(False, pod, now)
        except msgspec.DecodeError as error:
            raise UserError(f"{source}: {path}: {error} (a {kind})") from None
    if not count:
        raise InvalidSnapshot("it has no nodes; include them: kubectl get nodes,pods -A -o json", source)
    state.end_pods()
    for pod in recent:
        state.apply_pod(False, pod, now)
    return state


def _pod(source: str, data: bytes) -> Pod:
    """Read the one pod of a file, or that of a workload's template."""
    found = list(objects(data, source=source))
    if len(found) != 1:
        raise UserError(f"{source}: expected one pod, or one workload with a pod template; found {len(found)} objects")
    _, kind, item = found[0]
    try:
        if kind == "Pod":
            return msgspec.json.decode(item, type=Pod)
        template = msgspec.json.decode(item, type=_Templated)
        if template.spec is None or template.spec.template is None:
            raise UserError(f"{source}: a {kind} has no pod template; give a Pod")
        name = (template.metadata or {}).get("name", "")
        namespace = (template.metadata or {}).get("namespace", "default")
        head = msgspec.json.encode({"metadata": {"name": str(name), "namespace": str(namespace)}})
        pod = msgspec.json.decode(head, type=Pod)
        pod.spec = template.spec.template.spec
        return pod
    except msgspec.DecodeError as error:
        raise UserError(f"{source}: {error} (a {kind})") from None


def scored_lines(data: bytes, source: str, settings: ScorerSettings) -> dict[str, Any]:
    """Return what becomes of each line, as a document.

    Raises:
        UserError: a line is no recorded decision; it names the line.
    """
    config = config_of(settings)
    items = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            items.append(_again(read_line(line), config))
        except (InvalidRecord, ValueError) as error:
            raise UserError(f"{source}, line {number}: {error}") from None
    return {
        "apiVersion": API_VERSION,
        "kind": "DecisionList",
        "decisions": len(items),
        "other_best": sum(item["best"] != item["recorded_best"] for item in items),
        "other_scores": sum(item["changed_nodes"] > 0 for item in items),
        "items": items,
    }


def _again(recorded: Recorded, config: ScorerConfig) -> dict[str, Any]:
    scores = score(recorded.basis(config.algorithms, config.rules), recorded.demand(config.prediction))
    names, best, before = recorded.nodes.names, scores.best, -1
    if len(names):
        before = int(best_first(recorded.total, scores.state)[0])
    return {
        "pod": f"{recorded.namespace}/{recorded.name}",
        "at": rfc3339(recorded.at),
        "nodes": len(names),
        "rule": str(scores.rule),
        "best": names[best] if best >= 0 else None,
        "best_score": int(scores.total[best]) if best >= 0 else None,
        "recorded_rule": recorded.rule,
        "recorded_best": names[before] if before >= 0 else None,
        "recorded_best_score": int(recorded.total[before]) if before >= 0 else None,
        "changed_nodes": int((scores.total != recorded.total).sum()),
    }
