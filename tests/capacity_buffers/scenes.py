"""Buffers, templates, quotas and a cluster for tests of this folder."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from slack.capacity_buffers.api import CapacityBuffer, PodTemplateObject, ScaledTarget
from slack.capacity_buffers.ceiling import NO_CEILING, BufferCeiling, CeilingLedger, ChunkPrices
from slack.capacity_buffers.plan import MISSING_SECONDS, BufferInputs, Unresolved
from slack.capacity_buffers.plan_memory import PlanMemory
from slack.cluster import wire
from slack.cluster.hold import UNBOUND_SCHEDULER

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def buffer(name: str = "cb", namespace: str = "shop", age: int = 0, status: Any = None, **spec: Any) -> CapacityBuffer:
    """Return a buffer; a larger age makes it older."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "generation": 3,
        "creationTimestamp": (BEGIN - timedelta(seconds=age)).isoformat(),
    }
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, CapacityBuffer)


def pod_spec(cpu: str = "500m", memory: str = "1Gi", **fields: Any) -> wire.PodSpec:
    """Return the spec of a pod with one container."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return msgspec.json.decode(msgspec.json.encode({"containers": [container], **fields}), type=wire.PodSpec)


def template(name: str = "chunk", namespace: str = "shop", generation: int = 1, **spec: Any) -> PodTemplateObject:
    """Return a PodTemplate."""
    metadata = wire.Metadata(name=name, namespace=namespace, generation=generation)
    return PodTemplateObject(metadata, wire.PodTemplate(spec=pod_spec(**spec)))


def quota(hard: Any, used: Any = None, namespace: str = "shop", name: str = "q", **spec: Any) -> wire.ResourceQuota:
    """Return a ResourceQuota as its controller has counted it."""
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }
    return msgspec.convert(document, wire.ResourceQuota)


def inputs(
    templates: Sequence[PodTemplateObject] = (),
    targets: Mapping[str, ScaledTarget | Unresolved | None] | None = None,
    quotas: Sequence[wire.ResourceQuota] = (),
    ceiling: BufferCeiling = NO_CEILING,
    prices: ChunkPrices | None = None,
    ranges: Sequence[wire.LimitRange] = (),
    missing_seconds: float = MISSING_SECONDS,
    memory: PlanMemory | None = None,
    **further: Any,
) -> BufferInputs:
    """Return what plans are made from; targets by the buffer's `namespace/name`."""
    by_name = {(own.metadata.namespace or "", own.metadata.name): own for own in templates}
    return BufferInputs(
        templates=lambda namespace, name: by_name.get((namespace, name)),
        targets=lambda own: (targets or {}).get(own.name),
        ranges=lambda _: ranges,
        quotas=quotas,
        ceiling=CeilingLedger(ceiling, prices or ChunkPrices()),
        unbound_scheduler=UNBOUND_SCHEDULER,
        missing_seconds=lambda _: missing_seconds,
        memory=memory or PlanMemory(),
        **further,
    )
