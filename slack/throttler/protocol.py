"""What gate and agent say to one another: JSON, one message a line.

A gate connects to the agent of its node over TLS and says `Hello` with its pod's token, from which alone the agent
knows whose gate it is. It asks for each gated container once, and again after it has connected anew: asks are told
apart by (pod uid, container, start), so that asking twice is asking once. The agent pushes `Granted`, `Wait` and
`Withdraw`; what a container became is never taken from a gate, which cannot know. Every field is bounded; unknown
fields are skipped, missing ones have defaults, for both sides may be of different versions while a DaemonSet rolls.
Light: gates import nothing else of ours.
"""

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from slack.errors import InvalidInput
from slack.throttler.fsm import StartState

VERSION: Final = 1
AUDIENCE: Final = "throttler"
"""Of the tokens by which gates and agents say who they are."""
MAX_LINE_BYTES: Final = 16 << 10
"""One message between gate and agent; a token is about 2 KiB."""
MAX_AUTHORITY_BYTES: Final = 12 << 10
"""Certificates that a gate is told of: about eight."""
MAX_TEXT: Final = 512
MAX_POD_CONTAINERS: Final = 256
"""Asks of one gate; more are refused."""

_MOST = (1 << 53) - 1
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Uid = Annotated[str, Meta(max_length=255)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Token = Annotated[str, Meta(max_length=12 << 10)]
Authority = Annotated[str, Meta(max_length=MAX_AUTHORITY_BYTES)]
Count = Annotated[int, Meta(ge=0, le=_MOST)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
T = TypeVar("T")


class InvalidThrottlerMessage(InvalidInput):
    """A message that cannot be read; the text names the field and what it should be."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base: values, with what is as usual left out of the text."""


class _Line(Message, frozen=True, tag_field="type"):
    """Base of what goes between gate and agent; `type` says which."""


# From gate to agent.


class Hello(_Line, frozen=True, tag="hello"):
    """The first line of a connection. The token's audience is `AUDIENCE`; it names the pod, and its uid."""

    token: Token
    version: Count = VERSION


class StartRequest(_Line, frozen=True, tag="ask"):
    """May this container start? `start` is the one that the agent last spoke of, 0 at first.

    Priority and order are no matter of the asker: the agent has them of the pod. What it depends on the agent has of
    the pod's annotation; what a gate says of it can only add.
    """

    container: Name
    start: Count = 0
    opened_seconds: Seconds = 0.0
    """The gate has given this permit by itself, after so long without an answer; 0: it has not."""
    instance: Text = ""
    """With `opened_seconds`: the instance of which the last `Withdraw` spoke; empty: there was none."""
    depends_on: Annotated[tuple[Name, ...], Meta(max_length=MAX_POD_CONTAINERS)] = ()


class Written(_Line, frozen=True, tag="written"):
    """The permit of a grant is on disk; for latencies only, nothing is decided by it."""

    container: Name
    start: Count = 0


class Ping(_Line, frozen=True, tag="ping"):
    """Are you there? Either side asks; the other answers `Pong`."""


class Pong(_Line, frozen=True, tag="pong"):
    """Here I am."""


# From agent to gate.


class Welcome(_Line, frozen=True, tag="welcome"):
    """The token was good. What the gate is to do without an agent comes from the node's policy; said again when that
    changes."""

    version: Count = VERSION
    fail_open_after_seconds: Seconds = 60.0
    """Without an answer of an agent that sees its pods for so long, the gate lets all its containers start."""
    gate_restarts: bool = True
    """Whether permits are withdrawn once the container runs."""
    authority: Authority = ""
    """PEM of who signs the agents' certificates: trusted from now on, beside what the gate's pod was made with."""


class Granted(_Line, frozen=True, tag="granted"):
    """The container may start: write its permit, and wake the kubelet."""

    container: Name
    start: Count = 0
    at: Seconds = 0.0
    """Unix time of the grant, as it stands in the agent's journal."""
    deadline: Seconds | None = None
    """Unix time by which it must be ready."""
    forced: bool = False
    reason: Text = ""


class Wait(_Line, frozen=True, tag="wait"):
    """The container waits, and why; sent when something of it has changed."""

    container: Name
    start: Count = 0
    state: StartState = StartState.PENDING
    """pending, blocked or downloading."""
    position: Count = 0
    """1 is next; 0 where it has no place, for it is not pending."""
    reason: Text = ""
    until: Seconds | None = None
    """Unix time at which it is looked at again for sure; None: not known."""


class Withdraw(_Line, frozen=True, tag="withdraw"):
    """The container runs: take its permit away, so that its next start waits. The next ask is for `start`."""

    container: Name
    start: Count = 0
    instance: Text = ""
    """Id of the instance that runs."""


class Blind(_Line, frozen=True, tag="blind"):
    """The agent cannot say: it does not see its node's pods, or not this one. That is no answer to a gate, which lets
    its containers start after `fail_open_after_seconds` without one."""

    reason: Text
    container: Annotated[str, Meta(max_length=253)] = ""


class RequestRefused(_Line, frozen=True, tag="refused"):
    """What was asked cannot be: no such container, too many asks, a token that is not good. Asking again is no use."""

    reason: Text
    container: Annotated[str, Meta(max_length=253)] = ""
    """Empty: the whole connection, which is closed then."""


FromGate = Hello | StartRequest | Written | Ping | Pong
FromAgent = Welcome | Granted | Wait | Withdraw | Blind | RequestRefused | Ping | Pong

_FROM_GATE: "Final[msgspec.json.Decoder[FromGate]]" = msgspec.json.Decoder(FromGate)


def encode_line(message: FromGate | FromAgent) -> bytes:
    """Write a message between gate and agent, with the end of its line."""
    return msgspec.json.encode(message) + b"\n"


def from_gate(line: bytes) -> FromGate:
    """Read what a gate says.

    Raises:
        InvalidThrottlerMessage: it is too long, no JSON, or no message of a gate.
    """
    return decoded(line, _FROM_GATE, MAX_LINE_BYTES)


def text(value: str) -> str:
    """Make a text that can be sent: cut to what a message may hold."""
    return value.encode(errors="replace").decode()[:MAX_TEXT]


def decoded(data: bytes, decoder: "msgspec.json.Decoder[T]", limit: int) -> T:
    """Read a message of at most so many bytes.

    Raises:
        InvalidThrottlerMessage: it is longer, or not what the decoder reads.
    """
    if len(data) > limit:
        raise InvalidThrottlerMessage(f"the message is longer than {limit} bytes")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidThrottlerMessage(str(error)[:MAX_TEXT]) from None
