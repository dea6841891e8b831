"""Gangs: pods with a schedulingGroup start together or not at all (Kubernetes 1.36+, KEP-4671).

The scheduler preempts for a gang only where all of it then fits, so slack that does not hold a gang whole is of no use
to it, however well it holds each single pod. Such gangs are named among what is uncovered. Their size is that of the
pods that are there; a placeholder never carries the group itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.labels import ANNOTATION_RESERVE
from slack.cluster.snapshot import IntArray, PodKinds, Snapshot
from slack.planner.domain.counting import Counting, standing
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.shape import WantedShape
from slack.planner.wanted.demand import reach_of
from slack.planner.wanted.preemption_blockers import preemption_blockers


@dataclass(frozen=True, slots=True, eq=False)
class _Gang:
    """One scheduling group."""

    name: str
    rows: IntArray
    """Of `Snapshot.kinds`."""
    pods: int
    requests: IntArray
    """[R] of all its pods."""


def _gangs(kinds: PodKinds, rows: IntArray) -> list[_Gang]:
    members: dict[tuple[str, str], list[int]] = {}
    for k in rows.tolist():
        if kinds.gang[k]:
            members.setdefault((kinds.workloads[k].namespace, kinds.gang[k]), []).append(k)
    found = []
    for (_, name), own in sorted(members.items()):
        at = np.array(own, dtype=np.int64)
        pods = kinds.running[at] + kinds.pending[at]
        found.append(_Gang(name, at, int(pods.sum()), pods @ kinds.requests[at]))
    return found


def _slack_for(gang: _Gang, kinds: PodKinds, wanted: Sequence[WantedShape], width: int) -> IntArray:
    """[R] what all placeholders hold that its pods may use: not what is kept for other workloads."""
    names = {str(kinds.workloads[k]) for k in gang.rows.tolist()}
    usable = [w for w in wanted if not w.role.for_named or w.shape.reserved_for in names]
    return sum((w.count * w.vector for w in usable), np.zeros(width, dtype=np.int64))


def gangs_without_room(
    snapshot: Snapshot, domain: Domain, wanted: Sequence[WantedShape], *, counting: Counting, cache: PlanCache
) -> dict[int, str]:
    """Return the kinds whose gangs a policy's slack cannot hold whole, and how much of them it can.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        wanted: all placeholders that the policy should have.
        counting: how each kind counts for the policy.
        cache: of this domain.
    """
    kinds = snapshot.kinds
    if not any(kinds.gang):
        return {}
    reaches = reach_of(snapshot, domain, cache)[1]
    here = cache.compute(standing, snapshot.presence, len(kinds), domain) > 0
    rows = np.flatnonzero(reaches & (here | (kinds.running == 0)) & ~kinds.excluded)
    for _, hindered in preemption_blockers(snapshot, domain, rows, counting, cache):
        rows = np.setdiff1d(rows, hindered)
    reasons: dict[int, str] = {}
    for gang in _gangs(kinds, rows):
        room, asks = _slack_for(gang, kinds, wanted, len(snapshot.resources)), gang.requests > 0
        if gang.pods < 2 or not asks.any() or (room >= gang.requests).all():
            continue
        held = int((room[asks] / gang.requests[asks]).min() * gang.pods)
        reason = (
            f"its gang {gang.name} is {gang.pods} pods, which start together or not at all, and all slack wanted here "
            f"has room for {held} of them: annotate it with {ANNOTATION_RESERVE} for room for all"
        )
        reasons |= dict.fromkeys(gang.rows.tolist(), reason)
    return reasons
