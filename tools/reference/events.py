"""The reference of conditions and Events: every reason, its meaning, what to do. From `slack_operator.web.reasons`."""

from slack.process.reasons import Level, Reason
from slack_operator.web.reasons import REASONS
from tools.reference.markdown import head, table

_TEXT = """
The operator says what it finds in conditions of a SlackPolicy's status, and in an Event when a condition turns. Both
carry the same reason: one CamelCase word that stays the same from version to version.

```
kubectl slack status                                         # conditions that are trouble, with what to do
kubectl get slackpolicies -o wide
kubectl describe slackpolicy web
kubectl get events --field-selector involvedObject.kind=SlackPolicy,type=Warning
kubectl get events -A --field-selector reason=PreemptionRescued
kubectl wait --for=condition=Ready slackpolicy/web --timeout=5m            # accepted and acted upon
kubectl wait --for=condition=SlackSatisfied slackpolicy/web --timeout=10m  # the room is there
```

Events about a SlackPolicy are in the namespace `default`, as those of all objects without a namespace; those about a
pod or a ReplicaSet are in its own. Equal Events within ten minutes are one whose count grows; one object gets at most
25 at once and one a minute after that. An Event is of type `Warning` when the condition says that something is wrong,
else `Normal`; that room is being refilled, and is there again, is no Event.

## What a policy's conditions mean

Each names the `metadata.generation` that it is about (`observedGeneration`); where the present spec cannot be used, the
figures are of the last one that could. `lastTransitionTime` changes with the status only.
"""
_CONDITIONS = (
    ("`Ready`", "`True`", "The policy is accepted and acted upon. `False` only for what somebody must mend."),
    (
        "`Stalled`",
        "absent",
        "Ready has been false for 30 s, or is for `InvalidSpec`: waiting is in vain.",
    ),
    (
        "`SlackSatisfied`",
        "`True`",
        "Every wanted placeholder has its capacity on a node, and together they hold what is desired.",
    ),
    ("`Covered`", "`True`", "Enough of the pods that come fit the room of one placeholder."),
    ("`Feasible`", "`True`", "Every wanted shape fits some node of the policy."),
    ("`PinsNodes`", "`False`", "A placeholder keeps its node from being scaled down."),
    ("`LimitReached`", "`False`", "An autoscaler's maximum, a quota or a kubelet refuses placeholders."),
    ("`AutoscalerIgnoresPlaceholders`", "`False`", "Placeholders wait, and no autoscaler reacts."),
    ("`ViewStale`", "absent or `False`", "The operator does not see the whole cluster, so it plans nothing."),
    ("`OwnershipContested`", "absent or `False`", "Somebody does not leave the operator's objects to it."),
    (
        "`PreemptionStuck`",
        "absent or `False`",
        "The scheduler left a pod hanging that was to take a placeholder's place.",
    ),
    (
        "`PlaceholdersChanged`",
        "absent or `False`",
        "Admission, or somebody, makes placeholders other than planned: a sidecar, a default, an overhead. What they "
        "request counts in full.",
    ),
    ("`HistoryLost`", "absent or `False`", "What a policy had learnt for its objective cannot be used."),
    ("`ReleaseBlocked`", "absent", "A node that unbound placeholders must let go cannot be released, or stays."),
    ("`SoftTaintBlocked`", "absent", "The taint of nodes that hold unbound placeholders cannot be written."),
    ("`ImagesNotPulled`", "absent", "A node with placeholders lacks an image that `spec.warm` asks for."),
)
"""Condition, when it is good, and what it says."""
_TOOLS = """
What tools make of it. kstatus is what Flux, Helm 4, Config Sync and kpt wait by:
"""
_LIFE = (
    (
        "no operator has looked yet (`status.observedGeneration` is not the generation)",
        "as before, or absent",
        "as before",
        "InProgress",
    ),
    ("all is there", "`True` `Accepted`", "`True` `Reserved`", "Current"),
    ("pods took the room, or a node is on its way", "`True`", "`False` `Refilling`", "Current"),
    (
        "a placeholder has waited three times as long as a node takes here",
        "`True`",
        "`False` `PlaceholdersPending`",
        "Current",
    ),
    ("the ceiling binds", "`True`", "`CeilingReached`, `True` where all is there that it lets be wanted", "Current"),
    (
        "an autoscaler or a quota refuses, or no autoscaler answers",
        "`True`",
        "`False`, with the reason of `LimitReached` or `NoWord`",
        "Current",
    ),
    ("no node is selected, or all are tainted", "`True`", "`False` `NoEligibleNode`", "Current"),
    (
        "all nodes are cordoned, not ready or being removed",
        "`True`",
        "`False` `NoEligibleNode`",
        "Current",
    ),
    ("the cluster has no nodes at all", "`True`", "`False` `NoNodesYet`", "Current"),
    ("no shape for the rest fits any node", "`True`", "`False` `NotPlanned`", "Current"),
    ("`spec.dryRun`", "`True`", "`False` `DryRun`", "Current"),
    ("the operator's view is broken (`ViewStale`)", "as before", "as before", "as before; InProgress for a new spec"),
    ("`InvalidSpec`", "`False`", "as before", "Failed"),
    ("`BadPriorityClass`, `DomainConflict`", "`False`", "`False`, the same reason", "InProgress, after 30 s Failed"),
    (
        "`WriteRefused`, `NotPermitted`, `WrittenBack`, `DeletionHeldUp`",
        "`False`",
        "as it is",
        "InProgress, after 30 s Failed",
    ),
    ("the policy is being deleted", "as before", "as before", "Terminating"),
)
"""What happens, and what Ready, SlackSatisfied and kstatus say of it."""
_ARGO = """
Argo CD takes a kind that it does not know for healthy. To have it wait and fail like the others, in `argocd-cm`:

```
resource.customizations.health.resource-slack.io_SlackPolicy: |
  local status = obj.status or {}
  local health = {status = "Progressing", message = "the operator has not looked yet"}
  if status.observedGeneration ~= obj.metadata.generation then
    return health
  end
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == "Stalled" and condition.status == "True" then
      return {status = "Degraded", message = condition.message}
    end
    if condition.type == "Ready" then
      health.status = condition.status == "True" and "Healthy" or "Progressing"
      health.message = condition.message
    end
  end
  return health
```

## Of the auditor

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
    parts = [
        head("Conditions and Events", "operator/slack_operator/web/reasons.py", _TEXT),
        f"\n{table(('condition', 'good', 'what it says'), _CONDITIONS)}",
        _TOOLS,
        f"\n{table(('what happens', '`Ready`', '`SlackSatisfied`', 'kstatus'), _LIFE)}",
        _ARGO,
    ]
    for level, title in _LEVELS.items():
        rows = [_row(reason) for reason in REASONS if reason.level is level]
        columns = ["reason", "conditions", "meaning", *(["what to do"] if level is not Level.GOOD else [])]
        parts.append(f"\n## {title}\n\n{table(columns, (row[: len(columns)] for row in rows))}")
    return "".join(parts)


def _row(reason: Reason) -> tuple[str, ...]:
    where = ", ".join(f"`{condition}`" for condition in reason.on) or f"none; an Event on the {reason.about}"
    if reason.about == "Lease":
        where = "none; `status` and the page say it"
    if reason.on and reason.about in ("CpuAuditPolicy", "SlackScale"):
        where += f" of a {reason.about}"
    return f"`{reason.name}`", where, reason.meaning, reason.advice
