"""What an agent tells Prometheus: judged when it is asked, from the newest samples; nothing is kept between scrapes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slack.cfs.finding import Finding
from slack.cfs.kernel import Bug, KernelState, KernelVerdict
from slack.cfs.sample import Level, Target, Trouble
from slack.cfs.window import State
from slack_operator.audit import burst_writer, families, pushing
from slack_operator.audit.naming import shown
from slack_operator.families import BUILD_INFO, Family

_FIGURES: tuple[tuple[Family, Callable[[Finding], float | None]], ...] = (
    (families.THROTTLED_RATIO, lambda one: one.throttled_ratio),
    (families.TIME_LOST, lambda one: one.lost_ratio),
    (families.STOP, lambda one: one.stop_seconds),
    (families.USE, lambda one: one.use_cores),
    (families.LIMIT, lambda one: one.limit_cores),
    (families.LOST, lambda one: one.lost_cores),
)


class Counts:
    """Outcomes counted since the agent began; each is there at 0 so that rates see the first."""

    def __init__(self, outcomes: Iterable[str]) -> None:
        self._counts = dict.fromkeys(outcomes, 0)

    def add(self, outcome: str, by: int = 1) -> None:
        """Count; one thread writes each of them."""
        self._counts[outcome] = self._counts.get(outcome, 0) + by

    def all(self) -> Mapping[str, int]:
        """Return the counts."""
        return dict(self._counts)


@dataclass(frozen=True, slots=True)
class Look:
    """The agent's figures at one moment."""

    findings: tuple[Finding, ...] = ()
    """Of the window `families.WINDOW`, the worst first, named."""
    states: Mapping[State, int] = field(default_factory=dict)
    cpus: int | None = None
    use_cores: float | None = None
    verdict: KernelVerdict | None = None
    pressure_seconds: float | None = None
    sample_seconds: float = 0.0
    sampled_at_unix: float = 0.0


class Totals:
    """What the agent counts."""

    def __init__(self, *, writes_bursts: bool) -> None:
        self.troubles = Counts(one.value for one in Trouble if one is not Trouble.NO_ANSWER)
        self.pushes = Counts(pushing.OUTCOMES)
        self.bursts = Counts(burst_writer.OUTCOMES if writes_bursts else ())


class AgentCollector(Collector):
    """All of the agent's own families."""

    def __init__(self, look: Callable[[], Look], totals: Totals) -> None:
        self._look = look
        self._totals = totals
        self._version = metadata.version("resource-slack")

    def collect(self) -> Iterator[Metric]:
        """Give every family, also those that have no series now."""
        look = self._look()
        yield from _cgroups(look.findings)
        states = _gauge(families.CGROUPS)
        for state in State:
            states.add_metric([state.value], look.states.get(state, 0))
        yield states
        yield _kernel(look.verdict)
        for family, value in (
            (families.NODE_CPUS, look.cpus),
            (families.NODE_USE, look.use_cores),
            (families.SAMPLE_SECONDS, look.sample_seconds),
            (families.SAMPLE_TIMESTAMP, look.sampled_at_unix),
        ):
            gauge = _gauge(family)
            if value is not None:
                gauge.add_metric([], value)
            yield gauge
        pressure = _counter(families.PRESSURE)
        if look.pressure_seconds is not None:
            pressure.add_metric([], look.pressure_seconds)
        yield pressure
        for family, counts in (
            (families.TROUBLES, self._totals.troubles),
            (families.PUSHES, self._totals.pushes),
            (families.BURST_WRITES, self._totals.bursts),
        ):
            counter = _counter(family)
            for word, count in counts.all().items():
                counter.add_metric([word], count)
            yield counter
        build = _gauge(BUILD_INFO)
        build.add_metric([self._version], 1)
        yield build


def registry(look: Callable[[], Look], totals: Totals) -> CollectorRegistry:
    """Make the registry of one agent: its own families, and those of the process."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client has left its types out
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    made.register(AgentCollector(look, totals))
    return made


def labels(target: Target) -> tuple[str, ...]:
    """Return the values of a cgroup's labels."""
    namespace, pod, container = shown(target)
    return target.level.value, namespace, pod, container.encode(errors="replace").decode(), families.WINDOW


def _cgroups(findings: Iterable[Finding]) -> Iterator[Metric]:
    rows: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        if one.window.state is State.MEASURED and one.limit_cores is not None and one.window.target.level != Level.NODE:
            rows.setdefault(labels(one.window.target), one)  # a restarted container may be there twice: the worse one
    for family, figure in _FIGURES:
        gauge = _gauge(family)
        for row, one in rows.items():
            value = figure(one)
            if value is not None:
                gauge.add_metric(row, value)
        yield gauge


def _kernel(verdict: KernelVerdict | None) -> Metric:
    gauge = _gauge(families.KERNEL_AFFECTED)
    if verdict is not None and verdict.state is not KernelState.UNKNOWN:
        for bug in Bug:
            if bug is not Bug.EITHER or verdict.bug is bug:
                gauge.add_metric([bug.value], float(verdict.bug is bug))
    return gauge


def _gauge(family: Family) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.help, labels=family.labels)


def _counter(family: Family) -> CounterMetricFamily:
    return CounterMetricFamily(family.name, family.help, labels=family.labels)
