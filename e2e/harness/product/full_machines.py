"""Machines that are full but for the room of one burst, and the policy whose placeholders hold exactly that room.

What runs beside the room is one pod a machine, put there by name. Whoever comes finds room only where placeholders go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok
from e2e.harness.objects import create_all, deployment, nodes, pod, wait_for_running, wait_until

POD_MILLIS = 500
REQUESTS: Mapping[str, Any] = {"cpu": f"{POD_MILLIS}m", "memory": "1Gi"}
"""What a pod of a burst requests."""


def create_three_busy_nodes(api: Api) -> None:
    """Create nodes of 4 cpu in three zones, and 12 running pods of 800m, which leave room for one such pod a node."""
    create_all(api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i]}") for i in range(3)])
    api.create(deployment("api", 12, cpu="800m", memory="1Gi"))
    wait_for_running(api, 12, 60)


@dataclass(frozen=True, slots=True)
class FullMachines:
    """Equal machines and their room, which is dealt out evenly in whole placeholders.

    Usage:

        machines = FullMachines(count=10, room=125)
        machines.create(cluster.api)
        machines.fill(cluster.api)
        cluster.api.create(policy("default", **machines.spec()))
    """

    count: int
    room: int
    """For how many pods; rounded up to whole placeholders."""
    chunk: int = 1
    """How many pods fit where one placeholder stands."""
    cores: int = 8
    gibibytes: int = 32
    name: str = "node"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def pods_a_machine(self) -> int:
        """How many pods an empty machine takes."""
        return 1000 * self.cores // POD_MILLIS

    @property
    def placeholders(self) -> int:
        """How many hold the room."""
        return -(-self.room // self.chunk)

    def slots(self) -> list[int]:
        """Return, for each machine, for how many pods there is room.

        Raises:
            ValueError: there is more room than machines.
        """
        each, more = divmod(self.placeholders, self.count)
        found = [self.chunk * (each + (number < more)) for number in range(self.count)]
        if max(found) > self.pods_a_machine:
            raise ValueError(f"room for {sum(found)} pods, but {self.count * self.pods_a_machine} are all")
        return found

    def create(self, api: Api) -> None:
        """Create the machines, and wait until pods may go there."""
        cpu, memory = str(self.cores), f"{self.gibibytes}Gi"
        names = [f"{self.name}-{number}" for number in range(self.count)]
        create_all(api, [kwok.node(name, cpu, memory, labels=self.labels) for name in names])
        wait_until(lambda: not any(node["spec"].get("taints") for node in nodes(api)), 60, "machines without taints")

    def fill(self, api: Api) -> None:
        """Let something run everywhere but in the room."""
        free = enumerate(self.slots())
        create_all(api, [self._filler(number, slots) for number, slots in free if slots < self.pods_a_machine])

    def spec(self, **more: Any) -> dict[str, Any]:
        """Return a policy's spec: placeholders that are an n-th of a machine each, for all of the room."""
        share = sum(self.slots()) / self.pods_a_machine
        floor = {"cpu": f"{share * self.cores * 1000:.0f}m", "memory": f"{share * self.gibibytes:g}Gi"}
        return {
            "extraCapacity": {"minRate": 0, "floor": floor},
            "cover": {"mode": "None"},
            "granularity": self.pods_a_machine // self.chunk,
            **more,
        }

    def _filler(self, number: int, slots: int) -> Json:
        name, cpu = f"{self.name}-{number}", f"{(self.pods_a_machine - slots) * POD_MILLIS}m"
        return pod(f"filler-{name}", cpu=cpu, memory="64Mi", nodeName=name)


def burst(name: str = "burst", replicas: int = 0, **spec: Any) -> Json:
    """Return a Deployment of pods that one place of the room takes each."""
    return deployment(name, replicas, **REQUESTS, **spec)
