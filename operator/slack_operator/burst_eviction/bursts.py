"""Bursts of what is seen: pods without a node, and those that owners have promised, gathered by what they ask for."""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slack.cluster.wire import LimitRange, ResourceQuota
from slack.planner.burst_eviction.admission import Quotas
from slack.planner.burst_eviction.burst import Burst, LeftAlone
from slack.planner.burst_eviction.pods import burst_of_promise
from slack_operator.burst_eviction.policy_scopes import Sites
from slack_operator.placeholders.owners import Outstanding
from slack_operator.placeholders.unplaced import Asked, Unplaced

log = logging.getLogger(__name__)

MOST_KINDS = 128
"""Kinds of pods without a node that are looked at in one turn, the most frequent of those that way may be made for, and
as many promises: any tenant can make each pod of another size. The others take no free room then, so that rather fewer
placeholders leave."""

Trusts = Callable[[str, str], bool]
"""Whether way is made for a workload, by its key and namespace."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A burst, and whose it is."""

    burst: Burst
    key: str
    """`shop/deploy/api`"""
    namespace: str
    promised: int = 0
    """How many of its pods are not there yet."""
    since: float | None = None
    """When the first of its pods was seen, monotonic; None where none is there."""


@dataclass(frozen=True, slots=True)
class Admitting:
    """What admission says of promised pods, in their namespaces."""

    quotas: Sequence[ResourceQuota] = ()
    ranges: Sequence[LimitRange] = ()


def apart(promised: Iterable[Outstanding]) -> frozenset[str]:
    """Return whose promised pods may avoid one another on a node, by key: where they are is to be known."""
    return frozenset(
        known.promise.key
        for known in promised
        if known.promise.template.spec is not None and b"podAntiAffinity" in bytes(known.promise.template.spec.affinity)
    )


def gathered(
    pods: Iterable[Unplaced],
    promised: Iterable[Outstanding],
    sites: Sites,
    trusts: Trusts,
    admitting: Admitting,
    nodes_of: Mapping[str, frozenset[str]],
) -> tuple[Wanted, ...]:
    """Return the bursts, no two of one workload of equal pods; those that are left alone are among them.

    Args:
        pods: that have no node.
        promised: what owners are about to make.
        sites: the policies.
        trusts: for whom way is made.
        admitting: for promised pods.
        nodes_of: names of nodes where workloads of `apart` have pods, by key.
    """
    quotas = Quotas(admitting.quotas)
    ranges: dict[str, list[LimitRange]] = {}
    for own in admitting.ranges:
        ranges.setdefault(own.metadata.namespace or "", []).append(own)
    found: dict[object, Wanted] = {}
    counts: dict[Asked, tuple[int, float]] = {}
    for pod in pods:
        count, since = counts.get(pod.asked, (0, pod.since))
        counts[pod.asked] = (count + 1, min(since, pod.since))
    for asked, (count, since) in heapq.nlargest(
        MOST_KINDS, counts.items(), key=lambda item: (item[0].left_alone is None, item[1][0])
    ):
        burst = Burst(
            key=asked.key,
            requests=asked.requests,
            constraints=asked.constraints,
            count=count,
            priority=asked.priority,
            whole=bool(asked.gang),
            node=asked.node,
            left_alone=asked.left_alone,
        )
        _add(found, Wanted(_judged(burst, asked.namespace, sites, trusts), asked.key, asked.namespace, 0, since))
    for known in heapq.nlargest(MOST_KINDS, promised, key=lambda known: known.left):
        promise = replace(known.promise, count=known.left)
        try:
            scheduler, limits = next(iter(sorted(sites.schedulers)), ""), ranges.get(promise.namespace, ())
            burst = burst_of_promise(promise, sites.classes, scheduler, limits, quotas)
        except ValueError as error:
            log.debug("a template cannot be read, its pods are not waited for: %s: %s", promise.key, error)
            continue
        if burst.left_alone is LeftAlone.SCHEDULER:
            burst = replace(burst, left_alone=None)  # judged below, by all policies' schedulers
        if burst.one_a_node:
            burst = replace(burst, barred=nodes_of.get(promise.key, frozenset()))
        if burst.count:
            judged = _judged(burst, promise.namespace, sites, trusts)
            _add(found, Wanted(judged, promise.key, promise.namespace, burst.count))
    return tuple(_named(wanted) for wanted in found.values())


def _judged(burst: Burst, namespace: str, sites: Sites, trusts: Trusts) -> Burst:
    if burst.left_alone is not None:
        return burst
    if burst.constraints.scheduler_name not in sites.schedulers:
        return replace(burst, left_alone=LeftAlone.SCHEDULER)
    return burst if trusts(burst.key, namespace) else replace(burst, left_alone=LeftAlone.NO_FIT)


def _add(found: dict[object, Wanted], wanted: Wanted) -> None:
    alike = replace(wanted.burst, count=0)
    first = found.get(alike)
    if first is None:
        found[alike] = wanted
        return
    count = first.burst.count + wanted.burst.count
    since = first.since if wanted.since is None else wanted.since
    found[alike] = replace(
        first, burst=replace(first.burst, count=count), promised=first.promised + wanted.promised, since=since
    )


def _named(wanted: Wanted) -> Wanted:
    """Give the burst a key of its own that stays the same from turn to turn."""
    burst = wanted.burst
    other = repr(replace(burst, key="", count=0)).encode()  # a tenant who finds two of one digest has room held twice
    return replace(wanted, burst=replace(burst, key=f"{wanted.key}#{hashlib.sha256(other).hexdigest()[:16]}"))


def worth_a_look(wanted: Sequence[Wanted]) -> bool:
    """Whether there may be more pods that way is made for than one."""
    return sum(own.burst.count for own in wanted if own.burst.left_alone is None) > 1
