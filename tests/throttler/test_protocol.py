"""What gate and agent say to one another comes back as it went out, within bounds."""

import subprocess
import sys

import msgspec
import pytest

from slack.throttler import protocol
from slack.throttler.protocol import (
    Granted,
    Hello,
    InvalidThrottlerMessage,
    Ping,
    Pong,
    RequestRefused,
    StartRequest,
    Wait,
    Welcome,
    Withdraw,
    Written,
    encode_line,
    from_gate,
)


@pytest.mark.parametrize(
    "message", [Hello(token="t"), StartRequest(container="a", start=2), Written(container="a"), Ping()]
)
def test_what_a_gate_says_is_one_line(message: protocol.FromGate) -> None:
    line = encode_line(message)
    assert line.count(b"\n") == 1
    assert from_gate(line) == message


@pytest.mark.parametrize(
    "message",
    [
        Welcome(gate_restarts=False),
        Granted(container="a", at=5.0, deadline=9.0, forced=True),
        Wait(container="a", position=3, reason="2 of 2 slots are taken", until=4.0),
        Withdraw(container="a", start=1),
        RequestRefused(reason="no such container", container="x"),
        Pong(),
    ],
)
def test_what_an_agent_says_comes_back(message: protocol.FromAgent) -> None:
    assert msgspec.json.decode(encode_line(message), type=protocol.FromAgent) == message


def test_a_gate_cannot_say_what_an_agent_says() -> None:
    with pytest.raises(InvalidThrottlerMessage, match="Invalid value 'granted'"):
        from_gate(encode_line(Granted(container="a")))


@pytest.mark.parametrize(
    "line", [b"", b"garbage", b"[]", b'{"type":"ask"}', b'{"type":"ask","container":""}', b"[" * 9000, b'"\xff"']
)
def test_garbage_is_a_bad_message(line: bytes) -> None:
    with pytest.raises(InvalidThrottlerMessage):
        from_gate(line)


def test_what_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(InvalidThrottlerMessage, match="longer than 16384 bytes"):
        from_gate(b" " * 16385)


def test_a_field_that_a_side_does_not_know_is_skipped() -> None:
    assert from_gate(b'{"type":"ask","container":"a","colour":"red"}') == StartRequest(container="a")


def test_a_text_that_is_no_utf_8_can_be_sent() -> None:
    assert protocol.text("a\udcff" + "b" * 600) == "a?" + "b" * 510


def test_a_gate_loads_neither_pydantic_nor_yaml() -> None:
    code = "import sys, slack.throttler.protocol; print(*{m.partition('.')[0] for m in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "yaml", "numpy", "asyncio"} & set(found.stdout.split())
