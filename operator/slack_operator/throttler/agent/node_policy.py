"""Which ThrottlePolicy the node has, followed as policies and the node's labels change.

A policy that cannot be read, as of a newer version, leaves the last one of its name that could; where none selects the
node nothing is throttled there. Two threads, one of each reflector, meet under the lock; the last of what they find is
handed on.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from slack.cluster.labels import API_VERSION
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.process.outages import Outages
from slack.throttler.limits import UNLIMITED, Limits

if TYPE_CHECKING:
    from slack.throttler.config import ThrottlePolicy

log = logging.getLogger(__name__)

KIND, PLURAL = "ThrottlePolicy", "throttlepolicies"


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class OwnNode(msgspec.Struct):
    """A node; decoded by the reflector."""

    metadata: _Meta


class PolicyRow(msgspec.Struct):
    """A policy as the API server has it; decoded by the reflector."""

    metadata: dict[str, Any]
    spec: Any = None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.metadata.get("name", ""))


class Applied(msgspec.Struct, frozen=True):
    """What the node goes by."""

    policy: str | None = None
    """None: no policy selects the node."""
    generation: int = 0
    limits: Limits = UNLIMITED


class NodePolicy:
    """The policy of one node."""

    def __init__(self, cores: float, changed: Callable[[Applied], None]) -> None:
        """Nothing is known yet.

        Args:
            cores: of the node.
            changed: called with what the node goes by from now on, when that is known whole, and when it changes.
        """
        self.applied: Applied | None = None
        """None: not known yet."""
        self._cores = cores
        self._changed = changed
        self._lock = threading.Lock()
        self._labels: Mapping[str, str] | None = None
        self._policies: dict[str, ThrottlePolicy] | None = None
        self._outages = Outages()

    def set_labels(self, labels: Mapping[str, str]) -> None:
        """The node has these labels."""
        with self._lock:
            self._labels = labels
            self._choose()

    def do_without_labels(self) -> bool:
        """Go by the policies of all nodes while the node's labels are not known; whether they were not."""
        with self._lock:
            if self._labels is not None:
                return False
            self._labels = {}
            self._choose()
            return True

    def set_policies(self, rows: Mapping[str, PolicyRow]) -> None:
        """These are all policies of the cluster."""
        with self._lock:
            former = self._policies or {}
            read = {name: self._read(row, former.get(name)) for name, row in rows.items()}
            self._policies = {name: policy for name, policy in read.items() if policy is not None}
            self._choose()

    def _read(self, row: PolicyRow, former: "ThrottlePolicy | None") -> "ThrottlePolicy | None":
        from slack.throttler.config import (  # pydantic: not without a policy
            InvalidThrottlePolicy,
            parse_throttle_policy,
        )

        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": row.metadata, "spec": row.spec or {}}
        try:
            return parse_throttle_policy(document, source=f"throttlepolicy/{row.name}")
        except InvalidThrottlePolicy as problem:
            if self._outages.is_new(str(problem)):
                done = "is left out" if former is None else "is gone by as it was before"
                log.warning("a policy cannot be read, and %s: %s", done, problem)
            return former

    def _choose(self) -> None:
        if self._labels is None or self._policies is None:
            return
        found = Applied()
        if self._policies:
            from slack.throttler.config import choose

            choice = choose(self._policies.values(), self._labels)
            if choice.policy is not None:
                policy = choice.policy
                found = Applied(policy.name, policy.generation, policy.spec.limits(self._cores))
            if choice.conflicts and self._outages.is_new(f"{found.policy} {choice.conflicts}"):
                log.warning("policies select this node alike: %s is gone by, not %s", found.policy, choice.conflicts)
        if found != self.applied:
            self.applied = found
            self._changed(found)


class _Rows:
    """All rows of one kind, by name; handed on once whole, and with each change."""

    def __init__(self, hand_on: Callable[[dict[str, Any]], None]) -> None:
        self._hand_on = hand_on
        self._rows: dict[str, Any] = {}
        self._fresh: dict[str, Any] | None = None

    def begin(self) -> None:
        self._fresh = {}

    def apply(self, events: Sequence[tuple[EventType, Any]]) -> None:
        rows = self._rows if self._fresh is None else self._fresh
        for kind, row in events:
            metadata = row.metadata
            name = metadata["name"] if isinstance(metadata, dict) else metadata.name
            if kind is EventType.DELETED:
                rows.pop(name, None)
            else:
                rows[name] = row
        if self._fresh is None:
            self._hand_on(dict(rows))

    def keep(self, who: ObjectName) -> None:
        if self._fresh is not None and who.name in self._rows:
            self._fresh[who.name] = self._rows[who.name]

    def end(self) -> None:
        if self._fresh is not None:
            self._rows, self._fresh = self._fresh, None
        self._hand_on(dict(self._rows))


def reflectors(connection: Connection, node: str, policy: NodePolicy) -> tuple[Reflector[Any], Reflector[Any]]:
    """Make what follows the policies and the node; not started yet."""

    def labels(rows: dict[str, Any]) -> None:
        row = rows.get(node)
        policy.set_labels((row.metadata.labels if row is not None else None) or {})

    policies = Reflector(
        connection,
        resource_path(API_VERSION, PLURAL),
        PolicyRow,
        _Rows(policy.set_policies),
        may_be_absent=True,
    )
    nodes = Reflector(
        connection, resource_path("v1", "nodes"), OwnNode, _Rows(labels), field_selector=f"metadata.name={node}"
    )
    return policies, nodes
