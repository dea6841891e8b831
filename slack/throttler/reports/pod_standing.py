"""Where a pod's containers stand, why, and what would end it: its own status, joined with what its node's agent says.

Pure. Where the agent is not heard it still says all that the pod itself shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from slack.throttler.config import ThrottlePolicySpec, TimeoutAction
from slack.throttler.fsm import StartState
from slack.throttler.injection import DEPENDS_ON, ENABLED, Backend
from slack.throttler.reports.messages import ContainerRow, NodeReport, View
from slack.throttler.reports.pod_facts import ContainerFacts, PodFacts

_WAITING = (StartState.DOWNLOADING, StartState.BLOCKED, StartState.PENDING)


class AgentState(StrEnum):
    """What is known of the agent of the pod's node."""

    REPORTS = "reports"
    SILENT = "silent"
    """It has reported, and does not any more, or does not see its node's pods."""
    UNHEARD = "unheard"
    """It has never reported since this controller leads."""
    UNKNOWN = "unknown"
    """The controller could not be asked."""
    NOT_ASKED = "not-asked"
    """It has no say."""


@dataclass(frozen=True, slots=True)
class End:
    """Something that would end a container's state."""

    text: str
    at: float | None = None
    """Unix time; None: not known, or a matter of conditions."""


@dataclass(frozen=True, slots=True)
class ContainerStanding:
    """One container."""

    name: str
    gated: bool
    state: StartState | None
    """None: not known, or none of its states while it is not gated."""
    since: float | None = None
    position: int | None = None
    forced: bool = False
    depends_on: tuple[str, ...] = ()
    reason: str = ""
    ends: tuple[End, ...] = ()
    """Whichever comes first."""
    kubelet: str = ""


@dataclass(frozen=True, slots=True)
class PodStanding:
    """One pod."""

    node: str | None
    backend: Backend | None
    agent: AgentState
    heard_at: float | None
    """When its agent reported last, where that is told."""
    policy: str | None
    slots: int | None
    starting: int | None
    """How many start on its node."""
    fail_open_after_seconds: float | None
    reasons: tuple[str, ...]
    containers: tuple[ContainerStanding, ...]


def stand(
    facts: PodFacts,
    view: View | None,
    *,
    spec: ThrottlePolicySpec | None = None,
    namespace_asks: bool | None = None,
    never_gated: frozenset[str] = frozenset(),
) -> PodStanding:
    """Say where a pod stands.

    Args:
        facts: the pod.
        view: of its node; None: the controller could not be asked.
        spec: of the policy that its node's agent goes by.
        namespace_asks: whether its namespace has the label; None: that cannot be seen.
        never_gated: namespaces that are left out.
    """
    report, agent, heard_at = _heard(facts, view)
    blind = next((node.reason for node in (view.silent if view else ()) if node.node == facts.node), "")
    fail_open = facts.fail_open_after_seconds if facts.backend is Backend.FILE else None
    if spec is not None and (fail_open is not None or facts.backend is Backend.CONFIGMAP):
        fail_open = spec.fail_open_after.total_seconds()
    rows = {row.container: row for row in (report.containers if report else ()) if row.uid == facts.uid}
    states = {
        found.name: rows[found.name].state if found.name in rows else StartState.READY
        for found in facts.containers
        if found.name in rows or found.ready
    }
    reasons = [*_of_pod(facts, namespace_asks, never_gated), *_of_node(facts, agent, report, fail_open, blind)]
    return PodStanding(
        node=facts.node,
        backend=facts.backend,
        agent=agent,
        heard_at=heard_at,
        policy=(report.policy or None) if report else None,
        slots=report.slots if report else None,
        starting=report.counts.get(StartState.STARTING, 0) if report else None,
        fail_open_after_seconds=fail_open,
        reasons=tuple(reasons),
        containers=tuple(
            _container(found, rows.get(found.name), states, facts, spec, fail_open) for found in facts.containers
        ),
    )


def stand_of_rows(view: View) -> PodStanding:
    """Say where a pod stands of which its agent's rows are all that can be seen."""
    report = next((report for report in view.reports if report.containers), None)
    rows = report.containers if report else ()
    reasons = () if rows else ("no agent has a container of it that waits or starts",)
    return PodStanding(
        node=report.node if report else None,
        backend=None,
        agent=AgentState.REPORTS if report else AgentState.UNKNOWN,
        heard_at=report.at if report else None,
        policy=(report.policy or None) if report else None,
        slots=report.slots if report else None,
        starting=report.counts.get(StartState.STARTING, 0) if report else None,
        fail_open_after_seconds=None,
        reasons=reasons,
        containers=tuple(
            ContainerStanding(
                row.container,
                True,
                row.state,
                since=row.since or None,
                position=row.position or None,
                forced=row.forced,
                reason=row.reason,
                ends=_forced_or_late(row, None, probed=True),
            )
            for row in rows
        ),
    )


def _heard(facts: PodFacts, view: View | None) -> tuple[NodeReport | None, AgentState, float | None]:
    if not facts.agent_decides:
        return None, AgentState.NOT_ASKED, None
    if view is None:
        return None, AgentState.UNKNOWN, None
    report = next((report for report in view.reports if report.node == facts.node), None)
    if report is not None:
        return report, AgentState.REPORTS, report.at
    silent = next((node for node in view.silent if node.node == facts.node), None)
    if silent is None:
        return None, AgentState.UNHEARD, None
    return None, AgentState.SILENT, silent.at or None


def _of_pod(facts: PodFacts, namespace_asks: bool | None, never_gated: frozenset[str]) -> list[str]:
    said = [f"it has ended ({facts.ended}): nothing of it starts any more"] if facts.ended else []
    said += ["it is being deleted"] if facts.deleted else []
    if facts.backend is None:
        why = _ungated(facts, namespace_asks, never_gated)
        said.append(f"it is not gated, and starts as it would without a throttler: {why}")
    elif facts.node is None and not facts.ended:
        told = f": {facts.unscheduled}" if facts.unscheduled else ""
        said.append(f"no node is chosen for it yet, so nobody paces it{told}")
    if facts.refused:
        said.append(
            f"its annotation {DEPENDS_ON} cannot be kept: {'; '.join(facts.refused)}; its containers are held: correct "
            "it in the pod's template, and make the pod anew"
        )
    return said


def _ungated(facts: PodFacts, namespace_asks: bool | None, never_gated: frozenset[str]) -> str:
    if facts.namespace in never_gated:
        return f"pods of namespace {facts.namespace} never are"
    if facts.exempt is not None:
        return facts.exempt
    if facts.asks or namespace_asks:
        who = "its annotation" if facts.asks else "its namespace's label"
        return (
            f"{who} {ENABLED} asks for a gate, and none was there to give it one when it was made; a pod that is made "
            "now in its place gets one, if the throttler's controller answers"
        )
    if namespace_asks is None:
        return f"it has no annotation {ENABLED}, and whether its namespace has that label cannot be seen"
    return f"neither its namespace has the label {ENABLED}=true nor it that annotation"


def _who(facts: PodFacts) -> str:
    """Who lets its containers start where there is no agent."""
    return "its gate" if facts.backend is Backend.FILE else "the controller"


def _of_node(
    facts: PodFacts, agent: AgentState, report: NodeReport | None, fail_open: float | None, blind: str
) -> list[str]:
    who = _who(facts)
    opens = f"; {who} lets all start after {fail_open:g} s without an agent that sees its pods" if fail_open else ""
    if report is not None and not report.policy:
        return [f"no ThrottlePolicy is about node {facts.node}: nothing is held back there but by dependencies"]
    if agent is AgentState.SILENT and blind:
        return [f"the agent of node {facts.node} does not see the node's pods: {blind}{opens}"]
    if agent is AgentState.SILENT:
        return [f"the agent of node {facts.node} does not report any more: does its pod run?{opens}"]
    if agent is AgentState.UNHEARD:
        return [f"no agent of node {facts.node} has reported: does one of the throttler's run there?{opens}"]
    return []


def _container(
    found: ContainerFacts,
    row: ContainerRow | None,
    states: Mapping[str, StartState],
    facts: PodFacts,
    spec: ThrottlePolicySpec | None,
    fail_open: float | None,
) -> ContainerStanding:
    if not found.gated:
        return ContainerStanding(found.name, False, None, kubelet=found.kubelet)
    if row is None:
        state = StartState.READY if found.ready else None
        return ContainerStanding(found.name, True, state, depends_on=found.depends_on, kubelet=found.kubelet)
    ends = list(_ends(found, row, states, facts, spec))
    if row.state in _WAITING and fail_open is not None:
        ends.append(End(f"{_who(facts)} hears of no agent that sees its pods for {fail_open:g} s"))
    return ContainerStanding(
        found.name,
        True,
        row.state,
        since=row.since or None,
        position=row.position or None,
        forced=row.forced,
        depends_on=found.depends_on,
        reason=row.reason,
        ends=tuple(ends),
        kubelet=found.kubelet,
    )


def _ends(
    found: ContainerFacts,
    row: ContainerRow,
    states: Mapping[str, StartState],
    facts: PodFacts,
    spec: ThrottlePolicySpec | None,
) -> tuple[End, ...]:
    if row.state is StartState.DOWNLOADING:
        asked = ", and its gate has asked" if facts.backend is Backend.FILE else ""
        return (End(f"its image is there, its kubelet would start it{asked}"),)
    if row.state is StartState.BLOCKED:
        if facts.refused:
            return (End("the annotation is corrected, and the pod made anew"),)
        unready = [name for name in found.depends_on if states.get(name) is not StartState.READY]
        if unready:
            return (
                End(f"{' and '.join(unready)} {'is' if len(unready) == 1 else 'are'} ready; minRate does not help"),
            )
        return (End("the kubelet's back-off is over"),)
    if row.state is StartState.PENDING:
        first = "the policy lets one start" if row.position == 1 else "those before it have started, and one may"
        lowest = spec.rates[0] if spec is not None else 1
        never = () if lowest is not None else (End("nothing else: minRate is off, so that no start is forced"),)
        return (End(first), *_forced_or_late(row, spec, probed=found.probed), *never)
    if row.state is StartState.STARTING:
        if found.probed:
            return (End("its startup or readiness probe succeeds"), *_forced_or_late(row, spec, probed=True))
        if found.runs:
            return (End("noProbeHold is over, for it has no startup or readiness probe", row.until),)
        return (End("it runs, and noProbeHold is over"), *_forced_or_late(row, spec, probed=False))
    if row.state is StartState.FAILED:
        return (End("its startup or readiness probe succeeds after all; it holds no slot meanwhile"),)
    return ()


def _forced_or_late(row: ContainerRow, spec: ThrottlePolicySpec | None, *, probed: bool) -> tuple[End, ...]:
    if row.until is None:
        return ()
    if row.state is StartState.PENDING:
        return (End("minRate forces its start", row.until),)
    if row.state is not StartState.STARTING:
        return ()
    deletes = spec is not None and spec.start_timeout.then is TimeoutAction.DELETE
    late = "startTimeout is over: " + ("its pod is evicted" if deletes else "its slot is free, and it runs on")
    return (End(late if probed else "startTimeout is over, should it not run by then", row.until),)
