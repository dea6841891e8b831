"""The agent's desk: pods and asks in, messages for gates and what to tell people out. It decides nothing itself.

Invariants: a grant stands in the journal before its message is returned; a container instance is ended once, whatever
order events come in; a gate learns of its own pod only. `now` is monotonic seconds. No thread, no socket: owned by
whoever holds the agent's lock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from slack.throttler import protocol
from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.graph import InvalidGraph
from slack.throttler.limits import UNKNOWN_USAGE, Usage
from slack.throttler.model import Grant, Late, Waiting
from slack.throttler.protocol import FromAgent
from slack.throttler.queue import Key
from slack_operator.throttler.agent.journal import Journal, JournalLine
from slack_operator.throttler.agent.node_pods import KubeletContainerStatus, NodePod, Seen, seen

GRACE_SECONDS = 5.0
"""After its start an agent grants nothing for so long: gates come back within that, and ask in their order."""


@dataclass(slots=True)
class _Instance:
    """What is known of one container beside its state."""

    now: str = ""
    """Id of the instance that ran last; empty: none did."""
    ended: str = ""
    """Id of the last that was seen to have ended."""
    runs: bool = False
    held: bool = False
    """The kubelet waits for its permit."""
    asked: bool = False
    """There is somebody who would let it start."""
    granted: Grant | None = None
    """Not used yet."""
    forced: bool = False
    """Its last grant was."""
    offered_at: float | None = None
    """Since when it waits."""
    granted_at: float | None = None
    """When this agent or the one before let it in, until it is ready; None: no agent knows when it began."""
    found_running: bool = False
    """The instance ran when the agent first saw it: it may have been ready long ago."""
    ungranted: str | None = None
    """Id of the instance that began without a grant, once people are told of it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a gate says of a permit that it has given without an agent."""

    instance: str
    """Id of the instance that ran when an agent was last heard; empty: none did."""


@dataclass(slots=True)
class TickOutcome:
    """What came of a turn."""

    messages: list[tuple[str, FromAgent]] = field(default_factory=list)
    """To the gate of the pod with this uid."""
    late: list[Late] = field(default_factory=list)
    grants: tuple[Grant, ...] = ()
    permits: bool = False
    """The controller has some to write."""
    unwritten: str | None = None
    """Why the journal could not be written."""


class GrantCoordinator:
    """One node's gated containers."""

    def __init__(self, throttle: NodeThrottle, journal: Journal, now: float) -> None:
        self.throttle = throttle
        self.bad: dict[str, str] = {}
        """By uid of a pod: why its dependencies cannot be kept; its containers are held."""
        self.opened: list[Key] = []
        """Containers that began without a grant, as gates do that hear of no agent; taken by whoever tells people."""
        self.refused: list[tuple[NodePod, str]] = []
        """Pods whose dependencies cannot be kept, with why; taken as those before."""
        self.waited: list[float] = []
        """How long those that were granted had waited; taken as those before."""
        self.started: list[float] = []
        """How long those that became ready took from their grants; taken as those before."""
        self._journal = journal
        self._kept: dict[tuple[str, str], JournalLine] = journal.read()
        self._grants_from = now + GRACE_SECONDS
        self._began = now
        self._instances: dict[Key, _Instance] = {}
        self._pods: dict[str, NodePod] = {}
        self._bad_pods: dict[str, NodePod] = {}
        self._late: dict[Key, None] = {}

    @property
    def uids(self) -> frozenset[str]:
        """The pods that are known."""
        return frozenset(self._pods) | frozenset(self.bad)

    def pod(self, uid: str) -> NodePod | None:
        """Return a pod that is known."""
        return self._pods.get(uid) or self._bad_pods.get(uid)

    def mirror(self, namespace: str, name: str) -> str | None:
        """Return the uid of a static pod's image at the API server; of any thread."""
        for pod in (*self._pods.values(), *self._bad_pods.values()):
            if pod.is_mirror and (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
                return pod.metadata.uid
        return None

    def grant_from(self, at: float) -> None:
        """Grant nothing before, nor before gates have had the time to come."""
        self._grants_from = max(at, self._began + GRACE_SECONDS)

    def next_look(self, now: float, usage: Usage = UNKNOWN_USAGE) -> float | None:
        """Return when a turn may bring something, should nothing come in; None: not before then."""
        if now < self._grants_from:
            return self._grants_from
        return self.throttle.next_look(now, usage)

    def update(self, pod: NodePod, now: float) -> list[tuple[str, FromAgent]]:
        """Take in a pod as it is now; returns what its gate is to be told."""
        uid = pod.metadata.uid
        if not pod.gated:
            return []
        if pod.ended:
            self.forget(uid)
            return []
        if uid not in self._pods and not self._take(pod, now):
            return []
        self._pods[uid] = pod
        said: list[tuple[str, FromAgent]] = []
        for status in pod.statuses():
            key = Key(uid, status.name)
            if key in self._instances:
                said += ((uid, message) for message in self._follow(key, status, pod.spec.restart_policy, now))
        return said

    def forget(self, uid: str) -> None:
        """A pod is gone; its slots are free."""
        self.throttle.remove(uid)
        self._pods.pop(uid, None)
        self.bad.pop(uid, None)
        self._bad_pods.pop(uid, None)
        for key in [key for key in self._instances if key.pod == uid]:
            del self._instances[key]
            self._late.pop(key, None)
            self._kept.pop((uid, key.container), None)

    def standing(self, key: Key, now: float, usage: Usage) -> Waiting:
        """Say where a container stands that is known: why it waits, and until when."""
        instance, waiting = self._instances[key], self.throttle.waiting(key, now, usage)
        if waiting.state not in (StartState.BLOCKED, StartState.PENDING):
            return waiting
        reason = waiting.reason or ("the agent has just begun" if now < self._grants_from else "")
        state = waiting.state if instance.held else StartState.DOWNLOADING
        return replace(waiting, state=state, reason=reason)

    def forced(self, key: Key) -> bool:
        """Whether its last start was let in by minRate alone."""
        return self._instances[key].forced

    @property
    def permits(self) -> tuple[Key, ...]:
        """Those with a grant that they have not used yet, and whose permits the controller writes."""
        return tuple(
            key
            for key, instance in self._instances.items()
            if instance.granted is not None and self._keeps_permits(key)
        )

    @property
    def late(self) -> tuple[Key, ...]:
        """Containers that were not ready in time and are not yet, if the policy has their pods evicted."""
        if not self.throttle.limits.delete_late:
            return ()
        return tuple(key for key in self._late if not self._has_started(key))

    @property
    def pending_uids(self) -> Iterator[str]:
        """The pods for whose permits the controller looks as well: those that are Pending."""
        for uid, pod in (*self._pods.items(), *self._bad_pods.items()):
            if pod.keeps_permits and pod.pending:
                yield uid

    @property
    def keys(self) -> tuple[Key, ...]:
        """All containers that are known."""
        return tuple(self._instances)

    def ask(
        self,
        uid: str,
        container: str,
        now: float,
        usage: Usage = UNKNOWN_USAGE,
        *,
        blind: str | None = None,
        opened: Opened | None = None,
    ) -> FromAgent:
        """Answer a gate; asked twice is answered alike.

        Args:
            uid: the pod that the API server has said the gate to be of.
            container: whose start it asks for.
            now: monotonic seconds.
            usage: of the node.
            blind: why the pods that are known here may not be those of the node any more.
            opened: what the gate says that it did without an agent.
        """
        key = Key(uid, container)
        instance = self._instances.get(key)
        if blind is not None and (instance is None or instance.granted is None):
            return protocol.Blind(container=container, reason=protocol.text(blind))
        if uid in self.bad:
            return protocol.Wait(container=container, state=StartState.BLOCKED, reason=protocol.text(self.bad[uid]))
        if instance is None:
            if uid in self._pods:
                return protocol.RequestRefused(
                    container=container, reason="its pod has no such container that is gated"
                )
            # the watch is behind the kubelet, for a moment, or never brings the pod
            return protocol.Blind(container=container, reason="its pod is not known to the agent")
        if opened is not None and instance.runs and instance.now != opened.instance:
            self._skip(key, instance)
        instance.asked = True
        self._offer(key, instance, now)
        return self._answer(key, instance, now, usage)

    def grant_due(self, now: float, usage: Usage = UNKNOWN_USAGE, *, blind: bool = False) -> TickOutcome:
        """Let time pass, and grant what may start: journal first, then the messages.

        Args:
            now: monotonic seconds.
            usage: of the node.
            blind: the pods that are known here may not be those of the node any more.
        """
        turn = TickOutcome(late=self._take_late(now, blind=blind))
        if now < self._grants_from:
            return turn
        grants = self.throttle.grants(now, usage)
        if not grants:
            return turn
        try:
            self._journal.append(
                (grant.key.pod, grant.key.container, self._instances[grant.key].now, grant.at) for grant in grants
            )
        except OSError as error:
            turn.unwritten = str(error)
        turn.grants = grants
        for grant in grants:
            instance = self._instances[grant.key]
            instance.granted, instance.granted_at, instance.forced = grant, now, grant.forced
            if instance.offered_at is not None:
                self.waited.append(now - instance.offered_at)
                instance.offered_at = None
            if self._keeps_permits(grant.key):
                turn.permits = True
                continue
            turn.messages.append((grant.key.pod, _granted(grant)))
        self._journal.compact(self._pods.keys())
        return turn

    def _take_late(self, now: float, *, blind: bool) -> list[Late]:
        """Return who was not ready in time; only those are to lose their pods whose whole start was seen."""
        told: list[Late] = []
        for late in self.throttle.expire(now):
            instance = self._instances[late.key]
            if instance.found_running:
                continue
            is_sure = instance.granted_at is not None and not blind and not self._has_started(late.key)
            if is_sure:
                self._late[late.key] = None
            told.append(replace(late, delete=late.delete and is_sure))
        return told

    def _has_started(self, key: Key) -> bool:
        pod = self._pods.get(key.pod)
        return pod is not None and pod.has_started(key.container)

    def _take(self, pod: NodePod, now: float) -> bool:
        uid = pod.metadata.uid
        try:
            gated = pod.as_gated()
        except InvalidGraph as problem:
            if uid not in self.bad:
                self.refused.append((pod, str(problem)))
            self.bad[uid] = str(problem)
            self._bad_pods[uid] = pod
            return False
        self.bad.pop(uid, None)
        self._bad_pods.pop(uid, None)
        self.throttle.add_pod(gated, now)
        for container in gated.containers:
            self._instances[Key(uid, container.name)] = _Instance(asked=pod.keeps_permits)
        told = {status.name: status for status in pod.statuses()}
        for container in gated.containers:
            self._recover(Key(uid, container.name), told.get(container.name), now)
        return True

    def _recover(self, key: Key, status: KubeletContainerStatus | None, now: float) -> None:
        """Find a grant again that an agent before this one gave and that was not used yet."""
        kept = self._kept.get(key)
        last = (status.container_id if status is not None else None) or ""
        running = status is not None and status.state is not None and status.state.running is not None
        instance = self._instances[key]
        instance.now = instance.ended = "" if running else last
        instance.found_running = running
        if kept is None or kept.after != last or running:
            return
        instance.granted_at = min(kept.at, now)
        self.throttle.running(key, now, granted_at=instance.granted_at)
        instance.granted = Grant(key, 0, kept.at, None, forced=False, reason="granted before the agent began anew")

    def _follow(
        self, key: Key, status: KubeletContainerStatus, restart_policy: str | None, now: float
    ) -> Iterator[FromAgent]:
        instance = self._instances[key]
        what, container_id = seen(status, restart_policy), status.container_id or ""
        if what in (Seen.RUNNING, Seen.READY):
            if instance.runs and container_id != instance.now:
                self._end(key, instance, now)  # its end was between two events
            if not instance.runs:
                yield from self._began_to_run(key, instance, container_id, what, now)
            if what is Seen.READY:
                self._late.pop(key, None)
            if what is Seen.READY and self._probed(key):
                self.throttle.succeeded(key, now)
                if instance.granted_at is not None:
                    self.started.append(now - instance.granted_at)
                    instance.granted_at = None
            return
        if what is Seen.DONE:
            instance.runs, instance.granted = False, None
            self._late.pop(key, None)
            self.throttle.succeeded(key, now)
            return
        over = what in (Seen.ENDED, Seen.BACKING_OFF, Seen.HELD)
        if over and container_id and container_id != instance.ended:
            instance.now = container_id
            self._end(key, instance, now, backing_off=what is Seen.BACKING_OFF)
            yield self._answer(key, instance, now, UNKNOWN_USAGE)
        if what is Seen.HELD and not instance.held:
            instance.held = True
            if instance.ended and instance.granted is None and self._keeps_permits(key):
                self.throttle.ended(key, now, waits=True)  # somebody has taken its key away
            self._offer(key, instance, now)
            if instance.asked and instance.granted is None:
                yield self._answer(key, instance, now, UNKNOWN_USAGE)

    def _began_to_run(
        self, key: Key, instance: _Instance, container_id: str, what: Seen, now: float
    ) -> Iterator[FromAgent]:
        granted, restarts = instance.granted is not None, self._gates_restarts(key)
        first = not instance.ended
        instance.now, instance.runs, instance.held, instance.granted = container_id, True, False, None
        if not granted and now > self._began + GRACE_SECONDS and (restarts or first):
            self._skip(key, instance)
        if not (what is Seen.READY and not granted and self._probed(key)):
            self.throttle.running(key, now)
        if restarts:
            yield _withdraw(key, instance)

    def _skip(self, key: Key, instance: _Instance) -> None:
        """Have people told that the instance which runs began without a grant: once, whoever has noticed it."""
        if instance.ungranted != instance.now:
            instance.ungranted = instance.now
            self.opened.append(key)

    def _end(self, key: Key, instance: _Instance, now: float, *, backing_off: bool = False) -> None:
        instance.ended, instance.runs, instance.held, instance.granted = instance.now, False, False, None
        instance.granted_at, instance.found_running = None, False
        self._late.pop(key, None)
        # until the kubelet waits for its permit it could not use one
        self.throttle.ended(key, now, backing_off=backing_off or self._gates_restarts(key))

    def _offer(self, key: Key, instance: _Instance, now: float) -> None:
        """Both must be so: the kubelet would make the container, and there is a gate that would let it."""
        if instance.held and instance.asked:
            self.throttle.pulled(key, now)
            if instance.granted is None and instance.offered_at is None:
                instance.offered_at = now

    def _answer(self, key: Key, instance: _Instance, now: float, usage: Usage) -> FromAgent:
        if instance.granted is not None:
            return _granted(instance.granted)
        if instance.runs:
            if self._gates_restarts(key):
                return _withdraw(key, instance)
            return protocol.Granted(container=key.container, reason="it runs")
        waiting = self.standing(key, now, usage)
        return protocol.Wait(
            container=key.container,
            state=waiting.state,
            position=waiting.position,
            reason=protocol.text(waiting.reason),
        )

    def _gates_restarts(self, key: Key) -> bool:
        return self.throttle.limits.gate_restarts and not self._keeps_permits(key)

    def _keeps_permits(self, key: Key) -> bool:
        pod = self._pods.get(key.pod)
        return pod is not None and pod.keeps_permits

    def _probed(self, key: Key) -> bool:
        pod = self._pods.get(key.pod)
        containers = (pod.spec.containers or ()) if pod is not None else ()
        return any(
            container.name == key.container
            and (container.startup_probe is not None or container.readiness_probe is not None)
            for container in containers
        )


def _withdraw(key: Key, instance: _Instance) -> protocol.Withdraw:
    return protocol.Withdraw(container=key.container, instance=protocol.text(instance.now))


def _granted(grant: Grant) -> protocol.Granted:
    return protocol.Granted(
        container=grant.key.container, start=grant.start, forced=grant.forced, reason=protocol.text(grant.reason)
    )
