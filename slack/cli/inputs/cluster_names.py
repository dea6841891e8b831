"""Names in a cluster for shell completion: those that begin so, and none where no cluster answers at once."""

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

_SECONDS = 1.5
"""How long a cluster may take while somebody waits for a key."""


class _Metadata(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Metadata


class _Names(msgspec.Struct):
    items: list[_Item] | None


def policy_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of SlackPolicies that begin so; none when no cluster answers at once."""
    from slack.cluster.labels import API_VERSION, SLACK_POLICIES

    return _names_in_cluster(ctx, incomplete, API_VERSION, SLACK_POLICIES)


def namespace_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of namespaces that begin so; none when no cluster answers at once."""
    return _names_in_cluster(ctx, incomplete, "v1", "namespaces")


def node_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of nodes that begin so; none when no cluster answers at once."""
    return _names_in_cluster(ctx, incomplete, "v1", "nodes")


def _names_in_cluster(ctx: Any, incomplete: str, api_version: str, plural: str) -> list[str]:
    from slack.kube.access import ClusterAccess
    from slack.kube.deadline import Deadline
    from slack.kube.errors import KubeError, decode_answer
    from slack.kube.kubeconfig import connect_with
    from slack.kube.paths import resource_path

    chosen = ctx.params.get("kubeconfig")
    named = {key: ctx.params[key] for key in ("context", "cluster", "user") if isinstance(ctx.params.get(key), str)}
    access = ClusterAccess(kubeconfig=Path(chosen) if chosen else None, **named)
    path = resource_path(api_version, plural)
    try:
        with closing(connect_with(access)) as connection:
            connection.deadline = Deadline(connection.address, lambda _: None, first_answer_seconds=_SECONDS)
            answer = connection.request("GET", path, query={"limit": 100}, timeout=_SECONDS)
            found = decode_answer(path, answer, msgspec.json.Decoder(_Names)).items
    except KubeError:
        return []  # a key press is no place for complaints
    return sorted(item.metadata.name for item in found or () if item.metadata.name.startswith(incomplete))
