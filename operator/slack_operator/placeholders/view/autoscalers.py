"""Which autoscaler the cluster has, of the two that keep nodes for unbound placeholders; the loop asks for the form.

Karpenter is recognised by its NodePools; its CRD alone is no Karpenter. Cluster Autoscaler is recognised by the
ConfigMap in which it writes its status with each loop. Where that is elsewhere, an Event of its own about a pod in the
operator's namespace is enough. A thread looks at the start and every minute.

The answer does not flap: an autoscaler that restarts, or a request that fails, changes nothing. An autoscaler counts as
absent after it was not found for ten minutes, and only while each request has had an answer.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from slack.cluster.labels import KARPENTER_NODE_POOL
from slack.cluster.wire import Metadata
from slack.kube.connection import CONNECT_SECONDS, Connection
from slack.kube.discovery import is_served
from slack.kube.errors import ApiError, KubeError, decode_answer
from slack.kube.paths import resource_path
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
ABSENT_SECONDS = 600.0
"""How long an autoscaler must not be found until it counts as absent. Cluster Autoscaler takes its ConfigMap away when
it ends, so a restart is an absence too."""
STALE_SECONDS = 300.0
"""A status of Cluster Autoscaler that is older was written by none that runs: each loop writes it."""
LIMIT_SECONDS = 180.0
"""Without a look that ended the thread counts as stuck."""
TIMEOUT = (CONNECT_SECONDS, 10.0)
CLUSTER_AUTOSCALER, KARPENTER = "Cluster Autoscaler", "Karpenter"
_LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
_VERSIONS = ("v1", "v1beta1")
"""Of Karpenter's NodePools."""
_GO_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? ([+-]\d{4})\b")
"""Such as `2026-11-27 02:31:31.98 +0000 UTC`."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """An autoscaler that keeps nodes for unbound placeholders, and how it was recognised."""

    name: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Recognition:
    """What the looks so far have come to."""

    autoscaler: Autoscaler | None
    """None where none is recognised."""
    lasting: bool = False
    """Whether it has been so for long enough to act upon: an absence may be a restart, or nobody may have looked."""
    note: str = ""
    """What was looked at in vain, in words; '' where an autoscaler is recognised."""

    @property
    def absent(self) -> bool:
        """Whether there is certainly none."""
        return self.autoscaler is None and self.lasting


KNOWN_BY_EVENTS = Autoscaler(CLUSTER_AUTOSCALER, "its Events about placeholders")
"""One that writes no status, or writes it elsewhere. While all placeholders fit, it has nothing to say."""


class _Object(msgspec.Struct):
    metadata: Metadata


class _Objects(msgspec.Struct):
    items: list[_Object] | None = None


class _Finding(NamedTuple):
    """What one look at one thing says."""

    found: Autoscaler | None
    is_clear: bool
    """Whether there was an answer."""
    note: str


_OBJECT = msgspec.json.Decoder(_Object)
_OBJECTS = msgspec.json.Decoder(_Objects)


class Autoscalers:
    """Looks until `stop`; `recognition` may be read from any thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        status_map: tuple[str, str] | None,
        heard: Callable[[], float | None],
        on_change: Callable[[], None],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Nothing was looked at yet.

        Args:
            connection: to the API server.
            status_map: namespace and name of Cluster Autoscaler's ConfigMap; None: it is not looked at.
            heard: returns when Cluster Autoscaler last wrote an Event in the operator's namespace (Unix seconds).
            on_change: called when another autoscaler is recognised, and after the first look.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self.recognition: Recognition | None = None
        """None before the first look has ended."""
        self._connection = connection
        self._status_map = status_map
        self._heard = heard
        self._on_change = on_change
        self._clock = clock
        self._wall = wall
        self._absent_since: float | None = None
        """Since when each look has said clearly that there is none; monotonic."""
        self._updated = ""
        """When Cluster Autoscaler's status was written, as it was last seen."""
        self._written: float | None = None
        """The same in Unix seconds."""
        self._ended = threading.Event()
        heart = Heartbeat("the thread that recognises autoscalers", LIMIT_SECONDS)
        self._thread = SupervisedThread(self._run, name="autoscalers", heart=heart)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End. A request that hangs is left behind."""
        self._thread.dismiss()
        self._ended.set()
        self._thread.join(timeout=1.0)

    def unhealthy(self) -> str | None:
        """Return why nobody looks any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
                self._thread.heart.worked()
            except Exception as error:
                log.exception("autoscalers could not be looked for")
                self._thread.heart.failed(error)
            self._thread.heart.rest(self._ended, LOOK_SECONDS)

    def look(self) -> None:
        """Look once."""
        findings = [self._karpenter(), self._cluster_autoscaler(), self._events()]
        before = self.recognition
        self.recognition = self._judged(findings, before)
        found = self.recognition.autoscaler
        if before is None or (found and found.name) != (before.autoscaler and before.autoscaler.name):
            log.info("autoscaler: %s", f"{found.name} ({found.evidence})" if found else self.recognition.note)
            self._on_change()
        elif before.lasting != self.recognition.lasting:
            self._on_change()

    def _judged(self, findings: list[_Finding], before: Recognition | None) -> Recognition:
        known = None if before is None else before.autoscaler
        candidates = [finding.found for finding in findings if finding.found is not None]
        if candidates:
            self._absent_since = None
            same = next((one for one in candidates if known is not None and one.name == known.name), candidates[0])
            return Recognition(same, lasting=True)
        note = "; ".join(finding.note for finding in findings if finding.note)
        if not all(finding.is_clear for finding in findings):
            self._absent_since = None
            if known is not None:
                return Recognition(known, lasting=True)
            return Recognition(None, before is not None and before.lasting, note)
        now = self._clock()
        if self._absent_since is None:
            self._absent_since = now
        lasting = now - self._absent_since >= ABSENT_SECONDS
        if known is not None and not lasting:
            return Recognition(known, lasting=True)
        return Recognition(None, lasting or (before is not None and before.autoscaler is None and before.lasting), note)

    def _karpenter(self) -> _Finding:
        """Look for NodePools; where they may not be read, for their kind and a node that has come of one."""
        for version in _VERSIONS:
            path = resource_path(f"karpenter.sh/{version}", "nodepools")
            try:
                name = self._first(path, {})
            except ApiError as error:
                if error.not_found:
                    continue
                return self._karpenter_by_nodes(path) if error.status == 403 else _unclear("NodePools", error)
            except KubeError as error:
                return _unclear("NodePools", error)
            if name:
                return _Finding(Autoscaler(KARPENTER, f"NodePool {name}"), True, "")
            return _Finding(None, True, "there is no NodePool")
        return _Finding(None, True, "there is no kind NodePool")

    def _karpenter_by_nodes(self, path: str) -> _Finding:
        served = is_served(self._connection, path)
        if served is False:
            return _Finding(None, True, "there is no kind NodePool")
        try:
            name = self._first(resource_path("v1", "nodes"), {"labelSelector": KARPENTER_NODE_POOL})
        except KubeError as error:
            return _unclear("nodes of NodePools", error)
        if served and name:
            return _Finding(Autoscaler(KARPENTER, f"node {name} has the label {KARPENTER_NODE_POOL}"), True, "")
        return _Finding(None, False, "NodePools may not be listed, and no node has their label")

    def _first(self, path: str, query: Mapping[str, object]) -> str:
        """Return the name of one object of a collection, '' where there is none."""
        body = self._connection.request("GET", path, query={"limit": 1, **query}, verb="list", timeout=TIMEOUT)
        items = decode_answer(f"GET {path}", body, _OBJECTS).items
        return items[0].metadata.name if items else ""

    def _cluster_autoscaler(self) -> _Finding:
        """Look at the time in the ConfigMap that Cluster Autoscaler writes with each loop."""
        if self._status_map is None:
            return _Finding(None, True, "")
        namespace, name = self._status_map
        what, path = f"ConfigMap {namespace}/{name}", resource_path("v1", "configmaps", namespace=namespace, name=name)
        try:
            body = self._connection.request("GET", path, timeout=TIMEOUT)
            updated = decode_answer(f"GET {path}", body, _OBJECT).metadata.annotation(_LAST_UPDATED)
        except ApiError as error:
            if error.not_found:
                return _Finding(None, True, f"there is no {what}")
            return _Finding(None, False, f"{what} may not be read") if error.status == 403 else _unclear(what, error)
        except KubeError as error:
            return _unclear(what, error)
        before, self._updated = self._updated, updated
        self._written = written = _unix_seconds(updated)
        if written is None:
            return _Finding(None, False, f"{what} does not say when it was written")
        # What is written anew between two looks is fresh, whatever clocks say.
        if self._wall() - written < STALE_SECONDS or (before and updated != before):
            return _Finding(Autoscaler(CLUSTER_AUTOSCALER, f"{what} is fresh"), True, "")
        at = datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return _Finding(None, True, f"{what} is stale, it was written at {at}: no Cluster Autoscaler runs")

    def _events(self) -> _Finding:
        """Ask for Events of a Cluster Autoscaler that writes no status, or writes it elsewhere."""
        heard = self._heard()
        if heard is None or (self._written is not None and heard < self._written + STALE_SECONDS):
            return _Finding(None, True, "")
        return _Finding(KNOWN_BY_EVENTS, True, "")


def _unclear(what: str, error: KubeError) -> _Finding:
    return _Finding(None, False, f"{what} could not be read: {error}")


def _unix_seconds(text: str) -> float | None:
    """Read a time as Go prints it; None where it is none."""
    found = _GO_TIME.match(text)
    if found is None:
        return None
    try:
        return datetime.strptime(" ".join(found.groups()), "%Y-%m-%d %H:%M:%S %z").timestamp()
    except ValueError:
        return None
