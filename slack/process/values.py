"""What a setting's text may be: parsers that turn a flag, a variable or a file's value into the setting's own type.

Each raises ValueError that says what was given and what would be right; `settings` adds the setting's name. Light: the
agent reads its settings with them.
"""

import re
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from slack.cluster.duration import parse_duration, parse_fine_duration

if TYPE_CHECKING:
    from urllib.parse import SplitResult

Parse = Callable[[object], object]
"""Turns what was given (text, or a value of the file) into the setting's own type."""

_HOST = re.compile(r"[A-Za-z0-9._:%-]+")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
HTTP_SCHEMES = ("http", "https")
_TRUE, _FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")


def duration(least_seconds: float, most_seconds: float) -> Parse:
    """Return a parser of texts such as 10s, 5m or 1h30m, or of seconds as a number."""

    def parse(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds: float = value
        else:
            seconds = parse_duration(value).total_seconds()
        if not least_seconds <= seconds <= most_seconds:  # NaN is not between either
            raise ValueError(f"must be at least {least_seconds:g}s and at most {most_seconds / 3600:g}h, not {value!r}")
        return float(seconds)

    return parse


def millis_duration(least_seconds: float, most_seconds: float) -> Parse:
    """Return a parser as `duration`'s, for texts that may have milliseconds: 300ms."""
    seconds = duration(least_seconds, most_seconds)

    def parse(value: object) -> object:
        return seconds(parse_fine_duration(value).total_seconds() if isinstance(value, str) else value)

    return parse


def number(least: int, most: int) -> Parse:
    """Return what parses a whole number within bounds."""

    def parse(value: object) -> int:
        found = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise ValueError(f"should be a whole number from {least} to {most}, not {value!r}")
        return found

    return parse


def switch(value: object) -> bool:
    """Parse true or false."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"should be true or false, not {value!r}")
    return word in _TRUE


def text(value: object) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, str):
        raise ValueError(f"should be a text, not {value!r}")
    if not value.strip():
        raise ValueError(f"must not be empty, not {value!r}")
    return value.strip()


def path(value: object) -> Path:
    """Parse a path."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"should be a path, not {value!r}")
    return Path(value)


def choice(kind: type[StrEnum]) -> Parse:
    """Return a parser of one of an enumeration's words."""

    def parse(value: object) -> StrEnum:
        try:
            return kind(str(value))
        except ValueError:
            words = [repr(member.value) for member in kind]
            raise ValueError(f"should be {', '.join(words[:-1])} or {words[-1]}, not {value!r}") from None

    return parse


def address(value: object) -> str:
    """Parse HOST:PORT; IPv6 needs its brackets, nothing else has any."""
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    whole = _HOST.fullmatch(bare) and (bare != host) == (":" in bare)
    if not colon or not whole or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ValueError(f"{value!r} is no address such as 127.0.0.1:8080 or 0.0.0.0:8080")
    return str(value)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    from ipaddress import ip_address

    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def host_port(value: str) -> tuple[str, int]:
    """Give an address in parts."""
    host, _, port = value.rpartition(":")
    return host.strip("[]"), int(port)


def dns_label(value: object) -> str:
    """Parse the name of a namespace, a lease or an account."""
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise ValueError(f"{value!r} is no Kubernetes name (lower case letters, digits and '-', at most 63)")
    return value


def dns_labels(value: object) -> tuple[str, ...]:
    """Parse names with commas between them, or a list of them."""
    names = value if isinstance(value, list | tuple) else [part.strip() for part in str(value).split(",")]
    return tuple(dict.fromkeys(dns_label(name) for name in names if name != ""))


def split_url(value: object, schemes: Collection[str]) -> "SplitResult | None":
    """Take a URL apart; None if it has no such scheme, no host, a port that is none, or a space in it."""
    from urllib.parse import urlsplit

    if not isinstance(value, str) or not value.isprintable() or " " in value:
        return None
    try:
        parts = urlsplit(value)
        return parts if parts.scheme in schemes and parts.hostname and parts.port != 0 else None
    except ValueError:  # half an IPv6 address; a port that is no number, or beyond 65535
        return None


def node_name(value: object) -> str:
    """Parse the name of a node."""
    if not isinstance(value, str) or not _NODE.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a node (lower case letters, digits, '-' and '.', at most 253)")
    return value


def load_watcher_url(value: object) -> str:
    """Parse the address of a load watcher, with or without `/watcher`."""
    if split_url(value, HTTP_SCHEMES) is None or "@" in str(value):
        raise ValueError("should be the address of a load watcher such as http://127.0.0.1:2020")
    return str(value).rstrip("/").removesuffix("/watcher")


def metrics_url(value: object) -> str:
    """Parse the address of a page of metrics."""
    if split_url(value, HTTP_SCHEMES) is None or "@" in str(value):
        raise ValueError("should be the address of a page of metrics such as http://opencost.opencost:9003/metrics")
    return str(value)


def controller_url(such_as: str) -> Callable[[object], str]:
    """Return what parses the URL that an agent's token goes to: https, or http on loopback."""

    def parse(value: object) -> str:
        parts = split_url(value.strip() if isinstance(value, str) else value, HTTP_SCHEMES)
        if parts is None:
            raise ValueError(f"{value!r} is no URL such as {such_as}")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("should be a scheme, a host and a port, without a user, '?' or '#'")
        if parts.scheme == "http" and not is_loopback(str(parts.hostname)):
            raise ValueError(
                f"{value!r} would send the agent's token in the clear; use https (http is for loopback only)"
            )
        return str(value).strip().rstrip("/")

    return parse
