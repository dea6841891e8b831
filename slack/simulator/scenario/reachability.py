"""Whether a scenario's pods can go anywhere at all, and which field keeps them out where they cannot."""

from collections.abc import Iterator, Mapping, Sequence

from slack.cluster.classes import Constraints, admits, reason_against
from slack.simulator.scenario.inventory import NodeGroup, ScenarioWorkload
from slack.simulator.scenario.slack_kinds import NoSlack, Policies, Proportional, Static


def problems(
    groups: Sequence[NodeGroup],
    workloads: Sequence[ScenarioWorkload],
    slack: NoSlack | Policies | Static | Proportional,
) -> Iterator[str]:
    """Yield a problem for every workload, and for the overprovisioner, whose pods fit no node group."""
    if not groups:
        return
    for index, workload in enumerate(workloads):
        yield from _problem(f"workloads[{index}]", workload.requests, workload.constraints, groups)
    if isinstance(slack, Static | Proportional):
        constraints = Constraints(
            node_selector=tuple(sorted(slack.node_selector.items())),
            tolerations=tuple(sorted(t.toleration() for t in slack.tolerations)),
        )
        yield from _problem("slack", slack.requests, constraints, groups)


def _problem(
    path: str, requests: Mapping[str, int], constraints: Constraints, groups: Sequence[NodeGroup]
) -> Iterator[str]:
    reasons, fields = [], []
    for group in groups:
        if group.max == 0:
            reasons.append(f"{group.name}: max is 0")
        elif not admits(constraints, group.node_class):
            reason = reason_against(constraints, group.node_class)
            reasons.append(f"{group.name}: {reason}")
            fields.append("tolerations" if reason.startswith("taint ") else "nodeSelector")
        else:
            over = _over(requests, group)
            if not over and group.allocatable.get("pods", 110) > group.daemon_pods:
                return
            reasons.append(f"{group.name}: {', '.join(over) or 'pods'} is more than a node has to give")
            fields.append(f"requests.{over[0]}" if over else "requests")
    # what the pods could mend most easily: a group that lets them in is too small before one that keeps them out
    wrong = min(fields or ["requests"], key=_nearness)
    yield f"{path}.{wrong}: its pods fit no node group ({'; '.join(reasons)})"


def _nearness(field: str) -> int:
    return ("requests", "nodeSelector", "tolerations").index(field.partition(".")[0])


def _over(requests: Mapping[str, int], group: NodeGroup) -> list[str]:
    room = {name: amount - group.daemon_requests.get(name, 0) for name, amount in group.allocatable.items()}
    return [name for name, amount in requests.items() if amount > room.get(name, 0)]
