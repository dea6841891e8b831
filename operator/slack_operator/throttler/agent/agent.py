"""The agent's parts put together: a reflector of the node's pods, the desk, the gates' server, and what wakes them.

Everything that knows of grants runs in one event loop, in a thread of its own; the reflector's thread hands its events
over. The loop sleeps until something comes in or the decision says when to look again.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.supervisor import first_problem
from slack.supervision.tasks import SupervisedTask
from slack.supervision.threads import SupervisedThread
from slack.throttler.decision import NodeThrottle
from slack.throttler.fsm import StartState
from slack.throttler.limits import SHORTEST_PAUSE_SECONDS, UNKNOWN_USAGE, Limits, Usage
from slack.throttler.protocol import FromAgent, StartRequest, Welcome, Withdraw
from slack.throttler.reports.messages import NodeReport
from slack.throttler.reports.summary import MOVING
from slack_operator.runtime.tokens import claims_of, pod_uid_of
from slack_operator.runtime.watches import Watches
from slack_operator.throttler.agent import node_report
from slack_operator.throttler.agent.gate_server import GateServer, Reviews
from slack_operator.throttler.agent.grant_coordinator import GrantCoordinator, Opened, TickOutcome
from slack_operator.throttler.agent.journal import Journal
from slack_operator.throttler.agent.node_pods import NodePod
from slack_operator.throttler.agent.node_policy import Applied
from slack_operator.throttler.agent.node_report import Tallies
from slack_operator.throttler.agent.start_counts import CurrentStarts
from slack_operator.throttler.agent.static_pods import FOLDER, PREFIX, StaticPods

log = logging.getLogger(__name__)

HEALTHY_SECONDS = 30.0
"""Without a turn of the desk, which has one every few seconds, the agent counts as stuck."""
UNKNOWN_SECONDS = 60.0
"""What the node runs, and by which policy, is waited for so long; then grants go on without."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
Events = Sequence[tuple[EventType, NodePod]]


class StartListener(Protocol):
    """Who hears of what people may want to know; called in the agent's loop, and never waits."""

    def opened(self, pod: NodePod, container: str, now: float) -> None:
        """A container began without a grant."""

    def forced(self, pod: NodePod, container: str, now: float) -> None:
        """A container was let in by minRate alone."""

    def refused(self, pod: NodePod, why: str, now: float) -> None:
        """A pod's dependencies cannot be kept."""

    def late(self, pod: NodePod, container: str, now: float, *, after_seconds: float | None, delete: bool) -> None:
        """A container was not ready in time, and whether its pod is to be evicted."""

    def flush(self, now: float) -> None:
        """A turn is over."""


class TickListener(Protocol):
    """Who counts."""

    def on_turn(self, turn: TickOutcome, *, opened: int, waited: Sequence[float], started: Sequence[float]) -> None:
        """Take in what came of a turn."""

    def show(self, shown: CurrentStarts) -> None:
        """Take in what is there after it."""


class StartAgent:
    """The agent of one node. `start` and `stop` belong to whoever made it."""

    def __init__(
        self,
        connection: Connection,
        node: str,
        journal: Path,
        limits: Limits,
        *,
        usage: Callable[[float, float], Usage] = lambda now, average_over_seconds: UNKNOWN_USAGE,
        telling: StartListener | None = None,
        counting: TickListener | None = None,
        moving: Callable[[], None] = lambda: None,
        permitted: Callable[[], None] = lambda: None,
        follows_policy: bool = False,
        boot: str | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            connection: to the API server.
            node: the node's name.
            journal: where grants are kept.
            limits: what the node's policy comes to.
            usage: reads how loaded the node is, its CPU time as an average over so many seconds.
            telling: hears of what people may want to know.
            counting: counts.
            moving: called in the agent's loop after each turn that leaves somebody waiting or starting.
            permitted: called there after a turn that lets somebody start whose permit the controller writes.
            follows_policy: `limits` are not the policy's yet: `use` tells them, and until then nothing is granted, for
                a minute at the most.
            boot: tells boots apart; the kernel's when absent.
        """
        boot = _BOOT_ID.read_text(encoding="ascii").strip() if boot is None else boot
        self.port = 0
        self._usage = usage
        self._telling = telling
        self._counting = counting
        self._moving = moving
        self._permitted = permitted
        self._tallies = Tallies()
        self._authority = ""
        self._outages = Outages()
        self._was_blind = False
        self._unknown = {"pods"} | ({"policy"} if follows_policy else set())
        began = time.monotonic()
        self._desk = GrantCoordinator(NodeThrottle(limits), Journal(journal, boot), began)
        self._desk.grant_from(began + UNKNOWN_SECONDS)
        reviews = Reviews(connection)
        self._static = StaticPods(reviews, journal.parent / FOLDER, self._desk.mirror)
        self._server = GateServer(
            self._static, self._answer, welcome=self._welcome, known=reviews.known, expects=self._expects
        )
        self._pods = Reflector(connection, "/api/v1/pods", NodePod, _Sink(self), field_selector=f"spec.nodeName={node}")
        self._view = Watches((self._pods,))
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._heart = Heartbeat("the desk", HEALTHY_SECONDS)
        self._thread = SupervisedThread(self._loop.run_forever, name="agent", heart=self._heart)
        self._turning: SupervisedTask | None = None

    def start(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        """Serve gates and follow pods.

        Raises:
            OSError: the address cannot be bound.
        """
        self._static.prepare()
        self._thread.start()
        self.port = self._call(self._begin(host, port, tls))
        self._pods.start()

    def stop(self) -> None:
        """End everything, also what was never started; grants stay in the journal."""
        self._pods.stop()
        if self._thread.alive:
            self._thread.dismiss()
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    @property
    def running(self) -> bool:
        """Whether its loop runs."""
        return self._thread.alive

    def unhealthy(self) -> str | None:
        """Return why nothing is decided on the node any more; None if all threads and tasks work."""
        turning = () if self._turning is None else (self._turning,)
        return first_problem(*turning, self._thread, self._server, self._pods)

    def apply_events(self, events: Events) -> None:
        """Take events of pods, from another thread, and wait until the desk has them: in their order."""
        self._call(self._apply(events))

    def keep(self, uids: frozenset[str]) -> None:
        """Forget every pod but these, from another thread."""
        self._call(self._keep(uids))

    def use(self, limits: Limits) -> None:
        """Go by other limits from now on, from another thread; who was granted stays so."""
        self._call(self._use(limits))

    def trust(self, authority: str) -> None:
        """Tell gates, from another thread, who signs agents' certificates from now on: PEM."""
        self._call(self._trust(authority))

    def report(self, node: str, applied: Applied, cores: float) -> NodeReport | None:
        """Make a report of now, from another thread; None while the node's pods are being listed for the first time."""
        found: NodeReport | None = self._call(self._made_report(node, applied, cores))
        return found

    @property
    def pods(self) -> Reflector[NodePod]:
        """What follows the node's pods."""
        return self._pods

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        bound = await self._server.start(host, port, tls)
        self._turning = SupervisedTask(self._turn(), heart=self._heart)
        return bound

    async def _end(self) -> None:
        if self._turning is not None:
            await self._turning.end()
        await self._server.stop()

    async def _apply(self, events: Events) -> None:
        now = time.monotonic()
        for kind, pod in events:
            if kind is EventType.DELETED:
                self._forget(pod.metadata.uid)
            else:
                self._tell(self._desk.update(pod, now))
        self._wake.set()

    async def _keep(self, uids: frozenset[str]) -> None:
        for uid in self._desk.uids - uids:
            self._forget(uid)
        self._know("pods")

    def _forget(self, uid: str) -> None:
        self._desk.forget(uid)
        self._server.part(uid)

    async def _use(self, limits: Limits) -> None:
        self._desk.throttle.use(limits)
        self._server.welcome_all()
        self._know("policy")

    async def _made_report(self, node: str, applied: Applied, cores: float) -> NodeReport | None:
        blind = self._blind()
        if "pods" in self._unknown and not self._pods.forbidden:
            return None
        usage = self._load(time.monotonic())
        return node_report.report(node, applied, cores, self._desk, self._tallies, usage, blind=blind)

    async def _trust(self, authority: str) -> None:
        self._authority = authority
        self._server.welcome_all()

    def _know(self, what: str) -> None:
        if what in self._unknown:
            self._unknown.discard(what)
            if not self._unknown:
                self._desk.grant_from(time.monotonic())
        self._wake.set()

    def _expects(self, token: str) -> bool:
        """Whether a token claims to be of a pod of this node."""
        return token.startswith(PREFIX) or self._desk.pod(pod_uid_of(claims_of(token))) is not None

    def _welcome(self) -> Welcome:
        limits = self._desk.throttle.limits
        return Welcome(
            fail_open_after_seconds=limits.fail_open_after_seconds,
            gate_restarts=limits.gate_restarts,
            authority=self._authority,
        )

    def _load(self, now: float) -> Usage:
        return self._usage(now, self._desk.throttle.limits.average_over_seconds)

    def _answer(self, uid: str, asked: StartRequest) -> FromAgent:
        now = time.monotonic()
        opened = Opened(asked.instance) if asked.opened_seconds else None
        answer = self._desk.ask(uid, asked.container, now, self._load(now), blind=self._blind(), opened=opened)
        if not isinstance(answer, Withdraw):  # gates of all that runs ask every few seconds
            self._wake.set()
        return answer

    def _blind(self) -> str | None:
        """Say why the pods that the desk knows may not be the node's any more; None if they are."""
        if self._pods.forbidden:
            return f"the node's pods may not be watched: {self._pods.last_error}"
        return self._view.stale()

    async def _turn(self) -> None:
        while True:
            try:
                pause = self._decide()
                self._heart.beat()
            except Exception:  # a bug costs its turn; turns that all fail write no stamp, and liveness ends the agent
                log.exception("a turn has failed")
                pause = SHORTEST_PAUSE_SECONDS
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
            self._wake.clear()

    def _decide(self) -> float:
        """Take one turn, and return the seconds until the next one."""
        now = time.monotonic()
        usage = self._load(now)
        was_blind, self._was_blind = self._was_blind, self._blind() is not None
        if was_blind and not self._was_blind:
            self._server.welcome_all()  # gates ask soon then
        turn = self._desk.grant_due(now, usage, blind=self._was_blind)
        self._tell(turn.messages)
        try:
            self._report(turn, now)
        except Exception:  # a start is worth more than what is said of it
            log.exception("what came of a turn cannot be told")
        due = self._desk.next_look(now, usage)
        longest = self._desk.throttle.limits.longest_pause_seconds
        return longest if due is None else min(max(due - now, 0.01), longest)

    def _report(self, turn: TickOutcome, now: float) -> None:
        """Tell people, logs and counters what came of a turn."""
        desk, limits = self._desk, self._desk.throttle.limits
        opened, refused, waited, started = desk.opened, desk.refused, desk.waited, desk.started
        desk.opened, desk.refused, desk.waited, desk.started = [], [], [], []
        self._tallies.count_tick(turn, len(opened))
        counts = desk.throttle.counts()
        if desk.bad or any(counts[state] for state in MOVING):
            self._moving()
        if turn.permits:
            self._permitted()
        if turn.unwritten is not None and self._outages.is_new(turn.unwritten):
            log.warning("the journal cannot be written, starts go on: %s", turn.unwritten)
        if self._counting is not None:
            self._counting.on_turn(turn, opened=len(opened), waited=waited, started=started)
            self._counting.show(self._standing(counts))
        if self._telling is None:
            return
        for late in turn.late:
            if (pod := desk.pod(late.key.pod)) is not None:
                after_seconds = limits.start_timeout_seconds
                self._telling.late(pod, late.key.container, now, after_seconds=after_seconds, delete=late.delete)
        for key in opened:
            if (pod := desk.pod(key.pod)) is not None:
                self._telling.opened(pod, key.container, now)
        for grant in turn.grants:
            if grant.forced and (pod := desk.pod(grant.key.pod)) is not None:
                self._telling.forced(pod, grant.key.container, now)
        for pod, why in refused:
            self._telling.refused(pod, why, now)
        self._telling.flush(now)

    def _standing(self, counts: Mapping[StartState, int]) -> CurrentStarts:
        return CurrentStarts(
            counts=counts,
            slots=self._desk.throttle.limits.slots,
            taken=self._desk.throttle.starting,
            gates=self._server.gates,
            refused=self._server.refused,
            policy_known="policy" not in self._unknown,
            blind=self._was_blind,
        )

    def _tell(self, messages: Sequence[tuple[str, FromAgent]]) -> None:
        for uid, message in messages:
            self._server.send_to_gate(uid, message)


class _Sink:
    """What the reflector calls, in its own thread."""

    def __init__(self, agent: StartAgent) -> None:
        self._agent = agent
        self._seen: set[str] | None = None

    def begin(self) -> None:
        """A list begins."""
        self._seen = set()

    def apply(self, events: Events) -> None:
        """Some pods."""
        if self._seen is not None:
            self._seen.update(pod.metadata.uid for _, pod in events)
        self._agent.apply_events(events)

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        if self._seen is not None:
            self._seen.add(who.uid)

    def end(self) -> None:
        """The list is whole: what it has not is gone."""
        if self._seen is not None:
            self._agent.keep(frozenset(self._seen))
        self._seen = None
