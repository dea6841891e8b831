"""Conditions and reasons in words for the page: said as one would like to hear them, or else what is wrong, and what
to do about it. The reasons' words are those of `resource-slack status`.
"""

from html import escape

from slack.health.reasons import reason
from slack.process.reasons import Level, Reason
from slack.schema.conditions import is_trouble
from slack_operator.placeholders.act.releasing import RELEASE_BLOCKED
from slack_operator.placeholders.conditions import (
    IMAGES_NOT_PULLED,
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    SOFT_TAINT_BLOCKED,
    STALLED,
    VIEW_STALE,
)
from slack_operator.web.reasons import REASONS

_SAID = {
    "Ready": ("Accepted and acted upon", "Not acted upon"),
    "SlackSatisfied": ("All room is there", "Not all room is there"),
    "Covered": ("Pods that come are covered", "Some pods are not covered"),
    "Feasible": ("Every shape fits a node", "A shape fits no node"),
    "PinsNodes": ("No node is held from scale-down", "A placeholder holds its node from scale-down"),
    "LimitReached": ("No limit reached", "A limit is reached"),
    "AutoscalerIgnoresPlaceholders": ("No placeholder waits unanswered", "No autoscaler answers"),
    "LargeSlack": ("The slack is in proportion", "The slack is large beside the cluster"),
    "HistoryLost": ("What is learnt is kept", "What was learnt is lost"),
    VIEW_STALE: ("The whole cluster is seen", "Not the whole cluster is seen"),
    OWNERSHIP_CONTESTED: ("Nobody else writes our objects", "Somebody else writes our objects"),
    PREEMPTION_STUCK: ("No preemption hangs", "A preemption hangs"),
    PLACEHOLDERS_CHANGED: ("Placeholders are as planned", "Placeholders are not as planned"),
    IMAGES_NOT_PULLED: ("Every wanted image is pulled", "An image is not pulled"),
    RELEASE_BLOCKED: ("Every node can go that is to go", "A node that is to go cannot"),
    SOFT_TAINT_BLOCKED: ("Every wanted taint is on its node", "A taint cannot be written"),
    "Provisioning": ("All chunks fit into free capacity", "Not all chunks fit into free capacity"),
    "ReadyForProvisioning": ("The buffer can be served", "The buffer cannot be served"),
    "Conflict": ("No other server writes the buffer", "Another server writes the buffer"),
    "LimitedByQuotas": ("No quota or ceiling limits the buffer", "A quota or a ceiling limits the buffer"),
    STALLED: ("Waiting is not in vain", "Waiting is in vain"),
}
"""By type of condition: when all is well, and when not."""

_ABOUT = ("SlackPolicy", "SlackScale", "Deployment", "ReplicaSet", "Pod", "Lease", "CapacityBuffer")
"""Kinds whose reasons are explained."""


def condition_text(condition_type: str, status: str) -> str:
    """Say a condition in words; one of another version as the API has it."""
    good_and_bad = _SAID.get(condition_type)
    if good_and_bad is None or status not in ("True", "False"):
        return f"{condition_type} {status}"
    return good_and_bad[is_trouble(condition_type, status)]


def level_of(condition_type: str, status: str, reason_name: str) -> Level:
    """Return how much a condition matters; what is not as it should be, for an unknown reason, is trouble."""
    if not is_trouble(condition_type, status):
        return Level.GOOD
    known = reason(reason_name)
    return known.level if known is not None and known.level is not Level.GOOD else Level.TROUBLE


def help_page(namespace: str) -> str:
    """Return what every reason means and what to do about it: what the page's links lead to, with an anchor each."""
    entries = "".join(_entry(known, namespace) for known in REASONS if known.about in _ABOUT)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><title>What it means · resource-slack</title>'
        '<link rel="icon" href="/static/favicon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="/static/app.css"></head><body class="help"><main>'
        '<p><a href="/">Back to the slack</a></p><h1>What it means, and what to do</h1>'
        '<p class="muted">Each reason of a condition or an Event, by its word. More, with what to look at: '
        "<code>docs/troubleshooting.md</code>.</p>"
        f"<dl>{entries}</dl></main></body></html>"
    )


def _entry(known: Reason, namespace: str) -> str:
    advice = known.advice_in(namespace)
    todo = f"<dd><strong>What to do:</strong> {escape(advice)}</dd>" if advice else ""
    stands = ", ".join(known.on) or ("of no object" if known.about == "Lease" else f"an Event on a {known.about}")
    return (
        f'<div id="{known.name}" class="reason"><dt>{known.name} <span class="muted small">{escape(stands)}</span></dt>'
        f"<dd>{escape(known.meaning)}</dd>{todo}</div>"
    )
