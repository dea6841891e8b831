"""Evicts pods whose containers were not ready in time, if their node's policy says `startTimeout.then: Delete`.

Agents say which pods are late and have no right to touch a pod. What an agent says is no more than a reason to look:
the pod is read from the API server, and evicted only if it is on the agent's own node, gated, and not ready, with the
very container instance that the agent has seen. The eviction names the uid and the version that were read, so that a
pod that changes in between is left alone, and it respects PodDisruptionBudgets. Threads: its own evicts, the receiver's
call `asked`.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from slack.kube.errors import ApiError, KubeError, Unreachable
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack.throttler.podspec.shape import InvalidManifest
from slack.throttler.reports.late_pods import objection
from slack.throttler.reports.messages import LatePod
from slack.throttler.reports.pod_facts import PodFacts
from slack_operator.throttler.controller.metrics import (
    EVICTED,
    EVICTION_BLOCKED,
    EVICTION_FAILED,
    EVICTION_NOT_NEEDED,
    EVICTION_REFUSED,
)

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1000
"""Late pods that wait for their turn; agents report those beyond it again."""
MAX_WAITING_OF_A_NODE: Final = 100
"""Of these: an agent that was taken over may name any number of pods, and must not push out those of other nodes."""
EVERY_SECONDS: Final = 0.2
"""Between two pods, so that a cluster whose starts are slow as a whole loses few of them."""
SWEEP_SECONDS: Final = 5.0
TURN_SECONDS: Final = 180.0
"""The longest turn: two requests to an API server that does not answer."""
AGAIN_SECONDS: Final = {
    EVICTED: 60.0,
    EVICTION_NOT_NEEDED: 15.0,
    EVICTION_BLOCKED: 60.0,
    EVICTION_REFUSED: 300.0,
    EVICTION_FAILED: 10.0,
}
"""After so long a pod that is still reported is looked at again, by what became of it."""
_TOO_MANY_REQUESTS: Final = 429
_INTERNAL_ERROR: Final = 500


_Said = tuple[str, str]
"""An agent's node, and the uid of a pod that it calls late."""


class Requests(Protocol):
    """The API server, asked once for each call: an eviction that a budget blocks is no failure to try again."""

    def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json", verb: str
    ) -> bytes:
        """Send one request; raise `KubeError` if it does not work."""


class LatePods:
    """Those of all nodes."""

    def __init__(
        self,
        *,
        server: Requests,
        decode: Callable[[bytes], Any],
        count: Callable[[str], None],
        may_write: Callable[[], bool],
        deletes: Callable[[str], bool],
        stale: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is evicted yet.

        Args:
            server: the API server.
            decode: reads a JSON body.
            count: counts pods by outcome.
            may_write: whether this process leads.
            deletes: whether the policy of a node says so.
            stale: why that may not be what the policies and the node's labels say now; None if it is.
            clock: monotonic seconds.
        """
        self._server, self._decode, self._count = server, decode, count
        self._may_write, self._deletes, self._stale, self._clock = may_write, deletes, stale, clock
        self._lock = threading.Lock()
        self._waiting: OrderedDict[_Said, LatePod] = OrderedDict()
        """What each agent has said last of each pod: one may name pods of another node, which says nothing of them."""
        self._not_before: dict[_Said, float] = {}
        self._outages = Outages(clock)
        self._stopping = threading.Event()
        self._wake = threading.Event()
        heart = Heartbeat("the thread that evicts late pods", TURN_SECONDS, clock=clock)
        self._thread = SupervisedThread(self._run, name="late-pods", heart=heart)

    def start(self) -> None:
        """Begin to evict."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way ends by itself."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(SWEEP_SECONDS)

    def unhealthy(self) -> str | None:
        """Return why no late pod is evicted any more; None if the thread works."""
        return self._thread.unhealthy()

    def asked(self, node: str, late: Sequence[LatePod]) -> None:
        """Take in what the agent of a node says; from any thread."""
        if not late:
            return
        now = self._clock()
        with self._lock:
            of_node = sum(other == node for other, _ in self._waiting)
            for pod in late:
                said = node, pod.uid
                is_new = said not in self._waiting
                if is_new and (of_node >= MAX_WAITING_OF_A_NODE or len(self._waiting) >= MAX_WAITING):
                    continue
                if now >= self._not_before.get(said, now):
                    self._waiting[said] = pod
                    of_node += is_new
        self._wake.set()

    def check_next(self) -> bool:
        """Look at the pod that has waited longest; returns whether there was one."""
        now = self._clock()
        with self._lock:
            self._not_before = {said: at for said, at in self._not_before.items() if at > now}
            if not self._may_write():
                self._waiting.clear()
            if not self._waiting:
                return False
            said, pod = self._waiting.popitem(last=False)
        outcome = self._judge(said[0], pod)
        with self._lock:
            self._not_before[said] = now + AGAIN_SECONDS[outcome]
        self._count(outcome)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                found = self.check_next()
                self._thread.heart.beat()
                if found:
                    self._stopping.wait(EVERY_SECONDS)
                    continue
            except Exception:  # the next turn looks at the next one
                log.exception("late pods: a turn has failed")
            self._wake.wait(SWEEP_SECONDS)
            self._wake.clear()

    def _judge(self, node: str, late: LatePod) -> str:
        why = self._stale()
        if why is not None:
            if self._outages.is_new(why):
                log.warning("no late pod is evicted: %s", why)
            return EVICTION_FAILED
        if not self._deletes(node):
            return EVICTION_NOT_NEEDED
        said = fields(namespace=late.namespace, pod=late.pod, container=late.container, node=node)
        path = resource_path("v1", "pods", namespace=late.namespace, name=late.pod)
        try:
            found = self._decode(self._server.request("GET", path, verb="get"))
            why = objection(late, PodFacts.from_manifest(found), node)
            if why is not None:
                log.info("late, and not evicted: %s", why, extra=said)
                return EVICTION_NOT_NEEDED
            self._server.request(
                "POST", f"{path}/eviction", body=_eviction(late, found["metadata"]["resourceVersion"]), verb="create"
            )
        except (KubeError, InvalidManifest) as error:
            outcome = _outcome(error)
            is_trouble = outcome in (EVICTION_FAILED, EVICTION_REFUSED)
            if is_trouble and self._outages.is_new(f"{type(error).__name__} {getattr(error, 'status', '')}"):
                log.warning("a late pod cannot be evicted: %s", error, extra=said)
            return outcome
        log.info("evicted: a container was not ready within startTimeout", extra=said)
        return EVICTED


def _eviction(late: LatePod, version: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": late.pod, "namespace": late.namespace},
        "deleteOptions": {"preconditions": {"uid": late.uid, "resourceVersion": version}},
    }


def _outcome(error: Exception) -> str:
    if isinstance(error, ApiError):
        if error.not_found or error.conflict:  # gone, or changed after it was read
            return EVICTION_NOT_NEEDED
        if error.status == _TOO_MANY_REQUESTS:
            return EVICTION_BLOCKED
        return EVICTION_FAILED if error.status >= _INTERNAL_ERROR else EVICTION_REFUSED
    return EVICTION_FAILED if isinstance(error, Unreachable) else EVICTION_REFUSED
