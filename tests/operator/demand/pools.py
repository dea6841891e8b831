"""Pools, pods and brokers for the tests of this folder."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from slack.cluster.labels import (
    ANNOTATION_SUBJECT,
    API_VERSION,
    LABEL_CREATION,
    LABEL_POOL,
    LABEL_POOL_REVISION,
)
from slack.demand.broker import BrokerRefused, QueueLag, QueueSettings, RawReport
from slack.demand.policy import ActivationPool, parse_pool
from tests.operator.demand.memory_broker import MemoryBroker

Json = dict[str, Any]


def document(name: str = "thumbnail", uid: str = "pool-uid", generation: int = 1, **spec: Any) -> Json:
    """Return an ActivationPool as the API server has it."""
    container = {"name": "action", "image": "a:1", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
    return {
        "apiVersion": API_VERSION,
        "kind": "ActivationPool",
        "metadata": {"name": name, "namespace": "media", "uid": uid, "generation": generation},
        "spec": {"template": {"spec": {"containers": [container]}}} | spec,
    }


def pool(name: str = "thumbnail", **spec: Any) -> ActivationPool:
    """Return a pool."""
    return parse_pool(document(name, **spec), source="pool")


def quota(containers: int, name: str = "q") -> Json:
    """Return an ActivationQuota."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ActivationQuota",
        "metadata": {"name": name, "namespace": "media", "uid": f"quota-{name}", "generation": 1},
        "spec": {"maxContainers": containers},
    }


def pod_json(name: str, *, uid: str = "", owner: str = "pool-uid", pool_name: str = "thumbnail", **more: Any) -> Json:
    """Return a pod of a pool as the API server has it."""
    return {
        "metadata": {
            "name": name,
            "namespace": "media",
            "uid": uid or f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {LABEL_POOL: pool_name, LABEL_CREATION: name, LABEL_POOL_REVISION: "r"},
            "annotations": {ANNOTATION_SUBJECT: "act.media.thumbnail.256"},
            "ownerReferences": [{"kind": "ActivationPool", "uid": owner, "controller": True}],
            **more.pop("metadata", {}),
        },
        **more,
    }


class FakeBroker(MemoryBroker):
    """A broker that has what a test gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: dict[str, QueueLag] = {}
        self.published: list[tuple[str, bytes, str | None]] = []
        self.refuses: dict[str, str] = {}
        """Words, by queue."""

    async def ensure(self, queue: QueueSettings) -> None:
        """Take note."""
        if (words := self.refuses.get(queue.name)) is not None:
            raise BrokerRefused(words)
        await super().ensure(queue)

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        """Take note."""
        self._look()
        self.published.append((queue, body, message_id))

    async def lag(self, prefix: str = "act.") -> Mapping[str, QueueLag]:
        """Return what the test says."""
        self._look()
        return dict(self.lags)

    async def reports(self) -> AsyncIterator[RawReport]:
        """Report nothing."""
        return
        yield RawReport(queue="", body=b"")
