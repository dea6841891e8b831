"""From a URL to a broker: `nats://`, `tls+nats://` (or `tls://`), `redis://`, `rediss://`, `kafka://`.

Usage:
    broker = await open_broker("nats://nats.media:4222", Path("/var/run/secrets/broker/credentials"))

Credentials come from a file, never in the URL: a URL is in flags, logs and errors. What the query may say:
`ca=FILE` (who signs the server's certificate), `prefix=act.NAMESPACE.` (NATS: a stream of its own; may be given more
than once), `replicas=N` (NATS: of the streams), `group=NAME` (Kafka: whose lag is read), `db=N` (Redis).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from slack.demand.broker import PREFIX, Broker, BrokerRefused
from slack.process.values import split_url
from slack_operator.demand.brokers.credentials import read_credentials

FIRST_CONNECTION_SECONDS: Final = 2.0
"""So long the first connection is waited for; after that calls say that it is not there."""
_PORTS: Final = {"nats": 4222, "tls": 4222, "redis": 6379, "rediss": 6379, "kafka": 9092}
_QUERIES: Final = {
    "nats": ("ca", "prefix", "replicas"),
    "tls": ("ca", "prefix", "replicas"),
    "redis": ("db",),
    "rediss": ("ca", "db"),
    "kafka": ("group",),
}
_RIGHT: Final = "nats://HOST:4222, tls+nats://HOST:4222, redis://HOST:6379, rediss://HOST:6379 or kafka://HOST:9092"
_LIBRARIES: Final = {"nats": "nats", "tls": "nats", "redis": "redis", "rediss": "redis", "kafka": "kafka"}
_MOST_URL: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """A broker's URL in parts."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    query: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def servers(self) -> tuple[str, ...]:
        """Each server as a URL of its own, without anything that is secret."""
        return tuple(f"{self.scheme}://{_bracket_ipv6(host)}:{port}" for host, port in self.hosts)

    def one(self, name: str, default: str) -> str:
        """Return what the query says of a name that is given once."""
        return self.query.get(name, (default,))[-1]

    def number(self, name: str, default: int, most: int) -> int:
        """Return what the query says as a number.

        Raises:
            BrokerRefused: it is none, or out of its range.
        """
        text = self.one(name, f"{default}")
        if not text.isascii() or not text.isdecimal() or not int(text) <= most:
            raise BrokerRefused(f"broker URL: {name}={text}: must be a number from 0 to {most}")
        return int(text)


def parse_broker_url(url: str) -> BrokerUrl:
    """Take a broker's URL apart. Several servers of one cluster are separated by commas.

    Raises:
        BrokerRefused: it names no broker that is known, holds credentials, or says what that broker does not know.
    """
    if len(url) > _MOST_URL:
        raise BrokerRefused(f"broker URL: is longer than {_MOST_URL} characters")
    scheme, separator, rest = url.strip().partition("://")
    scheme = scheme.lower().removesuffix("+nats")
    if not separator or scheme not in _PORTS:
        named = f"{scheme[:20]}://" if separator else "no scheme"
        raise BrokerRefused(f"broker URL: {named}: unknown broker: write {_RIGHT}")
    authority, _, tail = rest.partition("/") if "/" in rest.partition("?")[0] else (rest.partition("?")[0], "", "")
    path, _, query = (tail if tail else rest[len(authority) :]).partition("?")
    if "@" in authority:
        raise BrokerRefused("broker URL: must hold no credentials: write them into the credentials file")
    if path.strip("/"):
        raise BrokerRefused(f"broker URL: must have no path: write {_RIGHT}")
    hosts = tuple(_host(scheme, part) for part in authority.split(","))
    found = {name: tuple(values) for name, values in parse_qs(query, keep_blank_values=True).items()}
    for name in found:
        if name not in _QUERIES[scheme]:
            known = ", ".join(_QUERIES[scheme])
            raise BrokerRefused(f"broker URL: ?{name[:40]}: unknown for {scheme}://; known: {known}")
    if scheme in ("redis", "rediss") and len(hosts) > 1:
        raise BrokerRefused("broker URL: one server for Redis: its streams are in one place, or replicated behind it")
    return BrokerUrl(scheme=scheme, hosts=hosts, query=found)


def _host(scheme: str, text: str) -> tuple[str, int]:
    parts = split_url(f"{scheme}://{text}", _PORTS)
    if parts is None or (parts.port is None and text.rstrip("]").rpartition(":")[1] and not text.startswith("[")):
        raise BrokerRefused(f"broker URL: no host, or a port that is none: write {_RIGHT}")
    return str(parts.hostname), _PORTS[scheme] if parts.port is None else parts.port


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def open_broker(url: str, credentials_file: Path | None = None, *, name: str = "resource-slack") -> Broker:
    """Open a broker, and wait a moment for its connection; one that is not there is connected to once it is.

    Args:
        url: as the module's docstring has it.
        credentials_file: see `credentials`.
        name: who we are, as the broker's own tools show it.

    Raises:
        BrokerRefused: the URL or the file is no good, or the broker's library is not installed.
    """
    parsed = parse_broker_url(url)
    credentials = read_credentials(credentials_file)
    ca = parsed.one("ca", "")
    ca_file = Path(ca) if ca else None
    if ca_file is not None and not ca_file.is_file():
        raise BrokerRefused(f"broker URL: ca={ca}: there is no such file")
    try:
        if parsed.scheme in ("nats", "tls"):
            from slack_operator.demand.brokers.nats import NatsBroker

            nats = NatsBroker(
                parsed.servers,
                credentials=credentials,
                ca_file=ca_file,
                prefixes=parsed.query.get("prefix", (PREFIX,)),
                replicas=max(parsed.number("replicas", 1, 5), 1),
                name=name,
            )
            await nats.connection.settled(FIRST_CONNECTION_SECONDS)
            return nats
        if parsed.scheme in ("redis", "rediss"):
            from slack_operator.demand.brokers.redis import RedisBroker

            return RedisBroker(
                *parsed.hosts[0],
                credentials=credentials,
                tls=parsed.scheme == "rediss",
                ca_file=ca_file,
                database=parsed.number("db", 0, 1023),
                name=name,
            )
        from slack_operator.demand.brokers.kafka import KafkaLag

        return KafkaLag(
            tuple(f"{_bracket_ipv6(host)}:{port}" for host, port in parsed.hosts),
            credentials=credentials,
            group=parsed.one("group", ""),
            name=name,
        )
    except ModuleNotFoundError as error:
        library = _LIBRARIES[parsed.scheme]
        if (error.name or "").partition(".")[0] not in ("nats", "redis", "kafka", "nkeys", "nacl"):
            raise
        raise BrokerRefused(
            f"broker URL: {parsed.scheme}:// needs a library that is not installed: "
            f"pip install 'resource-slack[{library}]'"
        ) from None
