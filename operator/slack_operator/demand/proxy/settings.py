"""What `resource-slack demand proxy` can be told. The controller of pods tells it all of this; people may too."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from slack.process.settings import NoValue, setting
from slack.process.shared_settings import LoggingSettings
from slack.process.values import Parse, choice, millis_duration, path, text

_POOL = NoValue("the pool says it: the controller writes the proxy's flags into its pods")
_MOST_SLOTS = 1000
_HTTP = "http://"


class RunMode(StrEnum):
    """How a message is run."""

    SIDECAR = "sidecar"
    """POSTed to a container of the same pod, which is there without us."""
    PROCESS = "process"
    """Given to a command that the proxy starts: a line in, a line out, or POSTed to the port that it is given."""
    WAIT = "wait"
    """No run at all, but a time: what is left is the way of a message, for benchmarks."""


def whole(least: int, most: int) -> Parse:
    """Return a parser of a whole number."""

    def parse(value: object) -> int:
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"must be a whole number from {least} to {most}, not {value!r}")
        return number

    return parse


def queues(value: object) -> tuple[str, ...]:
    """Parse names of queues, separated by commas; the first is the pool's own."""
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    names = tuple(str(word).strip() for word in words)
    if not names or not all(name.startswith("act.") for name in names):
        raise ValueError(f"should be queues such as act.media.thumbnail.256, separated by commas, not {value!r}")
    return names


def target(value: object) -> str:
    """Parse where a message is POSTed to: a path on this machine, and nowhere else."""
    given = str(value)
    authority, _, _ = given.removeprefix(_HTTP).partition("/")
    host, colon, port = authority.rpartition(":")
    local = given.startswith(_HTTP) and colon and host in ("127.0.0.1", "localhost", "[::1]")
    if not local or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536 or not given.isprintable():
        raise ValueError(f"should be of this machine, such as http://127.0.0.1:8080/run, not {value!r}")
    if any(letter.isspace() or not letter.isascii() for letter in given):
        raise ValueError(f"should have no spaces and no letters that are not ASCII, not {value!r}")
    return given


@dataclass(frozen=True, kw_only=True)
class DemandProxySettings(LoggingSettings):
    """Everything `resource-slack demand proxy` can be told."""

    prefix: ClassVar[str] = "RESOURCE_SLACK_DEMAND_PROXY_"
    section: ClassVar[str | NoValue] = _POOL
    example: ClassVar[str] = "broker-url"
    environment: ClassVar[Mapping[str, str]] = {"container": "POD_NAME"}

    broker_url: str | None = setting(
        None,
        text,
        "Address of the broker: nats:// or redis://, tls+nats:// and rediss:// over TLS; needed.",
        metavar="URL",
        chart=_POOL,
    )
    broker_credentials_file: Path | None = setting(
        None,
        path,
        "Its credentials: user:password, a token or password alone, or a .creds file.",
        metavar="FILE",
        chart=_POOL,
    )
    queues: tuple[str, ...] = setting(
        (),
        queues,
        "Queues that messages are pulled from, with commas; needed. The first is the pool's own, the others are those "
        "of an earlier memory, which go first.",
        metavar="NAMES",
        chart=_POOL,
    )
    ack_wait: float = setting(
        60.0,
        millis_duration(0.5, 24 * 3600),
        "After this time without an answer a message is redelivered; a run that continues reports it in time.",
        metavar="DURATION",
        chart=_POOL,
    )
    max_deliver: int = setting(
        5,
        whole(1, 1000),
        "So often a message is tried before it goes to act.dead.",
        metavar="NUMBER",
        chart=_POOL,
    )
    mode: RunMode = setting(
        RunMode.SIDECAR,
        choice(RunMode),
        "sidecar: POST to --target; process: run --command; wait: let --wait go by.",
        metavar="MODE",
        chart=_POOL,
    )
    target: str = setting(
        "http://127.0.0.1:8080/",
        target,
        "Address that messages are POSTed to; 2xx acknowledges one. With --mode process its port is given to the "
        "command as PORT.",
        metavar="URL",
        chart=_POOL,
    )
    command: str | None = setting(
        None,
        text,
        "With --mode process: the command that stays and runs messages, as a shell would split it.",
        metavar="COMMAND",
        chart=_POOL,
    )
    protocol: str = setting(
        "lines",
        text,
        "How the command receives messages: lines (JSON, a line in, a line out) or http (as --mode sidecar).",
        metavar="lines|http",
        chart=_POOL,
    )
    wait: float = setting(
        0.002, millis_duration(0.0, 3600), "With --mode wait: how long a run takes.", metavar="DURATION", chart=_POOL
    )
    slots: int = setting(1, whole(1, _MOST_SLOTS), "Messages that run at the same time.", metavar="NUMBER", chart=_POOL)
    longest_run: float = setting(
        3600.0,
        millis_duration(0.01, 24 * 3600),
        "A run that takes longer is given up, and its message given back.",
        metavar="DURATION",
        chart=_POOL,
    )
    idle_timeout: float = setting(
        60.0,
        millis_duration(0.0, 24 * 3600),
        "Without a message for so long it ends; 0: somebody else says when, as the controller does for pods.",
        metavar="DURATION",
        chart=_POOL,
    )
    messages: int = setting(
        0,
        whole(0, 1_000_000),
        "It ends after so many messages; 1 is mode perMessage, 0 as many as come.",
        metavar="NUMBER",
        chart=_POOL,
    )
    container: str | None = setting(
        None, text, "What it calls itself in reports; POD_NAME or the host's name when absent.", chart=_POOL
    )

    def problems(self) -> Iterator[str]:
        """Yield what is needed, and what is needed with a mode."""
        if self.broker_url is None:
            yield "--broker-url: needed: where the queues are, such as nats://nats.media:4222"
        if not self.queues:
            yield "--queues: needed: such as act.media.thumbnail.256"
        if self.mode is RunMode.PROCESS and self.command is None:
            yield "--command: needed with --mode process"
        if self.protocol not in ("lines", "http"):
            yield f"--protocol: must be lines or http, not {self.protocol!r}"

    @property
    def container_id(self) -> str:
        """What it calls itself."""
        return self.container or socket.gethostname()
