"""What is asked of a Prometheus that scrapes kubelets' cAdvisor, and how its answers become samples.

The counters' increases over one window stand for two samples: zeros when the series was seen first in it, the increases
when it was seen last. They are kubernetes-mixin's expressions (CPUThrottlingHigh) without container!="", which hides
the pods' own quotas. increase() mends resets, and extrapolates to the window's ends: counts are near, not equal. As
periods, throttled periods and throttled time come from the same scrapes they are stretched alike, so that ratios hold.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError, Sample, Sampled
from slack.audit.sources.series_labels import OWN_LABELS, by_names, label, names_the_scraped, target_of, without_names

Vector = Iterable[tuple[Mapping[str, str], float]]

NODE_LABELS = ("node", "kubernetes_node", "nodename", "kubernetes_io_hostname", "instance")
"""By how surely it is the node's name; installations differ in which of them their relabelling makes."""
_NAMES = ("namespace", "pod", "container")
CLUSTER_LABEL = "cluster"
"""What most installations call the label that tells clusters apart in one Prometheus."""
_LABELS = ", ".join(
    (
        CLUSTER_LABEL,
        *NODE_LABELS,
        "id",
        "name",
        *_NAMES,
        *(f"exported_{name}" for name in _NAMES),
        *OWN_LABELS.values(),
    )
)
_RISES = {
    "periods": "container_cpu_cfs_periods_total",
    "throttled": "container_cpu_cfs_throttled_periods_total",
    "throttled_seconds": "container_cpu_cfs_throttled_seconds_total",
    "bursts": "container_cpu_cfs_burst_periods_total",
}
_WAITING = "container_pressure_cpu_waiting_seconds_total"
_PRESSURE = {"waiting_seconds": _WAITING, "stalled_seconds": "container_pressure_cpu_stalled_seconds_total"}
"""KubeletPSI, cgroup v2: cpu.pressure's lines some and full."""
_QUOTA = "container_spec_cpu_quota{match}[{window}]"
_SEEN = "timestamp(container_cpu_cfs_periods_total{match})[{window}:{step}]"
_USE = "sum without (cpu) (rate(container_cpu_usage_seconds_total{match}[{rate}]))[{window}:{use_step}]"
_LIMITED = f"max by ({_LABELS}) (last_over_time(container_cpu_cfs_periods_total{{match}}[{{window}}]))"

# max: two servers that scrape the same kubelets show every series twice.
QUERIES: Mapping[str, str] = {
    **{name: f"max by ({_LABELS}) (increase({family}{{match}}[{{window}}]))" for name, family in _RISES.items()},
    # Kubelets on cgroup v1 tell 0 of everybody for ever: who never waited has told nothing.
    **{
        name: f"max by ({_LABELS}) (increase({family}{{match}}[{{window}}]) "
        f"and last_over_time({_WAITING}{{match}}[{{window}}]) > 0)"
        for name, family in _PRESSURE.items()
    },
    "usage_seconds": f"max by ({_LABELS}) (sum without (cpu) "
    "(increase(container_cpu_usage_seconds_total{match}[{window}])))",
    "quota": f"max by ({_LABELS}) (last_over_time({_QUOTA}))",
    "period": f"max by ({_LABELS}) (last_over_time(container_spec_cpu_period{{match}}[{{window}}]))",
    "quota_most": f"max by ({_LABELS}) (max_over_time({_QUOTA})) > max by ({_LABELS}) (min_over_time({_QUOTA}))",
    "quota_least": f"max by ({_LABELS}) (min_over_time({_QUOTA})) < max by ({_LABELS}) (max_over_time({_QUOTA}))",
    "first_seen": f"min by ({_LABELS}) (min_over_time({_SEEN}))",
    "last_seen": f"max by ({_LABELS}) (max_over_time({_SEEN}))",
    "use_p99": f"max by ({_LABELS}) (quantile_over_time(0.99, {_USE})) and {_LIMITED}",
}
"""Instant queries at the window's end. `{match}` takes the selected namespaces, `{window}` its length."""
LIMITS = (
    "max by (cluster, namespace, pod, container, exported_namespace, exported_pod, exported_container) "
    '(last_over_time(kube_pod_container_resource_limits{match:resource="cpu"}[{window}]))'
)
"""Where container_spec_* is not kept: kube-state-metrics' limits, in cores."""
NAMESPACES = "count by (namespace) (last_over_time(container_cpu_usage_seconds_total{match}[{window}]))"
CLUSTERS = (
    "count by ({label}) (last_over_time(container_cpu_usage_seconds_total[{window}]))",
    "count by ({label}) (container_cpu_usage_seconds_total)",
    "count by ({label}) (last_over_time(machine_cpu_cores[{window}]))",
)
"""Which clusters there are: `{label}` takes the label that tells them apart. Each asks for less than the one before: a
server refuses the first of a large cluster's hour, and clusters that are not known would be mixed."""
NODE_QUERIES: Mapping[str, str] = {
    "info": "last_over_time(kube_node_info{match}[{window}])",
    "cores": "last_over_time(machine_cpu_cores{match}[{window}])",
    "capacity": 'last_over_time(kube_node_status_capacity{match:resource="cpu"}[{window}])',
    "version": "last_over_time(cadvisor_version_info{match}[{window}])",
}
LAG = "quantile(0.99, time() - timestamp(container_cpu_cfs_periods_total))"
"""How old the newest values are. A window that ended now would end without them, and increase() does not stretch over
so wide a gap (promql/functions.go, extrapolatedRate): a tenth of five minutes would be missing."""
OLDEST_SECONDS = 75.0
"""Scrapes a minute apart, of counters that cAdvisor has read up to 15 s before."""
_SUMMED = frozenset({*_RISES, *_PRESSURE, "usage_seconds"})
"""Answers that are added up over instances and pieces of the window."""
PERIOD_US = 100_000
_LEAST_QUOTA_US = 1000
"""pkg/kubelet/cm/helpers_linux.go, MinQuotaPeriod."""


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which of the clusters in one Prometheus is asked for."""

    name: str = ""
    """'': all that there are."""
    label: str = CLUSTER_LABEL

    @property
    def matcher(self) -> str:
        """The matcher of a series selector; '' for all."""
        quoted = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.label}="{quoted}"' if self.name else ""


ALL_CLUSTERS = ClusterChoice()


def filled(
    query: str,
    window_seconds: float,
    namespaces: Iterable[str] | None = None,
    cluster: ClusterChoice = ALL_CLUSTERS,
) -> str:
    """Return a query with its window and, if any are chosen, its cluster and namespaces."""
    window = max(1, round(window_seconds))
    matchers = [cluster.matcher] if cluster.matcher else []
    if namespaces is not None:
        names = "|".join(_regex_quoted(name) for name in namespaces)
        matchers.append(f'namespace=~"{names}"')
    chosen = ",".join(matchers)
    short = window <= 600
    values = {
        "{match}": f"{{{chosen}}}" if chosen else "",
        "{match:": f"{{{chosen}," if chosen else "{",
        "{label}": cluster.label,
        "{window}": f"{window}s",
        "{step}": f"{_step_seconds(window)}s",
        "{rate}": "120s" if short else "300s",
        "{use_step}": f"{30 if short else max(60, window // 720)}s",
    }
    for name, value in values.items():
        query = query.replace(name, value)
    return query


def _step_seconds(window_seconds: float) -> int:
    return max(1, round(window_seconds) // 60)


def _regex_quoted(name: str) -> str:
    # Namespaces are DNS labels; a point would be any character, and a quote the end of the text.
    return "".join(char if char.isalnum() or char in "-_" else f"[{char}]" for char in name if char not in '"\\[]^')


class Nodes:
    """Facts of nodes, and which node a series is from."""

    def __init__(self, vectors: Mapping[str, Vector], *, cluster_label: str = "") -> None:
        """Take the answers to `NODE_QUERIES`.

        Args:
            vectors: by their names; any may be empty.
            cluster_label: if there are several clusters, the label that tells them apart: names of nodes begin with it.
        """
        self._cluster_label = cluster_label
        self._by_address: dict[str, str] = {}
        self._kernels: dict[str, str] = {}
        self._cpus: dict[str, int] = {}
        self.without_quotas: set[str] = set()
        """Nodes with Windows: what runs there has no CFS quota, and "no limit" would be wrong."""
        for labels, _ in vectors.get("info", ()):
            if plain := label(labels, "node"):
                if labels.get("os_image", "").startswith("Windows"):
                    self.without_quotas.add(self.qualified(labels, plain))
                else:
                    self._kernels[self.qualified(labels, plain)] = labels.get("kernel_version", "")
                self._by_address[self.qualified(labels, labels.get("internal_ip", ""))] = plain
        for labels, _ in vectors.get("version", ()):
            if (name := self.node_of_series(labels)) not in self.without_quotas:
                self._kernels.setdefault(name, labels.get("kernelVersion", ""))
        for labels, value in vectors.get("cores", ()):
            self._put_cpus(self.node_of_series(labels), value)
        for labels, value in vectors.get("capacity", ()):
            if plain := label(labels, "node"):
                self._put_cpus(self.qualified(labels, plain), value)

    def qualified(self, labels: Mapping[str, str], name: str) -> str:
        """Return a name with that of its cluster before it, if there are several."""
        return f"{labels.get(self._cluster_label, '')}/{name}" if self._cluster_label else name

    def cluster_of(self, node: str) -> str:
        """Return what the name of a node begins with; '' if there is one cluster."""
        return f"{node.partition('/')[0]}/" if self._cluster_label else ""

    def node_of_series(self, labels: Mapping[str, str]) -> str:
        """Return the node of a cAdvisor series."""
        for name in NODE_LABELS:
            if value := labels.get(name):
                if name != "instance":
                    return self.qualified(labels, value)
                host = value.rpartition(":")[0].strip("[]") or value
                return self.qualified(labels, self._by_address.get(self.qualified(labels, host), host))
        return ""

    def facts(self, name: str) -> CgroupNodeFacts:
        """Return what is known of a node."""
        return CgroupNodeFacts(self._cpus.get(name), self._kernels.get(name, ""))

    def _put_cpus(self, name: str, value: float) -> None:
        if name and math.isfinite(value) and value >= 1:
            self._cpus.setdefault(name, int(value))


@dataclass(slots=True)
class _Row:
    """One cgroup, while answers come in."""

    target: CgroupTarget
    rises: dict[str, float] = field(default_factory=dict)
    quota: float | None = None
    quota_before: float | None = None
    period: float | None = None
    first_seen: float = math.inf
    last_seen: float = -math.inf
    use_p99: float | None = None
    instances: set[str] = field(default_factory=set)
    """Where its series were scraped."""


class Increases:
    """All that was answered, part by part: of some namespaces each, or of later and later pieces of the window."""

    def __init__(self, nodes: Nodes, start: float, end: float) -> None:
        self._nodes = nodes
        self._start = start
        self._end = end
        self._rows: dict[tuple[str, str], _Row] = {}
        self._node_of: dict[str, str] = {}
        """By path of a cgroup that no other node can have: under which node it is kept."""
        self._path_of: dict[tuple[str, CgroupLevel, str, str], str] = {}
        """By node and pod or container: the first of its paths. A node in a container has an inner and an outer one."""
        self._standalone: set[str] = set()
        """Scraped instances whose series have the names of the scraped pod."""
        self._limits: dict[tuple[str, str, str, str], float] = {}
        self._bad: Counter[str] = Counter()
        self.answered: set[str] = set()
        """Names of queries that gave something."""

    def add_answer(self, name: str, vector: Vector) -> None:
        """Take one answer; pieces of the window must come in their order.

        Of one cgroup's series that several jobs have scraped, the largest counts: they are the same counter. Series of
        one cgroup with different container names are instances that followed one another, and are added up.
        """
        largest: dict[tuple[tuple[str, str], str], tuple[_Row, float]] = {}
        for labels, value in vector:
            self.answered.add(name)
            if not math.isfinite(value) or value < 0:
                self._bad[f"{name} of {label(labels, 'id') or label(labels, 'pod')} is {value:g}"] += 1
                continue
            row = self._row(labels)
            if row is None:
                continue
            if name not in _SUMMED:
                _put(row, name, value)
                continue
            key = row.target.key, labels.get("name", "")
            largest[key] = row, max(value, largest[key][1] if key in largest else 0.0)
        for row, value in largest.values():
            _put(row, name, value)

    def add_limits(self, vector: Vector) -> None:
        """Take kube-state-metrics' limits, for cgroups whose quota is not known otherwise."""
        for labels, value in vector:
            cluster = self._nodes.qualified(labels, "")
            place = (cluster, label(labels, "namespace"), label(labels, "pod"), label(labels, "container"))
            if math.isfinite(value) and value > 0:
                self._limits[place] = value

    def sampled(self) -> tuple[Sampled, Sampled]:
        """Return the window's beginning, all zeros, and its end."""
        before: list[Sample] = []
        after: list[Sample] = []
        standalone = self._standalone | self._of_one_name()
        for row in self._rows.values():
            if row.instances & standalone:
                row.target = without_names(row.target)
        of_pods = self._limits_of_pods()
        by_path = {self._place_of(row.target) for row in self._rows.values() if not _is_by_names(row.target)}
        for row in self._rows.values():
            if _is_by_names(row.target) and self._place_of(row.target) in by_path:
                continue  # another scrape job has the same cgroup with its path
            limited = any(name in row.rises for name in ("periods", "throttled", "throttled_seconds"))
            if not limited and row.target.level is CgroupLevel.OTHER:
                continue
            if limited and (missing := self._missing(row, of_pods)):
                self._bad[f"{row.target.path}: no {', '.join(missing)}"] += 1
                continue
            first, other = self._pair(row, limited=limited)
            before.append(first)
            after.append(other)
        nodes = {name: self._nodes.facts(name) for name in {sample.target.node for sample in after}}
        troubles = {ReadError.MALFORMED: self._bad.total()} if self._bad else {}
        examples = {ReadError.MALFORMED: next(iter(self._bad))} if self._bad else {}
        return Sampled(tuple(before), nodes), Sampled(tuple(after), nodes, troubles, examples)

    @property
    def p99_cores(self) -> dict[tuple[str, str], float]:
        """The 99th percentile of use, a `CgroupTarget.key`; of a window in pieces the largest piece's."""
        return {key: row.use_p99 for key, row in self._rows.items() if row.use_p99 is not None}

    def _row(self, labels: Mapping[str, str]) -> _Row | None:
        target = target_of(labels, self._nodes.node_of_series(labels))
        if target is None or target.node in self._nodes.without_quotas:
            return None
        if target.pod_uid or target.container_id:  # such a path is one node's: another name of it is an address
            target = replace(target, node=self._node_of.setdefault(target.path, target.node))
        if target.pod_uid and target.level is not CgroupLevel.OTHER:
            same = target.node, target.level, target.pod_uid, target.container_id
            target = replace(target, path=self._path_of.setdefault(same, target.path))
        row = self._rows.get(target.key)
        if row is None:
            row = self._rows[target.key] = _Row(target)
        if not any(labels.get(f"exported_{name}") or labels.get(own) for name, own in OWN_LABELS.items()):
            row.instances.add(labels.get("instance", ""))
        if names_the_scraped(labels):
            self._standalone.add(labels.get("instance", ""))
        return row

    def _of_one_name(self) -> set[str]:
        """Return the scraped instances all of whose containers have one pod's name, though they are of several pods.

        A standalone cAdvisor that shows containers alone gives itself away by nothing else. Pods that follow one
        another under a name, as a StatefulSet's, are not there at the same time.
        """
        pods: dict[str, set[tuple[str, str]]] = {}
        present: dict[str, set[str]] = {}
        for row in self._rows.values():
            if row.target.level is not CgroupLevel.CONTAINER or not row.target.pod_uid or not row.target.pod:
                continue
            for instance in row.instances:
                pods.setdefault(instance, set()).add((row.target.namespace, row.target.pod))
                if row.last_seen > self._end - _step_seconds(self._end - self._start) - OLDEST_SECONDS:
                    present.setdefault(instance, set()).add(row.target.pod_uid)
        return {instance for instance, names in pods.items() if len(names) == 1 < len(present.get(instance, ()))}

    def _place(self, target: CgroupTarget) -> tuple[str, str, str]:
        """Return what a pod is called: its cluster, as names of nodes begin with it, namespace and name."""
        cluster = self._nodes.cluster_of(target.node)
        return cluster, target.namespace, target.pod

    def _place_of(self, target: CgroupTarget) -> tuple[str, str, str, str]:
        return (*self._place(target), target.container)

    def _missing(self, row: _Row, of_pods: Mapping[tuple[str, str, str], float | None]) -> list[str]:
        """Return what a cgroup with a quota lacks, after having looked for its limit elsewhere."""
        target = row.target
        if row.quota is None:
            if target.level is CgroupLevel.CONTAINER:
                cores = self._limits.get(self._place_of(target))
            else:
                cores = of_pods.get(self._place(target)) if target.level is CgroupLevel.POD else None
            if cores is not None:
                row.quota = max(_LEAST_QUOTA_US, round(cores * (row.period or PERIOD_US)))
        found = {name: name in row.rises for name in ("periods", "throttled", "throttled_seconds")}
        found["quota"] = row.quota is not None
        return [name for name, there in found.items() if not there]

    def _limits_of_pods(self) -> dict[tuple[str, str, str], float | None]:
        """Return the sums of pods of which every container that was seen has a limit; None for others."""
        sums: dict[tuple[str, str, str], float | None] = {}
        for target in (row.target for row in self._rows.values() if row.target.level is CgroupLevel.CONTAINER):
            place = self._place(target)
            cores = self._limits.get((*place, target.container))
            known = sums.get(place, 0.0)
            sums[place] = None if cores is None or known is None else known + cores
        return sums

    def _pair(self, row: _Row, *, limited: bool) -> tuple[Sample, Sample]:
        rises = row.rises
        periods = round(rises.get("periods", 0.0))
        quota = None if row.quota is None or not limited else round(row.quota)
        before = quota if row.quota_before is None or quota is None else round(row.quota_before)
        usage = rises.get("usage_seconds")
        bursts = rises.get("bursts")
        pressure = {
            f"{name}_ns": rises.get(f"{name}_seconds") if row.target.level is CgroupLevel.CONTAINER else None
            for name in ("waiting", "stalled")
        }
        period = round(row.period or PERIOD_US)
        start, end = self._seen(row)
        zero = Sample(
            row.target, start, before, period, 0, 0, 0,
            usage_ns=None if usage is None else 0,
            bursts=None if bursts is None else 0,
            **{name: None if value is None else 0 for name, value in pressure.items()},
        )  # fmt: skip
        last = Sample(
            row.target,
            end,
            quota,
            period,
            periods,
            min(periods, round(rises.get("throttled", 0.0))),
            round(rises.get("throttled_seconds", 0.0) * 1e9),
            usage_ns=None if usage is None else round(usage * 1e9),
            bursts=None if bursts is None else round(bursts),
            **{name: None if value is None else round(value * 1e9) for name, value in pressure.items()},
        )
        return zero, last

    def _seen(self, row: _Row) -> tuple[float, float]:
        """Return from when to when the series was there: a pod that lived for a minute has not lost time for an hour.

        It is looked at a sixtieth of the window apart. What was there before the window is seen at the first look with
        a time stamp that is older; what is there at the end, with one as old as scrapes and cAdvisor's readings are.
        """
        step = _step_seconds(self._end - self._start)
        if row.first_seen is math.inf and "periods" in row.rises and "first_seen" in self.answered:
            return self._end - step, self._end  # it came and went between two looks, which are at limited ones only
        start = row.first_seen if self._start + step < row.first_seen < self._end else self._start
        end = row.last_seen if start < row.last_seen < self._end - step - OLDEST_SECONDS else self._end
        return start, max(end, start + step)


def _is_by_names(target: CgroupTarget) -> bool:
    """Whether names stand for the path: a series without the label id."""
    return bool(target.pod) and target.path == by_names(
        {"namespace": target.namespace, "pod": target.pod, "container": target.container}
    )


def _put(row: _Row, name: str, value: float) -> None:
    match name:
        case "quota":
            if row.quota not in (None, value):
                row.quota_before = row.quota
            row.quota = value
        case "quota_most" | "quota_least":
            if value != row.quota:
                row.quota_before = value
        case "period":
            row.period = value
        case "first_seen":
            row.first_seen = min(row.first_seen, value)
        case "last_seen":
            row.last_seen = max(row.last_seen, value)
        case "use_p99":
            row.use_p99 = max(row.use_p99 or 0.0, value)
        case _:
            row.rises[name] = row.rises.get(name, 0.0) + value
