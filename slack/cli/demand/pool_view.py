"""Pools as their statuses tell them: read with the rights of whoever asks, and made into what commands print."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slack.kube.connection import Connection

Json = dict[str, Any]


def read_pools(connection: "Connection", namespace: str | None, name: str | None = None) -> list[Json]:
    """Return the ActivationPools of a namespace, or of all; of one name, where it is given."""
    from slack.cluster.labels import API_VERSION
    from slack.demand.crd import POOL_PLURAL
    from slack.kube.paging import listed
    from slack.kube.paths import resource_path

    path = resource_path(API_VERSION, POOL_PLURAL, namespace=namespace)
    found = [item for item in listed(connection, path, dict[str, Any]) if name in (None, item["metadata"]["name"])]
    return sorted(found, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))


def row(pool: Mapping[str, Any]) -> Json:
    """Return a pool as `demand top` has it."""
    status: Mapping[str, Any] = pool.get("status") or {}
    containers, lag = status.get("containers") or {}, status.get("lag") or {}
    rate, demand = status.get("rate") or {}, status.get("demand") or {}
    ready = condition(status, "Ready")
    there = (containers.get("ready") or 0) + (containers.get("creating") or 0)
    return {
        "namespace": str(pool["metadata"].get("namespace", "")),
        "name": str(pool["metadata"]["name"]),
        "wanted": demand.get("wanted"),
        "ready": containers.get("ready"),
        "creating": containers.get("creating"),
        "unmet": demand.get("unmet"),
        "queued": lag.get("queued"),
        "in_flight": lag.get("inFlight"),
        "oldest_ms": lag.get("oldestMs"),
        "arrivals": rate.get("arrivals"),
        "completions": rate.get("completions"),
        "throttled": bool(status.get("throttled")),
        "starving": bool(lag.get("queued")) and not there,
        "ready_reason": str(ready.get("reason", "NotSeen")),
        "problem": "" if ready.get("status") == "True" else str(ready.get("message", "no controller has seen it yet")),
    }


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition; an empty one where there is none."""
    found: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return next((entry for entry in found if entry.get("type") == kind), {})
