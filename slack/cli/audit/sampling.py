"""Taking samples: opens the source, waits between two looks, and ends in order when Ctrl-C comes.

What is being done is told on stderr. The first Ctrl-C ends the waiting, and what there is by then is used.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from slack.audit.findings.sample import Sample, Sampled, SampleSource
from slack.audit.findings.window import has_quota
from slack.audit.results.audit_result import AuditResult, evaluate
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.options import SourceOptions
from slack.cli.audit.pod_names import BackgroundNames
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.progress import ProgressSteps
from slack.cli.terminal.stop_signals import stopping_on_signals
from slack.process.stopping import Stopping

if TYPE_CHECKING:
    from slack.audit.sources.pod_index import PodNames

_STEP_SECONDS = 0.2
LONGEST_WATCH_SECONDS = 60.0
"""So far back goes each look of --watch: what is busy only now and then has its hundred periods in it."""


def audit_once(
    options: SourceOptions,
    also: Callable[[SampleSource, AuditResult], None] | None = None,
    refuse: Callable[[AuditResult], object] | None = None,
) -> AuditResult:
    """Sample twice and judge.

    Args:
        options: the source.
        also: what to do with source and look before the source is closed.
        refuse: raises what is wrong with what was asked for; called once the first sample and the names are there, so
            that nobody waits for the second one to be told.

    Raises:
        UserError, KubeError, InvalidMounts: when the source cannot be read at all.
    """
    with BackgroundNames(options) as names, _opened(options) as source:

        def check(before: Sampled) -> None:
            if refuse is not None and names.settled():
                refuse(evaluate(options.kind, before, before, names.wait(), datetime.now(UTC)))

        found = _evaluated(options, source, *_first(options, source, check=check), names.wait())
        if also is not None:
            also(source, found)
        return found


def audit_repeatedly(options: SourceOptions) -> Iterator[AuditResult]:
    """Yield a look after each interval until Ctrl-C comes; at least one.

    Of this node, whose cgroups are read in milliseconds, Ctrl-C waits for the next moment of rest. Scrapes take longer
    and are broken off.
    """
    resting = stopping_on_signals() if options.kind is SourceKind.CGROUPS else nullcontext()
    with BackgroundNames(options) as names, _opened(options) as source, resting as stopping:
        kept = deque(_first(options, source, stopping))
        yield _evaluated(options, source, kept[0], kept[-1], names.wait())
        history = options.kind is SourceKind.PROMETHEUS
        while _waited(options.pause_seconds, stopping):
            if history:
                kept = deque([source.sample()])
            kept.append(source.sample())
            while len(kept) > 2 and _seconds(kept[1], kept[-1]) >= max(options.seconds, LONGEST_WATCH_SECONDS):
                kept.popleft()
            names.refresh()
            yield _evaluated(options, source, window_start(tuple(kept)), kept[-1], names.known)


def window_start(kept: Sequence[Sampled]) -> Sampled:
    """Return where the windows of a watch begin: each cgroup at the first sample that has it.

    So one that is new has figures at the next look. One that ended is told by the look that misses it, not by all
    that follow: it is left out when the sample before the last has it no more either.

    Args:
        kept: The oldest first, two at least; windows end with the last.
    """
    there = {sample.target.key for sampled in kept[-2:] for sample in sampled.samples}
    first: dict[tuple[str, str], Sample] = {}
    for sampled in kept[:-1]:
        for sample in sampled.samples:
            if sample.target.key in there:
                first.setdefault(sample.target.key, sample)
    return replace(kept[0], samples=tuple(first.values()))


def _evaluated(
    options: SourceOptions, source: SampleSource, before: Sampled, after: Sampled, names: "PodNames | None"
) -> AuditResult:
    if options.kind is not SourceKind.PROMETHEUS:
        return evaluate(options.kind, before, after, names, datetime.now(UTC))
    from slack.cli.audit.history import PrometheusSource

    assert isinstance(source, PrometheusSource)
    for note in source.notes:
        typer.echo(f"note: {note}", err=True)
    return evaluate(options.kind, before, after, names, datetime.now(UTC), source.p99_cores)


def _first(
    options: SourceOptions,
    source: SampleSource,
    stopping: Stopping | None = None,
    check: Callable[[Sampled], None] = lambda _: None,
) -> tuple[Sampled, Sampled]:
    before = source.sample()
    if options.kind is not SourceKind.PROMETHEUS:
        check(before)
        if not before.samples:
            return before, before  # nothing to watch: a second look would find what has come, without figures
        limited = sum(has_quota(sample.quota_us, sample.period_us) for sample in before.samples)
        cgroups = f"{count_text(len(before.samples), 'cgroup')}, {limited:,} with a CPU limit"
        _waited(
            options.seconds, stopping, f"watching {cgroups}, for {options.seconds:g} s (Ctrl-C: take what there is)"
        )
    return before, source.sample()


def _waited(seconds: float, stopping: Stopping | None, text: str = "") -> bool:
    """Wait, telling how far it is if there is a text; False when Ctrl-C ended it."""
    began = time.monotonic()
    with stopping_on_signals() if stopping is None else nullcontext(stopping) as stopping:
        if not text:
            return not stopping.wait(seconds)
        typer.echo(text, err=True)
        with ProgressSteps() as steps:
            tell = steps.add_step("watching")
            while (past := time.monotonic() - began) < seconds:
                if stopping.wait(min(_STEP_SECONDS, seconds - past)):
                    break
                tell(min(1.0, (time.monotonic() - began) / seconds))
    if stopping.requested:
        typer.echo(f"ended after {time.monotonic() - began:.1f} s of {seconds:g} s", err=True)
    return not stopping.requested


def _seconds(before: Sampled, after: Sampled) -> float:
    """Return the time between two results by the samples' own stamps; 0 for empty ones."""
    if not before.samples or not after.samples:
        return 0.0
    return after.samples[0].at_seconds - before.samples[0].at_seconds


@contextmanager
def _opened(options: SourceOptions) -> Iterator[SampleSource]:
    """Open the source; afterwards descriptors and connections are let go."""
    if options.kind is SourceKind.CGROUPS:
        from slack.audit.sources.walker import CgroupWalker

        with closing(CgroupWalker(options.root)) as walker:
            yield walker
    elif options.kind is SourceKind.CADVISOR:
        from slack.cli.audit.cadvisor import ClusterSource
        from slack.cli.inputs.api_server import api_server

        with (
            api_server(options.access) as connection,
            closing(ClusterSource(connection, options.nodes)) as cluster,
        ):
            yield cluster
    else:
        from slack.audit.sources.promql import CLUSTER_LABEL, ClusterChoice
        from slack.cli.audit.history import PrometheusSource

        label, equals, name = options.prometheus_cluster.rpartition("=")
        chosen = ClusterChoice(name, label if equals else CLUSTER_LABEL)
        with closing(PrometheusSource(options.prometheus, options.seconds, cluster=chosen)) as history:
            yield history
