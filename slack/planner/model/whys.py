"""Why an objective has this much planned, as a sentence: the same for `plan`, `explain` and their documents."""

from slack.cluster.quantity import format_rounded
from slack.planner.model.result import Plan, PolicyPlan
from slack.planner.objective.why_text import why_text


def whys(plan: Plan) -> dict[str, str]:
    """Return by policy with an objective why this much is planned for it."""
    return {item.policy: text for item in plan.items if (text := why_of(item)) is not None}


def why_of(item: PolicyPlan) -> str | None:
    """Return why this much is planned for a policy; None without an objective."""
    if item.why is None:
        return None
    wanted = {name: int(value) for name, value in zip(item.resources, item.desired, strict=True)}
    amount = "/".join(format_rounded(name, wanted.get(name, 0)) for name in ("cpu", "memory"))
    return why_text(item.why, amount)
