"""The reflectors: what is watched, with which selectors, and whether it is all there and fresh.

Acting on half a view adds or takes the wrong placeholders, so one required watch that is not synced, or has heard
nothing for 200 s, is enough to plan nothing. Owned by the main thread; `stale` may be asked from any.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from slack.cluster import wire
from slack.kube.connection import Connection
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.planner.manifests import LABEL_PLACEHOLDER
from slack_operator.sinks import EventSink, NodeSink, OwnSetSink, PodSink, PriorityClassSink, WorkloadSink
from slack_operator.view import View

STALE_SECONDS = 200.0
"""A quiet watch gets a bookmark every two minutes at the latest."""
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Watches:
    """All reflectors of one operator."""

    def __init__(
        self,
        connection: Connection,
        view: View,
        *,
        clock: Callable[[], float] = time.monotonic,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._clock = clock
        self._stale_seconds = stale_seconds

        def everywhere(version: str, plural: str) -> str:
            return resource_path(version, plural)

        def ours(version: str, plural: str) -> str:
            return resource_path(version, plural, namespace=view.namespace)

        self.required: tuple[Reflector[Any], ...] = (
            Reflector(connection, everywhere("v1", "pods"), wire.Pod, PodSink(view), field_selector=UNFINISHED),
            Reflector(connection, everywhere("v1", "nodes"), wire.Node, NodeSink(view)),
            Reflector(
                connection,
                everywhere("scheduling.k8s.io/v1", "priorityclasses"),
                wire.PriorityClass,
                PriorityClassSink(view),
            ),
            Reflector(
                connection,
                ours("apps/v1", "replicasets"),
                wire.ReplicaSet,
                OwnSetSink(view),
                label_selector=f"{LABEL_PLACEHOLDER}=true",
            ),
            self._workloads(connection, view, "apps/v1", "deployments", "Deployment", wire.Deployment),
            self._workloads(connection, view, "apps/v1", "replicasets", "ReplicaSet", wire.ReplicaSet),
            self._workloads(connection, view, "apps/v1", "statefulsets", "StatefulSet", wire.StatefulSet),
            self._workloads(connection, view, "batch/v1", "jobs", "Job", wire.Job),
            self._workloads(connection, view, "batch/v1", "cronjobs", "CronJob", wire.CronJob),
        )
        self.helpful: tuple[Reflector[Any], ...] = (
            Reflector(connection, ours("v1", "events"), wire.Event, EventSink(view)),
        )

    @staticmethod
    def _workloads(
        connection: Connection, view: View, version: str, plural: str, kind: str, item_type: type[Any]
    ) -> Reflector[Any]:
        return Reflector(connection, resource_path(version, plural), item_type, WorkloadSink(view, kind))

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in (*self.required, *self.helpful):
            reflector.start()

    def stop(self) -> None:
        """End all streams, then all threads."""
        for reflector in (*self.required, *self.helpful):
            reflector.stop(timeout=0.0)
        for reflector in (*self.required, *self.helpful):
            reflector.stop(timeout=2.0)

    def stale(self) -> str:
        """Say which required watch is not whole or not fresh; '' when all are."""
        now = self._clock()
        for reflector in self.required:
            why = f": {reflector.last_error}" if reflector.last_error else ""
            if not reflector.synced:
                return f"{reflector.path} is not listed yet{why}"
            age = reflector.last_heard_age(now)
            if age > self._stale_seconds:
                return f"{reflector.path} has been silent for more than {self._stale_seconds:.0f} s{why}"
        return ""

    def restarts(self) -> Mapping[str, int]:
        """How often each watch was opened anew."""
        counts: dict[str, int] = {}
        for reflector in (*self.required, *self.helpful):
            streams = reflector.counters.watches + reflector.counters.watchlists + reflector.counters.lists
            counts[reflector.path] = counts.get(reflector.path, 0) + max(0, streams - 1)
        return counts
