"""Requests to an API server, as plain JSON.

The official client's models cost half a millisecond an object and know no custom resources; the suites read thousands
of pods and send manifests as dictionaries. So: urllib3, a client certificate or token, and discovery for the paths.
"""

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

Json = dict[str, Any]
FIELD_MANAGER = "e2e"
STORAGE_SECONDS = 30.0
"""How long the storage of a kind may be in the making, as after its CRD came: until then the server answers 429."""


class ApiError(RuntimeError):
    """The API server's refusal: `status` is the HTTP code, `reason` Kubernetes' word for it (NotFound, Forbidden)."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        try:
            answer: Any = json.loads(body)
        except ValueError:
            answer = {}
        self.status = status
        self.reason = str(answer.get("reason", "")) if isinstance(answer, dict) else ""
        message = answer.get("message") if isinstance(answer, dict) else None
        super().__init__(f"{method} {path}: {status} {message or body[:300]!r}")


@dataclass
class Api:
    """One user's door to one API server.

    Usage:

        api.items("/api/v1/nodes"); api.apply(manifest); api.delete("/api/v1/namespaces/default/pods/a")
    """

    server: str
    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    token: str = ""
    timeout_seconds: float = 30.0
    _pool: urllib3.PoolManager = field(init=False, repr=False)
    _resources: dict[str, dict[str, Json]] = field(init=False, repr=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        # A new connection is tried for requests that surely did nothing; all else is the test's business.
        retries = urllib3.Retry(total=None, connect=2, read=0, redirect=0, status=0, other=0, backoff_factor=0.05)
        self._pool = urllib3.PoolManager(maxsize=16, ssl_context=context, retries=retries)

    def request(
        self, method: str, path: str, body: Json | list[Json] | None = None, content_type: str = "application/json"
    ) -> Json:
        """Send one request and return the answer's JSON.

        Raises:
            ApiError: any answer but 2xx.
            urllib3.exceptions.HTTPError: no answer.
        """
        return _object(self._send(method, path, body, content_type))

    def text(self, path: str) -> str:
        """Read what is no JSON, as a container's output is."""
        return self._send("GET", path, None, "application/json").decode()

    def _send(self, method: str, path: str, body: Json | list[Json] | None, content_type: str) -> bytes:
        until = time.monotonic() + STORAGE_SECONDS
        while True:
            response = self._pool.request(
                method,
                self.server + path,
                body=None if body is None else json.dumps(body),
                headers=self._headers(content_type),
                timeout=self.timeout_seconds,
            )
            making = response.status == HTTPStatus.TOO_MANY_REQUESTS and b"(re)initializing" in response.data
            if not making or time.monotonic() >= until:
                break
            time.sleep(0.2)
        if not 200 <= response.status < 300:
            raise ApiError(method, path, response.status, response.data)
        return response.data

    def get(self, path: str) -> Json:
        """Read one object."""
        return self.request("GET", path)

    def find(self, path: str) -> Json | None:
        """Read one object; None if there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Json]:
        """Read all objects of a collection (`labelSelector=...`, `fieldSelector=...` as keywords)."""
        found: list[Json] = self.get(f"{path}?{urlencode(query)}" if query else path).get("items") or []
        return found

    def create(self, manifest: Json) -> Json:
        """Create an object."""
        return self.request("POST", self.path_of(manifest, collection=True), manifest)

    def apply(self, manifest: Json, manager: str = FIELD_MANAGER) -> Json:
        """Create an object or make it what the manifest says (server-side apply, taking over conflicting fields)."""
        path = f"{self.path_of(manifest)}?fieldManager={quote(manager)}&force=true"
        return self.request("PATCH", path, manifest, "application/apply-patch+yaml")

    def patch(self, path: str, change: Json) -> Json:
        """Merge a change into an object."""
        return self.request("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path: str, grace_seconds: int | None = None, propagation: str = "Background") -> None:
        """Delete an object; it is no error if there is none."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise

    def watch(self, path: str, resource_version: str = "", seconds: int = 3600, **query: str) -> "Watch":
        """Open a watch; when this returns, the server has taken it and no later event is missed."""
        query |= {"watch": "1", "timeoutSeconds": str(seconds)}
        if resource_version:
            query["resourceVersion"] = resource_version
        target = f"{path}?{urlencode(query)}"
        timeout = urllib3.Timeout(connect=self.timeout_seconds, read=seconds + 10.0)
        response = self._pool.request(
            "GET", self.server + target, headers=self._headers(), timeout=timeout, preload_content=False
        )
        if response.status != 200:
            raise ApiError("GET", target, response.status, response.read())
        return Watch(response)

    def path_of(self, manifest: Mapping[str, Any], collection: bool = False) -> str:
        """Return the path of a manifest's object (or of its collection), asking the server for kinds once."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = self._resource(prefix, kind)
        if resource["namespaced"]:
            prefix += f"/namespaces/{quote(metadata.get('namespace', 'default'))}"
        path = f"{prefix}/{resource['name']}"
        return path if collection else f"{path}/{quote(metadata['name'])}"

    def _resource(self, prefix: str, kind: str) -> Json:
        with self._lock:
            if kind not in self._resources.get(prefix, {}):  # also asks again for a CRD that came later
                found = self.get(prefix)["resources"]
                self._resources[prefix] = {entry["kind"]: entry for entry in found if "/" not in entry["name"]}
            try:
                return self._resources[prefix][kind]
            except KeyError:
                raise LookupError(f"the API server knows no {kind} in {prefix}") from None

    def _headers(self, content_type: str = "application/json") -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


class Watch:
    """Iterates over watch events (`{"type", "object"}`) until the server ends the watch or `stop()` is called.

    `stop()` may be called by another thread than the one that reads.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[Json]:
        rest = b""
        try:
            for chunk in self._response.stream(65536, decode_content=True):
                if self._stopped.is_set():  # a shut down TLS socket hands its last bytes out undeciphered
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (_object(line) for line in lines if line)
        finally:
            self._response.close()  # not release_conn: the rest of the stream is not wanted

    def stop(self) -> None:
        """Wake the reader, whose iteration ends (or breaks with urllib3's error, if it was within a line)."""
        self._stopped.set()
        with suppress(ValueError, OSError):  # it has ended by itself, or does just now
            self._response.shutdown()


def _object(data: bytes) -> Json:
    if not data.startswith(b"{"):  # /healthz and its like answer plain text
        return {"text": data.decode("utf-8", errors="replace")}
    answer: Json = json.loads(data)
    return answer
