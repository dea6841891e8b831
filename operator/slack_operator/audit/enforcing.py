"""Does what `slack.cfs.enforce` decides, and follows what comes of it.

What came of a resize is read from the pod: what the kubelet has in force, or that it finds the resize infeasible, in
which case the limit is put back. A turn spends a bounded time on requests: a webhook that hangs must not hold up
reports, and what was not done is decided anew in the next turn.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from slack.cfs.enforce import (
    COOL_DOWN_SECONDS,
    Action,
    LeftAlone,
    What,
    decide,
    putting_back,
    raised_lately,
)
from slack.cfs.finding import Severity
from slack.cfs.hindrance import Candidate
from slack.cfs.policy import AuditPolicy, Mode
from slack.cfs.standing import Standing
from slack.cfs.wire import BurstOrder
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.events import EventKind, EventRecorder
from slack.process.logs import fields
from slack.process.reasons import CPU_LIMIT_RAISED, CPU_LIMIT_RESTORED, CPU_LIMIT_WOULD_RISE
from slack_operator.audit import bursts
from slack_operator.audit.judging import Nodes
from slack_operator.audit.memory import Memory
from slack_operator.audit.pods_view import ClusterView
from slack_operator.audit.policy_status import Enforcement
from slack_operator.audit.resizing import Resizer, other_object
from slack_operator.audit.steady import steady
from slack_operator.audit.summing import Findings, container_findings
from slack_operator.audit.telling import about

log = logging.getLogger(__name__)

MAX_ACTIONS = 50
"""In one turn and policy."""
TURN_SECONDS = 20.0
"""After so long no further action is begun in a turn; one takes up to a minute where the API server has to be waited
for."""
OUTCOME_SECONDS = 600.0
"""How long the kubelet may take before the outcome is called a timeout."""


class Enforcer:
    """All policies' enforcement. Owned by the turn's thread."""

    def __init__(
        self,
        writer: Writer,
        recorder: EventRecorder,
        view: ClusterView,
        nodes: Nodes,
        *,
        may_write: Callable[[], bool],
        on_outcome: Callable[[str], None],
        wall: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resizer = Resizer(writer, may_write=may_write)
        self._recorder = recorder
        self._view = view
        self._nodes = nodes
        self._on_outcome = on_outcome
        self._now = wall or steady()
        self._clock = clock
        self._memories: dict[str, Memory] = {}

    def turn(
        self, policies: Iterable[AuditPolicy], policy_of: Mapping[str, str], findings: Findings
    ) -> dict[str, Enforcement]:
        """Decide and act for every policy; returns what to say in their status, by name.

        Raises:
            NotLeading: the lease is gone; nothing was written after that.
        """
        until = self._clock() + TURN_SECONDS
        all_standing = self._view.standing()
        result: dict[str, Enforcement] = {}
        orders: dict[str, list[BurstOrder]] = {}
        uids = set()
        for policy in policies:
            uids.add(policy.uid)
            memory = self._memories.setdefault(policy.uid, Memory(self._on_outcome))
            mine = {name for name, owner in policy_of.items() if owner == policy.name}
            standing = [one for one in all_standing if one.pod.namespace in mine]
            self._follow(policy, memory, standing, until)
            bursts.adopt(policy, memory, mine, findings.reports.values(), self._view)
            decision = decide(policy.spec, self._candidates(mine, findings), standing, memory.ledger, self._now())
            memory.ledger.keep(set(decision.wanted), self._now())
            for action in decision.actions[:MAX_ACTIONS]:
                if self._clock() >= until:
                    break
                self._do(action, policy, memory)
            for node, order in bursts.orders(memory, mine, findings.reports, self._view):
                orders.setdefault(node, []).append(order)
            result[policy.name] = self._status(policy, memory, standing, decision.left_alone)
        self._memories = {uid: one for uid, one in self._memories.items() if uid in uids}
        self._nodes.order({node: tuple(found) for node, found in orders.items()}, findings.reporting)
        return result

    def _candidates(self, namespaces: Set[str], findings: Findings) -> Iterable[Candidate]:
        for namespace in sorted(namespaces & findings.judged.keys()):
            for judged, seen, container in container_findings(findings.judged[namespace]):
                if judged.told.finding.severity is not Severity.HIGH:
                    break  # the worst come first
                pod = self._view.pod(seen.uid)  # as it is now, which may be later than when it was judged
                fresh = pod.container(container.name) if pod is not None else None
                report = findings.reports.get(judged.told.finding.window.target.node)
                if pod is None or fresh is None or report is None:
                    continue
                yield Candidate(
                    judged.told.finding,
                    pod,
                    fresh,
                    kernel_affected=self._nodes.affected(report),
                    node_cpus=report.cpus,
                    resize_under_way=self._view.resize(pod.uid).under_way,
                    node_writes_bursts=report.writes_bursts,
                )

    # ---- acting

    def _do(self, action: Action, policy: AuditPolicy, memory: Memory) -> None:
        try:
            if action.what is What.BURST:
                bursts.order(action, memory, self._now())
            elif action.dry:
                self._show(action, policy, memory)
            elif action.what is What.RAISE:
                self._raise(action, policy, memory)
            else:
                self._put_back(action, memory, "put back by mode Revert")
        except ApiError as error:
            self._failed(action, memory, error)

    def _show(self, action: Action, policy: AuditPolicy, memory: Memory) -> None:
        self._resizer.show(action)
        memory.ledger.shown[action.key] = self._now()
        memory.note(action, "planned", f"a dry run; mode {policy.spec.mode}", self._now())
        memory.on_outcome("dry_run")
        before, after = action.texts
        text = f"container {action.container.name}: limit {before} would rise to {after}"
        self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_WOULD_RISE, text)

    def _raise(self, action: Action, policy: AuditPolicy, memory: Memory) -> None:
        now = self._now()
        self._resizer.raise_limit(action, policy.name, now)
        memory.sent(action, now)
        memory.ledger.raises.setdefault(action.pod.namespace, []).append(now)
        before, after = action.texts
        who = f"CpuAuditPolicy {policy.name}"
        text = f"container {action.container.name}: limit raised from {before} to {after} by {who}"
        log.info("%s", text, extra=fields(namespace=action.pod.namespace, pod=action.pod.name))
        self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_RAISED, text)

    def _put_back(self, action: Action, memory: Memory, why: str) -> None:
        self._resizer.put_back(action)
        if action.what is What.FORGET:
            there = action.from_millis == action.to_millis
            why = "the limit is the former one" if there else "not put back: somebody has set another limit since"
        memory.ledger.waiting.pop(action.key, None)
        memory.lines.pop(action.key, None)
        memory.note(action, "reverted", why, self._now())
        memory.on_outcome("reverted")
        if action.what is What.REVERT:
            before, after = action.texts
            text = f"container {action.container.name}: limit put back from {before} to {after}"
            self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_RESTORED, text)

    def _failed(self, action: Action, memory: Memory, error: ApiError) -> None:
        if error.not_found:
            return  # the pod is gone
        if error.conflict or other_object(error):
            memory.on_outcome("conflict")
            log.info("not resized, again later: %s", error, extra=fields(container=action.name))
            return
        now = self._now()
        if action.what is What.RAISE:
            memory.ledger.tried[action.key] = now
            memory.ledger.shown.setdefault(action.key, now)
        else:
            memory.ledger.refused[action.key] = now
        memory.refused, memory.refused_at = f"{action.name}: {error.message}"[:900], now
        memory.note(action, "refused", error.message, now)
        memory.on_outcome("refused")
        log.warning("resize refused: %s", error, extra=fields(container=action.name))

    # ---- what came of it

    def _follow(self, policy: AuditPolicy, memory: Memory, standing: Sequence[Standing], until: float) -> None:
        """Look at what the kubelets made of what was sent; what they find infeasible is put back in mode Enforce."""
        now = self._now()
        by_key = {one.key: one for one in standing}
        for key, sent_at in list(memory.ledger.waiting.items()):
            one = by_key.get(key)
            late = now - sent_at > OUTCOME_SECONDS
            if one is None:  # the pod went, or the watch has not shown the annotation yet
                if late:
                    memory.outcome(key, "timeout", "the pod is gone")
                continue
            resize = self._view.resize(key[0])
            if resize.in_force.get(key[1]) == one.container.cpu_limit_millis and one.ours and not resize.under_way:
                memory.outcome(key, "done")
            elif resize.pending:
                memory.so_far(key, resize.pending.lower(), resize.message)
            elif late:
                memory.outcome(key, "timeout", "the kubelet has not said that it is in force")
        if policy.spec.mode is Mode.ENFORCE:
            for one in standing:
                in_time = self._clock() < until
                if in_time and self._infeasible(one) and memory.ledger.may_put_back(one.key, now):
                    self._give_up(one, memory)

    def _infeasible(self, one: Standing) -> bool:
        """Whether the kubelet can never do it, by this process's order or by that of one before it."""
        resize = self._view.resize(one.pod.uid)
        waits = resize.in_force.get(one.container.name) != one.container.cpu_limit_millis
        return resize.pending == "Infeasible" and one.ours and waits and not one.pod.deleting

    def _give_up(self, one: Standing, memory: Memory) -> None:
        action = putting_back(one)
        try:
            self._put_back(action, memory, "the node has no room for it")
        except ApiError as error:
            self._failed(action, memory, error)

    def _status(
        self, policy: AuditPolicy, memory: Memory, standing: Sequence[Standing], left: Sequence[LeftAlone]
    ) -> Enforcement:
        now = self._now()
        recent = now - memory.refused_at < COOL_DOWN_SECONDS and policy.spec.mode is not Mode.REPORT
        return Enforcement(
            raised=sum(one.ours for one in standing),
            added_millis=sum(one.added_millis for one in standing),
            bursts=len(memory.ledger.bursts),
            planned=len(memory.ledger.shown.keys() - memory.ledger.tried.keys()),
            last_hour=raised_lately(standing, now),
            actions=tuple(dict(one) for one in memory.actions),
            left_alone=left,
            refused=memory.refused if recent else "",
        )
