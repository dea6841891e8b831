"""What is seen of a load while it goes on, and the report that it comes to. All times are seconds of one clock."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from slack.loadtest.report import LoadTestReport, Moment


@dataclass(slots=True)
class _Pod:
    made_at: float
    bound_at: float | None = None
    gone_at: float | None = None
    ready_at: float | None = None
    waits_for: str = ""


@dataclass(slots=True)
class LoadMeter:
    """Keeps pods, placeholders and nodes as they are seen. Called by one thread at a time."""

    began_at: float | None = None
    """None before the load has begun."""
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _placeholders: dict[str, bool] = field(default_factory=dict)
    """By uid: whether it has a node."""
    _ready: dict[str, bool] = field(default_factory=dict)
    _displaced: int = 0
    _ended_at: float | None = None
    _moments: list[Moment] = field(default_factory=list)
    changed_at: float = 0.0
    """When a pod was made or bound, or a node came, for the last time."""

    def pod_seen(
        self, uid: str, node: str | None, waits_for: str, at: float, *, ready: bool = False, gone: bool = False
    ) -> None:
        """Take a pod of the load; what it `waits_for` are the scheduler's words, '' for none."""
        pod = self._pods.get(uid)
        if pod is None:
            if gone:
                return
            pod = self._pods[uid] = _Pod(at)
            self.changed_at = at
        if node and pod.bound_at is None:
            pod.bound_at = self.changed_at = at
        if ready and pod.ready_at is None:
            pod.ready_at = self.changed_at = at
        pod.waits_for = "" if node else waits_for or pod.waits_for
        if gone and pod.gone_at is None:
            pod.gone_at = at

    def placeholder_seen(self, uid: str, node: str | None, *, gone: bool = False) -> None:
        """Take a placeholder; one that leaves its node while the load is there has made room for it.

        Placeholders that make way leave when the Deployment's count rises, which is before the first pod is there.
        """
        if gone:
            if self._placeholders.pop(uid, False) and self.began_at is not None and self._ended_at is None:
                self._displaced += 1
            return
        self._placeholders[uid] = bool(node)

    def node_seen(self, name: str, at: float, *, ready: bool, gone: bool = False) -> None:
        """Take a node."""
        if gone:
            self._ready.pop(name, None)
            return
        if ready and not self._ready.get(name, False):
            self.changed_at = at
        self._ready[name] = ready

    def began(self, at: float) -> None:
        """The load asks for its first pods next."""
        self.began_at = self.changed_at = at

    def ended(self, at: float) -> None:
        """The load is taken away: what leaves from now on leaves for that."""
        self._ended_at = at

    def tick(self, at: float) -> Moment:
        """Return what is there now, and remember it."""
        waiting = sum(pod.bound_at is None and pod.gone_at is None for pod in self._pods.values())
        bound = sum(pod.bound_at is not None and pod.gone_at is None for pod in self._pods.values())
        placeholders = sum(self._placeholders.values())
        moment = Moment(self._since_begin(at), bound, waiting, placeholders, self.nodes)
        self._moments.append(moment)
        return moment

    def _since_begin(self, at: float) -> float:
        return 0.0 if self.began_at is None else at - self.began_at

    @property
    def nodes(self) -> int:
        """How many nodes are ready."""
        return sum(self._ready.values())

    @property
    def made(self) -> int:
        """How many pods were made so far."""
        return len(self._pods)

    def report(self, at: float) -> LoadTestReport:
        """Return what came of it; a pod without a node counts with the time that it has waited."""
        until = at if self._ended_at is None else self._ended_at
        waits = [
            (pod.bound_at if pod.bound_at is not None else min(pod.gone_at or until, until)) - pod.made_at
            for pod in self._pods.values()
        ]
        unbound = [pod for pod in self._pods.values() if pod.bound_at is None]
        return LoadTestReport(
            waits_seconds=tuple(sorted(max(0.0, wait) for wait in waits)),
            unbound=len(unbound),
            ready_seconds=tuple(
                sorted(max(0.0, pod.ready_at - pod.made_at) for pod in self._pods.values() if pod.ready_at is not None)
            ),
            displaced=self._displaced,
            moments=tuple(self._moments),
            ended_seconds=None if self._ended_at is None else self._since_begin(self._ended_at),
            waits_for=_commonest(pod.waits_for for pod in unbound),
        )


def _commonest(texts: Iterable[str]) -> str:
    counted = Counter(filter(None, texts))
    return max(counted, key=lambda text: (counted[text], text)) if counted else ""
