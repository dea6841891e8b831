"""What is tried again, when, and for how long. One policy for all writes and single reads.

Tried again: no answer, 429, 500, 502, 503, 504. Never 403, 404, 409, 410, 422: the same question would get the same
answer, and the caller knows better what to do. A Retry-After is a lower bound, never shortened.
`retrying` objects may be shared by threads (tenacity keeps each call's state apart).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import tenacity

from slack.kube.errors import ApiError, Stopped, Unreachable

TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later without anybody changing anything."""
    if isinstance(error, ApiError):
        return error.status in TRANSIENT_STATUSES and not error.wrong_schema
    return isinstance(error, Unreachable)


@dataclass
class RetryBackoff:
    """Delays for a loop that never gives up: jittered, doubling, reset by progress. Owned by one thread.

    The first delay is drawn from (first/2, first], so that many clients of a restarted server spread out.
    """

    first_seconds: float = 0.5
    max_seconds: float = 30.0
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next_seconds(self, at_least: float | None = None) -> float:
        """How long to wait after one more failure; `at_least` is the server's Retry-After."""
        ceiling = min(self.max_seconds, self.first_seconds * 2.0 ** min(self.failures, 16))
        self.failures += 1
        jittered = ceiling * self.rng.uniform(0.5, 1.0)
        # above the server's bound, never below it, and not all clients in the same instant
        return jittered if at_least is None else max(jittered, at_least * self.rng.uniform(1.0, 1.1))

    def reset(self) -> None:
        """Something worked."""
        self.failures = 0


def retrying(
    stopping: threading.Event,
    *,
    on_retry: Callable[[BaseException], None] | None = None,
    first_seconds: float = 0.2,
    max_seconds: float = 20.0,
    deadline_seconds: float = 60.0,
) -> tenacity.Retrying:
    """A tenacity policy: `retrying(stopping)(function, *args)` calls until it works or is not worth another try.

    Args:
        stopping: When set, no further try starts, and a wait ends at once with `Stopped`.
        on_retry: Called before each wait with the error, to count it.
        first_seconds: Upper bound of the first jittered wait; doubles.
        max_seconds: Upper bound of any wait that the server did not ask for.
        deadline_seconds: No wait that would end after this many seconds is started; the last error is raised.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = _error(state)
        backoff = RetryBackoff(first_seconds, max_seconds, failures=state.attempt_number - 1)
        return backoff.next_seconds(error.retry_after_seconds if isinstance(error, ApiError) else None)

    def before_sleep(state: tenacity.RetryCallState) -> None:
        error = _error(state)
        if on_retry is not None and error is not None:
            on_retry(error)

    def sleep(seconds: float) -> None:
        if stopping.wait(seconds):
            raise Stopped("stopping: not tried again")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        wait=wait,
        stop=tenacity.stop_any(tenacity.stop_before_delay(deadline_seconds), tenacity.stop_when_event_set(stopping)),
        sleep=sleep,
        before_sleep=before_sleep,
        reraise=True,
    )


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
