"""URL paths of Kubernetes resources, from the words of a manifest, and what to select there."""

from __future__ import annotations

from urllib.parse import quote

UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that use something."""
FINISHED_PODS = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
"""The field selector of those that do no more: what is left of them."""


def resource_path(api_version: str, plural: str, *, namespace: str | None = None, name: str | None = None) -> str:
    """Path of a collection, or of one object when `name` is given.

    >>> resource_path("v1", "pods")
    '/api/v1/pods'
    >>> resource_path("apps/v1", "replicasets", namespace="slack", name="a")
    '/apis/apps/v1/namespaces/slack/replicasets/a'
    """
    parts = [f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"]
    if namespace is not None:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name is not None:
        parts.append(quote(name, safe=""))  # names of Roles and the like may hold a colon or a slash
    return "/".join(parts)
