"""What an agent has sampled, and what is to be told of it: the figures of a scrape, the report of a minute."""

import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from slack.audit.api.messages import (
    MAX_PODS,
    MAX_ROWS,
    MAX_TEXT,
    AgentReport,
    BurstOrder,
    BurstState,
    ControllerAnswer,
    text,
)
from slack.audit.api.window_report import window_report
from slack.audit.findings.finding import Finding
from slack.audit.findings.history import WINDOWS, History
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, ReadError, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import Window, Windows, WindowState
from slack.audit.kernel.quota_bugs import KernelVerdict, kernel_verdict
from slack_operator.auditor import metric_definitions
from slack_operator.auditor.agent.metrics import AgentFigures, AgentTotals
from slack_operator.auditor.agent.names import NameBook
from slack_operator.auditor.agent.settings import AgentSettings

Clock = Callable[[], float]


class Watch:
    """What has been sampled, and what is to be told of it. Any thread may ask."""

    def __init__(self, settings: AgentSettings, totals: AgentTotals, *, clock: Clock, wall: Clock) -> None:
        self._settings = settings
        self._totals = totals
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._history = History()
        self._names = NameBook(clock)
        self._examples: dict[ReadError, str] = {}
        self._verdicts: dict[tuple[str, str], KernelVerdict] = {}
        self._sample_seconds = 0.0
        self._sampled_at_unix = 0.0
        self._asked: tuple[str, ...] = ()
        self._orders: tuple[BurstOrder, ...] | None = None
        self.bursts: tuple[BurstState, ...] = ()
        """What the burst writer says; set by the main thread."""

    def add_result(self, sampled: Sampled, seconds: float) -> None:
        """Take in a result of the source, which took so many seconds."""
        sampled = replace(sampled, nodes={node: with_own(facts) for node, facts in sampled.nodes.items()})
        with self._lock:
            self._history.add_result(sampled)
            self._names.see(sample.target for sample in sampled.samples)
            self._sample_seconds, self._sampled_at_unix = seconds, self._wall()
            for trouble, count in sampled.troubles.items():
                self._totals.troubles.count_outcome(trouble.value, count)
            self._examples |= sampled.examples

    def scrape(self) -> AgentFigures:
        """Judge the newest samples for a scrape."""
        pressure = cpu_pressure_seconds(self._settings.root)
        with self._lock:
            windows = self._history.windows(metric_definitions.WINDOW)
            facts = self._facts()
            # what has no figures, waits for nobody and stops nobody makes no series
            findings = judge([window for window in windows.windows if _makes_series(window)], windows.nodes)
            return AgentFigures(
                findings=tuple(self._named(finding) for finding in findings),
                states=_states(windows),
                cpus=facts.cpus,
                use_cores=self._use_cores(),
                verdict=self._verdict(facts),
                pressure_seconds=pressure,
                sample_seconds=self._sample_seconds,
                sampled_at_unix=self._sampled_at_unix,
            )

    def report(self) -> AgentReport | None:
        """Make the report of this moment; None before the first sample."""
        with self._lock:
            if self._history.newest is None:
                return None
            facts = self._facts()
            self._asked = self._names.unnamed()
            return AgentReport(
                node=self._settings.node_name,
                agent=os.environ.get("POD_NAME", ""),
                at_unix=self._wall(),
                interval_seconds=self._settings.interval,
                push_seconds=self._settings.push_interval,
                cpus=facts.cpus,
                kernel_release=text(facts.kernel_release, MAX_TEXT),
                kernel_version=text(facts.kernel_version, MAX_TEXT),
                hierarchy=facts.hierarchy,
                use_cores=self._use_cores(),
                windows={name: window_report(self._history.windows(name)) for name in WINDOWS},
                troubles={
                    trouble: count
                    for trouble in ReadError
                    if (count := self._totals.troubles.all().get(trouble.value, 0))
                },
                examples={trouble: text(example, MAX_TEXT) for trouble, example in self._examples.items()},
                unnamed=self._asked[:MAX_PODS],
                writes_bursts=self._settings.write_burst,
                bursts=self.bursts[:MAX_ROWS],
            )

    def answer(self, answer: ControllerAnswer) -> None:
        """Take in what the controller says to the last report."""
        with self._lock:
            self._names.update_names(answer.names, self._asked)
            self._orders = answer.bursts

    def orders(self) -> tuple[BurstOrder, ...] | None:
        """Give the orders of the last answer once; None when there was none since."""
        with self._lock:
            orders, self._orders = self._orders, None
            return orders

    def _named(self, finding: Finding) -> Finding:
        window = finding.window
        return replace(finding, window=replace(window, target=self._names.named(window.target)))

    def _facts(self) -> CgroupNodeFacts:
        newest = self._history.newest
        return next(iter(newest.nodes.values()), CgroupNodeFacts(None)) if newest is not None else CgroupNodeFacts(None)

    def _verdict(self, facts: CgroupNodeFacts) -> KernelVerdict:
        key = facts.kernel_release, facts.kernel_version
        if key not in self._verdicts:
            self._verdicts = {key: kernel_verdict(*key)}
        return self._verdicts[key]

    def _use_cores(self) -> float | None:
        return self._history.use_cores(CgroupTarget(CgroupLevel.NODE, "/"), metric_definitions.WINDOW)


def with_own(facts: CgroupNodeFacts) -> CgroupNodeFacts:
    """Fill in what --root does not show: where only the node's cgroups are mounted there, this kernel is the node's."""
    if facts.cpus is not None and facts.kernel_release:
        return facts
    own = os.uname()
    return replace(
        facts,
        cpus=facts.cpus or os.cpu_count(),
        kernel_release=facts.kernel_release or own.release,
        kernel_version=facts.kernel_version or own.version,
    )


def _makes_series(window: Window) -> bool:
    """Say whether a window has figures, or counts for those of others: what throttled above may explain a wait."""
    return window.state is WindowState.MEASURED or window.stalled_ns is not None or window.throttled > 0


def _states(windows: Windows) -> Mapping[WindowState, int]:
    counts: dict[WindowState, int] = {}
    for window in windows.windows:
        counts[window.state] = counts.get(window.state, 0) + 1
    return counts


_OWN = Path("/proc/pressure/cpu")
"""The machine's, from every container on it."""
_PLACES = ("proc/pressure/cpu", "sys/fs/cgroup/cpu.pressure", "sys/fs/cgroup/unified/cpu.pressure")
"""The file that needs no cgroups, v2's root, and a hybrid's; they say the same. Not the other way round: in a container
/sys/fs/cgroup may begin at its own cgroup."""
_SOME = re.compile(rb"some avg10=\S+ avg60=\S+ avg300=\S+ total=(\d{1,20})\n")


def cpu_pressure_seconds(root: Path, own: Path = _OWN) -> float | None:
    """Return the time since boot in which some task waited for a CPU, of the machine whose root directory is given.

    It is read from pressure stall information (PSI, Documentation/accounting/psi.rst). Where nothing but the cgroups of
    the node is mounted there, `own` tells. None without PSI: it is not built in, or off (psi=0), where the files are
    absent or cannot be read.
    """
    for place in (*(root / file_name for file_name in _PLACES), own):
        try:
            with place.open("rb") as file:
                found = _SOME.match(file.read(4096))
        except OSError:
            continue
        if found:
            return int(found[1]) / 1e6
    return None
