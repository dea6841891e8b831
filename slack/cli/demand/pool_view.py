"""Pools as their statuses tell them: read with the rights of whoever asks, and made into what commands print.

A status is anybody's who may write it, another version's too. One that cannot be read makes a row that says so, and
keeps nobody from the other pools.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from slack.cli.documents.demand import PoolRow
from slack.demand.bounds import by_field
from slack.documents.activation_status import (
    ActivationCondition,
    ActivationPoolStatus,
    PoolContainersStatus,
    PoolDemandStatus,
    PoolLagStatus,
    PoolRateStatus,
)
from slack.errors import InvalidInput

if TYPE_CHECKING:
    from slack.kube.connection import Connection

Json = dict[str, Any]


class InvalidPoolStatus(InvalidInput):
    """A status that is not as the controller writes it; the text names the field."""


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


def read_status(pool: Mapping[str, Any]) -> ActivationPoolStatus:
    """Return a pool's status; an empty one where it has none.

    Raises:
        InvalidPoolStatus: it is none.
    """
    try:
        return msgspec.convert(pool.get("status") or {}, ActivationPoolStatus)
    except msgspec.ValidationError as error:
        raise InvalidPoolStatus(f"its status cannot be read: {by_field(str(error))}") from None


def row(pool: Mapping[str, Any]) -> PoolRow:
    """Return a pool as `demand top` has it; of a status that cannot be read there is the reason alone."""
    try:
        status, unreadable = read_status(pool), ""
    except InvalidPoolStatus as error:
        status, unreadable = ActivationPoolStatus(), str(error)
    containers, lag = status.containers or PoolContainersStatus(), status.lag or PoolLagStatus()
    rate, demand = status.rate or PoolRateStatus(), status.demand or PoolDemandStatus()
    unseen = ActivationCondition(type="Ready", status="Unknown")
    ready = next((entry for entry in status.conditions or () if entry.type == "Ready"), unseen)
    there = (containers.ready or 0) + (containers.creating or 0)
    problem = "" if ready.status == "True" else ready.message or "no controller has seen it yet"
    return PoolRow(
        namespace=str(pool["metadata"].get("namespace", "")),
        name=str(pool["metadata"]["name"]),
        wanted=demand.wanted,
        ready=containers.ready,
        creating=containers.creating,
        unmet=demand.unmet,
        queued=lag.queued,
        in_flight=lag.in_flight,
        oldest_ms=lag.oldest_ms,
        arrivals=rate.arrivals,
        completions=rate.completions,
        throttled=bool(status.throttled),
        starving=bool(lag.queued) and not there,
        ready_reason="Unreadable" if unreadable else ready.reason or "NotSeen",
        problem=unreadable or problem,
    )
