"""Why this much: an objective's amount in a sentence, the same wherever it is shown."""

from slack.planner.objective.amount import SizingReason

_MANY = 0.25
"""From this share of the late pods on it is told that no amount had helped them."""
_PATTERNS = {"none": "no pattern of time explains what comes"}


def why_text(why: SizingReason, amount: str) -> str:
    """Return the sentence.

    Args:
        why: what the amount follows from.
        amount: the extra capacity that is wanted, as it is shown: `3800m/8Gi`.
    """
    if not why.known:
        return f"the rate holds ({why.lacking or 'nothing seen yet'})"
    if why.lacking is not None:
        return f"{amount} is enough for the largest burst so far, until enough is known ({why.lacking})"
    seconds = round(why.window_seconds / 5) * 5
    window = f"{seconds} s, which is what a new node takes" if seconds else "the time that a new node takes"
    parts = [
        f"{amount} is enough for {why.quantile * 100:.3g}% of the pods that come within {window}",
        _PATTERNS.get(why.pattern, f"what comes goes by the {why.pattern}"),
    ]
    if why.started_today:
        parts.append(f"{why.late_today} of the {why.started_today} pods of the last day were late")
    if why.late_today > (1 - why.objective) * why.started_today and why.late_despite >= _MANY:
        share = f"the amount was enough for {why.late_despite * 100:.0f}% of the late pods"
        parts.append(f"{share}: a ceiling, their shape, a taint or their scheduler made them wait, and more helps none")
    if abs(why.correction) >= 0.5:
        parts.append("lateness has added to it" if why.correction > 0 else "it is less than learnt, as few were late")
    if why.bounded_by is not None:
        bound = {"most seen": "the most that pods have requested", "maxCostPerHour": "spec.objective.maxCostPerHour"}
        parts.append(f"{bound.get(why.bounded_by, why.bounded_by)} bounds it")
    if why.price_per_hour is not None:
        parts.append(f"it costs {why.price_per_hour:.3g} per hour")
    return "; ".join(parts)
