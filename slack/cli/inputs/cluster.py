"""A cluster for a dry run: from a file of `kubectl get -o json`, or read once from an API server. Never writes.

A live cluster is read by paginated lists into the same columns that the operator keeps, so both ways plan
what the operator would.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.learned_state import Histories, read_histories
from slack.cli.inputs.objects import items
from slack.cluster import wire
from slack.cluster.classes import KNOWN_TAINTS, TaintKeys
from slack.cluster.columns import ClusterColumns, InvalidObject
from slack.cluster.identity import PLACEHOLDER, role_of
from slack.cluster.labels import ACTIVATION_POOLS, API_VERSION, PRIORITY_CLASS
from slack.cluster.load import InvalidSnapshot, Seen, read_cluster
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import Snapshot
from slack.kube.access import ClusterAccess
from slack.planner.domain.membership import node_labels, node_selectors
from slack.planner.model.pool import Pool, read_pool
from slack.planner.model.result import ExistingShape
from slack.planner.objects.adoption import BUILT_IN, existing_shapes
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.policy.spec import KIND, Policy

if TYPE_CHECKING:
    from slack.kube.connection import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DryRunCluster:
    """What was seen."""

    columns: ClusterColumns
    policies: tuple[tuple[str, Any], ...]
    """(what to call it in complaints, SlackPolicy object)."""
    replica_sets: tuple[wire.ReplicaSet, ...]
    """Of placeholders, in the namespace that was named."""
    priority_classes: PriorityClasses
    """The one of ours owns the built-in policy's ReplicaSets."""
    whole: bool
    """Nothing is left out, as it may be in a file: what is not here does not exist."""
    histories: Histories | None = None
    """Of policies with an objective; None where it is a file."""
    pools: tuple[Pool, ...] = ()
    """What ActivationPools announce."""
    quotas: tuple[wire.ResourceQuota, ...] = ()
    """Which bound that; of a file, those that it has."""
    quotas_of: Sequence[wire.ResourceQuota] | None = ()
    """Those of the namespace that was asked for; None where one may not list them."""

    @property
    def uids(self) -> dict[str, str]:
        """By name of a policy."""
        return {str(_metadata(seen).get("name")): str(_metadata(seen).get("uid") or "") for _, seen in self.policies}

    def snapshot(self, policies: Iterable[Policy], now: float, prices: NodePrices = NO_PRICES) -> Snapshot:
        """Return the snapshot in which nodes are told apart by what these policies select, and by their prices."""
        chosen = tuple(policies)
        self.columns.require_labels(node_labels(chosen, prices), node_selectors(chosen))
        return self.columns.snapshot(now)

    def existing(self, policies: Iterable[Policy]) -> tuple[ExistingShape, ...]:
        """Return what the operator would take for these policies' ReplicaSets if they were in the cluster."""
        uids = self.uids
        unknown = "" if self.whole else None
        ours = self.priority_classes.by_name.get(PRIORITY_CLASS)
        built_in_owner = ours.metadata.uid if ours else None
        owners = {
            policy.name: (built_in_owner if policy is BUILT_IN else uids.get(policy.name) or policy.uid) or unknown
            for policy in policies
        }
        return existing_shapes(self.replica_sets, owners)


def _metadata(document: Any) -> Mapping[str, Any]:
    found = document.get("metadata") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def from_file(
    data: bytes,
    *,
    source: str,
    now: float,
    placeholder_namespace: str,
    taint_keys: TaintKeys = KNOWN_TAINTS,
    nodes_needed: bool = True,
) -> DryRunCluster:
    """Read what kubectl has printed.

    Nodes may be missing where `nodes_needed` is false, or where a policy of the file has nodeTemplates.

    Raises:
        InvalidSnapshot: naming the source and what is wrong with it.
    """
    policies: list[tuple[str, Any]] = []
    sets: list[wire.ReplicaSet] = []
    classes: list[wire.PriorityClass] = []
    pools: list[wire.ActivationPoolObject] = []
    quotas: list[wire.ResourceQuota] = []

    def take(path: str, kind: str, seen: Seen) -> None:
        if isinstance(seen, wire.ReplicaSet):
            sets.append(seen)
        elif isinstance(seen, wire.PriorityClass):
            classes.append(seen)
        elif isinstance(seen, wire.ActivationPoolObject):
            pools.append(seen)
        elif kind == "ResourceQuota" and isinstance(seen, bytes | msgspec.Raw):
            quotas.append(_quota(seen, source, path))
        elif kind == KIND and isinstance(seen, bytes | msgspec.Raw):
            policies.append((f"{source}: {path}", _document(seen, source, path)))

    def without_templates() -> bool:
        return nodes_needed and not any(_has_templates(document) for _, document in policies)

    with _no_garbage():
        columns = read_cluster(
            data,
            source=source,
            now=now,
            placeholder_namespace=placeholder_namespace,
            taint_keys=taint_keys,
            also=take,
            nodes_needed=without_templates,
        )
    found = _cluster(columns, policies, sets, classes, placeholder_namespace, whole=False)
    return replace(found, pools=_pools(pools), quotas=tuple(quotas), quotas_of=tuple(quotas))


def _has_templates(document: Any) -> bool:
    spec = document.get("spec") if isinstance(document, dict) else None
    return bool(isinstance(spec, dict) and spec.get("nodeTemplates"))


def _quota(raw: bytes | msgspec.Raw, source: str, path: str) -> wire.ResourceQuota:
    try:
        return msgspec.json.decode(raw, type=wire.ResourceQuota)
    except msgspec.DecodeError as error:
        raise InvalidSnapshot(f"{path}: {error} (a ResourceQuota)", source) from None


def _pools(items: Iterable[wire.ActivationPoolObject]) -> tuple[Pool, ...]:
    return tuple(pool for item in items if (pool := read_pool(item)) is not None)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Look for no cycles while a file is read: none are made, and to look at all pods again and again takes a while."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _document(raw: bytes | msgspec.Raw, source: str, path: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds

        try:
            check_bounds(bytes(raw))  # JSON is YAML, and here the field has its name
        except UnboundedYaml as unbounded:
            raise InvalidSnapshot(f"{path}.{unbounded.path}: {unbounded.problem}", source) from None
        raise InvalidSnapshot(f"{path}: {error}", source) from None


def from_api(
    access: ClusterAccess,
    *,
    now: float,
    placeholder_namespace: str,
    taint_keys: TaintKeys = KNOWN_TAINTS,
    objectives_of: Iterable[str] = (),
    quotas_of: str | None = None,
) -> DryRunCluster:
    """Read a live cluster once, with get and list only.

    Args:
        access: which API server, and as whom.
        now: Unix seconds.
        placeholder_namespace: where placeholders are, and what operators have learnt.
        taint_keys: which taints of nodes are transient.
        objectives_of: policies that have an objective beside those in the cluster.
        quotas_of: a namespace whose ResourceQuotas are read too.

    Raises:
        KubeError: when there is no usable configuration, no answer, or no permission.
    """
    from slack.kube.paths import resource_path

    columns = ClusterColumns(placeholder_namespace, taint_keys=taint_keys)
    with api_server(access) as connection, _objects_read():
        classes, sets = _fill_columns(connection, columns)
        policies = _slack_policies(connection)
        pools = _listed_if_any(connection, resource_path(API_VERSION, ACTIVATION_POOLS), wire.ActivationPoolObject)
        # who may not list quotas plans without them, and without pools nobody asks
        quotas = _listed_if_any(connection, resource_path("v1", "resourcequotas"), wire.ResourceQuota) if pools else []
        namespace_quotas = None if quotas_of is None else _quotas_of(connection, quotas_of)
        aimed = {str(policy["metadata"]["name"]) for policy in policies if (policy.get("spec") or {}).get("objective")}
        histories = read_histories(connection, placeholder_namespace, sorted(aimed.union(objectives_of)))
    columns.arrivals.forget_before(now)
    # Items of a list carry neither kind nor apiVersion; kubectl adds them, so do we.
    named = [
        (f"slackpolicy/{policy['metadata']['name']}", {"apiVersion": API_VERSION, "kind": KIND} | policy)
        for policy in policies
    ]
    cluster = _cluster(columns, named, sets, classes, placeholder_namespace, whole=True, histories=histories)
    return replace(cluster, pools=_pools(pools), quotas=tuple(quotas), quotas_of=namespace_quotas)


def _fill_columns(
    connection: "Connection", columns: ClusterColumns
) -> tuple[list[wire.PriorityClass], list[wire.ReplicaSet]]:
    """List what columns are made of, in the order in which they need it; return the classes and ReplicaSets seen."""
    from slack.kube.errors import ApiError
    from slack.kube.paging import list_all
    from slack.kube.paths import UNFINISHED_PODS, resource_path

    classes = list(list_all(connection, resource_path("scheduling.k8s.io/v1", "priorityclasses"), wire.PriorityClass))
    columns.apply_priority_classes(("ADDED", priority_class) for priority_class in classes)
    try:
        namespaces = list(list_all(connection, resource_path("v1", "namespaces"), wire.Namespace))
        columns.apply_namespaces(("ADDED", namespace) for namespace in namespaces)
    except ApiError as error:
        if error.status != 403:
            raise  # who may not list them plans by their names
    nodes = list_all(connection, resource_path("v1", "nodes"), wire.Node)
    columns.apply_nodes(("ADDED", node) for node in nodes)
    sets: list[wire.ReplicaSet] = []
    for api_version, plural, kind, item_type in wire.WORKLOADS:
        found: list[wire.Workload] = list(list_all(connection, resource_path(api_version, plural), item_type))
        columns.apply_workloads(kind, (("ADDED", workload) for workload in found))
        sets += [workload for workload in found if isinstance(workload, wire.ReplicaSet)]
    pods = list_all(connection, resource_path("v1", "pods"), wire.Pod, field_selector=UNFINISHED_PODS)
    columns.apply_pods(("ADDED", pod) for pod in pods)
    return classes, sets


def _slack_policies(connection: "Connection") -> list[dict[str, Any]]:
    """List the SlackPolicies; without the CRD there are none."""
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    try:
        return items(connection, resource_path(API_VERSION, "slackpolicies"))
    except ApiError as error:
        if not error.not_found:
            raise
        return []


def _quotas_of(connection: "Connection", namespace: str) -> list[wire.ResourceQuota] | None:
    """Return the quotas of a namespace, None where one may not list them."""
    from slack.kube.errors import ApiError
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path

    try:
        return list(
            list_all(connection, resource_path("v1", "resourcequotas", namespace=namespace), wire.ResourceQuota)
        )
    except ApiError as error:
        if error.status != 403:
            raise
        return None


def _listed_if_any(connection: "Connection", path: str, item_type: type[T]) -> list[T]:
    """Return what is there of a kind that may not be known, or that one may not list."""
    from slack.kube.errors import ApiError
    from slack.kube.paging import list_all

    try:
        return list(list_all(connection, path, item_type))
    except ApiError as error:
        if not error.not_found and error.status != 403:
            raise
        return []


@contextmanager
def _objects_read() -> Iterator[None]:
    """Say of an object that cannot be read what it is; half a cluster would make a wrong plan."""
    from slack.kube.errors import InvalidAnswer

    try:
        yield
    except InvalidObject as error:
        raise InvalidAnswer(str(error)) from None


def _cluster(
    columns: ClusterColumns,
    policies: Iterable[tuple[str, Any]],
    sets: Iterable[wire.ReplicaSet],
    classes: Iterable[wire.PriorityClass],
    namespace: str,
    *,
    whole: bool,
    histories: Histories | None = None,
) -> DryRunCluster:
    priority_classes = PriorityClasses({found.metadata.name: found for found in classes}, whole)
    ours = tuple(found for found in sets if role_of(found.metadata, namespace) == PLACEHOLDER)
    alive = tuple((source, seen) for source, seen in policies if not _metadata(seen).get("deletionTimestamp"))
    return DryRunCluster(columns, alive, ours, priority_classes, whole, histories)
