"""Pods as containers: created and ended over many requests at once, observed by a reflector.

One worker thread sends what the loop asks for; a burst is one batch over `slack.kube.pipelining`. Each write bears
being sent twice: a creation has its pod's name, an ending the pod's uid. An ending that fails is tried again until the
pod is gone, for the rules count it until then. Nothing is written while this process does not lead.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slack.cluster.labels import LABEL_POOL
from slack.demand.model import Creation, Ending, Place, PoolContainer, QueueKey
from slack.demand.policy import ActivationPool
from slack.kube.apply import DELETE_OPTIONS
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.kube.pipelining import PipelinedClient, WriteRequest
from slack.kube.reflector import Reflector
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.demand.containers import OnFailure
from slack_operator.demand.pod_manifest import ProxyOptions, pod_manifest
from slack_operator.demand.pod_rows import PodRows, PoolPod, PoolPodRow, owned_pods

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 1.0
"""So often endings that have failed, and what is left of finished pods, are looked at."""
BATCH_SECONDS: Final = 120.0
"""A batch of writes that takes longer counts as stuck."""
COMES_YET_SECONDS: Final = 600.0
"""A pod that is to end and was not seen for so long does not come any more: its creation has failed, or it is gone."""
NODE_STARTS: Final = 3
"""So many waits say how long a node takes."""
OnDone = Callable[[QueueKey, str, str], None]
"""Called with a pool, `created`, `ended` or `failed`, and a reason; in the worker's thread."""


@dataclass(frozen=True, slots=True)
class _Write:
    ask: WriteRequest
    key: QueueKey
    creation: Creation | None
    place: Place
    reason: str = ""


class PodContainers:
    """The containers of a cluster. `seen`, `create` and `end` belong to the loop's thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        namespaces: Sequence[str],
        options: ProxyOptions,
        pool_of: Callable[[QueueKey], ActivationPool | None],
        uid_of: Callable[[QueueKey], str | None],
        may_write: Callable[[], bool],
        on_failure: OnFailure,
        on_done: OnDone = lambda key, what, reason: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is watched yet.

        Args:
            connection: to the API server.
            namespaces: where pools are, each watched by itself; none: everywhere.
            options: what proxies are told.
            pool_of: a pool as it is wanted now.
            uid_of: the uid of its object; None where there is none.
            may_write: asked before every single write.
            on_failure: told of creations that failed.
            on_done: told what became of each write.
            clock: monotonic seconds.
        """
        self._clock = clock
        self._options = options
        self._pool_of = pool_of
        self._uid_of = uid_of
        self._may_write = may_write
        self._on_failure = on_failure
        self._on_done = on_done
        self._lanes = PipelinedClient(connection)
        self._rows = [PodRows() for _ in namespaces or ("",)]
        paths = [resource_path("v1", "pods", namespace=name) for name in namespaces] or [resource_path("v1", "pods")]
        self.reflectors = [
            Reflector(connection, path, PoolPodRow, rows, label_selector=LABEL_POOL)
            for path, rows in zip(paths, self._rows, strict=True)
        ]
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._waiting: list[_Write] = []
        self._ending: dict[Place, tuple[str, float]] = {}
        """Why each is to end, and when it was seen last, or was told to end."""
        self._stop = False
        self._outages = Outages()
        heart = Heartbeat("the thread that writes pods", BATCH_SECONDS)
        self._thread = SupervisedThread(self._run, name="pods", heart=heart)

    # What the loop calls.

    def seen(self) -> Sequence[PoolContainer]:
        """Return all containers that are there, without those that have finished."""
        return [pod.container for pod in owned_pods(self._rows, self._uid_of) if not pod.finished]

    def create(self, creations: Sequence[Creation]) -> None:
        """Begin to create pods."""
        writes = []
        for creation in creations:
            pool = self._pool_of(creation.key)
            if pool is None or not pool.uid:
                self._on_failure(creation.id, "its pool is gone")
                continue
            path = resource_path("v1", "pods", namespace=pool.namespace)
            ask = WriteRequest("POST", path, pod_manifest(pool, creation, self._options))
            writes.append(_Write(ask, creation.key, creation, (pool.namespace, creation.id)))
        self._send(writes)

    def end(self, endings: Sequence[Ending]) -> None:
        """Begin to end pods; one that is not seen yet ends once it is."""
        writes = []
        now = self._clock()
        with self._lock:
            for ending in endings:
                self._ending[ending.key.namespace, ending.container_id] = str(ending.reason), now
        for ending in endings:
            found = self._get((ending.key.namespace, ending.container_id))
            if found is not None and not found.deleted:
                writes.append(_deletion(found, str(ending.reason)))
        self._send(writes)

    @property
    def node_start_seconds(self) -> float | None:
        """How long pods without room have waited for a node, nine out of ten of them; None until that is known."""
        waits = sorted(wait for rows in self._rows for wait in rows.waits())
        return None if len(waits) < NODE_STARTS else waits[min(len(waits) - 1, math.ceil(0.9 * len(waits)) - 1)]

    def counts(self, uids: Mapping[QueueKey, str]) -> dict[str, int]:
        """Return how many containers these pools have, by namespace.

        Args:
            uids: the pools, each with its object's uid.
        """
        return dict(Counter(pod.container.namespace for pod in owned_pods(self._rows, uids.get) if not pod.finished))

    # A part of the process.

    def start(self) -> None:
        """Begin to send what is asked for."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Send nothing more."""
        self._thread.dismiss()
        self._stop = True
        self._wake.set()
        self._thread.join(timeout)

    def unhealthy(self) -> str | None:
        """Return why no pod is written any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def _get(self, place: Place) -> PoolPod | None:
        found = next((pod for rows in self._rows if (pod := rows.get(place)) is not None), None)
        return found if found is not None and self._uid_of(found.container.key) == found.owner else None

    def _send(self, writes: Sequence[_Write]) -> None:
        with self._lock:
            self._waiting += writes
        self._wake.set()

    def _run(self) -> None:
        swept = time.monotonic()
        while True:
            self._thread.heart.rest(self._wake, SWEEP_SECONDS)
            self._wake.clear()
            if self._stop:
                break
            sweeps = time.monotonic() - swept >= SWEEP_SECONDS
            if sweeps:
                swept = time.monotonic()
            self.exchange(sweeps=sweeps)
        self._lanes.close()

    def exchange(self, *, sweeps: bool) -> None:
        """Send what waits; `sweeps`: also endings that have not come to pass, and what is left of finished pods."""
        with self._lock:
            writes, self._waiting = self._waiting, []
        if sweeps:
            sent = {write.place for write in writes}
            writes += [write for write in self._left_over() if write.place not in sent]
        if writes and self._may_write():
            self._exchange(writes)

    def _left_over(self) -> list[_Write]:
        """Endings that have not come to pass, and finished pods, whose objects nobody else would delete."""
        pods = {pod.place: pod for pod in owned_pods(self._rows, self._uid_of)}
        with self._lock:
            # One that is not there may come yet, if its creation is still under way.
            now = self._clock()
            seen = {place: (why, now if place in pods else at) for place, (why, at) in self._ending.items()}
            self._ending = {place: item for place, item in seen.items() if now - item[1] < COMES_YET_SECONDS}
            ending = {place: why for place, (why, _) in self._ending.items()}
            for place, pod in pods.items():
                if pod.deleted:
                    self._ending.pop(place, None)
        late = [_deletion(pod, ending[place]) for place, pod in pods.items() if place in ending and not pod.deleted]
        over = (pod for pod in pods.values() if (pod.finished or pod.spent) and not pod.deleted)
        late += [_deletion(pod, "Finished") for pod in over]
        return late

    def _exchange(self, writes: Sequence[_Write]) -> None:
        def answered(index: int, error: KubeError | None) -> None:
            self._answered(writes[index], error)

        try:
            self._lanes.send([write.ask for write in writes], lambda _: self._may_write(), answered)
        except Exception:  # a bug in one batch must not end the thread: what is not there is decided about anew
            log.exception("a batch of writes failed")

    def _answered(self, write: _Write, error: KubeError | None) -> None:
        creation = write.creation
        if creation is not None:
            # a 409 is our own doing: the name is nobody else's, and the first answer got lost
            if error is None or (isinstance(error, ApiError) and error.conflict):
                self._outages.end()
                self._on_done(creation.key, "created", "")
                return
            self._on_done(creation.key, "failed", _reason(error))
            if self._outages.is_new(f"{creation.key} {_reason(error)}"):
                log.warning("a container of %s cannot be created: %s", creation.key, error)
            self._on_failure(creation.id, _text(error))
            return
        if error is None:
            self._on_done(write.key, "ended", write.reason)
            return
        gone = isinstance(error, ApiError) and (error.not_found or error.conflict)
        if not gone and self._outages.is_new(f"end {_reason(error)}"):
            log.warning("a container cannot be ended, which is tried again: %s", error)


def _deletion(pod: PoolPod, reason: str) -> _Write:
    path = resource_path("v1", "pods", namespace=pod.container.namespace, name=pod.container.id)
    body = {**DELETE_OPTIONS, "preconditions": {"uid": pod.uid}}
    return _Write(WriteRequest("DELETE", path, body), pod.container.key, None, pod.place, reason)


def _reason(error: KubeError) -> str:
    """Return one of few words, for a metric's label."""
    if not isinstance(error, ApiError):
        return "Unreachable"
    if error.status == 403:
        return "QuotaExceeded" if "quota" in error.message.lower() else "Forbidden"
    return "Invalid" if error.status in (400, 422) else "Refused"


def _text(error: KubeError) -> str:
    return (error.message if isinstance(error, ApiError) else str(error))[:512]
