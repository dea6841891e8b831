"""What must hold on a node whatever comes: slots, gaps, dependencies, one grant a start, and an end to waiting."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.limits import Limits, Usage
from slack.throttler.model import GatedContainer, GatedPod, Grant
from slack.throttler.queue import Key
from tests.examples import examples

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pull", "succeed", "end", "back off", "run", "remove", "wait", "wait", "wait"]),
        st.integers(0, 30),
        st.sampled_from([0.0, 0.05, 0.3, 1.0, 7.0]),
        st.sampled_from([None, 0.2, 0.95]),
    ),
    max_size=60,
)


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    slots = draw(st.sampled_from([None, 1, 2, 5]))
    gap = draw(st.sampled_from([0.0, 0.1, 1.0]))
    return Limits(
        slots=slots,
        namespace_slots=None if slots is None else draw(st.sampled_from([None, 1, max(1, slots // 2)])),
        max_cpu=draw(st.sampled_from([None, 0.8])),
        gap_seconds=gap,
        force_after_seconds=draw(st.sampled_from([None, 2.0, 5.0])),
        start_timeout_seconds=draw(st.sampled_from([None, 3.0, 20.0])),
        gate_restarts=draw(st.booleans()),
    )


@st.composite
def pods(draw: st.DrawFn) -> tuple[GatedPod, ...]:
    found = []
    for index in range(draw(st.integers(1, 4))):
        names = [f"c{number}" for number in range(draw(st.integers(1, 5)))]
        containers = tuple(
            GatedContainer(name, tuple(sorted(draw(st.sets(st.sampled_from(names[:number]), max_size=2)))))
            if number
            else GatedContainer(name)
            for number, name in enumerate(names)
        )
        shuffled = tuple(draw(st.permutations(containers)))
        found.append(GatedPod(f"p{index}", draw(st.sampled_from(["shop", "search"])), shuffled))
    return tuple(found)


@dataclass
class Node:
    """A node that is watched from outside: what it grants is held against what was seen."""

    limits: Limits
    pods: tuple[GatedPod, ...]
    now: float = 0.0
    grants: list[Grant] = field(default_factory=list)
    unasked: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.throttle = NodeThrottle(self.limits)
        self.keys = [Key(pod.uid, container.name) for pod in self.pods for container in pod.containers]
        for pod in self.pods:
            self.throttle.add_pod(pod, 0.0)
        self.needs = {
            Key(pod.uid, container.name): {Key(pod.uid, other) for other in container.depends_on}
            for pod in self.pods
            for container in pod.containers
        }

    def step(self, what: str, index: int, seconds: float, cpu: float | None) -> None:
        key = self.keys[index % len(self.keys)]
        if key in self.throttle:
            self._do(what, key)
        self.now += seconds
        self.throttle.expire(self.now)
        ready = {each for each in self.keys if each in self.throttle and self.throttle.state(each) is StartState.READY}
        before = self.throttle.starting
        found = self.throttle.grants(self.now, Usage(cpu=cpu))
        self.judge(found, before, ready)
        self.grants += found

    def _do(self, what: str, key: Key) -> None:
        state = self.throttle.state(key)
        if what == "pull":
            self.throttle.pulled(key, self.now)
        elif what == "succeed" and state in (StartState.STARTING, StartState.FAILED):
            self.throttle.succeeded(key, self.now)
        elif what in ("end", "back off"):
            self.throttle.ended(key, self.now, backing_off=what == "back off")
        elif what == "run" and state is StartState.STARTING:
            self.throttle.running(key, self.now)
        elif what == "remove" and key.container == "c0":
            self.throttle.remove(key.pod)

    def judge(self, found: tuple[Grant, ...], before: int, ready: set[Key]) -> None:
        slots = self.limits.slots
        for number, grant in enumerate(found, 1):
            if slots is not None and not grant.forced:
                assert before + number <= slots
            assert self.needs[grant.key] <= ready
            assert self.throttle.state(grant.key) is StartState.STARTING
        assert sum(self.throttle.counts().values()) == sum(key in self.throttle for key in self.keys)


@examples(400, quick=20)
@given(limits(), pods(), STEPS)
def test_slots_gaps_and_dependencies_hold_and_each_start_is_granted_once(
    bounds: Limits, there: tuple[GatedPod, ...], steps: list[tuple[str, int, float, float | None]]
) -> None:
    node = Node(bounds, there)
    for step in steps:
        node.step(*step)
    starts = [(grant.key, grant.start) for grant in node.grants]
    assert len(starts) == len(set(starts))
    times = [grant.at for grant in node.grants]
    assert all(later >= earlier + bounds.gap_seconds for earlier, later in pairwise(times))
    if bounds.force_after_seconds is None:
        assert not any(grant.forced for grant in node.grants)


@examples(300, quick=15)
@given(
    st.integers(1, 40),
    st.sampled_from([0.1, 1.0, 3.0]),
    st.sampled_from([0.0, 0.1]),
    st.lists(st.floats(0, 20), min_size=40, max_size=40),
    st.sampled_from([None, 1.0]),
)
def test_every_pending_container_starts_within_n_of_the_minimum_rate(
    count: int, every: float, gap: float, arrivals: list[float], cpu: float | None
) -> None:
    """Nothing ever becomes ready, the node is busy, slots are taken: minRate alone."""
    throttle = NodeThrottle(Limits(slots=1, max_cpu=0.8, force_after_seconds=every, gap_seconds=gap))
    due: dict[Key, float] = {}
    waiting = sorted((at, index) for index, at in enumerate(arrivals[:count]))
    now = 0.0
    while waiting or due:
        while waiting and waiting[0][0] <= now:
            at, index = waiting.pop(0)
            throttle.add_pod(GatedPod(f"p{index}", "shop", (GatedContainer("c"),)), now)
            throttle.pulled(Key(f"p{index}", "c"), now)
            due[Key(f"p{index}", "c")] = at + (len(due) + 1) * every
            assert throttle.waiting(Key(f"p{index}", "c"), now).until is not None
        for grant in throttle.grants(now, Usage(cpu=cpu)):
            assert now <= due.pop(grant.key) + 1e-6
        look = throttle.next_look(now, Usage(cpu=cpu))
        assert look is None or look > now
        now = min([at for at, _ in waiting[:1]] + ([look] if look is not None else []), default=now)


@examples(200, quick=10)
@given(pods(), st.integers(1, 3))
def test_whatever_is_declared_all_become_ready_when_each_start_succeeds(
    there: tuple[GatedPod, ...], slots: int
) -> None:
    throttle = NodeThrottle(Limits(slots=slots, force_after_seconds=100.0))
    keys = [Key(pod.uid, container.name) for pod in there for container in pod.containers]
    for pod in there:
        throttle.add_pod(pod, 0.0)
    for key in keys:
        throttle.pulled(key, 0.0)
    for turn in range(len(keys)):
        found = throttle.grants(float(turn))
        assert not any(grant.forced for grant in found)
        for key in keys:
            if throttle.state(key) is StartState.STARTING:
                throttle.succeeded(key, float(turn))
    assert throttle.counts()[StartState.READY] == len(keys)
