"""One chunk of a buffer: what it requests and where it may go, and the placeholder that holds its capacity free.

A chunk is like the newest live pod of the workload, as admission has made it. Without a live pod it is like the
template, with the defaults that the API server and the namespace's LimitRanges would give. Nothing else of a pod is
taken over: no labels, volumes, claims, probes, account, limits, ports or priority.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from slack.capacity_buffers.api import CapacityBuffer
from slack.capacity_buffers.quotas import quota_usage
from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.constraints import needed_features, parse_constraints
from slack.cluster.labels import HOSTNAME
from slack.cluster.quantity import rounded
from slack.cluster.requests import amounts_of, effective_requests
from slack.cluster.selectors import Namespaces
from slack.cluster.snapshot import BoolArray, Snapshot, Workload
from slack.cluster.tables.interning import LONGEST_RULES
from slack.errors import InvalidInput
from slack.planner.burst_eviction.admission import with_defaults, within
from slack.planner.model.shape import Shape
from slack.planner.wanted.mirror_template import (
    label_value,
    own_spread,
    rewrite_anti_affinity,
    rewrite_pod_affinity,
    rewrite_spread,
)

NO_SPEC = wire.PodSpec()


class RefusedChunk(InvalidInput):
    """Admission would not let such a pod in."""


@dataclass(frozen=True)
class Chunk:
    """What one chunk of a buffer is."""

    requests: Mapping[str, int]
    """cpu in millicores, everything else in base units."""
    constraints: Constraints
    labels: Mapping[str, str]
    """Of the pods that it stands for."""
    spec: wire.PodSpec
    """Of the template, for the scopes of quotas."""
    is_live: bool = False
    """Whether a live pod has decided."""
    overhead: Mapping[str, int] = field(default_factory=dict)
    """Of its RuntimeClass, in the units of `requests`, which do not have it: admission adds it to the placeholder."""

    @cached_property
    def total(self) -> dict[str, int]:
        """Return what one takes of a node: requests and overhead."""
        names = {**self.requests, **self.overhead}
        return {name: self.requests.get(name, 0) + self.overhead.get(name, 0) for name in names}

    @cached_property
    def thousandths(self) -> dict[str, int]:
        """Return what one takes in thousandths of base units."""
        return {name: amount if name == "cpu" else amount * 1000 for name, amount in self.total.items()}

    @cached_property
    def usage(self) -> dict[str, int]:
        """Return what it uses of each name that a quota may have, in thousandths."""
        return quota_usage(self.thousandths)

    @cached_property
    def zone_spread(self) -> list[dict[str, Any]]:
        """Return the hard spread constraints that count pods like it, but for those over hosts."""
        own = own_spread(self.constraints.topology_spread, self.labels)
        return [each for each in own if each.get("topologyKey") != HOSTNAME]


def chunk_of_template(
    spec: wire.PodSpec,
    labels: Mapping[str, str],
    ranges: Sequence[wire.LimitRange] = (),
    default_class: str = "",
    overhead: wire.Quantities | None = None,
) -> Chunk:
    """Return a chunk as its template and admission make it.

    Args:
        spec: of the template, or of a pod.
        labels: of the template.
        ranges: of the namespace.
        default_class: PriorityClass of pods that name none.
        overhead: of the RuntimeClass that the template names.

    Raises:
        ValueError: when a quantity or a scheduling constraint cannot be read, or a LimitRange admits no such pod.
    """
    admitted = _with_class(with_defaults(spec, ranges), default_class)
    if not within(admitted, ranges):
        raise RefusedChunk(f"a LimitRange admits no such pod: {', '.join(sorted(own.metadata.name for own in ranges))}")
    if spec.runtime_class_name:
        admitted = msgspec.structs.replace(admitted, overhead=wire.ABSENT)
    amounts = {
        name: rounded(name, amount)
        for name, amount in amounts_of("overhead.podFixed", overhead).items()
        if amount > 0 and spec.runtime_class_name
    }
    requests, constraints = effective_requests(admitted), _constraints(admitted)
    return Chunk(requests, constraints, dict(labels), admitted, overhead=amounts)


def _with_class(spec: wire.PodSpec, default_class: str) -> wire.PodSpec:
    if spec.priority_class_name or not default_class:
        return spec
    return msgspec.structs.replace(spec, priority_class_name=default_class)


def _constraints(spec: wire.PodSpec) -> Constraints:
    """Read where a template's pods may go.

    Raises:
        ValueError: when that is too long, or no such thing.
    """
    selector, affinity = bytes(spec.node_selector), bytes(spec.affinity)
    tolerations, spread = bytes(spec.tolerations), bytes(spec.topology_spread_constraints)
    if len(selector) + len(affinity) + len(tolerations) + len(spread) > LONGEST_RULES:
        raise ValueError(f"scheduling constraints of more than {LONGEST_RULES} bytes")
    try:
        runtime_class = spec.runtime_class_name
        return parse_constraints(selector, affinity, tolerations, spread, None, runtime_class, needed_features(spec))
    except msgspec.DecodeError as error:
        raise ValueError(f"scheduling constraints: {error}") from None


def chunk_of_live(
    snapshot: Snapshot,
    row: int,
    template: wire.PodSpec | None,
    labels: Mapping[str, str],
    default_class: str = "",
) -> Chunk:
    """Return a chunk as the newest pod of a kind is.

    Args:
        snapshot: the cluster.
        row: of the kind.
        template: of the workload, where it is known.
        labels: of the template.
        default_class: PriorityClass of pods that name none.
    """
    kinds = snapshot.kinds
    amounts = {name: int(value) for name, value in zip(snapshot.resources, kinds.requests[row], strict=True) if value}
    # What a runtime class's admission adds, a pod that is there has already.
    constraints = replace(snapshot.constraints[int(kinds.constraint_id[row])], runtime_class="")
    own = {**labels, **dict(kinds.labels[row])}
    spec = _with_class(template or NO_SPEC, default_class)
    return Chunk(amounts | dict(kinds.unoffered[row]), constraints, own, spec, is_live=True)


def shape_of(
    buffer: CapacityBuffer,
    workload: Workload | None,
    chunk: Chunk,
    namespaces: Namespaces,
    *,
    unbound_scheduler: str,
    yields_to_markers: bool = False,
    tolerates_soft_taint: bool = False,
) -> Shape:
    """Return the placeholder of a chunk.

    Args:
        buffer: whose chunk it is.
        workload: that the buffer's `scalableRef` names; None for a PodTemplate.
        chunk: as it was resolved.
        namespaces: labels of the namespaces.
        unbound_scheduler: the schedulerName of unbound placeholders.
        yields_to_markers: whether nodes are released by marker pods.
        tolerates_soft_taint: whether nodes that hold unbound placeholders get a taint.
    """
    constraints, namespace, labels = chunk.constraints, buffer.namespace, dict(chunk.labels)
    about = str(workload) if workload is not None else f"{namespace}/cb/{buffer.metadata.name}"
    value = label_value(about)
    anti_affinity = rewrite_anti_affinity(constraints.anti_affinity, namespace, labels, value, namespaces)
    shape = Shape(
        requests=tuple(sorted((name, amount) for name, amount in chunk.requests.items() if amount > 0)),
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=tuple(sorted({own for own in constraints.tolerations if own.key})),  # no blanket one
        anti_affinity=anti_affinity,
        pod_affinity=rewrite_pod_affinity(constraints.pod_affinity, namespace, labels),
        unbound_scheduler=unbound_scheduler,
        yields_to_markers=yields_to_markers,
        tolerates_soft_taint=tolerates_soft_taint,
    )
    spread = rewrite_spread(constraints.topology_spread, labels, value, shape.form)
    named = about if anti_affinity or spread else ""  # others need not be told apart, and keep their names
    return replace(shape, topology_spread=spread, runtime_class=constraints.runtime_class, reserved_for=named)


def could_hold(snapshot: Snapshot, requests: Mapping[str, int], reach: BoolArray) -> bool:
    """Say whether some node, if it were empty but for its daemons, could hold a chunk.

    Args:
        snapshot: the cluster.
        requests: of the chunk.
        reach: [NC] which node classes admit it.
    """
    if any(amount > 0 and name not in snapshot.resources for name, amount in requests.items()):
        return False
    asked = np.array([requests.get(name, 0) for name in snapshot.resources], dtype=np.int64)
    nodes = snapshot.nodes
    room = nodes.allocatable - nodes.daemon
    fits = (room >= asked).all(axis=1) & reach[nodes.class_id]
    return bool(fits.any())
