"""`record`: what came and started in a cluster, as a trace file. Reads only: list and watch of pods and nodes.

The file is written whole (beside its place, then renamed): at once, after 1, 2, 4 ... seconds, and then every half
minute, so that a kill loses at most that.
"""

import errno
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.flag_values import duration as duration_of
from slack.cli.inputs.flags import PlaceholderNamespace
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.counts import count_text
from slack.cli.terminal.extras import require_extra
from slack.cli.terminal.formats import TABLE, Output, print_document
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess
from slack.process.atomic_write import write_atomically

if TYPE_CHECKING:
    from slack.cluster import wire
    from slack.kube.connection import Connection
    from slack.kube.deadline import Deadline
    from slack.kube.reflector import Reflector
    from slack.kube.watch import EventType
    from slack.simulator.traces.format import Trace
    from slack.simulator.traces.recording import TraceRecording

FLUSH_SECONDS = 30.0
_FIRST_FLUSH_SECONDS = 1.0
SYNC_SECONDS = 15.0
"""So long may the first view of the cluster bring nothing. In all it has --duration, where that is longer than this."""
_LAST_WORDS_SECONDS = 0.5
"""So long is waited for a watch to end that was told to. One that waits for an answer is left behind."""
SILENT_SECONDS = 200.0
"""A watch that has said nothing for so long is broken: quiet ones get a bookmark after 121 s."""


@with_kubectl_flags
def record(
    out: Annotated[Path, typer.Option("--out", help="Trace file to write (Parquet).", metavar="FILE")],
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            help="How long; until Ctrl-C when absent. With --prometheus: how far back.",
            metavar="DURATION",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", help="Read kube-state-metrics' history from this Prometheus.", metavar="URL"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    output: Output = TABLE,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Record the arrivals of pods and the starts of nodes, for `tune --from-trace`.

    Needs get, list and watch on pods and nodes. Ctrl-C ends the recording in order.

    With --prometheus the past is read (24h of it by default): what kube-state-metrics showed. It knows no affinity,
    topology spread and preemptionPolicy; notes say what else is missing and which of its flags would show it. If the
    server fails midway, or at Ctrl-C, the part that was read is written, and the exit code is not 0.

    [bold]Examples[/bold]

        resource-slack record --out trace.parquet --duration 24h

        resource-slack record --out trace.parquet --prometheus http://localhost:9090 --duration 72h
    """
    require_extra("pyarrow", "traces", "traces are Parquet files")
    span = duration_of("--duration", duration) if duration is not None else None
    if prometheus is not None and access.is_chosen:
        raise UserError("--prometheus: give either a Prometheus or a cluster (--kubeconfig, --context), not both")
    check_place(out, overwrite=overwrite)
    if prometheus is not None:
        _record_past(prometheus, span or timedelta(hours=24), out, placeholder_namespace, output)
        return
    from slack.process.stopping import Stopping

    stopping = Stopping()
    stopping.on_signals()
    with api_server(access) as connection:
        trace = watch(connection, out, span, placeholder_namespace, stopping.event)
    _tell_end(out, trace, output)


def _record_past(url: str, span: timedelta, out: Path, placeholder_namespace: str, output: Output) -> None:
    """Write what a Prometheus remembers; where it fails midway the beginning, and then its error."""
    from slack.cli.inputs.prometheus_history import history

    past = history(url, span, time.time(), placeholder_namespace)
    write(out, past.trace)
    for note in past.notes:
        typer.echo(f"note: {note}", err=True)
    _tell_end(out, past.trace, output, past.notes, complete=past.ended_by is None)
    if past.ended_by is not None:
        kept = f"{out} has only the first {timedelta(seconds=round(past.trace.seconds))} of {span}"
        if isinstance(past.ended_by, UserError):
            raise UserError(f"{past.ended_by}; {kept}")
        tell(kept)
        raise past.ended_by


class _Half:
    """A reflector's sink: pods or nodes of the recording, under its lock."""

    def __init__(self, recording: "TraceRecording", lock: threading.Lock, *, pods: bool) -> None:
        self._recording = recording
        self._lock = lock
        self._pods = pods
        self._generation = 0

    def begin(self) -> None:
        with self._lock:
            self._recording.begin()
            self._generation = self._recording.generation

    def apply(self, events: "Sequence[tuple[EventType, wire.Pod | wire.Node]]") -> None:
        now = time.time()
        with self._lock:
            seen: Callable[..., None] = self._recording.pod_seen if self._pods else self._recording.node_seen
            for kind, item in events:
                seen(item, now, gone=kind == "DELETED")

    def end(self) -> None:
        now = time.time()
        with self._lock:
            ended = self._recording.end_pods if self._pods else self._recording.end_nodes
            ended(self._generation, now)


def watch(
    connection: "Connection",
    out: Path,
    span: timedelta | None,
    placeholder_namespace: str,
    stop: threading.Event,
    *,
    flush_seconds: float = FLUSH_SECONDS,
) -> "Trace":
    """Record until the time is over or `stop` is set, and return what the file holds then.

    Raises:
        UserError: when the first view of the cluster cannot be had, or the last write fails.
    """
    from slack.cluster import wire
    from slack.kube.deadline import Deadline
    from slack.kube.paths import UNFINISHED_PODS
    from slack.kube.reflector import Reflector
    from slack.simulator.traces.recording import TraceRecording

    recording, lock = TraceRecording(time.time(), placeholder_namespace), threading.Lock()
    pods = _Half(recording, lock, pods=True)
    deadline = connection.deadline or Deadline(connection.address, tell)
    deadline.answered()
    connection.deadline = deadline
    reflectors: tuple[Reflector[wire.Pod] | Reflector[wire.Node], ...] = (
        Reflector(connection, "/api/v1/nodes", wire.Node, _Half(recording, lock, pods=False)),
        Reflector(connection, "/api/v1/pods", wire.Pod, pods, field_selector=UNFINISHED_PODS),
    )
    for reflector in reflectors:
        reflector.start()
    try:
        _wait_synced(reflectors, stop, deadline, span)
        connection.deadline = None  # from now on silence is a watch's right, and who is gone is waited for
        tell(f"recording into {out}; Ctrl-C ends it")
        end = None if span is None else time.monotonic() + span.total_seconds()
        silent, pause = False, 0.0
        while not stop.wait(pause if end is None else max(0.0, min(pause, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:
                break
            pause = min(max(2 * pause, _FIRST_FLUSH_SECONDS), flush_seconds)
            silent = _tell_silence(reflectors, was_silent=silent)
            with lock:
                trace, counts = recording.trace(time.time()), recording.counts
            flush(out, trace, counts if pause >= flush_seconds else None)
    except UserError as error:
        raise UserError(f"{connection.address}: {error}") from None
    finally:
        deadline.give_up()
        for seconds in (0.0, _LAST_WORDS_SECONDS):  # all are told before one is waited for
            for reflector in reflectors:
                reflector.stop(seconds)
    with lock:
        trace = recording.trace(time.time())
    if recording.unreadable:
        tell(f"{recording.unreadable} objects had quantities that cannot be read; they are left out")
    write(out, trace)
    return trace


def _wait_synced(
    reflectors: "Sequence[Reflector[wire.Pod] | Reflector[wire.Node]]",
    stop: threading.Event,
    deadline: "Deadline",
    span: timedelta | None,
) -> None:
    began = time.monotonic()
    latest = None if span is None else began + max(span.total_seconds(), SYNC_SECONDS)
    seen, seen_at = 0, began
    while not all(reflector.synced for reflector in reflectors):
        if stop.wait(0.05):
            raise UserError("stopped before the cluster was seen; nothing was recorded")
        now, events = time.monotonic(), sum(reflector.counters.events for reflector in reflectors)
        if events > seen:
            seen, seen_at = events, now
        problem = next(
            (reflector.last_error for reflector in reflectors if reflector.last_error and not reflector.synced), None
        )
        refused = problem is not None and (" 401 " in problem or " 403 " in problem)
        # An error page has bytes too: only objects are progress while there are errors.
        silent = now - seen_at > SYNC_SECONDS and (problem is not None or deadline.over(began) >= 0)
        if refused or silent or (latest is not None and now > latest):
            why = problem or f"no view of the cluster within {now - began:.0f} s"
            raise UserError(f"{why}; recording needs list and watch on pods and nodes; nothing was recorded")


def _tell_silence(reflectors: "Sequence[Reflector[wire.Pod] | Reflector[wire.Node]]", *, was_silent: bool) -> bool:
    now = time.monotonic()
    lost = next(
        (
            reflector
            for reflector in reflectors
            if not reflector.synced or reflector.last_heard_age(now) > SILENT_SECONDS
        ),
        None,
    )
    if lost is not None and not was_silent:
        tell(f"no word from the API server ({lost.last_error or 'silence'}); what was recorded is kept, trying again")
    elif lost is None and was_silent:
        tell("the API server is back; what ended meanwhile is taken to have ended now")
    return lost is not None


def _tell_end(out: Path, trace: "Trace", output: Output, notes: Sequence[str] = (), *, complete: bool = True) -> None:
    """Tell people on stderr, as all the time before, and a program on stdout what the file holds."""
    pods = sum(not pod.initial and not pod.placeholder for pod in trace.pods)
    nodes = sum(not node.initial for node in trace.nodes)
    came = f"{count_text(pods, 'pod')} arrived and {count_text(nodes, 'node')} started"
    tell(f"{out}: {came} in {timedelta(seconds=round(trace.seconds))}")
    tell(f"next: resource-slack tune --from-trace {out}")
    if output.for_machines:
        from slack.cluster.labels import API_VERSION

        found = {"file": str(out), "pods": pods, "nodes": nodes, "recorded_seconds": round(trace.seconds, 3)}
        more = {"complete": complete, "notes": list(notes)}
        print_document({"apiVersion": API_VERSION, "kind": "Recording", **found, **more}, output)


def check_place(out: Path, *, overwrite: bool) -> None:
    """Find out before a long recording whether its file can be written.

    Raises:
        UserError: when it cannot, or would replace another.
    """
    try:
        if out.is_dir():
            raise UserError(f"--out: {out} is a folder; name a file in it")
        if out.exists() and not overwrite:
            raise UserError(f"--out: {out} is there already; add --overwrite to replace it")
        with tempfile.TemporaryFile(dir=out.absolute().parent):
            pass
    except OSError as error:
        raise UserError(_words(out, error)) from None


def flush(out: Path, trace: "Trace", counts: tuple[int, int] | None) -> None:
    """Write what there is, and tell the counts; a disk that is full now may have room at the next turn."""
    from slack.simulator.traces.parquet import write_trace

    try:
        write_atomically(out, write_trace(trace))
    except OSError as error:
        tell(f"{_words(out, error)}; the file holds what was written before, trying again in {FLUSH_SECONDS:g} s")
        return
    if counts is not None:
        tell(f"{trace.seconds:.0f} s: {count_text(counts[0], 'pod')} arrived, {count_text(counts[1], 'node')} started")


def write(out: Path, trace: "Trace") -> None:
    """Write all that was recorded.

    Raises:
        UserError: when it cannot be written.
    """
    from slack.simulator.traces.parquet import write_trace

    try:
        write_atomically(out, write_trace(trace))
    except OSError as error:
        raise UserError(_words(out, error)) from None


def _words(out: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"--out: {out}: the disk is full"
    return f"--out: {out}: {(error.strerror or str(error)).lower()}"


def tell(text: str) -> None:
    """Say something on stderr, with the time: recordings take hours."""
    typer.echo(f"{datetime.now(UTC):%H:%M:%S} {text}", err=True)
