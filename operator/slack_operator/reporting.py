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
from slack.process.reasons import PLACEHOLDERS_DISPLACED
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

DISPLACED_SECONDS = 120.0
"""Between two Events about displaced placeholders: half of what the recorder's budget for one object gives back."""


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
        self._displaced: dict[str, tuple[Mapping[str, int], float]] = {}
        """By policy: what was said of displaced placeholders, by cause, and when an Event last said it."""

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
                (PREEMPTION_STUCK, "NothingHangs", "no preempting pod hangs any more"),
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

    def displaced(self, entry: PolicyEntry, counts: Mapping[str, int]) -> None:
        """Say what was displaced since the last call: a log line a cause, and now and then an Event.

        Args:
            entry: the policy; without a uid it is the built-in one.
            counts: how many of its placeholders this process has seen displaced so far, by cause.
        """
        known, told = self._displaced.get(entry.name, ({}, float("-inf")))
        more = {cause: count - known.get(cause, 0) for cause, count in counts.items() if count > known.get(cause, 0)}
        for cause, count in more.items():
            said = fields(policy=entry.name, reason=PLACEHOLDERS_DISPLACED, cause=cause, count=count)
            log.info("placeholders displaced: %d", count, extra=said)
        now = self._clock()
        if more and entry.uid and now - told >= DISPLACED_SECONDS and self._may_write():
            told = now
            causes = ", ".join(sorted(more))
            text = f"placeholders left their nodes ({causes}); status.displaced has how many"
            regarding = ObjectRef(API_VERSION, KIND, entry.name, entry.uid)
            self._recorder.record(regarding, EventKind.NORMAL, PLACEHOLDERS_DISPLACED, text)
        self._displaced[entry.name] = (dict(counts), told)

    def only(self, entry: PolicyEntry, conditions: Sequence[Condition]) -> None:
        """Report on a policy that could not be planned; the rest of its status stays."""
        now = rfc3339(self._wall())
        previous = self._board.open(entry.uid, entry.status, now)
        self._offer(entry, with_conditions(previous, conditions, entry.generation, now), previous)

    def keep_only(self, entries: Sequence[PolicyEntry]) -> None:
        """Forget policies that are no more."""
        self._board.keep_only({entry.uid for entry in entries})
        names = {entry.name for entry in entries}
        self._displaced = {name: said for name, said in self._displaced.items() if name in names}

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
                    log.warning("status not written: %s", error, extra=fields(policy=entry.name))
                return
            self.writes += 1
        self._board.written(entry.uid, status, now)
        for alike in _alike(turned(previous, status)):
            self._tell(entry, alike)

    def _tell(self, entry: PolicyEntry, alike: Sequence[Mapping[str, Any]]) -> None:
        """Say once what turned, however many conditions say it."""
        types, first = [str(one["type"]) for one in alike], alike[0]
        text = f"{' and '.join(types)} {'is' if len(types) == 1 else 'are'} {first['status']}: {first['message']}"
        trouble = is_trouble(first)
        log.log(
            logging.WARNING if trouble else logging.INFO,
            "%s",
            text,
            extra=fields(policy=entry.name, condition=",".join(types), status=first["status"], reason=first["reason"]),
        )
        if entry.uid:
            kind = EventKind.WARNING if trouble else EventKind.NORMAL
            self._recorder.record(ObjectRef(API_VERSION, KIND, entry.name, entry.uid), kind, first["reason"], text)


def _alike(conditions: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group conditions that say the same: where a policy is blocked, four of them do."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for one in conditions:
        groups.setdefault((one["status"], one["reason"], one["message"]), []).append(one)
    return list(groups.values())
