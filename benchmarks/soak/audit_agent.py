"""A week of the auditor's agent: pods come and go on its node, and the controller answers with names and bursts.

The agent is the one of the process, with its walker, history, names, burst writer and state file. The node's cgroups
are plain files (cgroup v1), and each pod has a cgroup of a new name.
"""

import shutil
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.soak.sizes import files, series, sizes
from slack.audit.api.messages import AgentReport, BurstOrder, ControllerAnswer, PodName
from slack.process.stopping import Stopping
from slack_operator.auditor.agent.metrics import registry
from slack_operator.auditor.agent.process import AuditAgent
from slack_operator.auditor.agent.settings import AgentSettings

PODS: Final = 8
"""That are there at a time."""
TURN_SECONDS: Final = 600.0
_SAMPLE_SECONDS: Final = 60.0
_SAMPLES: Final = 2
"""In a turn, at its end."""
_QUOTA_US: Final = 20_000


class _Pod:
    """A pod with one container, which is throttled in half of its periods."""

    def __init__(self, cpu: Path, number: int, random: Random) -> None:
        self.uid, self.container_id = f"uid-{number}", f"{random.getrandbits(256):064x}"
        self.directory = cpu / "kubepods" / f"pod{self.uid}"
        self._periods = 0
        (self.directory / self.container_id).mkdir(parents=True)
        _write(self.directory, -1, 0)
        self.go_on(0.0)
        (self.directory / self.container_id / "cpu.cfs_burst_us").write_text("0\n")

    def go_on(self, seconds: float) -> None:
        self._periods += round(seconds * 10)
        _write(self.directory / self.container_id, _QUOTA_US, self._periods)

    @property
    def name(self) -> PodName:
        return PodName(namespace="shop", name=f"api-{self.uid}", containers={self.container_id: "api"})

    @property
    def order(self) -> BurstOrder:
        return BurstOrder(pod_uid=self.uid, container_id=self.container_id, burst_us=_QUOTA_US)


class AuditAgentWeek:
    """One agent, its node, and a controller that answers each report."""

    turn_seconds = TURN_SECONDS

    def __init__(self, seed: int) -> None:
        """Begin without a pod."""
        self._random = Random(seed)
        self._now = 0.0
        self._cleared = False
        self._numbers = count()
        self._pods: deque[_Pod] = deque()
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name) / "node"
        self._cpu = root / "sys/fs/cgroup/cpu"
        (self._cpu / "kubepods").mkdir(parents=True)
        for directory in (self._cpu, self._cpu / "kubepods"):
            _write(directory, -1, 0)
        settings = replace(
            AgentSettings(node="node-1", root=root, listen="127.0.0.1:0", write_burst=True),
            state_dir=Path(self._folder.name) / "state",
        )
        self.agent = AuditAgent(settings, Stopping(), clock=self._clock, wall=self._clock)
        self.registry = registry(self.agent.watch.scrape, self.agent._totals)
        self._sample()

    def _clock(self) -> float:
        return self._now

    def turn(self, now_seconds: float) -> None:
        """Change a pod for another; have the agent sample, and report."""
        if not self._cleared:
            self._pods.append(_Pod(self._cpu, next(self._numbers), self._random))
            if len(self._pods) > PODS:
                self._remove()
        for left in reversed(range(_SAMPLES)):
            at = now_seconds - left * _SAMPLE_SECONDS
            for pod in self._pods:
                pod.go_on(at - self._now)
            self._now = at
            self._sample()

    def clear(self, now_seconds: float) -> None:
        """Delete all pods."""
        self._now, self._cleared = now_seconds, True
        while self._pods:
            self._remove()

    def sizes(self) -> Mapping[str, int]:
        """Return what the process keeps, and its state file."""
        kept = sizes((self.agent,)) | series(self.registry)
        return kept | files(Path(self._folder.name) / "state")

    def bursts(self) -> int:
        """Count the containers whose burst is written now."""
        return sum(state.burst_us > 0 for state in self.agent.bursts.states)

    def close(self) -> None:
        """End the agent, and remove its node."""
        self.agent.stop()
        self._folder.cleanup()

    def _sample(self) -> None:
        self.agent.tick()
        report = self.agent.watch.report()
        if report is not None:
            self.agent.watch.answer(self._answer(report))

    def _answer(self, report: AgentReport) -> ControllerAnswer:
        names = {pod.uid: pod.name for pod in self._pods if pod.uid in report.unnamed}
        return ControllerAnswer(names=names, bursts=tuple(pod.order for pod in self._pods))

    def _remove(self) -> None:
        shutil.rmtree(self._pods.popleft().directory)


def _write(directory: Path, quota_us: int, periods: int) -> None:
    (directory / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
    (directory / "cpu.cfs_period_us").write_text("100000\n")
    counters = f"nr_periods {periods}\nnr_throttled {periods // 2}\nthrottled_time {periods * 40_000_000}\n"
    (directory / "cpu.stat").write_text(counters)


def week(seed: int) -> AuditAgentWeek:
    """Return a week of the auditor's agent."""
    return AuditAgentWeek(seed)
