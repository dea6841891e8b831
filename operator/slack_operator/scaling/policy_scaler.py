"""Carries `spec.replicas` of SlackScales into the policies of their names, by these' /scale, and figures back.

Level-triggered and by one direction for each field: replicas go to the policy, and status comes from the policy.
Whoever else writes a policy's replicas, or the status of a SlackScale, is overwritten a few times. If that does not
end, the field is left alone for a while (`slack.process.contests`). The condition Ready says so, and an Event
where the condition is overwritten as well. A SlackScale without its policy, or one that the API server refuses (an
objective takes no replicas, say), says so in its condition Ready too. Only the leader writes; what did not work is
tried again after a pause.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slack.cluster import wire
from slack.cluster.labels import API_VERSION
from slack.documents.slackscale_status import SlackScaleStatus
from slack.kube.apply import Writer, refusal_text
from slack.kube.errors import WRITE_FAILURES, ApiError, KubeError, is_another_object
from slack.kube.events import EventKind, ObjectRef
from slack.kube.paths import resource_path
from slack.kube.retry import RetryBackoff
from slack.planner.policy.crd import PLURAL
from slack.planner.policy.scale import SCALE_KIND, SCALE_PLURAL
from slack.planner.policy.spec import Policy
from slack.process.contests import Contest, Contests, Verdict
from slack.process.logs import fields
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.runtime.conditions import Status, manifest, rfc3339, turned, with_times
from slack_operator.runtime.desired import Entry
from slack_operator.runtime.write_retries import WriteRetries

log = logging.getLogger(__name__)

SOMEBODY = "somebody else (a GitOps tool, another autoscaler, another release)"
REPLICAS, STATUS = "spec.extraCapacity.replicas", "status"
"""The contested fields: of the policy, and of the SlackScale."""
Tell = Callable[[ObjectRef, EventKind, str, str], None]
AGAIN_SECONDS = 15.0
"""The longest first pause after a write that did not work, or whose effect no watch has shown; each next is longer."""
MAX_BACKOFF_SECONDS = 300.0


def _backoff() -> RetryBackoff:
    return RetryBackoff(first_seconds=AGAIN_SECONDS, max_seconds=MAX_BACKOFF_SECONDS)


@dataclass(slots=True)
class _Done:
    """What was done about one SlackScale."""

    asked: tuple[str, int, int] | None = None
    """The policy's uid and generation, and the replicas, of the last write to it."""
    ours: tuple[str, int, int] | None = None
    """The policy's uid, the generation by which it had our replicas or was to have them, and the replicas."""
    backoff: RetryBackoff = field(default_factory=_backoff)
    not_before: float = 0.0
    """The same is not asked again before."""
    refusal: str | None = None
    status: Status | None = None
    """As it was last written."""
    told_at: float = float("-inf")
    """When it was written, or found to be written over."""
    version: str | None = None
    """Of the SlackScale, as it was seen when its status was written."""


class PolicyScaler:
    """Owned by the loop's thread."""

    def __init__(
        self,
        writer: Writer,
        tell: Tell,
        scales: Callable[[], Iterable[wire.SlackScale]],
        policies: Callable[[], Iterable[Entry[Policy]]],
        *,
        namespace: str,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """A scaler that has done nothing yet.

        Args:
            writer: should not try again for long by itself: the loop waits meanwhile.
            tell: records an Event; never waits.
            scales: the SlackScales that there are.
            policies: the SlackPolicies that there are.
            namespace: of the SlackScales.
            may_write: whether this process leads, and has seen all policies.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._writer = writer
        self._event = tell
        self._scales = scales
        self._policies = policies
        self._namespace = namespace
        self._may_write = may_write
        self._clock = clock
        self._wall = wall
        self._contests = Contests[str]()
        self._retries = WriteRetries(clock)
        self._done: dict[str, _Done] = {}
        """By uid."""

    def scale_due(self) -> None:
        """Carry over what differs; costs nothing where there is no SlackScale."""
        scales = tuple(self._scales())
        if not self._may_write():
            return
        self._done = {uid: done for uid, done in self._done.items() if uid in {s.metadata.uid for s in scales}}
        self._retries.keep_only(self._done)
        if not scales:
            return
        entries = {entry.name: entry for entry in self._policies()}
        for scale in scales:
            done = self._done.setdefault(scale.metadata.uid or "", _Done())
            entry = entries.get(scale.metadata.name)
            try:
                self._tell(scale, entry, self._carry(scale, entry, done), done)
            except KubeError as error:
                log.warning("not written: %s", error, extra=fields(policy=scale.metadata.name))

    def _carry(self, scale: wire.SlackScale, entry: Entry[Policy] | None, done: _Done) -> StatusCondition:
        """Write the policy's replicas where they differ; return what is so."""
        name, replicas = scale.metadata.name, scale.spec.replicas
        if entry is None:
            return _not("NoSuchPolicy", f"there is no SlackPolicy {name}; a SlackScale is of the policy of its name")
        there = None if entry.policy is None else entry.policy.spec.extra_capacity.replicas
        if there == replicas and not entry.problems:
            done.asked = done.refusal = None
            done.ours = (entry.uid, entry.generation, replicas)
            done.backoff.reset()
            return StatusCondition("Ready", True, "Followed", f"policy {name} has these replicas")
        asked, now = (entry.uid, entry.generation, replicas), self._clock()
        if _is_overwritten(done.ours, entry, there):
            done.ours = None  # counted, once for each write of his
            if self._contests.written(name, REPLICAS, SOMEBODY, now) is not Verdict.LEAVE:
                done.asked = None
                log.warning("replicas were overwritten by somebody else", extra=fields(policy=name))
        if contest := self._standing(name, REPLICAS):
            return _not("WrittenBack", _replicas_text(name, replicas, there, contest))
        if asked != done.asked or now >= done.not_before:
            done.asked, done.not_before = asked, now + done.backoff.next_seconds()
            path = resource_path(API_VERSION, PLURAL, name=name) + "/scale"
            try:
                self._writer.merge_patch(path, {"spec": {"replicas": replicas}})
                done.refusal, done.ours = None, asked
                said = fields(policy=name, **{"from": there, "to": replicas})
                log.info("replicas written, as the SlackScale has them", extra=said)
            except ApiError as error:
                done.refusal = refusal_text(error)
        if done.refusal is not None:
            return _not("WriteRefused", f"policy {name} does not take {replicas} replicas: {done.refusal}")
        if entry.problems:
            return _not("InvalidSpec", f"policy {name} cannot be used: {'; '.join(entry.problems)}")
        return StatusCondition("Ready", True, "Followed", f"policy {name} has these replicas")

    def _standing(self, name: str, part: str) -> Contest[str] | None:
        found = self._contests.standing(self._clock())
        return next((contest for contest in found if contest.subject == name and contest.part == part), None)

    def _tell(
        self, scale: wire.SlackScale, entry: Entry[Policy] | None, condition: StatusCondition, done: _Done
    ) -> None:
        """Write the status if it has changed, or if somebody else has changed it and is not left alone."""
        name, there = scale.metadata.name, scale.status or {}
        taken = self._is_taken(scale, done)
        if condition.status and (contest := self._standing(name, STATUS)):
            condition = _not("WrittenBack", _status_text(contest))
        of_policy: Status = {} if entry is None else entry.status
        generation = scale.metadata.generation or 0
        previous: Status = there if done.status is None else done.status
        figures = SlackScaleStatus(
            observed_generation=generation, replicas=of_policy.get("replicas"), selector=of_policy.get("selector")
        )
        conditions = with_times([condition], previous, rfc3339(self._wall()), generation)
        status = figures.document() | {"conditions": conditions}
        if done.status is None and _has(there, status):
            done.status = status  # a process before this one has written it
        if (status != done.status or taken) and not self._retries.wait_seconds(scale.metadata.uid or ""):
            self._write_status(scale, status, previous, done)

    def _is_taken(self, scale: wire.SlackScale, done: _Done) -> bool:
        """Whether somebody has written another status over ours, and it is to be taken back."""
        name, now, version = scale.metadata.name, self._clock(), scale.metadata.resource_version
        if done.status is None or _has(scale.status or {}, done.status):
            return False
        if version == done.version or now - done.told_at < AGAIN_SECONDS:
            return False  # the watch has not shown ours yet
        if self._standing(name, STATUS) is not None:
            return False
        done.told_at = now  # what he writes is counted once
        return self._contests.written(name, STATUS, SOMEBODY, now) is not Verdict.LEAVE

    def _write_status(self, scale: wire.SlackScale, status: Status, previous: Status, done: _Done) -> None:
        metadata, now = scale.metadata, self._clock()
        path = resource_path(API_VERSION, SCALE_PLURAL, namespace=self._namespace, name=metadata.name) + "/status"
        try:
            self._writer.apply(path, manifest(SCALE_KIND, metadata.name, metadata.uid or "", status), force=True)
        except WRITE_FAILURES as error:
            done.status = None
            self._retries.failed(metadata.uid or "", error)
            if not is_another_object(error):
                text = refusal_text(error)
                log.warning("status of a SlackScale not written: %s", text, extra=fields(policy=metadata.name))
            return
        self._retries.succeeded(metadata.uid or "")
        done.told_at, done.status, done.version = now, status, metadata.resource_version
        about = ObjectRef(API_VERSION, SCALE_KIND, metadata.name, metadata.uid or "", self._namespace)
        for found in turned(previous, status):
            kind = EventKind.WARNING if is_trouble(found["type"], found["status"]) else EventKind.NORMAL
            self._event(about, kind, found["reason"], found["message"])


def _is_overwritten(ours: tuple[str, int, int] | None, entry: Entry[Policy], there: int | None) -> bool:
    """Whether somebody has written other replicas since the policy had ours, or was to have them."""
    if ours is None:
        return False
    uid, generation, replicas = ours
    return entry.uid == uid and entry.generation > generation and there != replicas


def _has(there: Status, ours: Status) -> bool:
    """Whether all that we wrote is there. What others have added beside it is no business of ours."""
    if any(there.get(key) != value for key, value in ours.items() if key != "conditions"):
        return False
    return all(condition in there.get("conditions", ()) for condition in ours["conditions"])


def _replicas_text(policy: str, replicas: int, there: int | None, contest: Contest[str]) -> str:
    minutes = round(contest.pause_seconds / 60)
    found = "no replicas" if there is None else f"{there}"
    return (
        f"{contest.writer} writes spec.extraCapacity.replicas of policy {policy} back each time: it has {found}, not "
        f"{replicas}, and is left alone for {minutes} min at a time"
    )


def _status_text(contest: Contest[str]) -> str:
    minutes = round(contest.pause_seconds / 60)
    return f"{contest.writer} writes the status back each time: it is left alone for {minutes} min at a time"


def _not(reason: str, message: str) -> StatusCondition:
    return StatusCondition("Ready", False, reason, message)
