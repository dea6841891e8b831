"""What one tick decides, queue by queue: those that starve first, then those with the fewest containers.

All that is decided counts for what is decided after it, so that no limit is exceeded within a round either.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slack.demand.guards import apply_guards, make_way
from slack.demand.history import NO_GROWTH
from slack.demand.ledger import ContainerLedger, Failing, PoolCount
from slack.demand.lifecycle import EndCandidate, above_limit, first_to_go, idle_ends, next_replacement, retained_count
from slack.demand.model import (
    AdmissionVerdict,
    Clip,
    ContainerState,
    Creation,
    Ending,
    EndReason,
    Guards,
    Place,
    PoolContainer,
    PoolTarget,
    QueueDecision,
    QueueFigures,
    QueueKey,
    QueueState,
)
from slack.demand.placement import PlacementNode, place
from slack.demand.queue import QueueMemory, per_message
from slack.demand.room import NamespaceRoom
from slack.demand.targets import target_of
from slack.demand.verdict import LEAST_GROWN, ActionPressure, judge

_NOTHING = PoolCount()


@dataclass(slots=True)
class _Turn:
    """One queue in this round."""

    queue: QueueMemory
    count: PoolCount
    room: NamespaceRoom
    incoming: int
    starving: bool
    weight: float
    failing: Failing | None
    figures: QueueFigures | None = None
    decision: QueueDecision | None = None
    added: int = 0

    @property
    def key(self) -> QueueKey:
        return self.queue.pool.key


class Round:
    """One tick's work; made anew for each, and read by the scheduler when it is done."""

    def __init__(
        self,
        *,
        now_seconds: float,
        guards: Guards,
        ledger: ContainerLedger,
        counts: Mapping[QueueKey, PoolCount],
        rooms: Mapping[str, NamespaceRoom],
        queues: Mapping[QueueKey, QueueMemory],
        nodes: list[tuple[str, int]] | None,
        containers: Sequence[PoolContainer],
        node_start_seconds: float | None,
        unread: frozenset[str] = frozenset(),
        name: Callable[[QueueKey], str],
    ) -> None:
        """Begin a round.

        Args:
            now_seconds: the time.
            guards: which hold.
            ledger: what was asked for.
            counts: what is there, by pool.
            rooms: what each namespace may have.
            queues: all, those asleep too.
            nodes: name and slots; None: where containers go is not ours to say.
            containers: all that are seen.
            node_start_seconds: how long a node takes, where it is known.
            unread: subjects of which nothing is known now: their containers make way for nobody.
            name: gives each new container its name.
        """
        self._now = now_seconds
        self._guards = guards
        self._ledger = ledger
        self._counts = counts
        self._rooms = rooms
        self._queues = queues
        self._ended: set[Place] = set()
        self._ended_of: Counter[QueueKey] = Counter()
        self._ended_in: Counter[str] = Counter()
        self._nodes = None if nodes is None else _loads(nodes, containers, counts)
        self._node_room = None if self._nodes is None else sum(node.free for node in self._nodes)
        self._node_start_seconds = node_start_seconds
        self._unread = unread
        self._name = name
        self._idle_in: Counter[str] | None = None
        """Idle containers by namespace, counted when somebody asks."""
        self._turns: list[_Turn] = []
        self._asked: list[Creation] = []
        self.creations: list[Creation] = []
        self.endings: list[Ending] = []
        self.figures: dict[QueueKey, QueueFigures] = {}
        self.decisions: dict[QueueKey, QueueDecision] = {}
        self.verdicts: dict[QueueKey, AdmissionVerdict] = {}
        self.targets: dict[QueueKey, PoolTarget] = {}
        self.drop: list[QueueKey] = []

    def read(self, queue: QueueMemory, incoming: int) -> None:
        """Take a queue into the round."""
        key = queue.pool.key
        count = self._counts.get(key, _NOTHING)
        room = self._rooms[key.namespace]
        late = self._ledger.late(count, queue.pool, self._now) if count.in_creation else []
        if late:
            self.endings += late
            names = {ending.container_id for ending in late}
            unseen = [item for item in count.asked if item.creation.id in names]
            count.asked = [item for item in count.asked if item.creation.id not in names]
            seen = [item for item in count.creating if item.id in names]
            count.creating = [item for item in count.creating if item.id not in names]
            # What is there still takes room until it is gone.
            count.draining += len(seen)
            room.containers += len(seen)
            room.creating -= len(seen) + len(unseen)
        failing = self._ledger.failing(key)
        waits = queue.waiting(count) + incoming
        queue.settle(failing, count)
        serving = len(queue.serving(count)) + count.in_creation
        weight = 1.0 if room.quota is None else room.quota.weights.get(key.action, 1.0)
        self._turns.append(
            _Turn(
                queue=queue,
                count=count,
                room=room,
                incoming=incoming,
                starving=waits > 0 and serving == 0 and not queue.pool.deleted,
                weight=max(weight, 1e-6),
                failing=failing,
            )
        )

    def run(self) -> None:
        """Decide about all queues that were taken in."""
        for turn in sorted(self._turns, key=_order):
            self._decide(turn)
        self._place()
        self._lower_limits()
        for turn in self._turns:
            self._make_room_for_taker(turn)
            self._end_by_itself(turn)
        if self._guards.eviction or self._guards.yielding:
            self._feed_starving()
        for turn in self._turns:
            self._tell(turn)

    # --- containers that come -----------------------------------------------------------------------------------------

    def _decide(self, turn: _Turn) -> None:
        queue, pool, count, room = turn.queue, turn.queue.pool, turn.count, turn.room
        if turn.starving and self._guards.eviction and queue.state is QueueState.NAMESPACE_THROTTLED:
            # Row 6 would wait for the next tick, and another action could take what was freed for this one.
            queue.state = QueueState.RUNNING
        figures = queue.figures(
            self._now,
            count,
            room,
            incoming=turn.incoming,
            median_creation_seconds=self._ledger.median_creation_seconds(turn.key) if count.in_creation else None,
            node_room=self._node_room,
        )
        if pool.per_message and not pool.deleted:
            idle = sum(item.idle_seconds is not None for item in queue.standing(count).candidates(self._now))
            decision = per_message(figures, idle)
        else:
            decision = apply_guards(figures, self._guards)
        queue.follow(decision)
        decision = self._within(turn, self._for_retired(turn, self._at_least(turn, decision)), figures)
        turn.figures, turn.decision = figures, decision
        self._create(turn, decision.add)
        self._replace(turn)

    def _at_least(self, turn: _Turn, decision: QueueDecision) -> QueueDecision:
        """Raise a decision to what the owner always wants."""
        pool, total = turn.queue.pool, len(turn.queue.serving(turn.count)) + turn.count.in_creation
        short = 0 if pool.deleted else min(pool.min_containers, pool.max_containers) - total
        if short <= decision.add:
            return decision
        return replace(decision, add=short, reason="minContainers are always there")

    def _for_retired(self, turn: _Turn, decision: QueueDecision) -> QueueDecision:
        """Have a container that takes what is left of retired subjects, where those that are there do not."""
        if decision.add > 0 or not turn.queue.lacks_taker(turn.count):
            return decision
        return replace(decision, add=1, reason="messages of a former memory wait, and no container takes them")

    def _make_room_for_taker(self, turn: _Turn) -> None:
        """Where there is no room for one that takes from retired subjects, one that does not makes it."""
        queue, count, decision = turn.queue, turn.count, turn.decision
        clip = None if decision is None else decision.clipped_by
        if turn.added or count.draining or not queue.lacks_taker(count) or self._ended_of[turn.key]:
            return
        if clip not in (Clip.NAMESPACE_LIMIT, Clip.ACTION_LIMIT, Clip.RESOURCES):
            return
        held = [item for item in queue.standing(count).candidates(self._now) if item.held_seconds >= item.hold_seconds]
        for item in first_to_go(held)[:1]:
            self._end([Ending(container_id=item.container.id, key=turn.key, reason=EndReason.REVISION)])

    def _within(self, turn: _Turn, decision: QueueDecision, figures: QueueFigures) -> QueueDecision:
        """Bound a decision by what the table does not know: draining containers, resources, the next try."""
        if decision.add <= 0:
            return decision
        pool, count, room = turn.queue.pool, turn.count, turn.room
        above = decision.row in (5, 7, 8) and figures.over_provision_ratio is not None and figures.total == 0
        limit = 1 if above else room.limit - room.used
        bounds = [
            (Clip.NAMESPACE_LIMIT, limit),
            (Clip.ACTION_LIMIT, pool.max_containers - count.occupied),
            (Clip.RESOURCES, room.by_resources(pool)),
        ]
        if self._node_room is not None:
            bounds.append((Clip.NODE_ROOM, self._node_room))
        if turn.failing is not None and self._now < turn.failing.next_at_seconds:
            bounds.append((Clip.RETRY, 0))
        clip, least = min(bounds, key=lambda bound: bound[1])
        if least >= decision.add:
            return decision
        return replace(decision, add=max(least, 0), clipped_by=clip)

    def _create(self, turn: _Turn, number: int) -> None:
        if number <= 0:
            return
        pool = turn.queue.pool
        also = pool.retired_subjects if turn.queue.retired_backlog else ()
        for _ in range(number):
            self._asked.append(
                Creation(id=self._name(turn.key), key=turn.key, revision=pool.revision, subject=pool.subject, also=also)
            )
        turn.room.reserve_containers(pool, number)
        turn.added += number
        if self._node_room is not None:
            self._node_room -= number

    def _replace(self, turn: _Turn) -> None:
        queue, pool, count, room = turn.queue, turn.queue.pool, turn.count, turn.room
        if pool.deleted or not any(item.revision != pool.revision for item in count.ready):
            queue.replacing = False
            return
        free = min(room.limit - room.used, pool.max_containers - count.occupied - turn.added, room.by_resources(pool))
        if self._node_room is not None:
            free = min(free, self._node_room)
        step = next_replacement(
            queue.standing(count),
            creating=count.in_creation + turn.added,
            draining=count.draining,
            room=free if turn.failing is None or self._now >= turn.failing.next_at_seconds else 0,
            retired_backlog=queue.retired_backlog,
            now_seconds=self._now,
        )
        if step.create and turn.failing is None:
            self._create(turn, step.create)
            queue.replacing = True
        elif step.end and (turn.failing is None or not step.create):
            self._end(step.end)
            queue.replacing = False

    def _place(self) -> None:
        if self._nodes is None:
            self.creations += self._asked
            return
        for creation, node in zip(self._asked, place(len(self._asked), self._nodes), strict=True):
            self.creations.append(replace(creation, node_hint=node))

    # --- containers that go -------------------------------------------------------------------------------------------

    def _end(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            if ending.place not in self._ended:
                self._ended.add(ending.place)
                self._ended_of[ending.key] += 1
                self._ended_in[ending.key.namespace] += 1
                self.endings.append(ending)

    def _lower_limits(self) -> None:
        for turn in self._turns:
            excess = turn.count.occupied - turn.count.draining - max(turn.queue.pool.max_containers, 0)
            if excess > 0:
                self._end(above_limit(turn.queue.standing(turn.count), excess, self._now))
        for namespace, room in self._rooms.items():
            excess = room.used - room.draining - _most(room)
            if excess > 0:
                order = first_to_go(self._candidates(namespace))
                for item in order[: max(excess - self._ended_in[namespace], 0)]:
                    container = item.container
                    self._end([Ending(container_id=container.id, key=container.key, reason=EndReason.QUOTA)])

    def _end_by_itself(self, turn: _Turn) -> None:
        queue, count = turn.queue, turn.count
        if queue.pool.deleted and not queue.lag.backlog and not queue.retired_backlog:
            ids = [item.id for item in (*count.ready, *count.creating)]
            self._end([Ending(container_id=name, key=turn.key, reason=EndReason.POOL_DELETED) for name in ids])
        elif count.ready and not self._ended_of[turn.key] and not queue.backlog:
            self._end(idle_ends(queue.standing(count), self._now))

    def _candidates(self, namespace: str) -> list[EndCandidate]:
        """Return the ready containers of a namespace that are not told to end, those of queues that are asleep too."""
        return [
            item
            for key, count in self._counts.items()
            if key.namespace == namespace
            and (queue := self._queues.get(key)) is not None
            and queue.pool.subject not in self._unread
            for item in queue.standing(count).candidates(self._now)
            if item.container.place not in self._ended
        ]

    def _feed_starving(self) -> None:
        hungry: Counter[str] = Counter()
        for turn in self._turns:
            clip = None if turn.decision is None else turn.decision.clipped_by
            if turn.starving and not turn.added and clip in (Clip.NAMESPACE_LIMIT, Clip.RESOURCES, Clip.NODE_ROOM):
                hungry[turn.key.namespace] += 1
        for namespace, number in hungry.items():
            room = self._rooms[namespace]
            # What ends already makes room too; above a lowered limit an end makes none.
            coming = room.draining + self._ended_in[namespace] - max(room.used - _most(room), 0)
            needed = number - max(coming, 0)
            if room.limit <= 0 or needed <= 0:
                continue
            candidates = self._candidates(namespace)
            spare = Counter(item.container.key for item in candidates)
            for key in spare:
                spare[key] -= self._queues[key].pool.min_containers
            self._end(make_way(needed, candidates, spare, self._guards))

    # --- what is told -------------------------------------------------------------------------------------------------

    def _tell(self, turn: _Turn) -> None:
        queue, figures, decision = turn.queue, turn.figures, turn.decision
        assert figures is not None
        assert decision is not None
        self.figures[turn.key], self.decisions[turn.key] = figures, decision
        self._refuse(turn, figures)
        if queue.may_be_too_old and (queue.state is QueueState.FLUSHING or decision.pausing):
            self.drop.append(turn.key)
        self._want(turn, figures, decision)

    def _refuse(self, turn: _Turn, figures: QueueFigures) -> None:
        queue, pool = turn.queue, turn.queue.pool
        waits_since = [
            item.unschedulable_since_seconds
            for item in turn.count.creating
            if item.unschedulable_since_seconds is not None
        ]
        rest = None
        if waits_since:
            start = self._node_start_seconds or pool.demand.horizon_seconds
            rest = max(start - (self._now - min(waits_since)), 0.0)
        full, idle = turn.room.used >= turn.room.limit, self._idle_for(turn)
        slots = len(queue.serving(turn.count)) * pool.concurrency
        if queue.change is not None:
            queue.capacity.learn_from_tick(*queue.change, slots=slots, idle=idle > 0)
        queue.held = judge(
            ActionPressure(
                containers=turn.room.used,
                limit=turn.room.limit,
                lag=figures.available,
                rate_per_second=queue.rates.arrivals,
                speed_per_second=queue.rates.completions,
                growth=queue.history.growth() if figures.available >= LEAST_GROWN and full else NO_GROWTH,
                exceeds_capacity=queue.capacity.is_exceeded,
                idle=idle,
                stale_seconds=pool.stale_seconds,
                max_messages=pool.max_messages,
                throttle_fraction=pool.throttle_fraction,
                action_limit=pool.max_containers,
                node_wait_seconds=rest,
            ),
            queue.held,
        )
        self.verdicts[turn.key] = queue.held.verdict

    def _idle_for(self, turn: _Turn) -> int:
        """Return the ready containers that are idle: the action's own, or if it has none, those that may make way."""
        if turn.count.ready:
            return sum(item.idle_since_seconds is not None for item in turn.queue.serving(turn.count))
        namespace = turn.key.namespace
        if self._idle_in is None:
            self._idle_in = Counter(
                key.namespace
                for key, count in self._counts.items()
                for item in count.ready
                if item.idle_since_seconds is not None
            )
        return self._idle_in[namespace] if self._guards.eviction else 0

    def _want(self, turn: _Turn, figures: QueueFigures, decision: QueueDecision) -> None:
        queue, pool, count, room = turn.queue, turn.queue.pool, turn.count, turn.room
        wanted = len(count.ready) + count.in_creation + turn.added - self._ended_of[turn.key]
        wanted = max(wanted, 0) + max(decision.unmet - count.unschedulable, 0)
        horizon = self._node_start_seconds or pool.demand.horizon_seconds
        queue.demand.observe(self._now, wanted, horizon, pool.demand, before=max(wanted - turn.added, 0))
        warm = retained_count(pool, queue.last_traffic_seconds, self._now)
        self.targets[turn.key] = target_of(
            queue.demand,
            pool.demand,
            wanted=wanted,
            unmet=decision.unmet if self._guards.unmet else 0,
            keep_warm_shortfall=max(warm - wanted, 0),
            room=min(room.limit - room.used, pool.max_containers - wanted, room.by_resources(pool)),
        )


def _order(turn: _Turn) -> tuple[bool, float, float, QueueKey]:
    """Starving ones first, the heaviest and longest waiting of them first; then those with few containers."""
    total = turn.count.occupied / turn.weight
    waits = -(turn.queue.lag.oldest_age_seconds or 0.0)
    return (not turn.starving, -turn.weight, waits, turn.key) if turn.starving else (True, total, waits, turn.key)


def _most(room: NamespaceRoom) -> int:
    ratio = 1.0 if room.quota is None else max(room.quota.over_provision_ratio, 1.0)
    return max(int(-(-room.limit * ratio // 1)), 0)


def _loads(
    nodes: Sequence[tuple[str, int]], containers: Sequence[PoolContainer], counts: Mapping[QueueKey, PoolCount]
) -> list[PlacementNode]:
    """Return what each node has of containers, creations that are not seen yet included."""
    there = {name: [0, 0] for name, _ in nodes}
    for item in containers:
        if item.node in there:
            there[item.node][item.state is ContainerState.CREATING] += 1
    for count in counts.values():
        for asked in count.asked:
            if asked.creation.node_hint in there:
                there[asked.creation.node_hint][1] += 1
    return [PlacementNode(name, slots, *there[name]) for name, slots in nodes]
