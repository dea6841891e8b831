"""What an API server shows of slack: the policies with their status, placeholders, the operator and its lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slack.cluster.labels import ANNOTATION_BUILT_IN_POLICY

Json = dict[str, Any]

DEFAULT_LEASE = "resource-slack"
OPERATOR_PODS = "app.kubernetes.io/name=resource-slack,app.kubernetes.io/component=operator"
"""A label selector."""
_LEASE_SECONDS = 15.0


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
