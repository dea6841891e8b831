"""Writes to an API server, each through one retry policy: server-side apply, patches, create, get, delete.

Objects are plain JSON values, in and out. Any thread may call.
After a few transient failures, writes of the same kind are not sent for a while: they raise `WritesPaused`.
Writing only what changed is the caller's decision; a repeated apply of the same object changes nothing on the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import tenacity

from slack.cluster.labels import FIELD_MANAGER
from slack.kube.breaker import CircuitBreaker, circuit_of
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError, Unreachable, decode_answer
from slack.kube.retry import retrying

Json = dict[str, Any]

APPLY = "application/apply-patch+yaml"  # JSON is YAML
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
DELETE_OPTIONS: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
_OBJECT = msgspec.json.Decoder(Json)


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
        retry: tenacity.Retrying | None = None,
        pauses: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A writer to which nothing has failed yet.

        Args:
            connection: To the API server.
            stopping: When set, nothing is retried.
            field_manager: Of what is written.
            retry: The policy for each write and read.
            pauses: Whether failing writes are paused; False for a command, whose last write is the one that cleans up.
            clock: Monotonic seconds, for pauses.
        """
        self._connection = connection
        self._field_manager = field_manager
        self._retry = retry or retrying(stopping)
        self._breaker = CircuitBreaker(clock=clock) if pauses else None

    def apply(self, path: str, manifest: Json, *, force: bool = False) -> Json:
        """Server-side apply; creates the object when it is not there.

        Args:
            path: The object's own path; `/status` behind it applies the status, with an owner entry of its own.
            manifest: Only the fields we mean to own, with apiVersion, kind and metadata.name.
            force: Take over fields that others own instead of raising.

        Raises:
            ApiError: 409 names the fields others own, see `conflict_text`.
        """
        query = {"fieldManager": self._field_manager, "force": force or None}
        return self._call("PATCH", path, query, manifest, APPLY, verb="apply")

    def merge_patch(self, path: str, patch: Json) -> Json:
        """JSON merge patch; None deletes a field. `/status` behind the path patches the status."""
        return self._call("PATCH", path, {"fieldManager": self._field_manager}, patch, MERGE, verb="patch")

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
        return self._call("PATCH", path, query, patch, STRATEGIC_MERGE, verb="patch")

    def json_patch(self, path: str, operations: Sequence[Json]) -> Json:
        """JSON patch (RFC 6902): all of it, or nothing where a `test` does not hold.

        Raises:
            ApiError: 422 when it does not, or a path is not there.
        """
        return self._call(
            "PATCH", path, {"fieldManager": self._field_manager}, list(operations), JSON_PATCH, verb="patch"
        )

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> Json:
        """Set annotations, delete those whose value is None, leave the others."""
        return self.merge_patch(path, {"metadata": {"annotations": dict(annotations)}})

    def create(self, collection: str, manifest: Json) -> Json:
        """POST to a collection.

        A 409 AlreadyExists may be our own doing: the answer to a first try that worked can get lost.
        """
        query = {"fieldManager": self._field_manager}
        return self._call("POST", collection, query, manifest, "application/json", verb="create")

    def get(self, path: str) -> Json:
        """Read one object; ApiError 404 when it is not there."""
        return self._call("GET", path, {}, None, "", verb="get")

    def delete(self, path: str, *, uid: str | None = None) -> bool:
        """Delete one object; its dependents follow in the background.

        Args:
            path: The object's path.
            uid: Only this very object, not a later one of the same name.

        Returns:
            False when it was gone already.

        Raises:
            ApiError: 409 when the uid is another's now.
        """
        options = DELETE_OPTIONS if uid is None else {**DELETE_OPTIONS, "preconditions": {"uid": uid}}
        try:
            self._send("DELETE", path, body=options, verb="delete")
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
        body: Json | list[Json] | None,
        content_type: str,
        *,
        verb: str,
    ) -> Json:
        answer = self._send(method, path, query=query, body=body, content_type=content_type, verb=verb)
        return decode_answer(f"{method} {path}", answer, _OBJECT)

    def _send(self, method: str, path: str, *, verb: str, **request: Any) -> bytes:
        if self._breaker is None or method == "GET":
            return bytes(self._retry(self._connection.request, method, path, verb=verb, **request))
        circuit = circuit_of(verb, path)
        may_retry = self._breaker.check(circuit)
        try:
            if may_retry:
                answer = bytes(self._retry(self._connection.request, method, path, verb=verb, **request))
            else:
                answer = self._connection.request(method, path, verb=verb, **request)
        except (ApiError, Unreachable) as error:
            self._breaker.failed(circuit, error)
            raise
        self._breaker.succeeded(circuit)
        return answer


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


def refusal_text(error: KubeError) -> str:
    """A refused write to one of our own kinds in words: an upgrade that left the CRDs as they were is named."""
    if not isinstance(error, ApiError) or not error.wrong_schema:
        return str(error)
    return (
        f"{error}; the CRD in the cluster is another version's, so upgrade it: "
        "helm show crds CHART | kubectl apply --server-side --force-conflicts -f -"
    )
