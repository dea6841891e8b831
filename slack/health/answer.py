"""The answer to whether slack is there: what is found of each policy and of the operator, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slack.documents.slackpolicy_status import SlackPolicyStatus
from slack.health.reasons import OPERATOR_ABSENT
from slack.health.states import SlackState
from slack.process.reasons import Level


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something that is not as it should be."""

    text: str
    advice: str | None
    level: Level
    reason: str
    since: str | None = None
    """RFC 3339."""


@dataclass(frozen=True, slots=True)
class PolicyHealth:
    """The verdict on one policy."""

    name: str
    ready: bool | None
    """None where nobody knows."""
    satisfied: bool | None
    """Whether all wanted room is there; None where nobody knows."""
    headline: str
    status: SlackPolicyStatus
    findings: tuple[HealthFinding, ...]
    bound: int
    """As the status says, with which all figures are of one age."""
    pending: int
    state: SlackState
    """The same as in status.summary.state; OperatorAbsent where nobody keeps that up."""
    looked_at: bool
    """Whether an operator has written a status."""
    pods_seen: bool
    nodes_of_shape: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By shape: placeholders by node; none of a shape of which the pods are not those that the status counts."""
    now: tuple[int, int] | None = None
    """Where nobody keeps the status up: bound placeholders on nodes and waiting, of the pods that are there."""
    unbound: int = 0
    """Unbound placeholders, of the pods that are there."""
    said_last: str | None = None
    """The headline of the status, where nobody keeps it up; None while somebody does."""
    unknown_since: str | None = None
    """RFC 3339: the last sign of who kept it up; None while somebody does, or where there is no sign."""

    @property
    def known(self) -> bool:
        """Whether somebody keeps its status up, or may do so unseen."""
        return self.state.name != OPERATOR_ABSENT

    @property
    def troubled(self) -> bool:
        """Whether something is wrong with it, beside that nobody may keep it up."""
        return any(finding.level is Level.TROUBLE for finding in self.findings)

    @property
    def good(self) -> bool:
        """Whether nobody has to do anything about it."""
        return self.known and self.looked_at and not self.troubled


@dataclass(frozen=True, slots=True)
class Health:
    """The whole answer."""

    policies: tuple[PolicyHealth, ...]
    operator_runs: bool | None
    """None when it may not be seen."""
    operator: str
    """In words: whether it runs."""
    operator_findings: tuple[HealthFinding, ...]
    unseen: tuple[str, ...]
    built_in: bool
    """There is no SlackPolicy: the operator keeps its built-in one, which has no status."""
    idle: bool
    """There is no SlackPolicy and no built-in one: nothing asks for slack."""
    built_in_bound: int
    """Its placeholders that are on nodes."""
    built_in_unbound: int
    """Its unbound ones, for which there may be capacity or not."""
    built_in_findings: tuple[HealthFinding, ...]
    """Of the built-in policy, or of what is there though nothing asks for it."""
    buffers: tuple[tuple[str, str], ...] = ()
    """Name of each CapacityBuffer, and how it is."""
    buffer_server: str = ""
    """Who serves CapacityBuffers, and how that is known; '' where the kind is not there."""

    @property
    def satisfied(self) -> bool | None:
        """Whether all wanted room is there; a refill and a ceiling are no trouble, and it is not. None: not known."""
        if self.operator_findings or any(policy.satisfied is None for policy in self.policies):
            return None
        return all(policy.satisfied for policy in self.policies)

    @property
    def good(self) -> bool:
        """Whether nobody has to do anything, as far as it can be seen."""
        return (
            not self.operator_findings and not self.built_in_findings and all(policy.good for policy in self.policies)
        )
