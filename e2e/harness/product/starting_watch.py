"""Looks at pods all the time: how many of their containers start at once, and how often they were restarted."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.harness.api import Api
from e2e.harness.objects import pods
from e2e.harness.product.gated_pods import NAMESPACE, status_of
from slack.throttler.injection import VARIABLE


@dataclass
class Seen:
    """What a watcher saw of containers: how many ran and were not ready, at the most, and restarts."""

    most: int = 0
    looks: int = 0
    restarts: Counter[str] = field(default_factory=Counter)


@contextmanager
def watched(api: Api, *, ungated: bool = False) -> Iterator[Seen]:
    """Look at all pods of the namespace at once, again and again; at gated containers, or at those without a gate."""
    seen, ended = Seen(), threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            starting = 0
            for pod in pods(api, NAMESPACE):
                for each in pod["spec"]["containers"]:
                    gated = any(entry["name"] == VARIABLE for entry in each.get("env", ()))
                    status = status_of(pod, each["name"])
                    starting += gated != ungated and "running" in status.get("state", {}) and not status["ready"]
                    seen.restarts[f"{pod['metadata']['name']}/{each['name']}"] = status.get("restartCount", 0)
            seen.most, seen.looks = max(seen.most, starting), seen.looks + 1

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
