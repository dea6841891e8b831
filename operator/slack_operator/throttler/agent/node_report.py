"""What the agent knows, as a report for the controller: counts, and one by one who is not ready."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from slack.throttler import protocol
from slack.throttler.fsm import StartState
from slack.throttler.limits import Usage
from slack.throttler.reports.messages import MAX_CONTAINERS, MAX_LATE, ContainerRow, LatePod, NodeReport, Permit
from slack_operator.throttler.agent.grant_coordinator import GrantCoordinator, TickOutcome
from slack_operator.throttler.agent.node_policy import Applied

_ORDER = (
    StartState.PENDING,
    StartState.STARTING,
    StartState.FAILED,
    StartState.BLOCKED,
    StartState.DOWNLOADING,
)
"""Who comes first where not all have room."""
_MOST = (1 << 53) - 1


@dataclass(slots=True)
class Tallies:
    """What there was since the agent began."""

    granted: int = 0
    forced: int = 0
    timed_out: int = 0
    opened: int = 0

    def count_tick(self, turn: TickOutcome, opened: int) -> None:
        """Count what came of a turn."""
        self.granted += len(turn.grants)
        self.forced += sum(grant.forced for grant in turn.grants)
        self.timed_out += len(turn.late)
        self.opened += opened


def report(
    node: str,
    applied: Applied,
    cores: float,
    desk: GrantCoordinator,
    tallies: Tallies,
    usage: Usage,
    *,
    blind: str | None = None,
) -> NodeReport:
    """Make a report of now, `blind` if the agent does not see the node's pods; belongs to the desk's thread."""
    now, wall = time.monotonic(), time.time()
    rows = sorted(
        _rows(desk, now, wall, usage), key=lambda row: (_ORDER.index(row.state), row.position, row.since, row.pod)
    )
    counts = desk.throttle.counts()
    counts[StartState.BLOCKED] += sum(row.uid in desk.bad for row in rows)
    return NodeReport(
        node=node,
        at=wall,
        policy=applied.policy or "",
        policy_generation=applied.generation,
        blind=protocol.text(blind or ""),
        cores=cores,
        slots=desk.throttle.limits.slots,
        counts={state: count for state, count in counts.items() if count},
        granted=tallies.granted,
        forced=tallies.forced,
        timed_out=tallies.timed_out,
        opened=tallies.opened,
        containers=tuple(rows[:MAX_CONTAINERS]),
        left_out=max(0, len(rows) - MAX_CONTAINERS),
        permits=tuple(_permits(desk)),
        late=tuple(_late_pods(desk)),
        pending_pods=tuple(desk.pending_uids)[:MAX_CONTAINERS],
    )


def _permits(desk: GrantCoordinator) -> Iterator[Permit]:
    for key in desk.permits[:MAX_CONTAINERS]:
        if (pod := desk.pod(key.pod)) is not None:
            metadata = pod.metadata
            yield Permit(
                uid=key.pod,
                container=key.container,
                namespace=metadata.namespace,
                pod=metadata.name,
                config_map=pod.config_map,
            )


def _late_pods(desk: GrantCoordinator) -> Iterator[LatePod]:
    for key in desk.late[:MAX_LATE]:
        pod = desk.pod(key.pod)
        if pod is None or pod.is_mirror:
            continue
        ids = {status.name: status.container_id or "" for status in pod.statuses()}
        metadata = pod.metadata
        yield LatePod(
            uid=key.pod,
            container=key.container,
            namespace=metadata.namespace,
            pod=metadata.name,
            container_id=ids.get(key.container, ""),
        )


def _rows(desk: GrantCoordinator, now: float, wall: float, usage: Usage) -> Iterator[ContainerRow]:
    for key in desk.keys:
        waiting, pod = desk.standing(key, now, usage), desk.pod(key.pod)
        if waiting.state is StartState.READY or pod is None:
            continue
        until = None if waiting.until is None else min(max(0.0, wall + waiting.until - now), float(_MOST))
        yield ContainerRow(
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            uid=key.pod,
            container=key.container,
            state=waiting.state,
            since=max(0.0, wall + waiting.since - now),
            position=waiting.position,
            forced=desk.forced(key),
            reason=protocol.text(waiting.reason),
            until=until,
        )
    for uid, why in desk.bad.items():
        if (pod := desk.pod(uid)) is not None:
            for name in pod.gated_names:
                yield ContainerRow(
                    namespace=pod.metadata.namespace,
                    pod=pod.metadata.name,
                    uid=uid,
                    container=name,
                    state=StartState.BLOCKED,
                    since=0.0,
                    reason=protocol.text(why),
                )
