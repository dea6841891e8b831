"""Writes to an API server, each through one retry policy: server-side apply, patches, create, get, delete.

Objects are plain JSON values in and, unless a struct type is asked for, out. Any thread may call.
Writing only what changed is the caller's decision; a repeated apply of the same object changes nothing on the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, overload

import msgspec
import tenacity

from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.retry import retrying

S = TypeVar("S", bound=msgspec.Struct)
Json = dict[str, Any]

FIELD_MANAGER = "resource-slack"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class Propagation(StrEnum):
    """What happens to an object's dependents when it is deleted."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class Writer:
    """Reads and writes single objects under one field manager.

    >>> writer = Writer(connection, stopping)                     # doctest: +SKIP
    >>> writer.apply("/api/v1/namespaces/a/configmaps/b", manifest)  # doctest: +SKIP
    """

    def __init__(
        self,
        connection: Connection,
        stopping: threading.Event,
        *,
        field_manager: str = FIELD_MANAGER,
        on_retry: Callable[[BaseException], None] | None = None,
        retry: tenacity.Retrying | None = None,
    ) -> None:
        self._connection = connection
        self._field_manager = field_manager
        self._retry = retry or retrying(stopping, on_retry=on_retry)

    @overload
    def apply(self, path: str, manifest: Json, *, force: bool = False) -> Json: ...
    @overload
    def apply(self, path: str, manifest: Json, *, force: bool = False, into: type[S]) -> S: ...
    def apply(self, path: str, manifest: Json, *, force: bool = False, into: type[S] | None = None) -> Json | S:
        """Server-side apply; creates the object when it is not there.

        Args:
            path: The object's own path; `/status` behind it applies the status, with an owner entry of its own.
            manifest: Only the fields we mean to own, with apiVersion, kind and metadata.name.
            force: Take over fields that others own instead of raising.
            into: Struct type of the answer.

        Raises:
            ApiError: 409 names the fields others own, see `conflict_text`.
        """
        query = {"fieldManager": self._field_manager, "force": force or None}
        return self._call("PATCH", path, query, manifest, APPLY, into, verb="apply")

    @overload
    def merge_patch(self, path: str, patch: Json) -> Json: ...
    @overload
    def merge_patch(self, path: str, patch: Json, *, into: type[S]) -> S: ...
    def merge_patch(self, path: str, patch: Json, *, into: type[S] | None = None) -> Json | S:
        """JSON merge patch; None deletes a field. `/status` behind the path patches the status."""
        return self._call("PATCH", path, {"fieldManager": self._field_manager}, patch, MERGE, into, verb="patch")

    def strategic_patch(self, path: str, patch: Json, *, dry_run: bool = False) -> Json:
        """Strategic merge patch, which knows containers by their names; `/resize` behind a pod's path resizes it.

        Args:
            path: The object's own path.
            patch: With metadata.uid or metadata.resourceVersion in it only that very object, or state of it.
            dry_run: Go through admission and validation and store nothing.

        Raises:
            ApiError: 409 when uid or version are others by now.
        """
        query = {"fieldManager": self._field_manager, "dryRun": "All" if dry_run else None}
        decoded: Json = self._call("PATCH", path, query, patch, STRATEGIC_MERGE, None, verb="patch")
        return decoded

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> Json:
        """Set annotations, delete those whose value is None, leave the others."""
        return self.merge_patch(path, {"metadata": {"annotations": dict(annotations)}})

    @overload
    def create(self, collection: str, manifest: Json) -> Json: ...
    @overload
    def create(self, collection: str, manifest: Json, *, into: type[S]) -> S: ...
    def create(self, collection: str, manifest: Json, *, into: type[S] | None = None) -> Json | S:
        """POST to a collection.

        A 409 AlreadyExists may be our own doing: the answer to a first try that worked can get lost.
        """
        query = {"fieldManager": self._field_manager}
        return self._call("POST", collection, query, manifest, "application/json", into, verb="create")

    @overload
    def get(self, path: str) -> Json: ...
    @overload
    def get(self, path: str, *, into: type[S]) -> S: ...
    def get(self, path: str, *, into: type[S] | None = None) -> Json | S:
        """Read one object; ApiError 404 when it is not there."""
        return self._call("GET", path, {}, None, "", into, verb="get")

    def delete(
        self,
        path: str,
        *,
        propagation: Propagation = Propagation.BACKGROUND,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete one object.

        Args:
            path: The object's path.
            propagation: What happens to its dependents.
            uid: Only this very object, not a later one of the same name.
            grace_seconds: Instead of the object's own grace period.

        Returns:
            False when it was gone already.

        Raises:
            ApiError: 409 when the uid is another's now.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.value}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._retry(self._connection.request, "DELETE", path, body=options, verb="delete")
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: Json | None,
        content_type: str,
        into: type[S] | None,
        *,
        verb: str,
    ) -> Json | S:
        answer = self._retry(
            self._connection.request, method, path, query=query, body=body, content_type=content_type, verb=verb
        )
        if into is not None:
            return msgspec.json.decode(answer, type=into)
        decoded: Json = msgspec.json.decode(answer)
        return decoded


def conflict_text(error: ApiError) -> str:
    """A 409 in words for a status condition: which fields, and who holds them.

    >>> print(conflict_text(error))  # doctest: +SKIP
    .spec.replicas is held by "kubectl-edit" using apps/v1
    """
    held = [
        f"{cause.field} is held by {cause.message.removeprefix('conflict with ')}"
        for cause in error.causes
        if cause.reason == "FieldManagerConflict"
    ]
    return "; ".join(held) or error.message
