"""What is measured while a run goes on, and the Result that it comes to. Nothing counts before the warm-up is over."""

import math
from array import array
from collections.abc import Sequence

import numpy as np

from slack.simulator.model.kinds import PodKind, PodRole
from slack.simulator.model.result import Churn, GroupResult, Result, TimelineRow, WorkloadResult
from slack.simulator.model.state import GONE, LEAVING, READY, STARTING, ModelledCluster
from slack.simulator.scenario.scenario import Scenario

_GIB = float(1 << 30)
_CHURN = ("created", "displaced", "placeholders_drained", "grown", "other")


class Meter:
    """Waits by workload, sums of what was used and paid, counters, the timeline."""

    def __init__(self, scenario: Scenario, cluster: ModelledCluster) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._from = scenario.warm_up.total_seconds()
        self._waits = [array("d") for _ in scenario.workloads]
        self._bound = [0] * len(scenario.workloads)
        self._recreated = [0] * len(scenario.workloads)
        self._recreated_instant = [0] * len(scenario.workloads)
        self._pending_seconds = [0.0] * len(scenario.workloads)
        self._used = [0.0, 0.0]
        self._paid = [0.0, 0.0]
        self._node_seconds = [0.0] * len(scenario.node_groups)
        self._ups = [0] * len(scenario.node_groups)
        self._downs = [0] * len(scenario.node_groups)
        self._most = [group.first for group in scenario.node_groups]
        self.counters = dict.fromkeys(
            ("decisions", *_CHURN, "made_way", "preempted", "drained", "plans", "taint_writes"), 0
        )
        self._by_hour: dict[int, dict[str, int]] = {}
        self._displaced_ever = 0
        self.late = 0
        """First starts so far that were not at once."""
        self._timeline: list[TimelineRow] = []

    def count(self, name: str, now: float, number: int = 1) -> None:
        """Count something that happened."""
        if name == "displaced":
            self._displaced_ever += number
        if now >= self._from:
            self.counters[name] += number
            if name in _CHURN:
                hour = self._by_hour.setdefault(int((now - self._from) // 3600), dict.fromkeys(_CHURN, 0))
                hour[name] += number

    def bound(self, row: int, kind: PodKind, at: float) -> None:
        """A real pod has been bound."""
        created = self._cluster.created[row]
        self._waited(kind.workload, created, at)
        if created >= self._from:
            self._started(row, kind.workload, at - created)
            self._bound[kind.workload] += not self._cluster.recreated[row]

    def gone(self, row: int, kind: PodKind, now: float) -> None:
        """A real pod goes, or the run ends: what it used counts, or its waiting in vain."""
        cluster = self._cluster
        if cluster.node_of[row] >= 0:
            seconds = max(now - max(cluster.bound_at[row], self._from), 0.0)
            for column in (0, 1):
                self._used[column] += seconds * int(kind.requests[column])
            return
        created = cluster.created[row]
        self._waited(kind.workload, created, now)
        if created >= self._from and now - created > self._scenario.instant_seconds:
            self._started(row, kind.workload, now - created)

    def node_added(self, group: int, now: float) -> None:
        """A node has been requested."""
        self._most[group] = max(self._most[group], self._cluster.group_counts[group])
        if now >= self._from:
            self._ups[group] += 1

    def node_gone(self, node: int, now: float, *, end: bool = False) -> None:
        """A node is gone, or the run ends."""
        cluster = self._cluster
        group = int(cluster.group_of[node])
        seconds = max(now - max(cluster.created_at[node], self._from), 0.0)
        self._node_seconds[group] += seconds
        for column in (0, 1):
            self._paid[column] += seconds * int(cluster.group_allocatable[group][column])
        if now >= self._from and not end:
            self._downs[group] += 1

    def sample(self, now: float, unbound: tuple[int, int]) -> None:
        """Add a row to the timeline.

        Args:
            now: seconds since the run began.
            unbound: millicores and bytes of unbound placeholders that fit: they count as bound ones do.
        """
        cluster = self._cluster
        asked, bound = cluster.asked_total, cluster.bound_total
        slack_bound = [bound[PodRole.PLACEHOLDER][c] + bound[PodRole.FILLER][c] + unbound[c] for c in (0, 1)]
        slack_asked = [asked[PodRole.PLACEHOLDER][c] + asked[PodRole.FILLER][c] for c in (0, 1)]
        pending = placeholders = 0
        for kind, count, running in zip(cluster.kinds.table, cluster.count, cluster.running, strict=False):
            if kind.role is PodRole.REAL:
                pending += count - running
            else:
                placeholders += count
        states = cluster.state[: cluster.size]
        self._timeline.append(
            TimelineRow(
                time_seconds=now,
                requested_cpu_millis=asked[PodRole.REAL][0],
                requested_memory_bytes=asked[PodRole.REAL][1],
                slack_bound_cpu_millis=slack_bound[0],
                slack_bound_memory_bytes=slack_bound[1],
                slack_pending_cpu_millis=slack_asked[0] - slack_bound[0],
                slack_pending_memory_bytes=slack_asked[1] - slack_bound[1],
                capacity_cpu_millis=cluster.node_total[0],
                capacity_memory_bytes=cluster.node_total[1],
                nodes=int((states == READY).sum()),
                starting_nodes=int((states == STARTING).sum()),
                leaving_nodes=int((states == LEAVING).sum()),
                pending_pods=pending,
                placeholders=placeholders,
                displaced=self._displaced_ever,
            )
        )

    def result(self, end: float, events: int) -> Result:
        """Close the books."""
        cluster, scenario = self._cluster, self._scenario
        for row in cluster.alive():
            kind = cluster.kinds[cluster.kind_of[row]]
            if kind.role is PodRole.REAL:
                self.gone(row, kind, end)
        for node in np.flatnonzero(cluster.state[: cluster.size] != GONE).tolist():
            self.node_gone(node, end, end=True)
        names = [str(name) for name in cluster.kinds.workloads]
        waits = [np.sort(np.frombuffer(w, dtype=np.float64)) if w else np.zeros(0) for w in self._waits]
        everything = np.sort(np.concatenate(waits)) if waits else np.zeros(0)
        counters = self.counters
        return Result(
            scenario=scenario.name,
            slack=scenario.slack.kind,
            seed=scenario.seed,
            measured_seconds=end - self._from,
            total=self._summary("*", everything, range(len(names))),
            workloads=tuple(self._summary(name, waits[i], (i,)) for i, name in enumerate(names)),
            groups=tuple(
                GroupResult(
                    group=group.name,
                    node_hours=self._node_seconds[i] / 3600,
                    cost=self._node_seconds[i] / 3600 * group.price_per_hour,
                    scale_ups=self._ups[i],
                    scale_downs=self._downs[i],
                    most=self._most[i],
                    last=cluster.group_counts[i],
                )
                for i, group in enumerate(scenario.node_groups)
            ),
            requested_cpu_hours=self._used[0] / 3600 / 1000,
            requested_memory_gib_hours=self._used[1] / 3600 / _GIB,
            capacity_cpu_hours=self._paid[0] / 3600 / 1000,
            capacity_memory_gib_hours=self._paid[1] / 3600 / _GIB,
            scale_ups=sum(self._ups),
            scale_up_decisions=counters["decisions"],
            scale_downs=sum(self._downs),
            placeholders_created=counters["created"],
            placeholders_displaced=counters["displaced"],
            placeholders_drained=counters["placeholders_drained"],
            placeholders_made_way=counters["made_way"],
            placeholders_grown=counters["grown"],
            placeholders_other=counters["other"],
            churn_by_hour=tuple(self._churn(hour) for hour in range(math.ceil((end - self._from) / 3600))),
            pods_preempted=counters["preempted"],
            pods_drained=counters["drained"],
            taint_writes=counters["taint_writes"],
            plans=counters["plans"],
            events=events,
            timeline=tuple(self._timeline),
        )

    def _churn(self, hour: int) -> Churn:
        created, displaced, drained, grown, other = self._by_hour.get(hour, dict.fromkeys(_CHURN, 0)).values()
        return Churn(created, displaced, drained, grown, other)

    def _waited(self, workload: int, created: float, until: float) -> None:
        self._pending_seconds[workload] += max(until - max(created, self._from), 0.0)

    def _started(self, row: int, workload: int, wait: float) -> None:
        """A pod has started after this wait, or has waited in vain: one that takes another's place counts apart."""
        if self._cluster.recreated[row]:
            self._recreated[workload] += 1
            self._recreated_instant[workload] += wait <= self._scenario.instant_seconds
        else:
            self._waits[workload].append(wait)
            self.late += wait > self._scenario.instant_seconds

    def _summary(
        self, name: str, waits: "np.ndarray[tuple[int], np.dtype[np.float64]]", rows: Sequence[int]
    ) -> WorkloadResult:
        """Sum up workloads and their sorted waits; a percentile is the smallest wait that so many do not exceed."""
        count = len(waits)

        def at(share: float) -> float:
            return float(waits[max(math.ceil(share * count) - 1, 0)]) if count else 0.0

        return WorkloadResult(
            workload=name,
            pods=count,
            bound=sum(self._bound[row] for row in rows),
            instant=int(np.searchsorted(waits, self._scenario.instant_seconds, side="right")),
            p50_seconds=at(0.5),
            p95_seconds=at(0.95),
            p99_seconds=at(0.99),
            max_seconds=at(1.0),
            pending_pod_seconds=sum(self._pending_seconds[row] for row in rows),
            recreated=sum(self._recreated[row] for row in rows),
            recreated_instant=sum(self._recreated_instant[row] for row in rows),
        )
