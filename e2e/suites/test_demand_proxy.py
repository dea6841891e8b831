"""The proxy with real brokers: each message is run and acked, given back when it was not, and lost by nothing."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.brokers.proxy import Container, Posted, Proxy
from e2e.harness.brokers.servers import SERVERS, BrokerServer
from e2e.harness.objects import wait_until
from slack.demand.broker import MessageQueue, QueueLag
from slack.demand.reports import ContainerReport, decode_report
from slack_operator.demand.brokers.opening import open_message_queue

QUEUE = "act.media.thumbnail.256"
ACK_WAIT = 2.0
"""What the harness tells the proxies."""


@pytest.fixture(params=SERVERS, ids=lambda server: str(server.scheme))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerServer]:
    kind: type[BrokerServer] = request.param
    reason = kind.missing()
    if reason:
        pytest.skip(reason)
    with kind(tmp_path) as started:
        yield started


def ask(server: BrokerServer, what: Callable[[MessageQueue], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        broker = await open_message_queue(server.url)
        try:
            return await what(broker)
        finally:
            await broker.close()

    return asyncio.run(whole())


def publish(server: BrokerServer, *bodies: bytes) -> None:
    async def each(broker: MessageQueue) -> None:
        for body in bodies:
            await broker.publish(QUEUE, body)

    ask(server, each)


def lag(server: BrokerServer) -> QueueLag:
    async def look(broker: MessageQueue) -> QueueLag:
        return (await broker.lag()).get(QUEUE, QueueLag(backlog=1, in_flight=0))  # made by who pulls first

    found = ask(server, look)
    assert isinstance(found, QueueLag)
    return found


def is_empty(server: BrokerServer) -> bool:
    found = lag(server)
    return found.backlog + found.in_flight == 0


def test_messages_of_every_kind_are_run_and_acked(server: BrokerServer, tmp_path: Path) -> None:
    bodies = [b"", b"\x00\xff\r\n\r\nPOST / HTTP/1.1\r\n", b"x" * 1_000_000, *(b"%d" % number for number in range(50))]
    with Container() as container, Proxy(tmp_path, server, QUEUE, f"--target={container.url}") as proxy:
        proxy.wait_until_ready()
        publish(server, *bodies)
        wait_until(lambda: len(container.posted) == len(bodies) and is_empty(server), 20, "all to be run")
        assert [posted.body for posted in container.posted] == bodies
        assert 'demand_proxy_runs_total{outcome="acked"} 53.0' in proxy.get("/metrics")[1]
        assert proxy.get("/healthz") == (200, "ok\n")


def test_what_fails_comes_again_and_what_always_fails_leaves_the_queue(server: BrokerServer, tmp_path: Path) -> None:
    def answer(posted: Posted) -> int:
        return 500 if posted.body == b"bad" or posted.attempt == 1 else 200

    flags = ("--max-deliver=3",)
    with Container(answer) as container, Proxy(tmp_path, server, QUEUE, f"--target={container.url}", *flags) as proxy:
        proxy.wait_until_ready()
        publish(server, b"bad", b"good")
        wait_until(lambda: is_empty(server) and len(container.posted) >= 5, 20, "both to end")
        assert sorted(posted.attempt for posted in container.posted if posted.body == b"bad") == [1, 2, 3]
        assert sorted(posted.attempt for posted in container.posted if posted.body == b"good") == [1, 2]


def test_a_container_that_is_gone_costs_a_message_one_attempt_and_no_more(server: BrokerServer, tmp_path: Path) -> None:
    container = Container()
    with Proxy(tmp_path, server, QUEUE, f"--target={container.url}") as proxy:
        wait_until(lambda: proxy.get("/readyz")[0] == 503, 20, "the proxy to wait for its container")
        publish(server, b"early")
        with container:
            proxy.wait_until_ready()
            wait_until(lambda: is_empty(server), 20, "the early one to be run")
        publish(server, b"late")
        time.sleep(1.5)
        with container:
            wait_until(lambda: len(container.posted) == 2 and is_empty(server), 20, "the late one to be run")
        assert [posted.body for posted in container.posted] == [b"early", b"late"]
        assert container.posted[1].attempt <= 2


def test_a_long_run_is_extended_and_one_that_is_too_long_is_given_back(server: BrokerServer, tmp_path: Path) -> None:
    def answer(posted: Posted) -> int:
        time.sleep(3 * ACK_WAIT if posted.attempt == 1 else 0.0)
        return 200

    with (
        Container(answer) as container,
        Proxy(tmp_path, server, QUEUE, f"--target={container.url}", "--slots=2") as proxy,
    ):
        proxy.wait_until_ready()
        publish(server, b"long")
        wait_until(lambda: is_empty(server), 20, "it to be run")
        assert len(container.posted) == 1
    flags = ("--longest-run=500ms",)
    with Container(answer) as container, Proxy(tmp_path, server, QUEUE, f"--target={container.url}", *flags) as proxy:
        proxy.wait_until_ready()
        publish(server, b"too long")
        wait_until(lambda: is_empty(server), 20, "it to be run")
        assert [posted.attempt for posted in container.posted] == [1, 2]


def test_a_proxy_that_is_killed_loses_no_message(server: BrokerServer, tmp_path: Path) -> None:
    running = threading.Event()

    def hang(_: Posted) -> int:
        running.set()
        time.sleep(60)
        return 200

    with Container(hang) as first, Proxy(tmp_path, server, QUEUE, f"--target={first.url}") as killed:
        killed.wait_until_ready()
        with Container() as second, Proxy(tmp_path, server, QUEUE, f"--target={second.url}", "--slots=4") as other:
            publish(server, b"first")
            assert running.wait(20) or second.posted
            if not running.is_set():  # the other one had it
                other.program.stop()
                publish(server, b"first")
                assert running.wait(20)
                other.program.start()
            other.wait_until_ready()
            second.posted.clear()
            killed.program.kill()
            began = time.monotonic()
            wait_until(lambda: bool(second.posted), 20, "the message to be run by the other")
            assert (
                time.monotonic() - began <= ACK_WAIT + 1.5
            )  # a second after the ack wait; a busy machine has the rest
            assert second.posted[0].body == b"first"
            assert second.posted[0].attempt == 2
            wait_until(lambda: is_empty(server), 10, "it to be acked")


def has_run(container: Container, count: int) -> bool:
    return len(container.posted) > count


def test_many_killed_proxies_lose_nothing(server: BrokerServer, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(60)]

    def answer(_: Posted) -> int:
        time.sleep(0.05)
        return 200

    with Container(answer) as container:
        publish(server, *bodies)
        for _ in range(3):
            with Proxy(tmp_path, server, QUEUE, f"--target={container.url}", "--max-deliver=20") as proxy:
                proxy.wait_until_ready()
                enough = len(container.posted) + 5
                wait_until(partial(has_run, container, enough), 20, "some to be run")
                proxy.program.kill()
        with Proxy(tmp_path, server, QUEUE, f"--target={container.url}", "--slots=4", "--max-deliver=20"):
            wait_until(lambda: is_empty(server), 30, "the rest to be run")
        assert {posted.body for posted in container.posted} == set(bodies)


def test_sigterm_finishes_what_runs_and_gives_the_rest_to_others(server: BrokerServer, tmp_path: Path) -> None:
    running = threading.Event()

    def slow(_: Posted) -> int:
        running.set()
        time.sleep(1.0)
        return 200

    with Container(slow) as container, Proxy(tmp_path, server, QUEUE, f"--target={container.url}") as proxy:
        proxy.wait_until_ready()
        publish(server, b"runs", b"waits")
        assert running.wait(20)
        assert proxy.program._process is not None
        proxy.program._process.terminate()
        assert proxy.program._process.wait(20) == 0
        assert [posted.body for posted in container.posted] == [b"runs"]
        found = lag(server)
        assert (found.backlog, found.in_flight) == (1, 0)


def test_it_ends_when_nothing_comes_and_after_its_number_of_messages(server: BrokerServer, tmp_path: Path) -> None:
    with Proxy(tmp_path, server, QUEUE, "--mode=wait", "--idle-timeout=1s") as idle:
        idle.wait_until_ready()
        wait_until(lambda: not idle.program.running, 20, "it to end")
        assert idle.program._process is not None
        assert idle.program._process.returncode == 0
    publish(server, b"1", b"2")
    with Proxy(tmp_path, server, QUEUE, "--mode=wait", "--messages=1") as once:
        wait_until(lambda: not once.program.running, 20, "it to end")
        assert once.program._process is not None
        assert once.program._process.returncode == 0
        found = lag(server)
        assert (found.backlog, found.in_flight) == (1, 0)


def test_a_broker_that_goes_away_comes_back_to_a_proxy_that_stayed(server: BrokerServer, tmp_path: Path) -> None:
    with (
        Container() as container,
        Proxy(tmp_path, server, QUEUE, f"--target={container.url}", "--idle-timeout=8s") as proxy,
    ):
        proxy.wait_until_ready()
        server.stop(killed=True)
        wait_until(lambda: proxy.get("/readyz")[0] == 503, 20, "the proxy to say so")
        assert "not connected" in proxy.get("/readyz")[1] or server.url in proxy.get("/readyz")[1]
        server.start()
        proxy.wait_until_ready()
        publish(server, b"after")
        wait_until(lambda: is_empty(server), 20, "it to be run")
        assert [posted.body for posted in container.posted] == [b"after"]


def test_reports_say_how_busy_it_is_and_how_long_runs_took(server: BrokerServer, tmp_path: Path) -> None:
    async def heard(broker: MessageQueue) -> list[ContainerReport]:
        reports: list[ContainerReport] = []

        async def listen() -> None:
            async for report in broker.reports():
                assert report.queue == QUEUE
                reports.append(decode_report(report.body))

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0.5)
        for _ in range(20):
            await broker.publish(QUEUE, b"x")
        deadline = time.monotonic() + 10
        while sum(report.runs for report in reports) < 20 and time.monotonic() < deadline:  # noqa: ASYNC110  # reports come
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        listening.cancel()
        return reports

    flags = ("--mode=wait", "--wait=20ms", "--slots=2", "--container=pod-7")
    with Proxy(tmp_path, server, QUEUE, *flags) as proxy:
        proxy.wait_until_ready()
        reports = ask(server, heard)
    assert {(report.container, report.slots) for report in reports} == {("pod-7", 2)}
    assert sum(report.runs for report in reports) == 20
    assert all(20 <= took < 500 for report in reports for took in report.last_run_ms)
    assert reports[-1].idle_seconds is not None
    assert len(reports) <= 8


SCRIPT = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    with open({path!r}, "a") as told:
        told.write(json.dumps(message) + "\\n")
    if message.get("body") == "end":
        sys.exit(3)
    print(json.dumps({{"ok": message.get("body") != "bad" or message["attempt"] > 1}}), flush=True)
"""


def test_a_command_runs_messages_by_lines_and_its_end_is_the_proxys(server: BrokerServer, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = tmp_path / "action.py"
    script.write_text(SCRIPT.format(path=str(told)), encoding="utf-8")
    publish(server, b"good", b"bad", b"\xff\x00")
    flags = ("--mode=process", f"--command={sys.executable} {script}")
    with Proxy(tmp_path, server, QUEUE, *flags) as proxy:
        wait_until(lambda: is_empty(server) and told.exists(), 20, "all to be run")
        assert len(told.read_text().splitlines()) == 4
        assert '"base64": "/wA="' in told.read_text()
        publish(server, b"end")
        wait_until(lambda: not proxy.program.running, 20, "the proxy to end with its command")
        assert proxy.program._process is not None
        assert proxy.program._process.returncode == 1
        assert "the command ended with 3" in proxy.program.log_tail()
    found = lag(server)
    assert found.backlog + found.in_flight == 1


def test_a_command_that_serves_http_is_given_its_port_and_ends_with_the_proxy(
    server: BrokerServer, tmp_path: Path
) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "import os\nfrom http.server import *\n"
        "class Run(BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        self.rfile.read(int(self.headers['Content-Length']))\n"
        "        self.send_response(204)\n        self.end_headers()\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Run).serve_forever()\n",
        encoding="utf-8",
    )
    port = Container().port
    flags = ("--mode=process", "--protocol=http", f"--command={sys.executable} {script}")
    with Proxy(tmp_path, server, QUEUE, f"--target=http://127.0.0.1:{port}/", *flags) as proxy:
        proxy.wait_until_ready()
        publish(server, b"1", b"2")
        wait_until(lambda: is_empty(server), 20, "both to be run")
        pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not _alive(pid), 10, "the command to end with the proxy")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
