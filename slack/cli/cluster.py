"""A cluster for a dry run: from a file of `kubectl get -o json`, or read once from an API server. Never writes.

A live cluster is read by paginated lists into the same List document that kubectl would print, so both ways
go through the one loader and a dry run from a file is the dry run of the cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from slack.cli.problems import UserError
from slack.cluster.snapshot import Snapshot
from slack.planner.manifests import ANNOTATION_ROLE, ANNOTATION_SPEC, LABEL_PLACEHOLDER, LABEL_POLICY
from slack.planner.outcome import ExistingShape
from slack.planner.policy import API_VERSION, KIND
from slack.planner.shape import Role, Shape

_PAGE = 500
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_LISTS: tuple[tuple[str, str, str, str], ...] = (
    ("v1", "nodes", "Node", ""),
    ("v1", "pods", "Pod", _UNFINISHED),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", ""),
    ("apps/v1", "deployments", "Deployment", ""),
    ("apps/v1", "replicasets", "ReplicaSet", ""),
    ("apps/v1", "statefulsets", "StatefulSet", ""),
    ("batch/v1", "jobs", "Job", ""),
    ("batch/v1", "cronjobs", "CronJob", ""),
    (API_VERSION, "slackpolicies", KIND, ""),
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What was seen."""

    snapshot: Snapshot
    policies: tuple[tuple[str, Any], ...]
    """(what to call it in complaints, SlackPolicy object)."""
    existing: tuple[ExistingShape, ...]
    priorities: dict[str, int]


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Head(msgspec.Struct):
    """The few fields that tell whether an item is read further here."""

    kind: str = ""
    metadata: _Meta | None = None
    value: int = 0
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


class _Replicas(msgspec.Struct):
    replicas: int = 1


class _Continue(msgspec.Struct):
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Continue
    items: list[msgspec.Raw] | None = None


def from_file(data: bytes, *, source: str, now: float) -> Cluster:
    """Read a List document.

    Raises:
        BadSnapshot: naming the source and what is wrong with it.
    """
    from slack.cluster.load import read_cluster

    snapshot = read_cluster(data, source=source, now=now).snapshot(now)
    if not snapshot.nodes.names:
        raise UserError(f"{source}: there is no node in it; write it with: kubectl get nodes,pods -A -o json")
    policies: list[tuple[str, Any]] = []
    existing: list[ExistingShape] = []
    priorities: dict[str, int] = {}
    for raw in msgspec.json.decode(data, type=_List).items:
        try:
            head = msgspec.json.decode(raw, type=_Head)
        except msgspec.ValidationError as error:
            raise UserError(f"{source}: an item is no Kubernetes object: {error}") from None
        meta = head.metadata or _Meta()
        if head.kind == KIND:
            policies.append((f"{source}: slackpolicy/{meta.name}", msgspec.json.decode(raw)))
        elif head.kind == "PriorityClass":
            priorities[meta.name] = head.value
        elif head.kind == "ReplicaSet" and (meta.labels or {}).get(LABEL_PLACEHOLDER) == "true":
            existing += _existing(meta, head.spec)
    return Cluster(snapshot, tuple(policies), tuple(existing), priorities)


def from_api(kubeconfig: Path | None, context: str | None, *, now: float) -> Cluster:
    """Read a live cluster once, with get and list only.

    Raises:
        KubeError: when there is no usable configuration, no answer, or no permission.
    """
    from slack.kube.kubeconfig import connect

    connection = connect(kubeconfig, context)
    try:
        items = [item for one in _LISTS for item in _listed(connection, *one)]
    finally:
        connection.close()
    data = b'{"apiVersion":"v1","kind":"List","items":[' + b",".join(items) + b"]}"
    return from_file(data, source=connection.host, now=now)


def _listed(connection: Any, api_version: str, plural: str, kind: str, field_selector: str) -> Iterator[bytes]:
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    head = msgspec.json.encode({"apiVersion": api_version, "kind": kind})[:-1]
    token = ""
    while True:
        query = {"limit": _PAGE, "continue": token, "fieldSelector": field_selector}
        try:
            page = msgspec.json.decode(
                connection.request("GET", resource_path(api_version, plural), query=query, verb="list"), type=_Page
            )
        except ApiError as error:
            if error.not_found and kind == KIND:
                return  # the CRD is not installed: then there is no policy
            raise
        for item in page.items or ():
            # Items of a list carry neither kind nor apiVersion; kubectl adds them, so do we.
            yield head + b"," + bytes(item).lstrip()[1:]
        token = page.metadata.token
        if not token:
            return


def _existing(meta: _Meta, spec: msgspec.Raw) -> Iterator[ExistingShape]:
    """Yield the shape of a ReplicaSet of ours; one that cannot be read is none, as it is for the operator."""
    annotations = meta.annotations or {}
    try:
        shape = Shape.from_json(annotations.get(ANNOTATION_SPEC, ""))
        role = Role(annotations.get(ANNOTATION_ROLE, ""))
        replicas = msgspec.json.decode(spec, type=_Replicas).replicas
    except (msgspec.MsgspecError, ValueError):
        return
    yield ExistingShape((meta.labels or {}).get(LABEL_POLICY, ""), shape, role, replicas)
