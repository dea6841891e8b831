"""Instant start, measured: for each real pod that is seen without a node, how long until it has one.

The monotonic clock counts from when our watch showed the pod; creationTimestamp has whole seconds only and another
machine's clock, so it serves only for pods that were waiting before we looked. The ratio is taken over the hour that
ends with the latest start, so that a quiet cluster's figure does not change by itself. Owned by the view, under its
lock; `InstantRatio` by the loop.
"""

import math
from collections import Counter, deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from slack.cluster.identity import is_excluded, workload_of
from slack.cluster.snapshot import Amounts, Workload
from slack.cluster.wire import Pod, PodSpec

DEFAULT_SCHEDULER = "default-scheduler"
INSTANT_SECONDS = 2.0
WINDOW_SECONDS = 3600.0
MADE_WAY_SECONDS = 10.0
"""How long before a pod is seen way may have been made for it: its owner asked for it, and it had not come yet."""
MAX_STARTS = 20_000
"""A policy; the ratio of more is not better known."""
KEPT_SECONDS = 60.0
"""A start is taken by the next plan, which it wakes. Those that no plan takes for so long are forgotten."""
_NOBODY = Workload("", "", "")


@dataclass(frozen=True, slots=True)
class Start:
    """One real pod that got its node. It holds nothing of the message that the pod came in."""

    node: str
    waited_seconds: float
    in_slack: bool
    """It took a placeholder's place, or capacity that an unbound one holds free."""
    at: float
    """Monotonic."""
    amounts: Amounts = ()
    """What the pod requests in effect."""
    priority: int = 0
    preempts: bool = True
    scheduler: str = ""
    workload: Workload = _NOBODY
    """What it belongs to."""
    held_up: bool = False
    """Whether room was not what it lacked: it hung after a preemption, or asks to be left out."""

    @property
    def requests(self) -> tuple[int, int]:
        """Return its millicores and bytes."""
        amounts = dict(self.amounts)
        return amounts.get("cpu", 0), amounts.get("memory", 0)


@dataclass(slots=True)
class _Waiting:
    since: float
    nominated: str = ""
    held_up: bool = False
    gated: bool = False
    """Scheduling gates kept it back when it was last seen."""


def _start(pod: Pod, node: str, waiting: _Waiting, now: float, *, in_slack: bool, amounts: Amounts) -> Start:
    spec = pod.spec or PodSpec()
    return Start(
        node,
        now - waiting.since,
        in_slack,
        now,
        amounts=amounts,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        scheduler=spec.scheduler_name or DEFAULT_SCHEDULER,
        workload=Workload(*workload_of(pod.metadata)),
        held_up=waiting.held_up or is_excluded(pod.metadata),
    )


class InstantStarts:
    """Pods that wait, and starts that the loop has not taken yet."""

    def __init__(self) -> None:
        self.waiting: dict[str, _Waiting] = {}
        """By uid."""
        self._starts: deque[Start] = deque(maxlen=MAX_STARTS)
        self._vacated: dict[str, float] = {}
        """Nodes that a placeholder was pushed out of, and when."""
        self._made_way: dict[str, float] = {}
        """Nodes where we have made way, and when."""

    def vacated(self, node: str, now: float, *, made_way: bool = False) -> None:
        """A placeholder was displaced from this node, by us where it made way."""
        known = self._made_way if made_way else self._vacated
        known.pop(node, None)  # in the order of time
        known[node] = now
        if len(known) > MAX_STARTS:
            del known[next(iter(known))]

    def forget_vacated(self, now: float) -> None:
        """Forget nodes that placeholders left longer ago than pods wait for one."""
        for known in (self._vacated, self._made_way):
            while known and next(iter(known.values())) < now - WINDOW_SECONDS:
                del known[next(iter(known))]

    def held_up(self, uid: str) -> None:
        """A waiting pod hangs after a preemption: what it waits for is the scheduler."""
        if uid in self.waiting:
            self.waiting[uid].held_up = True

    def seen(self, pod: Pod, now: float, waited_before: float = 0.0, amounts: Amounts = ()) -> Start | None:
        """A real pod as an event has it; returns its start if the event is the one that shows its node.

        Args:
            pod: neither a placeholder nor a DaemonSet's nor a static one.
            now: monotonic seconds.
            waited_before: how long it was waiting before it was first seen; for pods found in a list.
            amounts: what it requests in effect.
        """
        uid, spec = pod.metadata.uid or "", pod.spec or PodSpec()
        node = spec.node_name
        waiting = self.waiting.get(uid)
        if waiting is not None and waiting.gated:
            waiting.since = now  # until now no scheduler considered it
        if node:
            start = None
            if waiting is not None:
                del self.waiting[uid]
                # a nomination alone does not tell: since 1.35 pods that preempt nobody can have one too
                in_slack = waiting.nominated == node and self._vacated.get(node, -1.0) >= waiting.since
                in_slack = in_slack or self._made_way.get(node, -math.inf) >= waiting.since - MADE_WAY_SECONDS
                start = _start(pod, node, waiting, now, in_slack=in_slack, amounts=amounts)
                self._starts.append(start)
                while self._starts[0].at < now - KEPT_SECONDS:
                    self._starts.popleft()
            return start
        if pod.metadata.deletion_timestamp is not None:
            self.waiting.pop(uid, None)
            return None
        if waiting is None:
            waiting = self.waiting[uid] = _Waiting(now - waited_before)
        waiting.gated = spec.is_gated()
        if pod.status is not None and pod.status.nominated_node_name:
            waiting.nominated = pod.status.nominated_node_name
        return None

    def gone(self, uid: str) -> None:
        """A pod that was deleted, seen or unseen; one that never started counts nowhere."""
        self.waiting.pop(uid, None)

    def drain_starts(self) -> list[Start]:
        """Hand over the starts since the last call."""
        starts = list(self._starts)
        self._starts.clear()
        return starts


def in_free_capacity(starts: Sequence[Start], taken: Mapping[str, int]) -> list[Start]:
    """Say which starts took the capacity that unbound placeholders hold free: the first ones that account for it.

    Args:
        starts: of one policy since the last plan, in order.
        taken: by resource: how much less its placeholders hold than at the last plan.
    """
    left = {name: amount for name, amount in taken.items() if amount > 0}
    found = []
    for start in starts:
        takes = [name for name, amount in start.amounts if amount and left.get(name, 0) > 0]
        found.append(replace(start, in_slack=True) if takes else start)
        for name, amount in start.amounts if takes else ():
            left[name] = left.get(name, 0) - amount
    return found


class InstantRatio:
    """Starts per policy over the last hour. Owned by the planning loop."""

    def __init__(self) -> None:
        self._starts: dict[str, deque[tuple[float, bool]]] = {}
        self._instant: Counter[str] = Counter()
        """By policy: how many of these were instant."""

    def add_starts(self, starts: list[Start], policy_of_node: Mapping[str, str]) -> list[tuple[str, Start]]:
        """Take starts; returns them with their policies, without those on nodes that no policy has."""
        counted = []
        for start in starts:
            policy = policy_of_node.get(start.node)
            if policy is None:
                continue
            window = self._starts.setdefault(policy, deque())
            window.append((start.at, start.waited_seconds <= INSTANT_SECONDS))
            self._instant[policy] += window[-1][1]
            while len(window) > MAX_STARTS or window[0][0] < start.at - WINDOW_SECONDS:
                self._instant[policy] -= window.popleft()[1]
            counted.append((policy, start))
        return counted

    def keep_only(self, policies: Container[str]) -> None:
        """Forget policies that are no more."""
        for name in [name for name in self._starts if name not in policies]:
            del self._starts[name], self._instant[name]

    def ratio_of(self, policy: str) -> float | None:
        """The share of instant starts, None before the first."""
        window = self._starts.get(policy)
        return self._instant[policy] / len(window) if window else None

    def text(self, policy: str) -> str | None:
        """The share as it stands in status: `98%`, rounded down so that 100% means all."""
        ratio = self.ratio_of(policy)
        return None if ratio is None else f"{int(ratio * 100 + 1e-9)}%"
