"""The writes of making way: a ReplicaSet is stopped while its placeholders are deleted, then lowered by as many.

Lowering first would not do: its controller then deletes as many of its own choice, and what it deletes and makes anew
comes off the requests a second that it has for the burst's own pods. So the template is first made one that admission
refuses, by the name of a PriorityClass that there is none of; then nothing is made in place of what is deleted. The
deletions do not wait for the answer to that: what the controller makes anew before it has seen it (a pod or two; on a
busy server dozens, 40 of 400 were seen) is deleted as well, as the scheduler may have given it the burst's room. When
the controller's status says that it has seen the deletions, one write lowers the count and mends the template.
(docs/decisions.md, "Making way stops a ReplicaSet before it lowers it", has what was measured.)

Each write passes the gate and names the uid. Nothing is tried again here: what an API server that is overloaded or down
does not take is left to the scheduler. Owned by the thread that makes way.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slack.cluster.labels import ANNOTATION_APPLIED, FIELD_MANAGER
from slack.cluster.wire import OwnReplicaSet
from slack.kube.apply import DELETE_OPTIONS, MERGE, Json
from slack.kube.errors import ApiError, KubeError
from slack.kube.lanes import Ask, GoesOn, OnAnswer
from slack.kube.paths import resource_path

log = logging.getLogger(__name__)

NO_CLASS = "resource-slack-makes-way"
"""A PriorityClass that there is none of: no pod of a template that names it is admitted."""
STOPPED = "makes-way"
"""In place of the digest of what was applied, so that the next plan of whoever leads mends the template as its own."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A placeholder that is to leave."""

    uid: str
    name: str
    replica_set: str
    policy: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of some deletions."""

    gone: tuple[Leaving, ...]
    missed: tuple[Leaving, ...]
    """Gone already, or other pods by now, or not asked for any more."""
    refused: str | None
    """What the API server says that takes no more; None when it took all."""


class Sender(Protocol):
    """Sends several writes at once, see `Lanes`."""

    def keep(self, asks: int) -> None:
        """Be ready to send so many."""

    def send(self, asks: Sequence[Ask], goes_on: GoesOn, on_answer: OnAnswer) -> None:
        """Send all, and return when all are answered."""

    def close(self) -> None:
        """Let go of what is kept."""


class Hands:
    """See the module's docstring."""

    def __init__(self, sender: Sender, *, namespace: str, may_write: Callable[[], bool]) -> None:
        """Hands that do nothing yet.

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

    def let_go(
        self,
        to_stop: Sequence[OwnReplicaSet],
        leaving: Sequence[Leaving],
        in_time: Callable[[], bool],
        *,
        stop_first: bool = False,
    ) -> tuple[set[str], Deleted]:
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
        return stopped, Deleted(
            tuple(pod for index, pod in enumerate(leaving) if index in gone),
            tuple(pod for index, pod in enumerate(leaving) if index not in gone),
            refused[0] if refused else None,
        )

    def lower(self, own: OwnReplicaSet, replicas: int) -> bool:
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

    def _patch(self, own: OwnReplicaSet, patch: Json, applied: str | None) -> Ask:
        metadata = {"uid": own.metadata.uid, "annotations": {ANNOTATION_APPLIED: applied}}
        path = resource_path("apps/v1", "replicasets", namespace=self._namespace, name=own.metadata.name)
        return Ask("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", {"metadata": metadata, **patch}, MERGE)

    def _deletion(self, pod: Leaving) -> Ask:
        path = resource_path("v1", "pods", namespace=self._namespace, name=pod.name)
        return Ask("DELETE", path, {**DELETE_OPTIONS, "preconditions": {"uid": pod.uid}})
