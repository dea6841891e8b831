"""The floor: what a burst takes when as many pods are deleted for it as quickly as anybody can.

Bare pods hold the room. A client that watches nothing, chooses nothing and stops nobody sends their deletions as
soon as the Deployment's new count is written. Whoever makes way by deleting pods cannot be quicker.
"""

from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import create_all, pod, wait_until
from e2e.harness.product.full_machines import REQUESTS, FullMachines
from e2e.harness.product.operator import NAMESPACE, install
from slack.cluster.labels import PRIORITY_CLASS
from slack.kube.apply import DELETE_OPTIONS
from slack.kube.errors import ApiError, KubeError
from slack.kube.kubeconfig import connect
from slack.kube.paths import resource_path
from slack.kube.pipelining import PipelinedClient, WriteRequest

PREFIX = "slack-floor"


def hold(cluster: ControlPlane, machines: FullMachines) -> "Floor":
    """Put a pod in each place of the room, and be ready to delete them."""
    install(cluster)
    places = [number for number, slots in enumerate(machines.slots()) for _ in range(slots)]
    names = [f"{PREFIX}-{index}" for index in range(len(places))]
    create_all(
        cluster.api,
        [
            pod(
                name,
                **REQUESTS,
                namespace=NAMESPACE,
                priority_class=PRIORITY_CLASS,
                nodeName=f"{machines.name}-{number}",
                terminationGracePeriodSeconds=0,
            )
            for name, number in zip(names, places, strict=True)
        ],
    )

    def running() -> bool:
        found = cluster.api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
        return len([item for item in found if item["status"].get("phase") == "Running"]) == len(names)

    wait_until(running, 180, "the pods of the floor to run")
    floor = Floor(cluster, names)
    floor.keep()
    return floor


class Floor:
    """Pods that hold room, and connections over which they are deleted."""

    def __init__(self, cluster: ControlPlane, names: list[str]) -> None:
        self._connection = connect(cluster.kubeconfig, None)
        self._lanes = PipelinedClient(self._connection)
        self._names = names

    def keep(self) -> None:
        """Open the connections."""
        self._lanes.keep(len(self._names))

    def let_go(self, count: int) -> list[KubeError]:
        """Delete so many; return what was refused."""
        paths = [resource_path("v1", "pods", namespace=NAMESPACE, name=name) for name in self._names[:count]]
        refused: list[KubeError] = []

        def on_answer(_: int, error: KubeError | None) -> None:
            if error is not None and not (isinstance(error, ApiError) and error.not_found):  # preempted meanwhile
                refused.append(error)

        self._lanes.send([WriteRequest("DELETE", path, DELETE_OPTIONS) for path in paths], lambda _: True, on_answer)
        return refused

    def close(self) -> None:
        """Close the connections."""
        self._lanes.close()
        self._connection.close()
