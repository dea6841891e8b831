"""What CapacityBuffers keep free for policies that count it: chunks that fit on their nodes, and those that wait.

A chunk that fits counts for the policy that has its node. One that waits counts where most of its buffer's chunks fit,
else for the least specific policy that could take it: a node is asked for already, and the policy is not to ask for a
second one. It does so for the policy's `giveUpAfter` only, and never if no node of the policy could hold it: capacity
that does not come is no extra capacity.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import Constraints, admits
from slack.cluster.snapshot import Amounts, BoolArray, IndexArray, IntArray, Placeholder, Snapshot
from slack.planner.domain.membership import Domain, Template
from slack.planner.model.added import vector_of
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.vectors import any_of, distinct, holds, sorted_distinct
from slack.planner.policy.spec import CountedBuffers

MOST_ROOMS = 64
"""So many different rooms of nodes, the largest, are compared with all kinds of pods."""


@dataclass(frozen=True, slots=True)
class WaitingChunks:
    """Chunks of one buffer that fit nowhere, all since the same time."""

    replica_set: str
    requests: Amounts
    since: float
    """Unix seconds."""
    constraints: Constraints
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SeenChunks:
    """The chunks of all buffers."""

    nodes: IntArray
    """[M] rows of nodes on which chunks fit."""
    rooms: IntArray
    """[M, R] what these chunks request there."""
    replica_sets: tuple[str, ...]
    """[F] of chunks that fit: the ReplicaSet of those that are alike on one node."""
    at: IntArray
    """[F] the row of their node."""
    number: IntArray
    """[F] how many they are."""
    waiting: tuple[WaitingChunks, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AwaitedChunks:
    """Chunks that wait for a node of one policy."""

    constraints: Constraints
    reach: BoolArray
    """[NC] node classes where they may go."""
    vector: IntArray
    """[R] what one requests."""
    count: int

    def may_go(self, domain: Domain) -> bool:
        """Say whether a domain has a node or template for them, whatever its size."""
        if (self.reach & domain.classes).any():
            return True
        return any(admits(self.constraints, template.node_class) for template in domain.templates)


@dataclass(frozen=True, slots=True, eq=False)
class BufferedCapacity:
    """What buffers keep for one policy."""

    nodes: IntArray
    """[M] rows of nodes on which chunks fit."""
    rooms: IntArray
    """[M, R] what these chunks request there."""
    awaited: tuple[AwaitedChunks, ...]
    kinds: BoolArray
    """[K] kinds of which a pod fits into what chunks keep free on one node, or into one chunk that waits."""

    def amount(self, domain: Domain, class_id: IndexArray, parts: Sequence[Domain]) -> IntArray:
        """[R] what chunks request that fit on nodes of a domain, or wait for some.

        Args:
            domain: the policy's, or one zone of it.
            class_id: [N] of the nodes.
            parts: all zones of it; those that several could take are divided evenly.
        """
        total: IntArray = self.amount_now(domain, class_id)
        for each in self.awaited:
            ways = [part for part in parts if each.may_go(part)]
            if any(part is domain for part in ways):
                total = total + each.count // len(ways) * each.vector
        return total

    def amount_now(self, domain: Domain, class_id: IndexArray) -> IntArray:
        """[R] what chunks request that fit on nodes of a domain."""
        found: IntArray = self.rooms[domain.owned[class_id[self.nodes]]].sum(axis=0)
        return found


def buffered_of(
    snapshot: Snapshot, domains: Sequence[Domain], now: float, cache: PlanCache
) -> Mapping[str, BufferedCapacity]:
    """Return by policy what buffers keep for it: only for policies that count it, and if there is any buffer.

    Args:
        snapshot: the cluster.
        domains: of all policies.
        now: Unix seconds.
        cache: of the plan.
    """
    if not any(domain.policy.spec.capacity_buffers is CountedBuffers.COUNT for domain in domains):
        return {}
    chunks = cache.compute(chunks_of, snapshot.placeholders, snapshot.resources)
    if not (len(chunks.nodes) or chunks.waiting):
        return {}
    nodes, rooms = chunks.nodes, chunks.rooms
    awaited = _by_policy(snapshot, domains, chunks, now, cache)
    found = {}
    for domain in domains:
        name = domain.policy.name
        if domain.policy.spec.capacity_buffers is CountedBuffers.COUNT:
            mine = domain.owned[snapshot.nodes.class_id[nodes]]
            own = nodes[mine], rooms[mine], tuple(awaited.get(name, ()))
            found[name] = BufferedCapacity(*own, _kinds_held(snapshot, *own))
    return found


def counted_chunks(
    snapshot: Snapshot, domains: Sequence[Domain], replica_sets: frozenset[str], now: float
) -> dict[str, int]:
    """Return by policy how many chunks of one buffer it counts; policies that count none are left out.

    Args:
        snapshot: the cluster.
        domains: of all policies.
        replica_sets: of the buffer.
        now: Unix seconds.
    """
    mine = tuple(pod for pod in snapshot.placeholders if pod.replica_set in replica_sets)
    chunks = chunks_of(mine, snapshot.resources)
    awaited = _by_policy(snapshot, domains, chunks, now, PlanCache())
    found = {}
    for domain in domains:
        if domain.policy.spec.capacity_buffers is CountedBuffers.COUNT:
            here = domain.owned[snapshot.nodes.class_id[chunks.at]]
            waiting = sum(each.count for each in awaited.get(domain.policy.name, ()))
            found[domain.policy.name] = int(chunks.number[here].sum()) + waiting
    return {policy: count for policy, count in found.items() if count}


def _kinds_held(snapshot: Snapshot, nodes: IntArray, rooms: IntArray, awaited: Sequence[AwaitedChunks]) -> BoolArray:
    """[K] kinds of which a pod fits into the capacity that chunks keep; see `BufferedCapacity`."""
    kinds, class_id = snapshot.kinds, snapshot.nodes.class_id[nodes]
    known = np.fromiter((not amounts for amounts in kinds.unoffered), dtype=bool, count=len(kinds))
    held = np.zeros(len(kinds), dtype=bool)
    distinct_rooms = dict[bytes, tuple[IntArray, IndexArray | IntArray]]()
    for row in np.argsort(-rooms[:, 0], kind="stable").tolist():
        if len(distinct_rooms) >= MOST_ROOMS:
            break
        key = bytes(class_id[row : row + 1]) + rooms[row].tobytes()
        distinct_rooms.setdefault(key, (rooms[row], class_id[row : row + 1]))
    for each in awaited[:MOST_ROOMS]:
        key = each.reach.tobytes() + each.vector.tobytes()
        distinct_rooms.setdefault(key, (each.vector, np.flatnonzero(each.reach)))
    for room, classes in distinct_rooms.values():
        fits = np.flatnonzero(known & ~held & (kinds.requests <= room).all(axis=1))
        held[fits] = any_of(snapshot.reach[kinds.constraint_id[fits]][:, classes], axis=1)
    return held


def chunks_of(placeholders: tuple[Placeholder, ...], resources: tuple[str, ...]) -> SeenChunks:
    """Count the chunks of all buffers: those that fit, and those that fit nowhere."""
    fitting: Counter[tuple[str, Amounts, int]] = Counter()
    waiting: Counter[tuple[str, Amounts, float]] = Counter()
    constraints: dict[str, Constraints] = {}
    for pod in placeholders:
        if pod.policy or pod.constraints is None or pod.requests is None:
            continue
        if pod.node >= 0:
            fitting[pod.replica_set, pod.requests, pod.node] += 1
        else:
            waiting[pod.replica_set, pod.requests, pod.created_seconds] += 1
            constraints[pod.replica_set] = pod.constraints
    at = np.array([node for _, _, node in fitting], dtype=np.int64)
    number = np.array(list(fitting.values()), dtype=np.int64)
    known = {requests: vector_of(requests, resources) for requests in {requests for _, requests, _ in fitting}}
    vectors = np.array([known[requests] for _, requests, _ in fitting], dtype=np.int64).reshape(-1, len(resources))
    nodes = sorted_distinct(at)
    rooms = np.zeros((len(nodes), len(resources)), dtype=np.int64)
    np.add.at(rooms, np.searchsorted(nodes, at), number[:, None] * vectors)
    found = tuple(WaitingChunks(*key, constraints[key[0]], count) for key, count in waiting.items())
    return SeenChunks(nodes, rooms, tuple(replica_set for replica_set, _, _ in fitting), at, number, found)


def _by_policy(
    snapshot: Snapshot,
    domains: Sequence[Domain],
    chunks: SeenChunks,
    now: float,
    cache: PlanCache,
) -> dict[str, list[AwaitedChunks]]:
    """Return by policy the chunks that wait for nodes of it."""
    owner = np.full(len(snapshot.node_classes) + 1, -1, dtype=np.int64)
    for number, domain in enumerate(domains):
        owner[:-1][domain.owned] = number
    stand: dict[str, Counter[int]] = {}
    if chunks.waiting:
        owners = owner[snapshot.nodes.class_id[chunks.at]]
        for replica_set, number, count in zip(
            chunks.replica_sets, owners.tolist(), chunks.number.tolist(), strict=True
        ):
            stand.setdefault(replica_set, Counter())[number] += count
    index, reaches = ClassIndex(snapshot.node_classes), dict[Constraints, BoolArray]()
    nodes, found = snapshot.nodes, dict[str, list[AwaitedChunks]]()
    for each in chunks.waiting:
        if any(amount and name not in snapshot.resources for name, amount in each.requests):
            continue  # no node has such a resource
        reach = reaches.get(each.constraints)
        if reach is None:
            reach = reaches[each.constraints] = index.admitted(each.constraints)
        own = AwaitedChunks(each.constraints, reach, vector_of(each.requests, snapshot.resources), each.count)
        ranked: list[tuple[tuple[int, int], Domain]] = []
        for number, domain in enumerate(domains):
            if domain.conflict is None and own.may_go(domain):
                part = cache.part(domain.policy.name)
                rooms = part.compute(empty_rooms, nodes.allocatable, nodes.daemon, domain.members, domain.templates)
                if bool(any_of(holds(rooms, own.vector[None, :])).any()):
                    stands = stand.get(each.replica_set, Counter[int]())[number]
                    ranked.append(((stands, -len(domain.policy.spec.node_selector)), domain))
        if not ranked:
            continue
        policy = max(ranked, key=lambda pair: pair[0])[1].policy
        if now - each.since < policy.spec.stabilization.give_up_after.total_seconds():
            found.setdefault(policy.name, []).append(own)
    return found


def empty_rooms(
    allocatable: IntArray, daemon: IntArray, members: BoolArray, templates: tuple[Template, ...]
) -> IntArray:
    """[M, R] what a domain's nodes, ready or not, and templates have without pods; distinct rows."""
    room = allocatable[members] - daemon[members]
    return distinct(np.concatenate([room, *(t.allocatable[None, :] for t in templates)]))[0]
