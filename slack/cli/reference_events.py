"""The reference of conditions and Events: every reason, what it means, what to do. From `slack.process.reasons`."""

from slack.cli.reference_text import head, table
from slack.process.reasons import REASONS, Level, Reason

_TEXT = """
The operator says what it finds in conditions of a SlackPolicy's status, and in an Event when a condition turns. Both
carry the same reason: one CamelCase word that stays the same from version to version.

```
kubectl slack status                                         # conditions that are trouble, with what to do
kubectl get slackpolicies -o wide
kubectl describe slackpolicy web
kubectl get events --field-selector involvedObject.kind=SlackPolicy,type=Warning
kubectl get events -A --field-selector reason=PreemptionRescued
kubectl wait --for=condition=Ready slackpolicy/web --timeout=5m
```

Events about a SlackPolicy are in the namespace `default`, as those of all objects without a namespace; those about a
pod are in the pod's. Equal Events within ten minutes are one whose count grows; one object gets at most 25 at once and
one a minute after that. An Event is of type `Warning` when the condition says that something is wrong, else `Normal`.

Good when `True` are `Ready`, `SlackSatisfied`, `Covered` and `Feasible`; all other conditions are good when `False`.

A CpuAuditPolicy of the [auditor](../cpu-audit.md) has conditions of its own, in the same tables; no Event tells of
them. Its Events are about pods: `CPUThrottlingHigh` at most once a pod an hour, and one for each change of a limit.

```
kubectl describe cpuauditpolicy default
kubectl get events -A --field-selector reason=CPUThrottlingHigh
```
"""
_LEVELS = {
    Level.TROUBLE: "What is wrong",
    Level.NOTE: "What is worth knowing",
    Level.GOOD: "What is well, or just happened",
}


def page() -> str:
    """Return the whole page."""
    parts = [head("Conditions and Events", "slack/process/reasons.py", _TEXT)]
    for level, title in _LEVELS.items():
        rows = [_row(one) for one in REASONS if one.level is level]
        columns = ["reason", "conditions", "meaning", *(["what to do"] if level is not Level.GOOD else [])]
        parts.append(f"\n## {title}\n\n{table(columns, (row[: len(columns)] for row in rows))}")
    return "".join(parts)


def _row(one: Reason) -> tuple[str, ...]:
    where = ", ".join(f"`{condition}`" for condition in one.on) or f"none; an Event on the {one.about}"
    if one.on and one.about == "CpuAuditPolicy":
        where += " of a CpuAuditPolicy"
    return f"`{one.name}`", where, one.meaning, one.advice
