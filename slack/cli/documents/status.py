"""What `status` prints for programs."""

from typing import Any, Literal

import msgspec

from slack.cli.documents.record import ApiVersion, Record


class StatusFinding(Record):
    """Something to know, or to mend."""

    level: str
    reason: str
    text: str
    advice: str
    since: str


class OperatorSeen(Record):
    """Whether the operator runs."""

    runs: bool | None
    text: str


class BufferSeen(Record):
    """A CapacityBuffer, and how it is."""

    name: str
    text: str


class PolicyState(Record):
    """How a policy's slack is, in a word."""

    name: str
    calm: bool
    words: str
    remedy: str


class PolicyStatus(Record):
    """One policy; `status` is the object's own, as Kubernetes has it. Null where no operator keeps that up."""

    name: str
    good: bool
    ready: bool | None
    satisfied: bool | None
    not_known_since: str | None
    text: str
    state: PolicyState
    limit: str
    bound: int
    pending: int
    nodes: dict[str, dict[str, int]]
    findings: list[StatusFinding]
    status: dict[str, Any]


class Status(Record):
    """`status`."""

    api_version: ApiVersion = msgspec.field(name="apiVersion")
    kind: Literal["Status"]
    good: bool
    satisfied: bool | None
    built_in: bool
    idle: bool
    operator: OperatorSeen
    not_seen: list[str]
    buffers: list[BufferSeen]
    """CapacityBuffers."""
    buffer_server: str
    """Who serves them, and how that is known; '' where the kind is not there."""
    findings: list[StatusFinding]
    policies: list[PolicyStatus]
