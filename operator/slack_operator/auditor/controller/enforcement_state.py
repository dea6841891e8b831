"""What the controller remembers of one policy's enforcement, and the lines that its status shows of it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from slack.audit.enforcement.decision import Action, ActionHistory
from slack.audit.enforcement.raised_limits import Key
from slack.documents.audit_status import MOST_ACTIONS, AuditAction
from slack_operator.runtime.conditions import rfc3339

OUTCOMES = ("dry_run", "sent", "done", "deferred", "infeasible", "refused", "conflict", "timeout", "reverted")


@dataclass(slots=True)
class EnforcementState:
    """Owned by the turn's thread. A restart forgets it: what stands raised is on the pods."""

    on_outcome: Callable[[str], None]
    history: ActionHistory = field(default_factory=ActionHistory)
    actions: deque[AuditAction] = field(default_factory=lambda: deque(maxlen=MOST_ACTIONS))
    lines: dict[Key, AuditAction] = field(default_factory=dict)
    """The line in `actions` that tells of what is waited for."""
    refused: str | None = None
    refused_at: float = 0.0

    def note(self, action: Action, outcome: str, message: str, now: float) -> AuditAction:
        """Add a line about an action."""
        before, after = action.texts
        line = AuditAction(
            container=action.name,
            what=str(action.kind),
            from_=before,
            to=after,
            outcome=outcome,
            message=message[:1000],
            at=rfc3339(now),
        )
        self.actions.appendleft(line)
        return line

    def sent(self, action: Action, now: float) -> None:
        """Something was really sent; what comes of it is waited for."""
        self.history.tried[action.key] = self.history.waiting[action.key] = now
        self.history.shown.pop(action.key, None)
        self.lines[action.key] = self.note(action, "sent", "", now)
        self.on_outcome("sent")

    def outcome(self, key: Key, outcome: str, message: str = "") -> None:
        """It is over."""
        self.so_far(key, outcome, message)
        self.history.waiting.pop(key, None)
        self.lines.pop(key, None)

    def so_far(self, key: Key, outcome: str, message: str) -> None:
        """It has come so far, counted once."""
        line = self.lines.get(key)
        if line is None or line.outcome != outcome:
            self.on_outcome(outcome)
        if line is not None:
            line.outcome, line.message = outcome, message[:1000]
