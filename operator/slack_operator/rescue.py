"""Preempting pods that the stock scheduler leaves hanging: found, freed once, and told about.

kube-scheduler with asynchronous preemption can leave a pod pending for good with `status.nominatedNodeName` set, while
its victims are long gone (design/realcluster.md). Clearing that field through the status subresource wakes it in
0.1 s. This is the only write that is ever made to a pod that is not ours. The tracker is owned by the view, under its
lock; the decision is a function of values.
"""

from collections.abc import Callable
from dataclasses import dataclass

from slack.cluster.wire import Pod

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
        """A pod that was deleted."""
        self._waiting.pop(uid, None)

    def keep_only(self, uids: set[str]) -> None:
        """A new list is complete."""
        self._waiting = {uid: one for uid, one in self._waiting.items() if uid in uids}

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
