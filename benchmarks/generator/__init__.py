"""Realistic clusters, seeded, as a 1.36 API server sends them: objects, pages of lists, lines of watches.

Usage:
    size = scaled(1 / 25)
    for page in pod_pages(size, seed=1): ...              # bytes of a PodList of 500
    churn = Churn(size, seed=1); churn.lines(10_000)      # bytes of watch events after that list

Same size and seed, same bytes. Everything is an iterator: of 150,000 pods only a page stands in memory, and a few bytes
each for where they stand.
"""

from benchmarks.generator.churn import Churn, watch_lines
from benchmarks.generator.lists import node_pages, nodes, pod_pages, pods
from benchmarks.generator.size import FULL, NOW, Json, Size, scaled

__all__ = [
    "FULL",
    "NOW",
    "Churn",
    "Json",
    "Size",
    "node_pages",
    "nodes",
    "pod_pages",
    "pods",
    "scaled",
    "watch_lines",
]
