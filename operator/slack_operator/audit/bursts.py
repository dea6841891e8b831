"""Burst orders: which containers of a policy may save up quota, told to the agents of their nodes with every answer.

An order that is not repeated ends, and the agent puts back what was there: with the policy, with its mode, with this
process for good. What another controller ordered before is taken over from what agents report.
"""

from collections.abc import Iterable, Mapping, Set

from slack.cfs.enforce import BURST_SECONDS, Action, What
from slack.cfs.policy import AuditPolicy, Mode
from slack.cfs.wire import BurstOrder, NodeReport
from slack_operator.audit.memory import Memory
from slack_operator.audit.pods_view import ClusterView


def adopt(
    policy: AuditPolicy, memory: Memory, namespaces: Set[str], reports: Iterable[NodeReport], view: ClusterView
) -> None:
    """Take over orders that a controller before this one gave, and read what became of ours."""
    if not (policy.spec.mode is Mode.ENFORCE and policy.spec.enforce.burst):
        memory.ledger.bursts.clear()
        return
    for report in reports:
        for state in report.bursts:
            pod = view.pod(state.pod_uid.replace("_", "-"))
            if pod is None or pod.node != report.node or pod.namespace not in namespaces:
                continue
            if state.container_id not in pod.container_ids:
                continue
            container = pod.containers[pod.container_ids.index(state.container_id)]
            key = pod.uid, container.name
            if state.error:
                memory.so_far(key, "refused", state.error)
            elif state.burst_us:
                action = Action(What.BURST, pod, container, 0, 0, burst_us=state.burst_us)
                memory.ledger.bursts.setdefault(key, action)
                if key in memory.lines:
                    memory.outcome(key, "done")


def order(action: Action, memory: Memory, now: float) -> None:
    """Give an order, or show that it would be given."""
    if action.dry:
        memory.ledger.shown[action.key] = now
        memory.note(action, "planned", "", now)
        memory.on_outcome("dry_run")
        return
    memory.ledger.bursts[action.key] = action
    memory.ledger.tried[action.key] = now
    memory.ledger.shown.pop(action.key, None)
    memory.lines[action.key] = memory.note(action, "sent", "", now)


def orders(
    memory: Memory, namespaces: Set[str], reports: Mapping[str, NodeReport], view: ClusterView
) -> Iterable[tuple[str, BurstOrder]]:
    """Yield the orders that hold, with their nodes; those of pods that went end."""
    for key, action in list(memory.ledger.bursts.items()):
        pod = view.pod(key[0])
        if pod is None or pod.namespace not in namespaces:
            del memory.ledger.bursts[key]
            continue
        index = next((at for at, one in enumerate(pod.containers) if one.name == key[1]), None)
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
