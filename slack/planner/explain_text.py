"""An explanation as people read it, one line a thought: the same words for the command and for the web page."""

from collections.abc import Mapping
from types import MappingProxyType

from slack.cluster.hold import ReleaseNodes
from slack.planner.explain import HeldCapacity, WorkloadExplanation, shown_nodes
from slack.planner.model.amount_text import resources_text

_RELEASE: Mapping[ReleaseNodes, str] = {
    ReleaseNodes.LABEL: "by the label resource-slack.io/release on the node (Label)",
    ReleaseNodes.MARKER_POD: "by a marker pod on the node (MarkerPod)",
    ReleaseNodes.OFF: "by nobody: it stays while placeholders hold it (Off)",
}


def lines(found: WorkloadExplanation, whys: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return the answer: what makes room for the workload, or why nothing does.

    Args:
        found: the answer as values.
        whys: by policy with an objective, why it keeps this much.
    """
    pods = "1 pod" if found.pods == 1 else f"{found.pods} pods"
    text = [f"{found.workload}: {pods}, {resources_text(found.requests)} each"]
    for policy in dict.fromkeys(room.policy for room in found.rooms):
        text.append(f"  policy {policy} keeps capacity for it:")
        text += [f"    {_room_line(room)}" for room in found.rooms if room.policy == policy]
        for way in dict.fromkeys(room.release_nodes for room in found.rooms if room.policy == policy):
            if way is not None:
                text.append(f"    a node that must go is released {_RELEASE[way]}")
        if policy in whys:
            text.append(f"    why this much: {whys[policy]}")
    if not found.rooms:
        text.append("  no capacity is kept for it")
    elif found.ready:
        text.append("  its next pod starts there without waiting")
    elif not any(room.bound or room.pending for room in found.rooms):
        text.append("  none of them exists yet; the operator would create them")
    if found.unknown and not found.warnings:
        text.append(f"  whether its next pod starts there is not known: {'; '.join(found.unknown)}")
    text += [f"  less is kept than it reserves: {reason}" for reason in found.cut]
    text += [f"  because {reason}" for reason in found.reasons]
    text += [f"  but {warning}" for warning in found.warnings]
    return text


def _room_line(room: HeldCapacity) -> str:
    line = f"{room.count} x {room.shape} ({room.role}), {resources_text(room.requests)} each"
    if room.bound:
        line += f"; {'capacity is kept free for ' if room.unbound else ''}{room.bound} on {shown_nodes(room)}"
    if room.avoided:
        line += f" ({room.avoided} of these where anti-affinity of other pods keeps its pods off)"
    if room.pending:
        line += f"; {room.pending} {'without capacity' if room.unbound else 'pending'}"
    if room.made_as:
        line += f"; sized by {room.made_as}"
    return line
