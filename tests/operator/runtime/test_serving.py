"""Servers on aiohttp: bodies have a budget, and tokens of strangers delay no caller."""

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web

from slack.process import accepting
from slack_operator.runtime import serving
from slack_operator.runtime.body_budget import BodyBudget, BudgetSpent
from slack_operator.runtime.review_queue import QueueFull, ReviewQueue
from slack_operator.runtime.serving import InvalidRequestBody, ServingThread

MIB = 1 << 20


class Sizes(ServingThread):
    """Answers how long a body is."""

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/", self._post)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        try:
            async with self._body(request, 8 * MIB, 5.0) as body:
                return web.Response(text=str(len(body)))
        except InvalidRequestBody as problem:
            response = web.Response(status=problem.status, text=str(problem))
            response.force_close()
            return response


class Slow(ServingThread):
    """Answers what a thread has done."""

    def _application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self._get)
        self.entered, self.leave = threading.Event(), threading.Event()
        return app

    async def _get(self, _: web.Request) -> web.Response:
        return web.Response(text=await asyncio.to_thread(self._work))

    def _work(self) -> str:
        self.entered.set()
        self.leave.wait(10)
        return "done"


class Broken(ServingThread):
    def _application(self) -> web.Application:
        raise RuntimeError("a bug")


def test_a_thread_beside_the_event_loop_that_hangs_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "WORK_SECONDS", 0.05)
    made = Slow("127.0.0.1", 0, name="slow")
    made.start()
    connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=10)
    connection.request("GET", "/")
    assert made.entered.wait(10)
    time.sleep(0.1)
    assert "thread 0 of slow work has not moved" in (made.unhealthy() or "")
    made.leave.set()
    assert connection.getresponse().read() == b"done"
    connection.close()
    made.stop()


def test_a_server_that_cannot_begin_is_unhealthy_and_holds_up_nobody() -> None:
    made = Broken("127.0.0.1", 0, name="broken")
    made.start()
    assert "the broken server has ended: RuntimeError: a bug" in (made.unhealthy() or "")
    made.stop()


@pytest.fixture
def server() -> Iterator[Sizes]:
    made = Sizes("127.0.0.1", 0, name="sizes")
    made.start()
    yield made
    made.stop()


def post(port: int, size: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/", body=bytes(size))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def asked(connection: http.client.HTTPConnection) -> str | None:
    """Return what the answer to a request says of its connection."""
    connection.request("POST", "/", body=b"x")
    answer = connection.getresponse()
    answer.read()
    return answer.getheader("Connection")


def test_a_client_that_sends_its_body_slowly_does_not_keep_a_server_from_its_end(server: Sizes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
        time.sleep(0.2)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 0.9
    assert server.unhealthy() is None


def test_connections_are_kept_while_there_are_places_and_end_with_their_answer_where_few_are_left(
    server: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends its next request to a connection that is being closed may not repeat it."""
    monkeypatch.setattr(accepting, "CROWDED_SHARE", 1.5 / serving.CONNECTIONS)
    first, second = (http.client.HTTPConnection("127.0.0.1", server.port, timeout=10) for _ in range(2))
    assert asked(first) is None
    assert asked(second) == "close"
    assert asked(first) is None, "there is a place again"
    first.close()
    second.close()


def test_a_request_that_waits_to_be_read_is_seen() -> None:
    ours, theirs = socket.socketpair()
    connection = accepting._Accepted(ours)
    assert not connection.has_sent()
    theirs.send(b"POST")
    assert connection.has_sent()
    ours.recv(4)
    theirs.close()
    assert not connection.has_sent(), "one that has gone"
    ours.close()
    assert not connection.has_sent()


def hold(port: int, size: int) -> socket.socket:
    """Send all of a body but its last byte."""
    wire = socket.create_connection(("127.0.0.1", port), 5)
    wire.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    with contextlib.suppress(OSError):
        wire.sendall(bytes(size - 1))
    return wire


def test_bodies_that_do_not_end_are_bounded_in_bytes_and_keep_no_small_one_out(server: Sizes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(hold(server.port, 8 * MIB))
            assert server._budget.held_bytes <= serving.BODY_BYTES
        assert post(server.port, 20_000) == (200, "20000")
        assert server.unhealthy() is None
    deadline = time.monotonic() + 10
    while server._budget.held_bytes and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server._budget.held_bytes == 0


def test_a_body_that_is_too_long_is_refused_before_it_is_read(server: Sizes) -> None:
    assert post(server.port, 8 * MIB)[0] == 200
    with socket.create_connection(("127.0.0.1", server.port), 5) as wire:
        wire.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (8 * MIB + 1))
        assert wire.recv(100).startswith(b"HTTP/1.1 413")


def test_a_budget_that_is_full_of_whole_bodies_refuses_the_next() -> None:
    budget = BodyBudget(100)
    whole, late = budget.open(lambda: None), budget.open(lambda: None)
    budget.grow(whole, 90)
    whole.whole = True
    with pytest.raises(BudgetSpent):
        budget.grow(late, 20)
    assert budget.held_bytes == 90
    budget.close(late)
    budget.close(whole)
    assert budget.held_bytes == 0


async def settled(queue: "ReviewQueue[str]", waiting: int) -> None:
    for _ in range(1000):
        if len(queue) == waiting:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{len(queue)} wait")


def test_likely_tokens_come_first_then_addresses_take_turns_and_one_token_costs_one_review() -> None:
    judged: list[str] = []
    leave = threading.Event()

    def judge(token: str) -> str:
        if token == "first":
            leave.wait(10)
        judged.append(token)
        return token

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            queue: ReviewQueue[str] = ReviewQueue(executor, 1)

            def ask(token: str, address: str, *, likely: bool = False) -> "asyncio.Task[str]":
                return asyncio.create_task(queue.judge(token, address, lambda: judge(token), likely=likely))

            tasks = [ask("first", "a")]
            await asyncio.sleep(0.05)
            tasks += [ask(token, "a") for token in ("a1", "a2", "a3", "a3")]
            tasks += [ask("b1", "b"), ask("agent", "a", likely=True)]
            await settled(queue, 5)
            leave.set()
            assert await asyncio.gather(*tasks) == ["first", "a1", "a2", "a3", "a3", "b1", "agent"]
        assert judged[:2] == ["first", "agent"]
        assert judged.index("b1") == 3, "b waits for one of a, however many a has"
        assert judged.count("a3") == 1

    asyncio.run(main())


def test_a_queue_that_is_full_refuses_whoever_has_the_most_and_forgets_who_has_gone() -> None:
    leave = threading.Event()

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            queue: ReviewQueue[bool] = ReviewQueue(executor, 1, most_waiting=3)

            def ask(token: str, address: str) -> "asyncio.Task[bool]":
                return asyncio.create_task(queue.judge(token, address, lambda: leave.wait(10)))

            running = ask("first", "a")
            await asyncio.sleep(0.05)
            flood = [ask(f"a{number}", "a") for number in range(3)]
            await asyncio.sleep(0.05)
            other = ask("b1", "b")
            await asyncio.sleep(0.05)
            with pytest.raises(QueueFull):
                await flood[0]
            flood[1].cancel()
            await asyncio.sleep(0.05)
            assert len(queue) == 2, "who has gone waits no more"
            leave.set()
            assert all(await asyncio.gather(running, other, flood[2]))
            assert len(queue) == 0

    asyncio.run(main())
