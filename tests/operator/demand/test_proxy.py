"""The proxy's slots, counts and runners, without a server of a broker."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from slack.demand.broker import Duration, MessageCount, PulledMessage
from slack_operator.demand.proxy.command import LinesRunner
from slack_operator.demand.proxy.counts import ProxyCounts
from slack_operator.demand.proxy.loopback import LoopbackRunner, printable
from slack_operator.demand.proxy.runner import DONE, RunnerGone, RunOutcome, WaitRunner
from slack_operator.demand.proxy.slots import Slots, SlotSettings
from tests.cases import run_for_each
from tests.operator.demand.memory_broker import MemoryBroker

QUEUE = "act.a.b.1"


class Scripted(WaitRunner):
    """A runner whose outcomes are given by body."""

    def __init__(self, **outcomes: RunOutcome | Exception | float) -> None:
        super().__init__(0.0)
        self.outcomes = outcomes
        self.at_once = self.most_at_once = 0

    async def run(self, message: PulledMessage) -> RunOutcome:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            outcome = self.outcomes.get(message.body.decode(), DONE)
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, float):
                await asyncio.sleep(outcome)
                return DONE
            return outcome
        finally:
            self.at_once -= 1


def play(
    broker: MemoryBroker,
    runner: WaitRunner,
    until: Callable[[], bool],
    *,
    slots: int = 1,
    queues: tuple[str, ...] = (QUEUE,),
    messages: int = 0,
    ack_wait: float = 0.04,
    longest_run: float = 5.0,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> Slots:
    """Run slots until something holds, then drain them."""
    settings = SlotSettings(
        queues=queues,
        slots=slots,
        ack_wait_seconds=Duration(ack_wait),
        messages=messages,
        longest_run_seconds=longest_run,
    )
    found = Slots(broker, runner, settings, ProxyCounts("c", slots))

    async def whole() -> None:
        running = asyncio.create_task(found.run())
        if meanwhile is not None:
            await meanwhile()
        for _ in range(1000):
            if until() or running.done():
                break
            await asyncio.sleep(0.005)
        found.drain()
        await asyncio.wait_for(running, 5.0)

    asyncio.run(whole())
    return found


def test_a_message_is_acked_after_its_run_and_one_a_free_slot_is_pulled() -> None:
    broker, runner = (
        MemoryBroker(*b"abcdef".split(b","), b"1", b"2", b"3"),
        Scripted(**{"1": 0.02, "2": 0.02, "3": 0.02}),
    )
    play(broker, runner, lambda: len(broker.acked) == 4, slots=2)
    assert sorted(broker.acked) == [b"1", b"2", b"3", b"abcdef"]
    assert runner.most_at_once == 2
    assert broker.made[0].name == QUEUE


def test_what_failed_is_given_back_with_a_delay_that_the_runner_may_say() -> None:
    broker = MemoryBroker(b"bad", b"busy", b"good")
    runner = Scripted(bad=RunOutcome(done=False, reason="HTTP 500"), busy=RunOutcome(done=False, delay_seconds=7.0))
    play(broker, runner, lambda: bool(broker.acked))
    assert broker.given_back == [(b"bad", 0.1), (b"busy", 7.0)]
    assert broker.acked == [b"good"]


def test_a_run_that_goes_on_is_extended_and_one_that_takes_too_long_is_given_back() -> None:
    broker = MemoryBroker(b"long")
    play(broker, Scripted(long=0.1), lambda: bool(broker.acked))
    assert len(broker.extended) >= 3
    broker = MemoryBroker(b"endless")
    play(broker, Scripted(endless=30.0), lambda: bool(broker.given_back), longest_run=0.02)
    assert broker.given_back == [(b"endless", 0.1)]


def test_queues_of_an_earlier_memory_go_first() -> None:
    broker = MemoryBroker(b"new")
    asyncio.run(broker.publish("act.a.b.2", b"old"))
    play(broker, Scripted(), lambda: len(broker.acked) == 2, queues=(QUEUE, "act.a.b.2"))
    assert broker.acked == [b"old", b"new"]


def test_it_ends_after_its_number_of_messages_however_many_slots_it_has() -> None:
    broker = MemoryBroker(*(b"%d" % number for number in range(9)))
    slots = play(broker, Scripted(), lambda: False, messages=3, slots=2)
    assert len(broker.acked) == 3
    assert slots.draining


def test_more_slots_than_messages_pull_no_more_than_it_may_have() -> None:
    broker = MemoryBroker(*(b"%d" % number for number in range(9)))
    play(broker, Scripted(), lambda: False, messages=1, slots=4)
    assert len(broker.acked) == 1
    assert len(broker.waiting[QUEUE]) == 8


def test_draining_finishes_what_runs_and_pulls_no_more() -> None:
    broker = MemoryBroker(b"runs", b"waits")
    runner = Scripted(runs=0.1)
    play(broker, runner, lambda: runner.at_once == 1, ack_wait=5.0)
    assert broker.acked == [b"runs"]
    assert len(broker.waiting[QUEUE]) == 1


class HungBroker(MemoryBroker):
    """Answers nothing once it hangs: an ack is waited for, and so is what a cancelled pull has to say."""

    hangs = False

    async def pull(self, queue: str, count: MessageCount, wait_seconds: Duration) -> Sequence[PulledMessage]:
        if not self.hangs:
            return await super().pull(queue, count, wait_seconds)
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            await asyncio.sleep(60.0)
            raise
        return []

    async def ack(self, message: PulledMessage) -> None:
        if self.hangs:
            await asyncio.sleep(60.0)
        await super().ack(message)


@pytest.mark.parametrize("during", ["a pull", "an ack", "a run"])
def test_draining_takes_less_than_a_second_beside_a_broker_that_hangs(during: str) -> None:
    broker = HungBroker(*([] if during == "a pull" else [b"x"]))
    runner = Scripted(x=0.3 if during == "a run" else 0.05)
    slots = Slots(broker, runner, SlotSettings(queues=(QUEUE,), ack_wait_seconds=Duration(30.0)), ProxyCounts("c", 1))

    async def whole() -> float:
        running = asyncio.create_task(slots.run())
        await asyncio.sleep(0.02)
        broker.hangs = True
        await asyncio.sleep(0.2)
        assert runner.at_once == (during == "a run")
        began = asyncio.get_running_loop().time()
        slots.drain()
        await running
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(whole()) < 1.0
    assert not broker.acked
    assert slots.reachable == (during != "a pull"), "who hangs when a pull ends is said no goodbye"


def test_a_broker_that_is_gone_is_waited_for_and_an_ack_is_said_again() -> None:
    broker = MemoryBroker(b"x")
    runner = Scripted(x=0.2)

    async def go_and_come() -> None:
        await asyncio.sleep(0.05)
        assert runner.at_once
        broker.gone = True
        await asyncio.sleep(0.4)
        assert not broker.acked
        broker.gone = False

    slots = play(broker, runner, lambda: bool(broker.acked), ack_wait=5.0, meanwhile=go_and_come)
    assert broker.acked == [b"x"]
    assert slots.trouble == "draining"


def test_a_runner_that_is_gone_gives_its_message_back_and_ends_the_container() -> None:
    broker = MemoryBroker(b"x")
    with pytest.raises(RunnerGone, match="the command ended with 3"):
        play(broker, Scripted(x=RunnerGone("the command ended with 3")), lambda: False)
    assert broker.given_back == [(b"x", 0.1)]


def test_a_report_has_what_was_counted_since_the_last() -> None:
    now = [100.0]
    waits: list[float] = []
    counts = ProxyCounts("pod-1", 2, on_wait=waits.append, clock=lambda: now[0])
    now[0] += 3
    assert counts.report(draining=False).idle_seconds == 3.0
    counts.began(PulledMessage(queue=QUEUE, id="1", body=b"", age_seconds=0.5))
    counts.began(PulledMessage(queue=QUEUE, id="2", body=b"", age_seconds=60.0, attempt=2))
    assert waits == [0.5]
    busy = counts.report(draining=True)
    assert (busy.busy, busy.idle_seconds, busy.draining) == (2, None, True)
    for number in range(12):
        counts.began(PulledMessage(queue=QUEUE, id="x", body=b""))
        counts.ended(number / 1000, done=number % 2 == 0)
    told = counts.report(draining=False)
    assert (told.runs, told.failures, told.run_ms) == (12, 6, 66.0)
    assert told.last_run_ms == tuple(float(number) for number in range(2, 12))
    assert counts.report(draining=False).runs == 0


async def served(answers: list[bytes]) -> tuple[asyncio.Server, list[bytes]]:
    heard: list[bytes] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                heard.append(head + await reader.readexactly(length))
                answer = answers.pop(0)
                writer.write(answer)
                if not answer or b"close" in answer or b"HTTP/1.0" in answer:
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(one, "127.0.0.1", 0), heard


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@run_for_each(
    ("answers", "outcome"),
    [
        ([OK], DONE),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], DONE),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], DONE),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], DONE),
        ([b"HTTP/1.0 200 OK\r\nServer: BaseHTTP\r\n\r\n"], DONE),
        ([b"HTTP/1.0 200 OK\r\n\r\nas long as it is"], DONE),
        ([b"HTTP/1.0 503 Busy\r\n\r\n"], RunOutcome(done=False, reason="HTTP 503")),
        ([b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"], RunOutcome(done=False, reason="HTTP 500")),
        ([b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"], RunOutcome(done=False, reason="HTTP 302")),
        (
            [b"HTTP/1.1 429 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"],
            RunOutcome(done=False, reason="HTTP 429", delay_seconds=3.0),
        ),
    ],
)
def test_what_a_container_answers_is_how_the_run_ended(answers: list[bytes], outcome: RunOutcome) -> None:
    async def whole() -> None:
        server, heard = await served(answers)
        port = server.sockets[0].getsockname()[1]
        runner = LoopbackRunner(f"http://127.0.0.1:{port}/run?x=1")
        await runner.start()
        assert runner.broken() is None
        found = await runner.run(
            PulledMessage(queue=QUEUE, id="a\r\nX: y", body=b"\x00body", attempt=2, age_seconds=1.5)
        )
        assert found == outcome
        assert heard[0].startswith(b"POST /run?x=1 HTTP/1.1\r\n")
        assert b"Act-Message: a??X: y\r\nAct-Attempt: 2\r\nAct-Age-Ms: 1500\r\n\r\n\x00body" in heard[0]
        await runner.close()
        server.close()
        await asyncio.sleep(0.02)  # connections end in turns of the loop

    asyncio.run(whole())


@pytest.mark.parametrize(
    "answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nconnection: close\r\nContent-Length: 9\r\n\r\nab"]
)
def test_what_is_no_answer_gives_the_message_back(answer: bytes) -> None:
    async def whole() -> None:
        server, heard = await served([OK, answer, answer])
        runner = LoopbackRunner(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        await runner.start()
        assert await runner.run(PulledMessage(queue=QUEUE, id="1", body=b"")) == DONE
        assert not (await runner.run(PulledMessage(queue=QUEUE, id="2", body=b""))).done
        assert len(heard) == 3  # the kept connection might have been closed before it had the request: once more
        await runner.close()
        server.close()
        await asyncio.sleep(0.02)  # connections end in turns of the loop

    asyncio.run(whole())


def test_while_nothing_listens_no_message_is_pulled_for_it() -> None:
    async def whole() -> None:
        server, _ = await served([OK])
        port = server.sockets[0].getsockname()[1]
        runner = LoopbackRunner(f"http://127.0.0.1:{port}/")
        await runner.start()
        await runner.close()
        server.close()
        await asyncio.sleep(0.02)  # connections end in turns of the loop
        outcome = await runner.run(PulledMessage(queue=QUEUE, id="1", body=b""))
        assert not outcome.done
        assert f"port {port}" in str(runner.broken())
        await runner.close()

    asyncio.run(whole())


ECHO = """
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if told["body"] == "end":
        sys.exit(4)
    answer = {"ok": told["body"] != "bad", "error": "no", "retryAfterMs": 500, "id": told["id"]}
    print("noise" if told["body"] == "noise" else json.dumps(answer), flush=True)
"""


def test_a_command_answers_in_lines_and_its_end_is_told(tmp_path: Path) -> None:
    script = tmp_path / "action.py"
    script.write_text(ECHO, encoding="utf-8")

    async def whole() -> None:
        runner, other = (LinesRunner(f"{sys.executable} -IS {script}") for _ in range(2))
        await runner.start()
        good, bad = (PulledMessage(queue=QUEUE, id=name, body=name.encode()) for name in ("good", "bad"))
        found = tuple(await asyncio.gather(runner.run(bad), runner.run(good)))
        assert found == (RunOutcome(done=False, reason="no", delay_seconds=0.5), DONE)
        with pytest.raises(RunnerGone, match="the command ended with 4"):
            await runner.run(PulledMessage(queue=QUEUE, id="e", body=b"end"))
        with pytest.raises(RunnerGone):
            await runner.run(good)
        assert runner.broken() == "the command ended with 4"
        await other.start()
        with pytest.raises(RunnerGone, match="an answer that cannot be read"):
            await other.run(PulledMessage(queue=QUEUE, id="n", body=b"noise"))
        await runner.close()
        await other.close()

    asyncio.run(whole())


@pytest.mark.parametrize("command", ["/nowhere/program", "'unbalanced"])
def test_a_command_that_cannot_be_started_is_told(command: str) -> None:
    async def whole() -> None:
        with pytest.raises(RunnerGone, match="--command: "):
            await LinesRunner(command).start()

    asyncio.run(whole())


def test_what_a_publisher_chose_cannot_break_a_header() -> None:
    assert printable("a\r\nb\x00é") == "a??b??"
    assert len(printable("x" * 9999)) == 500


def test_a_slot_that_is_cancelled_ends_the_container() -> None:
    broker = MemoryBroker()

    async def cancel_one() -> None:
        await asyncio.sleep(0.05)
        slot = next(task for task in asyncio.all_tasks() if "_slot" in repr(task.get_coro()))
        slot.cancel()

    with pytest.raises(RunnerGone, match="slot was cancelled"):
        play(broker, WaitRunner(0.0), lambda: False, slots=2, meanwhile=cancel_one)
