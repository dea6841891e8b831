"""From `helm install` to reserved capacity, step by step, as two watches of the benchmark see it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import urllib3

from e2e.harness.api import Api, Json, Watch
from e2e.harness.objects import condition
from e2e.harness.product.helm import NAMESPACE
from e2e.harness.product.operator import is_told
from slack.cluster.labels import LABEL_PLACEHOLDER


@dataclass(frozen=True, slots=True)
class Installation:
    """When each step was over, in seconds from `helm install` on."""

    container: float
    """The operator's pod runs, and its process is started."""
    ready: float
    """The operator has seen the whole cluster."""
    created: float
    """The last placeholder is there."""
    told: float
    """Autoscalers count the last placeholder; bound ones have a node."""
    node_made: float
    """The last node that came was created; 0 if none came."""
    node_ready: float
    """It was ready."""
    reserved: float
    """The policy's status says that all capacity is reserved."""


class InstallationClock:
    """Watches placeholders and nodes while it is open.

    Usage:

        with InstallationClock(api) as clock:
            ...
        clock.installation(began, container=..., ready=..., reserved=...)
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._created: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._made: dict[str, float] = {}
        self._ready: dict[str, float] = {}
        self._watches: list[Watch] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._follow("/api/v1/nodes", self._see_node)
        self._follow(f"/api/v1/namespaces/{NAMESPACE}/pods", self._see_pod)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.stop()
        for thread in self._threads:
            thread.join(timeout=5)

    def installation(self, began: float, *, container: float, ready: float, reserved: float) -> Installation:
        """Return the steps.

        Args:
            began: monotonic seconds, when Helm was started.
            container: seconds from then until the operator's process was started.
            ready: the same until the operator was ready.
            reserved: the same until all capacity was reserved.
        """
        with self._lock:
            last = [max(seen.values(), default=began) for seen in (self._created, self._told, self._made, self._ready)]
        created, told, made, node_ready = (max(at - began, 0.0) for at in last)
        return Installation(container, ready, created, told, made, node_ready, reserved)

    def _follow(self, path: str, see: Callable[[Json, float], None]) -> None:
        """Watch what comes from now on; what is there already is left out."""
        listed = self._api.get(path)
        known = frozenset(found["metadata"]["name"] for found in listed["items"])
        watch = self._api.watch(path, listed["metadata"]["resourceVersion"])
        self._watches.append(watch)
        thread = threading.Thread(target=self._read, args=(watch, known, see), name="installation-clock", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, watch: Watch, known: frozenset[str], see: Callable[[Json, float], None]) -> None:
        try:
            for event in watch:
                if event["type"] in ("ADDED", "MODIFIED") and event["object"]["metadata"]["name"] not in known:
                    with self._lock:
                        see(event["object"], time.monotonic())
        except urllib3.exceptions.HTTPError:
            return  # it was stopped within a line

    def _see_node(self, node: Json, now: float) -> None:
        name = node["metadata"]["name"]
        self._made.setdefault(name, now)
        if condition(node, "Ready") == "True":
            self._ready.setdefault(name, now)

    def _see_pod(self, pod: Json, now: float) -> None:
        if LABEL_PLACEHOLDER in (pod["metadata"].get("labels") or {}):
            name = pod["metadata"]["name"]
            self._created.setdefault(name, now)
            if is_told(pod) or pod["spec"].get("nodeName"):
                self._told.setdefault(name, now)
