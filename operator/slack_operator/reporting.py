"""Tells people: status on the SlackPolicy, Events and log lines when a condition turns.

The built-in policy has no object: its conditions are only logged. Owned by the planning loop; every write passes the
same gate as the actuator's.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.planner.outcome import Condition, PolicyPlan
from slack.planner.policy import API_VERSION, KIND
from slack.process.logs import fields
from slack_operator.actuate import NotLeading
from slack_operator.desired import PolicyEntry
from slack_operator.policies import PLURAL
from slack_operator.status import (
    PREEMPTION_STUCK,
    VIEW_STALE,
    Observed,
    Status,
    StatusBoard,
    is_trouble,
    manifest,
    rfc3339,
    status_of,
    turned,
    with_conditions,
)

log = logging.getLogger(__name__)


class Reporter:
    """Writes what is worth a write."""

    def __init__(
        self,
        writer: Writer,
        recorder: EventRecorder,
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.writes = 0
        self._writer = writer
        self._recorder = recorder
        self._may_write = may_write
        self._clock = clock
        self._wall = wall
        self._board = StatusBoard()

    def plan(
        self,
        entry: PolicyEntry,
        plan: PolicyPlan,
        *,
        extra: Sequence[Condition],
        displaced: int,
        instant_start: str | None,
    ) -> None:
        """Report on a policy that was planned.

        Args:
            entry: the policy; without a uid it is the built-in one.
            plan: its plan.
            extra: conditions of the operator's own that are true now.
            displaced: how many of its placeholders this process has seen displaced.
            instant_start: the text for status, None before the first start.
        """
        now = rfc3339(self._wall())
        previous = self._board.open(entry.uid, entry.status, now)
        total, since = self._board.displaced(entry.uid, displaced)
        known = {str(old["type"]) for old in previous.get("conditions", ())}
        over = [
            Condition(kind, False, reason, message)
            for kind, reason, message in (
                (VIEW_STALE, "Fresh", "the view of the cluster is whole and fresh"),
                (PREEMPTION_STUCK, "None", "no preempting pod hangs"),
            )
            if kind in known and all(str(one.type) != kind for one in extra)
        ]
        observed = Observed(
            entry.generation,
            total,
            since,
            instant_start or previous.get("instantStart"),
            (*extra, *over),
        )
        self._offer(entry, status_of(plan, observed, previous, now), previous)

    def only(self, entry: PolicyEntry, conditions: Sequence[Condition]) -> None:
        """Report on a policy that could not be planned; the rest of its status stays."""
        now = rfc3339(self._wall())
        previous = self._board.open(entry.uid, entry.status, now)
        self._offer(entry, with_conditions(previous, conditions, entry.generation, now), previous)

    def keep_only(self, entries: Sequence[PolicyEntry]) -> None:
        """Forget policies that are no more."""
        self._board.keep_only({entry.uid for entry in entries})

    def _offer(self, entry: PolicyEntry, status: Mapping[str, Any], previous: Status) -> None:
        now = self._clock()
        if not self._board.due(entry.uid, status, now):
            return
        if entry.uid:
            if not self._may_write():
                raise NotLeading
            path = resource_path(API_VERSION, PLURAL, name=entry.name) + "/status"
            try:
                # force: nobody else has a say in it, whatever has touched it meanwhile
                self._writer.apply(path, manifest(entry.name, entry.uid, status), force=True)
            except ApiError as error:
                if not (error.not_found or error.conflict):  # deleted, or another object of its name by now
                    log.warning("status of slackpolicy %s: %s", entry.name, error)
                return
            self.writes += 1
        self._board.written(entry.uid, status, now)
        for condition in turned(previous, status):
            self._tell(entry, condition)

    def _tell(self, entry: PolicyEntry, condition: Mapping[str, Any]) -> None:
        text = f"{condition['type']} is {condition['status']}: {condition['message']}"
        trouble = is_trouble(condition)
        log.log(
            logging.WARNING if trouble else logging.INFO,
            "%s",
            text,
            extra=fields(policy=entry.name, reason=condition["reason"]),
        )
        if entry.uid:
            kind = EventKind.WARNING if trouble else EventKind.NORMAL
            self._recorder.record(ObjectRef(API_VERSION, KIND, entry.name, entry.uid), kind, condition["reason"], text)
