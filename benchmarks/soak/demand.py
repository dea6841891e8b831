"""A week of the demand controller: pools and namespaces come and go, each with a name that was never there before.

The components are those of the controller's process: books, loop, board, metrics, statuses and pods. The broker, the
API server and the pods are modelled here. A standby stands beside the leader, hears the same reports and decides
nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from kubernetes.client import Configuration

from benchmarks.soak.sizes import series, sizes
from slack.cluster.labels import ANNOTATION_SUBJECT, API_VERSION
from slack.demand.broker import (
    NO_TIME,
    Duration,
    MessageCount,
    PulledMessage,
    QueueLag,
    QueueSettings,
    RawReport,
)
from slack.demand.model import QueueKey
from slack.demand.reports import ContainerReport, encode_report
from slack.kube.connection import Connection
from slack.kube.errors import KubeError
from slack.kube.pipelining import PipelinedClient, WriteRequest
from slack.kube.watch import EventType
from slack_operator.demand.controller import ControllerComponents
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.demand.metrics import DemandMetrics
from slack_operator.demand.pod_rows import PoolPodRow
from slack_operator.runtime.process import ProcessContext

POOLS: Final = 12
"""That are there at a time, three of a namespace."""
TURN_SECONDS: Final = 600.0
TICKS: Final = 2
"""Of a turn."""
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_CALLED_AT_ONCE: Final = 5
Json = dict[str, Any]
_POD: Final = msgspec.json.Decoder(PoolPodRow)


@dataclass(slots=True)
class _Queue:
    """One queue's counters."""

    published: int = 0
    delivered: int = 0
    in_flight: int = 0


@dataclass(slots=True)
class _Broker:
    """Counters, without messages: nobody reads one here."""

    queues: dict[str, _Queue] = field(default_factory=dict)
    most_body_bytes: int | None = None
    address: str = "memory"

    async def adopt(self, installation: str) -> Sequence[str]:
        return ()

    async def ensure(self, queue: QueueSettings) -> None:
        self.queues.setdefault(queue.name, _Queue())

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        self.queues.setdefault(queue, _Queue()).published += 1

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        return ()

    async def ack(self, message: PulledMessage) -> None:
        """Take none: none was pulled."""

    async def nak(self, message: PulledMessage, delay_seconds: Duration = NO_TIME) -> None:
        """Take none back: none was pulled."""

    async def extend(self, message: PulledMessage) -> None:
        """Extend none: none was pulled."""

    async def lag(self, prefix: str = "act.") -> Mapping[str, QueueLag]:
        return {
            name: QueueLag(
                backlog=queue.published - queue.delivered,
                in_flight=queue.in_flight,
                delivered_total=queue.delivered,
                published_total=queue.published,
            )
            for name, queue in self.queues.items()
        }

    async def drop(self, queue: str, older_than_seconds: Duration) -> MessageCount:
        return MessageCount(0)

    async def forget(self, queue: str) -> None:
        self.queues.pop(queue, None)

    async def delete(self, queue: str) -> None:
        self.queues.pop(queue, None)

    async def report(self, queue: str, body: bytes) -> None:
        """Hear none: containers' reports are handed over by the week itself."""

    async def reports(self) -> AsyncIterator[RawReport]:
        return
        yield RawReport(queue="", body=b"")

    async def close(self) -> None:
        """End nothing: there is no connection."""


class _Pods:
    """A client of an API server that has pods: what is posted is ready at the next turn, what is deleted is gone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.there: dict[tuple[str, str], Json] = {}
        self.news: list[tuple[EventType, PoolPodRow]] = []

    def send(
        self,
        asks: Sequence[WriteRequest],
        goes_on: Callable[[int], bool],
        on_answer: Callable[[int, KubeError | None], None],
    ) -> None:
        for index, ask in enumerate(asks):
            assert goes_on(index), "the leader writes"
            if ask.method == "POST":
                self._create(ask.body or {})
            else:
                words = ask.path.split("/")
                if (gone := self.there.pop((words[-3], words[-1]), None)) is not None:
                    self.news.append((EventType.DELETED, _row(gone)))
            on_answer(index, None)

    def close(self) -> None:
        """End nothing: there is no connection."""

    def _create(self, body: Json) -> None:
        metadata = body["metadata"]
        at = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pod = {**body, "metadata": {**metadata, "uid": f"uid-{metadata['name']}", "creationTimestamp": at}}
        self.there[metadata["namespace"], metadata["name"]] = pod
        self.news.append((EventType.ADDED, _row(pod)))

    def make_ready(self) -> None:
        """Let all that are there become ready."""
        at = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for pod in self.there.values():
            if "status" not in pod:
                pod["status"] = {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
                }
                self.news.append((EventType.MODIFIED, _row(pod)))


def _row(pod: Json) -> PoolPodRow:
    return _POD.decode(msgspec.json.encode(pod))


class _Replica:
    """One controller process, as far as its components go."""

    def __init__(self, clock: Callable[[], float], broker: _Broker, *, leads: bool) -> None:
        def may_write() -> bool:
            return leads

        settings = DemandControllerSettings(broker_url="nats://broker:4222", proxy_image="proxy:1")
        nothing = SimpleNamespace(apply=lambda *_, **__: {}, record=lambda *_: None, touch=lambda: None)
        self.connection = Connection(Configuration(host="http://127.0.0.1:1"))
        context = SimpleNamespace(
            connection=self.connection,
            leadership=SimpleNamespace(may_write=may_write),
            writer=nothing,
            recorder=nothing,
            wake=nothing,
        )
        self.metrics = DemandMetrics(clock)
        self.pods = _Pods(lambda: _BEGAN + clock())
        self.components = ControllerComponents(
            settings, cast("ProcessContext", context), self.metrics, clock=clock, unix=lambda: _BEGAN + clock()
        )
        self.components.pods._lanes = cast("PipelinedClient", self.pods)
        self.components.loop._broker = broker
        self.components.watches.stale = lambda: None  # type: ignore[method-assign]  # no reflector runs: pods are told here
        for desired in (self.components.pools, self.components.quotas):
            desired.replace_all((), events_before=desired.events)

    def tell_of_pods(self, news: Sequence[tuple[EventType, PoolPodRow]]) -> None:
        """Hand over what the watch of pods would."""
        if news:
            self.components.pods._rows[0].apply(news)


class DemandWeek:
    """A leader, a standby and their surroundings."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int) -> None:
        """Begin without a pool."""
        self._random = Random(seed)
        self._now = 0.0
        self._runner = asyncio.Runner()
        self._broker = _Broker()
        self._leader = _Replica(self._clock, self._broker, leads=True)
        self._standby = _Replica(self._clock, self._broker, leads=False)
        self._pools: deque[Json] = deque()
        self._number = 0
        self._cleared = False
        self._tick()

    def _clock(self) -> float:
        return self._now

    def turn(self, now_seconds: float) -> None:
        """Change a pool for another, publish, run, report, decide and write."""
        began = self._now
        if not self._cleared:
            self._change()
        for tick in range(1, TICKS + 1):
            self._now = began + (now_seconds - began) * tick / TICKS
            self._publish_and_run()
            self._tick()
        for replica in (self._leader, self._standby):
            replica.components.report_due()
        self._call()

    def clear(self, now_seconds: float) -> None:
        """Delete all pools; their pods go with them, as the garbage collector has it."""
        self._now, self._cleared = now_seconds, True
        while self._pools:
            self._remove(self._pools.popleft())

    def sizes(self) -> Mapping[str, int]:
        """Return what both processes keep."""
        found: dict[str, int] = {}
        for name, replica in (("leader", self._leader), ("standby", self._standby)):
            components = replica.components
            roots = (
                components.books,
                components.board,
                components.followed,
                components.pools,
                components.quotas,
                components.loop,
                components.pods,
            )
            kept = sizes((*roots, components.reporter, replica.metrics)) | series(replica.metrics.registry)
            found |= {f"{name}: {what}": size for what, size in kept.items()}
        return found

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()

    def _change(self) -> None:
        while len(self._pools) < POOLS:
            self._add()
        self._remove(self._pools.popleft())
        self._add()

    def _add(self) -> None:
        self._number += 1
        name, namespace = f"pr-{self._number}", f"team-{self._number // 3}"
        container = {"name": "action", "image": "a:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
        pool = _object("ActivationPool", name, namespace, {"template": {"spec": {"containers": [container]}}})
        if self._number % 3 == 0:
            self._apply("quotas", _object("ActivationQuota", "quota", namespace, {"maxContainers": 4}))
        self._pools.append(pool)
        self._apply("pools", pool)

    def _apply(self, what: str, document: Json) -> None:
        for replica in (self._leader, self._standby):
            getattr(replica.components, what).apply(document)

    def _remove(self, pool: Json) -> None:
        metadata = pool["metadata"]
        namespace = metadata["namespace"]
        last = all(other["metadata"]["namespace"] != namespace for other in self._pools)
        pods = self._leader.pods
        gone = [pod for pod in pods.there.values() if pod["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"]]
        for replica in (self._leader, self._standby):
            replica.components.pools.drop(pool)
            if last:
                replica.components.quotas.drop(_object("ActivationQuota", "quota", namespace, {}))
        for pod in gone:
            del pods.there[pod["metadata"]["namespace"], pod["metadata"]["name"]]
            pods.news.append((EventType.DELETED, _row(pod)))

    def _publish_and_run(self) -> None:
        """Let messages come to a third of the queues, and let containers run what waits, each telling of it."""
        for queue in self._broker.queues.values():
            if self._random.random() < 1 / 3:
                queue.published += self._random.randrange(1, 12)
        for (_, name), pod in self._leader.pods.there.items():
            subject = pod["metadata"]["annotations"][ANNOTATION_SUBJECT]
            found = self._broker.queues.get(subject)
            if found is None or "status" not in pod:
                continue
            ran = min(found.published - found.delivered, 4)
            found.delivered += ran
            runs = tuple(self._random.uniform(5.0, 500.0) for _ in range(ran))
            report = ContainerReport(container=name, idle_seconds=None if ran else TURN_SECONDS, last_run_ms=runs)
            for replica in (self._leader, self._standby):
                replica.components.loop._take(subject, encode_report(report))

    def _tick(self) -> None:
        self._leader.pods.make_ready()
        news, self._leader.pods.news = self._leader.pods.news, []
        for replica in (self._leader, self._standby):
            replica.tell_of_pods(news)
            self._runner.run(replica.components.loop._turn())
        self._leader.components.pods.exchange(sweeps=True)

    def _call(self) -> None:
        """Ask the throttle endpoint's components, some of whose answers are refusals."""
        for pool in list(self._pools)[:_CALLED_AT_ONCE]:
            key = QueueKey(pool["metadata"]["namespace"], pool["metadata"]["name"])
            self._leader.components.board.verdict(key)
            self._standby.components.followed.verdict(key)
            self._leader.metrics.on_rejected(key)
            self._standby.metrics.on_rejected(key)


def _object(kind: str, name: str, namespace: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def week(seed: int) -> DemandWeek:
    """Return a week of demand."""
    return DemandWeek(seed)
