"""One load from its Deployment to the last look at the nodes. Whatever ends it, the Deployment is taken away."""

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slack.cli.inputs.objects import item, items
from slack.cli.load.live import LiveLine
from slack.cli.load.sinks import LoadNodeSink, LoadPodSink, PlaceholderSink
from slack.cli.load.watch_timeout import WatchTimeout
from slack.cli.terminal.problems import UserError
from slack.cli.terminal.stop_signals import stopping_on_signals
from slack.cluster.labels import LABEL_MANAGED_BY
from slack.loadtest.manifest import (
    ANNOTATION_UNTIL,
    MAKER,
    deadline_job,
    deployment,
    is_expired,
    job_name,
    mark_of,
    owned_by,
    refusal,
    selector,
    until_text,
)
from slack.loadtest.meter import LoadMeter
from slack.loadtest.report import LoadTestReport
from slack.loadtest.shape import LoadShape, replicas_at

if TYPE_CHECKING:
    from slack.kube.apply import Writer
    from slack.kube.connection import Connection
    from slack.kube.reflector import Reflector
    from slack.process.stopping import Stopping

NODES, PLACEHOLDERS_SEEN = "nodes", "placeholders"  # what the rights may not let us see, by the word for it
_TICK_SECONDS = 0.5
_SCALE_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""Between two looks at the Deployment itself."""
_SYNC_SECONDS = 30.0
_LEFTOVER_SECONDS = 120.0
_DEFAULT_SPAN_SECONDS = 600.0
_REFUSED_SECONDS = 10.0
"""A controller that is refused tries again for a while; then what is there is all that comes."""
_DELETE_SECONDS = 20.0
DEADLINE_SECONDS = 600
"""After so long without a word of this command its pods are removed."""
RENEW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is to be played."""

    namespace: str
    name: str
    image: str
    pods: int
    requests: dict[str, str]
    shape: LoadShape
    span_seconds: float | None
    """None: a burst until its pods are Ready."""
    patience_seconds: float
    nodes_seconds: float
    """So long nodes are watched after the load; 0: not at all."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of it."""

    asked: LoadRequest
    report: LoadTestReport
    interrupted: bool
    missing: int
    """Pods that were asked for and never made."""
    refusal: str
    """Why they were not made, in the API server's words; '' for none."""
    ended_by: str
    """Why the load ended before it was done; '' when it was done."""
    unseen: tuple[str, ...]
    """What the rights did not let us see."""
    left: str
    """What could not be taken away, and how to; '' when all is gone."""


class LoadRun:
    """Plays a load. `check` first, which writes nothing."""

    def __init__(self, connection: "Connection", asked: LoadRequest) -> None:
        from slack.kube.paths import resource_path

        self._connection, self._asked = connection, asked
        self._collection = resource_path("apps/v1", "deployments", namespace=asked.namespace)
        self._path = resource_path("apps/v1", "deployments", namespace=asked.namespace, name=asked.name)
        self._lock = threading.Lock()
        self._refusal, self._refused_at, self._ended_by = "", 0.0, ""
        self._wanted = 0
        self._uid: str | None = None
        self._jobs = resource_path("batch/v1", "jobs", namespace=asked.namespace)
        self._job_path = f"{self._jobs}/{job_name(asked.name)}"
        self._job_uid: str | None = None
        """Of the Job that removes the Deployment if this command cannot; None where none may be created."""
        self._leftover_uid: str | None = None
        """Of the Deployment of an earlier load, whose deadline has passed."""
        self._mark = uuid.uuid4().hex

    def check(self) -> None:
        """See that there is a place for it.

        Raises:
            UserError: for a namespace that is not there, and a Deployment of that name that is.
            KubeError: without an answer or a permission.
        """
        from slack.kube.errors import ApiError
        from slack.kube.paths import resource_path

        asked = self._asked
        try:
            if item(self._connection, resource_path("v1", "namespaces", name=asked.namespace)) is None:
                raise UserError(f"-n: there is no namespace {asked.namespace!r}")
        except ApiError as error:
            if error.status != 403:
                raise  # who may not see namespaces learns it from the first write
        there = item(self._connection, self._path)
        if there is not None:
            ours = (there["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY) == MAKER
            by_hand = f"kubectl delete deployment -n {asked.namespace} {asked.name}"
            if ours and is_expired(there, time.time()):
                self._leftover_uid = there["metadata"]["uid"]
                return
            right = (
                f"an earlier load is still there; take it away: {by_hand}"
                if ours
                else "is there already and no load of ours; give another --name"
            )
            raise UserError(f"deployment {asked.namespace}/{asked.name}: {right}")

    def play(self) -> Finished:
        """Play it, and take it away.

        Raises:
            KubeError, UserError: when it cannot begin. Nothing is left then.
        """
        meter = LoadMeter()
        watches = self._watches(meter)
        left = ""
        with stopping_on_signals() as stopping, LiveLine() as live:
            from slack.kube.apply import Writer
            from slack.kube.retry import retrying

            never = threading.Event()
            retry = retrying(never, deadline_seconds=_DELETE_SECONDS)
            writer = Writer(self._connection, never, field_manager=MAKER, retry=retry, pauses=False)
            self._remove_leftover(writer, stopping)
            for watch in watches:
                watch.start()
            try:
                unseen = self._wait_synced(watches, stopping)
                self._make(writer)
                began_at = time.monotonic()
                with self._lock:
                    meter.began(began_at)
                try:
                    self._load(writer, meter, began_at, stopping, live)
                finally:
                    with self._lock:
                        meter.ended(time.monotonic())
                    left = self._taken_away(writer)
                interrupted = stopping.requested
                if not interrupted and NODES not in unseen and self._asked.nodes_seconds:
                    self._nodes_watched(WatchTimeout(watches[-1]), meter, stopping, live)
            finally:
                for watch in watches:
                    watch.stop(0.0)
        with self._lock:
            report = meter.report(time.monotonic())
            missing = max(0, self._wanted - meter.made)
        return Finished(self._asked, report, interrupted, missing, self._refusal, self._ended_by, unseen, left)

    def _make(self, writer: "Writer") -> None:
        """Make the Deployment. An answer that was lost leaves one behind: it is known by the mark of this run."""
        from slack.kube.errors import KubeError

        asked = self._asked
        until = until_text(time.time() + DEADLINE_SECONDS)
        manifest = deployment(asked.name, asked.namespace, asked.image, asked.requests, self._mark, until)
        job = self._made_job(writer)
        if job is not None:
            manifest = owned_by(manifest, job)
        try:
            self._uid = writer.create(self._collection, manifest)["metadata"]["uid"]
        except KubeError:
            with suppress(KubeError):
                there = item(self._connection, self._path)
                if there is not None and mark_of(there) == self._mark:
                    writer.delete(self._path, uid=there["metadata"]["uid"])
                self._remove_job(writer)
            raise

    def _made_job(self, writer: "Writer") -> "dict[str, Any] | None":
        """Make the Job with the deadline; None if it is refused, for a load needs no right to create jobs."""
        from slack.kube.errors import KubeError

        asked = self._asked
        manifest = deadline_job(asked.name, asked.namespace, asked.image, asked.requests, self._mark, DEADLINE_SECONDS)
        try:
            job = writer.create(self._jobs, manifest)
        except KubeError:
            with suppress(KubeError):
                there = item(self._connection, self._job_path)
                if there is not None and mark_of(there) == self._mark:
                    self._job_uid = there["metadata"]["uid"]
                    return there
            return None
        self._job_uid = job["metadata"]["uid"]
        return job

    def _remove_job(self, writer: "Writer") -> None:
        if self._job_uid is not None:
            writer.delete(self._job_path, uid=self._job_uid)

    def _remove_leftover(self, writer: "Writer", stopping: "Stopping") -> None:
        """Delete what an earlier load has left, and wait until its pods, which would be counted, are gone.

        Raises:
            UserError: they stay.
        """
        from slack.kube.paths import resource_path

        if self._leftover_uid is None:
            return
        writer.delete(self._path, uid=self._leftover_uid)
        pods = resource_path("v1", "pods", namespace=self._asked.namespace)
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while items(self._connection, pods, selector(self._asked.name)):
            if time.monotonic() > deadline or stopping.wait(1.0):
                raise UserError("pods of an earlier load are still being removed; nothing was made")

    def _renew(self, writer: "Writer", elapsed_seconds: float) -> None:
        """Move the deadline on. What fails is done the next time; the deadline has room for several."""
        from slack.kube.errors import KubeError

        until = until_text(time.time() + DEADLINE_SECONDS)
        seconds = int(elapsed_seconds) + DEADLINE_SECONDS
        with suppress(KubeError):
            if self._job_uid is not None:
                writer.merge_patch(self._job_path, {"spec": {"activeDeadlineSeconds": seconds}})
            writer.merge_patch(self._path, {"metadata": {"annotations": {ANNOTATION_UNTIL: until}}})

    def _watches(self, meter: LoadMeter) -> "Sequence[Reflector[Any]]":
        from slack.cli.inputs.objects import PLACEHOLDERS
        from slack.cluster import wire
        from slack.kube.paths import resource_path
        from slack.kube.reflector import Reflector

        asked = self._asked
        pods = resource_path("v1", "pods", namespace=asked.namespace)
        mine = Reflector(
            self._connection, pods, wire.Pod, LoadPodSink(meter, self._lock), label_selector=selector(asked.name)
        )
        theirs = Reflector(
            self._connection,
            "/api/v1/pods",
            wire.Pod,
            PlaceholderSink(meter, self._lock),
            label_selector=PLACEHOLDERS,
        )
        nodes = Reflector(self._connection, "/api/v1/nodes", wire.Node, LoadNodeSink(meter, self._lock))
        return mine, theirs, nodes

    def _wait_synced(self, watches: "Sequence[Reflector[Any]]", stopping: "Stopping") -> tuple[str, ...]:
        """Wait until all is seen; return what may not be seen."""
        names = (f"pods of namespace {self._asked.namespace}", PLACEHOLDERS_SEEN, NODES)
        deadline = time.monotonic() + _SYNC_SECONDS
        while not all(watch.synced or watch.forbidden for watch in watches):
            if stopping.wait(0.02):
                raise UserError("stopped before the load began; nothing was made")
            if time.monotonic() > deadline:
                problem = next((watch.last_error for watch in watches if watch.last_error), "no answer")
                raise UserError(f"the cluster is not seen within {_SYNC_SECONDS:g} s: {problem}; nothing was made")
        if watches[0].forbidden:
            raise UserError(
                f"{watches[0].last_error or names[0]}: a load needs list and watch on pods; nothing was made"
            )
        return tuple(name for name, watch in zip(names, watches, strict=True) if watch.forbidden)

    def _load(self, writer: "Writer", meter: LoadMeter, began_at: float, stopping: "Stopping", live: LiveLine) -> None:
        asked = self._asked
        span = asked.span_seconds or _DEFAULT_SPAN_SECONDS
        looked_at = scaled_at = 0.0
        renewed_at = began_at
        while not stopping.wait(_TICK_SECONDS if scaled_at else 0.0):
            now = time.monotonic()
            elapsed = now - began_at
            wanted = replicas_at(asked.shape, asked.pods, elapsed, span)
            if wanted != self._wanted and now - scaled_at >= _SCALE_SECONDS:
                writer.merge_patch(self._path, {"spec": {"replicas": wanted}})
                self._wanted, scaled_at = wanted, now
            if now - renewed_at >= RENEW_SECONDS:
                renewed_at = now
                self._renew(writer, elapsed)
            if now - looked_at >= _LOOK_SECONDS:
                looked_at = now
                self._look(now, live)
            with self._lock:
                moment = meter.tick(now)
                waits = meter.report(now)
                quiet = now - meter.changed_at
                made = meter.made
            live.show(moment, waits)
            if self._is_done(made, waits, elapsed, now, quiet):
                return
        self._ended_by = "Ctrl-C" if stopping.reason in ("", "SIGINT") else stopping.reason

    def _is_done(self, made: int, waits: LoadTestReport, elapsed: float, now: float, quiet: float) -> bool:
        asked = self._asked
        if self._ended_by:
            return True
        if asked.span_seconds is not None or asked.shape is not LoadShape.BURST:
            if elapsed >= (asked.span_seconds or _DEFAULT_SPAN_SECONDS):
                return True
        else:
            all_come = made >= asked.pods or (self._refusal and now - self._refused_at >= _REFUSED_SECONDS)
            if all_come and not waits.unbound and (waits.all_ready or quiet >= asked.patience_seconds):
                return True
        if (waits.unbound or made < self._wanted) and quiet >= asked.patience_seconds:
            self._ended_by = f"for {quiet:.0f} s no pod was made or got a node, and no node came (--patience)"
            return True
        return False

    def _look(self, now: float, live: LiveLine) -> None:
        """See whether the Deployment is refused pods, and tell it once."""
        from slack.kube.errors import KubeError

        try:
            seen = item(self._connection, self._path)
        except KubeError:
            return  # the next look may be answered
        if seen is None:
            self._ended_by = "somebody deleted the Deployment"
            return
        said = refusal(seen)
        if said and said != self._refusal:
            self._refused_at = now
            live.print_line(f"not all pods can be made: {said}")
        self._refusal = said or self._refusal

    def _taken_away(self, writer: "Writer") -> str:
        """Delete the Deployment; return how to do it by hand where that fails."""
        from slack.kube.errors import KubeError

        by_hand = f"kubectl delete deployment -n {self._asked.namespace} {self._asked.name}"
        try:
            writer.delete(self._path, uid=self._uid)
            with suppress(KubeError):  # it has no pods, and goes by itself
                self._remove_job(writer)
        except KubeError as error:
            return f"the Deployment is still there ({error}); take it away: {by_hand}"
        return ""

    def _nodes_watched(self, silence: WatchTimeout, meter: LoadMeter, stopping: "Stopping", live: LiveLine) -> None:
        deadline = time.monotonic() + self._asked.nodes_seconds
        told = False
        while time.monotonic() < deadline:
            now = time.monotonic()
            if why := silence.ends(now):
                live.print_line(f"nodes are watched no longer: {why}")
                return
            with self._lock:
                moment = meter.tick(now)
                report = meter.report(now)
            if moment.nodes <= (before := report.nodes_before):
                return
            if not told:
                live.print_line(
                    f"the load is gone; watching whether {moment.nodes - before} more nodes than before go again "
                    f"(at most {self._asked.nodes_seconds:.0f} s; Ctrl-C ends it)"
                )
                told = True
            live.show(moment, report)
            if stopping.wait(1.0):
                return
