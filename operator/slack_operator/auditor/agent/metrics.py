"""What an agent tells Prometheus: judged when it is asked, from the newest samples; nothing is kept between scrapes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slack.audit.findings.finding import Finding
from slack.audit.findings.sample import CgroupLevel, CgroupTarget, ReadError
from slack.audit.findings.window import WindowState
from slack.audit.kernel.quota_bugs import Bug, KernelState, KernelVerdict
from slack.process.metric_definition import BUILD_INFO, MetricDefinition
from slack.process.reporting import posting
from slack_operator.auditor import metric_definitions
from slack_operator.auditor.agent import burst_writer
from slack_operator.auditor.agent.names import shown

_FIGURES: tuple[tuple[MetricDefinition, Callable[[Finding], float | None]], ...] = (
    (metric_definitions.THROTTLED_RATIO, lambda finding: finding.throttled_ratio),
    (metric_definitions.TIME_LOST, lambda finding: finding.lost_ratio),
    (metric_definitions.STOP, lambda finding: finding.stop_seconds),
    (metric_definitions.USE, lambda finding: finding.use_cores),
    (metric_definitions.LIMIT, lambda finding: finding.limit_cores),
    (metric_definitions.LOST, lambda finding: finding.lost_cores),
)


class OutcomeCounts:
    """Outcomes counted since the agent began; each is there at 0 so that rates see the first."""

    def __init__(self, outcomes: Iterable[str]) -> None:
        self._counts = dict.fromkeys(outcomes, 0)

    def count_outcome(self, outcome: str, by: int = 1) -> None:
        """Count; one thread writes each of them."""
        self._counts[outcome] = self._counts.get(outcome, 0) + by

    def all(self) -> Mapping[str, int]:
        """Return the counts."""
        return dict(self._counts)


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """The agent's figures at one moment."""

    findings: tuple[Finding, ...] = ()
    """Of the window `metric_definitions.WINDOW`, the worst first, named."""
    states: Mapping[WindowState, int] = field(default_factory=dict)
    cpus: int | None = None
    use_cores: float | None = None
    verdict: KernelVerdict | None = None
    pressure_seconds: float | None = None
    sample_seconds: float = 0.0
    sampled_at_unix: float = 0.0


class AgentTotals:
    """What the agent counts."""

    def __init__(self, *, writes_bursts: bool) -> None:
        self.troubles = OutcomeCounts(trouble.value for trouble in ReadError if trouble is not ReadError.NO_ANSWER)
        self.pushes = OutcomeCounts(posting.OUTCOMES)
        self.bursts = OutcomeCounts(burst_writer.OUTCOMES if writes_bursts else ())


class AgentCollector(Collector):
    """All of the agent's own families."""

    def __init__(self, scrape: Callable[[], AgentFigures], totals: AgentTotals) -> None:
        self._scrape = scrape
        self._totals = totals
        self._version = metadata.version("resource-slack")

    def collect(self) -> Iterator[Metric]:
        """Give every family, also those that have no series now."""
        scrape = self._scrape()
        yield from _cgroups(scrape.findings)
        states = _gauge(metric_definitions.CGROUPS)
        for state in WindowState:
            states.add_metric([state.value], scrape.states.get(state, 0))
        yield states
        yield _kernel(scrape.verdict)
        for family, value in (
            (metric_definitions.NODE_CPUS, scrape.cpus),
            (metric_definitions.NODE_USE, scrape.use_cores),
            (metric_definitions.SAMPLE_SECONDS, scrape.sample_seconds),
            (metric_definitions.SAMPLE_TIMESTAMP, scrape.sampled_at_unix),
        ):
            gauge = _gauge(family)
            if value is not None:
                gauge.add_metric([], value)
            yield gauge
        pressure = _counter(metric_definitions.PRESSURE)
        if scrape.pressure_seconds is not None:
            pressure.add_metric([], scrape.pressure_seconds)
        yield pressure
        for family, counts in (
            (metric_definitions.TROUBLES, self._totals.troubles),
            (metric_definitions.PUSHES, self._totals.pushes),
            (metric_definitions.BURST_WRITES, self._totals.bursts),
        ):
            counter = _counter(family)
            for word, count in counts.all().items():
                counter.add_metric([word], count)
            yield counter
        build = _gauge(BUILD_INFO)
        build.add_metric([self._version], 1)
        yield build


def registry(scrape: Callable[[], AgentFigures], totals: AgentTotals) -> CollectorRegistry:
    """Make the registry of one agent: its own families, and those of the process."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client has left its types out
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    made.register(AgentCollector(scrape, totals))
    return made


def labels(target: CgroupTarget) -> tuple[str, ...]:
    """Return the values of a cgroup's labels."""
    namespace, pod, container = shown(target)
    return target.level.value, namespace, pod, container.encode(errors="replace").decode(), metric_definitions.WINDOW


def _cgroups(findings: Sequence[Finding]) -> Iterator[Metric]:
    rows: dict[tuple[str, ...], Finding] = {}
    for finding in findings:
        if (
            finding.window.state is WindowState.MEASURED
            and finding.limit_cores is not None
            and finding.window.target.level != CgroupLevel.NODE
        ):
            # a restarted container may be there twice: the worse one
            rows.setdefault(labels(finding.window.target), finding)
    for family, figure in _FIGURES:
        gauge = _gauge(family)
        for row, finding in rows.items():
            value = figure(finding)
            if value is not None:
                gauge.add_metric(row, value)
        yield gauge
    yield _neighbours(findings)


def _neighbours(findings: Iterable[Finding]) -> Metric:
    gauge = _gauge(metric_definitions.NEIGHBOURS)
    rows: dict[tuple[str, ...], float] = {}
    for finding in findings:
        if finding.neighbours_ratio is not None:
            row = labels(finding.window.target)
            rows[row] = max(rows.get(row, 0.0), finding.neighbours_ratio)
    for row, value in rows.items():
        gauge.add_metric(row, value)
    return gauge


def _kernel(verdict: KernelVerdict | None) -> Metric:
    gauge = _gauge(metric_definitions.KERNEL_AFFECTED)
    if verdict is not None and verdict.state is not KernelState.UNKNOWN:
        for bug in Bug:
            if bug is not Bug.EITHER or verdict.bug is bug:
                gauge.add_metric([bug.value], float(verdict.bug is bug))
    return gauge


def _gauge(family: MetricDefinition) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.help, labels=family.labels)


def _counter(family: MetricDefinition) -> CounterMetricFamily:
    return CounterMetricFamily(family.name, family.help, labels=family.labels)
