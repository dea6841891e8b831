"""What is wrong with the images of warm nodes, in words for a condition."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from slack.planner.warm.choice import COLLECTED, DISK_SHORT, PullProblem
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.conditions import IMAGES_NOT_PULLED

REFUSED = "WarmRefused"
"""The reason of a pull whose pod the API server refuses, and of the condition then."""
_FAILED = "ImagePullFailed"
_SHORT = "DiskShort"
SWITCHED_OFF = StatusCondition(
    IMAGES_NOT_PULLED,
    True,
    "WarmNotEnabled",
    "spec.warm: this operator pulls no images; operator.warm.enabled (--warm) switches it on",
)
"""Of each policy with `spec.warm` then."""


def refused_conditions(policies: Iterable[str], message: str) -> dict[str, StatusCondition]:
    """Return the condition of policies while the API server refuses what pulls need."""
    return {name: StatusCondition(IMAGES_NOT_PULLED, True, REFUSED, message) for name in policies}


def conditions_of(problems: Sequence[PullProblem], policy_of: Mapping[str, str]) -> dict[str, StatusCondition]:
    """Return the conditions of policies: the worst first, and the image that most nodes lack for it.

    Args:
        problems: of all nodes.
        policy_of: the policy of each node.
    """
    by_policy: dict[str, list[PullProblem]] = {}
    for problem in problems:
        if problem.node in policy_of:
            by_policy.setdefault(policy_of[problem.node], []).append(problem)
    return {name: _condition(found) for name, found in by_policy.items()}


def _condition(problems: Sequence[PullProblem]) -> StatusCondition:
    reasons = {_reason(problem) for problem in problems}
    reason = next(each for each in (REFUSED, _FAILED, _SHORT) if each in reasons)
    of_it = [problem for problem in problems if _reason(problem) == reason]
    counts = Counter((problem.image, problem.reason) for problem in of_it)
    (image, word), count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    example = min((each for each in of_it if (each.image, each.reason) == (image, word)), key=lambda each: each.node)
    nodes = f"on {example.node}" if count == 1 else f"on {count} nodes, among them {example.node}"
    said = f"{word}: {example.message}" if example.message and word != reason else example.message or word
    others = len({problem.image for problem in problems}) - 1
    more = f"; and {others} more image{'' if others == 1 else 's'}" if others else ""
    return StatusCondition(IMAGES_NOT_PULLED, True, reason, f"{image} is not pulled {nodes}: {said}{more}")


def _reason(problem: PullProblem) -> str:
    if problem.reason == REFUSED:
        return REFUSED
    return _SHORT if problem.reason in (DISK_SHORT, COLLECTED) else _FAILED
