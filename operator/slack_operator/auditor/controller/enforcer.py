"""Does what `slack.audit.enforcement.decision` decides, and follows what comes of it.

What came of a resize is read from the pod: what the kubelet has in force, or that it finds the resize infeasible, in
which case the limit is put back. A turn spends a bounded time on requests: a webhook that hangs must not hold up
reports, and what was not done is decided anew in the next turn.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy

from slack.audit.api.messages import BurstOrder
from slack.audit.api.policy import AuditPolicy, Mode, ResizeSpec
from slack.audit.enforcement.decision import (
    COOL_DOWN_SECONDS,
    Action,
    ActionKind,
    SkippedFinding,
    above_bound,
    decide,
    raises_last_hour,
    revert_action,
)
from slack.audit.enforcement.exemptions import Candidate
from slack.audit.enforcement.raised_limits import RaisedLimit
from slack.audit.findings.finding import Severity
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.kube.events import EventKind, EventRecorder
from slack.process.logs import fields
from slack.process.outages import Outages
from slack_operator.auditor.controller import bursts
from slack_operator.auditor.controller.aggregation import ClusterFindings, container_findings
from slack_operator.auditor.controller.cluster_view import AuditedClusterView
from slack_operator.auditor.controller.enforcement_state import EnforcementState
from slack_operator.auditor.controller.event_reporter import about
from slack_operator.auditor.controller.limit_record import LimitRecord
from slack_operator.auditor.controller.node_findings import NodeFindings
from slack_operator.auditor.controller.policy_status import Enforcement
from slack_operator.auditor.controller.reasons import CPU_LIMIT_RAISED, CPU_LIMIT_RESTORED, CPU_LIMIT_WOULD_RISE
from slack_operator.auditor.controller.resizer import Resizer, is_gone, other_object
from slack_operator.runtime.steady_clock import steady

log = logging.getLogger(__name__)

MAX_ACTIONS = 50
"""In one turn and policy."""
RECONCILE_SECONDS = 20.0
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
        view: AuditedClusterView,
        nodes: NodeFindings,
        record: LimitRecord,
        *,
        may_write: Callable[[], bool],
        on_outcome: Callable[[str], None],
        wall: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record = record
        self._resizer = Resizer(writer, record, may_write=may_write)
        self._recorder = recorder
        self._view = view
        self._nodes = nodes
        self._on_outcome = on_outcome
        self._now = wall or steady()
        self._clock = clock
        self._states: dict[str, EnforcementState] = {}
        self._outages = Outages()

    def reconcile(
        self, policies: Iterable[AuditPolicy], policy_of: Mapping[str, str], findings: ClusterFindings
    ) -> dict[str, Enforcement]:
        """Decide and act for every policy; returns what to say in their status, by name.

        Raises:
            NotLeading: the lease is gone; nothing was written after that.
        """
        until = self._clock() + RECONCILE_SECONDS
        policies = tuple(policies)
        acting = any(policy.spec.mode is not Mode.REPORT for policy in policies)
        unknown = self._record.read(self._view, self._now(), acting=acting)
        all_raised = self._record.raised(self._view)
        result: dict[str, Enforcement] = {}
        orders: dict[str, list[BurstOrder]] = {}
        uids = set()
        for policy in policies:
            uids.add(policy.uid)
            state = self._states.setdefault(policy.uid, EnforcementState(self._on_outcome))
            mine = {name for name, owner in policy_of.items() if owner == policy.name}
            raised_limits = [raised for raised in all_raised if raised.pod.namespace in mine]
            self._follow(policy, state, raised_limits, until)
            bursts.adopt(policy, state, mine, findings.reports.values(), self._view)
            decision = decide(policy.spec, self._candidates(mine, findings), raised_limits, state.history, self._now())
            state.history.keep(set(decision.wanted), self._now())
            if unknown is not None and policy.spec.mode is not Mode.REPORT:
                state.refused, state.refused_at = unknown[:900], self._now()
            for action in decision.actions[:MAX_ACTIONS]:
                if unknown is not None and action.kind is not ActionKind.BURST:
                    continue  # what stands raised is not known, and so neither what may be added
                if self._clock() >= until:
                    break
                self._do(action, policy, state)
            for node, order in bursts.orders(state, mine, findings.reports, self._view):
                orders.setdefault(node, []).append(order)
            result[policy.name] = self._status(policy, state, raised_limits, decision.left_alone)
        self._states = {uid: kept for uid, kept in self._states.items() if uid in uids}
        if unknown is None:
            self._forget_gone()
        self._nodes.order({node: tuple(found) for node, found in orders.items()}, findings.reporting)
        return result

    def _forget_gone(self) -> None:
        try:
            self._record.forget_gone(self._view)
        except ApiError as error:
            if self._outages.is_new(error.reason):
                log.warning("entries of pods that are gone stay in the record: %s", error)

    def _candidates(self, namespaces: Set[str], findings: ClusterFindings) -> Iterable[Candidate]:
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

    def _do(self, action: Action, policy: AuditPolicy, state: EnforcementState) -> None:
        try:
            if action.kind is ActionKind.BURST:
                bursts.order(action, state, self._now())
            elif action.dry:
                self._show(action, policy, state)
            elif action.kind is ActionKind.RAISE:
                self._raise(action, policy, state)
            else:
                self._put_back(action, state, "put back by mode Revert")
        except ApiError as error:
            self._failed(action, state, error)

    def _show(self, action: Action, policy: AuditPolicy, state: EnforcementState) -> None:
        self._resizer.show(action)
        state.history.shown[action.key] = self._now()
        state.note(action, "planned", f"a dry run; mode {policy.spec.mode}", self._now())
        state.on_outcome("dry_run")
        before, after = action.texts
        text = f"container {action.container.name}: limit {before} would rise to {after}"
        self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_WOULD_RISE, text)

    def _raise(self, action: Action, policy: AuditPolicy, state: EnforcementState) -> None:
        now = self._now()
        self._resizer.raise_limit(action, policy.name, now)
        state.sent(action, now)
        state.history.raises.setdefault(action.pod.namespace, []).append(now)
        before, after = action.texts
        who = f"CpuAuditPolicy {policy.name}"
        text = f"container {action.container.name}: limit raised from {before} to {after} by {who}"
        log.info("%s", text, extra=fields(namespace=action.pod.namespace, pod=action.pod.name))
        self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_RAISED, text)

    def _put_back(self, action: Action, state: EnforcementState, why: str) -> None:
        self._resizer.put_back(action)
        why = action.reason or why
        state.history.waiting.pop(action.key, None)
        state.lines.pop(action.key, None)
        state.note(action, "reverted", why, self._now())
        state.on_outcome("reverted")
        if action.kind is ActionKind.REVERT:
            before, after = action.texts
            text = f"container {action.container.name}: limit put back from {before} to {after}"
            self._recorder.record(about(action.pod), EventKind.NORMAL, CPU_LIMIT_RESTORED, text)

    def _failed(self, action: Action, state: EnforcementState, error: ApiError) -> None:
        if is_gone(error):
            return
        if error.conflict or other_object(error):
            state.on_outcome("conflict")
            log.info("not resized, again later: %s", error, extra=fields(container=action.name))
            return
        self._not_done(action, state, error.message)
        log.warning("resize refused: %s", error, extra=fields(container=action.name))

    def _not_done(self, action: Action, state: EnforcementState, why: str) -> None:
        now = self._now()
        if action.kind is ActionKind.RAISE:
            state.history.tried[action.key] = now
            state.history.shown.setdefault(action.key, now)
        else:
            state.history.refused[action.key] = now
        state.refused, state.refused_at = f"{action.name}: {why}"[:900], now
        state.note(action, "refused", why, now)
        state.on_outcome("refused")

    # ---- what came of it

    def _follow(
        self, policy: AuditPolicy, state: EnforcementState, raised_limits: Sequence[RaisedLimit], until: float
    ) -> None:
        """Look at what the kubelets made of what was sent; what they find infeasible is put back in mode Enforce."""
        now = self._now()
        by_key = {raised.key: raised for raised in raised_limits}
        for key, sent_at in list(state.history.waiting.items()):
            raised = by_key.get(key)
            late = now - sent_at > OUTCOME_SECONDS
            if raised is None:  # the pod went, or its entry was deleted
                if late:
                    state.outcome(key, "timeout", "the pod is gone")
                continue
            resize = self._view.resize(key[0])
            if key[1] not in resize.differing and raised.ours and not resize.under_way:
                state.outcome(key, "done")
            elif resize.pending:
                state.so_far(key, resize.pending.lower(), resize.message)
            elif late:
                state.outcome(key, "timeout", "the kubelet has not said that it is in force")
        if policy.spec.mode is Mode.ENFORCE:
            for raised in raised_limits:
                in_time = self._clock() < until
                if in_time and self._infeasible(raised) and state.history.may_put_back(raised.key, now):
                    self._give_up(raised, policy, state)

    def _infeasible(self, raised: RaisedLimit) -> bool:
        """Whether the kubelet can never do it, by this process's order or by that of one before it."""
        resize = self._view.resize(raised.pod.uid)
        waits = raised.container.name in resize.differing
        return resize.pending == "Infeasible" and raised.ours and waits and not raised.pod.deleting

    def _give_up(self, raised: RaisedLimit, policy: AuditPolicy, state: EnforcementState) -> None:
        action = revert_action(raised)
        reason = above_bound(action, policy.spec.enforce.resize or ResizeSpec())
        if reason is not None:
            self._not_done(action, state, f"the node has no room for it, and it is not put back: {reason}")
            return
        try:
            self._put_back(action, state, "the node has no room for it")
        except ApiError as error:
            self._failed(action, state, error)

    def _status(
        self,
        policy: AuditPolicy,
        state: EnforcementState,
        raised_limits: Sequence[RaisedLimit],
        left: Sequence[SkippedFinding],
    ) -> Enforcement:
        now = self._now()
        recent = now - state.refused_at < COOL_DOWN_SECONDS and policy.spec.mode is not Mode.REPORT
        return Enforcement(
            raised=sum(raised.ours for raised in raised_limits),
            added_millis=sum(raised.added_millis for raised in raised_limits),
            bursts=len(state.history.bursts),
            planned=len(state.history.shown.keys() - state.history.tried.keys()),
            last_hour=raises_last_hour(raised_limits, now),
            actions=tuple(copy(action) for action in state.actions),
            left_alone=left,
            refused=state.refused if recent else None,
        )
