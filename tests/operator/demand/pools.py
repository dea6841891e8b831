"""Pools, pods and brokers for the tests of this folder."""

from collections.abc import Mapping
from typing import Any

from slack.cluster.labels import (
    ANNOTATION_SUBJECT,
    API_VERSION,
    LABEL_CREATION,
    LABEL_POOL,
    LABEL_POOL_REVISION,
)
from slack.demand.broker import BrokerRefused, BrokerUnreachable, QueueLag, QueueSettings
from slack.demand.policy import ActivationPool, parse_pool

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


class FakeBroker:
    """A broker that has what a test gives it."""

    def __init__(self) -> None:
        self.lags: dict[str, QueueLag] = {}
        self.ensured: list[QueueSettings] = []
        self.published: list[tuple[str, bytes, str | None]] = []
        self.gone = False
        self.most_body_bytes: int | None = None
        self.refuses: dict[str, str] = {}
        """Words, by queue."""

    async def ensure(self, queue: QueueSettings) -> None:
        """Take note."""
        self._there()
        if (words := self.refuses.get(queue.name)) is not None:
            raise BrokerRefused(words)
        self.ensured.append(queue)

    async def publish(self, queue: str, body: bytes, message_id: str | None = None) -> None:
        """Take note."""
        self._there()
        self.published.append((queue, body, message_id))

    async def lag(self, prefix: str = "act.") -> Mapping[str, QueueLag]:
        """Return what the test says."""
        self._there()
        return dict(self.lags)

    async def drop(self, queue: str, keep: int = 0) -> int:
        """Drop nothing."""
        return 0

    async def reports(self) -> Any:
        """Report nothing."""
        return
        yield

    async def close(self) -> None:
        """End."""

    def _there(self) -> None:
        if self.gone:
            raise BrokerUnreachable("nats: no answer")
