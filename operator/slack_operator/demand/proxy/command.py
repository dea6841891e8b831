"""Runs messages by a command of one's own that stays: a JSON line in for each message, a JSON line out when it is done.

In: `{"id": ..., "queue": ..., "attempt": 1, "body": "..."}`; a body that is no UTF-8 text is `"base64": "..."` instead.
Out: `{"ok": true}`, or `{"ok": false, "error": "...", "retryAfterMs": 100}`; with `"id"` when several run at once, as
they may end in any order. What it writes to stderr is the container's log. With `protocol http` the command serves HTTP
on the port that PORT says, and messages are POSTed there.
"""

import asyncio
import base64
import contextlib
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from typing import Final

import msgspec

from slack.demand.broker import PulledMessage
from slack_operator.demand.proxy.loopback import LoopbackRunner
from slack_operator.demand.proxy.runner import DONE, RunnerGone, RunOutcome

MOST_LINE_BYTES: Final = 1 << 20
END_SECONDS: Final = 5.0
_LONGEST_DELAY_SECONDS: Final = 3600.0


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    ok: bool
    id: str | None = None
    error: str = ""
    retry_after_ms: float = 0.0


_ANSWER: Final = msgspec.json.Decoder(_Answer)


async def start_process(command: str, *, stdin: int | None, stdout: int | None, port: int | None = None) -> Process:
    """Start a command in a process group of its own.

    Raises:
        RunnerGone: there is no such command, or it cannot be split into words.
    """
    environment = dict(os.environ) if port is None else {**os.environ, "PORT": f"{port}"}
    try:
        words = shlex.split(command)
        return await asyncio.create_subprocess_exec(
            *words, stdin=stdin, stdout=stdout, env=environment, start_new_session=True, limit=MOST_LINE_BYTES
        )
    except (OSError, ValueError) as error:
        raise RunnerGone(f"--command: {error.strerror if isinstance(error, OSError) else error}") from None


async def end_process(process: Process | None) -> None:
    """End a command and what it started: SIGTERM, then SIGKILL."""
    if process is None:
        return
    for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if process.returncode is not None:
            continue  # its children have had the signal
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)


class LinesRunner:
    """A command that reads lines and writes lines."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: Process | None = None
        self._waiting: deque[tuple[str, asyncio.Future[RunOutcome]]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._gone: str | None = None

    async def start(self) -> None:
        """Start the command; it may read when it likes."""
        self._process = await start_process(self._command, stdin=PIPE, stdout=PIPE)
        self._reading = asyncio.get_running_loop().create_task(self._read(self._process))

    async def run(self, message: PulledMessage) -> RunOutcome:
        """Write a line, and wait for its answer."""
        if self._gone is not None or self._process is None or self._process.stdin is None:
            raise RunnerGone(self._gone or "the command was not started")
        answer: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((message.id, answer))
        try:
            self._process.stdin.write(_line(message))
            await self._process.stdin.drain()
        except OSError:
            await asyncio.sleep(0)  # what reads says how it ended
        return await answer

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None, "it was asked for"
        why = ""
        try:
            while line := await process.stdout.readline():
                self._take(_ANSWER.decode(line))
        except ValueError as error:  # longer than a line may be, or no JSON of ours
            why = f"an answer that cannot be read: {str(error)[:200]}"
        if not why:
            why = f"the command ended with {await process.wait()}"
        self._gone = why
        while self._waiting:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(RunnerGone(why))

    def _take(self, answer: _Answer) -> None:
        """Hand an answer to who waits for it: by its id, or to the one that waits longest."""
        for index, (message_id, waiting) in enumerate(self._waiting):
            if answer.id is None or answer.id == message_id:
                del self._waiting[index]
                if not waiting.done():  # one that was given up has its answer late
                    delay = min(answer.retry_after_ms / 1000, _LONGEST_DELAY_SECONDS) or None
                    reason = answer.error[:200] or "not ok"
                    waiting.set_result(
                        DONE if answer.ok else RunOutcome(done=False, reason=reason, delay_seconds=delay)
                    )
                return

    def broken(self) -> str | None:
        """Say that the command has ended."""
        return self._gone

    async def close(self) -> None:
        """End the command."""
        await end_process(self._process)
        if self._reading is not None:
            await self._reading


class ServedRunner(LoopbackRunner):
    """A command that serves HTTP on the port that it is given."""

    def __init__(self, command: str, url: str) -> None:
        super().__init__(url)
        self._command = command
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the command, and wait until it listens."""
        if self._process is None:
            self._process = await start_process(self._command, stdin=None, stdout=None, port=self._port)
        listening = asyncio.ensure_future(super().start())
        ending = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({listening, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (listening, ending):
                task.cancel()
        if self._process.returncode is not None:
            raise RunnerGone(f"the command ended with {self._process.returncode}")

    async def run(self, message: PulledMessage) -> RunOutcome:
        """POST one message, while the command lives."""
        outcome = await super().run(message)
        if not outcome.done and self._process is not None and self._process.returncode is not None:
            raise RunnerGone(f"the command ended with {self._process.returncode}")
        return outcome

    async def close(self) -> None:
        """Close the connections, and end the command."""
        await super().close()
        await end_process(self._process)


def _line(message: PulledMessage) -> bytes:
    told: dict[str, object] = {"id": message.id, "queue": message.queue, "attempt": message.attempt}
    try:
        told["body"] = message.body.decode()
    except UnicodeDecodeError:
        told["base64"] = base64.b64encode(message.body).decode()
    return msgspec.json.encode(told) + b"\n"
