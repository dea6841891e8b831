"""What warming asks of the API server: nodes one by one, its own pods, and the ConfigMap with their program.

A node is listed by its name, for the operator may list nodes and not get them. Of a node only its
images are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from slack.cluster.labels import LABEL_MANAGED_BY, LABEL_WARM, MANAGED_BY
from slack.cluster.quantity import QuantityError, base_units
from slack.kube.apply import Json, Writer
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.paging import list_all
from slack.kube.paths import resource_path
from slack.planner.warm.pods import PROGRAM_MAP, program_map

LISTED_IMAGES = 50
"""A kubelet lists so many images at most, unless its nodeStatusMaxImages says otherwise."""
LONGEST_MESSAGE = 200


class _Image(msgspec.Struct, rename="camel"):
    names: list[str] | None = None
    size_bytes: int = 0


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _NodeInfo(msgspec.Struct, rename="camel"):
    architecture: str = ""
    operating_system: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    images: list[_Image] | None = None
    conditions: list[_Condition] | None = None
    capacity: dict[str, str] | None = None
    node_info: _NodeInfo | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _NodeSpec(msgspec.Struct):
    unschedulable: bool = False


class _Node(msgspec.Struct):
    metadata: _Metadata
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    waiting: _Waiting | None = None
    terminated: _Waiting | None = None


class _ContainerStatus(msgspec.Struct):
    state: _State | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[_ContainerStatus] | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


@dataclass(frozen=True, slots=True)
class NodeImages:
    """What a node's status says of its disk."""

    uid: str
    images: Sequence[tuple[Sequence[str], int]]
    """The names of each, tags and digests alike, and its bytes."""
    disk_bytes: int
    pressure: bool
    architecture: str
    """'' where the node does not run Linux."""
    unschedulable: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """Return the bytes of images by all their names."""
        return {name: size for names, size in self.images for name in names}

    @property
    def used_bytes(self) -> int:
        """Return the bytes of all images together."""
        return sum(size for _, size in self.images)

    @property
    def lists_all(self) -> bool:
        """Whether no image is missing in the list."""
        return len(self.images) < LISTED_IMAGES


@dataclass(frozen=True, slots=True)
class WarmPod:
    """One of our pods that pull."""

    name: str
    uid: str
    node: str
    phase: str
    reason: str
    """In one word why it cannot pull, or has failed; '' while it does well."""
    message: str = ""
    """The same in a sentence."""


class WarmApi:
    """Reads and writes; each raises `KubeError`."""

    def __init__(self, connection: Connection, writer: Writer, namespace: str) -> None:
        self._connection = connection
        self._writer = writer
        self._namespace = namespace
        self._pods = resource_path("v1", "pods", namespace=namespace)

    def node(self, name: str) -> NodeImages | None:
        """Return a node's images; None if there is no such node."""
        path = resource_path("v1", "nodes")
        found = list_all(self._connection, path, _Node, field_selector=f"metadata.name={name}")
        node = next((node for node in found if node.metadata.name == name), None)
        return None if node is None else node_images(node)

    def pods(self) -> list[WarmPod]:
        """Return our pods that pull."""
        selector = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_WARM}=true"
        return [warm_pod_of(pod) for pod in list_all(self._connection, self._pods, _Pod, label_selector=selector)]

    def create(self, pod: Json) -> None:
        """Create a pod; one that is there already is as good."""
        try:
            self._writer.create(self._pods, pod)
        except ApiError as error:
            if error.status != 409:
                raise

    def delete(self, pod: WarmPod) -> None:
        """Delete a pod."""
        self._writer.delete(f"{self._pods}/{pod.name}", uid=pod.uid)

    def write_program(self) -> None:
        """Write the ConfigMap with the program."""
        path = resource_path("v1", "configmaps", namespace=self._namespace, name=PROGRAM_MAP)
        self._writer.apply(path, program_map(self._namespace), force=True)


def node_images(found: _Node) -> NodeImages:
    """Return what a node says; a disk of unknown size is none."""
    status, info = found.status or _NodeStatus(), (found.status or _NodeStatus()).node_info or _NodeInfo()
    try:
        disk_bytes = base_units((status.capacity or {}).get("ephemeral-storage", "0"))
    except QuantityError:
        disk_bytes = 0
    pressure = next((said.status for said in status.conditions or () if said.type == "DiskPressure"), "False")
    return NodeImages(
        uid=found.metadata.uid,
        images=[(image.names or (), image.size_bytes) for image in status.images or ()],
        disk_bytes=disk_bytes,
        pressure=pressure != "False",
        architecture=info.architecture if info.operating_system in ("", "linux") else "",
        unschedulable=found.spec is not None and found.spec.unschedulable,
    )


_PATIENT_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})


def warm_pod_of(pod: _Pod) -> WarmPod:
    """Return what matters of a pod."""
    status = pod.status or _PodStatus()
    states: Sequence[_State] = [one.state for one in status.container_statuses or () if one.state is not None]
    told = [said for state in states for said in (state.waiting, state.terminated) if said is not None]
    bad = next((said for said in told if said.reason not in _PATIENT_REASONS and said.reason != "Completed"), None)
    reason, message = ("", "") if bad is None else (bad.reason, bad.message)
    if not reason and status.phase == "Failed":
        reason, message = status.reason or "Failed", status.message
    node = "" if pod.spec is None else pod.spec.node_name
    return WarmPod(pod.metadata.name, pod.metadata.uid, node, status.phase, reason, message[:LONGEST_MESSAGE])
