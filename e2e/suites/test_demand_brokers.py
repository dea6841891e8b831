"""What every broker promises, held by real servers: at least once, one at a time, late ones again, none lost.

Each statement is for NATS JetStream and for Redis Streams alike; a server that cannot be had skips its half.
"""

import asyncio
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.brokers.servers import PASSWORD, SERVERS, USER, BrokerServer, NatsServer, RedisServer
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import wait_until
from e2e.harness.ports import LOOPBACK, free_port
from slack.demand.broker import (
    DEAD_LETTERS,
    BrokerRefused,
    BrokerUnreachable,
    Duration,
    MessageCount,
    MessageQueue,
    PulledMessage,
    QueueLag,
    QueueSettings,
    RawReport,
)
from slack_operator.demand.brokers.nats import NatsBroker
from slack_operator.demand.brokers.opening import open_message_queue
from slack_operator.demand.brokers.redis import RedisBroker
from slack_operator.demand.provisioning import QueueProvisioner
from slack_operator.demand.throttle import MAX_BODY_BYTES

QUEUE = "act.media.thumbnail.256"
OTHER = "act.media.poster.256"
QUICK = QueueSettings(name=QUEUE, ack_wait_seconds=Duration(1.0), max_deliver=3)
Test = Callable[[MessageQueue], Coroutine[Any, Any, None]]


@pytest.fixture(params=SERVERS, ids=lambda server: str(server.scheme))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerServer]:
    kind: type[BrokerServer] = request.param
    reason = kind.missing()
    if reason:
        pytest.skip(reason)
    with kind(tmp_path) as started:
        yield started


def on(server: BrokerServer, test: Test) -> None:
    """Run a test with a broker that is open."""

    async def whole() -> None:
        broker = await open_message_queue(server.url)
        try:
            await test(broker)
        finally:
            await broker.close()

    asyncio.run(whole())


async def published(broker: MessageQueue, count: int, queue: str = QUEUE) -> None:
    for number in range(count):
        await broker.publish(queue, f"{number}".encode())


async def one(broker: MessageQueue, wait_seconds: float = 3.0, queue: str = QUEUE) -> PulledMessage:
    found = await broker.pull(queue, MessageCount(1), Duration(wait_seconds))
    assert len(found) == 1
    return found[0]


async def until(look: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not await look():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.02)


def test_messages_come_in_order_and_are_gone_once_they_are_acked(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await published(broker, 3)
        assert (await broker.lag())[QUEUE].backlog == 3
        found = await broker.pull(QUEUE, MessageCount(10), Duration(1.0))
        assert [message.body for message in found] == [b"0", b"1", b"2"]
        assert [message.attempt for message in found] == [1, 1, 1]
        assert all(message.age_seconds is not None and message.age_seconds < 5 for message in found)
        lag = (await broker.lag())[QUEUE]
        assert (lag.backlog, lag.in_flight) == (0, 3)
        for message in found:
            await broker.ack(message)

        async def gone() -> bool:
            return await counts(broker) == (0, 0, 3, 3)

        await until(gone)
        assert await broker.pull(QUEUE, MessageCount(1), Duration(1.5)) == []

    on(server, test)


async def counts(broker: MessageQueue, queue: str = QUEUE) -> tuple[int, int, int | None, int | None]:
    lag = (await broker.lag())[queue]
    return lag.backlog, lag.in_flight, lag.delivered_total, lag.published_total


def test_a_pull_that_waits_has_the_message_at_once(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        waits = []
        for _ in range(20):
            pull = asyncio.create_task(one(broker, 5.0))
            await asyncio.sleep(0.02)
            began = time.perf_counter()
            await broker.publish(QUEUE, b"now")
            await broker.ack(await pull)
            waits.append(time.perf_counter() - began)
        assert sorted(waits)[10] < 0.25  # half a millisecond on an idle machine; polling would take longer

    on(server, test)


def test_a_message_that_is_not_acked_comes_again_after_the_ack_wait_and_a_second(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await broker.publish(QUEUE, b"x")
        first = await one(broker)
        began = time.monotonic()
        again = await one(broker, 10.0)
        assert QUICK.ack_wait_seconds - 0.1 <= time.monotonic() - began <= QUICK.ack_wait_seconds + 1.0
        assert (again.id, again.attempt) == (first.id, 2)

    on(server, test)


def test_a_late_message_is_found_among_a_thousand_in_flight(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QueueSettings(name=QUEUE, ack_wait_seconds=Duration(5.0)))
        await published(broker, 1001)
        taken: list[PulledMessage] = []
        while len(taken) < 1001:
            taken += await broker.pull(QUEUE, MessageCount(200), Duration(5.0))
        began, late = time.monotonic(), taken[900]
        await asyncio.sleep(2.0)
        for message in taken:
            if message is not late:
                await broker.extend(message)
        assert (await one(broker, 6.0)).id == late.id
        assert time.monotonic() - began <= 6.0

    on(server, test)


def test_a_run_that_is_extended_is_nobody_elses(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await broker.publish(QUEUE, b"long")
        running = await one(broker)
        for _ in range(6):
            assert await broker.pull(QUEUE, MessageCount(1), Duration(0.4)) == []
            await broker.extend(running)
        await broker.ack(running)
        assert await broker.pull(QUEUE, MessageCount(1), Duration(1.5)) == []

    on(server, test)


def test_what_is_given_back_comes_again_when_its_delay_is_over(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QueueSettings(name=QUEUE, ack_wait_seconds=Duration(30)))
        await broker.publish(QUEUE, b"x")
        await broker.nak(await one(broker))
        again = await one(broker, 2.0)
        assert again.attempt == 2
        began = time.monotonic()
        await broker.nak(again, Duration(1.0))
        assert (await one(broker, 5.0)).attempt == 3
        assert 0.9 <= time.monotonic() - began < 2.5

    on(server, test)


@pytest.mark.parametrize("how", ["given back", "left alone"])
def test_a_message_that_always_fails_ends_among_the_dead_letters(server: BrokerServer, how: str) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await broker.publish(QUEUE, b"poison")
        for attempt in range(1, QUICK.max_deliver + 1):
            message = await one(broker, 10.0)
            assert message.attempt == attempt
            if how == "given back":
                await broker.nak(message)
        assert await broker.pull(QUEUE, MessageCount(1), Duration(2.5)) == []
        lag = (await broker.lag())[QUEUE]
        assert (lag.backlog, lag.in_flight) == (0, 0)
        assert await dead_letters(broker) == [(QUEUE, b"poison")]

    on(server, test)


async def dead_letters(broker: MessageQueue) -> list[tuple[str, bytes]]:
    """Read them with the broker's own means, as somebody would who wants to mend them."""
    if isinstance(broker, NatsBroker):
        stream = broker.connection.client.jetstream()
        found = await stream.get_last_msg("ACT_DEAD", DEAD_LETTERS)
        assert found.headers is not None
        return [(found.headers["Act-Queue"], found.data or b"")]
    assert isinstance(broker, RedisBroker)
    entries: Any = await broker.client.xrange(DEAD_LETTERS)
    return [(fields[b"queue"].decode(), fields[b"body"]) for _, fields in entries]


def test_an_id_is_stored_once_within_two_minutes(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        for _ in range(3):
            await broker.publish(QUEUE, b"x", message_id="order-7")
        await broker.publish(QUEUE, b"y", message_id="order-8")
        assert (await broker.lag())[QUEUE].backlog == 2
        assert [message.id for message in await broker.pull(QUEUE, MessageCount(5), Duration(1.0))] == [
            "order-7",
            "order-8",
        ]

    on(server, test)


def test_an_id_is_a_queues_own_and_another_queue_may_have_the_same(server: BrokerServer) -> None:
    """All queues of all namespaces are in one stream of NATS, which tells ids apart by stream."""

    async def test(broker: MessageQueue) -> None:
        for queue in (QUEUE, "act.web.thumbnail.256"):
            await broker.ensure(QueueSettings(name=queue))
            for _ in range(2):
                await broker.publish(queue, queue.encode(), message_id="order-7")
        for queue in (QUEUE, "act.web.thumbnail.256"):
            message = await one(broker, queue=queue)
            assert (message.id, message.body) == ("order-7", queue.encode())
            await broker.nak(message)
            again = await one(broker, queue=queue)
            assert (again.id, again.attempt) == ("order-7", 2)
            assert await broker.pull(queue, MessageCount(1), Duration(0.0)) == []

    on(server, test)


def test_an_id_that_a_nats_client_gives_by_itself_is_the_messages(tmp_path: Path) -> None:
    reason = NatsServer.missing()
    if reason:
        pytest.skip(reason)

    async def test(broker: MessageQueue) -> None:
        assert isinstance(broker, NatsBroker)
        await broker.ensure(QUICK)
        for _ in range(2):
            await broker.connection.request(QUEUE, b"x", {"Nats-Msg-Id": f"{QUEUE}:order-7"})
        assert [message.id for message in await broker.pull(QUEUE, MessageCount(5), Duration(1.0))] == [
            f"{QUEUE}:order-7"
        ]

    with NatsServer(tmp_path) as started:
        on(started, test)


def test_garbage_nothing_and_a_megabyte_come_as_they_were_sent(server: BrokerServer) -> None:
    bodies = [b"", b"\x00\xff\r\n" * 5, b"x" * 1_000_000, b"PING\r\n", b'{"a":']

    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        for body in bodies:
            await broker.publish(QUEUE, body)
        found: list[PulledMessage] = []
        while len(found) < len(bodies):
            found += await broker.pull(QUEUE, MessageCount(5), Duration(5.0))
        assert [message.body for message in found] == bodies

    on(server, test)


def test_the_longest_body_is_stored_with_the_longest_names_and_comes_whole_also_as_a_dead_letter(
    server: BrokerServer,
) -> None:
    queue = f"act.{'n' * 63}.{'a' * 63}.16777216"

    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QueueSettings(name=queue, max_deliver=1))
        body = b"x" * min(broker.most_body_bytes or MAX_BODY_BYTES, MAX_BODY_BYTES)
        await broker.publish(queue, body, message_id="i" * 128)
        message = await one(broker, queue=queue)
        assert (message.body, message.id) == (body, "i" * 128)
        await broker.nak(message)
        assert await dead_letters(broker) == [(queue, body)]

    on(server, test)


def test_a_message_given_to_a_cancelled_pull_is_the_next_ones_or_anothers(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QueueSettings(name=QUEUE, ack_wait_seconds=Duration(60)))
        await cancelled_pull(broker)
        await broker.publish(QUEUE, b"first")
        await broker.ack(await one(broker))
        await cancelled_pull(broker)
        await broker.publish(QUEUE, b"second")
        await asyncio.sleep(0.2)
        await broker.close()
        other = await open_message_queue(server.url)
        assert (await one(other, 5.0)).body == b"second"  # long before the ack wait is over
        await other.close()

    on(server, test)


async def cancelled_pull(broker: MessageQueue) -> None:
    pull = asyncio.create_task(broker.pull(QUEUE, MessageCount(1), Duration(30.0)))
    await asyncio.sleep(0.2)
    pull.cancel()
    await asyncio.wait([pull])


def test_the_lag_is_of_all_queues_also_those_that_are_empty_and_of_a_prefix(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        assert await broker.lag() == {}
        await broker.ensure(QUICK)
        await broker.ensure(QueueSettings(name=OTHER))
        await published(broker, 2)
        await broker.ensure(QueueSettings(name="act.web.mail.128"))
        found = await broker.lag("act.media.")
        assert {queue: lag.backlog for queue, lag in found.items()} == {QUEUE: 2, OTHER: 0}
        assert len(await broker.lag()) == 3
        stranger = await open_message_queue(server.url)  # another process knows as much
        assert {queue: lag.backlog for queue, lag in (await stranger.lag("act.media.")).items()} == {QUEUE: 2, OTHER: 0}
        await stranger.close()

    on(server, test)


def test_a_key_of_redis_that_is_no_stream_is_refused_and_tells_no_lag_and_others_do(tmp_path: Path) -> None:
    reason = RedisServer.missing()
    if reason:
        pytest.skip(reason)

    async def test(broker: MessageQueue) -> None:
        assert isinstance(broker, RedisBroker)
        for name in (QUEUE, OTHER):
            await broker.ensure(QueueSettings(name=name))
        await published(broker, 2, OTHER)
        await broker.client.delete(QUEUE)
        assert QUEUE not in await broker.lag(), "it is gone: who made it makes it again"
        await broker.client.set(QUEUE, "something else")
        assert {queue: lag.backlog for queue, lag in (await broker.lag()).items()} == {OTHER: 2}
        with pytest.raises(BrokerRefused, match="WRONGTYPE"):
            await broker.ensure(QUICK)

    with RedisServer(tmp_path) as started:
        on(started, test)


def test_a_name_that_this_user_of_redis_may_not_read_hides_no_other_queue(tmp_path: Path) -> None:
    reason = RedisServer.missing()
    if reason:
        pytest.skip(reason)
    credentials = tmp_path / "credentials"
    credentials.write_text("media:secret")

    async def test(broker: MessageQueue) -> None:
        assert isinstance(broker, RedisBroker)
        rights = ("on", ">secret", "+@all", "~act.media.*", "~act:*", "&*")
        await broker.client.execute_command("ACL", "SETUSER", "media", *rights)  # type: ignore[no-untyped-call]  # redis' own
        await broker.ensure(QueueSettings(name="act.web.mail.128"))
        limited = await open_message_queue(broker.address, credentials)
        try:
            await limited.ensure(QUICK)
            await published(limited, 2)
            assert {queue: lag.backlog for queue, lag in (await limited.lag()).items()} == {QUEUE: 2}
        finally:
            await limited.close()

    with RedisServer(tmp_path) as started:
        on(started, test)


def test_names_that_somebody_has_put_among_redis_queues_cost_one_read_and_a_time_out_cuts_it(tmp_path: Path) -> None:
    reason = RedisServer.missing()
    if reason:
        pytest.skip(reason)

    async def test(broker: MessageQueue) -> None:
        assert isinstance(broker, RedisBroker)
        await broker.ensure(QUICK)
        await published(broker, 2)
        for start in range(0, 200_000, 20_000):
            await broker.client.sadd(
                "act:queues", *(f"act.evil.n{number}.1" for number in range(start, start + 20_000))
            )
        await broker.client.sadd("act:queues", b"\xff", "act.media.thumbnail.0256", "act.x.y")
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.lag(), 0.1)
        assert time.monotonic() - began < 1.0
        assert {queue: lag.backlog for queue, lag in (await broker.lag()).items()} == {QUEUE: 2}
        assert {queue: lag.backlog for queue, lag in (await broker.lag()).items()} == {QUEUE: 2}
        assert await broker.client.scard("act:queues") == 4

    with RedisServer(tmp_path) as started:
        on(started, test)


def test_what_is_dropped_is_what_is_older(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await published(broker, 3)
        await asyncio.sleep(1.6)
        await broker.publish(QUEUE, b"young")
        assert await broker.drop(QUEUE, Duration(1.0)) == 3
        assert await broker.drop(QUEUE, Duration(1.0)) == 0
        assert (await one(broker)).body == b"young"
        await published(broker, 2)
        assert await broker.drop(QUEUE, Duration(0.0)) >= 2
        lag = (await broker.lag())[QUEUE]
        assert lag.backlog == 0

    on(server, test)


def test_a_queue_that_is_deleted_is_gone_and_can_be_made_again(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await published(broker, 2)
        await broker.delete(QUEUE)
        await broker.delete(QUEUE)
        assert QUEUE not in await broker.lag()
        await broker.ensure(QUICK)
        assert (await broker.lag())[QUEUE].backlog == 0

    on(server, test)


def test_a_queue_that_somebody_else_deleted_is_made_again_by_who_pulls(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        stranger = await open_message_queue(server.url)
        await stranger.delete(QUEUE)
        await stranger.close()
        pull = asyncio.create_task(one(broker, 20.0))
        await asyncio.sleep(1.0)
        await broker.publish(QUEUE, b"after")
        assert (await pull).body == b"after"

    on(server, test)


def test_reports_come_to_who_listens_and_long_ones_do_not(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        listening = asyncio.create_task(first_report(broker))

        async def came() -> bool:
            await broker.report(QUEUE, b"x" * 5000)
            await broker.report(QUEUE, b"{}")
            await asyncio.sleep(0.05)
            return listening.done()

        await until(came)
        assert listening.result() == RawReport(queue=QUEUE, body=b"{}")

    on(server, test)


async def first_report(broker: MessageQueue) -> RawReport:
    return await anext(broker.reports())


def test_a_broker_that_goes_away_is_said_so_at_once_and_comes_back_with_its_messages(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        await broker.ensure(QUICK)
        await published(broker, 2)
        await asyncio.sleep(1.2)  # redis writes its log each second
        pull = asyncio.create_task(broker.pull(OTHER, MessageCount(1), Duration(30.0)))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.stop, killed=True)
        with pytest.raises(BrokerUnreachable):
            await asyncio.wait_for(pull, 5.0)
        began = time.monotonic()
        for call in (
            broker.lag(),
            broker.publish(QUEUE, b"x"),
            broker.ensure(QUICK),
            broker.pull(QUEUE, MessageCount(1), Duration(1.0)),
        ):
            with pytest.raises(BrokerUnreachable) as said:
                await call
            assert server.url in str(said.value)
        assert time.monotonic() - began < 10
        await asyncio.to_thread(server.start)

        async def back() -> bool:
            try:
                return (await broker.lag()).get(QUEUE, QueueLag(backlog=0, in_flight=0)).backlog == 2
            except BrokerUnreachable:
                return False

        await until(back, 15.0)
        assert (await one(broker)).body == b"0"

    on(server, test)


def test_of_a_broker_that_comes_back_empty_all_queues_are_made_again(server: BrokerServer) -> None:
    async def test(broker: MessageQueue) -> None:
        queues, made = [QUICK, QueueSettings(name=OTHER)], QueueProvisioner(5.0)

        async def ticked() -> bool:
            try:
                await made.make(broker, queues)
                lags = await broker.lag()
            except BrokerUnreachable:
                return False
            made.seen(queues, lags)
            return set(lags) == {QUEUE, OTHER}

        assert await ticked()
        await published(broker, 2)
        await asyncio.to_thread(server.lose_all)
        await asyncio.sleep(1.0)  # until the connection is there anew
        await until(ticked, 15.0)
        stranger = await open_message_queue(server.url)  # for it is not enough that this one believes it
        assert {queue: lag.backlog for queue, lag in (await stranger.lag()).items()} == {QUEUE: 0, OTHER: 0}
        await stranger.close()

    on(server, test)


def test_a_broker_that_is_not_there_yet_is_waited_for(server: BrokerServer) -> None:
    async def whole() -> None:
        await asyncio.to_thread(server.stop)
        broker = await open_message_queue(server.url)
        with pytest.raises(BrokerUnreachable):
            await broker.lag()
        await asyncio.to_thread(server.start)

        async def there() -> bool:
            try:
                await broker.ensure(QUICK)
            except BrokerUnreachable:
                return False
            return True

        await until(there, 15.0)
        await broker.close()

    asyncio.run(whole())


@pytest.mark.parametrize("kind", SERVERS, ids=lambda server: str(server.scheme))
def test_credentials_come_from_the_file_and_are_in_no_error(kind: type[BrokerServer], tmp_path: Path) -> None:
    reason = kind.missing()
    if reason:
        pytest.skip(reason)
    wrong = tmp_path / "wrong"
    wrong.write_text(f"{USER}:guessed-{PASSWORD}", encoding="utf-8")

    async def whole(server: BrokerServer) -> None:
        broker = await open_message_queue(server.url, server.credentials)
        await broker.ensure(QUICK)
        await broker.close()
        for file in (wrong, None):
            refused = await open_message_queue(server.url, file)
            with pytest.raises((BrokerRefused, BrokerUnreachable)) as said:
                await refused.ensure(QUICK)
            assert PASSWORD not in str(said.value)
            assert PASSWORD not in repr(said.value.__cause__)
            await refused.close()

    with kind(tmp_path, protected=True) as server:
        asyncio.run(whole(server))


@pytest.mark.parametrize("when", ["before its first pull", "while it pulls"])
def test_a_proxy_that_waits_for_its_broker_ends_within_a_second_of_sigterm(
    server: BrokerServer, when: str, tmp_path: Path
) -> None:
    port = free_port()
    if when == "before its first pull":
        server.stop(killed=True)
    command = ["demand", "proxy", "--mode", "wait", "--queues", QUEUE, "--broker-url", server.url]
    command = [str(Path(sys.executable).parent / "resource-slack"), *command, "--listen", f"{LOOPBACK}:{port}"]
    log = tmp_path / "proxy.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            if when == "while it pulls":
                wait_until(lambda: _readiness(port) == 200, 60, "the proxy to be ready")
                server.stop(killed=True)
            wait_until(lambda: _readiness(port) == 503, 60, "the proxy to miss its broker")
            wait_until(lambda: b"no messages" in log.read_bytes(), 60, "the proxy to wait for its broker")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            seconds = time.monotonic() - began
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()
    assert seconds < max(1.0, time_scale()), log.read_text()


def test_a_proxy_whose_broker_hangs_ends_within_a_second_of_sigterm(server: BrokerServer, tmp_path: Path) -> None:
    """No connection ends and no pull has failed yet: to the proxy the broker is well, but it answers nothing."""
    port = free_port()
    command = ["demand", "proxy", "--mode", "wait", "--queues", QUEUE, "--broker-url", server.url]
    command = [str(Path(sys.executable).parent / "resource-slack"), *command, "--listen", f"{LOOPBACK}:{port}"]
    log = tmp_path / "proxy.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: _readiness(port) == 200, 60, "the proxy to be ready")
            time.sleep(0.5)  # until it pulls
            os.kill(server.program.pid, signal.SIGSTOP)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            seconds = time.monotonic() - began
        finally:
            os.kill(server.program.pid, signal.SIGCONT)
            process.kill()
    assert process.returncode == 0, log.read_text()
    assert seconds < max(1.0, time_scale()), log.read_text()


def _readiness(port: int) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
