"""A circuit breaker for writes: after a few transient failures, writes of the same kind are not sent for a while.

An admission webhook that is down fails each write that it should see, for hours. Without a breaker every write of a
turn is retried for its whole deadline, one after the other, and the turn takes minutes.
A circuit is one verb on one collection, so that a webhook for one resource stops no write of another. An answer 429 is
the server's own limit and pauses every write. Any thread may call.
"""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from slack.kube.errors import ApiError, KubeError
from slack.kube.retry import RetryBackoff, is_transient

FAILURES = 3
"""Failed writes in a row that open a circuit."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
"""A webhook that is back is noticed within this time."""
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A proxy that asks for a longer pause is not believed."""
MOST_CIRCUITS = 1024
"""In memory; those that failed longest ago are forgotten first."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """One kind of write: a verb on a collection or on a subresource of its objects."""

    verb: str
    collection: str
    subresource: str = ""

    @property
    def text(self) -> str:
        """The circuit as people read it, for instance `patch of pods/status`."""
        plural = self.collection.rpartition("/")[2]
        return f"{self.verb} of {plural}{'/' + self.subresource if self.subresource else ''}"


class WritesPaused(ApiError):
    """The write was not sent, because writes of its kind have failed and their pause is not over."""

    def __init__(self, circuit: Circuit, why: BaseException) -> None:
        """Describe the pause by its cause; the text holds no time that changes, so that a status does not either."""
        self.cause_text = why.message if isinstance(why, ApiError) else str(why)
        text = f"{circuit.text} fails and is retried with growing pauses: {self.cause_text}"
        super().__init__(503, "WritesPaused", text)


@dataclass(slots=True)
class _Failing:
    why: BaseException
    failures: int = 0
    not_before: float = float("-inf")
    backoff: RetryBackoff = field(default_factory=RetryBackoff)


class CircuitBreaker:
    """Counts failures by circuit; `check` before a write, `succeeded` or `failed` after it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._failing: OrderedDict[Circuit, _Failing] = OrderedDict()
        self._throttled: _Failing | None = None
        """The server's own limit, which is on all circuits."""

    def check(self, circuit: Circuit) -> bool:
        """Return whether the write may be retried; after a failure of its circuit a single try is enough.

        Raises:
            WritesPaused: the circuit is open, or the server asked for a pause.
        """
        with self._lock:
            now = self._clock()
            for failing in (self._throttled, self._failing.get(circuit)):
                if failing is not None and now < failing.not_before:
                    raise WritesPaused(circuit, failing.why)
            return circuit not in self._failing and self._throttled is None

    def succeeded(self, circuit: Circuit) -> None:
        """Close the circuit: the server has answered, be it with a refusal that a retry would not change."""
        with self._lock:
            self._failing.pop(circuit, None)
            self._throttled = None

    def failed(self, circuit: Circuit, error: KubeError) -> None:
        """Count a write whose last try failed; an error that is not transient is an answer, and closes the circuit."""
        if not is_transient(error):
            self.succeeded(circuit)
            return
        with self._lock:
            if isinstance(error, ApiError) and error.status == 429 and circuit.subresource != "eviction":
                self._throttled = self._throttled or self._new(error)
                self._pause(self._throttled, error)
                return
            failing = self._failing.setdefault(circuit, self._new(error))
            self._failing.move_to_end(circuit)
            if len(self._failing) > MOST_CIRCUITS:
                self._failing.popitem(last=False)
            failing.failures += 1
            if failing.failures >= FAILURES or _retry_after(error) is not None:
                self._pause(failing, error)

    def _new(self, error: KubeError) -> _Failing:
        return _Failing(error, backoff=RetryBackoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, self._rng))

    def _pause(self, failing: _Failing, error: KubeError) -> None:
        failing.why = error
        failing.not_before = self._clock() + failing.backoff.next_seconds(_retry_after(error))


def circuit_of(verb: str, path: str) -> Circuit:
    """Return the circuit of a write by its verb and path; a path of an object names its collection.

    >>> circuit_of("patch", "/api/v1/namespaces/a/pods/b/status").text
    'patch of pods/status'
    >>> circuit_of("create", "/apis/apps/v1/namespaces/a/replicasets")
    Circuit(verb='create', collection='/apis/apps/v1/namespaces/a/replicasets', subresource='')
    """
    parts = path.strip("/").split("/")
    prefix = 2 if parts[0] == "api" else 3
    if parts[prefix : prefix + 1] == ["namespaces"] and len(parts) > prefix + 2:
        prefix += 2
    return Circuit(verb, "/" + "/".join(parts[: prefix + 1]), "/".join(parts[prefix + 2 :]))


def _retry_after(error: BaseException) -> float | None:
    seconds = error.retry_after_seconds if isinstance(error, ApiError) else None
    return None if seconds is None else min(seconds, LONGEST_RETRY_AFTER_SECONDS)
