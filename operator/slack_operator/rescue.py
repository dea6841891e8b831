"""Preempting pods that the stock scheduler leaves hanging: found, freed once, and told about.

kube-scheduler with asynchronous preemption can leave a pod pending for good with `status.nominatedNodeName` set, while
its victims are long gone (design/realcluster.md). Clearing that field through the status subresource wakes it in
0.1 s. This is the only write that is ever made to a pod that is not ours. The tracker is owned by the view, under its
lock; the decision is a function of values.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slack.cluster.wire import Pod
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.planner.outcome import Condition
from slack.process.logs import fields
from slack.process.reasons import PREEMPTION_RESCUED
from slack_operator.metrics import Metrics
from slack_operator.status import PREEMPTION_STUCK

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""A preemption that works takes a tenth of a second with grace period 0; victims with a longer one are still seen."""
TELL_SECONDS = 600.0
"""How long the policy's condition PreemptionStuck stays after the last one."""
RESCUE_PATCH = {"status": {"nominatedNodeName": None}}


@dataclass(slots=True)
class Nomination:
    """A real pod that waits for a node it was promised."""

    namespace: str
    name: str
    uid: str
    node: str
    since: float
    """Monotonic, when the nomination was seen."""
    handled: bool = False
    """It was rescued, or found stuck while rescuing is off; once a nomination."""


class Nominations:
    """All real pods with a nomination and without a node."""

    def __init__(self) -> None:
        self._waiting: dict[str, Nomination] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def seen(self, pod: Pod, now: float) -> None:
        """A real pod as an event has it."""
        uid = pod.metadata.uid or ""
        node = (pod.status.nominated_node_name if pod.status else None) or ""
        bound = pod.spec is not None and bool(pod.spec.node_name)
        if not node or bound or pod.metadata.deletion_timestamp is not None:
            self._waiting.pop(uid, None)
            return
        known = self._waiting.get(uid)
        if known is None or known.node != node:
            self._waiting[uid] = Nomination(pod.metadata.namespace or "", pod.metadata.name, uid, node, now)

    def gone(self, uid: str) -> None:
        """A pod that was deleted, seen or unseen."""
        self._waiting.pop(uid, None)

    @property
    def waiting(self) -> Iterable[str]:
        """The uids of the pods that wait."""
        return self._waiting.keys()

    def stuck(self, now: float, terminating_on: Callable[[str], bool]) -> list[Nomination]:
        """Return, once each, those that have waited long enough while no pod on their node is on its way out.

        Args:
            now: monotonic seconds.
            terminating_on: whether any pod on a node is terminating: then a victim may still be going.
        """
        found = [
            one
            for one in self._waiting.values()
            if not one.handled and now - one.since >= PATIENCE_SECONDS and not terminating_on(one.node)
        ]
        for one in found:
            one.handled = True
        return found


class Rescuer:
    """Frees hanging preemptors and remembers what to say about it. Owned by the planning loop."""

    def __init__(
        self,
        writer: Writer,
        recorder: EventRecorder,
        metrics: Metrics,
        *,
        enabled: bool,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics
        self._enabled = enabled
        self._may_write = may_write
        self._clock = clock
        self._told: dict[str, tuple[float, str]] = {}
        """By policy: until when the condition stays, and its message."""

    def free(self, stuck: Iterable[Nomination], policy_of: Callable[[str], str | None]) -> bool:
        """Handle pods that were found hanging; True when there were any."""
        found = False
        for one in stuck:
            found = True
            self._metrics.stuck.inc()
            waited = f"pod {one.namespace}/{one.name} was promised {one.node} and hangs"
            said = f"{waited}; freed by clearing status.nominatedNodeName" if self._enabled else f"{waited}; not freed"
            if self._enabled and not self._free(one):
                said = f"{waited}; it could not be freed"
            policy = policy_of(one.node)
            log.warning("%s", said, extra=fields(policy=policy, pod=f"{one.namespace}/{one.name}", node=one.node))
            if policy is not None:
                self._told[policy] = (self._clock() + TELL_SECONDS, said)
        return found

    def condition(self, policy: str) -> Condition | None:
        """Return PreemptionStuck for a policy while it has been so lately."""
        until, message = self._told.get(policy, (0.0, ""))
        if until <= self._clock():
            self._told.pop(policy, None)
            return None
        return Condition(PREEMPTION_STUCK, True, "Rescued" if self._enabled else "RescueDisabled", message)

    def _free(self, one: Nomination) -> bool:
        if not self._may_write():
            return False
        path = resource_path("v1", "pods", namespace=one.namespace, name=one.name) + "/status"
        # the uid keeps the patch off a later pod of the same name
        patch = {"metadata": {"uid": one.uid}, **RESCUE_PATCH}
        try:
            self._writer.merge_patch(path, patch)
        except ApiError as error:
            if not (error.not_found or error.conflict):
                log.warning("rescue of %s/%s refused: %s", one.namespace, one.name, error)
            return False
        self._metrics.rescues.inc()
        self._recorder.record(
            ObjectRef("v1", "Pod", one.name, one.uid, one.namespace),
            EventKind.NORMAL,
            PREEMPTION_RESCUED,
            f"The scheduler had promised node {one.node} and did not come back; nominatedNodeName was cleared",
        )
        return True
