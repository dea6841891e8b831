"""`record`: what came and started in a cluster, as a trace file. Reads only: list and watch of pods and nodes.

The file is written whole (beside its place, then renamed): at once, after 1, 2, 4 ... seconds, and then every half
minute, so that a kill loses at most that.
"""

import errno
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slack.cli.inputs import Context, Kubeconfig, PlaceholderNamespace
from slack.cli.problems import UserError
from slack.cli.scenarios import need
from slack.cli.tune import duration as duration_of

if TYPE_CHECKING:
    from slack.cluster import wire
    from slack.kube.connection import Connection
    from slack.kube.reflector import Reflector
    from slack.kube.watch import EventType
    from slack.simulator.recording import Recording
    from slack.simulator.traceformat import Trace

FLUSH_SECONDS = 30.0
_FIRST_FLUSH_SECONDS = 1.0
SYNC_SECONDS = 60.0
"""So long may the first view of the cluster take while errors come; without errors it may take longer."""
SILENT_SECONDS = 200.0
"""A watch that has said nothing for so long is broken: quiet ones get a bookmark after 121 s."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


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
        typer.Option(
            "--prometheus", help="Read kube-state-metrics' history from this Prometheus instead.", metavar="URL"
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Record the arrivals of pods and the starts of nodes, for `tune --from-trace`.

    Needs get, list and watch on pods and nodes. Ctrl-C ends the recording in order.

    With --prometheus the past is read (24h of it by default): what kube-state-metrics showed. It knows no affinity,
    topology spread and preemptionPolicy; notes say what else is missing and which of its flags would show it.

    [bold]Examples[/bold]

        resource-slack record --out trace.parquet --duration 24h

        resource-slack record --out trace.parquet --prometheus http://localhost:9090 --duration 72h
    """
    need("pyarrow", "traces", "traces are Parquet files")
    span = duration_of("--duration", duration) if duration is not None else None
    if prometheus is not None and (kubeconfig or context):
        raise UserError("--prometheus: give either a Prometheus or a cluster (--kubeconfig, --context), not both")
    _check_place(out, overwrite=overwrite)
    if prometheus is not None:
        from slack.cli.prometheus import history

        trace, notes = history(prometheus, span or timedelta(hours=24), time.time(), placeholder_namespace)
        _write(out, trace)
        for note in notes:
            typer.echo(f"note: {note}", err=True)
        _tell_end(out, trace)
        return
    from slack.kube.kubeconfig import connect
    from slack.process.stopping import Stopping

    stopping = Stopping()
    stopping.on_signals()
    connection = connect(kubeconfig, context)
    try:
        trace = watch(connection, out, span, placeholder_namespace, stopping.event)
    finally:
        connection.close()
    _tell_end(out, trace)


class _Half:
    """A reflector's sink: pods or nodes of the recording, under its lock."""

    def __init__(self, recording: "Recording", lock: threading.Lock, *, pods: bool) -> None:
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
    from slack.kube.reflector import Reflector
    from slack.simulator.recording import Recording

    recording, lock = Recording(time.time(), placeholder_namespace), threading.Lock()
    reflectors: tuple[Reflector[wire.Pod] | Reflector[wire.Node], ...] = (
        Reflector(connection, "/api/v1/nodes", wire.Node, _Half(recording, lock, pods=False)),
        Reflector(connection, "/api/v1/pods", wire.Pod, _Half(recording, lock, pods=True), field_selector=_UNFINISHED),
    )
    for reflector in reflectors:
        reflector.start()
    try:
        _wait_synced(reflectors, stop)
        _tell(f"recording into {out}; Ctrl-C ends it")
        end = None if span is None else time.monotonic() + span.total_seconds()
        silent, pause = False, 0.0
        while not stop.wait(pause if end is None else max(0.0, min(pause, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:
                break
            pause = min(max(2 * pause, _FIRST_FLUSH_SECONDS), flush_seconds)
            silent = _tell_silence(reflectors, was_silent=silent)
            with lock:
                trace, counts = recording.trace(time.time()), recording.counts
            _flush(out, trace, counts if pause >= flush_seconds else None)
    finally:
        for reflector in reflectors:
            reflector.stop()
    with lock:
        trace = recording.trace(time.time())
    if recording.unreadable:
        _tell(f"{recording.unreadable} objects had quantities that cannot be read; they are left out")
    _write(out, trace)
    return trace


def _wait_synced(reflectors: "Sequence[Reflector[wire.Pod] | Reflector[wire.Node]]", stop: threading.Event) -> None:
    began = time.monotonic()
    while not all(reflector.synced for reflector in reflectors):
        if stop.wait(0.05):
            raise UserError("stopped before the cluster was seen; nothing was recorded")
        problem = next((one.last_error for one in reflectors if one.last_error and not one.synced), None)
        refused = problem is not None and (" 401 " in problem or " 403 " in problem)
        if problem and (refused or time.monotonic() - began > SYNC_SECONDS):
            raise UserError(f"{problem}; recording needs list and watch on pods and nodes")


def _tell_silence(reflectors: "Sequence[Reflector[wire.Pod] | Reflector[wire.Node]]", *, was_silent: bool) -> bool:
    now = time.monotonic()
    lost = next((one for one in reflectors if not one.synced or one.last_heard_age(now) > SILENT_SECONDS), None)
    if lost is not None and not was_silent:
        _tell(f"no word from the API server ({lost.last_error or 'silence'}); what was recorded is kept, trying again")
    elif lost is None and was_silent:
        _tell("the API server is back; what ended meanwhile is taken to have ended now")
    return lost is not None


def _flush(out: Path, trace: "Trace", counts: tuple[int, int] | None) -> None:
    """Write what there is, and tell the counts; a disk that is full now may have room at the next turn."""
    from slack.process.whole_file import write_whole
    from slack.simulator.trace import write_trace

    try:
        write_whole(out, write_trace(trace))
    except OSError as error:
        _tell(f"{_words(out, error)}; the file holds what was written before, trying again in {FLUSH_SECONDS:g} s")
        return
    if counts is not None:
        _tell(f"{trace.seconds:.0f} s: {counts[0]} pods came, {counts[1]} nodes started")


def _write(out: Path, trace: "Trace") -> None:
    from slack.process.whole_file import write_whole
    from slack.simulator.trace import write_trace

    try:
        write_whole(out, write_trace(trace))
    except OSError as error:
        raise UserError(_words(out, error)) from None


def _words(out: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"--out: {out}: the disk is full"
    return f"--out: {out}: {(error.strerror or str(error)).lower()}"


def _check_place(out: Path, *, overwrite: bool) -> None:
    """Find out before a long recording whether its file can be written.

    Raises:
        UserError: when it cannot, or would replace another.
    """
    import tempfile

    if out.is_dir():
        raise UserError(f"--out: {out} is a folder; name a file in it")
    if out.exists() and not overwrite:
        raise UserError(f"--out: {out} is there already; add --overwrite to replace it")
    try:
        with tempfile.TemporaryFile(dir=out.absolute().parent):
            pass
    except OSError as error:
        raise UserError(_words(out, error)) from None


def _tell_end(out: Path, trace: "Trace") -> None:
    pods = sum(not pod.initial and not pod.placeholder for pod in trace.pods)
    nodes = sum(not node.initial for node in trace.nodes)
    _tell(f"{out}: {pods} pods came and {nodes} nodes started in {timedelta(seconds=round(trace.seconds))}")
    _tell(f"next: resource-slack tune --from-trace {out}")


def _tell(text: str) -> None:
    typer.echo(f"{datetime.now(UTC):%H:%M:%S} {text}", err=True)
