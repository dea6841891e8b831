"""Tells autoscalers of unbound placeholders: writes the condition that a scheduler would write.

An unbound placeholder has a schedulerName that no scheduler has. Cluster Autoscaler and Karpenter count a pod as demand
once its condition PodScheduled is False with reason Unschedulable, whoever wrote that (cluster-autoscaler
utils/kubernetes/listers.go; karpenter pkg/utils/pod/scheduling.go). So one status patch a pod is all that it takes, and
nothing is written when real pods take the capacity or give it back.

No more pods of a ReplicaSet are told of than the last plan wants: what somebody adds beyond the plan brings no node.
A condition that somebody removes is written again, a few times. Then such pods of its ReplicaSet are left alone for a
while, longer each time (`slack.process.contests`).
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.health.reasons import PENDING_ON_PURPOSE
from slack.kube.apply import STRATEGIC_MERGE
from slack.kube.errors import ApiError, KubeError
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.kube.paths import resource_path
from slack.kube.pipelining import OnAnswer, ShouldSend, WriteRequest
from slack.planner.forms.unbound import CONDITIONS_PER_SECOND
from slack.planner.model.result import PolicyPlan
from slack.planner.objects.manifests import replica_set_name
from slack.process.contests import Contests, Verdict
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import ClusterView, Observation

log = logging.getLogger(__name__)

CONNECTIONS = 4
"""Four write 200 conditions a second (measured beside a busy API server); more would take its capacity from bursts."""
AT_ONCE = 100
"""Pods a turn."""
GATHER_SECONDS = 0.02
"""What comes so shortly after the first pod is written with it."""
REPEAT_SECONDS = 5.0
"""The watch shows a write of ours within this time; until then a pod is not written again."""
CONDITION = "PodScheduled"
LIMIT_SECONDS = 120.0
"""Without a turn that ended the thread counts as stuck."""
MESSAGE = "kept pending on purpose: the capacity for this pod is held free for real pods"
EXPLANATION = (
    "pods of this ReplicaSet stay Pending on purpose and never run; for them the autoscaler keeps capacity free, and "
    "real pods start there. This is not an error: see kubectl get slackpolicies"
)
"""`kubectl describe pod` has an annotation that says the same; one Event for each pod would cost a write each."""


class Sender(Protocol):
    """Sends several writes at once, see `PipelinedClient`."""

    def send(self, asks: Sequence[WriteRequest], goes_on: ShouldSend, on_answer: OnAnswer) -> None:
        """Send all, and return when all are answered."""

    def close(self) -> None:
        """Let go of what is kept."""


@dataclass(frozen=True, slots=True)
class WantedPods:
    """How many pods of a ReplicaSet may be told of."""

    replicas: int
    """What should be there now."""
    count: int
    """What the plan heads for."""
    twins: tuple[str, ...]
    """The ReplicaSets of the same shape in other forms: bound, and released by other means."""


def untold(facts: Sequence[PlaceholderFacts], wanted: Mapping[str, WantedPods]) -> list[PlaceholderFacts]:
    """Return the unbound placeholders that are to be told of, the oldest first.

    While they replace others of the same shape, bound or told of, no more are told of than others have left: else
    autoscalers would bring nodes for both.

    Args:
        facts: of placeholders.
        wanted: by ReplicaSet.
    """
    holding = Counter(pod.replica_set for pod in facts if (pod.node >= 0 or pod.unschedulable) and not pod.terminating)
    of_set: dict[str, list[PlaceholderFacts]] = {}
    told: dict[str, int] = {}
    for pod in facts:
        if pod.constraints is None or pod.terminating:
            continue
        if pod.unschedulable:
            told[pod.replica_set] = told.get(pod.replica_set, 0) + 1
        else:
            of_set.setdefault(pod.replica_set, []).append(pod)
    found: list[PlaceholderFacts] = []
    for name, pods in sorted(of_set.items()):
        most = wanted.get(name)
        allowed = 0
        if most is not None:
            of_twins = sum(holding[twin] for twin in most.twins)
            allowed = min(most.replicas, max(most.count, most.replicas) - of_twins)
        left = allowed - told.get(name, 0)
        found += sorted(pods, key=lambda pod: (pod.created_seconds, pod.name))[: max(left, 0)]
    return found


class UnboundTelling:
    """The thread that writes the condition. `start` and `stop` belong to the main thread, `look` to the loop's."""

    def __init__(
        self,
        view: ClusterView,
        sender: Sender,
        recorder: EventRecorder,
        *,
        may_write: Callable[[], bool],
        wall: Callable[[], float],
    ) -> None:
        """A thread that is not started yet.

        Args:
            view: of the cluster; it wakes the thread from here on.
            sender: does not try again what was refused.
            recorder: of the Event that explains the pods of a ReplicaSet.
            may_write: whether this process leads.
            wall: Unix seconds.
        """
        self.problem: str | None = None
        """Why pods could not be told of in the last turn, in words for a condition; None while all is well."""
        self._view = view
        self._sender = sender
        self._recorder = recorder
        self._may_write = may_write
        self._clock = view.clock
        self._wall = wall
        self._planned: Mapping[str, WantedPods] = {}
        """By ReplicaSet of a policy."""
        self._of_buffers: Mapping[str, WantedPods] = {}
        """By ReplicaSet of a CapacityBuffer."""
        self._written: dict[str, float] = {}
        """By uid of pods that are there: when their condition was written last, monotonic."""
        self._refused: frozenset[str] = frozenset()
        """Uids of pods whose condition was refused last time: the others come first, as it may be their fault alone."""
        self._contests = Contests[str]()
        """By ReplicaSet: its pods lose their conditions."""
        self._judged: dict[str, tuple[float, bool]] = {}
        """By ReplicaSet: when it was asked last whether lost conditions are left off, and the answer."""
        self._explained: set[str] = set()
        """Uids of ReplicaSets that have an Event of this process."""
        self._outages = Outages(self._clock)
        self._touched = threading.Event()
        self._stopping = threading.Event()
        heart = Heartbeat("the thread that tells of unbound placeholders", LIMIT_SECONDS)
        self._thread = SupervisedThread(self._run, name="unbound", heart=heart)
        view.call_when_untold(self._touched.set)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._thread.dismiss()
        self._stopping.set()
        self._touched.set()
        self._thread.join(timeout=2.0)
        self._sender.close()

    def unhealthy(self) -> str | None:
        """Return why nobody is told any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def look(self, _: Observation, planned_policies: Sequence[PlannedPolicy], plans: Sequence[PolicyPlan]) -> None:
        """Take from the last plan how many pods of each ReplicaSet may be told of."""
        wanted = {
            replica_set_name(planned.policy.name, shape.shape): WantedPods(
                shape.replicas,
                shape.count,
                tuple(replica_set_name(planned.policy.name, twin) for twin in shape.shape.twins),
            )
            for planned, plan in zip(planned_policies, plans, strict=True)
            if plan.act
            for shape in plan.shapes
            if not shape.shape.form.is_scheduled
        }
        if wanted != self._planned:
            self._planned = wanted
            self._touched.set()

    def look_at_buffers(self, replicas: Mapping[str, int]) -> None:
        """Take how many pods of each ReplicaSet of a CapacityBuffer may be told of; any thread may call."""
        wanted = {name: WantedPods(count, count, ()) for name, count in replicas.items()}
        if wanted != self._of_buffers:
            self._of_buffers = wanted
            self._touched.set()

    @property
    def _counts(self) -> Mapping[str, WantedPods]:
        return {**self._planned, **self._of_buffers} if self._of_buffers else self._planned

    def _run(self) -> None:
        wait: float | None = None
        while not self._stopping.is_set():
            if self._thread.heart.rest(self._touched, wait) and not self._stopping.wait(GATHER_SECONDS):
                self._touched.clear()
            if self._stopping.is_set():
                return
            try:
                wait = self.write_due()
                self._thread.heart.worked()
            except Exception as error:
                if self._outages.is_new(type(error).__name__):
                    log.exception("telling of unbound placeholders failed")
                self._thread.heart.failed(error)
                wait = REPEAT_SECONDS

    def write_due(self) -> float | None:
        """Write what is due; return the seconds until something is due again, None when nothing is."""
        if not self._may_write():
            self._written.clear()
            return REPEAT_SECONDS if self._counts else None
        if not self._counts:
            self.problem = None
            return None
        facts, uids = self._view.placeholder_facts()
        now = self._clock()
        self._forget({pod.uid for pod in facts}, uids)
        waiting = untold(facts, self._counts)
        due = [pod for pod in waiting if self._is_due(pod, now)]
        if not waiting:
            self.problem = None
            return None
        if not due:
            self.problem = self._removed(waiting, now) or self.problem
            return REPEAT_SECONDS
        some = sorted(due, key=lambda pod: pod.uid in self._refused)[:AT_ONCE]
        self.problem = self._write(some) or self._removed(waiting, now)
        self._explain(facts, some, uids)
        if self.problem is not None:
            if self._outages.is_new(self.problem.partition(":")[0]):  # a count of pods makes it no other one
                log.warning("unbound placeholders are not told of: %s", self.problem)
            return REPEAT_SECONDS
        if len(due) <= AT_ONCE:
            return REPEAT_SECONDS
        return max(len(some) / CONDITIONS_PER_SECOND - (self._clock() - now), 0.0)

    def _removed(self, waiting: Iterable[PlaceholderFacts], now: float) -> str | None:
        """Say that somebody keeps removing the condition, which is then left off; None where nobody does."""
        lost = [pod for pod in waiting if pod.uid in self._written]
        contest = next((c for c in self._contests.standing(now) if any(p.replica_set == c.subject for p in lost)), None)
        if contest is None:
            return None
        names = sorted(pod.name for pod in lost if pod.replica_set == contest.subject)
        return (
            f"somebody removes the condition {CONDITION} each time, so it is left off for "
            f"{round(contest.pause_seconds / 60)} min at a time: "
            f"pod {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
        )

    def _explain(
        self, before: Iterable[PlaceholderFacts], due: Iterable[PlaceholderFacts], uids: Mapping[str, str]
    ) -> None:
        """Explain in an Event what the pods of a ReplicaSet are, when the first of them was written.

        An operator that has restarted finds pods with the condition, and says nothing again.
        """
        self._explained &= set(uids.values())
        told = {pod.replica_set for pod in before if pod.unschedulable}
        for name in sorted({pod.replica_set for pod in due if pod.uid in self._written} - told):
            uid = uids.get(name)
            if uid and uid not in self._explained:
                self._explained.add(uid)
                regarding = ObjectRef("apps/v1", "ReplicaSet", name, uid, self._view.namespace)
                self._recorder.record(regarding, EventKind.NORMAL, PENDING_ON_PURPOSE, EXPLANATION)

    def _is_due(self, pod: PlaceholderFacts, now: float) -> bool:
        written_at = self._written.get(pod.uid)
        if written_at is None:
            return True
        return now - written_at >= REPEAT_SECONDS and not self._is_left_off(pod.replica_set, now)

    def _is_left_off(self, replica_set: str, now: float) -> bool:
        """Whether a condition that a pod has lost is not written again; pods that lose it together count once."""
        asked_at, left_off = self._judged.get(replica_set, (-REPEAT_SECONDS, False))
        if now - asked_at >= REPEAT_SECONDS:
            left_off = self._contests.written(replica_set, CONDITION, "somebody", now) is Verdict.LEAVE
            self._judged[replica_set] = now, left_off
        return left_off

    def _forget(self, pods: Container[str], replica_sets: Container[str]) -> None:
        """Forget what is gone."""
        self._written = {uid: at for uid, at in self._written.items() if uid in pods}
        self._refused = frozenset(uid for uid in self._refused if uid in pods)
        self._judged = {name: judged for name, judged in self._judged.items() if name in replica_sets}

    def _write(self, pods: Sequence[PlaceholderFacts]) -> str | None:
        """Write the condition of each; return why some could not be written, None where all could."""
        stamp = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        refused: dict[str, str] = {}
        now = self._clock()

        def on_answer(index: int, error: KubeError | None) -> None:
            if error is None:
                self._written[pods[index].uid] = now
                self._refused -= {pods[index].uid}
            elif not (isinstance(error, ApiError) and (error.not_found or error.conflict)):
                refused[pods[index].uid] = error.message if isinstance(error, ApiError) else str(error)

        asks = [self._ask(pod, stamp) for pod in pods]
        self._sender.send(asks, lambda _: self._may_write() and not refused, on_answer)
        self._refused |= refused.keys()
        return next(iter(refused.values()), None)

    def _ask(self, pod: PlaceholderFacts, stamp: str) -> WriteRequest:
        condition = {
            "type": CONDITION,
            "status": "False",
            "reason": "Unschedulable",
            "message": MESSAGE,
            "lastProbeTime": None,
            "lastTransitionTime": stamp,
        }
        path = resource_path("v1", "pods", namespace=self._view.namespace, name=pod.name) + "/status"
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        return WriteRequest("PATCH", path, body, STRATEGIC_MERGE)
