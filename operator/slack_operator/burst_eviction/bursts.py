"""Groups pods without a node, and pods that owners are about to create, into bursts of equal pods."""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slack.cluster.wire import LimitRange, ResourceQuota
from slack.planner.burst_eviction.admission import Quotas
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst
from slack.planner.burst_eviction.pods import burst_of_promise
from slack.planner.burst_eviction.promises import Promise
from slack_operator.burst_eviction.policy_scopes import PolicyScopes
from slack_operator.placeholders.view.owners import Outstanding
from slack_operator.placeholders.view.unplaced import Asked, Unplaced

log = logging.getLogger(__name__)

MOST_KINDS = 128
"""Kinds of pods without a node that are looked at in one turn, the most frequent of those that way may be made for, and
as many promises: any tenant can make each pod of another size. The others take no free room then, so that rather fewer
placeholders leave."""

IsAllowed = Callable[[str, str], bool]
"""Whether way is made for a workload, by its key and namespace."""


@dataclass(frozen=True, slots=True)
class OwnedBurst:
    """A burst, and whose it is."""

    burst: PodBurst
    key: str
    """`shop/deploy/api`"""
    namespace: str
    promised: int = 0
    """How many of its pods are not there yet."""
    since: float | None = None
    """When the first of its pods was seen, monotonic; None where none is there."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """What admission says of promised pods, in their namespaces."""

    quotas: Sequence[ResourceQuota] = ()
    ranges: Sequence[LimitRange] = ()


def keys_with_anti_affinity(promised: Iterable[Outstanding]) -> frozenset[str]:
    """Return whose promised pods may avoid one another on a node, by key: where they are is to be known."""
    return frozenset(
        known.promise.key
        for known in promised
        if known.promise.template.spec is not None and b"podAntiAffinity" in bytes(known.promise.template.spec.affinity)
    )


def gather_bursts(
    pods: Iterable[Unplaced],
    promised: Iterable[Outstanding],
    scopes: PolicyScopes,
    is_allowed: IsAllowed,
    admitting: AdmissionLimits,
    nodes_of: Mapping[str, frozenset[str]],
) -> tuple[OwnedBurst, ...]:
    """Return the bursts, no two of one workload of equal pods; those that are left alone are among them.

    Args:
        pods: that have no node.
        promised: what owners are about to make.
        scopes: the policies.
        is_allowed: for whom way is made.
        admitting: for promised pods.
        nodes_of: names of nodes where workloads of `keys_with_anti_affinity` have pods, by key.
    """
    found: dict[object, OwnedBurst] = {}
    expected = list(_promised_bursts(promised, scopes, admitting))
    scopes = scopes.with_promises(promise for promise, _ in expected)
    for asked, (count, since) in _most_frequent(pods):
        burst = PodBurst(
            key=asked.key,
            requests=asked.requests,
            constraints=asked.constraints,
            count=count,
            priority=asked.priority,
            whole=bool(asked.gang),
            node=asked.node,
            left_alone=asked.left_alone,
        )
        judged = _with_exclusion(burst, asked.namespace, scopes, is_allowed)
        _merge_burst(found, OwnedBurst(judged, asked.key, asked.namespace, 0, since))
    for promise, burst in expected:
        if burst.one_a_node:
            burst = replace(burst, barred=nodes_of.get(promise.key, frozenset()))
        if burst.count:
            judged = _with_exclusion(burst, promise.namespace, scopes, is_allowed)
            _merge_burst(found, OwnedBurst(judged, promise.key, promise.namespace, burst.count))
    return tuple(_with_unique_key(wanted) for wanted in found.values())


def _most_frequent(pods: Iterable[Unplaced]) -> list[tuple[Asked, tuple[int, float]]]:
    """Count equal pods, with the time since which the first of them waits; at most `MOST_KINDS`.

    Those for which way may be made come first, then the most frequent ones.
    """
    counts: dict[Asked, tuple[int, float]] = {}
    for pod in pods:
        count, since = counts.get(pod.asked, (0, pod.since))
        counts[pod.asked] = (count + 1, min(since, pod.since))
    return heapq.nlargest(MOST_KINDS, counts.items(), key=lambda item: (item[0].left_alone is None, item[1][0]))


def _promised_bursts(
    promised: Iterable[Outstanding], scopes: PolicyScopes, admitting: AdmissionLimits
) -> Iterator[tuple[Promise, PodBurst]]:
    """Yield what the largest promises come to after admission; one whose template cannot be read is left out."""
    quotas = Quotas(admitting.quotas)
    ranges: dict[str, list[LimitRange]] = {}
    for own in admitting.ranges:
        ranges.setdefault(own.metadata.namespace or "", []).append(own)
    scheduler = min(scopes.schedulers, default="")
    for known in heapq.nlargest(MOST_KINDS, promised, key=lambda known: known.left):
        promise = replace(known.promise, count=known.left)
        try:
            burst = burst_of_promise(promise, scopes.classes, scheduler, ranges.get(promise.namespace, ()), quotas)
        except ValueError as error:
            log.debug("a template cannot be read, its pods are not waited for: %s: %s", promise.key, error)
            continue
        if burst.left_alone is LeftAlone.SCHEDULER:
            burst = replace(burst, left_alone=None)  # judged by all policies' schedulers
        yield promise, burst


def _with_exclusion(burst: PodBurst, namespace: str, scopes: PolicyScopes, is_allowed: IsAllowed) -> PodBurst:
    if burst.left_alone is not None:
        return burst
    if burst.constraints.scheduler_name not in scopes.schedulers:
        return replace(burst, left_alone=LeftAlone.SCHEDULER)
    if burst.key in scopes.avoided:
        return replace(burst, left_alone=LeftAlone.AMONG_PODS)
    return burst if is_allowed(burst.key, namespace) else replace(burst, left_alone=LeftAlone.NO_FIT)


def _merge_burst(found: dict[object, OwnedBurst], wanted: OwnedBurst) -> None:
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


def _with_unique_key(wanted: OwnedBurst) -> OwnedBurst:
    """Give the burst a key of its own that stays the same from turn to turn."""
    burst = wanted.burst
    other = repr(replace(burst, key="", count=0)).encode()  # a tenant who finds two of one digest has room held twice
    return replace(wanted, burst=replace(burst, key=f"{wanted.key}#{hashlib.sha256(other).hexdigest()[:16]}"))


def has_several_pods(wanted: Sequence[OwnedBurst]) -> bool:
    """Whether there may be more pods that way is made for than one."""
    return sum(own.burst.count for own in wanted if own.burst.left_alone is None) > 1
