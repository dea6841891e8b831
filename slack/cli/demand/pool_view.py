"""Pools as their statuses tell them: read with the rights of whoever asks, and made into what commands print.

A status is anybody's who may write it, another version's too. One that cannot be read makes a row that says so, and
keeps nobody from the other pools.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from slack.demand.bounds import by_field
from slack.errors import InvalidInput

if TYPE_CHECKING:
    from slack.kube.connection import Connection

Json = dict[str, Any]


class InvalidPoolStatus(InvalidInput):
    """A status that is not as the controller writes it; the text names the field."""


class _Containers(msgspec.Struct):
    ready: int | None = None
    creating: int | None = None


class _Lag(msgspec.Struct, rename="camel"):
    queued: int | None = None
    in_flight: int | None = None
    oldest_ms: int | None = None


class _Rate(msgspec.Struct):
    arrivals: int | float | None = None
    completions: int | float | None = None


class _Demand(msgspec.Struct):
    wanted: int | None = None
    unmet: int | None = None


class PoolCondition(msgspec.Struct):
    """A condition; empty words where it has none."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PoolStatusView(msgspec.Struct):
    """What commands show of a pool's status; decision and throttle stay as they are."""

    containers: _Containers | None = None
    lag: _Lag | None = None
    rate: _Rate | None = None
    demand: _Demand | None = None
    throttled: bool | None = None
    decision: Json | None = None
    throttle: Json | None = None
    conditions: tuple[PoolCondition, ...] | None = None


def read_pools(
    connection: "Connection", namespace: str | None, *, name: str | None = None, selector: str = ""
) -> list[Json]:
    """Return the ActivationPools of a namespace, or of all; of one name or with some labels, where these are given."""
    from slack.cluster.labels import API_VERSION
    from slack.demand.crd import POOL_PLURAL
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path

    path = resource_path(API_VERSION, POOL_PLURAL, namespace=namespace)
    seen = list_all(connection, path, dict[str, Any], label_selector=selector)
    found = [item for item in seen if name in (None, item["metadata"]["name"])]
    return sorted(found, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))


def read_status(pool: Mapping[str, Any]) -> PoolStatusView:
    """Return a pool's status; an empty one where it has none.

    Raises:
        InvalidPoolStatus: it is none.
    """
    try:
        return msgspec.convert(pool.get("status") or {}, PoolStatusView)
    except msgspec.ValidationError as error:
        raise InvalidPoolStatus(f"its status cannot be read: {by_field(str(error))}") from None


def row(pool: Mapping[str, Any]) -> Json:
    """Return a pool as `demand top` has it; of a status that cannot be read there is the reason alone."""
    try:
        status, unreadable = read_status(pool), ""
    except InvalidPoolStatus as error:
        status, unreadable = PoolStatusView(), str(error)
    containers, lag = status.containers or _Containers(), status.lag or _Lag()
    rate, demand = status.rate or _Rate(), status.demand or _Demand()
    ready = next((entry for entry in status.conditions or () if entry.type == "Ready"), PoolCondition())
    there = (containers.ready or 0) + (containers.creating or 0)
    problem = "" if ready.status == "True" else ready.message or "no controller has seen it yet"
    return {
        "namespace": str(pool["metadata"].get("namespace", "")),
        "name": str(pool["metadata"]["name"]),
        "wanted": demand.wanted,
        "ready": containers.ready,
        "creating": containers.creating,
        "unmet": demand.unmet,
        "queued": lag.queued,
        "in_flight": lag.in_flight,
        "oldest_ms": lag.oldest_ms,
        "arrivals": rate.arrivals,
        "completions": rate.completions,
        "throttled": bool(status.throttled),
        "starving": bool(lag.queued) and not there,
        "ready_reason": "Unreadable" if unreadable else ready.reason or "NotSeen",
        "problem": unreadable or problem,
    }
