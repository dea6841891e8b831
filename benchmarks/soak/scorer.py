"""A week of the scorer: nodes and pods come and go, each with a name that was never there before.

The parts are those of the scorer's process: the view with its sinks, the load watcher's reports, what stands, decisions
with their explanations, the recording and the metrics. The API server, the scheduler and the load watcher are modelled.
"""

import json
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import msgspec
import urllib3

from benchmarks.soak.sizes import files, series, sizes
from slack.cluster.wire import Pod
from slack.kube.watch import EventType
from slack.scorer.asgi import NotKnown
from slack.scorer.ceiling import Ceiling
from slack.scorer.configuration.arguments import ScorerConfig
from slack.scorer.extender import InvalidRequest
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import NodeObject
from slack.scorer.inputs.prediction import demand_of
from slack_operator.runtime.load_source import LoadSource
from slack_operator.scorer.cluster_view import BoundPodSink, ScorerNodeSink, ScorerView
from slack_operator.scorer.metrics import ScorerMetrics
from slack_operator.scorer.process import decision_recorder
from slack_operator.scorer.score_cache import Refresher
from slack_operator.scorer.scores import LiveScores

NODES: Final = 12
PODS: Final = 60
TURN_SECONDS: Final = 600.0
_NEW_PODS: Final = 12
"""Of a turn."""
_RECORDED_BYTES: Final = 1 << 20
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
Json = dict[str, Any]
_POD: Final = msgspec.json.Decoder(Pod)


class _Answer:
    """One answer of the load watcher."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def read(self, _: int, decode_content: bool = True) -> bytes:
        return self._body

    def release_conn(self) -> None:
        """Release none: there is no connection."""


class _Watcher:
    """A load watcher that knows the nodes of the moment; now and then one window is missing."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.nodes: deque[str] = deque()
        self.now = _BEGAN

    def request(self, _: str, url: str, *, fields: Mapping[str, str], **__: object) -> _Answer:
        if not self.nodes or self._random.random() < 0.1:
            return _Answer(404, b"")
        end, window = int(self.now), fields["window"]
        data = {
            name: {
                "metrics": [
                    {"name": kind, "type": kind, "rollup": rollup, "value": self._random.uniform(0, 100)}
                    for kind in ("cpu", "memory")
                    for rollup in ("AVG", "STD")
                ]
            }
            for name in [*self.nodes, f"stranger-{end}"]
        }
        span = {"duration": window, "start": end - int(window[:-1]) * 60, "end": end}
        return _Answer(200, json.dumps({"timestamp": end, "window": span, "source": "Soak", "data": data}).encode())


class ScorerWeek:
    """One scorer and its surroundings."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int) -> None:
        """Begin without a node."""
        self._random = Random(seed)
        self._now, self._number, self._cleared = 0.0, 0, False
        self._pods: deque[Json] = deque()
        self._watcher = _Watcher(self._random)
        self._folder = Path(tempfile.mkdtemp(prefix="soak-scorer-"))
        config = ScorerConfig()
        self._metrics = ScorerMetrics(lambda: self._now)
        self._view = ScorerView(
            lambda leave_out: ClusterState(
                lambda pod: demand_of(pod.spec, config.prediction, status=pod.status),
                "slack",
                config.rules.recent_kept_seconds,
                leave_out,
            )
        )
        self._load = LoadSource(
            "http://watcher:2020", 15.0, lambda: None, on_error=self._metrics.on_fetch_error, clock=lambda: self._now
        )
        self._load._http = cast("urllib3.PoolManager", self._watcher)
        self._refresher = Refresher(
            self._view,
            config.algorithms,
            config.rules,
            whole=lambda: True,
            on_refresh=self._metrics.on_refresh,
            wall=self._wall,
        )
        self._refresher.load = self._load
        self._recorder = decision_recorder(self._folder / "decisions.jsonl", most_bytes=_RECORDED_BYTES)
        self._scores = LiveScores(
            lambda: self._refresher.current,
            self._view,
            lambda pod: demand_of(pod.spec, config.prediction, status=pod.status),
            "slack",
            self._metrics,
            ceiling=Ceiling(cpu_percent=90.0),
            record=self._recorder,
            wall=self._wall,
        )
        self._node_sink = ScorerNodeSink(self._view, lambda: None)
        self._pod_sink = BoundPodSink(self._view, lambda: None, self._scores.bound, wall=self._wall)
        for sink in (self._node_sink, self._pod_sink):
            sink.begin()
            sink.end()

    def _wall(self) -> float:
        return _BEGAN + self._now

    def turn(self, now_seconds: float) -> None:
        """Change a node and some pods, fetch, refresh, and answer the scheduler."""
        self._now = now_seconds
        self._watcher.now = self._wall()
        if not self._cleared:
            self._change_nodes()
        self._load.fetch()
        self._refresher.refresh()
        if not self._cleared:
            self._change_pods()
        self._scores.tidy()

    def clear(self, now_seconds: float) -> None:
        """Delete all pods and nodes."""
        self._now, self._cleared = now_seconds, True
        while self._pods:
            self._tell_of_pod(EventType.DELETED, self._pods.popleft())
        while self._watcher.nodes:
            self._tell_of_node(EventType.DELETED, self._watcher.nodes.popleft())

    def sizes(self) -> Mapping[str, int]:
        """Return what the process keeps."""
        roots = (self._view, self._load, self._refresher, self._scores, self._recorder, self._metrics)
        return sizes(roots) | series(self._metrics.registry) | files(self._folder)

    def close(self) -> None:
        """Remove the recording."""
        shutil.rmtree(self._folder)

    def _change_nodes(self) -> None:
        nodes = self._watcher.nodes
        if len(nodes) >= NODES:
            gone = nodes.popleft()
            for pod in [pod for pod in self._pods if pod["spec"]["nodeName"] == gone]:
                self._pods.remove(pod)
                self._tell_of_pod(EventType.DELETED, pod)
            self._tell_of_node(EventType.DELETED, gone)
        self._number += 1
        nodes.append(f"node-{self._number}")
        self._tell_of_node(EventType.ADDED, nodes[-1])

    def _change_pods(self) -> None:
        """Bind new pods as the scheduler does; every fourth is deleted while it waits, one cannot be read."""
        names = list(self._watcher.nodes)
        for index in range(_NEW_PODS):
            self._number += 1
            pod = self._pod(f"pod-{self._number}", f"{self._random.randrange(1, 2000)}m")
            self._ask(pod, names)
            if index % 4 == 0:
                continue
            pod["spec"]["nodeName"] = self._random.choice(names)
            self._pods.append(pod)
            self._tell_of_pod(EventType.ADDED, pod)
        unreadable = self._pod(f"pod-{self._number}-unreadable", "much")
        self._ask(unreadable, names)
        unreadable["spec"]["nodeName"] = names[0]
        self._pods.append(unreadable)
        self._tell_of_pod(EventType.ADDED, unreadable)
        while len(self._pods) > PODS:
            self._tell_of_pod(EventType.DELETED, self._pods.popleft())

    def _ask(self, document: Json, names: list[str]) -> None:
        pod = _decoded(document)
        try:
            self._scores.refused(pod, names)
            self._scores.prioritize(pod, names)
            code = 200
        except InvalidRequest:
            code = 400
        self._metrics.on_call("prioritize", code, 0.001)
        while not self._recorder._waiting.empty():
            decision = self._recorder._waiting.get_nowait()
            assert decision is not None, "nobody stops it"
            self._recorder._take(decision)
        try:
            self._scores.explain("shop", document["metadata"]["name"])
        except NotKnown:
            self._metrics.on_call("explain", 404, 0.001)

    def _pod(self, name: str, cpu: str) -> Json:
        at = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}],
            },
        }

    def _tell_of_pod(self, event: EventType, document: Json) -> None:
        self._pod_sink.apply([(event, _decoded(document))])

    def _tell_of_node(self, event: EventType, name: str) -> None:
        status: Json = {"capacity": {"cpu": "8", "memory": "32Gi"}, "allocatable": {"cpu": "8", "memory": "32Gi"}}
        status |= {"addresses": [{"type": "InternalIP", "address": f"ip-of-{name}"}]}
        self._node_sink.apply([(event, msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject))])


def _decoded(document: Json) -> Pod:
    return _POD.decode(msgspec.json.encode(document))


def week(seed: int) -> ScorerWeek:
    """Return a week of the scorer."""
    return ScorerWeek(seed)
