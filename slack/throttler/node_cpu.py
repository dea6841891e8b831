"""The CPUs of the node that `simulate` models: how much of them each container gets, and what the node reads of them.

Containers that start share the CPUs with everything else on the node (`usage[].cpu`), each by what it wants, as the
kernel's scheduler shares them among tasks of equal weight. The node reads both together as the agent does: the busy
share of CPU time over `averageOver`. Time is an argument.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from slack.throttler.limits import Usage
from slack.throttler.scenario import StartScenario, UsageStep, Work


@dataclass(slots=True)
class NodeCPU:
    """The CPUs of one scenario. Call `pass_time` for each interval in which nothing changes, in order."""

    scenario: StartScenario
    average_over_seconds: float
    _busy: deque[tuple[float, float]] = field(default_factory=deque)
    """Times, and how many core-seconds had been busy by then; straight lines lie between them."""

    def __post_init__(self) -> None:
        before = min(self._others(0.0), self.scenario.cores) * self.average_over_seconds
        self._busy.extend([(-self.average_over_seconds, 0.0), (0.0, before)])

    def rates(self, threads: Sequence[int], now: float) -> list[float]:
        """Return how much work each container gets done in a second.

        Args:
            threads: how many CPUs each of the containers that start wants.
            now: seconds since the beginning.
        """
        scenario, count = self.scenario, len(threads)
        missing = 0.0
        if scenario.cache is not None and count:
            missing = max(0.0, 1 - scenario.cache.memory / (count * scenario.cache.working_set)) * scenario.cache.k
        if scenario.work is Work.FIXED:
            return [1 / (1 + missing)] * count
        wanted = sum(threads) + self._others(now)
        slowdown = max(1.0, wanted / scenario.cores) * (1 + missing)
        return [own / slowdown for own in threads]

    def pass_time(self, threads: Sequence[int], now: float, seconds: float) -> None:
        """Let these containers work for so long from now on."""
        if self.scenario.work is Work.FIXED:
            return
        busy = min(sum(threads) + self._others(now), self.scenario.cores)
        self._busy.append((now + seconds, self._busy[-1][1] + busy * seconds))
        while self._busy[1][0] <= now + seconds - self.average_over_seconds:
            self._busy.popleft()

    def usage(self, now: float) -> Usage:
        """Return what the node reads of itself."""
        step = self._step(now) or UsageStep()
        cpu = step.cpu if self.scenario.work is Work.FIXED else self._read(now)
        return Usage(step.load1, cpu, step.cpu_pressure, step.io)

    def _read(self, now: float) -> float:
        """Return the busy share of CPU time over the window that ends now."""
        (first, before), (second, after) = self._busy[0], self._busy[1]
        begin = now - self.average_over_seconds
        passed = 0.0 if second == first else max(0.0, min(1.0, (begin - first) / (second - first)))
        busy = self._busy[-1][1] - (before + passed * (after - before))
        return min(1.0, busy / (self.average_over_seconds * self.scenario.cores))

    def _others(self, now: float) -> float:
        """Return how many cores everything else on the node wants."""
        step = self._step(now)
        return 0.0 if step is None or step.cpu is None else step.cpu * self.scenario.cores

    def _step(self, now: float) -> UsageStep | None:
        return next((step for step in reversed(self.scenario.usage) if step.at <= now), None)
