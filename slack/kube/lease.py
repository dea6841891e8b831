"""Leader election over a coordination.k8s.io/v1 Lease: at most one process acts.

What keeps it safe: clocks of two machines are never compared (a lease is taken when *we saw* it unchanged for its
whole duration); a leader counts from before it sent its last renewal and stops after `renew_deadline`, others wait
`lease_duration` from after they saw it; every write carries the resourceVersion it is based on.
`run` belongs to the elector's thread; `is_leader` may be asked from any and needs no thread to turn false.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

API_VERSION = "coordination.k8s.io/v1"
TURN_SECONDS = 60.0
"""A turn that takes longer counts as stuck: each of its two requests is given up after a few seconds."""


def steady_seconds() -> float:
    """A clock that never jumps and goes on while the machine sleeps, so that a resumed leader knows it is none."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_POD_NAME_LENGTH: Final = 63
_RANDOM_LENGTH: Final = 5


def deployment_of(identity: str) -> str:
    """Name the Deployment of a holder or of a pod: pod names end with a hash and a random part. '' for none.

    The API server cuts what comes before the random part. The dash before that part is therefore missing in a pod name
    of full length.

    >>> deployment_of("resource-slack-5d8f7c9b4-x2x7k_1a2b3c4d")
    'resource-slack'
    """
    pod = identity.partition("_")[0]
    cut = len(pod) == _POD_NAME_LENGTH and not pod[:-_RANDOM_LENGTH].endswith("-")
    replica_set = pod[:-_RANDOM_LENGTH] if cut else pod.rpartition("-")[0]
    return replica_set.rpartition("-")[0]


LONGEST_SILENCE_SECONDS = 60.0
"""A holder renews every few seconds. After so long without a renewal it has ended, whatever duration it wrote."""


class HolderSeen:
    """Tells by our own clock whether the holder of a lease is alive, for whoever does not stand for election."""

    def __init__(self) -> None:
        self.renewed = False
        """Whether a renewal was seen."""
        self._version: tuple[object, ...] | None = None
        self._since = -math.inf

    def holder(self, lease: Mapping[str, Any] | None, now: float) -> str | None:
        """Return who holds the lease; None for nobody, or if it did not change for its whole duration, or a minute.

        Args:
            lease: As read just now; None if there is none.
            now: Seconds of a clock that only grows.
        """
        spec = (lease or {}).get("spec") or {}
        holder = spec.get("holderIdentity")
        if lease is None or not holder:
            self._version = None
            return None
        version = (lease["metadata"].get("uid"), lease["metadata"].get("resourceVersion"), spec.get("renewTime"))
        if version != self._version:
            self.renewed = self._version is not None
            self._version, self._since = version, now
        duration = spec.get("leaseDurationSeconds")
        seconds = float(duration) if isinstance(duration, int) and duration > 0 else LeaseTimes().duration_seconds
        return str(holder) if now - self._since < min(seconds, LONGEST_SILENCE_SECONDS) else None


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds; must fall from first to last. Defaults are those of Kubernetes' own controllers."""

    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_seconds > self.renew_deadline_seconds > self.retry_seconds > 0:
            raise ValueError(f"lease times must fall from duration to retry and be above 0: {self}")


@dataclass(frozen=True, slots=True)
class Listeners:
    """What is called from the elector's thread."""

    started: Callable[[], None] = lambda: None
    """Leadership begins."""
    lost: Callable[[], None] = lambda: None
    """Leadership ended against our will; `is_leader` is false already."""
    held: Callable[[str], None] = lambda _: None
    """Another holder is seen; once for each."""


class Elector:
    """One candidate. `start` it, act only while `is_leader`, `stop` it after the last write is through.

    >>> elector = Elector(connection, namespace="slack", name="resource-slack", identity=pod_name)  # doctest: +SKIP
    """

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        annotations: Mapping[str, str] | None = None,
        listeners: Listeners | None = None,
        settles: bool = False,
        clock: Callable[[], float] = steady_seconds,
        sleep: Callable[[float], object] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """A candidate for the Lease `namespace/name`.

        Args:
            connection: To the API server.
            namespace: Of the Lease.
            name: Of the Lease.
            identity: Unique to this process and life, for instance the pod's name and a random part.
            times: Durations.
            annotations: What the holder says of itself; written with each renewal.
            listeners: What is called when leadership changes.
            settles: Whether a lease that nobody has held before is held for its whole duration before leadership
                begins. A process that led by another lease, and lost the right to it, has ended by then.
            clock: Seconds that only grow.
            sleep: Waits so many seconds; the default wakes up at `stop`.
            rng: Spreads candidates.
        """
        self.identity = identity
        self.transitions = 0
        self.last_error: str | None = None
        self._connection = connection
        self._collection = resource_path(API_VERSION, "leases", namespace=namespace)
        self._path = resource_path(API_VERSION, "leases", namespace=namespace, name=name)
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._annotations = dict(annotations or {})
        self._listeners = listeners or Listeners()
        self._settles = settles
        self._leads_from = -math.inf
        self._clock = clock
        self._stopping = threading.Event()
        self._sleep = sleep or self._stopping.wait
        self._rng = rng or random.Random()
        self._leading = False
        self._renewed_at = -math.inf
        self._seen: tuple[str, object] | None = None
        self._seen_at = -math.inf
        self._seen_duration = self._times.duration_seconds
        self._holder = ""
        self._told_holder = ""
        self._thread = SupervisedThread(self.run, name=f"lease {name}", heart=Heartbeat(f"lease {name}", TURN_SECONDS))

    @property
    def is_leader(self) -> bool:
        """Whether we may act now. Turns false by the clock alone when renewals do not get through."""
        return self._leading and self._seconds_left() > 0 and not self._stopping.is_set()

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty for nobody."""
        return self._holder

    @property
    def uid(self) -> str | None:
        """The Lease's uid, as it was last seen; None before the first look at one that was there."""
        return self._seen[0] if self._seen is not None and self._seen[0] != "None" else None

    @property
    def vacant_seconds(self) -> float | None:
        """For how long nobody has been seen to renew the lease; None while somebody does, and before the first look."""
        if self._seen is None or self.is_leader:
            return None
        silent = self._clock() - self._seen_at
        return silent if not self._holder or silent >= self._seen_duration else None

    def start(self) -> None:
        """Run in a daemon thread."""
        self._thread.start()

    def unhealthy(self) -> str | None:
        """Return why the lease is no longer seen to; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def stop(self, timeout: float = 5.0) -> None:
        """Leave: not leader from here on, and the lease is given free for the next candidate. Safe to call twice."""
        self._stopping.set()
        self._thread.join(timeout)

    def run(self) -> None:
        """Stand for election and lead until `stop`, then release the lease."""
        while not self._stopping.is_set():
            self._thread.heart.beat()
            try:
                self.acquire_or_renew()
                self._thread.heart.worked()
            except Exception as error:  # a callback's error must not end the elector; the deadline ends a leadership
                log.exception("lease %s: turn failed", self._path)
                self._thread.heart.failed(error)
            # candidates spread out, a leader is punctual
            spread = 1.0 if self._leading else self._rng.uniform(1.0, 1.2)
            self._sleep(self._times.retry_seconds * spread)
        self.release()

    def acquire_or_renew(self) -> None:
        """One look at the lease: take it, renew it, or leave it to its holder."""
        if self._leading and self._seconds_left() <= 0:
            self._lose("it was not renewed in time")
        before = self._clock()
        try:
            ours = self._take_or_renew()
        except (KubeError, msgspec.DecodeError) as error:
            self.last_error = str(error)
            log.warning("lease %s: %s", self._path, error)
            if self._leading and self._seconds_left() <= 0:
                self._lose("it could not be renewed in time")
            return
        self.last_error = None
        if not ours:
            if self._leading:
                self._lose(f"{self._holder or 'nobody'} holds it now")
            return
        if self._leading and self._seconds_left() <= 0:
            self._lose("its renewal came too late")  # say so once before leading again, the gap was real
        self._renewed_at = before  # others count from after this moment, never from before it
        if not self._leading and not self._stopping.is_set() and before >= self._leads_from:
            self._lead()

    def _lead(self) -> None:
        self._leading = True
        log.info("lease %s: %s leads (transition %d)", self._path, self.identity, self.transitions)
        try:
            self._listeners.started()
        except Exception:
            log.exception("lease %s: the work of a leader did not begin", self._path)
            self._lose("its work did not begin")  # a leader that does nothing keeps others from leading

    def release(self) -> None:
        """Stop leading and clear the holder, so that the next candidate need not wait for the lease to run out."""
        self._leading = False
        if self._holder != self.identity:
            return
        with contextlib.suppress(KubeError, msgspec.DecodeError):  # it then runs out by itself
            lease = self._get()
            if lease is None or lease["spec"].get("holderIdentity") != self.identity:
                return
            lease["spec"]["holderIdentity"] = None  # an empty string is refused by newer servers
            lease["spec"]["leaseDurationSeconds"] = 1
            lease["spec"]["renewTime"] = _micro_time()
            self._put(lease)
            log.info("lease %s: released by %s", self._path, self.identity)

    def _seconds_left(self) -> float:
        return self._renewed_at + self._times.renew_deadline_seconds - self._clock()

    def _take_or_renew(self) -> bool:
        """Whether the lease is ours after this call."""
        lease = self._get()
        if lease is None:
            return self._create()
        spec = lease["spec"]
        self._holder = str(spec.get("holderIdentity") or "")
        self._observe(lease)
        never_held = not self._holder and not spec.get("acquireTime")  # an installer may have made it
        if self._holder != self.identity:
            if self._holder and self._clock() < self._seen_at + self._duration_of(spec):
                self._tell_holder()
                return False
            self.transitions = int(spec.get("leaseTransitions") or 0) + 1
            spec |= {"acquireTime": _micro_time(), "leaseTransitions": self.transitions}
        if self._annotations:
            lease["metadata"]["annotations"] = {**(lease["metadata"].get("annotations") or {}), **self._annotations}
        spec |= {
            "holderIdentity": self.identity,
            "renewTime": _micro_time(),
            "leaseDurationSeconds": math.ceil(self._times.duration_seconds),
        }
        written = self._write(lambda: self._put(lease))
        if written and never_held:
            self._settle()
        return written

    def _settle(self) -> None:
        if self._settles:
            self._leads_from = self._clock() + self._times.duration_seconds

    def _tell_holder(self) -> None:
        if self._holder != self._told_holder:
            self._told_holder = self._holder
            log.info("lease %s: %s leads, %s waits", self._path, self._holder, self.identity)
            self._listeners.held(self._holder)

    def _create(self) -> bool:
        now = _micro_time()
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._times.duration_seconds),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if self._annotations:
            metadata["annotations"] = self._annotations
        lease = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}
        created = self._write(lambda: self._request("POST", self._collection, lease))
        if created:
            self._settle()
        return created

    def _write(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except ApiError as error:
            if error.conflict:
                # somebody was quicker, or the lost answer of our own last write was a yes: the next look tells, and
                # until then the deadline runs on from the last renewal we know of
                if self._leading:
                    raise
                return False
            raise
        self._holder = self.identity
        return True

    def _observe(self, lease: dict[str, Any]) -> None:
        """Remember since when, by our own clock, the lease has looked as it does."""
        metadata = lease.get("metadata", {})
        # the resourceVersion too: a renewal whose writer's clock stands still is one nevertheless
        seen = (str(metadata.get("uid")), (metadata.get("resourceVersion"), lease["spec"].get("renewTime")))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
            self._seen_duration = self._duration_of(lease["spec"])

    def _duration_of(self, spec: dict[str, Any]) -> float:
        """The holder's own duration: it may have been started with other settings than we."""
        seconds = spec.get("leaseDurationSeconds")
        return float(seconds) if isinstance(seconds, int) and seconds > 0 else self._times.duration_seconds

    def _lose(self, why: str) -> None:
        self._leading = False
        log.warning("lease %s: %s leads no more: %s", self._path, self.identity, why)
        self._listeners.lost()

    def _get(self) -> dict[str, Any] | None:
        try:
            lease = self._request("GET", self._path, None)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        lease["spec"] = lease.get("spec") or {}
        return lease

    def _put(self, lease: dict[str, Any]) -> None:
        self._request("PUT", self._path, lease)

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        # a hung server leaves time for another try, and no call of a leader outlives its leadership
        timeout = self._times.renew_deadline_seconds / 2
        if self._leading:
            timeout = max(0.05, min(timeout, self._seconds_left()))
        answer = self._connection.request(method, path, body=body, timeout=(timeout, timeout), verb=_VERBS[method])
        return msgspec.json.decode(answer, type=dict[str, Any])


_VERBS = {"GET": "get", "POST": "create", "PUT": "update"}


def _micro_time() -> str:
    """For people who read the lease; nobody of us compares it with a clock."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
