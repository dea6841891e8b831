"""What kube-state-metrics remembered, as a trace: samples of a Prometheus in, rows out. Pure.

Affinity, topology spread and preemptionPolicy are in none of its metrics; such pods may go everywhere. What it tells
only when it is asked to (node labels, node selectors), and the values of PriorityClasses, may be missing too: `notes`
says so. The API's times have whole seconds; what was seen to end or to get ready is as fine as the scrape interval.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from slack.cluster import wire
from slack.cluster.classes import is_transient
from slack.cluster.identity import SHORT_KINDS, workload_of
from slack.cluster.labels import DEFAULT_NAMESPACE, HOSTNAME, LABEL_TEMPLATE_HASH
from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace
from slack.simulator.traces.series_facts import TracedNodeFacts, TracedPodFacts
from slack.simulator.traces.state_metrics import MetricSample, resource, units

SCRAPE_SECONDS = 60.0
"""The usual interval, and the longest: Prometheus takes a series for gone after 5 min."""
_PRIORITIES = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""PriorityClasses that each cluster has (pkg/apis/scheduling/types.go)."""
_HASH = re.compile(r"-(?P<hash>[bcdfghjklmnpqrstvwxz2456789]{5,10})$")
"""A pod-template-hash (apimachinery util/rand SafeEncodeString)."""
_NAMED_IN_NOTES = 5


class TraceHistory:
    """Gathers the answers of one window after the other, in order of time."""

    def __init__(
        self,
        started_seconds: float,
        placeholder_namespace: str = DEFAULT_NAMESPACE,
        scrape_seconds: float = SCRAPE_SECONDS,
    ) -> None:
        self._started = float(int(started_seconds))  # whole, as the API's times and a recording's start
        self._namespace = placeholder_namespace
        self._scrape_seconds = scrape_seconds
        self._pods: dict[tuple[str, str, str], TracedPodFacts] = defaultdict(TracedPodFacts)
        self._nodes: dict[str, TracedNodeFacts] = defaultdict(TracedNodeFacts)
        self._priorities: dict[tuple[str, str], int] = {}
        self._owners: dict[tuple[str, str, str], tuple[str, str]] = {}
        """Kind and name of what owns a ReplicaSet or Job, by namespace, kind and name."""
        self._answered: set[str] = set()
        self._shown: set[str] = set()
        """Keys of labels that some node has."""

    def add_answer(self, query: str, samples: Iterable[MetricSample]) -> None:
        """Take the answer to one of QUERIES."""
        for sample in samples:
            self._answered.add(query)
            if query == "tolerations_known":
                continue
            if query.startswith("node"):
                facts = self._nodes[sample.label("node")]
                facts.add_sample(query, sample)
                self._shown |= facts.labels.keys() if query == "node_labels" else set()
            elif query in ("replicaset_owner", "job_owner"):
                kind, name = ("ReplicaSet", "replicaset") if query == "replicaset_owner" else ("Job", "job_name")
                key = sample.label("namespace"), kind, sample.label(name)
                self._owners[key] = sample.label("owner_kind"), sample.label("owner_name")
            elif query == "pod_priority":
                self._priorities[sample.label("namespace"), sample.label("pod")] = int(sample.label("priority") or 0)
            else:
                pod = sample.label("namespace"), sample.label("pod"), sample.label("uid")
                self._pods[pod].add_sample(query, sample)

    def trace(self, ended_seconds: float) -> Trace:
        """Return the rows of all that was added."""
        # Against the last scrape and not the clock: when nobody scraped at the end, nothing ended by it.
        seen = [pod.last_seen for pod in self._pods.values()] + [node.last_seen for node in self._nodes.values()]
        still = max(seen, default=0.0) - 1.5 * self._scrape_seconds
        pods: list[PodTraceRow] = []
        taken: dict[str, float] = {}
        daemons: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        for (namespace, name, _), facts in self._pods.items():
            if facts.created is None:
                continue  # made after its window's other answers, or before the first
            if facts.info.get("created_by_kind") in ("DaemonSet", "Node"):
                # A rollout replaces a DaemonSet's pod: of those of one owner the last one counts.
                owner = f"{namespace}/{facts.info.get('created_by_name') or name}"
                daemons[facts.info.get("node", "")][owner] = {**facts.amounts(), "pods": 1}
                continue
            node = facts.info.get("node", "")
            if node and facts.scheduled is not None:
                taken[node] = min(taken.get(node, facts.scheduled), facts.scheduled)
            end = self._end(facts, still)
            if end is None or end > self._started:
                pods.append(self._pod(namespace, name, facts, end, ended_seconds))
        nodes = [
            self._node(name, facts, daemons.get(name, {}), taken.get(name), still, ended_seconds)
            for name, facts in self._nodes.items()
            if name and facts.created is not None and facts.allocatable
        ]
        return Trace(
            datetime.fromtimestamp(self._started, UTC),
            datetime.fromtimestamp(ended_seconds, UTC),
            "prometheus",
            tuple(sorted(pods, key=lambda row: (row.time_seconds, row.namespace, row.workload))),
            tuple(sorted(nodes, key=lambda row: (row.time_seconds, row.name))),
        )

    def notes(self) -> tuple[str, ...]:
        """Say what is not in the trace because no metric told it, and what would."""
        found = []
        if not self._shown:
            found.append(
                "no labels of nodes: they are told apart by size and taints, and node selectors are left out; "
                "kube-state-metrics gives them with --metric-labels-allowlist=nodes=[*]"
            )
        if "pod_selectors" not in self._answered:
            found.append(
                "no node selectors: pods are taken to go everywhere; "
                "kube-state-metrics gives them with --metric-opt-in-list=kube_pod_nodeselectors"
            )
        lost = sorted({key for facts in self._pods.values() for key in self._unknown(facts.selector)})
        if lost and self._shown:
            found.append(
                f"node selectors by {_some(lost)} are left out, no node shows such a label; "
                "kube-state-metrics shows labels with --metric-labels-allowlist=nodes=[*]"
            )
        if "tolerations_known" not in self._answered:
            found.append(
                "no tolerations, so taints are left out as well; kube-state-metrics gives kube_pod_tolerations "
                "unless it is old or --metric-denylist names it"
            )
        classes = sorted({self._class_of(key, facts) for key, facts in self._pods.items()} - _PRIORITIES.keys())
        if classes:
            found.append(
                f"no values of the PriorityClasses {_some(classes)}: 0 is taken; kube-state-metrics has none, "
                "kube-scheduler's /metrics/resources (kube_pod_resource_request) has"
            )
        if "pod_scheduled" not in self._answered:
            found.append("no kube_pod_status_scheduled_time: no pod is known to have been bound")
        return tuple(found)

    def _class_of(self, key: tuple[str, str, str], facts: TracedPodFacts) -> str:
        """Return the PriorityClass whose value is not known; '' when there is none."""
        known = key[:2] in self._priorities or key[0] == self._namespace
        return "" if known else facts.info.get("priority_class", "")

    def _unknown(self, selector: Mapping[str, str]) -> set[str]:
        """Return the selector's keys that no node has: kube-state-metrics does not show all labels."""
        return selector.keys() - self._shown - {HOSTNAME}

    def _pod(self, namespace: str, name: str, facts: TracedPodFacts, end: float | None, ended: float) -> PodTraceRow:
        created = min(facts.created or 0.0, ended)  # the API server's clock may be ahead of who asks
        amounts = facts.amounts()
        bound = facts.scheduled
        began = None if bound is None else max(bound, self._started)
        return PodTraceRow(
            time_seconds=max(0.0, created - self._started),
            namespace=namespace,
            workload=self._workload(namespace, name, facts.info),
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=_text(amounts),
            constraints_json=_text(self._constraints(facts)),
            priority=self._priorities.get(
                (namespace, name), _PRIORITIES.get(facts.info.get("priority_class", ""), _PRIORITIES[""])
            ),
            placeholder=namespace == self._namespace and facts.info.get("created_by_kind") == "ReplicaSet",
            # As in a recording: bound in the second in which it began is bound before.
            initial=created < self._started and bound is not None and bound < self._started + 1,
            bound_seconds=None if bound is None else max(0.0, bound - created),
            life_seconds=None if end is None or began is None else max(0.0, end - began),
            node=facts.info.get("node", "") if bound is not None else "",
        )

    def _constraints(self, facts: TracedPodFacts) -> dict[str, object]:
        unknown = self._unknown(facts.selector)
        selector = {key: value for key, value in facts.selector.items() if key not in unknown}
        tolerations = [
            {name: text for name, text in zip(("key", "operator", "value", "effect"), toleration, strict=True) if text}
            for toleration in sorted(facts.tolerations)
            if not is_transient(toleration[0])
        ]
        return {name: value for name, value in (("nodeSelector", selector), ("tolerations", tolerations)) if value}

    def _node(
        self,
        name: str,
        facts: TracedNodeFacts,
        daemons: Mapping[str, Mapping[str, int]],
        taken: float | None,
        still: float,
        ended: float,
    ) -> NodeTraceRow:
        """Return the row; `taken` is when the first pod was bound there."""
        created = min(facts.created or 0.0, ended)
        # The scheduler gives pods to nodes that are ready, and says so to the second; scrapes are further apart.
        ready = facts.ready
        if taken is not None and (ready is not None or created >= self._started):
            ready = taken if ready is None else min(ready, taken)
        initial = created < self._started and (ready is None or ready <= self._started + self._slack)
        amounts = {resource(key): units(key, value) for key, value in facts.allocatable.items()}
        together: dict[str, int] = defaultdict(int)
        for daemon in daemons.values():
            for key, value in daemon.items():
                together[key] += value
        gone = 0 < facts.last_seen < still
        return NodeTraceRow(
            name=name,
            time_seconds=max(0.0, created - self._started),
            labels_json=_text({key: value for key, value in facts.labels.items() if value != name}),
            taints_json=_text(self._taints(facts)),
            cpu_millis=amounts.pop("cpu", 0),
            memory_bytes=amounts.pop("memory", 0),
            requests_json=_text(amounts),
            daemon_json=_text(together),
            initial=initial,
            ready_seconds=None if initial or ready is None else max(0.0, ready - created),
            life_seconds=max(0.0, self._last(facts) - max(created, self._started)) if gone else None,
        )

    def _end(self, facts: TracedPodFacts, still: float) -> float | None:
        """Return when the pod ended; None when it was there at the last scrape."""
        if facts.finished is not None:
            return facts.finished if facts.completed is None else facts.completed
        return self._last(facts) if 0 < facts.last_seen < still else None

    def _last(self, facts: TracedPodFacts | TracedNodeFacts) -> float:
        """Return when something has gone: between the last scrape that showed it and the next."""
        return facts.last_seen + self._scrape_seconds / 2

    @property
    def _slack(self) -> float:
        """So late a node that was ready at the start is seen to be."""
        return 2 * self._scrape_seconds

    def _taints(self, facts: TracedNodeFacts) -> list[dict[str, str]]:
        """Return the lasting taints that the node had when it was seen last; none when no toleration is known."""
        if "tolerations_known" not in self._answered:
            return []
        return [
            {"key": key, "value": value, "effect": effect}
            for (key, value, effect), seen in sorted(facts.taints.items())
            if not is_transient(key) and seen >= facts.last_seen - 1.5 * self._scrape_seconds
        ]

    def _workload(self, namespace: str, name: str, info: Mapping[str, str]) -> str:
        kind, owner = info.get("created_by_kind", ""), info.get("created_by_name", "")
        above = self._owners.get((namespace, kind, owner))
        if above is not None and above[0] in SHORT_KINDS:
            return f"{SHORT_KINDS[above[0]]}/{above[1]}"
        if kind in ("", "<none>"):
            owners: list[wire.OwnerReference] = []
        else:
            owners = [wire.OwnerReference(kind=kind, name=owner, controller=True)]
        told = "replicaset_owner" in self._answered  # then the name need not be guessed from
        match = _HASH.search(owner) if kind == "ReplicaSet" and not told else None
        labels = {LABEL_TEMPLATE_HASH: match["hash"]} if match else {}
        metadata = wire.Metadata(name=name, namespace=namespace, labels=labels, owner_references=owners)
        _, short, workload = workload_of(metadata)
        return f"{short}/{workload}"


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if value else ""


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED_IN_NOTES
    return ", ".join(names[:_NAMED_IN_NOTES]) + (f" and {more} more" if more > 0 else "")
