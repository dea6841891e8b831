"""What a policy has learnt, in memory and in its SlackHistory: read, looked at before each write, and written.

What is in memory is never given up for the object's sake, but where the object has more: while it cannot be read or
written, learning goes on in memory, a condition says so, and it is tried again. Nothing is written before what is there
has been read, so that a policy that begins anew does not write over a richer past. Only for the planning loop.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from slack.kube.apply import Json
from slack.kube.errors import KubeError
from slack.planner.objective.joining import join
from slack.planner.objective.learner import Learner
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.schema.conditions import StatusCondition
from slack_operator.learning.histories import Histories, HistoryRefused, StoredHistory
from slack_operator.runtime.conditions import rfc3339

log = logging.getLogger(__name__)

READ_AGAIN_SECONDS = 10.0
REFUSED_AGAIN_SECONDS = 60.0
TELL_SECONDS = 3600.0
"""How long the condition HistoryLost stays."""
OTHER_VERSION_HOURS = 24.0
"""What another version has kept is written over once so much has been learnt anew: whoever goes back finds it."""
HISTORY_LOST = "HistoryLost"


@dataclass(slots=True)
class PolicyMemory:
    """What is known of one policy, and what is kept of it."""

    uid: str
    owner: Json
    learner: Learner = field(default_factory=Learner)
    news: bool = False
    """Pods have come since it was written."""
    is_read: bool = False
    """What is kept was read, or nothing was: it may be written."""
    version: str | None = None
    """Of the object as it was read or written last; None: there was none."""
    is_other_version: bool = False
    ask_after: float = float("-inf")
    saved_at: float = 0.0
    trouble: str | None = None
    """Why it cannot be read or written now."""
    lost: str | None = None
    lost_at: float = 0.0


@dataclass(slots=True)
class HistoryStore:
    """Brings memory and objects together."""

    histories: Histories
    may_write: Callable[[], bool]
    clock: Callable[[], float]
    wall: Callable[[], float]
    _outages: Outages = field(default_factory=Outages)

    def read(self, name: str, memory: PolicyMemory) -> None:
        """Read what is kept of a policy, where that was not done yet and it is time to try."""
        now = self.clock()
        if memory.is_read or now < memory.ask_after:
            return
        try:
            found = self.histories.find(name, memory.uid) or StoredHistory()
        except HistoryRefused as error:
            memory.ask_after = now + REFUSED_AGAIN_SECONDS
            self._troubled(name, memory, f"{error}; until it is, nothing is written over it")
            return
        except KubeError as error:
            memory.ask_after = now + READ_AGAIN_SECONDS
            if self._outages.is_new(f"read {name}"):
                log.warning("what was learnt is not read yet: %s", error, extra=fields(policy=name))
            return
        memory.is_read, memory.trouble, memory.saved_at = True, None, now
        if found.learner is not None and memory.learner.tally.hours > 0:
            join(memory.learner, found.learner)
            memory.version, memory.news = found.version, True
            log.info("what was learnt before is read, and joined with what is in memory", extra=fields(policy=name))
            return
        self._take(name, memory, found)

    def save(self, name: str, memory: PolicyMemory, after: float, quiet_after: float) -> None:
        """Write it, where it is due: so many seconds after pods have come, or when none came."""
        now = self.clock()
        age = now - memory.saved_at
        if not memory.is_read or age < (after if memory.news else quiet_after) or not self.may_write():
            return
        memory.saved_at = now  # whatever comes of it: the next is soon enough
        try:
            found = self.histories.find(name, memory.uid, beside=memory.version)
            if found is not None and self._take(name, memory, found):
                return
            if memory.is_other_version and memory.learner.tally.hours < OTHER_VERSION_HOURS:
                return
            memory.version = self.histories.save(name, memory.owner, memory.learner, rfc3339(self.wall()))
        except HistoryRefused as error:
            self._troubled(name, memory, str(error))
            return
        except KubeError as error:
            if self._outages.is_new(f"save {name}"):
                log.warning("what was learnt is not kept: %s", error, extra=fields(policy=name))
            return
        if memory.trouble is not None:
            log.info("what is learnt is kept again", extra=fields(policy=name))
        memory.trouble, memory.news, memory.is_other_version = None, False, False

    def condition(self, memory: PolicyMemory) -> StatusCondition | None:
        """Give the condition HistoryLost; None while nothing is lost."""
        if memory.trouble is not None:
            text = f"{memory.trouble}; what is learnt is in memory only, and this is tried again"
            return StatusCondition(HISTORY_LOST, True, "HistoryNotKept", text)
        if memory.lost is None or self.clock() - memory.lost_at > TELL_SECONDS:
            return None
        return StatusCondition(HISTORY_LOST, True, "HistoryUnusable", memory.lost)

    def _take(self, name: str, memory: PolicyMemory, found: StoredHistory) -> bool:
        """Take what was found where it is more than what is in memory, or was deleted; return whether it was."""
        gone = found.version is None and memory.version is not None
        memory.version, memory.is_other_version = found.version, found.is_other_version
        if gone:
            log.info("the SlackHistory was deleted, what was learnt is begun anew", extra=fields(policy=name))
            memory.learner, memory.news = Learner(), False
            return True
        if found.learner is not None and found.learner.tally.hours > memory.learner.tally.hours:
            tally = found.learner.tally
            said = fields(policy=name, hours=round(tally.hours), started=round(tally.started))
            log.info("what was learnt is read", extra=said)
            memory.learner, memory.news = found.learner, False
            return True
        if found.problem is not None:
            hours = memory.learner.tally.hours
            goes_on = f"what is in memory, of {hours:.0f} hours, is used" if hours >= 1 else "it is begun anew"
            memory.lost, memory.lost_at = f"{found.problem}; {goes_on}", self.clock()
        return False

    def _troubled(self, name: str, memory: PolicyMemory, text: str) -> None:
        memory.trouble = text
        if self._outages.is_new(f"refused {name}"):
            log.warning("what is learnt is in memory only: %s", text, extra=fields(policy=name))
