"""From a URL to a broker: what is refused is refused with what would be right, and nothing secret is said."""

import asyncio
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.demand.broker import BrokerError, BrokerRefused, MessageQueue, QueueSettings
from slack.demand.broker_kind import BrokerKind
from slack_operator.demand.brokers.broker_url import parse_broker_url
from slack_operator.demand.brokers.credentials import NONE, BrokerCredentials, read_credentials
from slack_operator.demand.brokers.opening import open_lag_source, open_message_queue
from slack_operator.demand.brokers.redis import RedisBroker
from tests.cases import run_for_each


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("nats://nats.media:4222", ("nats://nats.media:4222",)),
        ("nats://nats.media", ("nats://nats.media:4222",)),
        ("tls://a:1,b:2", ("tls://a:1", "tls://b:2")),
        ("tls+nats://a:1", ("tls://a:1",)),
        ("redis://127.0.0.1?db=3", ("redis://127.0.0.1:6379",)),
        ("rediss://[::1]:7000/", ("rediss://[::1]:7000",)),
        ("kafka://k:9092?group=workers", ("kafka://k:9092",)),
    ],
)
def test_a_url_names_its_servers_and_the_port_that_is_usual(url: str, servers: tuple[str, ...]) -> None:
    assert parse_broker_url(url).servers == servers


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://rabbit:5672", "amqp://: unknown broker: write nats://HOST:4222"),
        ("nats.media:4222", "no scheme: unknown broker"),
        ("nats://", "no host"),
        ("nats://host:port", "no host, or a port that is none"),
        ("nats://host:70000", "no host, or a port that is none"),
        ("nats://user:word@host:4222", "no credentials: write them into the credentials file"),
        ("redis://host/0", "must have no path"),
        ("redis://a,b", "one server for Redis"),
        ("nats://host?token=word", "?token: unknown for nats://; known: ca, prefix, replicas"),
        ("redis://host?db=many", "db=many: must be a number from 0 to 1023"),
        ("nats://host?replicas=7", "replicas=7: must be a number from 0 to 5"),
        ("nats://host?prefix=media.", "prefix 'media.': write act. or act.NAMESPACE."),
        ("rediss://host?ca=/nowhere/ca.crt", "ca=/nowhere/ca.crt: there is no such file"),
        ("kafka://host:9092", "kafka:// needs ?group=NAME"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*_text is deprecated")
def test_a_url_that_is_no_good_is_refused_with_what_would_be_right(url: str, said: str) -> None:
    with pytest.raises(BrokerRefused) as refused:
        asyncio.run(open_message_queue(url))
    assert said in str(refused.value)
    assert "word" not in str(refused.value)


@given(st.text(max_size=60))
def test_no_text_breaks_what_reads_urls(text: str) -> None:
    try:
        parsed = parse_broker_url(text)
    except BrokerRefused:
        return
    assert parsed.hosts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("worker:a:b\n", BrokerCredentials(user="worker", secret="a:b")),
        (":only-a-password", BrokerCredentials(user=None, secret="only-a-password")),
        ("  token-alone\n", BrokerCredentials(secret="token-alone")),
    ],
)
def test_credentials_are_one_line(tmp_path: Path, text: str, found: BrokerCredentials) -> None:
    file = tmp_path / "credentials"
    file.write_text(text, encoding="utf-8")
    assert read_credentials(file) == found
    assert found.secret is not None
    assert found.secret not in repr(found)


def test_without_a_file_there_are_none_and_nats_own_form_is_left_to_its_library(tmp_path: Path) -> None:
    assert read_credentials(None) is NONE
    file = tmp_path / "user.creds"
    file.write_text("-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n", encoding="utf-8")
    assert read_credentials(file) == BrokerCredentials(creds_file=file)
    with pytest.raises(BrokerRefused, match="is of NATS"):
        RedisBroker("localhost", 6379, credentials=read_credentials(file))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"two\nlines", b"\xff\xfe", b"x" * 70_000])
def test_a_file_that_holds_something_else_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "credentials"
    file.write_bytes(data)
    with pytest.raises(BrokerRefused, match="user:password, a token or password alone") as refused:
        read_credentials(file)
    assert str(file) in str(refused.value)
    assert "lines" not in str(refused.value)
    with pytest.raises(BrokerRefused, match="cannot be read: No such file"):
        read_credentials(tmp_path / "none")


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("slack_operator.demand.brokers.nats")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(BrokerRefused, match=r"pip install 'resource-slack\[nats\]'"):
        asyncio.run(open_message_queue("nats://127.0.0.1:1"))


@pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # the library's own import, on Python 3.11
def test_kafka_has_the_sources_names_of_topics_and_nothing_but_lag() -> None:
    from slack_operator.demand.brokers.kafka import KafkaLag, topic

    assert topic("act.media.thumbnail.256") == "media-thumbnail-256MB"

    async def whole() -> None:
        kafka = KafkaLag(["127.0.0.1:1"], group="workers")
        await kafka.ensure(QueueSettings(name="act.media.thumbnail.256"))
        with pytest.raises(
            BrokerRefused, match="it is a source of lag only: use proxy mode none, or one of nats, redis"
        ):
            await open_message_queue("kafka://127.0.0.1:1?group=workers")
        for name in ("act.media.thumbnail", "media.thumbnail.256.1"):
            with pytest.raises(BrokerRefused, match=r"write act\.NAMESPACE\.ACTION\.MEMORY"):
                await kafka.ensure(QueueSettings(name=name))
        await kafka.close()

    asyncio.run(whole())


def test_every_error_is_a_brokers_error() -> None:
    assert issubclass(BrokerRefused, BrokerError)


class OldRedis:
    """As much of a Redis before 7 as refuses the group's counters."""

    def __init__(self, version: str, *, tells: bool = True) -> None:
        self.version = version
        self.tells = tells

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2].upper())
            writer.write(self.answer(words[0]))
            await writer.drain()
        writer.close()

    def answer(self, command: bytes) -> bytes:
        if command == b"XGROUP":
            return b"-ERR Unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.\r\n"
        if command == b"INFO":
            if not self.tells:
                return b"-NOPERM this user has no permissions to run the 'info' command\r\n"
            text = f"# Server\r\nredis_version:{self.version}\r\n".encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return b":1\r\n" if command == b"SADD" else b"+OK\r\n"


@pytest.mark.parametrize(
    ("redis", "said"),
    [
        (OldRedis("6.2.14"), "it is Redis 6.2.14: Redis 7 or newer is needed"),
        (OldRedis("7.4.1"), "Unknown subcommand"),
        (OldRedis("next"), "Unknown subcommand"),
        (OldRedis("6.2.14", tells=False), "Unknown subcommand"),
    ],
    ids=["6.2", "7.4", "no number", "INFO is not allowed"],
)
def test_a_redis_that_is_too_old_is_named(redis: OldRedis, said: str) -> None:
    async def ensured() -> None:
        server = await asyncio.start_server(redis.serve, "127.0.0.1", 0)
        broker = RedisBroker("127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            with pytest.raises(BrokerRefused, match=said):
                await broker.ensure(QueueSettings(name="act.media.thumbnail.256"))
        finally:
            await broker.close()
            server.close()

    asyncio.run(ensured())


@pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # Kafka's library, on Python 3.11
@run_for_each("kind", BrokerKind)
def test_each_kind_has_a_module_that_opens_what_its_line_promises(kind: BrokerKind) -> None:
    queries = {"kafka": "?group=workers"}

    async def is_message_queue() -> bool:
        broker = await open_lag_source(f"{next(iter(kind.schemes))}://127.0.0.1:1{queries.get(kind, '')}")
        try:
            return isinstance(broker, MessageQueue)
        finally:
            await broker.close()

    assert asyncio.run(is_message_queue()) is not kind.is_lag_only
