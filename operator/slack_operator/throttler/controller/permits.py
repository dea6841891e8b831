"""Writes permits into ConfigMaps, as agents grant them: a key of the pod's ConfigMap, then a poke for its kubelet.

Agents decide, and say in each report who may start and has not; nothing is kept here that the next report, or the next
leader's first one, would not tell again. A pod is let in only by the agent of its own node. If no report of an agent
that sees its pods has named a waiting pod for failOpenAfter, all containers of that pod may start: nobody else could
let them. Threads: its own decides, a few write, any may call `reported` and `news`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from slack.kube.apply import Writer
from slack.kube.errors import ApiError, KubeError
from slack.kube.events import EventKind, ObjectRef, RecordsEvents
from slack.kube.paths import resource_path
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.threads import SupervisedThread
from slack.supervision.workers import Workers
from slack.throttler.config_maps import HeldPod, is_name, poke
from slack.throttler.reports.messages import NodeReport, Permit
from slack_operator.runtime.conditions import rfc3339
from slack_operator.throttler.controller.held_pods import HeldPods
from slack_operator.throttler.controller.metrics import FAILED, GRANTED, OPENED, REFUSED
from slack_operator.throttler.controller.permit_writing import let_in
from slack_operator.throttler.reasons import PERMIT_NOT_WRITTEN, START_PERMIT_SKIPPED

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""So often silent nodes are looked for, and what has failed is tried again."""
AGAIN_SECONDS = 3.0
"""Said again so long after it was written, a permit is written again: its key is gone, or the poke was not seen."""
OPEN_AGAIN_SECONDS = 60.0
PRUNE_SECONDS = 60.0
UNSEEN_SECONDS = 2.0
"""A pod that is not seen to wait by then is one whose container has run before, and whose key is gone."""
KEPT_SECONDS = 60.0
FROZEN_SECONDS = 10.0
"""A rest that ends so much later than it should: this process was stopped, and could hear no agent meanwhile."""
RETRY_SECONDS, REFUSED_SECONDS = 2.0, 30.0
"""After what passes by itself, and after what somebody must mend: pods that cannot be let in hold up no others."""
WRITERS = 4
TURN_SECONDS = 60.0
"""Without a turn that ended as it should the thread counts as stuck."""


class Permits:
    """All of a cluster."""

    def __init__(
        self,
        *,
        writer: Writer,
        recorder: RecordsEvents,
        count: Callable[[str, int], None],
        may_write: Callable[[], bool],
        fail_open_after_seconds: Callable[[str], float],
        patience_seconds: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is written yet.

        Args:
            writer: of ConfigMaps and annotations.
            recorder: of Events.
            count: counts containers by outcome.
            may_write: whether this process leads.
            fail_open_after_seconds: what a node's policy says.
            patience_seconds: how long an agent that is well may say nothing while somebody waits.
            clock: monotonic seconds.
            wall: Unix seconds.
        """
        self.pods = HeldPods(self.news, clock=clock)
        self._writer, self._recorder, self._count = writer, recorder, count
        self._may_write = may_write
        self._fail_open_after_seconds, self._patience_seconds = fail_open_after_seconds, patience_seconds
        self._clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[Sequence[Permit], float]] = {}
        """By node: what its agent said last, and when."""
        self._named: dict[str, float] = {}
        """By uid of a pod that waits: when the agent of its node has named it last."""
        self._naming: dict[str, tuple[float, frozenset[str] | None]] = {}
        """By node: when its agent has reported last that sees its pods, and which it named; None: all, as one of an
        older version does."""
        self._dirty: set[str] = set()
        self._written: dict[str, dict[str, float]] = {}
        """By uid of a pod: its containers that were let in, and when."""
        self._busy: set[str] = set()
        self._not_before: dict[str, float] = {}
        self._led_since: float | None = None
        self._sweep_at = self._prune_at = float("-inf")
        self._outages, self._events = Outages(clock), Outages(clock)
        self._stopping = False
        self._wake = threading.Event()
        self._writers = Workers(WRITERS, name="permits")
        heart = Heartbeat("the thread that decides about permits", TURN_SECONDS)
        self._thread = SupervisedThread(self._run, name="permits", heart=heart)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way is brought to its end, or left to the next leader."""
        self._stopping = True
        self._wake.set()
        self._thread.join(SWEEP_SECONDS)
        self._writers.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why no permit is written any more; None if all threads work."""
        return first_problem(self._thread, self._writers)

    def reported(self, report: NodeReport) -> None:
        """Take in which pods the agent of a node knows, and who it says may start."""
        node, permits, now = report.node, report.permits, self._clock()
        with self._lock:
            if not report.blind:
                named = None if report.pending_pods is None else frozenset(report.pending_pods)
                self._naming[node] = now, named
                self._named.update(dict.fromkeys(self.pods.uids_on(node) if named is None else named, now))
            if permits:
                self._asked[node] = permits, now
                self._dirty.add(node)
            else:
                self._asked.pop(node, None)
        if permits:
            self._wake.set()

    def news(self, node: str) -> None:
        """Take in that a pod of a node is known now, of which its agent may have spoken already."""
        with self._lock:
            self._dirty.add(node)
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._rest()
            try:
                self.write_due()
                self._thread.heart.beat()
            except Exception:  # the next turn decides anew
                log.exception("permits: a turn has failed")

    def _rest(self) -> None:
        """Wait until something is due; after a time in which this process was stopped, agents get theirs anew."""
        before = self._clock()
        self._wake.wait(SWEEP_SECONDS)
        self._wake.clear()
        now = self._clock()
        if self._led_since is not None and now - before > SWEEP_SECONDS + FROZEN_SECONDS:
            self._led_since = now

    def write_due(self) -> None:
        """Do what is due; nothing while another leads."""
        now = self._clock()
        if not self._may_write():
            with self._lock:
                self._asked, self._dirty, self._written = {}, set(), {}
                self._named, self._naming = {}, {}
            self._led_since = None
            return
        if self._led_since is None:
            self._led_since = now
        with self._lock:
            asked = {node: self._asked[node] for node in self._dirty if node in self._asked}
            self._dirty = set()
        for node, (permits, at) in asked.items():
            self._grant(node, permits, at, now)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            self._sweep(now)

    def _grant(self, node: str, permits: Iterable[Permit], at: float, now: float) -> None:
        wanted: dict[str, list[Permit]] = {}
        for permit in permits:
            wanted.setdefault(permit.uid, []).append(permit)
        for uid, mine in wanted.items():
            pod = self.pods.get(uid)
            if pod is None:
                if now - at >= UNSEEN_SECONDS and (pod := _unseen(node, mine)) is not None:
                    self._want(pod, pod.containers, at - AGAIN_SECONDS, now, GRANTED, proves=True)
            elif pod.node == node:  # an agent speaks for the pods of its own node
                known = [permit.container for permit in mine if permit.container in pod.containers]
                self._want(pod, known, at - AGAIN_SECONDS, now, GRANTED)

    def _sweep(self, now: float) -> None:
        patience = self._patience_seconds()
        for node in self.pods.nodes:
            self._open_unnamed(node, patience, now)
        waiting = self.pods.uids
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            self._prune(waiting)
        with self._lock:
            # no report that is younger than these can be of before they were written
            since = now - KEPT_SECONDS - 2 * patience
            self._written = {
                uid: done for uid, done in self._written.items() if uid in waiting or max(done.values()) > since
            }
            self._not_before = {uid: at for uid, at in self._not_before.items() if at > now}
            self._dirty |= self._asked.keys()

    def _prune(self, waiting: frozenset[str]) -> None:
        """Forget what agents have said of pods that wait no more, and of nodes on which none waits."""
        nodes = frozenset(self.pods.nodes)
        with self._lock:
            self._named = {uid: at for uid, at in self._named.items() if uid in waiting}
            self._naming = {node: said for node, said in self._naming.items() if node in nodes}

    def _open_unnamed(self, node: str, patience: float, now: float) -> None:
        """Let in the pods of a node that no agent which sees its pods has named for failOpenAfter."""
        led_since = self._led_since or now
        heard_at, named = self._naming.get(node, (led_since, frozenset()))
        if now - heard_at < patience and (named is None or self.pods.uids_on(node) <= named):
            return
        unnamed = [
            (waiting.pod, unheard)
            for waiting in self.pods.on(node)
            if (unheard := now - max(led_since, waiting.since, self._named.get(waiting.pod.uid, led_since))) >= patience
        ]
        if not unnamed:
            return
        after = max(patience, self._fail_open_after_seconds(node))
        late = [(pod, unheard) for pod, unheard in unnamed if unheard >= after]
        opened = sum(self._want(pod, pod.containers, now - OPEN_AGAIN_SECONDS, now, OPENED) for pod, _ in late)
        if opened and self._outages.is_new(f"silent {node}"):
            said = fields(node=node, pods=opened, seconds=round(max(unheard for _, unheard in late)))
            log.warning("no agent that sees its pods is heard, pods start without permits", extra=said)

    def _want(
        self,
        pod: HeldPod,
        containers: Sequence[str],
        unless_since: float,
        now: float,
        outcome: str,
        *,
        proves: bool = False,
    ) -> bool:
        """Have permits written that were not since then; whether any is. `proves`: only an agent knows of the pod."""
        with self._lock:
            done = self._written.get(pod.uid, {})
            due = [name for name in containers if done.get(name, float("-inf")) <= unless_since]
            if not due or pod.uid in self._busy or now < self._not_before.get(pod.uid, now):
                return False  # the sweep comes back to it
            self._busy.add(pod.uid)
        self._writers.submit(self._work, pod, due, outcome, proves)
        return True

    def _work(self, pod: HeldPod, containers: Sequence[str], outcome: str, proves: bool) -> None:
        """Write some permits of one pod; in a thread of the writers."""
        became = FAILED
        try:
            if not proves or self._is_so(pod):
                became = self._write(pod, containers, outcome)
            else:
                became = REFUSED
        except Exception:
            log.exception("a permit could not be written", extra=fields(namespace=pod.namespace, pod=pod.name))
        finally:
            now = self._clock()
            with self._lock:
                self._busy.discard(pod.uid)
                if became in (GRANTED, OPENED):
                    self._written.setdefault(pod.uid, {}).update(dict.fromkeys(containers, now))
                else:
                    self._not_before[pod.uid] = now + (RETRY_SECONDS if became == FAILED else REFUSED_SECONDS)
                self._dirty.add(pod.node)  # it may have been asked for more meanwhile
            self._wake.set()
            self._count(became, len(containers))

    def _write(self, pod: HeldPod, containers: Sequence[str], outcome: str) -> str:
        with self._lock:
            fresh = pod.uid not in self._written
        try:
            let_in(self._writer, pod, containers, rfc3339(self._wall()), fresh=fresh)
        except ApiError as error:
            if error.not_found:
                return outcome  # its namespace goes
            self._tell(pod, PERMIT_NOT_WRITTEN, f"ConfigMap {pod.config_map}: {error.message}")
            if self._outages.is_new(f"{pod.namespace} {error.status}"):
                said = fields(namespace=pod.namespace, pod=pod.name, config_map=pod.config_map)
                log.warning("a permit cannot be written: %s", error, extra=said)
            return REFUSED
        except KubeError as error:
            if self._outages.is_new(type(error).__name__):
                log.warning("permits cannot be written: %s", error)
            return FAILED
        if outcome == OPENED:
            text = (
                "its containers start without a permit: for failOpenAfter no agent of the throttler on its node has "
                "named this pod"
            )
            self._tell(pod, START_PERMIT_SKIPPED, text)
        return outcome

    def _is_so(self, pod: HeldPod) -> bool:
        """Whether a pod that is not seen to wait is as an agent says: of its node, with permits in that ConfigMap."""
        path = resource_path("v1", "pods", namespace=pod.namespace, name=pod.name)
        try:
            self._writer.json_patch(path, poke(pod, rfc3339(self._wall()), proves=True))
        except KubeError as error:
            log.debug("pod %s/%s is not as the agent of %s says: %s", pod.namespace, pod.name, pod.node, error)
            return False
        return True

    def _tell(self, pod: HeldPod, reason: str, text: str) -> None:
        if self._events.is_new(f"{reason} {pod.uid}"):  # at most a hundred an hour: a storm is not one of Events too
            about = ObjectRef("v1", "Pod", pod.name, pod.uid, pod.namespace)
            self._recorder.record(about, EventKind.WARNING, reason, text)


def _unseen(node: str, permits: Sequence[Permit]) -> HeldPod | None:
    """Return a pod as an agent speaks of it; None where it says too little."""
    first = permits[0]
    if not (first.namespace and first.pod and is_name(first.config_map)):
        return None
    containers = tuple(permit.container for permit in permits)
    return HeldPod(first.uid, first.namespace, first.pod, node, first.config_map, containers)
