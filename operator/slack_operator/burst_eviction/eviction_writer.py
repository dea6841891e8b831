"""Writes of burst eviction: stop a ReplicaSet, delete its placeholders, then lower its count by as many.

`ReplicaSetSuspender` uses it. The order matters:

1. The template gets a PriorityClass that does not exist, so that admission refuses new pods. If the count were lowered
   first, the controller would delete pods of its own choice, and its deletions and creations would use up the requests
   per second that it has for the burst's own pods.
2. Placeholders are deleted without waiting for the answer to step 1. A controller that has not seen step 1 yet may
   recreate some (40 of 400 on a busy server); these are deleted as well, because they may take the burst's capacity.
3. When the controller's status shows the deletions, one write lowers the count and restores the template.

docs/decisions.md, "Making way stops a ReplicaSet before it lowers it", has the measurements. Each write passes the
leader's gate and names the uid. Nothing is retried here: if the API server is overloaded or down, the scheduler
preempts. Owned by the evictor's thread.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slack.cluster.labels import ANNOTATION_APPLIED, FIELD_MANAGER, SUSPENDED_PRIORITY_CLASS
from slack.cluster.wire import OwnReplicaSet
from slack.kube.apply import DELETE_OPTIONS, MERGE, Json
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.kube.pipelining import OnAnswer, ShouldSend, WriteRequest

log = logging.getLogger(__name__)

NO_CLASS = SUSPENDED_PRIORITY_CLASS
"""A PriorityClass that there is none of: no pod of a template that names it is admitted."""
STOPPED = "makes-way"
"""In place of the digest of what was applied, so that the next plan of whoever leads mends the template as its own."""


@dataclass(frozen=True, slots=True)
class PlaceholderToEvict:
    """A placeholder that is to leave."""

    uid: str
    name: str
    replica_set: str
    policy: str


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """What became of some deletions."""

    gone: tuple[PlaceholderToEvict, ...]
    missed: tuple[PlaceholderToEvict, ...]
    """Gone already, or other pods by now, or not asked for any more."""
    refused: str | None
    """What the API server says that takes no more; None when it took all."""


class WriteSender(Protocol):
    """Sends several writes at once, see `PipelinedClient`."""

    def keep(self, asks: int) -> None:
        """Be ready to send so many."""

    def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
        """Send all, and return when all are answered."""

    def close(self) -> None:
        """Let go of what is kept."""


class EvictionWriter:
    """See the module's docstring."""

    def __init__(self, sender: WriteSender, *, namespace: str, may_write: Callable[[], bool]) -> None:
        """Prepare a writer.

        Args:
            sender: does not try again what was refused.
            namespace: of the placeholders.
            may_write: asked before each write.
        """
        self._sender = sender
        self._namespace = namespace
        self._may_write = may_write

    def close(self) -> None:
        """Begin nothing more."""
        self._sender.close()

    def keep_ready(self, placeholders: int) -> bool:
        """Have connections open where we may write, for so many that may leave; to be called from time to time."""
        leads = self._may_write()
        if leads:
            self._sender.keep(placeholders)
        return leads

    def evict(
        self,
        to_stop: Sequence[OwnReplicaSet],
        leaving: Sequence[PlaceholderToEvict],
        in_time: Callable[[], bool],
        *,
        stop_first: bool = False,
    ) -> tuple[set[str], EvictionResult]:
        """Stop ReplicaSets, so that nothing is made anew, and delete placeholders meanwhile, or afterwards.

        No more deletion begins where stopping has failed, after the first refusal, or too late.

        Returns:
            the names of those that were stopped, and what became of the placeholders.
        """
        patch: Json = {"spec": {"template": {"spec": {"priorityClassName": NO_CLASS}}}}
        first = len(to_stop)
        asks = [self._patch(own, patch, STOPPED) for own in to_stop] + [self._deletion(pod) for pod in leaving]
        running, stopped, gone, refused = set[str](), set[str](), set[int](), list[str]()

        def goes_on(index: int) -> bool:
            if not self._may_write():
                return False
            if index < first:
                return True
            return in_time() and not refused and leaving[index - first].replica_set not in running

        def on_answer(index: int, error: KubeError | None) -> None:
            if index < first:
                (stopped if error is None else running).add(to_stop[index].metadata.name)
            elif error is None:
                gone.add(index - first)
            elif not (isinstance(error, ApiError) and (error.conflict or error.not_found)):
                refused.append(str(error))

        if stop_first and first:
            self._sender.send(asks[:first], goes_on, on_answer)
            self._sender.send(
                asks[first:], lambda index: goes_on(index + first), lambda index, error: on_answer(index + first, error)
            )
        else:
            self._sender.send(asks, goes_on, on_answer)
        return stopped, EvictionResult(
            tuple(pod for index, pod in enumerate(leaving) if index in gone),
            tuple(pod for index, pod in enumerate(leaving) if index not in gone),
            refused[0] if refused else None,
        )

    def lower_replicas(self, own: OwnReplicaSet, replicas: int) -> bool:
        """Ask for so many from now on, of the template that it had."""
        template = own.template.get("spec") or {}
        mended = {"replicas": replicas, "template": {"spec": {"priorityClassName": template.get("priorityClassName")}}}
        ask = self._patch(own, {"spec": mended}, own.metadata.annotation(ANNOTATION_APPLIED) or None)
        done: list[bool] = []

        def on_answer(_: int, error: KubeError | None) -> None:
            done.append(error is None)
            if error is not None:
                log.debug("not written: %s", error)

        self._sender.send([ask], lambda _: self._may_write(), on_answer)
        return any(done)

    def _patch(self, own: OwnReplicaSet, patch: Json, applied: str | None) -> WriteRequest:
        metadata = {"uid": own.metadata.uid, "annotations": {ANNOTATION_APPLIED: applied}}
        path = resource_path("apps/v1", "replicasets", namespace=self._namespace, name=own.metadata.name)
        return WriteRequest("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", {"metadata": metadata, **patch}, MERGE)

    def _deletion(self, pod: PlaceholderToEvict) -> WriteRequest:
        path = resource_path("v1", "pods", namespace=self._namespace, name=pod.name)
        return WriteRequest("DELETE", path, {**DELETE_OPTIONS, "preconditions": {"uid": pod.uid}})
