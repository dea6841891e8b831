"""An explanation as people read it, one line a thought: the same words for the command and for the web page."""

from collections.abc import Iterable

from slack.cluster.quantity import format_cpu, format_quantity
from slack.planner.explain import Explanation, Room, shown_nodes


def resources_text(amounts: Iterable[tuple[str, int]]) -> str:
    """Return amounts for reading: `500m cpu, 1.2Gi memory`; rounded, never for machines."""
    texts = [f"{_readable(name, value)} {name}" for name, value in amounts if value]
    return ", ".join(texts) or "no requests"


def lines(found: Explanation) -> list[str]:
    """Return the answer: what makes room for the workload, or why nothing does."""
    pods = "1 pod" if found.pods == 1 else f"{found.pods} pods"
    text = [f"{found.workload}: {pods}, {resources_text(found.requests)} each"]
    for policy in dict.fromkeys(room.policy for room in found.rooms):
        text.append(f"  policy {policy} makes room for it:")
        text += [f"    {_room_line(room)}" for room in found.rooms if room.policy == policy]
    if not found.rooms:
        text.append("  no room is kept for it")
    elif found.ready:
        text.append("  its next pod starts there at once")
    elif not any(room.bound or room.pending for room in found.rooms):
        text.append("  none of it stands yet; the operator would make it")
    text += [f"  because {reason}" for reason in found.reasons]
    text += [f"  but {warning}" for warning in found.warnings]
    return text


def _room_line(room: Room) -> str:
    line = f"{room.count} x {room.shape} ({room.role}), {resources_text(room.requests)} each"
    if room.bound:
        line += f"; {room.bound} on {shown_nodes(room)}"
    if room.pending:
        line += f"; {room.pending} pending"
    return line


def _readable(name: str, value: int) -> str:
    if name == "cpu":
        return format_cpu(value) if value < 10_000 else f"{value / 1000:.1f}".removesuffix(".0")
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for suffix, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value >= size:
                return f"{value / size:.1f}".removesuffix(".0") + suffix
    return format_quantity(name, value)
