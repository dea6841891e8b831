"""Which nodes unbound placeholders let go, and which of them they may use again.

Karpenter disrupts no node that it holds for a pending pod, so a drifted node would stay as long as unbound placeholders
fit there. A label on a node releases it: no unbound placeholder may hold capacity there, so the autoscaler adds a node
if one is needed, and can then take the released one away. Real pods may use a released node until it goes. The label's
value says why and since when, so a new process knows what an earlier one began. Other values belong to people, who
may release a node by hand.

A node is due in this order:

1. It is about to expire: two node starts, and a margin, before the expiry of its NodeClaim.
2. It has drifted for a minute. Karpenter replaces a node that holds nothing sooner than that.
3. It is spare: after slack has shrunk, no pod is on it and no placeholder is needed there. The Cluster Autoscaler
   copies a group's next node, labels included, from one of its nodes, and remembers the last one for years. So where
   Karpenter did not make the node, another one with the same labels must be in use meanwhile.

Nodes that expire go at their time, so each is released at its own. Of the others a tenth of a pool's nodes, and at
least one, is released at a time; of drifted ones first those that nothing but placeholders holds.

A released node that is still in use long after gets its placeholders back: a limit of the NodePool, a minimum of the
node group or a pod that must not be disrupted keeps it. Its pool is then left alone for a while, longer each time.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

DRIFT_SECONDS = 60.0
MARGIN_SECONDS = 120.0
"""Before an expiry, in addition to two node starts: the time from a request for a node to its object is in no watch."""
SPARE_SECONDS = 30.0
"""A node that is spare for so long is not so by chance."""
SHRUNK_SECONDS = 1800.0
"""After a shrink spare nodes are released for so long."""
REPLACED_SECONDS = 600.0
"""Within this time, and three node starts, a released node is replaced."""
REMOVED_SECONDS = 2700.0
"""The same for a spare one: the Cluster Autoscaler waits ten minutes by default, after a scale-up ten more."""
FIRST_PAUSE_SECONDS = 1800.0
LONGEST_PAUSE_SECONDS = 8 * 3600.0


class ReleaseReason(StrEnum):
    """Why a node is released; the first word of the label's value."""

    EXPIRES = "Expires"
    DRIFTED = "Drifted"
    SPARE = "Spare"


@dataclass(frozen=True, slots=True)
class ReleaseMark:
    """The label's value, as we write it."""

    why: ReleaseReason
    since: float
    """Unix seconds."""

    def __str__(self) -> str:
        return f"{self.why}.{self.since:.0f}"


def parse_mark(value: str) -> ReleaseMark | None:
    """Return what a label's value says; None where it is absent or not ours."""
    if not value:
        return None
    why, _, since = value.partition(".")
    if why not in tuple(ReleaseReason) or not (since.isascii() and since.isdecimal() and len(since) <= 12):
        return None
    return ReleaseMark(ReleaseReason(why), float(since))


@dataclass(frozen=True, slots=True)
class Claim:
    """What a NodeClaim says of its node."""

    node: str
    created: float
    """Unix seconds."""
    drifted_since: float | None = None
    expires_at: float | None = None
    leaving: bool = False
    """It is being deleted."""


class HeldNode(NamedTuple):
    """A node on which unbound placeholders could hold capacity; a cluster has thousands."""

    name: str
    pool: str
    """Its NodePool; '' for all nodes without one."""
    created: float
    """Unix seconds."""
    usable: bool
    """It is ready, and takes pods."""
    label: str
    """The value of the label, '' where it has none."""
    held: int
    """Unbound placeholders that fit there."""
    pods: int
    """Other pods there, those of DaemonSets aside."""
    can_hold: bool
    """One unbound placeholder more would fit, or some do."""
    kind: int = 0
    """The same for nodes whose labels are the same, those aside that tell single nodes apart."""


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    failures: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What one decision leaves to the next."""

    placeholders: int = 0
    """Unbound ones."""
    shrunk_at: float = float("-inf")
    spare_since: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By node."""
    released: Mapping[str, tuple[str, ReleaseReason]] = field(default_factory=lambda: MappingProxyType({}))
    """Pool and cause of nodes with our label that are in use."""
    pauses: Mapping[tuple[str, ReleaseReason], _Pause] = field(default_factory=lambda: MappingProxyType({}))
    gave_up: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How often the label was taken from a node in vain; these are tried last."""


@dataclass(frozen=True, slots=True)
class Stays:
    """A released node that did not go."""

    node: str
    why: ReleaseReason
    retry_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write, and what to remember."""

    release: tuple[tuple[str, ReleaseMark], ...]
    """Nodes and the label's value."""
    take_back: tuple[str, ...]
    """Nodes that lose the label."""
    stays: tuple[Stays, ...]
    """Released in vain just now."""
    memory: Memory


def decide(
    nodes: Sequence[HeldNode],
    claims: Mapping[str, Claim] | None,
    memory: Memory,
    *,
    placeholders: int,
    pending: int,
    now: float,
    start_seconds: float,
) -> Decision:
    """Decide which nodes get the label and which lose it.

    Args:
        nodes: where unbound placeholders may go.
        claims: by node; None where they are not known.
        memory: of the decision before.
        placeholders: how many unbound ones there are.
        pending: how many of them fit nowhere.
        now: Unix seconds.
        start_seconds: how long a node takes to start here.
    """
    marked = {node.name: (node, mark) for node in nodes if (mark := parse_mark(node.label)) is not None}
    shrunk_at = now if placeholders < memory.placeholders else memory.shrunk_at
    kinds = {node.kind for node in nodes if node.usable and not node.label and (node.pods or node.held)}
    no_spare = pending > 0 or not placeholders
    take_back, late = _ended(marked, claims, None if no_spare else kinds, now, start_seconds)
    pauses, gave_up, stays = _after_success(memory, nodes, claims), dict(memory.gave_up), list[Stays]()
    for name in late:
        node, mark = marked[name]
        pauses[node.pool, mark.why] = pause = _longer(pauses.get((node.pool, mark.why)), now)
        gave_up[name] = gave_up.get(name, 0) + 1
        stays.append(Stays(name, mark.why, pause.until))
    kept = marked.keys() - {*take_back, *late}
    under_way = {name: (marked[name][0].pool, marked[name][1].why) for name in kept if marked[name][0].usable}
    spare_since = {} if no_spare else _spare_since(nodes, kinds, memory, now)
    due = _due(nodes, claims or {}, now, start_seconds)
    if now - shrunk_at <= SHRUNK_SECONDS:
        spare = (node for node in nodes if now - spare_since.get(node.name, now) >= SPARE_SECONDS)
        due += [(node, ReleaseReason.SPARE, node.created) for node in spare]
    chosen = _chosen(nodes, due, under_way, pauses, gave_up, now) if placeholders else []
    there = {node.name for node in nodes}
    return Decision(
        release=tuple((node.name, ReleaseMark(why, now)) for node, why in chosen),
        take_back=(*take_back, *late),
        stays=tuple(stays),
        memory=Memory(
            placeholders=placeholders,
            shrunk_at=shrunk_at,
            spare_since=spare_since,
            released=under_way | {node.name: (node.pool, why) for node, why in chosen},
            pauses=pauses,
            gave_up={name: count for name, count in gave_up.items() if name in there},
        ),
    )


def _ended(
    marked: Mapping[str, tuple[HeldNode, ReleaseMark]],
    claims: Mapping[str, Claim] | None,
    kinds: Container[int] | None,
    now: float,
    start_seconds: float,
) -> tuple[list[str], list[str]]:
    """Return the released nodes in use that are no longer due, and those that should have gone by now.

    Args:
        marked: the released nodes and what their labels say.
        claims: by node; None where they are not known.
        kinds: of nodes that are in use; None while no node is spare.
        now: Unix seconds.
        start_seconds: how long a node takes to start here.
    """
    take_back, late = list[str](), list[str]()
    for name, (node, mark) in marked.items():
        claim = None if claims is None else claims.get(name)
        if not node.usable or (claim is not None and claim.leaving):
            continue
        if not _is_still_due(node, mark, claim, kinds, claims_known=claims is not None):
            take_back.append(name)
        elif now - mark.since > _patience(mark, claim, start_seconds):
            late.append(name)
    return take_back, late


def expiry_due_at(claim: Claim, start_seconds: float) -> float | None:
    """Return from when on a node is to be released because of its expiry; never in the first half of its life."""
    if claim.expires_at is None:
        return None
    lead = 2 * start_seconds + MARGIN_SECONDS
    return max(claim.expires_at - lead, (claim.created + claim.expires_at) / 2)


def _due(
    nodes: Iterable[HeldNode], claims: Mapping[str, Claim], now: float, start_seconds: float
) -> list[tuple[HeldNode, ReleaseReason, float]]:
    """Return nodes whose NodeClaims want them replaced, with the time that orders them."""
    found = []
    for node in nodes:
        claim = claims.get(node.name)
        if claim is None or claim.leaving or not node.can_hold:
            continue
        due_at = expiry_due_at(claim, start_seconds)
        if due_at is not None and claim.expires_at is not None and due_at <= now:
            found.append((node, ReleaseReason.EXPIRES, claim.expires_at))
        elif claim.drifted_since is not None and now - claim.drifted_since >= DRIFT_SECONDS:
            found.append((node, ReleaseReason.DRIFTED, claim.drifted_since))
    return found


def _chosen(
    nodes: Sequence[HeldNode],
    due: Sequence[tuple[HeldNode, ReleaseReason, float]],
    under_way: Mapping[str, tuple[str, ReleaseReason]],
    pauses: Mapping[tuple[str, ReleaseReason], _Pause],
    gave_up: Mapping[str, int],
    now: float,
) -> list[tuple[HeldNode, ReleaseReason]]:
    """Return what is released now: of each pool no more than a tenth at a time, those aside that expire."""
    sizes: dict[str, int] = {}
    for node in nodes:
        sizes[node.pool] = sizes.get(node.pool, 0) + 1
    left = {pool: max(1, size // 10) for pool, size in sizes.items()}
    for pool, why in under_way.values():
        left[pool] -= why is not ReleaseReason.EXPIRES
    order = {why: number for number, why in enumerate(ReleaseReason)}

    def rank(item: tuple[HeldNode, ReleaseReason, float]) -> tuple[object, ...]:
        node, why, time = item
        return gave_up.get(node.name, 0), order[why], why is ReleaseReason.DRIFTED and node.pods > 0, time, node.name

    chosen: list[tuple[HeldNode, ReleaseReason]] = []
    for node, why, _ in sorted(due, key=rank):
        pause, counts = pauses.get((node.pool, why)), why is not ReleaseReason.EXPIRES
        if node.label or not node.usable or (pause is not None and now < pause.until):
            continue
        if not counts or left[node.pool] > 0:
            left[node.pool] -= counts
            chosen.append((node, why))
    return chosen


def _is_still_due(
    node: HeldNode, mark: ReleaseMark, claim: Claim | None, kinds: Container[int] | None, *, claims_known: bool
) -> bool:
    match mark.why:
        case ReleaseReason.SPARE:  # as soon as the capacity there is needed, it is no longer spare
            return _is_spare(node, kinds)
        case ReleaseReason.DRIFTED:
            return not claims_known or (claim is not None and claim.drifted_since is not None)
        case _:
            return not claims_known or (claim is not None and claim.expires_at is not None)


def _patience(mark: ReleaseMark, claim: Claim | None, start_seconds: float) -> float:
    """Return the seconds after which a released node counts as one that stays."""
    if mark.why is ReleaseReason.SPARE:
        return REMOVED_SECONDS
    waits = REPLACED_SECONDS + 3 * start_seconds
    if mark.why is ReleaseReason.EXPIRES and claim is not None and claim.expires_at is not None:
        waits += max(claim.expires_at - mark.since, 0.0)  # it may stand until then
    return waits


def _is_spare(node: HeldNode, kinds: Container[int] | None) -> bool:
    if kinds is None or node.pods or node.held:
        return False
    return bool(node.pool) or node.kind in kinds


def _spare_since(
    nodes: Iterable[HeldNode], kinds: Container[int] | None, memory: Memory, now: float
) -> dict[str, float]:
    """Return since when nodes have been spare, by name."""
    return {
        node.name: memory.spare_since.get(node.name, now)
        for node in nodes
        if node.usable and node.can_hold and not node.label and _is_spare(node, kinds)
    }


def _after_success(
    memory: Memory, nodes: Iterable[HeldNode], claims: Mapping[str, Claim] | None
) -> dict[tuple[str, ReleaseReason], _Pause]:
    """Return the pauses, without those of pools from which a released node has gone since."""
    stand = {node.name for node in nodes if node.usable}
    leaving = {name for name, claim in (claims or {}).items() if claim.leaving}
    gone = {key for name, key in memory.released.items() if name not in stand or name in leaving}
    return {key: pause for key, pause in memory.pauses.items() if key not in gone}


def _longer(pause: _Pause | None, now: float) -> _Pause:
    failures = 0 if pause is None else pause.failures
    return _Pause(now + min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS), failures + 1)
