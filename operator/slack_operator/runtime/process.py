"""A process that watches a cluster and writes while it leads: its context, its components, and their order.

Start: servers, watches, everything seen whole, Events, lease, loop; policies (kopf) once the lease is won, or before
where a standby follows them too. Stop: servers but health, loop, policies, Events, the gate with the lease, watches,
health. A process of ours is its settings, its components, and a call of `run`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry

from slack.cluster.labels import FIELD_MANAGER
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.events import EventRecorder
from slack.kube.retry import retrying
from slack.process.health import HealthServer
from slack.process.logs import fields
from slack.process.running import Component, listen
from slack.process.shared_settings import LeadingSettings
from slack.process.stopping import Stopping
from slack.process.values import host_port
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import Supervisor
from slack_operator.runtime.connecting import answers
from slack_operator.runtime.debounce import Debouncer
from slack_operator.runtime.leading import Leadership
from slack_operator.runtime.policy_source import PolicySource, PolicySources
from slack_operator.runtime.reconcile_loop import HEALTHY_SECONDS, ReconcileLoop
from slack_operator.runtime.unreadable_metric import UnreadableMetric

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.02
"""Between two looks whether everything is seen: what begins after that, and every user of it, waits for them."""
WRITE_DEADLINE_SECONDS = 15.0
"""A write that fails for longer is given up: the next turn decides anew, from what is then so."""
ANSWER_SECONDS = 0.5
"""An API server that answers nothing for so long at the end of the process is not waited for."""
HUNG_SECONDS = 0.3
"""So long the components may then take to end."""


class ProcessContext:
    """What components are built on: the connection, who may write, Events, and what wakes the loop."""

    def __init__(
        self,
        settings: LeadingSettings,
        connection: Connection,
        stopping: Stopping,
        *,
        component: str,
        field_manager: str = FIELD_MANAGER,
        events_queue: int = 256,
        lease_annotations: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.stopping = stopping
        self.leadership = Leadership(
            connection,
            stopping,
            namespace=settings.namespace,
            lease_name=settings.lease_name,
            elect=settings.leader_elect,
            annotations=lease_annotations,
        )
        gate = self.leadership.gate
        retry = retrying(gate, deadline_seconds=WRITE_DEADLINE_SECONDS)
        self.writer = Writer(connection, gate, field_manager=field_manager, retry=retry)
        self.recorder = EventRecorder(
            self.writer, component=component, instance=self.leadership.identity, queue_size=events_queue
        )
        self.wake = Debouncer(settings.interval, time.monotonic)
        self.heart = Heartbeat("the loop", HEALTHY_SECONDS + settings.interval)
        """The loop's stamp. A turn that ends as it should writes it; so may any step of a turn that makes progress."""


class Watched(Component, Protocol):
    """The reflectors of one process."""

    def stale(self) -> str | None:
        """Say what is not whole or not fresh; nothing when all is."""

    def unreadable(self) -> Mapping[str, Iterable[str]]:
        """Return the names of objects that are there and cannot be read, by path."""


class Server(NamedTuple):
    """Something that listens beside health."""

    component: Component
    flag: str
    address: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Components:
    """What one process is made of beside its context."""

    watches: Watched
    policies: PolicySource | PolicySources
    loop: ReconcileLoop
    registry: CollectorRegistry
    unreadable: UnreadableMetric | None = None
    """Where objects that cannot be read are named."""
    unready: Callable[[], str | None]
    whole: Callable[[], Mapping[str, object]]
    """What to say of the view when it is whole."""
    standby_follows: bool = False
    """Whether policies are followed before the lease is won, as by those who answer from their status."""
    servers: Sequence[Server] = ()
    workers: Sequence[Component] = ()
    """Threads beside the loop: they begin before it and end with it."""


class Process:
    """All components of one process, in their order. Owned by the main thread."""

    def __init__(self, context: ProcessContext, components: Components) -> None:
        self.components = components
        if components.unreadable is not None:
            components.unreadable.follow(components.watches.unreadable, components.policies.unreadable)
        self._context = context
        self._stopping = context.stopping
        self._supervisor = Supervisor()
        self.health = HealthServer(
            *host_port(context.settings.listen),
            healthy=self.unhealthy,
            ready=components.unready,
            registry=components.registry,
        )

    def unhealthy(self) -> str | None:
        """Return which component that was started is dead or stuck; None if all work."""
        return self._supervisor.unhealthy()

    def start(self) -> None:
        """Start everything, as far as the view and the lease let it; returns early when the process is to end.

        Raises:
            CannotStart: when an address cannot be bound.
        """
        listen(self.health, "--listen", self._context.settings.listen)
        self._supervisor.watch(self.health)
        for server in self.components.servers:
            listen(server.component, server.flag, server.address)
            self._supervisor.watch(server.component)
            log.info("serving %s", server.what)
        self._supervisor.start(self.components.watches)
        log.info("serving /healthz, /readyz and /metrics", extra=fields(port=self.health.port))
        if not self._wait_until_whole():
            return
        log.info("the view of the cluster is whole", extra=fields(**self.components.whole()))
        self._supervisor.start(self._context.recorder)
        self._supervisor.watch(self.components.policies)
        if self.components.standby_follows:
            self.components.policies.start()
        self._context.leadership.start(self._lead)
        self._supervisor.watch(self._context.leadership)
        for worker in self.components.workers:
            self._supervisor.start(worker)
        self._supervisor.start(self.components.loop)

    def run(self) -> None:
        """Wait for the end."""
        self._stopping.wait()

    def stop(self) -> None:
        """End everything in order; what is being written is brought to its end, for as long as there are answers."""
        self.components.loop.ask_to_stop()
        if answers(self._context.connection, ANSWER_SECONDS):
            self._end()
            return
        log.warning("the API server does not answer: no write is waited for, and the lease runs out by itself")
        self._context.leadership.gate.set()
        ending = threading.Thread(target=self._end, name="end", daemon=True)
        ending.start()
        ending.join(HUNG_SECONDS)

    def _end(self) -> None:
        lost = self._context.leadership.gate.is_set()
        for worker in self.components.workers:
            worker.stop()
        for server in self.components.servers:
            server.component.stop()
        if not lost:
            self.components.loop.join()
        self.components.policies.stop()
        if not lost:
            self._context.recorder.stop()
        self._context.leadership.close()
        self.components.watches.stop()
        self.health.stop()
        self._context.connection.close()

    def _wait_until_whole(self) -> bool:
        """Whether it came to that before the end was asked for."""
        told = None
        while stale := self.components.watches.stale():
            if self._stopping.wait(LOOK_SECONDS):
                return False
            if stale != told and ": " in stale:
                log.warning("waiting: %s", stale)
                told = stale
        return True

    def _lead(self) -> None:
        if not self.components.standby_follows:
            self.components.policies.start()
        self._context.wake.touch()
