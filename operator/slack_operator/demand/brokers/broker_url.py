"""A broker's URL in parts: `nats://`, `tls+nats://` (or `tls://`), `redis://`, `rediss://`, `kafka://`.

Which brokers, schemes and names of the query there are: `slack.demand.broker_kind`. What the query may say: `ca=FILE`
(who signs the server's certificate), `prefix=act.NAMESPACE.` (NATS: a stream of its own; may be given more than once),
`replicas=N` (NATS: of the streams), `group=NAME` (Kafka: whose lag is read), `db=N` (Redis). Credentials come from a
file, never in the URL: a URL is in flags, logs and errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from slack.demand.broker import BrokerRefused
from slack.demand.broker_kind import KIND_OF_SCHEME, BrokerKind
from slack.process.values import split_url

_RIGHT: Final = " or ".join(f"{scheme}://HOST:{kind.port}" for scheme, kind in KIND_OF_SCHEME.items())
_MOST_URL: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """A broker's URL in parts."""

    kind: BrokerKind
    scheme: str
    hosts: tuple[tuple[str, int], ...]
    query: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def servers(self) -> tuple[str, ...]:
        """Each server as a URL of its own, without anything that is secret."""
        return tuple(f"{self.scheme}://{address}" for address in self.addresses)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Each server as `HOST:PORT`."""
        return tuple(f"{_bracket_ipv6(host)}:{port}" for host, port in self.hosts)

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

    def ca_file(self) -> Path | None:
        """Return who signs the server's certificate, by `ca`.

        Raises:
            BrokerRefused: there is no such file.
        """
        ca = self.one("ca", "")
        if ca and not Path(ca).is_file():
            raise BrokerRefused(f"broker URL: ca={ca}: there is no such file")
        return Path(ca) if ca else None


def parse_broker_url(url: str) -> BrokerUrl:
    """Take a broker's URL apart. Several servers of one cluster are separated by commas.

    Raises:
        BrokerRefused: it names no broker that is known, holds credentials, or says what that broker does not know.
    """
    if len(url) > _MOST_URL:
        raise BrokerRefused(f"broker URL: is longer than {_MOST_URL} characters")
    scheme, separator, rest = url.strip().partition("://")
    scheme = scheme.lower()
    kind = KIND_OF_SCHEME.get(scheme)
    if not separator or kind is None:
        named = f"{scheme[:20]}://" if separator else "no scheme"
        raise BrokerRefused(f"broker URL: {named}: unknown broker: write {_RIGHT}")
    known = kind.schemes[scheme]
    scheme = scheme.removesuffix(f"+{kind}")
    authority, _, tail = rest.partition("/") if "/" in rest.partition("?")[0] else (rest.partition("?")[0], "", "")
    path, _, query = (tail if tail else rest[len(authority) :]).partition("?")
    if "@" in authority:
        raise BrokerRefused("broker URL: must hold no credentials: write them into the credentials file")
    if path.strip("/"):
        raise BrokerRefused(f"broker URL: must have no path: write {_RIGHT}")
    hosts = tuple(_host(scheme, kind.port, part) for part in authority.split(","))
    found = {name: tuple(values) for name, values in parse_qs(query, keep_blank_values=True).items()}
    for name in found:
        if name not in known:
            raise BrokerRefused(f"broker URL: ?{name[:40]}: unknown for {scheme}://; known: {', '.join(known)}")
    if kind.has_one_server and len(hosts) > 1:
        raise BrokerRefused(
            f"broker URL: one server for {kind.title()}: its queues are in one place, or replicated behind it"
        )
    return BrokerUrl(kind=kind, scheme=scheme, hosts=hosts, query=found)


def _host(scheme: str, usual_port: int, text: str) -> tuple[str, int]:
    parts = split_url(f"{scheme}://{text}", (scheme,))
    if parts is None or (parts.port is None and text.rstrip("]").rpartition(":")[1] and not text.startswith("[")):
        raise BrokerRefused(f"broker URL: no host, or a port that is none: write {_RIGHT}")
    return str(parts.hostname), usual_port if parts.port is None else parts.port


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host
