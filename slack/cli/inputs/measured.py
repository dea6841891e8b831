"""What an operator has measured of its policies, as their statuses say: a dry run sees one moment and cannot know it.

A status in a file may be anybody's: what is not as the CRD has it is taken for nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slack.cluster.hold import ReleaseNodes


@dataclass(frozen=True, slots=True)
class SavedWaitMeasurement:
    """What the pods of a day that took a placeholder's place would have waited: `status.spared`."""

    pods: int
    seconds: int
    text: str


@dataclass(frozen=True, slots=True)
class PolicyMeasurement:
    """Of one policy."""

    looked_at: bool
    """Whether an operator has written a status."""
    spared: SavedWaitMeasurement | None
    """None before the first pod that took a placeholder's place."""
    why: str | None
    """Why an objective keeps this much; None without one."""
    release_nodes: ReleaseNodes | None = None
    """How nodes are released from unbound placeholders; None where these are bound."""


def measurements_of(documents: Iterable[Any]) -> dict[str, PolicyMeasurement]:
    """Return by policy what the statuses of SlackPolicies say."""
    found = {}
    for document in documents:
        metadata, status = _part(document, "metadata"), _part(document, "status")
        why = _part(status, "objective").get("why")
        found[str(metadata.get("name"))] = PolicyMeasurement(
            looked_at=bool(status.get("conditions")),
            spared=_saved_wait(_part(status, "spared")),
            why=why if isinstance(why, str) else None,
            release_nodes=_way(_part(status, "hold").get("releaseNodes")),
        )
    return found


def _part(document: Any, name: str) -> dict[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _way(said: Any) -> ReleaseNodes | None:
    return next((way for way in ReleaseNodes if said == way), None)


def _saved_wait(said: dict[str, Any]) -> SavedWaitMeasurement | None:
    pods, seconds, text = said.get("pods"), said.get("seconds"), said.get("text")
    if type(pods) is int and type(seconds) is int and isinstance(text, str) and pods > 0:
        return SavedWaitMeasurement(pods, seconds, text)
    return None


def spared_documents(found: Mapping[str, PolicyMeasurement]) -> dict[str, Any]:
    """Return by policy what slack spares as it stands in documents."""
    return {name: asdict(each.spared) for name, each in found.items() if each.spared is not None}


def spared_text(found: PolicyMeasurement | None, *, live: bool) -> str | None:
    """Say what slack spares, or why that is not known; None of a snapshot, which cannot know it without a status.

    Args:
        found: what is measured of the policy; None where no such policy is in the cluster.
        live: whether a cluster was looked at, and not a file.
    """
    if found is not None and found.spared is not None:
        return found.spared.text
    if found is not None and found.looked_at:
        return "no pod has used a placeholder's capacity yet"
    if live:
        return "unknown until an operator has kept it for a while"
    return None
