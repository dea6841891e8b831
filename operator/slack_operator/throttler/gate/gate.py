"""The gate asks the agent for each container of its pod, gives permits as it is told, and withdraws them again.

It decides one thing by itself. If no agent that sees its node's pods has answered for `fail_open_after`, it gives the
permits of all containers: of those that wait for their first start, and of those that run and whose next start would
wait. A throttler that is broken must not keep pods down. The next agent that answers is told of it.
One thread; between the reminders of `REMIND_SECONDS` and the kubelet's probes it sleeps in `select`.
"""

import os
import select
import sys
import time

from slack_operator.throttler.gate.agent_link import CONNECT_SECONDS, AgentLink, LinkDown, is_authority
from slack_operator.throttler.gate.permits import PermitFiles
from slack_operator.throttler.gate.probe_server import ProbeServer
from slack_operator.throttler.gate.settings import GateSettings

TRY_AGAIN_SECONDS = 2.0
"""Between two tries to connect at first; the longer no agent has let the gate in, the longer."""
WAITING_TRY_SECONDS, OPEN_TRY_SECONDS = 5.0, 60.0
"""At the most: while a container waits for a permit, and while none does, as in a gate that has opened."""
_PART_OF_OUTAGE = 0.25
"""So much of the time for which there has been no agent is between two tries."""
REMIND_SECONDS = 15.0
"""Between two asks for a container without a permit: an agent that hangs or sees nothing does not answer them."""
_BLIND_SECONDS = 1.0
"""Until the first ask after an agent has said that it does not see its pods; each further one takes twice as long."""
_SEES_AGAIN_SECONDS = 2.0
"""All gates of a node ask within that, once their agent has told them that it sees its pods again."""
REMINDERS = 3
"""At least so many fit into `fail_open_after`: a healthy agent is heard before the gate opens."""
_FIRST_RING_SECONDS, _LAST_RING_SECONDS = 2.0, 16.0
"""The kubelet says that a container waits at its next look only, so it is made to look until the agent has seen it."""
_LEAST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.2, 60.0
_FROZEN_SECONDS = 5.0
"""A wait that ends so much later than it should: the gate itself was stopped, and could hear nobody meanwhile."""


class Gate:
    """The gate of one pod; `run_next` forever."""

    def __init__(self, settings: GateSettings) -> None:
        """Begin with what an earlier gate of this pod has given.

        Raises:
            OSError: the doorbell's address is taken.
        """
        self._settings = settings
        self._permits = PermitFiles(settings.folder, settings.containers)
        self._doorbell = ProbeServer(settings.doorbell_host, settings.doorbell_port)
        self._link: AgentLink | None = None
        self._waiting = set(settings.containers) - self._permits.given()
        """Those without a permit, unless the agent has said that they run."""
        self._running: set[str] = set()
        """Those without a permit that run: their next start waits."""
        self._instances: dict[str, str] = {}
        """Which instance of each runs, as the agent said last."""
        self._opened: dict[str, float] = {}
        """Those with a permit that no agent gave: for how many seconds none had answered."""
        self._unseen: set[str] = set()
        """Those of which the agent has said that it does not know yet that they wait. Without its word none is: each
        ring makes the pod unready for a second, and after a restart of the gate its containers may run."""
        self._starts = dict.fromkeys(settings.containers, 0)
        """Which start of each the agent spoke of last."""
        self._fail_open_after = settings.fail_open_after
        now = time.monotonic()
        self._heard_at = dict.fromkeys(settings.containers, now)
        self._connect_at = self._connected_by = now
        self._down_since: float | None = None
        """Since when no agent has let this gate in; None: one has."""
        self._remind_at = now
        self._ring_at, self._ring_pause = now + _FIRST_RING_SECONDS, _FIRST_RING_SECONDS
        self._last_problem = self._last_blindness = ""
        self._blind_pause = 0.0
        """Seconds until a blind agent was asked again last; 0: it sees its pods."""
        learnt = self._permits.learnt()
        self._learnt = learnt if learnt and is_authority(learnt) else ""
        """Who signs agents' certificates by now, as an agent has said that was trusted."""

    def run_next(self) -> None:
        """Wait for the next thing to happen or to be due, and do it."""
        now = time.monotonic()
        if self._link is None and now >= self._connect_at:
            self._connect()
        self._ring(time.monotonic())
        ready = self._wait()
        self._doorbell.answer()
        if self._link is not None:
            try:
                self._hear(self._link, ready=self._link.socket in ready)
            except LinkDown as problem:
                self._lost(str(problem))
        self._fail_open(time.monotonic())  # last, so that an answer which is there already is read before

    def _hear(self, link: AgentLink, *, ready: bool) -> None:
        """Go on with a connection that is being made, or take what the agent says."""
        if not link.established:
            if ready:
                link.advance()
            if link.established:
                self._greet()
            elif time.monotonic() >= self._connected_by:
                raise LinkDown(f"no connection within {CONNECT_SECONDS:.0f} s")
            return
        if ready:
            for message in link.receive():
                self._take(message)
        self._remind(time.monotonic())

    def _wait(self) -> list[object]:
        """Sleep until something is ready or due; time in which the gate was stopped is no silence of the agent."""
        link = [self._link.socket] if self._link is not None else []
        writes = self._link is not None and self._link.writes
        sockets = self._doorbell.sockets + ([] if writes else link)
        before = time.monotonic()
        pause = self._pause(before)
        readable, writable, _ = select.select(sockets, link if writes else [], [], pause)
        frozen = time.monotonic() - before - pause
        if frozen > _FROZEN_SECONDS:
            for container in self._heard_at:
                self._heard_at[container] += frozen
        return [*readable, *writable]

    def close(self) -> None:
        """Close all sockets."""
        self._doorbell.close()
        if self._link is not None:
            self._link.close()

    def _connect(self) -> None:
        settings = self._settings
        self._connected_by = time.monotonic() + CONNECT_SECONDS
        try:
            self._link = AgentLink(
                settings.agent_host,
                settings.agent_port,
                settings.server_name,
                f"{settings.authority}\n{self._learnt}",
                settings.token_file,
                settings.static_pod,
            )
        except LinkDown as problem:
            self._lost(str(problem))

    def _greet(self) -> None:
        self._remind_at = time.monotonic() + self._remind_seconds
        for container in self._settings.containers:
            self._ask(container)

    def _ask(self, container: str) -> None:
        if self._link is None:
            return
        message: dict[str, object] = {"type": "ask", "container": container, "start": self._starts[container]}
        if container in self._opened:
            message["opened_seconds"] = round(self._opened[container], 1)
            message["instance"] = self._instances.get(container, "")
        self._link.send(message)

    @property
    def _withheld(self) -> set[str]:
        """The containers without a permit."""
        return self._waiting | self._running

    @property
    def _remind_seconds(self) -> float:
        return min(REMIND_SECONDS, self._fail_open_after / REMINDERS)

    def _remind(self, now: float) -> None:
        if now < self._remind_at:
            return
        self._remind_at = now + self._next_reminder()
        # an agent that sees its pods again is to take back the permits that it did not give
        for container in sorted(self._withheld | self._opened.keys()):
            self._ask(container)

    def _next_reminder(self) -> float:
        """Return the seconds until the next ask: soon after an agent was blind, for that often ends soon."""
        if not self._blind_pause:
            return self._remind_seconds
        pause = min(self._blind_pause, self._remind_seconds)
        self._blind_pause = min(2 * self._blind_pause, REMIND_SECONDS)
        return pause * _jitter()

    def _lost(self, why: str) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._unseen.clear()
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        longest = WAITING_TRY_SECONDS if self._withheld else OPEN_TRY_SECONDS
        pause = max(TRY_AGAIN_SECONDS, min(_PART_OF_OUTAGE * (now - self._down_since), longest))
        self._connect_at = now + pause * _jitter()
        if why != self._last_problem:
            _say(f"no agent: {why}")
            self._last_problem = why

    def _take(self, message: dict[str, object]) -> None:
        """Do what the agent says; what is about no container of ours, or of no kind that we know, is not for us."""
        kind, container = message.get("type"), message.get("container")
        self._last_problem = ""
        if kind == "welcome":
            self._down_since = None
            self._fail_open_after = _seconds(message.get("fail_open_after_seconds"), self._fail_open_after)
            pause = _SEES_AGAIN_SECONDS * _jitter() if self._blind_pause else self._remind_seconds
            self._remind_at = min(self._remind_at, time.monotonic() + pause)
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
        if kind in ("refused", "blind"):  # no answers: the container starts when it has waited long enough
            if kind == "blind" and not self._blind_pause:
                self._blind_pause = _BLIND_SECONDS
                self._remind_at = min(self._remind_at, time.monotonic() + self._next_reminder())
            self._complain(kind, container, str(message.get("reason")))
            return
        if kind not in ("granted", "wait", "withdraw"):
            return
        self._heard_at[container] = time.monotonic()
        self._last_blindness, self._blind_pause = "", 0.0
        self._opened.pop(container, None)
        start = message.get("start", 0)
        self._starts[container] = start if isinstance(start, int) else 0
        if kind == "granted":
            self._give(container, "granted")
            return
        self._permits.withdraw(container)
        if kind == "wait":
            self._waiting.add(container)
            self._running.discard(container)
            self._see(container, seen=message.get("state", "pending") != "downloading")
        else:
            self._waiting.discard(container)
            self._running.add(container)
            self._instances[container] = str(message.get("instance", ""))
            self._unseen.discard(container)

    def _complain(self, kind: str, container: str, reason: str) -> None:
        if kind == "refused":
            _say(f"{container}: refused: {reason}")
        elif reason != self._last_blindness:  # each reminder is answered so
            self._last_blindness = reason
            _say(f"the agent does not see its pods: {reason}")

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
        if container not in self._running and new:
            self._doorbell.flip()  # the kubelet need not look for one that runs, and its pod stays ready
        self._waiting.discard(container)
        self._running.discard(container)
        self._unseen.discard(container)
        if new:
            _say(f"{container}: {why}")

    def _fail_open(self, now: float) -> None:
        for container in sorted(self._withheld):
            silent = now - self._heard_at[container]
            if silent >= self._fail_open_after:
                why = f"may start without a permit: no agent that sees its pods has answered for {silent:.0f} s"
                self._give(container, why)
                if container not in self._withheld:
                    self._opened[container] = silent

    def _ring(self, now: float) -> None:
        if self._unseen and now >= self._ring_at:
            self._doorbell.flip()
            self._ring_pause = min(2 * self._ring_pause, _LAST_RING_SECONDS)
            self._ring_at = now + self._ring_pause

    def _pause(self, now: float) -> float:
        due = [now + _MAX_PAUSE_SECONDS]
        withheld = self._withheld
        if self._link is None:
            due.append(self._connect_at)
        elif not self._link.established:
            due.append(self._connected_by)
        elif withheld or self._opened:
            due.append(self._remind_at)
        if withheld:
            heard = min(self._heard_at[container] for container in withheld)
            due.append(max(heard + self._fail_open_after, now + _LEAST_PAUSE_SECONDS))
        if self._unseen:
            due.append(self._ring_at)
        return max(0.0, min(due) - now)


def _seconds(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value >= 1 else otherwise


def _jitter() -> float:
    """Return a factor between 0.5 and 1, so that the gates of a node do not all come at once."""
    return 0.5 + os.urandom(1)[0] / 510  # `random` would be half a MiB in each gate


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
