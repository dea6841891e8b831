"""Node pools: machine sizes, zones, taints; and all nodes of a cluster as columns."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
GPU = "example.com/gpu"
REGION = "eu-1"
ZONES = ("eu-1a", "eu-1b", "eu-1c")
PODS_PER_NODE = 110


@dataclass(frozen=True, slots=True)
class Machine:
    """One size of one pool."""

    pool: str
    cores: int
    memory_gibibytes: int
    share: float
    """Of all nodes."""
    taint: dict[str, str] | None = None
    gpus: int = 0

    @property
    def instance_type(self) -> str:
        """The label's value."""
        return f"{self.pool}-{self.cores}"

    @property
    def cpu_millis(self) -> int:
        """Allocatable: the kubelet and the system keep some, less in proportion on large machines."""
        return self.cores * 1000 - 80 - 5 * self.cores

    @property
    def capacity_kibibytes(self) -> int:
        """As the kernel reports it: less than what was bought, and no round number."""
        return self.memory_gibibytes * 1_022_361 | 1

    @property
    def memory_kibibytes(self) -> int:
        """Allocatable."""
        return self.capacity_kibibytes - 1_500_000 - 4_000 * self.memory_gibibytes


_DEDICATED = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_FOR_GPUS = {"key": GPU, "value": "present", "effect": "NoSchedule"}
MACHINES = (
    Machine("general", 16, 64, 0.30),
    Machine("general", 32, 128, 0.35),
    Machine("memory", 32, 256, 0.15),
    Machine("memory", 64, 512, 0.05),
    Machine("batch", 64, 192, 0.12, _DEDICATED),
    Machine("gpu", 32, 128, 0.03, _FOR_GPUS, gpus=8),
)


def quantity_of_cpu(millis: int) -> str:
    """Return the canonical text: whole cores without the suffix."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def quantity_of_memory(mebibytes: int) -> str:
    """Return the canonical text: the largest unit that needs no fraction."""
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"


class NodeColumns:
    """The nodes of a cluster: node i is of `machine[i]`, in `zone[i]`, with `free[i]` = CPU, memory, slots, GPUs.

    Free is allocatable here; placing pods takes from a copy of it.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        numbers = np.arange(count)
        bounds = np.cumsum([machine.share for machine in MACHINES])
        self.machine: IntArray = np.minimum(
            np.searchsorted(bounds, numbers / count, side="right"), len(MACHINES) - 1
        ).astype(np.int64)
        self.zone: IntArray = (numbers % len(ZONES)).astype(np.int64)

    @cached_property
    def free(self) -> IntArray:
        """[N, 4] allocatable millicores, KiB, pods and GPUs."""
        rows = [[m.cpu_millis, m.memory_kibibytes, PODS_PER_NODE, m.gpus] for m in MACHINES]
        return np.array(rows, dtype=np.int64)[self.machine]

    def in_pools(self, names: tuple[str, ...]) -> BoolArray:
        """Return which nodes are in one of these pools."""
        wanted = np.array([machine.pool in names for machine in MACHINES])
        mask: BoolArray = wanted[self.machine]
        return mask

    def in_zones(self, numbers: tuple[int, ...]) -> BoolArray:
        """Return which nodes are in one of these zones."""
        mask: BoolArray = np.isin(self.zone, numbers)
        return mask

    def of(self, node: int) -> Machine:
        """Return a node's machine."""
        return MACHINES[int(self.machine[node])]


def node_name(node: int) -> str:
    """Return the name; in the order of the numbers, as the server lists them."""
    return f"node-{node:05}.{REGION}.example.internal"


def node_address(node: int) -> str:
    """Return the InternalIP."""
    return f"10.{64 + (node >> 16)}.{node >> 8 & 255}.{node & 255}"
