"""History of CPU throttling from a Prometheus: one window of minutes, hours or days up to the newest values.

Asks little at a time: namespaces in bundles, fewer at once where the server says that it was too much, and half the
window where one namespace still is. Decides nothing: `slack.audit.sources.promql` has the queries and what answers
mean.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slack.audit.findings.sample import Sampled
from slack.audit.sources.promql import (
    ALL_CLUSTERS,
    CLUSTERS,
    LAG,
    LIMITS,
    NAMESPACES,
    NODE_QUERIES,
    OLDEST_SECONDS,
    QUERIES,
    ClusterChoice,
    Increases,
    Nodes,
    filled,
)
from slack.cli.inputs.prometheus_server import PrometheusServer, TooMuch
from slack.cli.terminal.problems import UserError
from slack.cli.terminal.progress import ProgressSteps

MOST_SERIES = 20_000
"""Of one family in one answer, some 10 MB: more is asked for in bundles of namespaces."""
_SHORTEST_SECONDS = 60.0
_NAMED = 5
_RELABELLING = (
    "kube-prometheus-stack drops it by default: take its first rule out of "
    "kubelet.serviceMonitor.cAdvisorMetricRelabelings, and wait for a window's length"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is asked at once."""

    namespaces: tuple[str, ...] | None
    """None: all."""
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class PrometheusSource:
    """One window up to the newest values, which are a minute old at most.

    Calls of `sample` come in pairs: the window's beginning (all zeros), then its end.

    Usage:

        source = PrometheusSource("http://localhost:9090", window_seconds=3600)
        windows = compare(source.sample(), source.sample())
        source.p99_cores[windows.windows[0].target.key]
    """

    def __init__(
        self,
        url: str,
        window_seconds: float = 300.0,
        *,
        cluster: ClusterChoice = ALL_CLUSTERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take an address; nothing is asked yet.

        Args:
            url: As --prometheus takes it.
            window_seconds: How far back, at least a minute.
            cluster: Which of the clusters in this Prometheus.
            clock: Unix seconds.

        Raises:
            UserError: the address or the window is none.
        """
        self._server = PrometheusServer.from_url(url)
        if window_seconds < _SHORTEST_SECONDS:
            raise UserError(f"--window: {window_seconds:g} s is too short; scrapes are up to a minute apart")
        self._seconds = float(round(window_seconds))
        self._cluster = cluster
        self._clock = clock
        self._second: Sampled | None = None
        self.p99_cores: Mapping[tuple[str, str], float] = {}
        """The 99th percentile of use in the last window, by `Target.key`; of cgroups with a limit only."""
        self.notes: tuple[str, ...] = ()
        """What should be known of the last window's figures."""

    def sample(self) -> Sampled:
        """Return one end of the window; only the first of two calls asks.

        Raises:
            UserError: the server gives no answer, an error, or has no such series.
        """
        if self._second is not None:
            second, self._second = self._second, None
            return second
        self._server.greet()
        now = float(int(self._clock()))
        end = now - self._lag_seconds(now)
        found = self._read(end - self._seconds, end)
        first, self._second = found.sampled()
        self.p99_cores = found.p99_cores
        return first

    def close(self) -> None:
        """Nothing is held between calls."""
        self._second = None

    def _read(self, start: float, end: float) -> Increases:
        whole = _Part(None, start, end)
        clusters = self._clusters(whole)
        answers_of_nodes = {name: self._vector(query, whole) for name, query in NODE_QUERIES.items()}
        several = len(clusters) > 1 and not self._cluster.name
        nodes = Nodes(answers_of_nodes, cluster_label=self._cluster.label if several else "")
        namespaces = self._namespaces(start, end)
        found = Increases(nodes, start, end)
        left = _parts(namespaces, start, end)
        done = 0
        with ProgressSteps() as steps:
            tell = steps.add_step(f"reading {self._server.address}")
            while left:
                part = left.pop()
                try:
                    answers = {name: self._vector(query, part) for name, query in QUERIES.items()}
                    limits = [] if answers["quota"] or not answers["periods"] else self._vector(LIMITS, part)
                except TooMuch:
                    smaller = _halves(part, tuple(namespaces))
                    if not smaller:
                        raise
                    left += reversed(smaller)
                    continue
                for name, vector in answers.items():
                    found.add_answer(name, vector)
                found.add_limits(limits)
                done += 1
                tell(done / (done + len(left)))
        self._check(found)
        if several:
            names = ", ".join(sorted(clusters)[:_NAMED]) + (" ..." if len(clusters) > _NAMED else "")
            note = (
                f"the label {self._cluster.label} has {len(clusters)} values ({names}): nodes are told apart by it; "
                "--prometheus-cluster NAME chooses one cluster"
            )
            self.notes = (*self.notes, note)
        return found

    def _clusters(self, whole: _Part) -> set[str]:
        """Return the values of the label that tells clusters apart.

        Raises:
            UserError: the one that was chosen is not among them.
        """
        label = self._cluster.label
        for query in CLUSTERS:
            try:
                counted = self._server.vector(filled(query, whole.seconds, cluster=self._cluster), whole.end)
                break
            except TooMuch:
                continue
        else:
            return {self._cluster.name}
        found = {labels.get(label, "") for labels, _ in counted}
        if self._cluster.name and self._cluster.name not in found:
            known = ", ".join(sorted(found - {""})[:_NAMED]) or "none"
            raise UserError(
                f"--prometheus-cluster: the label {label} has no value {self._cluster.name!r} in the last "
                f"{self._seconds:g} s (there are: {known}); another label is given as LABEL=NAME"
            )
        return found

    def _lag_seconds(self, now: float) -> float:
        """Return how long ago the newest values of nearly all series were read, in whole seconds."""
        try:
            ages = [value for _, value in self._server.vector(LAG, now) if value > 0]
        except TooMuch:
            return OLDEST_SECONDS
        return min(OLDEST_SECONDS, float(math.ceil(max(ages, default=0.0))))

    def _vector(self, query: str, part: _Part) -> list[tuple[dict[str, str], float]]:
        return self._server.vector(filled(query, part.seconds, part.namespaces, self._cluster), part.end)

    def _namespaces(self, start: float, end: float) -> dict[str, int]:
        """Return the namespaces of the window ('' for cgroups that are no pod's) and how many series each has."""
        part = _Part(None, start, end)
        try:
            return {labels.get("namespace", ""): int(value) for labels, value in self._vector(NAMESPACES, part)}
        except TooMuch:
            if part.seconds / 2 < _SHORTEST_SECONDS:
                raise
        middle = (start + end) / 2
        found = self._namespaces(start, middle)
        for name, count in self._namespaces(middle, end).items():
            found[name] = max(count, found.get(name, 0))
        return found

    def _check(self, found: Increases) -> None:
        place, span = self._server.address, f"the last {self._seconds:g} s"
        if not found.answered & {"periods", "usage_seconds"}:
            raise UserError(
                f"--prometheus: {place} has no container_cpu_cfs_periods_total in {span}; "
                "are the kubelets' /metrics/cadvisor scraped, and its history that long?"
            )
        limited = "periods" in found.answered
        if limited and "throttled_seconds" not in found.answered:
            raise UserError(
                f"--prometheus: {place} has no container_cpu_cfs_throttled_seconds_total in {span}, without which "
                f"nobody knows how much time was lost; {_RELABELLING}"
            )
        notes = []
        if limited and "quota" not in found.answered:
            notes.append(
                "no container_spec_cpu_quota: limits are kube_pod_container_resource_limits', the period is taken "
                "as 100 ms"
            )
        if limited and "usage_seconds" not in found.answered:
            notes.append("no container_cpu_usage_seconds_total: use is not known")
        self.notes = tuple(notes)


def _parts(namespaces: Mapping[str, int], start: float, end: float) -> list[_Part]:
    """Return bundles of namespaces of at most `MOST_SERIES`, or one part with all."""
    if sum(namespaces.values()) <= MOST_SERIES:
        return [_Part(None, start, end)]
    bundles: list[list[str]] = [[]]
    size = 0
    for name, count in sorted(namespaces.items()):
        if bundles[-1] and size + count > MOST_SERIES:
            bundles.append([])
            size = 0
        bundles[-1].append(name)
        size += count
    return [_Part(tuple(bundle), start, end) for bundle in reversed(bundles)]


def _halves(part: _Part, namespaces: Sequence[str]) -> list[_Part]:
    """Return two smaller questions, the earlier first; none when this is the smallest."""
    names = part.namespaces if part.namespaces is not None else tuple(sorted(namespaces))
    if len(names) > 1:
        middle = len(names) // 2
        return [_Part(names[:middle], part.start, part.end), _Part(names[middle:], part.start, part.end)]
    if part.seconds / 2 < _SHORTEST_SECONDS:
        return []
    middle_seconds = part.start + float(round(part.seconds / 2))
    return [_Part(part.namespaces, part.start, middle_seconds), _Part(part.namespaces, middle_seconds, part.end)]
