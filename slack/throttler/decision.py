"""One node: who may start now, why the others may not, and until when. States, queue and policies, joined.

Invariants: a container is granted once a start; more than `slots` start only by force, or because a restart was not
gated or was found so; between two grants lies at least the gap; nothing is granted whose dependencies are not ready.
`now` is an argument everywhere, in seconds of a clock that never goes back. A decision looks at the head of the queue
and at counts, so that it costs the same however many containers the node has.
"""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush

from slack.throttler.fsm import ContainerChange, StartState, after
from slack.throttler.limits import UNKNOWN_USAGE, UNLIMITED, Limits, Usage
from slack.throttler.model import GatedContainer, GatedPod, Grant, Late, Waiting
from slack.throttler.policies import Allow, Deny, Situation, composite, forced_at
from slack.throttler.queue import Key, PendingQueue


@dataclass(slots=True)
class _Record:
    pod: GatedPod
    container: GatedContainer
    arrival: int
    declared: int
    since: float
    state: StartState = StartState.DOWNLOADING
    start: int = 0
    unready: int = 0
    """How many of its dependencies are not ready."""
    deadline: float | None = None
    """When it is late."""
    ready_at: float | None = None
    """Without a probe: when it counts as ready."""
    slot: bool = False
    backing_off: bool = False
    """The kubelet waits before it starts it again."""
    dependents: list[Key] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return Key(self.pod.uid, self.container.name)


class NodeThrottle:
    """The gated containers of one node. Owned by whoever calls it; nothing in it waits or asks."""

    def __init__(self, limits: Limits = UNLIMITED) -> None:
        self.limits = limits
        self.last_start: float | None = None
        self._policy = composite(limits)
        self._queue = PendingQueue(by_priority=limits.by_priority)
        self._records: dict[Key, _Record] = {}
        self._pods: dict[str, GatedPod] = {}
        self._exempt: dict[Key, None] = {}
        self._holders: Counter[str] = Counter()
        self._arrivals = 0
        self._pending_since: float | None = None
        self._starting = 0
        self._counts: Counter[StartState] = Counter()
        self._timers: list[tuple[float, Key, int]] = []
        """When a container in that start is late, or without a probe counts as ready."""

    # What is there.

    @property
    def starting(self) -> int:
        """How many slots are taken."""
        return self._starting

    def counts(self) -> dict[StartState, int]:
        """Return how many containers are in each state."""
        return {state: self._counts[state] for state in StartState}

    def state(self, key: Key) -> StartState:
        """Return the state of a container that is there."""
        return self._records[key].state

    def __contains__(self, key: Key) -> bool:
        return key in self._records

    # What happens to it.

    def use(self, limits: Limits) -> None:
        """Go by other limits from now on; who has started already keeps its deadline."""
        self.limits, self._policy = limits, composite(limits)
        self._queue.order(by_priority=limits.by_priority)
        for namespace in {pod.namespace for pod in self._pods.values()}:
            self._judge_share(namespace)

    def add_pod(self, pod: GatedPod, now: float) -> None:
        """Take a pod in, its images still to come; one that is there already stays as it is."""
        if pod.uid in self._pods:
            return
        self._pods[pod.uid] = pod
        self._arrivals += 1
        for declared, container in enumerate(pod.containers):
            record = _Record(pod, container, self._arrivals, declared, now, unready=len(container.depends_on))
            self._records[record.key] = record
            self._counts[record.state] += 1
        for container in pod.containers:
            for other in container.depends_on:
                self._records[Key(pod.uid, other)].dependents.append(Key(pod.uid, container.name))

    def remove(self, uid: str) -> None:
        """Forget a pod; its slots are free."""
        pod = self._pods.pop(uid, None)
        for container in pod.containers if pod is not None else ():
            record = self._records.pop(Key(uid, container.name))
            self._leave(record)
            self._counts[record.state] -= 1

    def pulled(self, key: Key, now: float) -> None:
        """The kubelet would start it, for its image is there or its back-off over: pending if nothing holds it."""
        record = self._records[key]
        if record.state is StartState.DOWNLOADING:
            self._set(record, after(record.state, ContainerChange.PULLED), now)
        record.backing_off = False
        self._consider(record, now)

    def running(self, key: Key, now: float, *, start: int | None = None, granted_at: float | None = None) -> None:
        """A container was seen to run and not to be ready yet.

        After its grant that changes nothing, but for one without a probe, whose hold begins. One that runs without a
        grant of ours, because of a journal that says so, a lost one, a gate that opened or a restart that is not
        gated, is starting too, and holds a slot, though nobody let it in now.
        """
        record = self._records[key]
        record.backing_off = False
        if start is not None:
            record.start = start
        if record.state not in (StartState.STARTING, StartState.READY, StartState.FAILED):
            self._enter_starting(record, now, now if granted_at is None else granted_at)
            if granted_at is not None and not record.pod.exempt:
                self.last_start = granted_at if self.last_start is None else max(self.last_start, granted_at)
        if record.state is StartState.STARTING and not record.container.probed and record.ready_at is None:
            record.ready_at, record.deadline = now + self.limits.no_probe_hold_seconds, None
            heappush(self._timers, (record.ready_at, key, record.start))

    def succeeded(self, key: Key, now: float) -> None:
        """The first success of a startup or readiness probe, or what is seen of it: the container is ready."""
        record = self._records[key]
        if record.state is StartState.READY:
            return
        self._set(record, StartState.READY, now)
        for other in record.dependents:
            dependent = self._records[other]
            dependent.unready -= 1
            self._consider(dependent, now)

    def ended(self, key: Key, now: float, *, backing_off: bool = False, waits: bool = False) -> None:
        """A container has ended and will be started anew: it waits again, unless restarts are not gated.

        While the kubelet backs off it has no place in the queue, which it could not use; `pulled` ends that. One that
        `waits` has been seen to, whatever is said of restarts: its permit is gone.
        """
        record = self._records[key]
        if record.state not in (StartState.STARTING, StartState.READY, StartState.FAILED):
            return
        was_ready = record.state is StartState.READY
        self._set(record, after(record.state, ContainerChange.ENDED), now)
        record.start += 1
        record.backing_off = backing_off
        for other in record.dependents if was_ready else ():
            dependent = self._records[other]
            dependent.unready += 1
            if dependent.state is StartState.PENDING:
                self._set(dependent, after(dependent.state, ContainerChange.HELD), now)
        if waits or (self.limits.gate_restarts and not record.pod.keeps_permits):
            self._consider(record, now)
        elif not backing_off:
            self._enter_starting(record, now, now)

    def expire(self, now: float) -> tuple[Late, ...]:
        """Let time pass: who starts for too long is late; who has no probe and has held its slot is ready."""
        late: list[Late] = []
        while (due := self._next_timer()) is not None and due <= now:
            at, key, start = heappop(self._timers)
            record = self._records[key]
            if record.ready_at == at:
                self.succeeded(key, now)
            else:
                self._set(record, after(record.state, ContainerChange.TIMED_OUT), now)
                late.append(Late(key, start, self.limits.delete_late))
        return tuple(late)

    # What is decided.

    def decide(self, now: float, usage: Usage = UNKNOWN_USAGE) -> Allow | Deny | None:
        """Say whether the next one may start; None: nobody waits for a slot. It changes nothing."""
        return self._policy(self._situation(now, usage)) if self._queue else None

    def grants(self, now: float, usage: Usage = UNKNOWN_USAGE) -> tuple[Grant, ...]:
        """Grant what may start now; each is in `starting` from here on, whatever becomes of the message."""
        granted = [self._grant(key, now, Allow(reason="its class is never gated")) for key in tuple(self._exempt)]
        while isinstance(verdict := self.decide(now, usage), Allow):
            key = self._queue.first() if verdict.forced else self._queue.head()
            if key is None:
                break
            granted.append(self._grant(key, now, verdict))
            self.last_start = now
        return tuple(granted)

    def next_look(self, now: float, usage: Usage = UNKNOWN_USAGE) -> float | None:
        """Return when something changes by itself: a start that may be allowed or is forced, a time-out, a hold."""
        verdict = self.decide(now, usage)
        until = verdict.until if isinstance(verdict, Deny) else None if verdict is None else now
        known = [at for at in (until, self._next_timer()) if at is not None]
        return min(known, default=None)

    def waiting(self, key: Key, now: float, usage: Usage = UNKNOWN_USAGE) -> Waiting:
        """Say where a container stands, why it waits, and when that ends for sure."""
        record = self._records[key]
        position = self._queue.position(key)
        if record.state is StartState.BLOCKED:
            others = ((name, self._records[Key(key.pod, name)].state) for name in record.container.depends_on)
            held = ", ".join(f"{name} ({state})" for name, state in others if state is not StartState.READY)
            reason = f"depends on {held}" if held else "the kubelet backs off"
            return Waiting(record.state, record.since, 0, reason, None)
        if not position:
            return Waiting(record.state, record.since, 0, "", record.deadline or record.ready_at)
        verdict = self.decide(now, usage)
        reason = verdict.reason if isinstance(verdict, Deny) else ""
        if self._queue.is_parked(record.pod.namespace):
            reason = f"namespace {record.pod.namespace} has its {self.limits.namespace_slots} slots"
        if position > 1:
            reason = f"{position - 1} before it" + (f"; {reason}" if reason else "")
        first = forced_at(self._situation(now, usage), self.limits.force_after_seconds)
        until = None if first is None else first + (position - 1) * (self.limits.force_after_seconds or 0.0)
        return Waiting(record.state, record.since, position, reason, until)

    def _situation(self, now: float, usage: Usage) -> Situation:
        return Situation(
            now=now,
            starting=self._starting,
            usage=usage,
            last_start=self.last_start,
            pending_since=self._pending_since,
            slot_free_at=self._next_timer(),
            within_share=self._queue.head() is not None,
        )

    def _grant(self, key: Key, now: float, verdict: Allow) -> Grant:
        record = self._records[key]
        self._enter_starting(record, now, now)
        return Grant(key, record.start, now, record.deadline, verdict.forced, verdict.reason)

    def _enter_starting(self, record: _Record, now: float, granted_at: float) -> None:
        self._set(record, StartState.STARTING, now)
        if record.pod.exempt:
            return
        record.slot = True
        self._starting += 1
        self._holders[record.pod.namespace] += 1
        self._judge_share(record.pod.namespace)
        if self.limits.start_timeout_seconds is not None:
            record.deadline = granted_at + self.limits.start_timeout_seconds
            heappush(self._timers, (record.deadline, record.key, record.start))

    def _consider(self, record: _Record, now: float) -> None:
        if record.state is not StartState.BLOCKED or record.unready or record.backing_off:
            return
        self._set(record, after(record.state, ContainerChange.FREED), now)
        if record.pod.exempt:
            self._exempt[record.key] = None
            return
        if not self._queue:
            self._pending_since = now
        pod = record.pod
        self._queue.add_container(
            record.key, pod.namespace, now, arrival=record.arrival, declared=record.declared, priority=pod.priority
        )

    def _set(self, record: _Record, state: StartState, now: float) -> None:
        """Leave the state that a container is in, with its place or its slot, and note the new one."""
        self._leave(record)
        self._counts[record.state] -= 1
        self._counts[state] += 1
        record.state, record.since = state, now

    def _leave(self, record: _Record) -> None:
        if record.key in self._queue:
            self._queue.remove(record.key)
            if not self._queue:
                self._pending_since = None
        self._exempt.pop(record.key, None)
        record.deadline = record.ready_at = None
        if record.slot:
            record.slot = False
            self._starting -= 1
            self._holders[record.pod.namespace] -= 1
            if not self._holders[record.pod.namespace]:
                del self._holders[record.pod.namespace]  # namespaces come and go for as long as a node lives
            self._judge_share(record.pod.namespace)

    def _judge_share(self, namespace: str) -> None:
        most = self.limits.namespace_slots
        if most is not None and self._holders[namespace] >= most:
            self._queue.park(namespace)
        else:
            self._queue.unpark(namespace)

    def _next_timer(self) -> float | None:
        """Return the first that still holds; those that do not are dropped on the way."""
        while self._timers:
            at, key, start = self._timers[0]
            record = self._records.get(key)
            if record is not None and record.start == start and at in (record.deadline, record.ready_at):
                return at
            heappop(self._timers)
        return None
