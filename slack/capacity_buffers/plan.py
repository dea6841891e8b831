"""What is done about each buffer: its chunk, how many of them, and which bound has cut that.

All buffers are gone through in order of creation, for they share quotas and the ceiling. Pure: what references have
come to, and since when they have come to nothing, is handed in.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slack.capacity_buffers.api import BufferReason, CapacityBuffer, PodTemplateObject, ScaledTarget
from slack.capacity_buffers.ceiling import CeilingLedger
from slack.capacity_buffers.chunks import (
    NO_SPEC,
    Chunk,
    RefusedChunk,
    chunk_of_live,
    chunk_of_template,
    shape_of,
)
from slack.capacity_buffers.plan_memory import NO_ROW, KnownBuffer, PlanMemory
from slack.capacity_buffers.quotas import QuotaLedger, count_allowed, take
from slack.capacity_buffers.sizes import InvalidSize, size_of
from slack.cluster import wire
from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.host_names import has_karpenter_nodes, requires_host
from slack.planner.model.shape import Shape

MOST_CHUNKS = 1000
"""Of one buffer. Its owner is not the one who pays for the nodes, and each chunk is an object."""
MOST_OF_NAMESPACE = 5000
"""Chunks of all buffers of one namespace, so that one tenant cannot flood the API server with pods."""
MISSING_SECONDS = 10.0
"""A reference counts as absent after so long: it may be on its way, and Kueue rejects a workload on this word."""
HOST_REFUSED = f"the template requires {HOSTNAME}: Karpenter brings no node for such pods, and keeps none for them"
RangesOf = Callable[[str], Sequence[wire.LimitRange]]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a buffer has no chunk."""

    reason: BufferReason
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class BufferPlan:
    """What is done about one buffer. It is the same object as in the plan before while nothing of it has changed."""

    buffer: CapacityBuffer
    problem: Unresolved | None = None
    is_waiting: bool = False
    """Its reference has not been found for less than `MISSING_SECONDS`: everything stays as it is."""
    asked: int = 0
    """How many chunks its size is."""
    replicas: int = 0
    """How many of them the bounds leave."""
    limits: tuple[str, ...] = ()
    """Which bounds have cut that, in words."""
    chunk: Chunk | None = None
    shape: Shape | None = None
    """Of its placeholders, whatever their zone."""
    parts: tuple[tuple[Shape, int], ...] = ()
    """Placeholders and their counts: several where chunks are divided among zones."""
    template: str | None = None
    """Name of its PodTemplate."""
    template_generation: int | None = None


def _no_chunks(_: CapacityBuffer, __: Shape) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class BufferInputs:
    """What plans of buffers are made from, beside the buffers and the cluster."""

    templates: Callable[[str, str], PodTemplateObject | None]
    """By namespace and name."""
    targets: Callable[[CapacityBuffer], ScaledTarget | Unresolved | None]
    """What a scalableRef has come to; None while that is not known yet."""
    ranges: RangesOf
    quotas: Sequence[wire.ResourceQuota]
    ceiling: CeilingLedger
    unbound_scheduler: str
    yields_to_markers: bool = False
    tolerates_soft_taint: bool = False
    default_class: str = ""
    """Name of the PriorityClass of pods that name none."""
    overhead_of: "Callable[[str], wire.Quantities | Unresolved | None]" = lambda _: {}
    """What a RuntimeClass adds to a pod, by its name; None while that is not known."""
    missing_seconds: Callable[[CapacityBuffer], float] = lambda _: MISSING_SECONDS
    """For how long the reference of a buffer has not been found, this time included."""
    standing: Callable[[CapacityBuffer, Shape], int] = _no_chunks
    """How many placeholders of a shape a buffer has."""
    memory: PlanMemory = field(default_factory=PlanMemory)


def plan_buffers(snapshot: Snapshot, buffers: Iterable[CapacityBuffer], inputs: BufferInputs) -> tuple[BufferPlan, ...]:
    """Plan for all buffers that are ours to serve, in order."""
    memory, refuses_hosts = inputs.memory, has_karpenter_nodes(snapshot)
    form = (inputs.unbound_scheduler, inputs.yields_to_markers, inputs.tolerates_soft_taint)
    setting = (*form, inputs.default_class, refuses_hosts)
    ordered = memory.in_order(buffers, snapshot.namespaces, setting)
    rows = memory.newest_rows(snapshot)
    asked = [
        _demand_of(snapshot, known, row, inputs, refuses_hosts=refuses_hosts)
        for known, row in zip(ordered, rows, strict=True)
    ]
    ceiling = (inputs.ceiling.ceiling, inputs.ceiling.prices)
    if asked != memory.asked or inputs.quotas != memory.quotas_seen or ceiling != memory.ceiling:
        memory.asked, memory.quotas_seen, memory.ceiling = asked, inputs.quotas, ceiling
        quotas = QuotaLedger.from_quotas(inputs.quotas, memory.quotas)
        counted: Counter[str] = Counter()
        for known, plan in zip(ordered, asked, strict=True):
            _set_bounds(known, plan, quotas, inputs.ceiling, counted)
    for place, known in enumerate(ordered):
        chunk = known.plan.chunk
        if chunk is not None and chunk.zone_spread:
            _divide(snapshot, known, place, inputs)
    return tuple(known.plan for known in ordered)


def _demand_of(
    snapshot: Snapshot, known: KnownBuffer, row: int, inputs: BufferInputs, *, refuses_hosts: bool
) -> BufferPlan:
    """Return what a buffer asks for, without bounds: from memory where that from which it follows is the same."""
    buffer, spec = known.buffer, known.buffer.spec
    found: PodTemplateObject | ScaledTarget | Unresolved | None
    if spec.pod_template_ref is not None:
        found = inputs.templates(known.namespace, spec.pod_template_ref.name)
    elif spec.scalable_ref is not None:
        found = inputs.targets(buffer)
    else:
        text = "neither spec.podTemplateRef nor spec.scalableRef is set"
        return known.remember(BufferPlan(buffer, Unresolved(BufferReason.RESOLUTION_FAILED, text)))
    if found is None or isinstance(found, Unresolved):
        known.source = ()
        return known.remember(_without_chunk(buffer, found, inputs))
    overhead = _overhead_of(found, row, inputs)
    if overhead is None or isinstance(overhead, Unresolved):
        known.source = ()
        return known.remember(BufferPlan(buffer, overhead, is_waiting=overhead is None))
    source = (found, inputs.ranges(known.namespace), overhead)
    if known.asked is not None and known.source == source and _lives_on(snapshot, known, row, inputs.memory):
        return known.asked
    known.source, known.row = source, row
    known.live, known.facts_version = _live_facts(snapshot, row), inputs.memory.facts_version
    try:
        return known.remember(_size_buffer(snapshot, known, row, inputs, refuses_hosts=refuses_hosts))
    except (InvalidSize, RefusedChunk) as error:
        text = str(error)
    except ValueError as error:
        text = f"the pods cannot be read: {error}"
    name, generation = _template_of(found)
    problem = Unresolved(BufferReason.RESOLUTION_FAILED, text)
    return known.remember(BufferPlan(buffer, problem, template=name, template_generation=generation))


def _overhead_of(
    found: PodTemplateObject | ScaledTarget, row: int, inputs: BufferInputs
) -> wire.Quantities | Unresolved | None:
    """Return what the template's RuntimeClass adds; a pod that is there says it itself."""
    if isinstance(found, PodTemplateObject):
        spec = found.template.spec if found.template is not None else None
    else:
        spec = found.spec if row == NO_ROW else None
    name = spec.runtime_class_name if spec is not None else None
    return inputs.overhead_of(name) if name else {}


def _template_of(found: PodTemplateObject | ScaledTarget) -> tuple[str | None, int | None]:
    """Return name and generation of the template that was found, which is told of even if it gives no chunk."""
    if isinstance(found, PodTemplateObject):
        return found.metadata.name, found.metadata.generation or 0
    return None, None


def _lives_on(snapshot: Snapshot, known: KnownBuffer, row: int, memory: PlanMemory) -> bool:
    """Say whether the newest live pod is as it was."""
    if known.row == row and known.facts_version == memory.facts_version:
        return True
    if (known.row == NO_ROW) != (row == NO_ROW) or known.live != _live_facts(snapshot, row):
        return False
    known.row, known.facts_version = row, memory.facts_version
    return True


def _live_facts(snapshot: Snapshot, row: int) -> tuple[object, ...]:
    if row == NO_ROW:
        return ()
    kinds = snapshot.kinds
    constraints = snapshot.constraints[int(kinds.constraint_id[row])]
    return constraints, kinds.requests[row].tobytes(), snapshot.resources, kinds.unoffered[row], kinds.labels[row]


def _size_buffer(
    snapshot: Snapshot, known: KnownBuffer, row: int, inputs: BufferInputs, *, refuses_hosts: bool
) -> BufferPlan:
    """Return chunk, placeholder and size of a buffer whose reference was found.

    Raises:
        ValueError: when one of them cannot be had.
    """
    buffer, (found, ranges, overhead) = known.buffer, known.source
    replicas = None
    template, generation = _template_of(found)
    if isinstance(found, PodTemplateObject):
        own = found.template or wire.PodTemplate()
        labels = (own.metadata.labels if own.metadata is not None else None) or {}
        chunk = chunk_of_template(own.spec or NO_SPEC, labels, ranges, inputs.default_class, overhead)
    else:
        chunk = _chunk_of_target(snapshot, known, row, inputs)
        replicas = found.replicas if row == NO_ROW or found.observed is None else found.observed
    if refuses_hosts and requires_host(chunk.constraints):
        raise InvalidSize(HOST_REFUSED)
    shape = shape_of(
        buffer,
        known.workload,
        chunk,
        snapshot.namespaces,
        unbound_scheduler=inputs.unbound_scheduler,
        yields_to_markers=inputs.yields_to_markers,
        tolerates_soft_taint=inputs.tolerates_soft_taint,
    )
    asked = size_of(buffer.spec, chunk.thousandths, replicas)
    return BufferPlan(
        buffer,
        asked=asked,
        chunk=chunk,
        shape=shape,
        template=template,
        template_generation=generation,
    )


def _chunk_of_target(snapshot: Snapshot, known: KnownBuffer, row: int, inputs: BufferInputs) -> Chunk:
    """Return a chunk like the newest live pod, else like the template.

    Raises:
        ValueError: when there is neither, or the template cannot be read.
    """
    target, ranges, overhead = known.source
    if row != NO_ROW:
        return chunk_of_live(snapshot, row, target.spec, target.labels, inputs.default_class)
    if target.spec is None:
        raise InvalidSize(f"{known.workload} has no live pod, and its kind has no template that is known")
    found = chunk_of_template(target.spec, target.labels, ranges, inputs.default_class, overhead)
    return replace(found, is_live=target.is_of_pod)


def _without_chunk(buffer: CapacityBuffer, found: Unresolved | None, inputs: BufferInputs) -> BufferPlan:
    if found is None and buffer.spec.pod_template_ref is not None:
        text = f"there is no PodTemplate {buffer.namespace}/{buffer.spec.pod_template_ref.name}"
        found = Unresolved(BufferReason.POD_TEMPLATE_NOT_FOUND, text)
    is_absence = found is not None and found.reason is not BufferReason.RESOLUTION_FAILED
    if found is None or (is_absence and inputs.missing_seconds(buffer) < MISSING_SECONDS):
        return BufferPlan(buffer, is_waiting=True)
    return BufferPlan(buffer, found)


def _set_bounds(
    known: KnownBuffer, plan: BufferPlan, quotas: QuotaLedger, ceiling: CeilingLedger, counted: Counter[str]
) -> None:
    """Cut a size to what quotas, the ceiling and our own bounds leave; an equal result stays the same object."""
    if plan.chunk is None:
        known.bounded = known.bounded_of = plan
        return
    most = min(MOST_CHUNKS, max(MOST_OF_NAMESPACE - counted[known.namespace], 0))
    replicas, limits = _apply_bounds(known.namespace, plan.chunk, plan.asked, quotas, ceiling, most)
    counted[known.namespace] += replicas
    before = known.bounded
    if before is not None and known.bounded_of is plan and (before.replicas, before.limits) == (replicas, limits):
        return
    parts = ((plan.shape, replicas),) if plan.shape is not None and replicas else ()
    known.bounded, known.bounded_of = replace(plan, replicas=replicas, limits=limits, parts=parts), plan


def _apply_bounds(
    namespace: str, chunk: Chunk, asked: int, quotas: QuotaLedger, ceiling: CeilingLedger, most: int
) -> tuple[int, tuple[str, ...]]:
    """Return what is left of a size, and what has cut it."""
    is_bounded = namespace in quotas
    if not is_bounded and not ceiling.ceiling and asked <= most:
        return asked, ()
    requests, usage = chunk.thousandths, chunk.usage
    counting = quotas.matching(namespace, chunk.spec, requests) if is_bounded else []
    bounds = ceiling.bounds_of(requests)
    by_quotas, quota_names = count_allowed(counting, usage, asked)
    by_ceiling, bound_names = ceiling.count_allowed(namespace, bounds, asked)
    replicas = min(by_quotas, by_ceiling, most, asked)
    take(counting, usage, replicas)
    ceiling.subtract_chunks(namespace, bounds, replicas)
    if replicas == asked:
        return replicas, ()
    limits = []
    if quota_names:
        limits.append(f"quotas: {', '.join(quota_names)}")
    if bound_names:
        limits.append(f"capacityBuffers.ceiling: {', '.join(bound_names)}")
    if asked > MOST_CHUNKS:
        limits.append(f"resource-slack: {MOST_CHUNKS} chunks a buffer at most")
    if most < min(asked, MOST_CHUNKS):
        limits.append(f"resource-slack: {MOST_OF_NAMESPACE} chunks a namespace at most")
    return replicas, tuple(limits)


def _divide(snapshot: Snapshot, known: KnownBuffer, place: int, inputs: BufferInputs) -> None:
    """Divide chunks among zones, for their pods must spread over these."""
    plan = known.plan
    if plan.chunk is None or plan.shape is None or not plan.replicas:
        return
    kinds = inputs.memory.live.rows_of(place)
    standing = partial(inputs.standing, known.buffer)
    zones, uid = inputs.memory.zones, known.buffer.uid
    parts = zones.divide(snapshot, uid, plan.chunk, plan.shape, plan.replicas, kinds, standing)
    if parts != plan.parts:
        known.bounded = replace(plan, parts=parts)
