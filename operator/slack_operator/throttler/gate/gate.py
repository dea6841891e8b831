"""What the gate does: it asks for each container of its pod, gives permits as it is told, and withdraws them again.

It decides nothing but one thing: where no agent has answered for `fail_open_after` while a container waits, all may
start, since a throttler that is broken must not keep pods down. The agent is told of it when it is there again.
One thread; while nothing changes it sleeps in `select` (but for the kubelet's probe).
"""

import select
import sys
import time

from slack_operator.throttler.gate.agent_link import AgentLink, LinkDown, is_authority
from slack_operator.throttler.gate.doorbell import Doorbell
from slack_operator.throttler.gate.permits import Permits
from slack_operator.throttler.gate.settings import GateSettings

TRY_AGAIN_SECONDS = 2.0
REMIND_SECONDS = 15.0
"""A container that waits is asked for again so often: an agent that hangs does not answer that."""
_FIRST_RING_SECONDS, _LAST_RING_SECONDS = 2.0, 16.0
"""The kubelet says that a container waits at its next look only, so it is made to look until the agent has seen it."""
_LEAST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.2, 60.0


class Gate:
    """The gate of one pod; `turn` forever."""

    def __init__(self, settings: GateSettings) -> None:
        """Begin with what an earlier gate of this pod has given.

        Raises:
            OSError: the doorbell's address is taken.
        """
        self._settings = settings
        self._permits = Permits(settings.folder, settings.containers)
        self._doorbell = Doorbell(settings.doorbell_host, settings.doorbell_port)
        self._link: AgentLink | None = None
        self._waiting = set(settings.containers)
        """Those that may not start and that the agent has not said to be running."""
        self._unseen = set(settings.containers)
        """Those of which the agent does not know yet that they wait."""
        self._starts = dict.fromkeys(settings.containers, 0)
        """Which start of each the agent spoke of last."""
        self._fail_open_after = settings.fail_open_after
        now = time.monotonic()
        self._heard_at = dict.fromkeys(settings.containers, now)
        self._connect_at = now
        self._remind_at = now
        self._ring_at, self._ring_pause = now + _FIRST_RING_SECONDS, _FIRST_RING_SECONDS
        self._last_problem = ""
        learnt = self._permits.learnt()
        self._learnt = learnt if learnt and is_authority(learnt) else ""
        """Who signs agents' certificates by now, as an agent has said that was trusted."""

    def turn(self) -> None:
        """Wait for the next thing to happen or to be due, and do it."""
        now = time.monotonic()
        if self._link is None and now >= self._connect_at:
            self._connect()
        self._fail_open(time.monotonic())
        self._ring(time.monotonic())
        sockets = [self._doorbell.socket] + ([self._link.socket] if self._link is not None else [])
        readable, _, _ = select.select(sockets, [], [], self._pause(time.monotonic()))
        if self._doorbell.socket in readable:
            self._doorbell.answer()
        if self._link is not None:
            try:
                if self._link.socket in readable:
                    for message in self._link.receive():
                        self._take(message)
                self._remind(time.monotonic())
            except LinkDown as problem:
                self._lost(str(problem))

    def close(self) -> None:
        """Close all sockets."""
        self._doorbell.close()
        if self._link is not None:
            self._link.close()

    def _connect(self) -> None:
        settings = self._settings
        self._connect_at = time.monotonic() + TRY_AGAIN_SECONDS
        try:
            self._link = AgentLink(
                settings.agent_host,
                settings.agent_port,
                settings.server_name,
                f"{settings.authority}\n{self._learnt}",
                settings.token_file,
                settings.static_pod,
            )
            self._remind_at = time.monotonic() + REMIND_SECONDS
            for container in settings.containers:
                self._ask(container)
        except LinkDown as problem:
            self._lost(str(problem))

    def _ask(self, container: str) -> None:
        if self._link is not None:
            self._link.send({"type": "ask", "container": container, "start": self._starts[container]})

    def _remind(self, now: float) -> None:
        if now >= self._remind_at and self._waiting:
            self._remind_at = now + REMIND_SECONDS
            for container in sorted(self._waiting):
                self._ask(container)

    def _lost(self, why: str) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._connect_at = time.monotonic() + TRY_AGAIN_SECONDS
        if why != self._last_problem:
            _say(f"no agent: {why}")
            self._last_problem = why

    def _take(self, message: dict[str, object]) -> None:
        """Do what the agent says; what is about no container of ours, or of no kind that we know, is not for us."""
        kind, container = message.get("type"), message.get("container")
        self._last_problem = ""
        if kind == "welcome":
            self._fail_open_after = _seconds(message.get("fail_open_after_seconds"), self._fail_open_after)
            self._learn(message.get("authority"))
        elif kind == "ping" and self._link is not None:
            self._link.send({"type": "pong"})
        elif isinstance(container, str) and container in self._starts:
            self._answer(str(kind), container, message)

    def _learn(self, authority: object) -> None:
        """Trust what an agent that is trusted says of its certificates to come: a CA may be another one tomorrow."""
        if not isinstance(authority, str) or not authority or authority == self._learnt or not is_authority(authority):
            return
        self._learnt = authority
        try:
            self._permits.learn(authority)
        except OSError as error:
            _say(f"the agents' new authority is not kept beyond this gate: {error}")

    def _answer(self, kind: str, container: str, message: dict[str, object]) -> None:
        if kind == "refused":  # which is no answer: the container waits, and starts when it has waited long enough
            _say(f"{container}: refused: {message.get('reason')}")
            return
        if kind not in ("granted", "wait", "withdraw"):
            return
        self._heard_at[container] = time.monotonic()
        start = message.get("start", 0)
        self._starts[container] = start if isinstance(start, int) else 0
        if kind == "granted":
            self._give(container, "granted")
            return
        self._permits.withdraw(container)
        if kind == "wait":
            self._waiting.add(container)
            self._see(container, seen=message.get("state", "pending") != "downloading")
        else:
            self._waiting.discard(container)
            self._unseen.discard(container)

    def _see(self, container: str, *, seen: bool) -> None:
        if seen:
            self._unseen.discard(container)
        elif container not in self._unseen:
            self._unseen.add(container)
            self._ring_pause = _FIRST_RING_SECONDS
            self._ring_at = time.monotonic() + self._ring_pause

    def _give(self, container: str, why: str) -> None:
        try:
            new = self._permits.give(container)
        except OSError as error:
            _say(f"{container}: the permit cannot be written: {error}")
            return  # it goes on waiting, and is asked for again
        self._waiting.discard(container)
        self._unseen.discard(container)
        if new:
            _say(f"{container}: {why}")
        self._doorbell.ring()

    def _fail_open(self, now: float) -> None:
        for container in sorted(self._waiting):
            silent = now - self._heard_at[container]
            if silent >= self._fail_open_after:
                self._give(container, f"started without a permit: no agent has answered for {silent:.0f} s")

    def _ring(self, now: float) -> None:
        if self._unseen and now >= self._ring_at:
            self._doorbell.ring()
            self._ring_pause = min(2 * self._ring_pause, _LAST_RING_SECONDS)
            self._ring_at = now + self._ring_pause

    def _pause(self, now: float) -> float:
        due = [now + _MAX_PAUSE_SECONDS]
        if self._link is None:
            due.append(self._connect_at)
        if self._waiting:
            heard = min(self._heard_at[container] for container in self._waiting)
            due.append(max(heard + self._fail_open_after, now + _LEAST_PAUSE_SECONDS))
        if self._waiting and self._link is not None:
            due.append(self._remind_at)
        if self._unseen:
            due.append(self._ring_at)
        return max(0.0, min(due) - now)


def _seconds(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value >= 1 else otherwise


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
