"""Pulls from JetStream consumers: which requests are open, and what came for those that nobody waits for any more.

The client library's `fetch` would do, but leaves a batch's rest in flight at a container that is busy, and what a
cancelled call would have got is lost until the ack wait is over. Here a request for several is answered at once with
what is there, and only a request for one waits; what comes for a cancelled one is held for the next pull, or given
back.
"""

import asyncio
from collections import defaultdict, deque
from typing import Any, Final

import msgspec
from nats.aio.msg import Msg

from slack_operator.demand.brokers.nats_layout import NANOS, consumer_name

_NO_RESPONDERS: Final = "503"
_HEARTBEAT: Final = "100"
_CONFLICT: Final = "409"
_GONE: Final = ("deleted", "no longer", "not found")


class Pull:
    """One request of ours that is open at the server."""

    __slots__ = ("changed", "ended", "messages", "missing", "queue", "wanted")

    def __init__(self, queue: str, wanted: int) -> None:
        self.queue = queue
        self.wanted = wanted
        self.messages: list[Msg] = []
        self.ended = False
        self.missing = False
        """There is no such consumer: it was never made, or went after an hour without pulls."""
        self.changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether all that was asked for has come."""
        return len(self.messages) >= self.wanted

    def takes(self, queue: str) -> bool:
        """Say whether a message of that queue is for it."""
        return self.queue == queue and not self.is_full and not self.ended


class Pulls:
    """All open requests of one connection, of one event loop.

    A message comes with its queue's name as subject, and goes to the queue's oldest open request; how a request ended
    comes with the request's own word, the last of its reply's subject.
    """

    def __init__(self) -> None:
        self._open: dict[str, Pull] = {}
        self._number = 0
        self._held: defaultdict[str, deque[Msg]] = defaultdict(deque)

    def held(self, queue: str, count: int) -> list[Msg]:
        """Take what came for cancelled pulls of that queue."""
        waiting = self._held.get(queue)
        return [waiting.popleft() for _ in range(min(count, len(waiting)))] if waiting else []

    def all_held(self) -> list[Msg]:
        """Take all that came for cancelled pulls: to be given back."""
        messages = [message for waiting in self._held.values() for message in waiting]
        self._held.clear()
        return messages

    def begin(self, queue: str, wanted: int) -> tuple[str, Pull]:
        """Open a request; returns its word with it."""
        self._number += 1
        word, pull = f"{self._number}", Pull(queue, wanted)
        self._open[word] = pull
        return word, pull

    def end(self, word: str, *, cancelled: bool = False) -> None:
        """Forget a request; what still comes for it is held, and what came too when its caller is gone."""
        pull = self._open.pop(word)
        if cancelled:
            self._held[pull.queue].extend(pull.messages)

    def fail_all(self) -> None:
        """The connection is gone: the server has forgotten all requests."""
        for pull in self._open.values():
            pull.ended = True
            pull.changed.set()

    async def on_message(self, message: Msg) -> None:
        """Take what the server sent: a message, or how a request ended."""
        if message.reply:  # a stored message has where to ack it, whatever headers its publisher gave it
            pull = next((found for found in self._open.values() if found.takes(message.subject)), None)
            if pull is None:
                self._held[message.subject].append(message)
                return
            pull.messages.append(message)
        else:
            headers = message.headers or {}
            status, told = headers.get("Status"), headers.get("Description", "").lower()
            pull = self._open.get(message.subject.rpartition(".")[2])
            if pull is None or status == _HEARTBEAT:
                return
            pull.ended = True
            pull.missing = status == _NO_RESPONDERS or (status == _CONFLICT and any(word in told for word in _GONE))
        pull.changed.set()


async def wait_for(pull: Pull, seconds: float) -> None:
    """Wait until all has come that was asked for, the request has ended, or the time is over."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not pull.is_full and not pull.ended:
        pull.changed.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await pull.changed.wait()
        except TimeoutError:
            return


def next_request(count: int, wait_seconds: float | None) -> bytes:
    """Write what is asked of a consumer: so many at once as there are, or the next one within a time."""
    asked: dict[str, Any] = {"batch": count}
    if wait_seconds is None:
        asked["no_wait"] = True
    else:
        asked["expires"] = max(int(wait_seconds * NANOS), 1_000_000)
    return msgspec.json.encode(asked)


def next_subject(stream: str, queue: str) -> str:
    """Return where a queue's consumer is asked."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer_name(queue)}"
