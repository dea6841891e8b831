"""Taking samples: opens the source, waits between two looks, and ends in order when Ctrl-C comes.

What is being done is told on stderr. The first Ctrl-C ends the waiting, and what there is by then is used.
"""

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from slack.cfs.sample import Sample, Sampled, Source
from slack.cfs.window import has_quota
from slack.cli.audit_look import Look, looked
from slack.cli.audit_names import NamesAtWork
from slack.cli.audit_options import Kind, Where
from slack.cli.audit_words import counted
from slack.cli.progress import Steps
from slack.process.stopping import Stopping

if TYPE_CHECKING:
    from slack.cfs.pods import PodNames

_STEP_SECONDS = 0.2
LONGEST_WATCH_SECONDS = 60.0
"""So far back goes each look of --watch: what is busy only now and then has its hundred periods in it."""


@contextmanager
def ending_early() -> Iterator[Stopping]:
    """Let Ctrl-C and SIGTERM end what goes on inside in order; outside they are what they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopping = Stopping()
    stopping.on_signals()
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def look(where: Where, also: Callable[[Source, Look], None] | None = None) -> Look:
    """Sample twice and judge.

    Args:
        where: the source.
        also: what to do with source and look before the source is closed.

    Raises:
        UserError, KubeError, BadMounts: when the source cannot be read at all.
    """
    with NamesAtWork(where) as names, _opened(where) as source:
        found = _looked(where, source, *_first(where, source), names.wait())
        if also is not None:
            also(source, found)
        return found


def looks(where: Where) -> Iterator[Look]:
    """Yield a look after each interval until Ctrl-C comes; at least one.

    Of this node, whose cgroups are read in milliseconds, Ctrl-C waits for the next moment of rest. Scrapes take longer
    and are broken off.
    """
    resting = ending_early() if where.kind is Kind.CGROUPS else nullcontext()
    with NamesAtWork(where) as names, _opened(where) as source, resting as stopping:
        kept = deque(_first(where, source, stopping))
        yield _looked(where, source, kept[0], kept[-1], names.wait())
        history = where.kind is Kind.PROMETHEUS
        while _waited(where.pause_seconds, stopping):
            if history:
                kept = deque([source.sample()])
            kept.append(source.sample())
            while len(kept) > 2 and _seconds(kept[1], kept[-1]) >= max(where.seconds, LONGEST_WATCH_SECONDS):
                kept.popleft()
            names.refresh()
            yield _looked(where, source, beginning(tuple(kept)), kept[-1], names.known)


def beginning(kept: Sequence[Sampled]) -> Sampled:
    """Return where the windows of a watch begin: each cgroup at the first sample that has it.

    So one that is new has figures at the next look. One that ended is told by the look that misses it, not by all
    that follow: it is left out when the sample before the last has it no more either.

    Args:
        kept: The oldest first, two at least; windows end with the last.
    """
    there = {one.target.key for sampled in kept[-2:] for one in sampled.samples}
    first: dict[tuple[str, str], Sample] = {}
    for sampled in kept[:-1]:
        for one in sampled.samples:
            if one.target.key in there:
                first.setdefault(one.target.key, one)
    return replace(kept[0], samples=tuple(first.values()))


def _looked(where: Where, source: Source, before: Sampled, after: Sampled, names: "PodNames | None") -> Look:
    if where.kind is not Kind.PROMETHEUS:
        return looked(where.kind, before, after, names, datetime.now(UTC))
    from slack.cli.audit_prometheus import PrometheusSource

    assert isinstance(source, PrometheusSource)
    for note in source.notes:
        typer.echo(f"note: {note}", err=True)
    return looked(where.kind, before, after, names, datetime.now(UTC), source.p99_cores)


def _first(where: Where, source: Source, stopping: Stopping | None = None) -> tuple[Sampled, Sampled]:
    before = source.sample()
    if where.kind is not Kind.PROMETHEUS:
        limited = sum(has_quota(one.quota_us, one.period_us) for one in before.samples)
        cgroups = f"{counted(len(before.samples), 'cgroup')}, {limited:,} with a CPU limit"
        _waited(where.seconds, stopping, f"watching {cgroups}, for {where.seconds:g} s (Ctrl-C: take what there is)")
    return before, source.sample()


def _waited(seconds: float, stopping: Stopping | None, text: str = "") -> bool:
    """Wait, telling how far it is if there is a text; False when Ctrl-C ended it."""
    began = time.monotonic()
    with ending_early() if stopping is None else nullcontext(stopping) as stopping:
        if not text:
            return not stopping.wait(seconds)
        typer.echo(text, err=True)
        with Steps() as steps:
            tell = steps.add("watching")
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


def _opened(where: Where) -> closing[Source]:
    """Open the source; closing lets go of descriptors and connections."""
    if where.kind is Kind.CGROUPS:
        from slack.cfs.walker import CgroupWalker

        return closing(CgroupWalker(where.root))
    if where.kind is Kind.CADVISOR:
        from slack.cli.audit_cluster import ClusterSource
        from slack.kube.kubeconfig import connect

        return closing(ClusterSource(connect(where.kubeconfig, where.context), where.nodes))
    from slack.cli.audit_prometheus import PrometheusSource

    return closing(PrometheusSource(where.prometheus, where.seconds))
