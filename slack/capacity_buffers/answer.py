"""What `explain` and `status` tell of a buffer: its chunks, where they fit, what bounds them, and who serves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slack.capacity_buffers.api import ACTIVE_CAPACITY, OWN_STRATEGY, BufferCondition, CapacityBuffer
from slack.capacity_buffers.probing import BufferServer, ServerFinding, managers_of_others, status_managers

NOT_PROBED = (
    "nobody is known to serve: there is no probe of resource-slack, whose chart value capacityBuffers.serve is Off"
)
_NODES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class BufferAnswer:
    """One buffer as it is seen from outside."""

    name: str
    served_by: str
    headline: str
    details: tuple[str, ...]
    good: bool
    """Whether all chunks fit, or none are wanted."""


def read_finding(annotation: str) -> ServerFinding | None:
    """Read what the operator has noted on its probe; None where it has noted nothing."""
    name, _, rest = annotation.partition(": ")
    if name not in set(BufferServer):
        return None
    return ServerFinding(BufferServer(name), rest.partition(": ")[2])


def answer_of(
    buffer: CapacityBuffer, nodes: Mapping[str, int] | None, counted: Mapping[str, int] | None = None
) -> BufferAnswer:
    """Say how a buffer is.

    Args:
        buffer: as the API server has it.
        nodes: how many of its chunks fit on which node; None where nobody has looked.
        counted: how many of its chunks which policy counts as extra capacity; None where nobody has looked.
    """
    status = buffer.status or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or () if isinstance(each, Mapping)}
    ours = status.get("provisioningStrategy") == OWN_STRATEGY
    provisioning = conditions.get(BufferCondition.PROVISIONING, {})
    ready = conditions.get(BufferCondition.READY_FOR_PROVISIONING, {})
    said = ready if ready.get("status") == "False" else provisioning
    details = [f"asks    {_size_text(buffer)}"]
    if "replicas" in status:
        details.append(f"size    {status['replicas']} chunks")
    limited = conditions.get(BufferCondition.LIMITED_BY_QUOTAS, {})
    if limited.get("status") == "True":
        details.append(f"bounds  {limited.get('message') or limited.get('reason')}")
    if nodes is not None and status.get("replicas"):
        details.append(f"nodes   {_nodes_text(nodes)}")
    if counted is not None and status.get("replicas"):
        texts = [f"{policy} counts {count} chunks as extra capacity" for policy, count in sorted(counted.items())]
        details.append(f"policy  {', '.join(texts) or 'none counts it'}")
    details += [f"{name}={each.get('status')}  {_reason_text(each)}" for name, each in conditions.items()]
    return BufferAnswer(
        buffer.name,
        _server_text(buffer, ours=ours),
        _reason_text(said) if said else _silence_text(buffer),
        tuple(details),
        provisioning.get("status") == "True" or (ours and status.get("replicas") == 0),
    )


def _reason_text(condition: Mapping[str, Any]) -> str:
    message = condition.get("message")
    return f"{condition.get('reason')}: {message}" if message else str(condition.get("reason"))


def _server_text(buffer: CapacityBuffer, *, ours: bool) -> str:
    if ours:
        return "resource-slack"
    others = managers_of_others(status_managers(buffer))
    return ", ".join(sorted(others)) or "nobody"


def _silence_text(buffer: CapacityBuffer) -> str:
    if buffer.strategy in (OWN_STRATEGY, ACTIVE_CAPACITY):
        return "no server has written its status"
    return f"no server has written its status; strategy {buffer.strategy} is none that resource-slack serves"


def _size_text(buffer: CapacityBuffer) -> str:
    spec = buffer.spec
    parts = [f"replicas {spec.replicas}"] if spec.replicas is not None else []
    parts += [f"percentage {spec.percentage}"] if spec.percentage is not None else []
    if spec.limits is not None:
        parts.append("limits " + ", ".join(f"{name} {value}" for name, value in sorted(spec.limits.items())))
    if spec.pod_template_ref is not None:
        parts.append(f"of PodTemplate {spec.pod_template_ref.name}")
    if spec.scalable_ref is not None:
        parts.append(f"of {spec.scalable_ref.kind} {spec.scalable_ref.name}")
    return ", ".join(parts) or "nothing"


def _nodes_text(nodes: Mapping[str, int]) -> str:
    if not nodes:
        return "none has room"
    ordered = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count})" for name, count in ordered[:_NODES_SHOWN])
    more = len(ordered) - _NODES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def lines(answers: Sequence[BufferAnswer], finding: ServerFinding | None, *, details: bool) -> list[str]:
    """Return what people read.

    Args:
        answers: of the buffers.
        finding: who serves on this cluster; None where nobody has asked.
        details: whether each is told of at length.
    """
    found = []
    for each in answers:
        found.append(f"{each.name}  {each.headline}")
        if details:
            found += [f"  {text}" for text in each.details]
            found.append(f"  served by {each.served_by}")
    return [*found, NOT_PROBED if finding is None else str(finding)]
