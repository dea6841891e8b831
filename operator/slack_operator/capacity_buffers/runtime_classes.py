"""The overhead that RuntimeClasses add to pods: one LIST every 30 s while the template of a buffer names a class.

Owned by the thread that serves.
"""

import msgspec

from slack.capacity_buffers.api import BufferReason
from slack.capacity_buffers.plan import Unresolved
from slack.cluster.wire import Quantities
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.paging import list_all

POLL_SECONDS = 30.0
PATH = "/apis/node.k8s.io/v1/runtimeclasses"


class _Metadata(msgspec.Struct):
    name: str


class _Overhead(msgspec.Struct, rename="camel"):
    pod_fixed: Quantities | None = None


class _RuntimeClass(msgspec.Struct):
    metadata: _Metadata
    overhead: _Overhead | None = None


class RuntimeClasses:
    """See the module's docstring."""

    def __init__(self, connection: Connection) -> None:
        """Nothing is known yet.

        Args:
            connection: to the API server.
        """
        self._connection = connection
        self._known: dict[str, Quantities] | None = None
        self._may_read = True
        self._is_asked = False
        """Whether somebody has asked since the last LIST."""
        self._due = 0.0

    def overhead_of(self, name: str) -> Quantities | Unresolved | None:
        """Return what a class adds to a pod; None while that is not known. Without the right to it, it adds nothing."""
        self._is_asked = True
        if not self._may_read:
            return {}
        if self._known is None:
            return None
        found = self._known.get(name)
        if found is None:
            return Unresolved(BufferReason.RESOLUTION_FAILED, f"there is no RuntimeClass {name}, so no such pod starts")
        return found

    def refresh(self, now: float) -> float | None:
        """Read them if somebody asks for them and it is time; return the seconds until the next time, None for never.

        Args:
            now: monotonic seconds.

        Raises:
            KubeError: when the API server does not say.
        """
        if not self._is_asked:
            return None
        if now < self._due:
            return self._due - now
        self._is_asked = False
        try:
            listed = list(list_all(self._connection, PATH, _RuntimeClass))
            self._may_read = True
        except ApiError as error:
            if error.status != 403:
                raise
            listed, self._may_read = [], False
        before = self._known or {}
        found = {each.metadata.name: (each.overhead or _Overhead()).pod_fixed or {} for each in listed}
        self._known = {name: before[name] if before.get(name) == own else own for name, own in found.items()}
        self._due = now + POLL_SECONDS
        return POLL_SECONDS
