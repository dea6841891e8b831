"""Pods with a gate on a real node: as the webhook would make them, and what their kubelet says of each container."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.harness.api import Api, Json
from e2e.harness.json_patch import patched
from e2e.harness.node import images
from e2e.harness.objects import wait_until
from slack.throttler.injection import GateOptions, patch

NAMESPACE = "shop"
PROBE = {"readinessProbe": {"exec": {"command": ["/bin/cat", "/tmp/up"]}, "periodSeconds": 1}}
"""Ready once its script has written the file."""


@dataclass(frozen=True)
class GatedPods:
    """The gated pods of one namespace."""

    api: Api
    options: GateOptions

    def create(self, manifest: Json, **options: Any) -> str:
        """Create a pod as the webhook would make it; returns its name."""
        fields = {name: getattr(self.options, name) for name in GateOptions.__dataclass_fields__}
        self.api.create(patched(manifest, patch(manifest, GateOptions(**(fields | options)))))
        return str(manifest["metadata"]["name"])

    def pod(self, name: str) -> Json:
        """Read a pod."""
        return self.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def status(self, name: str, container: str) -> Json:
        """Read a container's status; empty before there is one."""
        return status_of(self.pod(name), container)

    def is_held(self, name: str, container: str) -> bool:
        """Whether the kubelet says that it cannot create a container yet."""
        waiting = self.status(name, container).get("state", {}).get("waiting", {})
        return bool(waiting.get("reason") == "CreateContainerConfigError")

    def is_ready(self, name: str) -> bool:
        """Whether all containers of a pod are ready."""
        found = self.pod(name).get("status", {}).get("containerStatuses", ())
        return bool(found) and all(row["ready"] for row in found)

    def wait(self, name: str, container: str, what: str, seconds: float = 60, **wanted: object) -> Json:
        """Wait until a container's state has these fields; returns its status."""

        def there() -> Json | None:
            found = self.status(name, container)
            state = found.get("state", {}).get(what)
            fits = state is not None and all(state.get(key) == value for key, value in wanted.items())
            return found if fits else None

        found = wait_until(there, seconds, f"{name}/{container} {what} {wanted}", lambda: self.pod(name)["status"])
        return found or {}

    def wait_held(self, name: str, container: str) -> Json:
        """Wait until the kubelet says that it cannot create a container yet."""
        return self.wait(name, container, "waiting", reason="CreateContainerConfigError")

    def wait_ready(self, name: str, seconds: float = 60) -> None:
        """Wait until all containers of a pod are ready."""
        wait_until(lambda: self.is_ready(name), seconds, f"{name} to be ready", lambda: self.pod(name)["status"])

    def remove(self, *names: str) -> None:
        """Delete pods, and wait until they are gone, their slots with them."""
        for name in names:
            self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", grace_seconds=0)

        def gone() -> bool:
            return all(self.api.find(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}") is None for name in names)

        wait_until(gone, 60, f"{', '.join(names)} to be gone")


def status_of(pod: Mapping[str, Any], container: str) -> Json:
    """Return a container's status in a pod; empty before there is one."""
    status = pod.get("status", {})
    rows = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
    return next((row for row in rows if row["name"] == container), {})


def container(name: str, script: str = "", **fields: object) -> Json:
    """Return a container that runs a script and then sleeps."""
    return {
        "name": name,
        "image": images.BURNER,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", f"trap 'exit 0' TERM; {script} sleep 2147483647 & wait"],
        **fields,
    }


def shop(name: str, *containers: Json, **spec: object) -> Json:
    """Return a pod of the real node."""
    base = {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False, "containers": list(containers)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": base | spec,
    }


def started_at(status: Mapping[str, Any]) -> datetime:
    """When a container began to run, by the cluster's clock."""
    return datetime.fromisoformat(status["state"]["running"]["startedAt"])
