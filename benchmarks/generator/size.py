"""How large a generated cluster is, and the moment that it stands for."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
NOW = 1_800_000_000.0
"""Unix seconds: 2027-01-15T08:00:00Z. Lists are as of then; watch events come after it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the generated cluster is; `pods` is exact, DaemonSets' pods included."""

    nodes: int
    pods: int
    workloads: int


FULL = Size(nodes=5_000, pods=150_000, workloads=3_000)
"""R10."""


def scaled(share: float) -> Size:
    """Return a fraction of R10's cluster; never less than one node, pod and workload."""
    return Size(*(max(1, int(n * share)) for n in (FULL.nodes, FULL.pods, FULL.workloads)))
