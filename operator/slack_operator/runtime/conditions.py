"""Conditions in the status of our objects: how they are written, and when they turned; and how a status is applied."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.schema.conditions import StatusCondition, is_trouble

Status = Mapping[str, Any]

MAX_MESSAGE = 2048


def with_conditions(
    previous: Status, conditions: Iterable[StatusCondition], generation: int, now: str, *, each: bool = False
) -> dict[str, Any]:
    """Return the status that is there with some conditions replaced: for policies that cannot be planned now.

    Args:
        previous: the status that is there.
        conditions: the new ones; all others stay, as what was known of the generation that they name.
        generation: what the new status is about.
        now: RFC 3339.
        each: whether each new condition names the generation too.
    """
    conditions = list(conditions)
    replaced = {str(condition.type) for condition in conditions}
    kept = [dict(old) for old in previous.get("conditions", ()) if old["type"] not in replaced]
    return {
        **previous,
        "observedGeneration": generation,
        "conditions": [*kept, *with_times(conditions, previous, now, generation if each else None)],
    }


def with_times(
    conditions: Iterable[StatusCondition], previous: Status, now: str, generation: int | None = None
) -> list[dict[str, Any]]:
    """Return conditions as the API has them; the time of one that did not turn is kept.

    Args:
        conditions: what is so.
        previous: the status that is there.
        now: RFC 3339.
        generation: what they are about, as each of them says; None where a kind does not say it.
    """
    known = {old["type"]: old for old in previous.get("conditions", ())}
    result = []
    for condition in conditions:
        text = str(condition.status)
        old = known.get(str(condition.type))
        since = old["lastTransitionTime"] if old is not None and old["status"] == text else now
        result.append(
            {
                "type": str(condition.type),
                "status": text,
                "reason": condition.reason or "Unknown",
                "message": condition.message[:MAX_MESSAGE],
                "lastTransitionTime": since,
                **({} if generation is None else {"observedGeneration": generation}),
            }
        )
    return result


def turned(previous: Status, status: Status) -> list[dict[str, Any]]:
    """Return the conditions that have another status or reason than before; new ones only when they are trouble."""
    known = {old["type"]: (old["status"], old["reason"]) for old in previous.get("conditions", ())}
    return [
        condition
        for condition in status.get("conditions", ())
        if known.get(condition["type"]) != (condition["status"], condition["reason"])
        and (condition["type"] in known or is_trouble(condition["type"], condition["status"]))
    ]


def manifest(kind: str, name: str, uid: str, status: Status) -> dict[str, Any]:
    """Return what is applied to the status subresource; the uid keeps it off another object of the same name."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "uid": uid}, "status": dict(status)}


def rfc3339(unix_seconds: float) -> str:
    """Write a time as the API does, in whole seconds."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
