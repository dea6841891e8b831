"""The size of a buffer that holds an amount of capacity: what `tune --buffer` prints of an objective's amounts."""

from collections.abc import Mapping
from dataclasses import dataclass

from slack.capacity_buffers.plan import MOST_CHUNKS


@dataclass(frozen=True, slots=True)
class ChosenSize:
    """How large a buffer should be."""

    replicas: int
    percentage: int | None
    """The same of the pods that there are, rounded up; None where there are none, or nobody knows how many."""
    is_cut: bool = False
    """More chunks would be needed than one buffer may have."""


def choose_size(wanted: Mapping[str, int], chunk: Mapping[str, int], pods: int | None) -> ChosenSize:
    """Return the smallest size that holds an amount, by the resource that takes most chunks.

    Args:
        wanted: the amount, cpu in millicores and memory in bytes.
        chunk: what one chunk requests, in the same units; resources that it does not request say nothing.
        pods: of the workload that the buffer names.

    Raises:
        ValueError: when the chunk requests nothing that is wanted.
    """
    counts = [-(-amount // chunk[name]) for name, amount in wanted.items() if chunk.get(name, 0) > 0]
    if not counts:
        raise ValueError("a chunk requests neither cpu nor memory, so no number of chunks holds an amount")
    replicas = min(max(counts), MOST_CHUNKS)
    percentage = -(-100 * replicas // pods) if pods else None
    return ChosenSize(replicas, percentage, is_cut=max(counts) > MOST_CHUNKS)
