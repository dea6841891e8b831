"""The last reconciliation, between two threads: the planning loop hands it over, the server looks at it.

`show` costs the loop a few references and one sample of the history; the server makes documents when somebody looks, at
most once a second.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from slack.cluster.snapshot import CPU, MEMORY
from slack.planner.model.result import PolicyPlan
from slack_operator.placeholders.reconciliation import Reconciliation
from slack_operator.web.history import DAY_STEP_SECONDS, Figures, StepHistory, Timeline


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while the process runs, and who leads, which is asked for."""

    identity: str
    namespace: str
    operator_version: str
    interval_seconds: float
    leader: Callable[[], str] = field(default=lambda: "")
    vacant_seconds: Callable[[], float | None] = field(default=lambda: None)
    """For how long nobody has been seen to lead; None while somebody does."""


class PageState:
    """The last reconciliation, and the last one with figures. `show` is the planning loop's; all else is anybody's."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.history = StepHistory()
        self.day = StepHistory(DAY_STEP_SECONDS)
        self._lock = threading.Lock()
        self._version = 0
        self._last: Reconciliation | None = None
        self._figures: Reconciliation | None = None
        self._listeners: list[Callable[[], None]] = []

    def listen(self, on_reconciled: Callable[[], None]) -> None:
        """Be told of every reconciliation, on the planning loop's thread: return at once."""
        self._listeners.append(on_reconciled)

    def show(self, reconciliation: Reconciliation) -> None:
        """Take a reconciliation."""
        with self._lock:
            self._version += 1
            self._last = reconciliation
            if reconciliation.observation is not None:
                self._figures = reconciliation
        if reconciliation.items:
            figures = {item.policy: _figures(item) for item in reconciliation.items}
            self.history.add_sample(reconciliation.at, figures)
            self.day.add_sample(reconciliation.at, figures)
        for told in self._listeners:
            told()

    def last(self) -> tuple[int, Reconciliation | None, Reconciliation | None]:
        """Return the version, the last reconciliation and the last one with figures."""
        with self._lock:
            return self._version, self._last, self._figures

    def timeline(self) -> Timeline:
        """Return the history of an hour."""
        return self.history.timeline()


def _figures(plan: PolicyPlan) -> Figures:
    return Figures(
        int(plan.desired[CPU]),
        int(plan.reserved[CPU]),
        int(plan.desired[MEMORY]),
        int(plan.reserved[MEMORY]),
        plan.pending,
    )


def pod_of(identity: str) -> str:
    """Give the pod (or host) of a lease's holder: `<pod>_<random>`."""
    return identity.rpartition("_")[0] or identity
