"""A cluster for a dry run: from a file of `kubectl get -o json`, or read once from an API server. Never writes.

A live cluster is read by paginated lists into the same columns that the operator keeps, so both ways plan
what the operator would.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.load import objects, read_cluster
from slack.cluster.snapshot import Snapshot
from slack.planner.adopt import existing_shape
from slack.planner.domain import ZONE
from slack.planner.outcome import ExistingShape
from slack.planner.policy import API_VERSION, KIND, Policy

if TYPE_CHECKING:
    from slack.kube.connection import Connection

T = TypeVar("T")

_PAGE_SIZE = 500
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class _Continue(msgspec.Struct):
    token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One answer to a paginated list."""

    items: list[T] | None = None
    metadata: _Continue = msgspec.field(default_factory=_Continue)


_WORKLOADS: tuple[tuple[str, str, str, Any], ...] = (
    ("apps/v1", "deployments", "Deployment", Page[wire.Deployment]),
    ("apps/v1", "replicasets", "ReplicaSet", Page[wire.ReplicaSet]),
    ("apps/v1", "statefulsets", "StatefulSet", Page[wire.StatefulSet]),
    ("batch/v1", "jobs", "Job", Page[wire.Job]),
    ("batch/v1", "cronjobs", "CronJob", Page[wire.CronJob]),
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What was seen."""

    columns: ClusterColumns
    policies: tuple[tuple[str, Any], ...]
    """(what to call it in complaints, SlackPolicy object)."""
    existing: tuple[ExistingShape, ...]

    @property
    def priorities(self) -> dict[str, int]:
        """Values of PriorityClasses by name."""
        return {name: value for name, (value, _) in self.columns.priorities.items()}

    def snapshot(self, policies: Iterable[Policy], now: float) -> Snapshot:
        """Return the snapshot in which nodes are told apart by what these policies select."""
        policies = tuple(policies)
        keys = {key for policy in policies for key in policy.spec.node_selector}
        self.columns.require_labels({ZONE, *keys})
        return self.columns.snapshot(now)


def from_file(data: bytes, *, source: str, now: float, placeholder_namespace: str) -> Cluster:
    """Read what kubectl has printed.

    Raises:
        BadSnapshot: naming the source and what is wrong with it.
    """
    columns = read_cluster(data, source=source, now=now, placeholder_namespace=placeholder_namespace)
    policies: list[tuple[str, Any]] = []
    sets: list[wire.ReplicaSet] = []
    for path, kind, raw in objects(data, source=source):
        if kind == KIND:
            policies.append((f"{source}: {path}", msgspec.json.decode(raw)))
        elif kind == "ReplicaSet":
            sets.append(msgspec.json.decode(raw, type=wire.ReplicaSet))
    return Cluster(columns, tuple(policies), _existing(sets, placeholder_namespace))


def from_api(kubeconfig: Path | None, context: str | None, *, now: float, placeholder_namespace: str) -> Cluster:
    """Read a live cluster once, with get and list only.

    Raises:
        KubeError: when there is no usable configuration, no answer, or no permission.
    """
    from slack.kube.errors import ApiError
    from slack.kube.kubeconfig import connect

    columns = ClusterColumns(placeholder_namespace)
    sets: list[wire.ReplicaSet] = []
    connection = connect(kubeconfig, context)
    try:
        classes = listed(connection, "scheduling.k8s.io/v1", "priorityclasses", Page[wire.PriorityClass])
        columns.apply_priority_classes(("ADDED", one) for one in classes)
        columns.apply_nodes(("ADDED", one) for one in listed(connection, "v1", "nodes", Page[wire.Node]))
        for api_version, plural, kind, page in _WORKLOADS:
            found: list[wire.Workload] = list(listed(connection, api_version, plural, page))
            columns.apply_workloads(kind, (("ADDED", one) for one in found))
            sets += [one for one in found if isinstance(one, wire.ReplicaSet)]
        pods = listed(connection, "v1", "pods", Page[wire.Pod], _UNFINISHED)
        columns.apply_pods(("ADDED", one) for one in pods)
        try:
            policies = list(listed(connection, API_VERSION, "slackpolicies", Page[dict[str, Any]]))
        except ApiError as error:
            if not error.not_found:
                raise
            policies = []  # the CRD is not installed: then there is no policy
    finally:
        connection.close()
    columns.arrivals.forget_before(now)
    # Items of a list carry neither kind nor apiVersion; kubectl adds them, so do we.
    named = [
        (f"slackpolicy/{one.get('metadata', {}).get('name')}", {"apiVersion": API_VERSION, "kind": KIND} | one)
        for one in policies
    ]
    return Cluster(columns, tuple(named), _existing(sets, placeholder_namespace))


def listed(
    connection: "Connection", api_version: str, plural: str, page_type: type[Page[T]], field_selector: str = ""
) -> Iterator[T]:
    """Yield every object of a kind, page by page."""
    from slack.kube.paths import resource_path

    token = ""
    while True:
        query = {"limit": _PAGE_SIZE, "continue": token, "fieldSelector": field_selector}
        answer = connection.request("GET", resource_path(api_version, plural), query=query, verb="list")
        page = msgspec.json.decode(answer, type=page_type)
        yield from page.items or ()
        token = page.metadata.token
        if not token:
            return


def _existing(sets: Iterable[wire.ReplicaSet], namespace: str) -> tuple[ExistingShape, ...]:
    """Return the shapes of our own ReplicaSets; one that cannot be read is none, as it is for the operator."""
    shapes = (existing_shape(one) for one in sets if one.metadata.namespace == namespace)
    return tuple(shape for shape in shapes if shape is not None)
