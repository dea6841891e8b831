"""Connections that a broker ends, on real servers: each comes back by itself, with what the files say by then."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest

from e2e.harness.brokers.servers import PASSWORD, USER, BrokerServer, NatsServer, RedisServer
from e2e.harness.brokers.tokens import Account
from e2e.harness.cluster.certificates import Authority, Pair
from e2e.harness.ports import LOOPBACK, free_port
from slack.demand.broker import BrokerError, Duration, MessageCount, MessageQueue, QueueSettings
from slack_operator.demand.brokers.nats_connection import LONGEST_PAUSE_SECONDS
from slack_operator.demand.brokers.opening import open_message_queue

QUEUE = "act.media.thumbnail.256"
RETURNS_SECONDS = 2 * LONGEST_PAUSE_SECONDS + 5.0
Trouble = Callable[[MessageQueue], Awaitable[None]]


async def works(broker: MessageQueue, body: bytes) -> None:
    """Make the queue, publish, pull and ack."""
    await broker.ensure(QueueSettings(name=QUEUE))
    await broker.publish(QUEUE, body)
    found = await broker.pull(QUEUE, MessageCount(1), Duration(3.0))
    assert [message.body for message in found] == [body]
    await broker.ack(found[0])


async def fails_or_works(broker: MessageQueue) -> bool:
    try:
        await broker.lag()
    except BrokerError:
        return False
    return True


def around(url: str, credentials: Path | None, trouble: Trouble) -> None:
    """Let a broker work, let the trouble happen, and let the same broker work again; its reports too."""

    async def whole() -> None:
        broker = await open_message_queue(url, credentials)
        heard: list[bytes] = []

        async def listen() -> None:
            async for report in broker.reports():
                heard.append(report.body)  # noqa: PERF401  # it is looked at while the iteration goes on

        try:
            await works(broker, b"before")
            listening = asyncio.create_task(listen())
            await trouble(broker)
            deadline = time.monotonic() + RETURNS_SECONDS
            while not await fails_or_works(broker):
                assert time.monotonic() < deadline, "the connection did not come back"
                await asyncio.sleep(0.1)
            await works(broker, b"after")
            while not heard:
                assert time.monotonic() < deadline + 10, "reports are heard by the new connection too"
                await broker.report(QUEUE, b"{}")
                await asyncio.sleep(0.2)
            listening.cancel()
        finally:
            await broker.close()

    asyncio.run(whole())


async def until_it_fails(broker: MessageQueue) -> None:
    deadline = time.monotonic() + 15
    while await fails_or_works(broker):
        assert time.monotonic() < deadline, "the server has not ended the connection"
        await asyncio.sleep(0.05)


def built(kind: type[BrokerServer]) -> None:
    reason = kind.missing()
    assert reason is None, reason


class OperatorMode(NatsServer):
    """A server that knows users by their JWTs."""

    account: ClassVar[Account]

    def command(self) -> list[str]:
        words = super().command()
        with (self.folder / "nats.conf").open("a", encoding="utf-8") as config:
            config.write(self.account.configuration())
        return words


def test_an_expired_jwt_is_followed_by_the_one_that_is_in_the_file(tmp_path: Path) -> None:
    built(NatsServer)
    OperatorMode.account = Account()
    file = tmp_path / "worker.creds"
    OperatorMode.account.write_user(file, lasts_seconds=4)

    async def expire(broker: MessageQueue) -> None:
        await until_it_fails(broker)
        await asyncio.sleep(1.0)
        OperatorMode.account.write_user(file, lasts_seconds=None)

    with OperatorMode(tmp_path) as server:
        around(server.url, file, expire)


def test_a_reloaded_account_ends_the_connection_and_its_new_password_is_used(tmp_path: Path) -> None:
    built(NatsServer)
    with NatsServer(tmp_path, protected=True) as server:

        async def reload(broker: MessageQueue) -> None:
            config = server.folder / "nats.conf"
            config.write_text(config.read_text("utf-8").replace(PASSWORD, "another-Word"), "utf-8")
            os.kill(server.program.pid, signal.SIGHUP)
            await until_it_fails(broker)
            server.credentials.write_text(f"{USER}:another-Word\n", "utf-8")

        around(server.url, server.credentials, reload)


def test_a_rotated_password_of_redis_is_used_by_the_next_connection(tmp_path: Path) -> None:
    built(RedisServer)
    with RedisServer(tmp_path, protected=True) as server:

        async def rotate(broker: MessageQueue) -> None:
            def ask() -> bytes:
                with socket.create_connection((LOOPBACK, server.port), 5) as line:
                    for words in (
                        f"AUTH {USER} {PASSWORD}",
                        f"ACL SETUSER {USER} resetpass >another-Word",
                        f"CLIENT KILL USER {USER} SKIPME yes",
                    ):
                        line.sendall(words.encode() + b"\r\n")
                        answer = line.recv(1000)
                        assert not answer.startswith(b"-"), answer
                    return answer

            await asyncio.to_thread(ask)
            await until_it_fails(broker)
            server.credentials.write_text(f"{USER}:another-Word\n", "utf-8")

        around(server.url, server.credentials, rotate)


def test_a_server_that_is_gone_is_followed_by_another_of_the_address(tmp_path: Path) -> None:
    built(NatsServer)
    with NatsServer(tmp_path / "first") as first, NatsServer(tmp_path / "second") as second:

        async def move(broker: MessageQueue) -> None:
            await asyncio.to_thread(first.stop, killed=True)

        around(f"{first.url},{LOOPBACK}:{second.port}", None, move)


def test_a_server_that_has_moved_is_found_by_the_name_that_leads_to_it(tmp_path: Path) -> None:
    """The address stays and leads to another server, as a Service's does when its pod is another one."""
    for kind in (NatsServer, RedisServer):
        built(kind)
        port = free_port()
        with kind(tmp_path / "first") as first, kind(tmp_path / "second") as second:
            asyncio.run(_through(kind.scheme, port, first.port, second.port))


async def _through(scheme: str, port: int, first: int, second: int) -> None:
    way = _Way(port, first)
    await way.start()
    broker = await open_message_queue(f"{scheme}://{LOOPBACK}:{port}")
    await works(broker, b"before")
    way.leads_to = second
    way.cut()
    deadline = time.monotonic() + RETURNS_SECONDS
    while True:
        assert time.monotonic() < deadline, "the connection did not come back"
        try:
            await works(broker, b"after")
            break
        except BrokerError:
            await asyncio.sleep(0.1)
    await broker.close()
    way.cut()
    await way.stop()


class _Way:
    """Leads a port to another one, and can be cut."""

    def __init__(self, port: int, leads_to: int) -> None:
        self.port, self.leads_to = port, leads_to
        self._server: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []
        self._copying: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._lead, LOOPBACK, self.port)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(LOOPBACK, self.leads_to)
        self._open += [writer, back]
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        except OSError:
            return
        finally:
            target.close()

    def cut(self) -> None:
        for writer in self._open:
            writer.close()
        self._open.clear()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()


class Encrypted:
    """What both servers with TLS have: an authority and a certificate of theirs, which can be renewed."""

    authority: ClassVar[Authority]
    pair: ClassVar[Pair]


class NatsTls(NatsServer, Encrypted):
    """NATS over TLS."""

    def command(self) -> list[str]:
        words = super().command()
        with (self.folder / "nats.conf").open("a", encoding="utf-8") as config:
            config.write(f'tls {{ cert_file: "{self.pair.certificate}", key_file: "{self.pair.key}" }}\n')
        return words


class RedisTls(RedisServer, Encrypted):
    """Redis over TLS."""

    def command(self) -> list[str]:
        words = super().command()
        config = self.folder / "redis.conf"
        text = config.read_text("utf-8").replace(f"port {self.port}\n", f"port 0\ntls-port {self.port}\n")
        config.write_text(
            f"{text}tls-cert-file {self.pair.certificate}\ntls-key-file {self.pair.key}\n"
            f"tls-ca-cert-file {self.authority.certificate_path}\ntls-auth-clients no\n",
            "utf-8",
        )
        return words


@pytest.mark.parametrize(("kind", "scheme"), [(NatsTls, "tls"), (RedisTls, "rediss")])
def test_a_certificate_of_a_new_authority_is_trusted_once_the_file_has_it(
    kind: type[NatsTls | RedisTls], scheme: str, tmp_path: Path
) -> None:
    built(kind)
    trusted = tmp_path / "ca.crt"

    def renew(number: int) -> None:
        Encrypted.authority = Authority.create(tmp_path / f"authority-{number}")
        Encrypted.pair = Encrypted.authority.issue(f"broker-{number}", hosts=[LOOPBACK])

    renew(1)
    trusted.write_bytes(Encrypted.authority.certificate_path.read_bytes())
    with kind(tmp_path) as server:

        async def changed(broker: MessageQueue) -> None:
            await asyncio.to_thread(server.stop)
            renew(2)
            server.command()
            await asyncio.to_thread(server.start)
            await asyncio.sleep(1.0)
            assert not await fails_or_works(broker), "who signed it is not known yet"
            trusted.write_bytes(Encrypted.authority.certificate_path.read_bytes())

        around(f"{scheme}://{LOOPBACK}:{server.port}?ca={trusted}", None, changed)
