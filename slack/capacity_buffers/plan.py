"""What is done about each buffer: its chunk, how many of them, and which bound has cut that.

All buffers are gone through in order of creation, for they share quotas and the ceiling. Pure: what references have
come to, and since when they have come to nothing, is handed in.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.capacity_buffers.api import BufferReason, CapacityBuffer, PodTemplateObject, ScaledTarget
from slack.capacity_buffers.ceiling import CeilingLedger
from slack.capacity_buffers.chunks import NO_SPEC, Chunk, chunk_of_live, chunk_of_template, live_kinds, shape_of
from slack.capacity_buffers.quotas import QuotaLedger
from slack.capacity_buffers.sizes import InvalidSize, size_of
from slack.cluster import wire
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.snapshot import Snapshot, Workload
from slack.planner.model.shape import Shape

MOST_CHUNKS = 1000
"""Of one buffer. Its owner is not the one who pays for the nodes, and each chunk is an object."""
MISSING_SECONDS = 10.0
"""A reference counts as absent after so long: it may be on its way, and Kueue rejects a workload on this word."""
RangesOf = Callable[[str], Iterable[wire.LimitRange]]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a buffer has no chunk."""

    reason: BufferReason
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class BufferPlan:
    """What is done about one buffer."""

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
    template: str | None = None
    """Name of its PodTemplate."""
    template_generation: int | None = None


class PlanMemory:
    """Chunk and shape of each buffer, while that from which they were made is the same value."""

    def __init__(self) -> None:
        """Begin with no memory."""
        self._known: dict[str, tuple[tuple[object, ...], tuple[Chunk, Shape]]] = {}

    def recall(
        self, uid: str, source: tuple[object, ...], make: Callable[[], tuple[Chunk, Shape]]
    ) -> tuple[Chunk, Shape]:
        """Return what was made from the same, else make it.

        Args:
            uid: of the buffer.
            source: from what it is made.
            make: makes it.
        """
        known = self._known.get(uid)
        if known is not None and len(known[0]) == len(source) and all(map(_is_same, known[0], source)):
            return known[1]
        made = make()
        self._known[uid] = (source, made)
        return made

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget buffers that are gone."""
        if self._known.keys() - uids:
            self._known = {uid: known for uid, known in self._known.items() if uid in uids}


def _is_same(one: object, other: object) -> bool:
    return one is other or one == other


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
    missing_seconds: Callable[[CapacityBuffer], float] = lambda _: MISSING_SECONDS
    """For how long the reference of a buffer has not been found, this time included."""
    memory: PlanMemory = field(default_factory=PlanMemory)


@dataclass(frozen=True, slots=True)
class _Resolved:
    source: tuple[object, ...]
    """From what the chunk is made, beside the buffer."""
    make: Callable[[], Chunk]
    workload: Workload | None = None
    replicas: int | None = None
    template: str | None = None
    template_generation: int | None = None


def target_workload(buffer: CapacityBuffer) -> Workload | None:
    """Name the workload that a buffer's scalableRef means, as its pods are told apart; None where it has none."""
    reference = buffer.spec.scalable_ref
    if reference is None:
        return None
    kind = SHORT_KINDS.get(reference.kind) or reference.kind.lower()
    return Workload(buffer.namespace, kind, reference.name)


def plan_buffers(snapshot: Snapshot, buffers: Iterable[CapacityBuffer], inputs: BufferInputs) -> tuple[BufferPlan, ...]:
    """Plan for all buffers that are ours to serve, in order."""
    ordered = sorted(buffers, key=lambda buffer: buffer.order)
    live = live_kinds(snapshot, [found for own in ordered if (found := target_workload(own)) is not None])
    quotas = QuotaLedger.of(inputs.quotas)
    return tuple(_plan_buffer(snapshot, own, inputs, live, quotas) for own in ordered)


def _plan_buffer(
    snapshot: Snapshot,
    buffer: CapacityBuffer,
    inputs: BufferInputs,
    live: Mapping[Workload, int],
    quotas: QuotaLedger,
) -> BufferPlan:
    try:
        found = _resolve(snapshot, buffer, inputs, live)
        if found is None or isinstance(found, Unresolved):
            return _without_chunk(buffer, found, inputs)
        chunk, shape = _chunk_and_shape(snapshot, buffer, inputs, found)
        asked = size_of(buffer.spec, chunk.thousandths, found.replicas)
    except InvalidSize as error:
        return BufferPlan(buffer, Unresolved(BufferReason.RESOLUTION_FAILED, str(error)))
    except ValueError as error:
        return BufferPlan(buffer, Unresolved(BufferReason.RESOLUTION_FAILED, f"the pods cannot be read: {error}"))
    replicas, limits = _apply_bounds(buffer.namespace, chunk, asked, quotas, inputs.ceiling)
    return BufferPlan(
        buffer,
        asked=asked,
        replicas=replicas,
        limits=limits,
        chunk=chunk,
        shape=shape,
        template=found.template,
        template_generation=found.template_generation,
    )


def _chunk_and_shape(
    snapshot: Snapshot, buffer: CapacityBuffer, inputs: BufferInputs, found: _Resolved
) -> tuple[Chunk, Shape]:
    """Return chunk and placeholder of a buffer, from memory where nothing has changed."""

    def make() -> tuple[Chunk, Shape]:
        chunk = found.make()
        return chunk, shape_of(
            buffer,
            found.workload,
            chunk,
            snapshot.namespaces,
            unbound_scheduler=inputs.unbound_scheduler,
            yields_to_markers=inputs.yields_to_markers,
        )

    source = (found.workload, snapshot.namespaces, inputs.unbound_scheduler, inputs.yields_to_markers, *found.source)
    return inputs.memory.recall(buffer.uid, source, make)


def _without_chunk(buffer: CapacityBuffer, found: Unresolved | None, inputs: BufferInputs) -> BufferPlan:
    is_absence = found is not None and found.reason is not BufferReason.RESOLUTION_FAILED
    if found is None or (is_absence and inputs.missing_seconds(buffer) < MISSING_SECONDS):
        return BufferPlan(buffer, is_waiting=True)
    return BufferPlan(buffer, found)


def _resolve(
    snapshot: Snapshot, buffer: CapacityBuffer, inputs: BufferInputs, live: Mapping[Workload, int]
) -> _Resolved | Unresolved | None:
    if buffer.spec.pod_template_ref is not None:
        return _of_template(buffer, buffer.spec.pod_template_ref.name, inputs)
    workload = target_workload(buffer)
    if workload is None:
        text = "neither spec.podTemplateRef nor spec.scalableRef is set"
        return Unresolved(BufferReason.RESOLUTION_FAILED, text)
    target = inputs.targets(buffer)
    if target is None or isinstance(target, Unresolved):
        return target
    row, template = live.get(workload), target.spec
    if row is not None:
        kinds = snapshot.kinds
        live_source = (kinds.requests[row].tobytes(), snapshot.resources, kinds.unoffered[row], kinds.labels[row])
        constraints = snapshot.constraints[int(kinds.constraint_id[row])]
        return _Resolved(
            (template, target.labels, constraints, *live_source),
            lambda: chunk_of_live(snapshot, row, template, target.labels),
            workload,
            target.replicas,
        )
    if template is None:
        text = f"{workload} has no live pod, and its kind has no template that is known"
        return Unresolved(BufferReason.RESOLUTION_FAILED, text)
    ranges = tuple(inputs.ranges(buffer.namespace))
    source = (template, target.labels, *ranges)
    return _Resolved(source, lambda: chunk_of_template(template, target.labels, ranges), workload, target.replicas)


def _of_template(buffer: CapacityBuffer, name: str, inputs: BufferInputs) -> _Resolved | Unresolved:
    found = inputs.templates(buffer.namespace, name)
    if found is None:
        text = f"there is no PodTemplate {buffer.namespace}/{name}"
        return Unresolved(BufferReason.POD_TEMPLATE_NOT_FOUND, text)
    own = found.template or wire.PodTemplate()
    labels = (own.metadata.labels if own.metadata is not None else None) or {}
    ranges = tuple(inputs.ranges(buffer.namespace))
    return _Resolved(
        (own, *ranges),
        lambda: chunk_of_template(own.spec or NO_SPEC, labels, ranges),
        template=name,
        template_generation=found.metadata.generation or 0,
    )


def _apply_bounds(
    namespace: str, chunk: Chunk, asked: int, quotas: QuotaLedger, ceiling: CeilingLedger
) -> tuple[int, tuple[str, ...]]:
    """Return what quotas, the ceiling and our own bound leave of a size, and what has cut it."""
    requests, is_bounded = chunk.thousandths, namespace in quotas
    if not is_bounded and not ceiling.ceiling and asked <= MOST_CHUNKS:
        return asked, ()
    by_quotas, quota_names = quotas.count_allowed(namespace, chunk.spec, requests, asked)
    by_ceiling, bounds = ceiling.count_allowed(namespace, requests, asked)
    replicas = min(by_quotas, by_ceiling, MOST_CHUNKS, asked)
    limits = []
    if quota_names:
        limits.append(f"quotas: {', '.join(quota_names)}")
    if bounds:
        limits.append(f"capacityBuffers.ceiling: {', '.join(bounds)}")
    if asked > MOST_CHUNKS:
        limits.append(f"resource-slack: {MOST_CHUNKS} chunks a buffer at most")
    if is_bounded:
        quotas.take(namespace, chunk.spec, requests, replicas)
    ceiling.take(namespace, requests, replicas)
    return replicas, tuple(limits)
