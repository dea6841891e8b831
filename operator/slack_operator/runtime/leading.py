"""Leadership: the lease, and the gate that every write passes and that closes for good when the lease is lost.

A lost lease ends the process with exit code 1: starting anew is simpler to trust than leading again.
"""

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping

from slack.kube.connection import Connection
from slack.kube.lease import Elector, Listeners, deployment_of
from slack.process.logs import fields
from slack.process.stopping import Stopping

log = logging.getLogger(__name__)


class NotLeading(Exception):
    """A write was about to be made by a process that may not write (any more)."""


class Leadership:
    """Whether this process may write. `start` and `close` belong to the main thread, the rest to any."""

    def __init__(
        self,
        connection: Connection,
        stopping: Stopping,
        *,
        namespace: str,
        lease_name: str,
        elect: bool,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Nobody leads yet.

        Args:
            connection: to the API server.
            stopping: is asked for the end when the lease is lost.
            namespace: of the lease.
            lease_name: its name.
            elect: False for a process that is alone, and leads from the start.
            annotations: what the leader says of itself on the lease.
        """
        pod = os.environ.get("POD_NAME") or ""
        self.identity = f"{pod or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._deployment = deployment_of(pod)
        self.gate = threading.Event()
        """Set: nothing may be written any more, and nothing is tried again."""
        self._stopping = stopping
        self._on_leading: Callable[[], None] = lambda: None
        self._elector = (
            Elector(
                connection,
                namespace=namespace,
                name=lease_name,
                identity=self.identity,
                annotations=annotations,
                listeners=Listeners(self._lead, self._lose, self._tell_other),
                # an earlier version led by a lease of its Deployment's name
                settles=bool(pod) and self._deployment != lease_name,
            )
            if elect
            else None
        )

    def may_write(self) -> bool:
        """Whether this process may write now; asked before every single write."""
        return not self.gate.is_set() and (self._elector is None or self._elector.is_leader)

    @property
    def leader(self) -> str | None:
        """Who leads, as the lease has it; None for nobody, also where its holder renews it no more."""
        if self._elector is None:
            return self.identity
        return None if self._elector.vacant_seconds is not None else self._elector.holder or None

    @property
    def installation(self) -> str | None:
        """The Lease's uid, which no other installation has, in any cluster; None where it is not known."""
        return None if self._elector is None else self._elector.uid

    @property
    def vacant_seconds(self) -> float | None:
        """For how long nobody has been seen to lead; None while somebody does."""
        return None if self._elector is None else self._elector.vacant_seconds

    def unhealthy(self) -> str | None:
        """Return why the lease is no longer seen to; None if it is, or if there is none."""
        return None if self._elector is None else self._elector.unhealthy()

    def standby(self) -> str | None:
        """Say that another leads; None when this process does."""
        return None if self.may_write() else f"this replica does not lead; {self.leader or 'nobody'} does"

    def start(self, on_leading: Callable[[], None]) -> None:
        """Stand for election; `on_leading` is called, in another thread, when it is won."""
        self._on_leading = on_leading
        if self._elector is None:
            self._lead()
        else:
            self._elector.start()

    def close(self) -> None:
        """Close the gate and give the lease away."""
        self.gate.set()
        if self._elector is not None:
            self._elector.stop()

    def _lead(self) -> None:
        log.info("leading", extra=fields(identity=self.identity))
        self._on_leading()

    def _tell_other(self, holder: str) -> None:
        other = deployment_of(holder)
        if self._deployment and other != self._deployment:
            log.warning(
                "another installation leads in this namespace; this one waits, and acts when that one has ended",
                extra=fields(leader=holder, identity=self.identity),
            )

    def _lose(self) -> None:
        self.gate.set()
        self._stopping.request("the lease is lost", exit_code=1)
