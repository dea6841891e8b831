"""A connection that a broker has ended is made anew, with what the credentials file says by then."""

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from slack.demand.broker import BrokerError, BrokerUnreachable
from slack_operator.demand.brokers.credentials import BrokerCredentials, read_credentials
from slack_operator.demand.brokers.nats_connection import NatsConnection
from slack_operator.demand.brokers.redis import RedisBroker

INFO = (
    b'INFO {"server_id":"a","version":"2.12.0","proto":1,"host":"127.0.0.1","headers":true,"max_payload":1048576}\r\n'
)
ENDS_FOR_GOOD = (
    b"-ERR 'User Authentication Expired'\r\n",
    b"-ERR 'Authentication Revoked'\r\n",
    b"-ERR 'Authorization Violation'\r\n",
    b"-ERR 'Maximum Connections Exceeded'\r\n",
    b"",
)

_AT_ONCE = struct.pack("ii", 1, 0)
"""The linger option with which a socket is reset rather than closed."""


class Nats:
    """As much of a NATS server as connects and takes subscriptions."""

    def __init__(self) -> None:
        self.connects: list[bytes] = []
        self.subscribed: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        writer.write(INFO)
        while line := await reader.readline():
            if line.startswith(b"CONNECT"):
                self.connects.append(line)
            elif line.startswith(b"SUB"):
                self.subscribed.append(line.split()[1])
            elif line.startswith(b"PING"):
                writer.write(b"PONG\r\n")


async def ended(server: asyncio.Server, writers: list[asyncio.StreamWriter]) -> None:
    server.close()
    await server.wait_closed()
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    await asyncio.sleep(0.05)


async def until(connection: NatsConnection, *, connected: bool) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                there = connection.client is not None
            except BrokerUnreachable:
                there = False
            if there == connected:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("error", ENDS_FOR_GOOD)
def test_nats_connects_again_after_any_error_with_credentials_read_again(error: bytes, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("worker:old")

    async def whole() -> None:
        nats, gone = Nats(), list[int]()
        server = await asyncio.start_server(nats.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = NatsConnection(
            [f"nats://127.0.0.1:{port}"],
            read_credentials(file),
            ca_file=None,
            name="test",
            on_gone=lambda: gone.append(1),
        )

        async def nothing(_: Any) -> None:
            """Take no message: none comes."""

        await connection.settled(5)
        await connection.subscribe("actreport.>", nothing)
        await connection.client.flush(2)
        file.write_text("worker:new")
        nats.writers[0].write(error)
        nats.writers[0].close()
        await until(connection, connected=False)
        await until(connection, connected=True)
        await connection.client.flush(2)
        assert gone
        assert len(nats.connects) == 2
        assert b'"old"' in nats.connects[0]
        assert b'"new"' in nats.connects[1]
        assert nats.subscribed == [b"actreport.>", b"actreport.>"], "what was subscribed to is subscribed to again"
        await connection.close()
        await ended(server, nats.writers)

    asyncio.run(whole())


def test_nats_connects_again_after_a_reset_that_meets_a_write() -> None:
    """The library then tells nobody: what it had still to write fails, and its callbacks are not called."""

    async def whole() -> None:
        nats = Nats()
        server = await asyncio.start_server(nats.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = NatsConnection(
            [f"nats://127.0.0.1:{port}"], BrokerCredentials(), ca_file=None, name="test", on_gone=lambda: None
        )
        await connection.settled(5)
        nats.writers[0].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        nats.writers[0].transport.abort()
        with contextlib.suppress(BrokerUnreachable):
            for _ in range(100):
                await connection.publish("actreport.a", b"written as the connection ends")
                await asyncio.sleep(0)
        await until(connection, connected=False)
        await until(connection, connected=True)
        assert len(nats.connects) == 2
        await connection.close()
        await ended(server, nats.writers)

    asyncio.run(whole())


def test_nats_tries_one_server_after_the_other() -> None:
    async def whole() -> None:
        nats = Nats()
        server = await asyncio.start_server(nats.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        urls = ["nats://127.0.0.1:1", f"nats://127.0.0.1:{port}"]
        connection = NatsConnection(urls, BrokerCredentials(), ca_file=None, name="test", on_gone=lambda: None)
        await until(connection, connected=True)
        await connection.close()
        await ended(server, nats.writers)

    asyncio.run(whole())


def test_nats_connects_again_if_the_task_that_connects_was_cancelled() -> None:
    async def whole() -> None:
        connection = NatsConnection(
            ["nats://127.0.0.1:9"], BrokerCredentials(), ca_file=None, name="test", on_gone=lambda: None
        )
        first = connection._keeping
        first.cancel()
        await asyncio.wait([first])
        with pytest.raises(BrokerUnreachable):
            _ = connection.client
        assert not connection._keeping.done()
        await connection.close()
        with pytest.raises(BrokerUnreachable):
            _ = connection.client
        assert connection._keeping.done(), "a connection that was closed stays so"

    asyncio.run(whole())


def test_redis_reads_the_password_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("worker:old")
    shown: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        words: list[bytes] = []
        left = 0
        while line := await reader.readline():
            if line.startswith(b"*"):
                left, words = int(line[1:]), []
            elif not line.startswith(b"$"):
                words.append(line.strip())
                left -= 1
                if left == 0 and words[0].upper() == b"AUTH":
                    shown.append(words[-1])
                if left == 0 and words[0].upper() == b"PING":
                    writer.write(b"+PONG\r\n")
                    writer.close()  # each connection lasts for one request
                elif left == 0:
                    writer.write(b"+OK\r\n")

    async def whole() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        broker = RedisBroker("127.0.0.1", server.sockets[0].getsockname()[1], credentials=read_credentials(file))
        assert await broker.client.ping()
        file.write_text("worker:new")
        await asyncio.sleep(0.05)
        with broker._mapped():
            assert await broker.client.ping()
        await broker.client.aclose()
        await ended(server, writers)

    asyncio.run(whole())
    assert shown == [b"old", b"new"]


def test_who_only_listens_to_redis_misses_a_server_whose_machine_is_gone() -> None:
    """No packet tells of the end then, and nothing is ever sent by who waits for reports: the kernel has to ask."""
    heard: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(writer)
        while line := await reader.readline():
            if line.startswith(b"*"):
                writer.write(b"+OK\r\n")

    async def whole() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        broker = RedisBroker("127.0.0.1", server.sockets[0].getsockname()[1])
        for timeout_seconds in (None, 2.0):
            pool: Any = broker._new_client(timeout_seconds).connection_pool
            connection = await pool.get_connection()
            line = connection._writer.get_extra_info("socket")
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            times = [
                line.getsockopt(socket.IPPROTO_TCP, option) for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT)
            ]
            assert times == [10, 3]
            await connection.disconnect()
        await broker.client.aclose()
        await ended(server, heard)

    asyncio.run(whole())


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # kafka-python's own
def test_kafka_makes_another_client_after_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kafka import errors

    from slack_operator.demand.brokers.kafka import KafkaLag

    file = tmp_path / "credentials"
    file.write_text("worker:old")
    made: list[str] = []

    class Admin:
        def __init__(self, **options: Any) -> None:
            made.append(options["sasl_plain_password"])

        def describe_topics(self, topics: list[str]) -> list[Any]:
            assert topics == []
            if len(made) == 1:
                raise errors.KafkaConnectionError
            return []

        def close(self) -> None:
            made.append("closed")

    monkeypatch.setattr("slack_operator.demand.brokers.kafka.KafkaAdminClient", Admin)

    async def whole() -> None:
        broker = KafkaLag(["kafka:9092"], credentials=read_credentials(file), group="workers")
        with pytest.raises(BrokerError):
            await broker.lag()
        file.write_text("worker:new")
        assert await broker.lag() == {}
        await broker.lag()

    asyncio.run(whole())
    assert made == ["old", "closed", "new"]
