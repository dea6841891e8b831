"""The thread that reconciles: when the debouncer says so, level-triggered, and an error costs its turn only."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from slack.kube.errors import KubeError
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.debounce import Debouncer
from slack_operator.runtime.leading import NotLeading

log = logging.getLogger(__name__)

HEALTHY_SECONDS = 120.0
"""Beyond an interval, without a turn that ended as it should."""
BETWEEN_SECONDS = 1.0


class ReconcileLoop:
    """Calls `reconcile` until `stop`. `run` is the thread; `start` and `stop` belong to the main one."""

    def __init__(
        self,
        reconcile: Callable[[], None],
        wake: Debouncer,
        *,
        between: Sequence[Callable[[], None]] = (),
        due_in: Callable[[], float] = lambda: float("inf"),
        at_end: Callable[[], None] | None = None,
        heart: Heartbeat | None = None,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        """A loop that is not started yet.

        Args:
            reconcile: one turn, from what is known now.
            wake: says when the next turn is due.
            between: called every second beside that, each whatever became of the others.
            due_in: seconds until one of these is due sooner than that.
            at_end: called after the last turn.
            heart: the loop's stamp, if the steps of a turn write it too; else only turns that end as they should do.
            clock: monotonic seconds.
            busy: seconds that the calling thread has had of a core.
        """
        self._reconcile = reconcile
        self._between = between
        self._due_in = due_in
        self._at_end = at_end
        self._wake = wake
        self._clock = clock
        self._busy = busy
        self._stop = threading.Event()
        self.heart = heart or Heartbeat("the loop", HEALTHY_SECONDS + wake.interval_seconds, clock=clock)
        """A turn that ends as it should writes it; while turns fail, nothing done between them makes up for it."""
        self._thread = SupervisedThread(self.run, name="loop", heart=self.heart)

    def start(self) -> None:
        """Begin; the first turn is due at once."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the turn that is under way be the last; waits for nothing."""
        self._thread.dismiss()
        self._stop.set()
        self._wake.touch()

    def join(self, timeout: float = 10.0) -> None:
        """Wait for the last turn's end."""
        self._thread.join(timeout)

    def unhealthy(self) -> str | None:
        """Return why nothing is reconciled any more; None if the loop works, or was never started."""
        return self._thread.unhealthy()

    def run(self) -> None:
        """Reconcile until the end is asked for."""
        while not self._stop.is_set():
            wait = self._wake.due_in()
            if wait <= 0:
                self._wake.plan_started()
                began, busy = self._clock(), self._busy()
                self._guarded(self._reconcile)
                self._wake.ended(self._busy() - busy, self._clock() - began)
            else:
                self._wake.wait(min(wait, BETWEEN_SECONDS, self._due_in()) if self._between else wait)
            for step in self._between:
                if not self._stop.is_set():
                    self._guarded(step)
        if self._at_end is not None:
            self._guarded(self._at_end)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except NotLeading:
            log.info("not leading (any more): nothing is written")
        except KubeError as error:
            log.warning("the API server did not answer, the turn is given up: %s", error)
        except Exception as error:
            # a bug in one turn must not end the process; liveness does if it stays
            log.exception("the turn failed")
            if step == self._reconcile:
                self.heart.failed(error)
            return
        if step == self._reconcile:
            self.heart.worked()
        else:
            self.heart.beat()
