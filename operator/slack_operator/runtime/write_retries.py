"""When a status whose write was refused is tried again: after a pause, longer each time, until one is taken.

An admission webhook, or the CRD of another version, may refuse every write of one object for weeks. Failures that are
transient are not counted here: the writer pauses those of a whole kind (`slack.kube.breaker`).
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from slack.kube.errors import KubeError
from slack.kube.retry import RetryBackoff, is_transient

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 300.0


@dataclass(slots=True)
class _Refused:
    not_before: float = 0.0
    backoff: RetryBackoff = field(default_factory=lambda: RetryBackoff(FIRST_SECONDS, LONGEST_SECONDS))


class WriteRetries:
    """By uid of the object. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[str, _Refused] = {}

    def wait_seconds(self, uid: str) -> float:
        """Return the seconds until the object may be written; 0 if it may be written now."""
        refused = self._refused.get(uid)
        return 0.0 if refused is None else max(0.0, refused.not_before - self._clock())

    def failed(self, uid: str, error: KubeError) -> None:
        """A write was refused."""
        if not is_transient(error):
            refused = self._refused.setdefault(uid, _Refused())
            refused.not_before = self._clock() + refused.backoff.next_seconds()

    def succeeded(self, uid: str) -> None:
        """A write was taken."""
        self._refused.pop(uid, None)

    def keep_only(self, uids: Container[str]) -> None:
        """Forget objects that are no more."""
        self._refused = {uid: refused for uid, refused in self._refused.items() if uid in uids}
