"""Releases nodes: writes the label that keeps unbound placeholders off a node, and takes it away again.

`slack.planner.release` decides; this module gathers what it asks, writes, and reports what stays. Without the right to
patch nodes, or without NodeClaims, nothing breaks: drifted nodes then stay as long as Karpenter holds them for unbound
placeholders, and the policy's condition says so. Nor does it where somebody else keeps writing the label: that node is
left alone for a while (`slack.process.contests`).
"""

import logging
import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.hold import Hold
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.kube.apply import Writer
from slack.kube.errors import WRITE_FAILURES, ApiError
from slack.kube.paths import resource_path
from slack.planner.domain.membership import divide
from slack.planner.model.result import PolicyPlan
from slack.planner.release import Claim, Decision, HeldNode, Memory, Stays, Why, decide, parse_mark
from slack.process.contests import Contests, Verdict
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.schema.conditions import Condition
from slack_operator.placeholders.cluster_view import ClusterView, NodeMarks, Observation
from slack_operator.placeholders.subjects import Subject

log = logging.getLogger(__name__)

RELEASE_BLOCKED = "ReleaseBlocked"
DECIDE_SECONDS = 5.0
"""Between two decisions: each looks at every node, and a node that is due can wait for so long."""
WRITES_A_TURN = 10
SHOWN_SECONDS = 10.0
"""Within this time the watch shows a label of ours; until then what was written counts."""
FORBIDDEN_SECONDS = 600.0
"""A refused write is not tried again sooner."""
FORBIDDEN_NODES = 3
"""So many nodes refused in a row, and none is tried for a while. Fewer may have guards of their own."""
SOMEBODY = "somebody else"
"""Nobody reads who writes the labels of nodes."""
_LABEL_POINTER = "/metadata/labels/" + LABEL_RELEASE.replace("/", "~1")
_BECAUSE = {
    Why.EXPIRES: "its NodeClaim is about to expire",
    Why.DRIFTED: "its NodeClaim has drifted",
    Why.SPARE: "slack has shrunk, and nothing is on it",
}


_UNSEEN = (
    "NodeClaims may not be watched, so nodes that have drifted stay while unbound placeholders hold them: give the "
    "operator list and watch on nodeclaims.karpenter.sh"
)


@dataclass(frozen=True, slots=True)
class _Write:
    node: str
    value: str
    """Of the label: to be written, or to be taken away."""
    remove: bool = False

    @property
    def result(self) -> str:
        """The label's value afterwards, '' for none."""
        return "" if self.remove else self.value


class Releasing:
    """Owned by the loop's thread: `look` decides after each plan, `turn` writes."""

    def __init__(
        self,
        view: ClusterView,
        claims: Callable[[], Mapping[str, Claim] | None],
        writer: Writer,
        *,
        blind: Callable[[], bool],
        enabled: bool,
        may_write: Callable[[], bool],
    ) -> None:
        """Nothing was seen yet.

        Args:
            view: of the cluster.
            claims: NodeClaims by node; None where they are not known.
            writer: should not try again for long by itself: the loop waits meanwhile.
            blind: whether NodeClaims may not be watched.
            enabled: whether the label may be written at all.
            may_write: whether this process leads.
        """
        self._view = view
        self._claims = claims
        self._writer = writer
        self._blind = blind
        self._enabled = enabled
        self._may_write = may_write
        self._decide_at = -math.inf
        self._memory = Memory()
        self._due: list[_Write] = []
        self._written: dict[str, tuple[float, str]] = {}
        """By node: when, and which value the label has got; '' where it was taken away."""
        self._last: dict[str, str] = {}
        """By node that is there: the label's value as this process wrote it last, '' where it took the label away."""
        self._contests = Contests[str]()
        """By node."""
        self._contested: Mapping[str, str] = {}
        """By policy: in words, which label is left to somebody else."""
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
        self._unseen: set[str] = set()
        """Policies with nodes of Karpenter's, whose NodeClaims may not be watched."""
        self._outages = Outages(view.clock)

    def look(self, observation: Observation, subjects: Sequence[Subject], _: Sequence[PolicyPlan]) -> None:
        """Decide which nodes are released and which get their placeholders back."""
        if self._view.clock() < self._decide_at:
            return
        self._decide_at = self._view.clock() + DECIDE_SECONDS
        marks = self._marks()
        unbound = any(subject.policy.form.hold is Hold.UNBOUND for subject in subjects)
        if not unbound and not any(mark.release and parse_mark(mark.release) for mark in marks.values()):
            self._due, self._waiting, self._unseen, self._memory = [], {}, set(), Memory()
            self._contested, self._guarded = {}, {}
            return
        snapshot, now = observation.snapshot, self._view.wall()
        policy_of = _policies(snapshot, subjects)
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

    def _left_alone(self, policy_of: Mapping[str, str]) -> Collection[str]:
        """Return the nodes whose label somebody else keeps writing."""
        standing = {contest.subject: contest for contest in self._contests.standing(self._view.clock())}
        self._contested = {
            policy_of[name]: f"node {name}: {contest.writer} writes its label {LABEL_RELEASE} back each time, so it is "
            f"left alone for {round(contest.pause_seconds / 60)} min at a time"
            for name, contest in standing.items()
            if name in policy_of
        }
        return standing

    def _refused_nodes(self, policy_of: Mapping[str, str]) -> Collection[str]:
        """Return the nodes for which the API server has refused a label lately: they hold up no others."""
        now = self._view.clock()
        self._refusals = {name: found for name, found in self._refusals.items() if now < found[0]}
        self._guarded = {
            policy_of[name]: text for name, (_, text) in self._refusals.items() if text and name in policy_of
        }
        return self._refusals

    def turn(self) -> None:
        """Write what the last decision says, some of it."""
        if not self._due or not self._may_write() or self._is_forbidden():
            return
        some, self._due = self._due[:WRITES_A_TURN], self._due[WRITES_A_TURN:]
        for write in some:
            if not self._may_write() or self._is_forbidden():
                return
            self._write(write)

    def condition(self, policy: str) -> Condition | None:
        """Return ReleaseBlocked for a policy while a node of its cannot go."""
        if policy in self._unseen:
            return Condition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", _UNSEEN)
        if policy in self._contested:
            return Condition(RELEASE_BLOCKED, True, "WrittenBack", self._contested[policy])
        if policy in self._guarded:
            return Condition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", self._guarded[policy])
        if policy in self._waiting and (refused := self._refused()):
            return Condition(RELEASE_BLOCKED, True, "ReleaseNotPermitted", self._waiting[policy] + refused)
        until, stays = self._stays.get(policy, (0.0, None))
        if stays is None or until <= self._view.clock():
            self._stays.pop(policy, None)
            return None
        return Condition(
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

    def _marks(self) -> Mapping[str, NodeMarks]:
        """Return what nodes say, with the labels that the watch does not show yet."""
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
        # Where no unbound placeholder may go, our label says nothing.
        takes_back |= {
            name
            for name, mark in marks.items()
            if mark.release and name not in policy_of and parse_mark(mark.release) is not None
        }
        self._due = [
            *(_Write(name, marks[name].release, remove=True) for name in sorted(takes_back)),
            *(_Write(name, str(mark)) for name, mark in decision.release),
        ]
        self._waiting = {
            policy_of[name]: _held(name, mark.why) for name, mark in decision.release if mark.why is not Why.SPARE
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

    def _refused(self) -> str:
        """Say why no label is written; '' while it may be."""
        if not self._enabled:
            return "operator.releaseNodes is off"
        return self._forbidden[1] if self._forbidden is not None else ""

    def _is_forbidden(self) -> bool:
        if not self._enabled:
            return True
        return self._forbidden is not None and self._view.clock() < self._forbidden[0]

    def _write(self, write: _Write) -> None:
        if self._is_left_alone(write):
            return
        path = resource_path("v1", "nodes", name=write.node)
        try:
            if write.remove:
                test = {"op": "test", "path": _LABEL_POINTER, "value": write.value}
                self._writer.json_patch(path, [test, {"op": "remove", "path": _LABEL_POINTER}])
            else:
                self._writer.merge_patch(path, {"metadata": {"labels": {LABEL_RELEASE: write.value}}})
        except WRITE_FAILURES as error:
            self._failed(write, error)
            return
        self._forbidden, self._refused_in_a_row = None, 0
        self._last[write.node] = write.result
        self._written[write.node] = (self._view.clock(), write.result)
        mark = parse_mark(write.value)
        why = _BECAUSE[mark.why] if mark is not None else ""
        text = "node %s is no longer released (%s)" if write.remove else "node %s is released: %s"
        log.info(text, write.node, why, extra=fields(node=write.node))

    def _is_left_alone(self, write: _Write) -> bool:
        """Whether the label is left to somebody else; a write that repeats this process's last one is counted."""
        last = self._last.get(write.node)
        if last is None or bool(last) != bool(write.result):
            return False
        verdict = self._contests.written(write.node, LABEL_RELEASE, SOMEBODY, self._view.clock())
        if verdict is not Verdict.TAKE:
            what = "is left alone" if verdict is Verdict.LEAVE else "is written again"
            log.warning(
                "the label %s of node %s was changed by %s, and %s",
                LABEL_RELEASE,
                write.node,
                SOMEBODY,
                what,
                extra=fields(node=write.node),
            )
        return verdict is Verdict.LEAVE

    def _failed(self, write: _Write, error: Exception) -> None:
        if isinstance(error, ApiError) and (error.not_found or error.status == 422):
            return  # the node has gone, or somebody else has changed the label
        if isinstance(error, ApiError) and error.status == 403:
            until, mark = self._view.clock() + FORBIDDEN_SECONDS, parse_mark(write.value)
            waits = not write.remove and mark is not None and mark.why is not Why.SPARE
            text = _held(write.node, mark.why) + error.message if mark is not None and waits else ""
            self._refusals[write.node] = until, text
            self._refused_in_a_row += 1
            if self._refused_in_a_row >= FORBIDDEN_NODES:
                self._forbidden = until, error.message
        if self._outages.is_new("label"):
            log.warning("node %s is not labelled: %s", write.node, error, extra=fields(node=write.node))


def _held(node: str, why: Why) -> str:
    return f"node {node}: {_BECAUSE[why]}, and unbound placeholders hold it; "


def _policies(snapshot: Snapshot, subjects: Sequence[Subject]) -> dict[str, str]:
    """Return the policy of each node on which unbound placeholders may be."""
    names = snapshot.nodes.names
    return {
        names[row]: domain.policy.name
        for domain in divide(snapshot, [subject.policy for subject in subjects])
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
