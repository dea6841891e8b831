"""Tells people: status on the SlackPolicy, Events and log lines when a condition turns.

The built-in policy has no object: its conditions are only logged. Owned by the planning loop; every write passes the
same gate as the actuator's. After `TURN_SECONDS` of writes the rest waits for the next turn, the longest wait first.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.labels import API_VERSION
from slack.cluster.snapshot import Placeholder
from slack.documents.slackpolicy_status import StatusHold, StatusTimeToReady
from slack.health.reasons import (
    FORM_CHANGED,
    OWNERSHIP_TAKEN_BACK,
    PLACEHOLDERS_DISPLACED,
    REFILLING,
    RESERVATION_CUT,
    is_calm,
)
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import WRITE_FAILURES, is_another_object
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.planner.model.result import ConditionType, CutReservation, PolicyPlan
from slack.planner.model.shape import Shape
from slack.planner.objects.actions import Present
from slack.planner.objects.changed_pods import changes
from slack.planner.policy.crd import PLURAL
from slack.planner.policy.spec import KIND
from slack.process.logs import fields
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.learning.history_store import HISTORY_LOST
from slack_operator.placeholders.act.actuator import TakenBack
from slack_operator.placeholders.conditions import (
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    STALLED,
    VIEW_STALE,
    not_ready,
)
from slack_operator.placeholders.policies import PolicyEntry
from slack_operator.placeholders.report.ownership import told
from slack_operator.placeholders.report.saved_waits import SavedWait
from slack_operator.placeholders.report.status import (
    NOT_OBSERVED,
    PolicyObservation,
    StatusBoard,
    condition_of,
    spared_status,
    status_of,
    with_state,
    with_update_times,
)
from slack_operator.runtime.conditions import Status, manifest, rfc3339, turned, with_conditions
from slack_operator.runtime.leading import NotLeading
from slack_operator.runtime.write_retries import WriteRetries

log = logging.getLogger(__name__)

_REFILLS = frozenset({REFILLING, "Reserved", "CeilingReached"})
"""Turning between them is a busy cluster's day: Events of it would use up what the recorder grants an object."""
MOST_CUT_TOLD = 20
"""Workloads in one turn: who annotates a thousand pods gets a thousand Events later than the others."""
_OBJECTS = {"pod": ("v1", "Pod")} | {SHORT_KINDS[kind]: (version, kind) for version, _, kind, _ in wire.WORKLOADS}
"""apiVersion and kind, by short kind; an owner of another kind is told in the policy's status only."""
TURN_SECONDS = 30.0
"""No write of a status begins later in one turn: a slow API server does not keep the loop from planning."""
DISPLACED_SECONDS = 120.0
"""Between two Events about displaced placeholders: half of what the recorder's budget for one object gives back."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A status that waits for its time."""

    entry: PolicyEntry
    status: dict[str, Any]
    previous: Status
    at: float
    """Monotonic seconds."""


class Reporter:
    """Writes what is worth a write."""

    def __init__(
        self,
        writer: Writer,
        recorder: EventRecorder,
        *,
        namespace: str,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """A reporter that has written nothing yet.

        Args:
            writer: of statuses.
            recorder: of Events.
            namespace: the operator's.
            may_write: asked before each write.
            clock: monotonic seconds.
            wall: Unix seconds.
            progress: called after each write, so that slow writes are not mistaken for a dead loop.
        """
        self._progress = progress
        self._writer = writer
        self._recorder = recorder
        self._namespace = namespace
        self._may_write = may_write
        self._clock = clock
        self._wall = wall
        self._board = StatusBoard()
        self._retries = WriteRetries(clock)
        self._displaced: dict[str, tuple[Mapping[str, int], float]] = {}
        """By policy: what was said of displaced placeholders, by cause, and when an Event last said it."""
        self._cut: dict[str, dict[str, tuple[int, int]]] = {}
        """By policy and workload: what was said of a reservation, asked and granted."""
        self._held: dict[str, _Held] = {}
        """By uid: what is worth a write, and too soon after the last one."""
        self._until = float("inf")

    def begin_turn(self) -> None:
        """Begin the budget of a turn."""
        self._until = self._clock() + TURN_SECONDS

    def plan(
        self,
        entry: PolicyEntry,
        plan: PolicyPlan,
        *,
        extra: Sequence[StatusCondition],
        displaced: int,
        instant_start: str | None,
        spared: SavedWait | None = None,
        hold: StatusHold | None = None,
        time_to_ready: StatusTimeToReady | None = None,
    ) -> None:
        """Report on a policy that was planned.

        Args:
            entry: the policy; without a uid it is the built-in one.
            plan: its plan.
            extra: conditions of the operator's own that are true now.
            displaced: how many of its placeholders this process has seen displaced.
            instant_start: the text for status, None before the first start.
            spared: what its slack spared on the last day, None before the first start.
            hold: the form of its placeholders, None where nobody decides it.
            time_to_ready: how long pods take until they are Ready, None before the first.
        """
        now = rfc3339(self._wall())
        previous = self._board.open(entry.uid, entry.status, now, self._clock())
        total, since = self._board.displaced(entry.uid, displaced)
        known = {str(old["type"]) for old in previous.get("conditions", ())}
        over = [
            StatusCondition(kind, False, reason, message)
            for kind, reason, message in (
                (VIEW_STALE, "Fresh", "the view of the cluster is whole and fresh"),
                (PREEMPTION_STUCK, "NothingHangs", "no preempting pod hangs any more"),
                (OWNERSHIP_CONTESTED, "Uncontested", "nobody else writes the operator's objects any more"),
                (PLACEHOLDERS_CHANGED, "AsPlanned", "placeholders are as they were planned"),
                (HISTORY_LOST, "HistoryKept", "what is learnt is kept"),
            )
            if kind in known and all(str(condition.type) != kind for condition in extra)
        ]
        observed = PolicyObservation(
            entry.generation,
            entry.policy_generation,
            total,
            since,
            instant_start or previous.get("instantStart"),
            (*extra, *over),
            spared_status(spared, previous),
            hold,
            time_to_ready or msgspec.convert(previous.get("timeToReady"), StatusTimeToReady | None),
        )
        self._offer(entry, status_of(plan, observed, previous, now), previous)
        self._tell_cut(entry.name, plan.cut)

    def _tell_cut(self, policy: str, cut: Sequence[CutReservation]) -> None:
        """Say on workloads that they get less than they reserve: once for each number, and few in one turn."""
        known = self._cut.get(policy, {})
        told = {key: numbers for key, numbers in known.items() if key in {str(entry) for entry in cut}}
        fresh = [entry for entry in cut if told.get(str(entry)) != (entry.asked, entry.granted)]
        for entry in fresh[:MOST_CUT_TOLD] if self._may_write() else []:
            told[str(entry)] = (entry.asked, entry.granted)
            if entry.kind in _OBJECTS:
                text = f"{entry.granted} of the {entry.asked} reserved placeholders, policy {policy}: {entry.reason}"
                regarding = ObjectRef(*_OBJECTS[entry.kind], entry.name, entry.uid, entry.namespace)
                self._recorder.record(regarding, EventKind.WARNING, RESERVATION_CUT, text)
        self._cut[policy] = told

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

    def taken_back(self, entries: Sequence[PolicyEntry], taken: TakenBack) -> None:
        """Say once whose write to an object of ours was taken back: a log line, and an Event on the policies."""
        if taken.told:
            return
        text = told(taken)
        said = fields(policy=taken.policy, reason=OWNERSHIP_TAKEN_BACK, object=taken.name, part=taken.part)
        log.warning("%s", text, extra=said)
        for entry in entries:
            if entry.uid and self._may_write():
                regarding = ObjectRef(API_VERSION, KIND, entry.name, entry.uid)
                self._recorder.record(regarding, EventKind.WARNING, OWNERSHIP_TAKEN_BACK, text)

    def only(self, entry: PolicyEntry, conditions: Sequence[StatusCondition]) -> None:
        """Report on a policy that could not be planned; the rest of its status stays.

        Without a word on Ready the status stays one of the generation before: nothing was done about this one.
        """
        now = rfc3339(self._wall())
        previous = self._board.open(entry.uid, entry.status, now, self._clock())
        status = with_conditions(previous, conditions, entry.generation, now, each=True)
        if all(condition.type != ConditionType.READY for condition in conditions):
            status["observedGeneration"] = previous.get("observedGeneration", NOT_OBSERVED)
        self._offer(entry, status, previous)

    def keep_only(self, entries: Sequence[PolicyEntry]) -> None:
        """Forget policies that are no more."""
        uids = {entry.uid for entry in entries}
        self._board.keep_only(uids)
        self._retries.keep_only(uids)
        self._held = {uid: held for uid, held in self._held.items() if uid in uids}
        names = {entry.name for entry in entries}
        self._displaced = {name: said for name, said in self._displaced.items() if name in names}
        self._cut = {name: said for name, said in self._cut.items() if name in names}

    def _offer(self, entry: PolicyEntry, status: dict[str, Any], previous: Status) -> None:
        now, stamp = self._clock(), rfc3339(self._wall())
        status = with_state(self._board.judged(entry.uid, status, now, stamp), self._namespace)
        status["conditions"] = with_update_times(status["conditions"], previous, stamp)
        status["observedTime"] = stamp
        wait = self._board.due_in(entry.uid, status, now)
        if wait is not None:
            wait = max(wait, self._retries.wait_seconds(entry.uid))
        held = self._held.pop(entry.uid, None)
        if wait:
            self._held[entry.uid] = _Held(entry, status, previous, now + wait)
        elif wait is not None and now < self._until:
            self._write(entry, status, previous)
        elif wait is not None:
            self._held[entry.uid] = _Held(entry, status, previous, now if held is None else held.at)

    def due_in(self) -> float:
        """Return the seconds until `write_due` has something to write; infinite while nothing is held."""
        return max(min((held.at for held in self._held.values()), default=float("inf")) - self._clock(), 0.0)

    def write_due(self) -> None:
        """Write what was held for its time: between two plans, for the next one may be an interval away."""
        if not self._may_write():
            self._held.clear()  # whoever leads now has figures of its own
        self.begin_turn()
        for uid, held in sorted(self._held.items(), key=lambda pair: pair[1].at):
            now = self._clock()
            if held.at <= now < self._until:
                del self._held[uid]
                self._write(held.entry, held.status, held.previous)

    def _write(self, entry: PolicyEntry, status: dict[str, Any], previous: Status) -> None:
        if entry.uid:
            if not self._may_write():
                raise NotLeading
            path = resource_path(API_VERSION, PLURAL, name=entry.name) + "/status"
            try:
                # force: nobody else has a say in it, whatever has touched it meanwhile
                self._writer.apply(path, manifest(KIND, entry.name, entry.uid, status), force=True)
            except WRITE_FAILURES as error:
                self._retries.failed(entry.uid, error)
                if not is_another_object(error):
                    log.warning("status not written: %s", refusal_text(error), extra=fields(policy=entry.name))
                return
            finally:
                self._progress()
        self._retries.succeeded(entry.uid)
        self._board.written(entry.uid, status, self._clock())
        self._tell_form(entry, previous, status)
        for alike in _alike(condition for condition in turned(previous, status) if condition["type"] != STALLED):
            self._tell(entry, alike, previous)

    def _tell_form(self, entry: PolicyEntry, previous: Status, status: Status) -> None:
        """Say that placeholders change their form: from which to which, and why."""
        hold = status.get("hold") or {}
        before, form = _form_of(previous), hold.get("form")
        if entry.uid and form is not None and before not in (None, form):
            kind = EventKind.WARNING if "retryTime" in hold else EventKind.NORMAL
            text = f"placeholders change from {before} to {form}, a few at a time ({hold['reason']}): {hold['message']}"
            self._recorder.record(ObjectRef(API_VERSION, KIND, entry.name, entry.uid), kind, FORM_CHANGED, text)

    def _tell(self, entry: PolicyEntry, alike: Sequence[Mapping[str, Any]], previous: Status) -> None:
        """Say once what turned, however many conditions say it; a refill is no Event, nor is its end."""
        types, first = [str(condition["type"]) for condition in alike], alike[0]
        text = f"{' and '.join(types)} {'is' if len(types) == 1 else 'are'} {first['status']}: {first['message']}"
        trouble = _is_trouble(first)
        log.log(
            logging.WARNING if trouble else logging.INFO,
            "%s",
            text,
            extra=fields(policy=entry.name, condition=",".join(types), status=first["status"], reason=first["reason"]),
        )
        before = condition_of(previous, first["type"])
        if entry.uid and (first["reason"] not in _REFILLS or (before is not None and _is_trouble(before))):
            kind = EventKind.WARNING if trouble else EventKind.NORMAL
            self._recorder.record(ObjectRef(API_VERSION, KIND, entry.name, entry.uid), kind, first["reason"], text)


def _form_of(status: Status) -> str | None:
    """Return the form of the placeholders that a status tells of; those of versions that knew one form were bound."""
    known = (status.get("hold") or {}).get("form")
    return known or ("Bound" if status.get("shapes") else None)


def _is_trouble(condition: Mapping[str, Any]) -> bool:
    return is_trouble(condition["type"], condition["status"]) and not is_calm(condition["reason"])


def placeholders_changed(
    shapes: Mapping[str, Shape], placeholders: Iterable[Placeholder], present: Present
) -> StatusCondition | None:
    """Give the condition PlaceholdersChanged; None while a policy's placeholders are as its shapes, by name."""
    texts = changes(shapes, placeholders, present.pods)
    return StatusCondition(PLACEHOLDERS_CHANGED, True, "DifferFromPlan", "; ".join(texts)) if texts else None


def not_told(placeholders: Sequence[Placeholder], why: str | None) -> tuple[StatusCondition, ...]:
    """Say that autoscalers cannot be told of a policy's unbound placeholders; it is not ready while they know of none.

    Args:
        placeholders: of the policy.
        why: they cannot be told; None where they can.
    """
    unbound = [pod for pod in placeholders if pod.unbound]
    untold = sum(not pod.unschedulable for pod in unbound)
    if why is None or not untold:
        return ()
    text = f"{untold} of {len(unbound)} unbound placeholders count for no autoscaler: {why}"
    ignored = StatusCondition(ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS, True, "NotTold", text)
    return (ignored, not_ready("NotTold", text)) if untold == len(unbound) else (ignored,)


def _alike(conditions: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group conditions that say the same: where a policy is blocked, four of them do."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for condition in conditions:
        groups.setdefault((condition["status"], condition["reason"], condition["message"]), []).append(condition)
    return list(groups.values())
