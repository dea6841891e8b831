"""What kube-scheduler says of its own work: how long its attempts to place a pod took, without waiting in its queue."""

from typing import Self

import urllib3

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.ports import LOOPBACK

_HISTOGRAM = "scheduler_scheduling_algorithm_duration_seconds"
_SECURE_PORT = "--secure-port="


class Cycles:
    """Searches for a node so far, plugins and extenders included, by how long they took.

    Usage:

        before = Cycles.of(cluster)
        ...
        Cycles.of(cluster).longer_than(1.0, since=before)
    """

    def __init__(self, count: float, up_to: dict[float, float]) -> None:
        self._count = count
        self._up_to = up_to

    @classmethod
    def of(cls, cluster: ControlPlane) -> Self:
        """Ask the scheduler."""
        flags = cluster.program("kube-scheduler").command
        port = next(flag.removeprefix(_SECURE_PORT) for flag in flags if flag.startswith(_SECURE_PORT))
        access = cluster.user("scheduler-metrics", ["system:masters"]).api
        with urllib3.PoolManager(
            ca_certs=str(access.authority), cert_file=str(access.certificate), key_file=str(access.key)
        ) as http:
            page = http.request("GET", f"https://{LOOPBACK}:{port}/metrics", timeout=10.0).data.decode()
        count, up_to = 0.0, {}
        for line in page.splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith(f"{_HISTOGRAM}_bucket"):
                up_to[float(name.partition('le="')[2].partition('"')[0])] = float(value)
            elif name.startswith(f"{_HISTOGRAM}_count"):
                count = float(value)
        return cls(count, up_to)

    def count(self, since: Self) -> int:
        """Return how many there were since then."""
        return round(self._count - since._count)

    def longer_than(self, seconds: float, since: Self) -> int:
        """Return how many took longer than that, or than the next longer bound that the scheduler counts by."""
        bound = min(found for found in self._up_to if found >= seconds)
        within = self._up_to[bound] - since._up_to.get(bound, 0.0)
        return round(self._count - since._count - within)
