"""Preempting pods that the stock scheduler leaves hanging: freed, one by one, and told about.

kube-scheduler with asynchronous preemption can forget a pod that it has made room for (`hangs` has what that looks
like, docs/details/troubleshooting.md, "Pods hang after a preemption"). Clearing `status.nominatedNodeName` by
the status subresource wakes it in 0.1 s. This is the only write to a pod that is not ours, and only for
the very state that was judged: whoever has changed the pod meanwhile makes it a conflict, and the pod is judged anew.
"""

import logging
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import Counter

from slack.health.reasons import PREEMPTION_RESCUED
from slack.kube.apply import Writer
from slack.kube.breaker import WritesPaused
from slack.kube.errors import ApiError, KubeError, Stopped
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.kube.retry import RetryBackoff
from slack.process.logs import fields
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.act.hang_versions import may_hang
from slack_operator.placeholders.conditions import PREEMPTION_STUCK
from slack_operator.placeholders.view.hangs import PATIENCE_SECONDS, Hang

log = logging.getLogger(__name__)

TELL_SECONDS = 600.0
"""How long the policy's condition PreemptionStuck stays after the last one."""
VERSION_SECONDS = 600.0
"""How often the server's version is asked for while pods hang: control planes are upgraded."""
TURN_SECONDS = 5.0
"""How long the loop is held up at most by one turn, short of a request that is under way; the others come next time."""
MAX_BACKOFF_SECONDS = 300.0
RESCUE_PATCH = {"status": {"nominatedNodeName": None}}


def _backoff() -> RetryBackoff:
    return RetryBackoff(first_seconds=2.0, max_seconds=MAX_BACKOFF_SECONDS)


@dataclass(slots=True)
class _Attempt:
    """What was tried of one hang."""

    not_before: float = 0.0
    refused_version: str | None = None
    """The state that was no longer the pod's; until a newer one is seen there is nothing to judge."""
    told: bool = False
    """It was counted as stuck."""
    backoff: RetryBackoff = field(default_factory=_backoff)


class RescueMetrics(Protocol):
    """What is counted of hanging preemptors."""

    stuck: Counter
    rescues: Counter


class Rescuer:
    """Frees hanging preemptors and remembers what to say about it. Owned by the planning loop."""

    def __init__(
        self,
        writer: Writer,
        recorder: EventRecorder,
        metrics: RescueMetrics,
        *,
        enabled: bool,
        may_write: Callable[[], bool],
        server_version: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        """A rescuer that has seen nothing yet.

        Args:
            writer: should not try again for long by itself: the loop waits meanwhile.
            recorder: of Events.
            metrics: count what hangs and what was freed.
            enabled: without it hanging pods are told about only.
            may_write: whether this process leads.
            server_version: asks the API server for its gitVersion.
            clock: monotonic seconds.
        """
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics
        self._enabled = enabled
        self._may_write = may_write
        self._server_version = server_version
        self._clock = clock
        self._attempts: dict[tuple[str, float], _Attempt] = {}
        """By uid and the time of the nomination; of those that hang now."""
        self._version: tuple[float, bool] | None = None
        """When the version was asked for, and whether pods can hang with it."""
        self._told: dict[str, tuple[float, str, str]] = {}
        """By policy: until when the condition stays, its reason and its message."""

    def free(self, hangs: Sequence[Hang], policy_of: Callable[[str], str | None]) -> bool:
        """Handle all pods that hang now; True when there was something new to tell.

        Each is a rescue of its own: what becomes of one is nothing to the others.
        """
        self._attempts = {key: self._attempts.get(key) or _Attempt() for key in ((h.uid, h.since) for h in hangs)}
        if not hangs or not self._has_hangs():
            return False
        until = self._clock() + TURN_SECONDS
        news = False
        due = ((self._attempts[hang.uid, hang.since], hang) for hang in hangs)
        for attempt, hang in sorted(due, key=lambda pair: pair[0].not_before):  # the untried first
            if self._clock() >= attempt.not_before and hang.resource_version != attempt.refused_version:
                news |= self._handle(hang, attempt, policy_of(hang.node))
            if self._clock() >= until:
                break
        return news

    def keep_only(self, policies: Container[str]) -> None:
        """Forget policies that are no more."""
        self._told = {name: told for name, told in self._told.items() if name in policies}

    def condition(self, policy: str) -> StatusCondition | None:
        """Return PreemptionStuck for a policy while it has been so lately."""
        until, reason, message = self._told.get(policy, (0.0, "", ""))
        if until <= self._clock():
            self._told.pop(policy, None)
            return None
        return StatusCondition(PREEMPTION_STUCK, True, reason, message)

    def _has_hangs(self) -> bool:
        """Whether the cluster's scheduler forgets preemptors; asked again now and then."""
        now = self._clock()
        if self._version is not None and now < self._version[0] + VERSION_SECONDS:
            return self._version[1]
        try:
            version = self._server_version()
            hangs = may_hang(version)
        except (KubeError, ValueError) as error:
            log.debug("the server's version is not known: %s", error)
            version, hangs = "unknown", True
        if not hangs and (self._version is None or self._version[1]):
            log.info("the scheduler of Kubernetes %s forgets no preemptors: the rescue is off", version)
        self._version = (now, hangs)
        return hangs

    def _handle(self, hang: Hang, attempt: _Attempt, policy: str | None) -> bool:
        """Free one pod, or say why not; True when there is something new to tell."""
        waited = f"pod {hang.namespace}/{hang.name} was promised {hang.node} and hangs"
        if not self._enabled:
            attempt.not_before = self._clock() + TELL_SECONDS / 2  # while it hangs, the condition stays
            return self._tell(hang, attempt, policy, "RescueDisabled", f"{waited}; not freed")
        if not self._may_write():
            return False
        try:
            self._clear(hang)
        except Stopped:
            raise
        except WritesPaused as error:  # it was not tried, so the next turn may
            return self._tell(hang, attempt, policy, "RescueFailed", f"{waited}; it could not be freed: {error}")
        except ApiError as error:
            if error.not_found or error.conflict:
                attempt.refused_version = hang.resource_version  # gone, or another state: no hang that we know of
                return False
            return self._failed(hang, attempt, policy, f"{waited}; it could not be freed: {error}")
        except KubeError as error:
            return self._failed(hang, attempt, policy, f"{waited}; it could not be freed: {error}")
        # The watch will say that the nomination is gone; should it not, this is another hang.
        attempt.not_before = self._clock() + PATIENCE_SECONDS
        attempt.backoff.reset()
        self._tell(hang, attempt, policy, "Rescued", f"{waited}; freed by clearing status.nominatedNodeName")
        attempt.told = False
        self._metrics.rescues.inc()
        self._recorder.record(
            ObjectRef("v1", "Pod", hang.name, hang.uid, hang.namespace),
            EventKind.NORMAL,
            PREEMPTION_RESCUED,
            f"The scheduler had promised node {hang.node} and did not come back; nominatedNodeName was cleared",
        )
        return True

    def _clear(self, hang: Hang) -> None:
        path = resource_path("v1", "pods", namespace=hang.namespace, name=hang.name) + "/status"
        judged = {"uid": hang.uid, "resourceVersion": hang.resource_version}
        self._writer.merge_patch(path, {"metadata": judged, **RESCUE_PATCH})

    def _failed(self, hang: Hang, attempt: _Attempt, policy: str | None, said: str) -> bool:
        attempt.not_before = self._clock() + attempt.backoff.next_seconds()
        return self._tell(hang, attempt, policy, "RescueFailed", said)

    def _tell(self, hang: Hang, attempt: _Attempt, policy: str | None, reason: str, said: str) -> bool:
        """Log it and keep it for the policy's condition; count the hang, once. True when that is new."""
        new = not attempt.told
        if new:
            self._metrics.stuck.inc()
            attempt.told = True
        level = logging.WARNING if new or reason == "Rescued" else logging.DEBUG
        log.log(level, "%s", said, extra=fields(policy=policy, pod=f"{hang.namespace}/{hang.name}", node=hang.node))
        if policy is not None:
            self._told[policy] = (self._clock() + TELL_SECONDS, reason, said)
        return new
