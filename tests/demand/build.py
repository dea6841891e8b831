"""Pools, containers and observations for tests, with what does not matter filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

from slack.demand.broker import QueueLag
from slack.demand.model import ContainerState, PoolContainer, PoolSettings, QueueFigures, QueueKey
from slack.demand.tick import TickInput

MEDIA = "media"


def figures(**values: Any) -> QueueFigures:
    """Limits of 20 and 10; the namespace has what the queue has."""
    values.setdefault("namespace_containers", values.get("containers", 0))
    values.setdefault("namespace_creating", values.get("creating", 0))
    return QueueFigures(**({"namespace_limit": 20, "action_limit": 10} | values))


def key(action: str = "thumb") -> QueueKey:
    return QueueKey(MEDIA, action)


def pool(action: str = "thumb", **values: Any) -> PoolSettings:
    given: dict[str, Any] = {"key": key(action), "subject": f"act.media.{action}.128", "revision": "r1"}
    given |= {"max_containers": 10, "idle_timeout_seconds": 10.0, "stale_seconds": 0.1}
    return PoolSettings(**(given | {"creation_timeout_seconds": 20.0} | values))


def ready(name: str, action: str = "thumb", **values: Any) -> PoolContainer:
    """A container that has been ready since second 1, busy."""
    given: dict[str, Any] = {"id": name, "namespace": MEDIA, "pool": action, "revision": "r1"}
    given |= {"subject": f"act.media.{action}.128", "state": ContainerState.READY}
    return PoolContainer(**(given | {"created_at_seconds": 0.0, "ready_at_seconds": 1.0} | values))


def creating(name: str, action: str = "thumb", **values: Any) -> PoolContainer:
    return ready(name, action, **({"state": ContainerState.CREATING, "ready_at_seconds": None} | values))


def lag(backlog: int = 0, in_flight: int = 0, delivered: int | None = 0, **values: Any) -> QueueLag:
    return QueueLag(backlog=backlog, in_flight=in_flight, delivered_total=delivered, **values)


def seen(
    now: float, lags: Mapping[str, QueueLag] | None, containers: Sequence[PoolContainer] = (), **values: Any
) -> TickInput:
    """What a tick is told; lags by action."""
    by_subject = None if lags is None else {f"act.media.{action}.128": value for action, value in lags.items()}
    return TickInput(now_seconds=now, lags=by_subject, containers=containers, **values)
