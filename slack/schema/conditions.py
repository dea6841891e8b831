"""A condition of a status, as a value, and which conditions say that something is wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """One condition; `reason` is a CamelCase word that can be searched for, `message` is for people."""

    type: str
    status: bool
    reason: str
    message: str


GOOD_WHEN_TRUE = frozenset(
    {"Ready", "SlackSatisfied", "Covered", "Feasible", "BrokerReachable", "ReadyForProvisioning", "Provisioning"}
)
"""Of all our kinds; every other condition is trouble when it is true."""


def is_trouble(condition_type: str, status: str) -> bool:
    """Whether a condition says that something is wrong; its status is as the API has it: True, False or Unknown."""
    return (status == "True") != (condition_type in GOOD_WHEN_TRUE)
