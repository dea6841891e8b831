"""Our PriorityClass: created where it is absent, and taken back where somebody has made it the default of all pods.

Its value and its preemptionPolicy can never be changed; a class of our name that is not ours, or has others, is judged
by the planner and left alone. Owned by the planning loop.
"""

import logging
from collections.abc import Callable, Mapping

from slack.cluster.labels import FIELD_MANAGER, LABEL_MANAGED_BY, PRIORITY_CLASS
from slack.cluster.wire import PriorityClass
from slack.kube.apply import Writer
from slack.kube.errors import WRITE_FAILURES, ApiError
from slack.kube.paths import resource_path
from slack.planner.objects.drift import OwnedField
from slack.planner.objects.manifests import PRIORITY, priority_class
from slack.process.contests import Contests, Verdict
from slack.process.logs import fields
from slack_operator.placeholders.act.actuator import TakenBack
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

SHOW_SECONDS = 5.0
"""How long the watch may take to show a write of ours."""
REFUSED_SECONDS = 60.0


class OwnPriorityClass:
    """Keeps it; `ensure` is one turn."""

    def __init__(
        self,
        writer: Writer,
        contests: Contests[OwnedField],
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._contests = contests
        self._may_write = may_write
        self._clock = clock
        self._seen = False
        self._not_before = float("-inf")
        self._taken_back: list[TakenBack] = []

    def taken_back(self) -> tuple[TakenBack, ...]:
        """Return what was taken back since the last call."""
        taken, self._taken_back = tuple(self._taken_back), []
        return taken

    def ensure(self, classes: Mapping[str, PriorityClass], *, create: bool) -> None:
        """Create or mend it; the watch that shows it wakes the loop.

        Args:
            classes: those that are there.
            create: whether a policy that may act needs it.

        Raises:
            NotLeading: the gate is closed.
        """
        found, now = classes.get(PRIORITY_CLASS), self._clock()
        part = OwnedField.OBJECT if found is None else OwnedField.GLOBAL_DEFAULT
        self._seen |= found is not None
        wrong = create if found is None else _made_default(found)
        if not wrong or now < self._not_before:
            return
        if not self._may_write():
            raise NotLeading
        writer = "somebody who deletes it" if found is None else "somebody who makes it the default"
        if found is not None or self._seen:
            verdict = self._contests.written(PRIORITY_CLASS, part, writer, now)
            if verdict is Verdict.LEAVE:
                return
            self._taken_back.append(
                TakenBack("", PRIORITY_CLASS, part, writer, verdict is Verdict.TAKE, "PriorityClass")
            )
        self._not_before = now + SHOW_SECONDS
        try:
            self._write(found)
        except WRITE_FAILURES as error:
            if not (isinstance(error, ApiError) and error.conflict):
                self._not_before = now + REFUSED_SECONDS
                what = "is absent and cannot be created" if found is None else "is the global default, and stays so"
                log.error("PriorityClass %s %s: %s", PRIORITY_CLASS, what, error)

    def _write(self, found: PriorityClass | None) -> None:
        if found is None:
            self._writer.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), priority_class())
            log.info("created PriorityClass", extra=fields(name=PRIORITY_CLASS))
            return
        path = resource_path("scheduling.k8s.io/v1", "priorityclasses", name=PRIORITY_CLASS)
        uid = found.metadata.uid
        self._writer.merge_patch(path, {"metadata": {"uid": uid}, "globalDefault": False})
        log.warning(
            "PriorityClass is no longer the global default", extra=fields(name=PRIORITY_CLASS, by=FIELD_MANAGER)
        )


def _made_default(found: PriorityClass) -> bool:
    """Whether it is ours, with our value, but for being the default of pods that name no class."""
    return bool(found.global_default) and found.value == PRIORITY and bool(found.metadata.label(LABEL_MANAGED_BY))
