"""Writes the soft taint of nodes that hold unbound placeholders, and takes it away where it has no use any more.

`slack.planner.soft_taint` decides; this module writes, and says what is refused. A node's taints are one list, which
others write too: a write names the version of the node that it was made from, and keeps the taints of others. Where
the setting is off, taints that an earlier process has left are taken away.
"""

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from slack.cluster.labels import SOFT_TAINT
from slack.kube.apply import Json, Writer
from slack.kube.errors import WRITE_FAILURES, ApiError
from slack.kube.paths import resource_path
from slack.planner.model.result import PolicyPlan
from slack.planner.policy.spec import Policy
from slack.planner.soft_taint import decide, holding_nodes
from slack.process.contests import Contests, Verdict
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.conditions import SOFT_TAINT_BLOCKED
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import ClusterView, NodeMarks, Observation

log = logging.getLogger(__name__)

DECIDE_SECONDS = 5.0
"""Between two decisions: each looks at every node, and a node that is due can wait for so long."""
WRITES_A_TURN = 10
SHOWN_SECONDS = 10.0
"""Within this time the watch shows what was written; until then what was written counts."""
FORBIDDEN_SECONDS = 600.0
"""After a refused write none is tried again sooner."""
SOMEBODY = "somebody else"
"""Nobody reads who writes the taints of nodes."""
TAINT: Json = {"key": SOFT_TAINT, "effect": "PreferNoSchedule"}
_BY_HAND = f"kubectl taint nodes NODE {SOFT_TAINT}-"
_REFUSED = (403, 422)


@dataclass(frozen=True, slots=True)
class _Write:
    node: str
    tainted: bool
    """Whether the node is to have the taint."""


class SoftTainting:
    """Owned by the loop's thread: `look` decides after each plan, `write_due` writes between plans (see `app`)."""

    def __init__(self, view: ClusterView, writer: Writer, *, enabled: bool, may_write: Callable[[], bool]) -> None:
        """Nothing was seen yet.

        Args:
            view: of the cluster.
            writer: of nodes. It should not try again for long by itself: the loop waits meanwhile.
            enabled: whether nodes get the taint.
            may_write: whether this process leads.
        """
        self._view = view
        self._writer = writer
        self._enabled = enabled
        self._may_write = may_write
        self._decide_at = -math.inf
        self._unneeded_since: Mapping[str, float] = {}
        self._due: list[_Write] = []
        self._written: dict[str, tuple[float, bool]] = {}
        """By node: when, and whether it then had the taint."""
        self._last: dict[str, bool] = {}
        """By node that is there: what this process wrote last."""
        self._contests = Contests[str]()
        """By node."""
        self._forbidden: tuple[float, str] | None = None
        """Until when nothing is written, and what the API server said."""
        self._outages = Outages(view.clock)

    def look(self, observation: Observation, _: Sequence[PlannedPolicy], __: Sequence[PolicyPlan]) -> None:
        """Decide which nodes get the taint and which lose it."""
        now = self._view.clock()
        if now < self._decide_at:
            return
        self._decide_at = now + DECIDE_SECONDS
        marks = self._view.node_marks()
        tainted, wanted = self._nodes_with_taint(marks), frozenset[str]()
        if self._enabled:
            left_alone = {contest.subject for contest in self._contests.standing(now)}
            released = {name for name, mark in marks.items() if mark.release}
            wanted = holding_nodes(observation.snapshot, tainted, {*released, *left_alone})
        decision = decide(wanted, tainted, self._unneeded_since, now)
        self._unneeded_since = decision.unneeded_since
        add: Collection[str] = decision.add
        if add and not self._all_tolerate():
            add = ()  # Karpenter would bring nodes for those that do not, as long as they are there
        self._due = [*(_Write(name, False) for name in decision.remove), *(_Write(name, True) for name in add)]

    def write_due(self) -> None:
        """Write what the last decision says, some of it."""
        some, self._due = self._due[:WRITES_A_TURN], self._due[WRITES_A_TURN:]
        for write in some:
            if not self._may_write() or self._is_forbidden():
                return
            self._write(write)

    def condition(self, policy: Policy) -> StatusCondition | None:
        """Return SoftTaintBlocked for a policy with unbound placeholders while taints cannot be written."""
        if policy.form.occupies_nodes:
            return None
        if self._forbidden is not None and (self._enabled or self._due):
            text = self._forbidden[1]
            if not self._enabled:
                text = f"nodes keep the taint of an earlier setting: {_BY_HAND}; {text}"
            return StatusCondition(SOFT_TAINT_BLOCKED, True, "TaintNotPermitted", text)
        standing = sorted(contest.subject for contest in self._contests.standing(self._view.clock()))
        if standing:
            text = f"node {standing[0]}: {SOMEBODY} changes its taint {SOFT_TAINT} each time, so it is left alone"
            return StatusCondition(SOFT_TAINT_BLOCKED, True, "WrittenBack", text)
        return None

    def _nodes_with_taint(self, marks: Mapping[str, NodeMarks]) -> set[str]:
        """Return the nodes with the taint, with what was written and the watch does not show yet."""
        now = self._view.clock()
        self._last = {node: value for node, value in self._last.items() if node in marks}
        self._written = {
            node: (at, value)
            for node, (at, value) in self._written.items()
            if now - at < SHOWN_SECONDS and node in marks and marks[node].tainted != value
        }
        shown = {node for node, mark in marks.items() if mark.tainted}
        return (shown | {node for node, (_, value) in self._written.items() if value}) - {
            node for node, (_, value) in self._written.items() if not value
        }

    def _all_tolerate(self) -> bool:
        facts, _ = self._view.placeholder_facts()
        return all(pod.tolerates_soft_taint for pod in facts if pod.constraints is not None and not pod.terminating)

    def _is_forbidden(self) -> bool:
        return self._forbidden is not None and self._view.clock() < self._forbidden[0]

    def _write(self, write: _Write) -> None:
        if self._is_left_alone(write):
            return
        path = resource_path("v1", "nodes", name=write.node)
        try:
            node = self._writer.get(path)
            patch = patch_of(node, tainted=write.tainted)
            if patch is not None:
                self._writer.merge_patch(path, patch)
        except WRITE_FAILURES as error:
            self._note_failure(write, error)
            return
        self._forbidden = None
        self._last[write.node] = write.tainted
        self._written[write.node] = (self._view.clock(), write.tainted)
        text = "node %s has the taint %s" if write.tainted else "node %s has the taint %s no longer"
        log.info(text, write.node, SOFT_TAINT, extra=fields(node=write.node))

    def _is_left_alone(self, write: _Write) -> bool:
        """Whether the node is left to somebody else; a write that repeats this process's last one is counted."""
        if self._last.get(write.node) is not write.tainted:
            return False
        verdict = self._contests.written(write.node, SOFT_TAINT, SOMEBODY, self._view.clock())
        if verdict is Verdict.LEAVE:
            text = "node %s: %s changes its taint %s each time, and the node is left alone"
            log.warning(text, write.node, SOMEBODY, SOFT_TAINT, extra=fields(node=write.node))
        return verdict is Verdict.LEAVE

    def _note_failure(self, write: _Write, error: Exception) -> None:
        if isinstance(error, ApiError):
            if error.not_found or error.status == 409:  # it has gone, or somebody has written it meanwhile
                return
            if error.status in _REFUSED:
                self._forbidden = self._view.clock() + FORBIDDEN_SECONDS, error.message
                self._due = [write, *self._due]
        if self._outages.is_new("taint"):
            text = "node %s gets no taint: %s" if write.tainted else "node %s keeps its taint: %s"
            log.warning(text, write.node, error, extra=fields(node=write.node))


def patch_of(node: Json, *, tainted: bool) -> Json | None:
    """Return the patch by which a node has the taint or not, and all others as they are; None if nothing changes."""
    before = node.get("spec", {}).get("taints") or []
    others = [taint for taint in before if taint.get("key") != SOFT_TAINT]
    after = [*others, TAINT] if tainted else others
    if after == before or (tainted and TAINT in before):
        return None
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": after or None}}
