"""Releases nodes: writes what keeps unbound placeholders off a node, and takes it away again.

`slack.planner.release` decides; this module gathers what it asks, writes by one of two ways (`release_ways`), and
reports what stays. Without the right to write, or without NodeClaims, nothing breaks: drifted nodes then stay as long
as Karpenter holds them for unbound placeholders, and the policy's condition says so. Nor does it where somebody else
keeps undoing what was written: that node is left alone for a while (`slack.process.contests`).
"""

import logging
import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.hold import Hold
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.cluster.tables.marker_table import Marker
from slack.kube.errors import WRITE_FAILURES, ApiError
from slack.planner.domain.membership import divide
from slack.planner.model.result import PolicyPlan
from slack.planner.policy.spec import Policy
from slack.planner.release import Claim, Decision, HeldNode, Memory, ReleaseReason, Stays, decide, parse_mark
from slack.process.contests import Contests, Verdict
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.act.release_ways import SHOWN_SECONDS, MarkerPods, ReleaseWay
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import ClusterView, NodeMarks, Observation

log = logging.getLogger(__name__)

RELEASE_BLOCKED = "ReleaseBlocked"
DECIDE_SECONDS = 5.0
"""Between two decisions: each looks at every node, and a node that is due can wait for so long."""
WRITES_A_TURN = 10
FORBIDDEN_SECONDS = 600.0
"""A refused write is not tried again sooner."""
FORBIDDEN_NODES = 3
"""So many nodes refused in a row, and none is tried for a while. Fewer may have guards of their own."""
SOMEBODY = "somebody else"
"""Nobody reads who writes the labels of nodes, or deletes markers."""
_REFUSED = (403, 409, 422)
_BECAUSE = {
    ReleaseReason.EXPIRES: "its NodeClaim is about to expire",
    ReleaseReason.DRIFTED: "its NodeClaim has drifted",
    ReleaseReason.SPARE: "slack has shrunk, and nothing is on it",
}


_UNSEEN = (
    "NodeClaims may not be watched, so nodes that have drifted stay while unbound placeholders hold them: give the "
    "operator list and watch on nodeclaims.karpenter.sh"
)


@dataclass(frozen=True, slots=True)
class _Write:
    node: str
    value: str
    """Of the release: to be written, or to be taken away."""
    remove: bool = False

    @property
    def result(self) -> str:
        """The value afterwards, '' for none."""
        return "" if self.remove else self.value


class Releasing:
    """Owned by the loop's thread: `look` decides after each plan, `write_due` writes between plans (see `app`)."""

    def __init__(
        self,
        view: ClusterView,
        claims: Callable[[], Mapping[str, Claim] | None],
        way: ReleaseWay | None,
        markers: MarkerPods,
        *,
        blind: Callable[[], bool],
        may_write: Callable[[], bool],
    ) -> None:
        """Nothing was seen yet.

        Args:
            view: of the cluster.
            claims: NodeClaims by node; None where they are not known.
            way: how nodes are released; None where they are not. It should not try again for long by itself: the loop
                waits meanwhile.
            markers: by which markers go that are left over.
            blind: whether NodeClaims may not be watched.
            may_write: whether this process leads.
        """
        self._view = view
        self._claims = claims
        self._way = way
        self._markers = markers
        self._blind = blind
        self._may_write = may_write
        self._decide_at = -math.inf
        self._memory = Memory()
        self._due: list[_Write] = []
        self._written: dict[str, tuple[float, str]] = {}
        """By node: when, and which value was written; '' where it was taken away."""
        self._last: dict[str, str] = {}
        """By node that is there: the value that this process wrote last, '' where it took it away."""
        self._contests = Contests[str]()
        """By node."""
        self._contested: Mapping[str, str] = {}
        """By policy: in words, which node is left to somebody else."""
        self._forbidden: tuple[float, str] | None = None
        """Until when nothing is written, and what the API server said."""
        self._refusals: dict[str, tuple[float, str]] = {}
        """By node: until when it is left out, and what was refused, in words; '' where nothing waits for it."""
        self._refused_in_a_row = 0
        self._guarded: Mapping[str, str] = {}
        """By policy: in words, what was refused for one of its nodes."""
        self._stays: dict[str, tuple[float, Stays]] = {}
        """By policy: until when it is said, and which node has not gone."""
        self._waiting: dict[str, str] = {}
        """By policy: in words, what would be released."""
        self._left_over: tuple[Marker, ...] = ()
        """Marker pods that stand for nothing."""
        self._kept_labels: Mapping[str, str] = {}
        """By policy: in words, which label of an earlier setting keeps placeholders off a node."""
        self._policies: Mapping[str, Policy] = {}
        """By node."""
        self._unseen: set[str] = set()
        """Policies with nodes of Karpenter's, whose NodeClaims may not be watched."""
        self._outages = Outages(view.clock)

    def look(
        self, observation: Observation, planned_policies: Sequence[PlannedPolicy], _: Sequence[PolicyPlan]
    ) -> None:
        """Decide which nodes are released and which get their placeholders back."""
        if self._view.clock() < self._decide_at:
            return
        self._decide_at = self._view.clock() + DECIDE_SECONDS
        marks = self._marks()
        self._see_left_over(marks)
        unbound = any(planned.policy.form.hold is Hold.UNBOUND for planned in planned_policies)
        if not unbound and not any(mark.release and parse_mark(mark.release) for mark in marks.values()):
            self._due, self._waiting, self._unseen, self._memory = [], {}, set(), Memory()
            self._contested, self._guarded, self._kept_labels = {}, {}, {}
            return
        snapshot, now = observation.snapshot, self._view.wall()
        self._policies = {
            name: policy
            for name, policy in _policies(snapshot, planned_policies).items()
            if policy.yields_to_markers or self._way is not self._markers
        }
        policy_of = {name: policy.name for name, policy in self._policies.items()}
        nodes, pending = held_nodes(snapshot, marks, policy_of)
        left_alone = {*self._left_alone(policy_of), *self._refused_nodes(policy_of)}
        decision = decide(
            [node for node in nodes if node.name not in left_alone],
            self._claims(),
            self._memory,
            placeholders=sum(pod.unbound for pod in snapshot.placeholders),
            pending=pending,
            now=now,
            start_seconds=snapshot.node_start_seconds,
        )
        self._unseen = {policy_of[node.name] for node in nodes if node.pool} if self._blind() else set()
        self._take(decision, policy_of, {name: mark for name, mark in marks.items() if name not in left_alone})

    def _see_left_over(self, marks: Mapping[str, NodeMarks]) -> None:
        """Find marker pods that stand for nothing, and keep the nodes alone whose markers have failed."""
        uses_markers = self._way is self._markers
        self._left_over = tuple(
            marker
            for marker in self._view.markers()
            if not marker.leaving
            and not (uses_markers and marker.releases and marker.node in marks and parse_mark(marker.value))
        )
        for marker in self._left_over:
            mark = parse_mark(marker.value)
            if marker.failure and mark is not None and marker.node in marks and uses_markers:
                text = f"{_held(marker.node, mark.why)}its marker pod has failed: {marker.failure}"
                self._refusals[marker.node] = self._view.clock() + FORBIDDEN_SECONDS, text

    def _left_alone(self, policy_of: Mapping[str, str]) -> Collection[str]:
        """Return the nodes that somebody else keeps from being released, or released."""
        standing = {contest.subject: contest for contest in self._contests.standing(self._view.clock())}
        self._contested = {
            policy_of[name]: f"node {name}: {contest.writer} {self._way.contest} each time, so it is left alone for "
            f"{round(contest.pause_seconds / 60)} min at a time"
            for name, contest in standing.items()
            if name in policy_of and self._way is not None
        }
        return standing

    def _refused_nodes(self, policy_of: Mapping[str, str]) -> Collection[str]:
        """Return the nodes for which a write was refused lately: they hold up no others."""
        now = self._view.clock()
        self._refusals = {name: found for name, found in self._refusals.items() if now < found[0]}
        self._guarded = {
            policy_of[name]: text for name, (_, text) in self._refusals.items() if text and name in policy_of
        }
        return self._refusals

    def write_due(self) -> None:
        """Write what the last decision says, some of it."""
        self._clear_left_over()
        if not self._due or not self._may_write() or self._is_forbidden():
            return
        some, self._due = self._due[:WRITES_A_TURN], self._due[WRITES_A_TURN:]
        for write in some:
            if not self._may_write() or self._is_forbidden():
                return
            self._write(write)

    def _clear_left_over(self) -> None:
        some, self._left_over = self._left_over[:WRITES_A_TURN], self._left_over[WRITES_A_TURN:]
        for marker in some:
            if not self._may_write():
                return
            try:
                self._markers.delete(marker)
            except WRITE_FAILURES as error:
                if self._outages.is_new("marker"):
                    log.warning("marker pod %s is not deleted: %s", marker.name, error, extra=fields(node=marker.node))

    def condition(self, policy: str) -> StatusCondition | None:
        """Return ReleaseBlocked for a policy while one of its nodes cannot go."""
        if policy in self._unseen:
            return StatusCondition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", _UNSEEN)
        if policy in self._contested:
            return StatusCondition(RELEASE_BLOCKED, True, "WrittenBack", self._contested[policy])
        if policy in self._guarded:
            return StatusCondition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", self._guarded[policy])
        if policy in self._kept_labels:
            return StatusCondition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", self._kept_labels[policy])
        if policy in self._waiting and (refused := self._refused()):
            return StatusCondition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", self._waiting[policy] + refused)
        until, stays = self._stays.get(policy, (0.0, None))
        if stays is None or until <= self._view.clock():
            self._stays.pop(policy, None)
            return None
        return StatusCondition(
            RELEASE_BLOCKED,
            True,
            "NodeStays",
            f"node {stays.node}: {_BECAUSE[stays.why]}; it was released, and is still in use. A limit of its NodePool, "
            "the least size of its node group, or a pod that must not be disrupted may keep it",
        )

    def keep_only(self, policies: Container[str]) -> None:
        """Forget policies that are no more."""
        self._stays = {name: told for name, told in self._stays.items() if name in policies}
        self._waiting = {name: told for name, told in self._waiting.items() if name in policies}
        self._contested = {name: told for name, told in self._contested.items() if name in policies}
        self._guarded = {name: told for name, told in self._guarded.items() if name in policies}
        self._kept_labels = {name: told for name, told in self._kept_labels.items() if name in policies}

    def _marks(self) -> Mapping[str, NodeMarks]:
        """Return what nodes say, with what was written and the watch does not show yet."""
        marks, now = self._view.node_marks(), self._view.clock()
        self._last = {node: value for node, value in self._last.items() if node in marks}
        self._written = {
            node: (at, value)
            for node, (at, value) in self._written.items()
            if now - at < SHOWN_SECONDS and node in marks and marks[node].release != value
        }
        if not self._written:
            return marks
        return {**marks, **{node: marks[node]._replace(release=value) for node, (_, value) in self._written.items()}}

    def _take(self, decision: Decision, policy_of: Mapping[str, str], marks: Mapping[str, NodeMarks]) -> None:
        takes_back = set(decision.take_back)
        # Where no unbound placeholder may go, a release says nothing.
        takes_back |= {
            name
            for name, mark in marks.items()
            if mark.release and name not in policy_of and parse_mark(mark.release) is not None
        }
        self._kept_labels = {}
        if self._way is None or not self._way.labels:
            for name in sorted(name for name in takes_back if marks[name].labelled):
                takes_back.discard(name)
                self._keep_label(name, policy_of.get(name))
        self._due = [
            *(_Write(name, marks[name].release, remove=True) for name in sorted(takes_back)),
            *(_Write(name, str(mark)) for name, mark in decision.release),
        ]
        self._waiting = {
            policy_of[name]: _held(name, mark.why)
            for name, mark in decision.release
            if mark.why is not ReleaseReason.SPARE
        }
        for stays in decision.stays:
            policy = policy_of[stays.node]
            seconds = stays.retry_at - self._view.wall()
            self._stays[policy] = (self._view.clock() + seconds, stays)
            log.warning(
                "node %s was released and is still in use; its pool is left alone for %.0f min",
                stays.node,
                seconds / 60,
                extra=fields(policy=policy, node=stays.node, why=str(stays.why)),
            )
        if not self._refused():
            self._memory = decision.memory

    def _keep_label(self, node: str, policy: str | None) -> None:
        """Say that a node keeps the label of an earlier setting, which may not be removed any more."""
        by_hand = f"kubectl label node {node} {LABEL_RELEASE}-"
        text = f"node {node} keeps the label of an earlier setting, which only somebody else may remove now: {by_hand}"
        if policy is not None:
            self._kept_labels = {**self._kept_labels, policy: text}
        if self._outages.is_new("kept label"):
            log.warning("%s", text, extra=fields(node=node))

    def _refused(self) -> str:
        """Say why nothing is written; '' while it may be."""
        if self._way is None:
            return "operator.releaseNodes is Off"
        return self._forbidden[1] if self._forbidden is not None else ""

    def _is_forbidden(self) -> bool:
        if self._way is None:
            return True
        return self._forbidden is not None and self._view.clock() < self._forbidden[0]

    def _write(self, write: _Write) -> None:
        if self._way is None or self._is_left_alone(write, self._way):
            return
        try:
            if write.remove:
                written = self._way.take_back(write.node, write.value)
            else:
                written = self._way.release(write.node, write.value, self._policies.get(write.node))
        except WRITE_FAILURES as error:
            self._failed(write, error)
            return
        if not written:
            return
        self._forbidden, self._refused_in_a_row = None, 0
        self._last[write.node] = write.result
        self._written[write.node] = (self._view.clock(), write.result)
        mark = parse_mark(write.value)
        why = _BECAUSE[mark.why] if mark is not None else ""
        text = "node %s is no longer released (%s)" if write.remove else "node %s is released: %s"
        log.info(text, write.node, why, extra=fields(node=write.node))

    def _is_left_alone(self, write: _Write, way: ReleaseWay) -> bool:
        """Whether the node is left to somebody else; a write that repeats this process's last one is counted."""
        last = self._last.get(write.node)
        if last is None or bool(last) != bool(write.result):
            return False
        verdict = self._contests.written(write.node, LABEL_RELEASE, SOMEBODY, self._view.clock())
        if verdict is not Verdict.TAKE:
            what = "the node is left alone" if verdict is Verdict.LEAVE else "it is written again"
            text = "node %s: %s %s, and %s"
            log.warning(text, write.node, SOMEBODY, way.contest, what, extra=fields(node=write.node))
        return verdict is Verdict.LEAVE

    def _failed(self, write: _Write, error: Exception) -> None:
        if isinstance(error, ApiError) and error.status in _REFUSED:
            until, mark = self._view.clock() + FORBIDDEN_SECONDS, parse_mark(write.value)
            waits = not write.remove and mark is not None and mark.why is not ReleaseReason.SPARE
            text = _held(write.node, mark.why) + error.message if mark is not None and waits else ""
            self._refusals[write.node] = until, text
            self._refused_in_a_row += 1
            if self._refused_in_a_row >= FORBIDDEN_NODES:
                self._forbidden = until, error.message
        if self._outages.is_new("release"):
            text = "node %s stays released: %s" if write.remove else "node %s is not released: %s"
            log.warning(text, write.node, error, extra=fields(node=write.node))


def _held(node: str, why: ReleaseReason) -> str:
    return f"node {node}: {_BECAUSE[why]}, and unbound placeholders hold it; "


def _policies(snapshot: Snapshot, planned_policies: Sequence[PlannedPolicy]) -> dict[str, Policy]:
    """Return the policy of each node on which unbound placeholders may be."""
    names = snapshot.nodes.names
    return {
        names[row]: domain.policy
        for domain in divide(snapshot, [planned.policy for planned in planned_policies])
        if domain.policy.form.hold is Hold.UNBOUND and domain.conflict is None
        for row in np.flatnonzero(domain.members).tolist()
    }


def held_nodes(
    snapshot: Snapshot, marks: Mapping[str, NodeMarks], policy_of: Container[str]
) -> tuple[list[HeldNode], int]:
    """Return the nodes that can be released, and how many unbound placeholders fit nowhere."""
    nodes = snapshot.nodes
    held = np.zeros(len(nodes.names), dtype=np.int64)
    unbound = [pod for pod in snapshot.placeholders if pod.unbound]
    np.add.at(held, [pod.node for pod in unbound if pod.node >= 0], 1)
    others = nodes.pod_count - nodes.daemon_count - held
    usable = nodes.ready & nodes.schedulable
    can_hold = (held > 0) | _fits_least(snapshot, {pod.requests or () for pod in unbound})
    columns = (usable.tolist(), held.tolist(), others.tolist(), can_hold.tolist())
    found = [
        HeldNode(name, mark.pool, mark.created, takes_pods, mark.release, placeholders, pods, holds, mark.kind)
        for name, takes_pods, placeholders, pods, holds in zip(nodes.names, *columns, strict=True)
        if name in policy_of and (mark := marks.get(name)) is not None
    ]
    return found, sum(pod.node < 0 for pod in unbound)


def _fits_least(snapshot: Snapshot, requests: set[tuple[tuple[str, int], ...]]) -> BoolArray:
    """[N] whether the least of each resource that some placeholder requests is free."""
    if not requests:
        return np.zeros(len(snapshot.nodes.names), dtype=np.bool_)
    vectors: IntArray = np.array(
        [[dict(each).get(name, 0) for name in snapshot.resources] for each in requests], dtype=np.int64
    )
    fits: BoolArray = (snapshot.nodes.free >= vectors.min(axis=0)).all(axis=1)
    return fits
