"""Burst orders: which containers of a policy may save up quota, told to the agents of their nodes with every answer.

An order that is not repeated ends, and the agent puts back what was there: with the policy, with its mode, with this
process for good. What another controller ordered before is taken over from what agents report.
"""

from collections.abc import Iterable, Mapping, Set

from slack.audit.api.messages import AgentReport, BurstOrder
from slack.audit.api.policy import AuditPolicy, Mode
from slack.audit.enforcement.decision import BURST_SECONDS, Action, ActionKind
from slack_operator.auditor.controller.cluster_view import AuditedClusterView
from slack_operator.auditor.controller.enforcement_state import EnforcementState


def adopt(
    policy: AuditPolicy,
    state: EnforcementState,
    namespaces: Set[str],
    reports: Iterable[AgentReport],
    view: AuditedClusterView,
) -> None:
    """Take over orders that a controller before this one gave, and read what became of ours."""
    if not (policy.spec.mode is Mode.ENFORCE and policy.spec.enforce.burst):
        state.history.bursts.clear()
        return
    for report in reports:
        for burst in report.bursts:
            pod = view.pod(burst.pod_uid.replace("_", "-"))
            if pod is None or pod.node != report.node or pod.namespace not in namespaces:
                continue
            if burst.container_id not in pod.container_ids:
                continue
            container = pod.containers[pod.container_ids.index(burst.container_id)]
            key = pod.uid, container.name
            if burst.error:
                state.so_far(key, "refused", burst.error)
            elif burst.burst_us:
                action = Action(ActionKind.BURST, pod, container, 0, 0, burst_us=burst.burst_us)
                state.history.bursts.setdefault(key, action)
                if key in state.lines:
                    state.outcome(key, "done")


def order(action: Action, state: EnforcementState, now: float) -> None:
    """Give an order, or show that it would be given."""
    if action.dry:
        state.history.shown[action.key] = now
        state.note(action, "planned", "", now)
        state.on_outcome("dry_run")
        return
    state.history.bursts[action.key] = action
    state.history.tried[action.key] = now
    state.history.shown.pop(action.key, None)
    state.lines[action.key] = state.note(action, "sent", "", now)


def orders(
    state: EnforcementState, namespaces: Set[str], reports: Mapping[str, AgentReport], view: AuditedClusterView
) -> Iterable[tuple[str, BurstOrder]]:
    """Yield the orders that hold, with their nodes; those of pods that went end."""
    for key, action in list(state.history.bursts.items()):
        pod = view.pod(key[0])
        if pod is None or pod.namespace not in namespaces:
            del state.history.bursts[key]
            continue
        index = next((at for at, container in enumerate(pod.containers) if container.name == key[1]), None)
        container_id = pod.container_ids[index] if index is not None else ""
        if container_id and pod.node in reports:
            yield (
                pod.node,
                BurstOrder(
                    pod_uid=pod.cgroup_uid,
                    container_id=container_id,
                    burst_us=action.burst_us,
                    seconds=BURST_SECONDS,
                ),
            )
