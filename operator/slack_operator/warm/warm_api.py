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


class _Image(msgspec.Struct, rename="camel"):
    names: list[str] | None = None
    size_bytes: int = 0


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _NodeInfo(msgspec.Struct):
    architecture: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    images: list[_Image] | None = None
    conditions: list[_Condition] | None = None
    capacity: dict[str, str] | None = None
    node_info: _NodeInfo | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Node(msgspec.Struct):
    metadata: _Metadata
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
    images: dict[str, int]
    """By name, tags and digests alike: bytes."""
    used_bytes: int
    disk_bytes: int
    pressure: bool
    architecture: str


@dataclass(frozen=True, slots=True)
class WarmPod:
    """One of our pods that pull."""

    name: str
    uid: str
    node: str
    phase: str
    reason: str
    """Why it cannot pull, or has failed; '' while it does well."""


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
        return None if node is None else node_images(node.metadata.uid, node.status or _NodeStatus())

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


def node_images(uid: str, status: _NodeStatus) -> NodeImages:
    """Return what a status says; a disk of unknown size is none."""
    images = {name: image.size_bytes for image in status.images or () for name in image.names or ()}
    try:
        disk_bytes = base_units((status.capacity or {}).get("ephemeral-storage", "0"))
    except QuantityError:
        disk_bytes = 0
    pressure = next((said.status for said in status.conditions or () if said.type == "DiskPressure"), "False")
    return NodeImages(
        uid=uid,
        images=images,
        used_bytes=sum(image.size_bytes for image in status.images or ()),
        disk_bytes=disk_bytes,
        pressure=pressure != "False",
        architecture="" if status.node_info is None else status.node_info.architecture,
    )


_PATIENT_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})


def warm_pod_of(pod: _Pod) -> WarmPod:
    """Return what matters of a pod."""
    status = pod.status or _PodStatus()
    states: Sequence[_State] = [one.state for one in status.container_statuses or () if one.state is not None]
    told = [said for state in states for said in (state.waiting, state.terminated) if said is not None]
    bad = next((said for said in told if said.reason not in _PATIENT_REASONS and said.reason != "Completed"), None)
    reason = "" if bad is None else f"{bad.reason}: {bad.message[:200]}" if bad.message else bad.reason
    if not reason and status.phase == "Failed":
        reason = status.reason or "Failed"
    node = "" if pod.spec is None else pod.spec.node_name
    return WarmPod(pod.metadata.name, pod.metadata.uid, node, status.phase, reason)
