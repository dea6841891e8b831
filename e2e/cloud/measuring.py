"""What is measured on the cluster, by kubectl: how long pods of a burst take until they are Ready, and what is left."""

import json
import math
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = dict[str, Any]
BURST = "resource-slack-cloud-burst"
NAMESPACE = "resource-slack"
POLL_SECONDS = 2.0


class CloudError(RuntimeError):
    """A step that did not work; the text says which, and what the program printed."""


@dataclass(frozen=True, slots=True)
class Burst:
    """How long the pods of one burst took from their creation until they were Ready."""

    seconds: Sequence[float]
    asked: int

    def quantile(self, share: float) -> float:
        """Return a quantile over all pods that were asked for; infinite if so many were never Ready."""
        ordered = sorted(self.seconds)
        at = max(math.ceil(share * self.asked), 1) - 1
        return ordered[at] if at < len(ordered) else math.inf


def run(*command: str, text: str | None = None) -> str:
    """Run a program and return what it printed.

    Raises:
        CloudError: it failed.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CloudError(f"{' '.join(command)}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def read(*command: str) -> Json:
    """Run a program that prints JSON, and return it."""
    found: Json = json.loads(run(*command))
    return found


def wait_until(met: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until something is so.

    Raises:
        CloudError: it was not in time.
    """
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            raise CloudError(f"not in {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)


def burst_manifest(pods: int, cpu: str, memory: str) -> Json:
    """Return a Deployment whose pods only wait."""
    labels = {"app": BURST}
    container = {
        "name": "wait",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": BURST, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def ready_seconds(pods: Sequence[Json]) -> list[float]:
    """Return, for each pod that is Ready, the time from its creation until then. Kubernetes tells whole seconds."""
    found = []
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "True":
                begun = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
                found.append((datetime.fromisoformat(condition["lastTransitionTime"]) - begun).total_seconds())
    return found


def measure_burst(pods: int, cpu: str, memory: str, patience_seconds: float) -> Burst:
    """Start a burst, wait until its pods are Ready or patience ends, and remove it."""

    def there() -> list[Json]:
        items: list[Json] = read("kubectl", "get", "pods", "-n", "default", "-l", f"app={BURST}", "-o", "json")["items"]
        return items

    run("kubectl", "apply", "-f", "-", text=json.dumps(burst_manifest(pods, cpu, memory)))
    try:
        deadline = time.monotonic() + patience_seconds
        while len(ready_seconds(there())) < pods and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return Burst(ready_seconds(there()), pods)
    finally:
        run("kubectl", "delete", "deployment", BURST, "-n", "default", "--wait=true")


def placeholders_left(patience_seconds: float = 60.0) -> int:
    """Count the placeholders that are still in the cluster when patience ends."""
    deadline = time.monotonic() + patience_seconds
    while True:
        label = "resource-slack.io/placeholder=true"
        left = len(read("kubectl", "get", "pods", "-A", "-l", label, "-o", "json")["items"])
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_SECONDS)


def cost_text(status: Json) -> str:
    """Return what slack costs by a SlackPolicy's status, in its own words."""
    return str((status.get("cost") or {}).get("text") or "unknown")
