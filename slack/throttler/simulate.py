"""A scenario played on a clock of its own: the node's own decision over containers that take their time.

The decision is the agent's (`slack.throttler.decision`). The rest is modelled: work that is fixed or shares the CPUs
and a page cache (`slack.throttler.node_cpu`), a watchdog that ends who takes too long, the kubelet's back-off, its
probes. Time goes from event to event, so that the same scenario gives the same events, and none is a rounding away from
another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from slack.throttler.decision import NodeThrottle
from slack.throttler.limits import UNLIMITED, Limits
from slack.throttler.model import GatedContainer, GatedPod, Grant
from slack.throttler.node_cpu import NodeCPU
from slack.throttler.policies import Deny, Rule
from slack.throttler.queue import Key
from slack.throttler.scenario import Member, StartScenario, Work, pods_of

FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0
"""The kubelet's, in seconds."""
_NEVER = math.inf
_NEAR = 1e-7
"""Work that is left and not worth an event."""


class StartEventType(StrEnum):
    """What happens in a scenario."""

    START = "start"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SimulatedStartEvent:
    """Something that happened."""

    at: float
    pod: str
    container: str
    event: StartEventType
    forced: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario."""

    limit: int | None
    """Slots; None: no gate."""
    events: tuple[SimulatedStartEvent, ...]
    containers: int
    ready: int
    most: int
    """At most so many were starting at a time."""
    makespan: float | None
    """When the last one was ready; None: not all were, within the scenario's time."""
    failures: int
    mean_ready: float | None
    """From arrival to ready, over those that were."""

    @property
    def order(self) -> tuple[str, ...]:
        """Containers in the order of their first starts, as pod/container."""
        started = (f"{event.pod}/{event.container}" for event in self.events if event.event is StartEventType.START)
        return tuple(dict.fromkeys(started))


@dataclass(slots=True)
class _Run:
    member: Member
    key: Key
    needs: tuple[Key, ...]
    started: float | None = None
    """None: it does not run."""
    left: float = _NEVER
    probed: float = _NEVER
    """When a probe will see that it is done."""
    again: float = _NEVER
    """When the kubelet tries it again."""
    back_off: float = FIRST_BACK_OFF
    ready_at: float | None = None


@dataclass(slots=True)
class _Node:
    scenario: StartScenario
    throttle: NodeThrottle
    cpu: NodeCPU
    runs: dict[Key, _Run] = field(default_factory=dict)
    coming: dict[Key, tuple[float, Grant]] = field(default_factory=dict)
    """Granted, and not running yet."""
    arriving: list[tuple[float, Key]] = field(default_factory=list)
    """When images are there, the latest first."""
    events: list[SimulatedStartEvent] = field(default_factory=list)
    running: dict[Key, None] = field(default_factory=dict)
    """Those that run and are not ready."""
    most: int = 0
    ready: int = 0


def play(
    scenario: StartScenario,
    limits: Limits | None = None,
    *,
    is_gated: bool = True,
    progress: Callable[[int], None] = lambda _: None,
) -> Played:
    """Play a scenario.

    Args:
        scenario: one that was checked.
        limits: in place of what its policy comes to.
        is_gated: False: everything starts as soon as its image is there.
        progress: called with how many containers are ready, when that changes.
    """
    chosen = (scenario.policy.limits(scenario.cores) if limits is None else limits) if is_gated else UNLIMITED
    node = _Node(scenario, NodeThrottle(chosen), NodeCPU(scenario, chosen.average_over_seconds))
    _fill(node)
    now, told = 0.0, 0
    while True:
        _turn(node, now)
        if node.ready != told:
            told = node.ready
            progress(told)
        then = _next(node, now)
        if then > scenario.until or then == _NEVER:
            break
        _work(node, now, then - now)
        now = then
    return _played(node, chosen.slots if is_gated else None)


def compared(scenario: StartScenario, slots: int | None) -> Limits:
    """Return the scenario's limits with so many slots in place of its own."""
    own = scenario.policy.limits(scenario.cores)
    return replace(own, slots=slots, namespace_slots=scenario.policy.namespace_slots(slots))


def _fill(node: _Node) -> None:
    for name, members in pods_of(node.scenario).items():
        containers = tuple(GatedContainer(member.name, member.depends_on) for member in members)
        pod = GatedPod(name, members[0].spec.namespace, containers, members[0].spec.priority)
        node.throttle.add_pod(pod, 0.0)
        for member in members:
            key = Key(name, member.name)
            node.runs[key] = _Run(member, key, tuple(Key(name, other) for other in member.needs))
            node.arriving.append((member.spec.arrival + member.spec.pull, key))
    node.arriving.reverse()
    node.arriving.sort(key=lambda pair: -pair[0])  # stable: of one time, the last declared first


def _turn(node: _Node, now: float) -> None:
    """Let happen what happens now: images, probes, watchdogs, restarts, time-outs; then decide."""
    while node.arriving and node.arriving[-1][0] <= now:
        node.throttle.pulled(node.arriving.pop()[1], now)
    for key in tuple(node.running):
        run = node.runs[key]
        if run.probed <= now:
            _be_ready(node, run, now)
        elif _bites_at(node, run) <= now:
            _fail(node, run, now)
    for run in node.runs.values():
        if run.again <= now:
            run.again = _NEVER
            _restart(node, run, now)
    for late in node.throttle.expire(now):
        run = node.runs[late.key]
        node.events.append(_event(now, run, StartEventType.FAILED, reason="the start time-out is over"))
        if late.delete:
            _delete(node, late.key.pod)
    for grant in node.throttle.grants(now, node.cpu.usage(now)):
        node.coming[grant.key] = (now + node.scenario.start_delay, grant)
    node.most = max(node.most, node.throttle.starting)
    for key, (at, grant) in tuple(node.coming.items()):
        if at <= now:
            del node.coming[key]
            _start(node, node.runs[key], now, forced=grant.forced, reason=grant.reason)


def _restart(node: _Node, run: _Run, now: float) -> None:
    """Have the kubelet try a container again: at once where restarts are not gated, for its permit is still there."""
    if node.throttle.limits.gate_restarts:
        node.throttle.pulled(run.key, now)
        return
    node.throttle.running(run.key, now)
    _start(node, run, now, forced=False, reason="restarts are not gated")


def _start(node: _Node, run: _Run, now: float, *, forced: bool, reason: str) -> None:
    work = run.member.spec.work
    run.started, run.left, run.probed = now, _NEVER if work is None else work, _NEVER
    node.running[run.key] = None
    node.events.append(_event(now, run, StartEventType.START, forced=forced, reason=reason))


def _be_ready(node: _Node, run: _Run, now: float) -> None:
    del node.running[run.key]
    run.ready_at, run.probed = now, _NEVER
    node.ready += 1
    node.throttle.succeeded(run.key, now)
    node.events.append(_event(now, run, StartEventType.READY))


def _fail(node: _Node, run: _Run, now: float) -> None:
    """End a container by its watchdog; the kubelet tries again after its back-off, and the slot is free meanwhile."""
    del node.running[run.key]
    node.events.append(_event(now, run, StartEventType.FAILED, reason=f"its watchdog of {node.scenario.watchdog:g} s"))
    node.throttle.ended(run.key, now, backing_off=True)
    run.started, run.again = None, now + run.back_off
    run.back_off = min(2 * run.back_off, LONGEST_BACK_OFF)


def _delete(node: _Node, pod: str) -> None:
    node.throttle.remove(pod)
    for key in [key for key in node.runs if key.pod == pod]:
        node.running.pop(key, None)
        node.coming.pop(key, None)
        node.arriving = [pair for pair in node.arriving if pair[1] != key]
        node.runs[key].again = _NEVER


def _event(
    now: float, run: _Run, what: StartEventType, *, forced: bool = False, reason: str = ""
) -> SimulatedStartEvent:
    return SimulatedStartEvent(round(now, 6), run.key.pod, run.key.container, what, forced, reason)


def _bites_at(node: _Node, run: _Run) -> float:
    """Return when the watchdog ends a container: never, once its work is done."""
    if node.scenario.watchdog is None or run.started is None or run.left <= 0:
        return _NEVER
    return run.started + node.scenario.watchdog


def _at_work(node: _Node) -> list[_Run]:
    found = (node.runs[key] for key in node.running)
    return [
        run
        for run in found
        if 0 < run.left < _NEVER and all(node.runs[other].ready_at is not None for other in run.needs)
    ]


def _threads(runs: list[_Run]) -> list[int]:
    return [run.member.spec.threads for run in runs]


def _work(node: _Node, now: float, seconds: float) -> None:
    runs = _at_work(node)
    threads = _threads(runs)
    for run, rate in zip(runs, node.cpu.rates(threads, now), strict=True):
        run.left -= rate * seconds
        if run.left <= _NEAR:
            run.left = 0.0
    node.cpu.pass_time(threads, now, seconds)


def _next(node: _Node, now: float) -> float:
    """Return when something happens next; who is done now is seen by its next probe."""
    scenario, period = node.scenario, node.scenario.probe_period
    at = [node.arriving[-1][0]] if node.arriving else []
    for key in node.running:
        run = node.runs[key]
        if run.left <= 0 and run.probed == _NEVER and run.started is not None:
            beats = math.ceil((now - run.started) / period - _NEAR) if period else 0
            run.probed = run.started + beats * period if period else now
        at += [run.probed, _bites_at(node, run)]
    runs = _at_work(node)
    at += [now + run.left / rate for run, rate in zip(runs, node.cpu.rates(_threads(runs), now), strict=True)]
    at += [run.again for run in node.runs.values()]
    at += [time for time, _ in node.coming.values()]
    at += [step.at for step in scenario.usage if step.at > now]
    usage = node.cpu.usage(now)
    look = node.throttle.next_look(now, usage)
    verdict = node.throttle.decide(now, usage)
    if scenario.work is Work.SHARED and isinstance(verdict, Deny) and Rule.CPU in verdict.rules:
        at.append(now + node.throttle.limits.longest_pause_seconds)  # what it reads changes without an event
    return max(now, min([*at, _NEVER if look is None else look]))


def _played(node: _Node, limit: int | None) -> Played:
    readies = [run.ready_at - run.member.spec.arrival for run in node.runs.values() if run.ready_at is not None]
    whole = len(readies) == len(node.runs)
    return Played(
        limit=limit,
        events=tuple(node.events),
        containers=len(node.runs),
        ready=len(readies),
        most=node.most,
        makespan=max((event.at for event in node.events if event.event is StartEventType.READY), default=None)
        if whole
        else None,
        failures=sum(event.event is StartEventType.FAILED for event in node.events),
        mean_ready=round(sum(readies) / len(readies), 6) if readies else None,
    )
