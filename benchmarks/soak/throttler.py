"""A week of the throttler: gated pods come and go on one node's agent, and reports of many nodes at the controller.

Of the agent: desk, decision, journal and metrics. Of the controller: reports, pods that wait for keys, permits, late
pods and metrics. The kubelet and the API server are modelled here: a pod is held, is granted, runs, and is ready or
late; some crash. Nodes have new names as well.
"""

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from benchmarks.soak.churn import Churn
from benchmarks.soak.sizes import SEQUENCE, files, series, sizes
from slack.kube.errors import ApiError
from slack.kube.watch import EventType
from slack.process.reporting.packing import pack
from slack.throttler.decision import NodeThrottle
from slack.throttler.injection import GATE, PERMITS_IN, VARIABLE
from slack.throttler.limits import UNKNOWN_USAGE, Limits
from slack.throttler.reports.messages import NodeReport, encode
from slack_operator.runtime.callers import Caller
from slack_operator.runtime.report_receiver import Body
from slack_operator.throttler.agent import node_report
from slack_operator.throttler.agent.grant_coordinator import GrantCoordinator, TickOutcome
from slack_operator.throttler.agent.journal import Journal
from slack_operator.throttler.agent.metrics import AgentMetrics
from slack_operator.throttler.agent.node_pods import NodePod
from slack_operator.throttler.agent.node_policy import Applied
from slack_operator.throttler.agent.node_report import Tallies
from slack_operator.throttler.agent.start_counts import CurrentStarts
from slack_operator.throttler.controller.held_pods import PodRow
from slack_operator.throttler.controller.late_pods import LatePods
from slack_operator.throttler.controller.metrics import ThrottlerControllerMetrics
from slack_operator.throttler.controller.permits import Permits
from slack_operator.throttler.controller.starts import Starts

PODS: Final = 20
"""That are there at a time."""
WRITERS_SECONDS: Final = 60.0
"""The writers of permits have so long, in real time."""
LIMITS: Final = Limits(slots=2, start_timeout_seconds=900.0, delete_late=True, force_after_seconds=300.0)
_HISTORY: Final = ("controller: Outages._told",)
"""What was logged within an hour, at most 100 causes: a bounded history."""
Json = dict[str, Any]
_HELD: Final[Json] = {"waiting": {"reason": "CreateContainerConfigError"}}
_RUNS: Final[Json] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
_ENDED: Final[Json] = {"terminated": {"exitCode": 1}}


class _Pod:
    """A gated pod, and how far its container is."""

    def __init__(self, number: int, fate: str) -> None:
        self.name, self.node, self.fate = f"web-{number}", f"node-{number}", fate
        self.uid = f"uid-{self.name}"
        self.states = iter({"ready": "hrR", "late": "hrrrr", "crash": "hrer"}[fate])
        self.state, self.ready, self.instance = _HELD, False, 0

    def move(self) -> None:
        """Have the kubelet do its next step."""
        step = next(self.states, "")
        if step in ("r", "R") and self.state is not _RUNS:
            self.state, self.instance = _RUNS, self.instance + 1
        if step == "e":
            self.state = _ENDED
        self.ready = self.ready or step == "R"

    def document(self, *, keyed: bool = False) -> Json:
        status = {"name": "main", "state": self.state, "ready": self.ready, "started": self.ready}
        if self.instance:
            status["containerID"] = f"containerd://{self.uid}-{self.instance}"
        annotations = {PERMITS_IN: f"permits-{self.name}"} if keyed else {}
        container = {"name": "main", "readinessProbe": {"exec": {}}, "env": [{"name": VARIABLE}]}
        gates = [] if keyed else [{"name": GATE}]
        return {
            "metadata": {
                "name": self.name,
                "namespace": f"team-{self.name}",
                "uid": self.uid,
                "resourceVersion": "1",
                "annotations": annotations,
            },
            "spec": {"nodeName": self.node, "containers": [container], "initContainers": gates},
            "status": {"phase": "Pending", "containerStatuses": [status]},
        }


class ThrottlerWeek(Churn[_Pod]):
    """One agent and one controller, and their surroundings."""

    def __init__(self, seed: int) -> None:
        """Begin without a pod."""
        super().__init__(seed, PODS)
        self._there: dict[str, _Pod] = {}
        self._folder = tempfile.TemporaryDirectory()
        self._begin_agent()
        self._begin_controller()

    def _begin_agent(self) -> None:
        journal = Journal(Path(self._folder.name) / "grants", "boot")
        self.desk = GrantCoordinator(NodeThrottle(LIMITS), journal, self._now)
        self.agent_metrics = AgentMetrics()
        self.tallies = Tallies()

    def _begin_controller(self) -> None:
        writer: Any = SimpleNamespace(create=lambda *_: {}, json_patch=lambda *_: {})
        recorder: Any = SimpleNamespace(record=lambda *_: None)
        self.controller_metrics = ThrottlerControllerMetrics()
        self.permits = Permits(
            writer=writer,
            recorder=recorder,
            count=self.controller_metrics.on_permits,
            may_write=lambda: True,
            fail_open_after_seconds=lambda node: 60.0,
            patience_seconds=lambda: 5.0,
            clock=self._clock,
            wall=self._clock,
        )
        self.late_pods = LatePods(
            server=self,
            decode=msgspec.json.decode,
            count=self.controller_metrics.on_late_pod,
            may_write=lambda: True,
            deletes=lambda node: True,
            stale=lambda: None,
            clock=self._clock,
        )
        self.starts = Starts(
            lambda: None, self.permits.reported, self.late_pods.asked, clock=self._clock, wall=self._clock
        )

    def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = "application/json", verb: str
    ) -> bytes:
        """Answer as the API server would: pods are there, and are evicted."""
        pod = self._there.get(path.split("/")[6])
        if pod is None:
            raise ApiError(404, "NotFound", path)
        return json.dumps(pod.document()).encode()

    def turn(self, now_seconds: float) -> None:
        """Change pods for others, and let the agent and the controller do what is due."""
        self._change(now_seconds)
        for pod in self._pods:
            pod.move()
            self.desk.update(_node_pod(pod), self._now)
            self.desk.ask(pod.uid, "main", self._now)
        self._tell(self.desk.grant_due(self._now))
        for pod in self._pods:
            self._report(pod)
        self.starts.keep(frozenset(pod.node for pod in self._pods))
        self.permits.write_due()
        while self.late_pods.check_next():
            pass
        self._wait_for_writers()

    def _wait_for_writers(self) -> None:
        """Wait until every permit of this turn is written: a turn stands for half a minute, in which they always are.

        Raises:
            TimeoutError: the writers hang.
        """
        until, writers = time.monotonic() + WRITERS_SECONDS, self.permits._writers
        while self.permits._busy or writers._idle < len(writers._pool):
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.permits._busy)} permits are not written after {WRITERS_SECONDS:.0f} s")
            time.sleep(0.001)

    def _tell(self, turn: TickOutcome) -> None:
        desk = self.desk
        opened, waited, started = desk.opened, desk.waited, desk.started
        desk.opened, desk.refused, desk.waited, desk.started = [], [], [], []
        self.tallies.count_tick(turn, len(opened))
        self.agent_metrics.on_turn(turn, opened=len(opened), waited=waited, started=started)
        counts, taken = desk.throttle.counts(), desk.throttle.starting
        self.agent_metrics.show(
            CurrentStarts(counts=counts, slots=2, taken=taken, gates=0, refused=0, policy_known=True, blind=False)
        )

    def _report(self, pod: _Pod) -> None:
        """Send the agent's report as one of the pod's own node, with what is of that pod."""
        whole = node_report.report(pod.node, Applied("default", 1), 4.0, self.desk, self.tallies, UNKNOWN_USAGE)
        report: NodeReport = msgspec.structs.replace(
            whole,
            containers=tuple(row for row in whole.containers if row.uid == pod.uid),
            permits=tuple(permit for permit in whole.permits if permit.uid == pod.uid),
            late=tuple(late for late in whole.late if late.uid == pod.uid),
        )
        self.starts.accept_report(Caller(f"agent-{pod.node}", pod.node), Body(*pack(encode(report))))

    def sizes(self) -> Mapping[str, int]:
        """Return what both processes keep, and the agent's files."""
        agent = sizes((self.desk, self.agent_metrics, self.tallies)) | series(self.agent_metrics.registry)
        roots = (self.starts, self.permits, self.late_pods, self.controller_metrics)
        controller = sizes(roots) | series(self.controller_metrics.registry)
        found = {f"agent: {name}": size for name, size in agent.items()}
        found |= {f"controller: {name}": size for name, size in controller.items()}
        found = {name + SEQUENCE if name in _HISTORY else name: size for name, size in found.items()}
        return found | files(Path(self._folder.name))

    def close(self) -> None:
        """End what was begun."""
        self.permits.stop()
        self._folder.cleanup()

    def _add(self) -> None:
        fate = self._random.choices(("ready", "late", "crash"), (8, 1, 1))[0]
        pod = _Pod(next(self._numbers), fate)
        self._pods.append(pod)
        self._there[pod.name] = pod
        self.permits.pods.apply([(EventType.ADDED, _row(pod))])

    def _remove(self) -> None:
        pod = self._pods.popleft()
        del self._there[pod.name]
        self.desk.forget(pod.uid)
        self.permits.pods.apply([(EventType.DELETED, _row(pod))])


def _node_pod(pod: _Pod) -> NodePod:
    return msgspec.json.decode(msgspec.json.encode(pod.document()), type=NodePod)


def _row(pod: _Pod) -> PodRow:
    return msgspec.json.decode(msgspec.json.encode(pod.document(keyed=True)), type=PodRow)


def week(seed: int) -> ThrottlerWeek:
    """Return a week of the throttler."""
    return ThrottlerWeek(seed)
