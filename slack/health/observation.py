"""What an API server shows of slack: the policies with their status, placeholders, the operator and its lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from slack.cluster.labels import ANNOTATION_BUILT_IN_POLICY
from slack.schema.conditions import is_trouble

Json = dict[str, Any]

DEFAULT_LEASE = "resource-slack"
OPERATOR_PODS = "app.kubernetes.io/name=resource-slack,app.kubernetes.io/component=operator"
"""A label selector."""
_LEASE_SECONDS = 15.0


class ObservedCondition(msgspec.Struct, rename="camel"):
    """One condition as the API has it."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    last_update_time: str = ""
    """Absent in a status of an earlier version."""

    @property
    def since(self) -> str:
        """Return since when it has its status and its reason. RFC 3339, "" if nobody says."""
        return self.last_update_time or self.last_transition_time

    @property
    def wrong(self) -> bool:
        """Whether it does not say what one would like to hear."""
        return is_trouble(self.type, self.status)


class ObservedShape(msgspec.Struct):
    """One entry of status.shapes."""

    name: str
    role: str = ""
    requests: dict[str, str] = {}
    count: int = 0
    replicas: int = 0
    bound: int = 0
    pending: int = 0
    workloads: list[str] = msgspec.field(default=[], name="for")


class ObservedUncovered(msgspec.Struct):
    """One entry of status.uncovered."""

    pod: str = ""
    reason: str = ""


class ObservedDisplacement(msgspec.Struct):
    """status.displaced"""

    total: int = 0
    since: str = ""


class ObservedObjective(msgspec.Struct):
    """status.objective"""

    why: str = ""


class ObservedCost(msgspec.Struct, rename="camel"):
    """status.cost"""

    node_hours_per_hour: str = ""
    node_hours_per_month: str = ""
    currency: str = ""
    per_hour: str = ""
    per_month: str = ""
    unpriced_nodes: int = 0
    text: str = ""


class ObservedSurplus(msgspec.Struct, rename="camel"):
    """status.surplus"""

    amounts: dict[str, str] = {}
    removal_time: str = ""
    text: str = ""


class ObservedSavedWait(msgspec.Struct):
    """status.spared"""

    pods: int = 0
    seconds: int = 0
    text: str = ""


class ObservedWorkloadStarts(msgspec.Struct):
    """One entry of status.timeToReady.workloads"""

    workload: str = ""
    pods: int = 0
    bound: str = ""
    image: str = ""
    started: str = ""
    ready: str = ""
    p99: str = ""
    pulled: str = ""


class ObservedTimeToReady(msgspec.Struct):
    """status.timeToReady"""

    pods: int = 0
    p50: str = ""
    p99: str = ""
    text: str = ""
    workloads: list[ObservedWorkloadStarts] = []


class ObservedHold(msgspec.Struct, rename="camel"):
    """status.hold"""

    form: str = ""
    since: str = ""
    reason: str = ""
    message: str = ""
    retry_time: str = ""


class ObservedStatus(msgspec.Struct, rename="camel"):
    """A SlackPolicy's status, as far as it is shown."""

    observed_generation: int = 0
    observed_time: str = ""
    nodes: int = 0
    summary: dict[str, str] = {}
    limit: str = ""
    desired: dict[str, str] = {}
    reserved: dict[str, str] = {}
    surplus: ObservedSurplus = msgspec.field(default_factory=ObservedSurplus)
    pending: int = 0
    displaced: ObservedDisplacement = msgspec.field(default_factory=ObservedDisplacement)
    shapes: list[ObservedShape] = []
    uncovered: list[ObservedUncovered] = []
    burst: int = 0
    sustained: str = ""
    instant_start: str = ""
    time_to_ready: ObservedTimeToReady = msgspec.field(default_factory=ObservedTimeToReady)
    cost: ObservedCost = msgspec.field(default_factory=ObservedCost)
    spared: ObservedSavedWait = msgspec.field(default_factory=ObservedSavedWait)
    objective: ObservedObjective = msgspec.field(default_factory=ObservedObjective)
    hold: ObservedHold = msgspec.field(default_factory=ObservedHold)
    conditions: list[ObservedCondition] = []


@dataclass(frozen=True, slots=True)
class ObservedPlaceholder:
    """One placeholder pod that is not on its way out."""

    policy: str
    shape: str
    node: str | None
    """None while it is on none."""
    unbound: bool = False
    """It is on no node on purpose: the autoscaler keeps capacity for it, and the operator alone knows where."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where an operator is, or what is left of one."""

    namespace: str
    lease_name: str
    placeholders: int
    operator_pods: int


def installations_text(installations: Sequence[Installation]) -> str:
    """Say what is at each of them, and how to look there."""
    texts = []
    for installation in installations:
        parts = [(installation.operator_pods, "operator pod"), (installation.placeholders, "placeholder")]
        counted = " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in parts if count)
        lease = f" --lease-name {installation.lease_name}" if installation.lease_name != DEFAULT_LEASE else ""
        texts.append(f"{counted} in {installation.namespace}: kubectl slack status -n {installation.namespace}{lease}")
    return "; ".join(texts)


@dataclass(frozen=True, slots=True)
class StatusObservation:
    """What the API server showed."""

    policies: tuple[Json, ...]
    crd: bool
    placeholders: tuple[ObservedPlaceholder, ...] | None
    """None when they may not be seen."""
    lease: Json | None
    lease_seen: bool
    operator_pods: int | None
    """Operator pods that run; None when they may not be seen."""
    unseen: tuple[str, ...]
    """What could not be looked at, and why."""
    elsewhere: tuple[Installation, ...] = ()
    """Where else something of ours is; only looked for where no lease is."""
    lease_renewed: bool | None = None
    """Whether a renewal was seen, where the lease's time and our clock do not tell; None: it was not looked for."""


def keeps_built_in(lease: Json | None) -> bool | None:
    """Whether the leader of a lease keeps its built-in policy, as it says there itself; None where it says nothing."""
    said = ((lease or {}).get("metadata") or {}).get("annotations") or {}
    return {"true": True, "false": False}.get(said.get(ANNOTATION_BUILT_IN_POLICY, ""))


def lease_holder(lease: Json, now: float) -> str | None:
    """Return who holds a lease at a time (Unix seconds); None when nobody has renewed it in its time."""
    holder, age_seconds = (lease.get("spec") or {}).get("holderIdentity"), renewal_age_seconds(lease, now)
    return str(holder) if holder and age_seconds is not None and age_seconds < _duration_seconds(lease) else None


def is_plausible(lease: Json, now: float) -> bool:
    """Whether a lease's time says, by a clock that may be another machine's, that its holder is alive or that none is.

    A time in the future, or one that is too old, may also be a difference of the two clocks.
    """
    age_seconds = renewal_age_seconds(lease, now)
    held = bool((lease.get("spec") or {}).get("holderIdentity"))
    return not held or (age_seconds is not None and 0.0 <= age_seconds < _duration_seconds(lease))


def renewal_age_seconds(lease: Json, now: float) -> float | None:
    """Return how long ago a lease was renewed, by its holder's clock and ours; None if it never was."""
    renewed = (lease.get("spec") or {}).get("renewTime")
    return now - datetime.fromisoformat(renewed).timestamp() if renewed else None


def _duration_seconds(lease: Json) -> float:
    return float((lease.get("spec") or {}).get("leaseDurationSeconds") or _LEASE_SECONDS)
