"""From pods, and templates of pods that are promised, to bursts.

A burst is what the scheduler would treat alike: equal requests, constraints and priority, whoever owns the pods. What a
pod says that no choice of nodes can answer for is a reason to leave it to the scheduler, and rather once too often.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.constraints import needed_features, parse_constraints
from slack.cluster.labels import HOSTNAME
from slack.cluster.requests import effective_requests
from slack.cluster.selectors import resolved, selects
from slack.cluster.tables.kind_table import unchecked_of
from slack.cluster.unchecked import unchecked
from slack.planner.burst_eviction.admission import Quotas, with_defaults, within
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst, left_alone_for
from slack.planner.burst_eviction.promises import Promise


@dataclass(frozen=True, slots=True)
class PodPriorities:
    """What pods get from their PriorityClass; admission writes it into pods, not into templates."""

    by_name: Mapping[str, tuple[int, bool]]
    """Value, and whether its pods may preempt."""
    default: tuple[int, bool] = (0, True)
    """Of the class that is the global default."""

    def priority_of(self, spec: wire.PodSpec) -> tuple[int, bool]:
        """Return a pod's priority and whether it may preempt."""
        name = spec.priority_class_name
        value, preempts = self.by_name.get(name, (0, True)) if name else self.default
        value = spec.priority if spec.priority is not None else value
        return value, spec.preemption_policy != "Never" and (bool(spec.preemption_policy) or preempts)

    def admits(self, spec: wire.PodSpec) -> bool:
        """Say whether admission takes pods of a template: it refuses a class that there is none of, and other values.

        So does kube-apiserver (plugin/pkg/admission/priority admitPod); a pod that is there says what it was given.
        """
        name = spec.priority_class_name
        if name and name not in self.by_name:
            return False
        value, preempts = self.by_name[name] if name else self.default
        policy = "PreemptLowerPriority" if preempts else "Never"
        return spec.priority in (None, value) and spec.preemption_policy in (None, "", policy)


def burst_of_pod(pod: wire.Pod, key: str, classes: PodPriorities, scheduler: str = "default-scheduler") -> PodBurst:
    """Return a pod without a node as a burst of one.

    Args:
        pod: neither finished nor being deleted.
        key: what it belongs to, as `shop/deploy/api`.
        classes: of the cluster.
        scheduler: of the placeholders.

    Raises:
        ValueError: when the pod cannot be read.
    """
    spec, status = pod.spec or wire.PodSpec(), pod.status
    burst = _burst(spec, status, pod.metadata.labels or {}, key, classes, scheduler)
    return replace(burst, node=(status.nominated_node_name or None) if status is not None else None)


def burst_of_promise(
    promise: Promise,
    classes: PodPriorities,
    scheduler: str = "default-scheduler",
    ranges: Sequence[wire.LimitRange] = (),
    quotas: Quotas | None = None,
) -> PodBurst:
    """Return what an owner is about to make as a burst: of 0 pods where admission lets none in, or none would wait.

    Args:
        promise: with its template.
        classes: of the cluster.
        scheduler: of the placeholders.
        ranges: LimitRanges of the promise's namespace.
        quotas: what is left of ResourceQuotas; what is promised is taken off.

    Raises:
        ValueError: when the template cannot be read.
    """
    template = promise.template
    spec = with_defaults(template.spec or wire.PodSpec(), ranges)
    labels = (template.metadata.labels if template.metadata is not None else None) or {}
    burst = _burst(spec, None, labels, promise.key, classes, scheduler)
    count = promise.count
    # Whoever names his node passes the scheduler by.
    if spec.node_name or not (classes.admits(spec) and within(spec, ranges)):
        count = 0
    elif quotas is not None:
        count = quotas.granted(promise.namespace, spec, promise.count)
    refused = LeftAlone.QUOTA if promise.count and not count else None
    return replace(burst, count=count, left_alone=burst.left_alone or refused)


def _burst(
    spec: wire.PodSpec,
    status: wire.PodStatus | None,
    labels: Mapping[str, str],
    key: str,
    classes: PodPriorities,
    scheduler: str,
) -> PodBurst:
    constraints = parse_constraints(
        bytes(spec.node_selector),
        bytes(spec.affinity),
        bytes(spec.tolerations),
        bytes(spec.topology_spread_constraints),
        spec.scheduler_name,
        spec.runtime_class_name,
        needed_features(spec),
    )
    priority, preempts = classes.priority_of(spec)
    apart = _apart(constraints, labels)
    among = left_alone_for(unchecked(unchecked_of(spec), constraints, kept_apart=apart is not None))
    reason = None
    if spec.is_gated():
        reason = LeftAlone.GATED
    elif not preempts:
        reason = LeftAlone.NEVER_PREEMPTS
    elif among is not None:
        reason = among
    elif status is not None and status.nominated_node_name:
        reason = LeftAlone.NOMINATED
    elif constraints.scheduler_name != scheduler:  # the last: callers that know other schedulers judge it anew
        reason = LeftAlone.SCHEDULER
    return PodBurst(
        key=key,
        requests=tuple(sorted(effective_requests(spec, status).items())),
        constraints=constraints,
        count=1,
        priority=priority,
        whole=spec.scheduling_group is not None and bool(spec.scheduling_group.pod_group_name),
        one_a_node=bool(apart),
        left_alone=reason,
    )


def _apart(constraints: Constraints, labels: Mapping[str, str]) -> bool | None:
    """Say whether the pods avoid one another on a node; None where they avoid others too, or over other domains."""
    if not constraints.anti_affinity:
        return False
    for term in json.loads(constraints.anti_affinity):
        # An empty namespaceSelector is every namespace; mismatchLabelKeys are pods that differ from these.
        others = "namespaceSelector" in term or term.get("namespaces") or term.get("mismatchLabelKeys")
        if others or term.get("topologyKey") != HOSTNAME:
            return None
        selector = resolved(term, labels).get("labelSelector")
        if not (_names_one(selector) and selects(selector, labels)):
            return None
    return True


def _names_one(selector: Mapping[str, Any] | None) -> bool:
    """Say whether a selector asks for the one value of some label: of others than its own pods it asks for none."""
    selector = selector or {}
    asked = [(each.get("operator"), each.get("values") or ()) for each in selector.get("matchExpressions") or ()]
    return all(operator == "In" and len(values) == 1 for operator, values in asked) and bool(
        asked or selector.get("matchLabels")
    )
