"""The status of a buffer: conditions that are true, and fields that the served CRD has.

`Provisioning` is True only while all chunks fit now. It turns False at once, and True when they have fitted for
`STEADY_SECONDS`, so that a consumer does not act upon room that is about to go.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slack.capacity_buffers.api import OWN_STRATEGY, BufferCondition, BufferReason
from slack.capacity_buffers.plan import BufferPlan
from slack.schema.conditions import StatusCondition

STEADY_SECONDS = 2.0
MOST_MESSAGE = 2048
STATUS_FIELDS = frozenset({"podTemplateRef", "replicas", "podTemplateGeneration", "conditions", "provisioningStrategy"})
"""Of v1beta1 as Cluster Autoscaler 1.37 and Karpenter 1.14 ship it."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How many of a buffer's chunks fit now, and what stands against the others."""

    fitting: int
    infeasible: str = ""
    """Why no node will come for the others; '' where one may."""


@dataclass(slots=True)
class Steadiness:
    """Since when all chunks of each buffer have fitted."""

    _since: dict[str, float]

    def __init__(self) -> None:
        """Begin with no memory: what a status says already goes on."""
        self._since = {}

    def is_true(self, uid: str, *, fits: bool, was_true: bool, now: float) -> bool:
        """Say whether `Provisioning` is True.

        Args:
            uid: of the buffer.
            fits: whether all chunks fit now.
            was_true: whether its status says so.
            now: monotonic seconds.
        """
        if not fits:
            self._since.pop(uid, None)
            return False
        since = self._since.setdefault(uid, now - STEADY_SECONDS if was_true else now)
        return now - since >= STEADY_SECONDS

    def due_in(self, now: float) -> float | None:
        """Return the seconds until one of them may turn; None when none is about to."""
        waits = [STEADY_SECONDS - (now - since) for since in self._since.values()]
        return min((wait for wait in waits if wait > 0), default=None)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget buffers that are gone."""
        self._since = {uid: since for uid, since in self._since.items() if uid in uids}


def buffer_conditions(plan: BufferPlan, fit: Fit, *, steady: bool) -> list[StatusCondition]:
    """Return the conditions of a buffer.

    Args:
        plan: what is done about it.
        fit: of its chunks.
        steady: whether all have fitted for long enough.
    """
    ready, provisioning = BufferCondition.READY_FOR_PROVISIONING, BufferCondition.PROVISIONING
    if plan.problem is not None:
        return [
            StatusCondition(ready, False, plan.problem.reason, plan.problem.message),
            StatusCondition(provisioning, False, BufferReason.NOT_READY_FOR_PROVISIONING, plan.problem.message),
        ]
    found = [
        StatusCondition(ready, True, BufferReason.RESOLVED, _resolved_text(plan)),
        _provisioning(plan, fit, steady),
    ]
    limited = bool(plan.limits)
    text = f"limited from {plan.asked} to {plan.replicas} chunks by {'; '.join(plan.limits)}" if limited else ""
    reason = BufferReason.RESOURCE_QUOTAS_ALLOCATED
    return [*found, StatusCondition(BufferCondition.LIMITED_BY_QUOTAS, limited, reason, text)]


def _resolved_text(plan: BufferPlan) -> str:
    if plan.chunk is None:
        return "resolved"
    source = "the newest live pod" if plan.chunk.is_live else "the template"
    return f"a chunk is as {source} is"


def _provisioning(plan: BufferPlan, fit: Fit, steady: bool) -> StatusCondition:
    kind, count = BufferCondition.PROVISIONING, plan.replicas
    if count == 0:
        return StatusCondition(kind, False, BufferReason.BUFFER_EMPTY, "the size is 0")
    if fit.fitting >= count and steady:
        return StatusCondition(kind, True, BufferReason.FITS_EXISTING_CAPACITY, f"{count} of {count} chunks fit")
    if fit.fitting < count and fit.infeasible:
        text = f"{fit.fitting} of {count} chunks fit; no node comes for the others: {fit.infeasible}"
        return StatusCondition(kind, False, BufferReason.INFEASIBLE, text)
    return StatusCondition(kind, False, BufferReason.REQUIRES_NEW_CAPACITY, _waiting_text(fit.fitting, count))


def _waiting_text(fitting: int, count: int) -> str:
    if fitting >= count:
        return f"{count} of {count} chunks fit, for less than {STEADY_SECONDS:.0f} s"
    return f"{fitting} of {count} chunks fit; {count - fitting} wait for a node"


def status_document(
    plan: BufferPlan,
    fit: Fit,
    conditions: Iterable[Mapping[str, Any]],
    fields: Collection[str] = STATUS_FIELDS,
) -> dict[str, Any]:
    """Return the status as a merge patch: each field that the CRD has, None where it is to be absent.

    Args:
        plan: what is done about the buffer.
        fit: of its chunks.
        conditions: with their times.
        fields: of the status in the CRD.
    """
    resolved = plan.problem is None
    document: dict[str, Any] = {
        "podTemplateRef": {"name": plan.template} if plan.template else None,
        "podTemplateGeneration": plan.template_generation,
        "replicas": plan.replicas if resolved else None,
        "provisioningStrategy": OWN_STRATEGY,
        "conditions": [dict(condition) for condition in conditions],
        "readyReplicas": min(fit.fitting, plan.replicas) if resolved else None,
    }
    return {name: value for name, value in document.items() if name in fields}


def says_same(there: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Say whether a status has all that we would write, and no condition beside ours; times do not count."""
    there = there or {}
    return all(
        _without_times(there.get(name)) == _without_times(value) if name == "conditions" else there.get(name) == value
        for name, value in wanted.items()
    )


def _without_times(conditions: object) -> dict[str, Any]:
    found = conditions if isinstance(conditions, list) else []
    kept = ({key: value for key, value in each.items() if key != "lastTransitionTime"} for each in found)
    return {str(each.get("type")): each for each in kept}


def was_provisioning(status: Mapping[str, Any] | None) -> bool:
    """Say whether a status has `Provisioning` True by us."""
    if (status or {}).get("provisioningStrategy") != OWN_STRATEGY:
        return False
    return any(
        each.get("type") == BufferCondition.PROVISIONING and each.get("status") == "True"
        for each in (status or {}).get("conditions") or ()
    )
