"""When each pod was bound and running, by this process's clock.

Kubernetes' own timestamps have whole seconds; what slack is for is measured in hundredths. A thread watches all pods
from before the test acts and notes the first time it sees each state.
"""

import statistics
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import urllib3

from e2e.harness.api import Api, ApiError, Json, Watch
from e2e.harness.objects import wait_until


@dataclass(slots=True)
class PodTimes:
    """When a pod was first seen in each state, as `time.monotonic()`; None if it was not."""

    uid: str
    name: str
    namespace: str
    labels: dict[str, str] = field(default_factory=dict)
    created: float = 0.0
    bound: float | None = None
    running: float | None = None
    deleted: float | None = None
    node: str = ""

    @property
    def bind_seconds(self) -> float | None:
        """From creation to binding."""
        return None if self.bound is None else self.bound - self.created

    @property
    def start_seconds(self) -> float | None:
        """From creation to Running."""
        return None if self.running is None else self.running - self.created


class PodClock:
    """Watches pods while it is open.

    Usage:

        with PodClock(cluster.api) as clock:
            cluster.api.apply(deployment("burst", 30))
            clock.wait_for_running(30, 20, app="burst")
        print(percentile(clock.seconds("bind_seconds", app="burst"), 99))
    """

    def __init__(self, api: Api, namespace: str = "") -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._lock = threading.Lock()
        self._times: dict[str, PodTimes] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="pod-clock", daemon=True)
        self._watch: Watch

    def __enter__(self) -> Self:
        # Open before the test acts: a pod whose creation and binding arrive together would seem bound at once.
        self._list_and_watch()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._watch.stop()
        self._thread.join(timeout=5)

    def times(self, **labels: str) -> list[PodTimes]:
        """Return what was seen of the pods that have these labels."""
        with self._lock:
            return [entry for entry in self._times.values() if labels.items() <= entry.labels.items()]

    def seconds(self, what: str, **labels: str) -> list[float]:
        """Return `bind_seconds` or `start_seconds` of the pods that have these labels and came that far."""
        found = (getattr(entry, what) for entry in self.times(**labels))
        return sorted(value for value in found if value is not None)

    def wait_for_running(self, count: int, timeout: float, **labels: str) -> list[float]:
        """Wait until this watch has seen so many pods run; a list may tell of them before it does.

        Returns:
            `start_seconds` of the pods that have these labels, sorted.
        """

        def seen() -> list[float]:
            return self.seconds("start_seconds", **labels)

        wait_until(lambda: len(seen()) >= count, timeout, f"{count} pods {labels} to run", state=self.times)
        return seen()

    def _list_and_watch(self) -> None:
        answer = self._api.get(self._path)
        for entry in answer["items"]:
            self._note(entry, "ADDED")
        self._watch = self._api.watch(self._path, answer["metadata"]["resourceVersion"])

    def _follow(self) -> None:
        while True:
            try:
                for event in self._watch:
                    if event["type"] == "ERROR":
                        break
                    self._note(event["object"], event["type"])
            except urllib3.exceptions.HTTPError:
                pass  # closed, or the API server went away; the next lines tell which
            if self._stopped.is_set() or not self._begin_again():
                return

    def _begin_again(self) -> bool:
        """List anew: a restarted API server has no history (410), so going on from the last version would not do."""
        while not self._stopped.wait(0.1):
            try:
                self._list_and_watch()
            except (ApiError, urllib3.exceptions.HTTPError):
                continue  # it is still down
            return True
        return False

    def _note(self, entry: Json, kind: str) -> None:
        now = time.monotonic()
        metadata = entry["metadata"]
        with self._lock:
            times = self._times.setdefault(
                metadata["uid"],
                PodTimes(metadata["uid"], metadata["name"], metadata["namespace"], metadata.get("labels") or {}, now),
            )
            if times.bound is None and entry["spec"].get("nodeName"):
                times.bound, times.node = now, entry["spec"]["nodeName"]
            if times.running is None and entry["status"].get("phase") == "Running":
                times.running = now
            if kind == "DELETED":
                times.deleted = now


def percentile(values: Iterable[float], percent: int) -> float:
    """Return a percentile of some seconds; of a single value that value."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    if len(ordered) == 1:
        return ordered[0]
    return statistics.quantiles(ordered, n=100, method="inclusive")[percent - 1]
