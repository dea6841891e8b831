"""Karpenter's NodeClaims as their watch shows them: which nodes have drifted, and when each expires.

The kind is absent without Karpenter, and may be watched only with a right of its own. Without either nothing is known.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta

from slack.cluster import wire
from slack.cluster.duration import parse_duration
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.planner.release import Claim

log = logging.getLogger(__name__)

_NEVER = "Never"


class NodeClaims:
    """Kept by the reflector's thread, read by the loop's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}
        """By the claim's name."""
        self._unseen: set[str] = set()
        self._whole = False

    def begin(self) -> None:
        """A new list begins."""
        self._unseen = set(self._claims)

    def apply(self, events: Sequence[tuple[EventType, wire.NodeClaim]]) -> None:
        """Some events, in order."""
        with self._lock:
            for event, item in events:
                name = item.metadata.name
                self._unseen.discard(name)
                claim = None if event is EventType.DELETED else read_claim(item)
                if claim is None:
                    self._claims.pop(name, None)
                else:
                    self._claims[name] = claim

    def keep(self, who: ObjectName) -> None:
        """The list has a NodeClaim that cannot be read."""
        self._unseen.discard(who.name)

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            for name in self._unseen:
                self._claims.pop(name, None)
            self._whole = True
        self._unseen = set()

    def by_node(self) -> Mapping[str, Claim] | None:
        """Return the claims by the names of their nodes; None before the first list was whole."""
        with self._lock:
            return {claim.node: claim for claim in self._claims.values()} if self._whole else None


def watch_of(connection: Connection, sink: NodeClaims) -> Reflector[wire.NodeClaim]:
    """Return the watch that feeds the sink."""
    path = resource_path("karpenter.sh/v1", "nodeclaims")
    return Reflector(connection, path, wire.NodeClaim, sink, may_be_absent=True)


def read_claim(item: wire.NodeClaim) -> Claim | None:
    """Return what a NodeClaim says of its node; None while it has none."""
    metadata, status = item.metadata, item.status
    if status is None or not status.node_name or metadata.creation_timestamp is None:
        return None
    created = metadata.creation_timestamp
    drifted = next((c for c in status.conditions or () if c.type == "Drifted" and c.status == "True"), None)
    since = None if drifted is None else drifted.last_transition_time or created
    lifetime = _lifetime(item)
    return Claim(
        node=status.node_name,
        created=created.timestamp(),
        drifted_since=None if since is None else since.timestamp(),
        expires_at=None if lifetime is None else created.timestamp() + lifetime.total_seconds(),
        leaving=metadata.deletion_timestamp is not None,
    )


def _lifetime(item: wire.NodeClaim) -> timedelta | None:
    text = item.spec.expire_after if item.spec is not None else None
    if not text or text == _NEVER:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        log.debug("NodeClaim %s: spec.expireAfter: %s", item.metadata.name, error)
        return None
