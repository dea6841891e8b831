"""Deployments that a `load` has left behind: each is deleted after its deadline, where the operator has the right to.

A load renews its deadline every minute. It is left if its deadline has passed and is the same at two looks in a row, so
that a wrong clock ends no load that runs. The chart grants the operator no right to delete Deployments. Without the
right a log line names the load, the missing right and the command that removes the load.
"""

import logging
from collections.abc import Callable

import msgspec

from slack.cluster.labels import LABEL_MANAGED_BY
from slack.cluster.wire import Metadata
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import WRITE_FAILURES, ApiError, is_another_object
from slack.kube.paging import list_all
from slack.kube.paths import resource_path
from slack.loadtest.manifest import ANNOTATION_UNTIL, MAKER, is_over
from slack.process.logs import fields
from slack.process.outages import Outages

log = logging.getLogger(__name__)

LOOK_SECONDS = 300.0
"""Between two looks: several renewals of a load that runs."""
MOST_AT_ONCE = 20
"""Deletions after one look; the rest waits for the next."""


class _Load(msgspec.Struct):
    metadata: Metadata


class LeftLoads:
    """Owned by the loop's thread."""

    def __init__(
        self,
        connection: Connection,
        writer: Writer,
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Nothing was seen yet.

        Args:
            connection: to the API server; lists Deployments.
            writer: should not try again for long by itself: the loop waits meanwhile.
            may_write: whether this process leads.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self._connection = connection
        self._writer = writer
        self._may_write = may_write
        self._clock = clock
        self._wall = wall
        self._look_at = float("-inf")
        self._until: dict[str, str] = {}
        """By uid: the deadlines that had passed at the last look."""
        self._outages = Outages(clock)

    def look_for_loads(self) -> None:
        """Look for them, if it is time to."""
        now = self._clock()
        if now < self._look_at or not self._may_write():
            return
        self._look_at = now + LOOK_SECONDS
        try:
            over = self._over()
        except (*WRITE_FAILURES, msgspec.DecodeError) as error:
            if self._outages.is_new("list"):
                log.warning("what loads have left is not seen: %s", error)
            return
        before, self._until = self._until, {load.uid or "": load.annotation(ANNOTATION_UNTIL) for load in over}
        left = [load for load in over if before.get(load.uid or "") == load.annotation(ANNOTATION_UNTIL)]
        for load in left[:MOST_AT_ONCE]:
            if not self._may_write():
                return
            self._delete(load)

    def _over(self) -> list[Metadata]:
        path, now = resource_path("apps/v1", "deployments"), self._wall()
        found = list_all(
            self._connection,
            path,
            _Load,
            label_selector=f"{LABEL_MANAGED_BY}={MAKER}",
            leave_out=lambda bad: log.debug("a Deployment of a load cannot be read: %s", bad),
        )
        return [
            load.metadata
            for load in found
            if load.metadata.label(LABEL_MANAGED_BY) == MAKER
            and load.metadata.deletion_timestamp is None
            and is_over(load.metadata.annotation(ANNOTATION_UNTIL), now)
        ]

    def _delete(self, load: Metadata) -> None:
        namespace, name, until = load.namespace or "", load.name, load.annotation(ANNOTATION_UNTIL)
        said = fields(namespace=namespace, name=name, until=until)
        try:
            self._writer.delete(resource_path("apps/v1", "deployments", namespace=namespace, name=name), uid=load.uid)
        except WRITE_FAILURES as error:
            if is_another_object(error) or not self._outages.is_new(f"{namespace}/{name}"):
                return
            if isinstance(error, ApiError) and error.status == 403:
                log.warning(
                    "a load has left its Deployment, and the operator may not delete deployments.apps in namespace %s: "
                    "kubectl delete deployment -n %s %s",
                    namespace,
                    namespace,
                    name,
                    extra=said,
                )
            else:
                log.warning("a load has left its Deployment, which is not deleted yet: %s", error, extra=said)
        else:
            log.info("Deployment deleted that a load had left", extra=said)
