"""The gate does what the agent says, and lets its pod start when none has answered for long enough."""

import contextlib
import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.certificates import Authority
from e2e.harness.product.gate_link import ConnectedLink
from slack.throttler import protocol
from slack.throttler.fsm import StartState
from slack_operator.throttler.gate import gate as gate_module
from slack_operator.throttler.gate.agent_link import AgentLink, LinkDown
from slack_operator.throttler.gate.gate import Gate
from slack_operator.throttler.gate.permits import PermitFiles
from slack_operator.throttler.gate.probe_server import ProbeServer
from slack_operator.throttler.gate.settings import GateSettings, InvalidGateSettings


class FakeLink:
    """An agent in memory: what it will say, and what it was told."""

    def __init__(self) -> None:
        self.socket, self.other = socket.socketpair()
        self.established, self.writes = False, True
        self.sent: list[dict[str, object]] = []
        self._messages: list[dict[str, object]] = []

    def advance(self) -> None:
        """Be there."""
        self.established, self.writes = True, False

    def say(self, kind: str, container: str = "web", **fields: object) -> None:
        """Have a message there for the gate."""
        self._messages.append({"type": kind, "container": container, **fields})
        self.other.send(b"x")

    def send(self, message: dict[str, object]) -> None:
        """Take what the gate says."""
        self.sent.append(message)

    def receive(self) -> list[dict[str, object]]:
        """Give what is there."""
        self.socket.recv(100)
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """End it."""
        self.socket.close()
        self.other.close()


class Clock:
    """Monotonic seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(gate_module, "time", made)
    monkeypatch.setattr(gate_module, "_MAX_PAUSE_SECONDS", 0.0)
    return made


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> FakeLink:
    made = FakeLink()
    monkeypatch.setattr(gate_module, "AgentLink", lambda *_: made)
    return made


@pytest.fixture
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LinkDown("nobody there")

    monkeypatch.setattr(gate_module, "AgentLink", fails)


def settings(folder: Path, **changes: str) -> GateSettings:
    """Return what a gate of two containers is told; the doorbell takes any port."""
    told = {
        "AGENT_HOST": "127.0.0.1",
        "AGENT_PORT": "1",
        "AGENT_NAME": "agent",
        "AGENT_CA": "PEM",
        "CONTAINERS": "web,log",
        "FAIL_OPEN_AFTER": "60",
        "DOORBELL_PORT": "1",
        "DOORBELL_HOST": "127.0.0.1",
        "FOLDER": str(folder),
    } | changes
    made = GateSettings({f"THROTTLER_{name}": value for name, value in told.items() if value})
    made.doorbell_port = 0
    return made


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], Gate]]:
    gates: list[Gate] = []

    def made() -> Gate:
        gates.append(Gate(settings(tmp_path)))
        return gates[-1]

    yield made
    for each in gates:
        each.close()


def test_it_asks_for_each_container_once_it_is_connected(
    make: Callable[[], Gate], link: FakeLink, clock: Clock
) -> None:
    make().run_next()
    assert [(message["type"], message["container"], message["start"]) for message in link.sent] == [
        ("ask", "web", 0),
        ("ask", "log", 0),
    ]


def test_a_grant_is_one_containers_file_and_a_withdrawal_takes_it_away(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    link.say("granted")
    gate.run_next()
    assert [path.name for path in tmp_path.iterdir()] == ["web.env"]
    assert (tmp_path / "web.env").read_text() == "GO='1'\n"
    link.say("withdraw", start=1)
    gate.run_next()
    assert list(tmp_path.iterdir()) == []


def test_containers_of_others_and_messages_that_nobody_knows_change_nothing(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    for name in ("other", "../web", "/etc/passwd", ""):
        link.say("granted", name)
    link.say("released", "web")
    link.say("granted", "web", start="many")
    gate.run_next()
    assert [path.name for path in tmp_path.iterdir()] == ["web.env"]


def test_without_an_agent_all_start_but_not_before_the_time_is_over(
    make: Callable[[], Gate], no_agent: None, clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = make()
    gate.run_next()
    clock.now += 59
    gate.run_next()
    assert list(tmp_path.iterdir()) == []
    clock.now += 1.1
    gate.run_next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.env", "web.env"]
    assert "web: may start without a permit" in capsys.readouterr().err


def rings(gate: Gate, clock: Clock, seconds: int) -> int:
    """Count how often the gate makes the kubelet look, by making the pod unready for a second."""
    count = 0
    for _ in range(seconds):
        clock.now += 1
        gate.run_next()
        count += gate._doorbell._rung
        gate._doorbell._rung = False
    return count


def test_a_gate_that_begins_anew_without_an_agent_leaves_a_pod_that_runs_ready(
    make: Callable[[], Gate], no_agent: None, clock: Clock, tmp_path: Path
) -> None:
    """As after a reboot of the node, with a release that is gone."""
    for name in ("web.env", "log.env"):
        (tmp_path / name).write_text("GO='1'\n")
    assert rings(make(), clock, 3600) == 0


def test_the_kubelet_is_made_to_look_until_the_agent_has_seen_that_a_container_waits(
    make: Callable[[], Gate], link: FakeLink, clock: Clock
) -> None:
    gate = make()
    gate.run_next()
    link.say("wait", "web", state="downloading")
    gate.run_next()
    assert rings(gate, clock, 14) == 3, "after 2, 4 and 8 s"
    link.say("wait", "web", state="pending")
    gate.run_next()
    assert rings(gate, clock, 40) == 0


def freeze(monkeypatch: pytest.MonkeyPatch, clock: Clock, seconds: float) -> None:
    """Have the next wait of a gate end so many seconds late."""
    wait = select.select

    def late(*waited: Any) -> Any:
        monkeypatch.undo()
        clock.now += seconds
        return wait(*waited)

    monkeypatch.setattr(select, "select", late)


def test_a_gate_that_was_stopped_reads_the_answer_that_is_there_before_it_opens(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    clock.now += 3600
    link.say("wait", "web")
    link.say("wait", "log")
    gate.run_next()
    gate.run_next()
    assert list(tmp_path.iterdir()) == []


def test_the_time_in_which_a_gate_was_stopped_is_no_silence_of_its_agent(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch, clock, 3600.0)
        gate.run_next()
    gate.run_next()
    assert list(tmp_path.iterdir()) == []
    assert len(link.sent) == 4, "it has asked again"
    clock.now += 59
    gate.run_next()
    assert list(tmp_path.iterdir()) == []
    clock.now += 2
    gate.run_next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.env", "web.env"], "an agent that hangs"


def tries(gate: Gate, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: int) -> list[int]:
    """Return after how many seconds the gate has tried to connect, to nobody."""
    found: list[int] = []
    began = clock.now

    def fails(*_: object) -> None:
        found.append(round(clock.now - began))
        raise LinkDown("certificate verify failed")

    monkeypatch.setattr(gate_module, "AgentLink", fails)
    for _ in range(seconds):
        gate.run_next()
        clock.now += 1
    return found


def test_a_gate_that_no_agent_lets_in_tries_less_and_less_often(
    make: Callable[[], Gate], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a release that is gone do, or those that trust a former authority: a node may have a hundred."""
    found = tries(make(), clock, monkeypatch, 7200)
    assert sum(second < 10 for second in found) >= 5, "an agent that begins anew is found within two seconds"
    assert sum(second < 60 for second in found) >= 12, "while containers wait, every five seconds at least"
    assert sum(second >= 3600 for second in found) <= 3600 / 28, "once it is open, every 30 to 60 s"
    assert max(after - before for before, after in itertools.pairwise(found)) <= 61


def test_a_gate_that_an_agent_has_let_in_comes_back_soon(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = make()
    tries(gate, clock, monkeypatch, 3600)
    monkeypatch.setattr(gate_module, "AgentLink", lambda *_: link)
    clock.now += 60
    gate.run_next()
    link.say("welcome", fail_open_after_seconds=60)
    gate.run_next()
    gate._lost("the agent is gone")
    assert gate._connect_at - clock.now <= 2


def test_an_agent_that_hangs_is_no_agent(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    link.say("wait", "web")
    link.say("wait", "log")
    gate.run_next()
    for _ in range(4):
        clock.now += 15
        gate.run_next()
        link.say("wait", "web")
        gate.run_next()
    gate.run_next()
    assert [path.name for path in tmp_path.iterdir()] == ["log.env"], "each container is answered for itself"
    assert len(link.sent) > 2, "who waits reminds"


def test_the_welcome_says_how_long_that_is(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    link.say("welcome", fail_open_after_seconds=5)
    gate.run_next()
    clock.now += 5.5
    gate.run_next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.env", "web.env"]


def go_away(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the link, and let no other come."""

    def fails(*_: object) -> None:
        raise LinkDown("nobody there")

    monkeypatch.setattr(gate_module, "AgentLink", fails)
    gate._lost("the agent is gone")


def test_the_next_start_of_a_container_that_runs_is_permitted_too_when_the_agent_is_gone(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = make()
    gate.run_next()
    for name in ("web", "log"):
        link.say("granted", name)
        link.say("withdraw", name, instance=f"{name}-1")
    gate.run_next()
    assert list(tmp_path.iterdir()) == [], "they run, and their restarts wait"
    gate._doorbell._rung = False
    go_away(gate, monkeypatch)
    clock.now += 59
    gate.run_next()
    assert list(tmp_path.iterdir()) == []
    clock.now += 1.1
    gate.run_next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.env", "web.env"]
    assert not gate._doorbell._rung, "a pod that runs stays ready"

    back = FakeLink()
    monkeypatch.setattr(gate_module, "AgentLink", lambda *_: back)
    clock.now += 61
    gate.run_next()
    assert [(message["container"], message["instance"]) for message in back.sent] == [
        ("web", "web-1"),
        ("log", "log-1"),
    ]
    assert all(float(str(message["opened_seconds"])) >= 60 for message in back.sent), "the next agent is told"
    back.say("withdraw", "web", instance="web-1")
    gate.run_next()
    assert [path.name for path in tmp_path.iterdir()] == ["log.env"], "who is answered is throttled again"


def test_an_agent_that_says_that_it_is_blind_is_no_agent(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = make()
    gate.run_next()
    link.say("granted", "log")
    link.say("withdraw", "log", instance="log-1")
    gate.run_next()
    for _ in range(5):
        clock.now += 13
        link.say("blind", "web", reason="the watch is refused")
        link.say("blind", "log", reason="the watch is refused")
        gate.run_next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.env", "web.env"], (
        "restarts as well as first starts"
    )
    assert capsys.readouterr().err.count("the watch is refused") == 1
    sent = len(link.sent)
    clock.now += 16
    gate.run_next()
    assert {message["container"] for message in link.sent[sent:]} == {"log", "web"}, "it may see them again"


def asked(gate: Gate, link: FakeLink, clock: Clock, seconds: int, *, blind: bool) -> list[int]:
    """Return after how many seconds the gate has asked, an agent that is blind, or that says nothing."""
    found = []
    for second in range(1, seconds + 1):
        clock.now += 1
        sent = len(link.sent)
        gate.run_next()
        if len(link.sent) > sent:
            found.append(second)
            if blind:
                link.say("blind", "web", reason="its pod is not known to the agent")
                gate.run_next()
    return found


def test_an_agent_that_was_blind_is_asked_again_soon_and_then_less_and_less_often(
    make: Callable[[], Gate], link: FakeLink, clock: Clock
) -> None:
    gate = make()
    gate.run_next()
    link.say("blind", "web", reason="its pod is not known to the agent")
    gate.run_next()
    times = asked(gate, link, clock, 300, blind=True)
    assert times[0] == 1
    assert times[2] <= 8
    assert 20 <= len(times) <= 45, "of an agent that stays blind it asks every 7.5 to 15 s"
    link.say("wait", "web")
    link.say("wait", "log")
    gate.run_next()
    clock.now += 20
    gate.run_next()
    assert len(asked(gate, link, clock, 30, blind=False)) == 2, "one that sees is asked every 15 s"


def test_an_agent_that_says_welcome_after_it_was_blind_is_asked_at_once(
    make: Callable[[], Gate], link: FakeLink, clock: Clock
) -> None:
    gate = make()
    gate.run_next()
    link.say("blind", "web", reason="the watch is refused")
    gate.run_next()
    asked(gate, link, clock, 50, blind=True)
    link.say("welcome", fail_open_after_seconds=60)
    gate.run_next()
    (first, *_) = asked(gate, link, clock, 5, blind=False)
    assert first <= 2


def test_an_agent_that_answers_reminders_keeps_the_permits_of_what_runs(
    make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path
) -> None:
    gate = make()
    gate.run_next()
    link.say("welcome", fail_open_after_seconds=5)
    for name in ("web", "log"):
        link.say("withdraw", name, instance=f"{name}-1")
    gate.run_next()
    for _ in range(60):
        clock.now += 1.0
        sent = len(link.sent)
        gate.run_next()
        for message in link.sent[sent:]:
            link.say("withdraw", str(message["container"]))
        gate.run_next()
    assert list(tmp_path.iterdir()) == [], "also if failOpenAfter is shorter than the usual pause between reminders"
    assert len(link.sent) < 2 * 60, "it is not asked each second"


def test_a_refusal_is_no_answer(make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path) -> None:
    gate = make()
    gate.run_next()
    clock.now += 59
    link.say("refused", "web", reason="no such container")
    gate.run_next()
    clock.now += 2
    gate.run_next()
    assert (tmp_path / "web.env").exists()


def test_a_permit_that_cannot_be_written_is_tried_again_and_ends_nothing(tmp_path: Path) -> None:
    permits = PermitFiles(str(tmp_path / "missing"), ["web"])
    with pytest.raises(OSError, match="missing"):
        permits.give("web")
    (tmp_path / "missing").mkdir()
    assert permits.give("web")
    assert not permits.give("web")
    assert permits.given() == {"web"}


def ask(doorbell: ProbeServer, request: bytes = b"GET / HTTP/1.1\r\n\r\n") -> bytes:
    """Ask as the kubelet does."""
    with socket.create_connection(("127.0.0.1", doorbell.port), 5) as connection:
        connection.sendall(request)
        answering = threading.Thread(target=doorbell.answer)
        answering.start()
        answer = connection.recv(200)
        answering.join()
    return answer.partition(b"\r\n")[0]


def test_a_ring_changes_the_next_answer_and_after_it_the_gate_is_ready_again() -> None:
    doorbell = ProbeServer("127.0.0.1", 0)
    try:
        assert [ask(doorbell)[9:12] for _ in range(2)] == [b"200", b"200"]
        doorbell.flip()
        assert [ask(doorbell)[9:12] for _ in range(3)] == [b"503", b"200", b"200"]
        doorbell.flip()
        assert ask(doorbell, b"junk") == b""
        assert ask(doorbell)[9:12] == b"503", "what is no probe has not seen the ring"
    finally:
        doorbell.close()


@pytest.mark.parametrize("silent", [8, 80])
def test_a_probe_waits_for_no_client_that_says_nothing(silent: int) -> None:
    doorbell = ProbeServer("127.0.0.1", 0)
    held = []
    try:
        for _ in range(silent):
            held.append(socket.create_connection(("127.0.0.1", doorbell.port), 5))
            doorbell.answer()
        began = time.monotonic()
        assert ask(doorbell)[9:12] == b"200"
        assert time.monotonic() - began < 0.5
        assert len(doorbell.sockets) <= 1 + 32
    finally:
        doorbell.close()
        for connection in held:
            connection.close()
    assert len(doorbell.sockets) == 1


@pytest.mark.parametrize("name", ["AGENT_HOST", "AGENT_PORT", "AGENT_NAME", "AGENT_CA", "CONTAINERS", "DOORBELL_PORT"])
def test_a_variable_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidGateSettings, match=f"THROTTLER_{name}: needed"):
        settings(tmp_path, **{name: ""})


@pytest.mark.parametrize(("name", "value"), [("AGENT_PORT", "70000"), ("FAIL_OPEN_AFTER", "0"), ("AGENT_PORT", "x")])
def test_a_variable_that_is_no_good_is_named_with_its_value(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidGateSettings, match=f"THROTTLER_{name}: '{value}'"):
        settings(tmp_path, **{name: value})


def test_a_link_to_nobody_says_where_and_never_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with pytest.raises(LinkDown) as caught:
        ConnectedLink("127.0.0.1", 1, "agent", "no PEM", str(token))
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


@pytest.mark.parametrize("accepts", [True, False], ids=["no-handshake", "no-answer"])
def test_probes_are_answered_while_an_agent_that_hangs_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepts: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubelet waits for a second: with one probe that is not answered, the pod is not ready."""
    monkeypatch.setattr(gate_module, "CONNECT_SECONDS", 2.0)
    (tmp_path / "token").write_text("secret")
    with socket.create_server(("127.0.0.1", 0), backlog=1) as agent, contextlib.ExitStack() as others:
        port = agent.getsockname()[1]
        if not accepts:  # its queue is full: the kernel answers no SYN any more
            for _ in range(3):
                other = others.enter_context(socket.socket())
                other.setblocking(False)
                other.connect_ex(("127.0.0.1", port))
        pem = Authority.create(tmp_path / "authority").certificate_path.read_text()
        told = {"AGENT_PORT": str(port), "AGENT_CA": pem, "TOKEN_FILE": str(tmp_path / "token")}
        gate = Gate(settings(tmp_path, **told))
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                gate.run_next()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            longest = 0.0
            for _ in range(30):
                began = time.monotonic()
                with socket.create_connection(("127.0.0.1", gate._doorbell.port), 5) as probe:
                    probe.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert probe.recv(200).startswith(b"HTTP/1.1 ")
                longest = max(longest, time.monotonic() - began)
                time.sleep(0.1)
        finally:
            ended.set()
            gate._doorbell.flip()
            socket.create_connection(("127.0.0.1", gate._doorbell.port), 5).close()
            thread.join()
            gate.close()
    assert longest < 0.5
    assert "no connection within 2 s" in capsys.readouterr().err


def test_messages_are_json_lines(tmp_path: Path) -> None:
    """What is read in pieces is whole messages, and what is no message ends the connection."""
    ours, theirs = socket.socketpair()
    link = AgentLink.__new__(AgentLink)
    link._buffer, link._ended, link.socket = b"", False, ours  # without TLS, which the server's tests have
    ours.setblocking(False)
    theirs.sendall(b'{"type": "wa')
    assert link.receive() == []
    theirs.sendall(b'it"}\n' + json.dumps({"type": "ping"}).encode() + b"\n")
    time.sleep(0)
    assert [message["type"] for message in link.receive()] == ["wait", "ping"]
    for junk in (b"junk\n", b"[]\n", b"x" * 20_000):
        link._buffer = b""
        theirs.sendall(junk)
        with pytest.raises(LinkDown):
            link.receive()
    link._buffer = b""
    theirs.sendall(b'{"type": "refused"}\n')
    theirs.close()
    assert [message["type"] for message in link.receive()] == ["refused"], "what was said before the end is told"
    with pytest.raises(LinkDown, match="closed"):
        link.receive()
    ours.close()


def test_gate_and_protocol_agree(make: Callable[[], Gate], link: FakeLink, clock: Clock, tmp_path: Path) -> None:
    """The gate writes its lines without the protocol's library; they are the protocol's all the same."""
    gate = make()
    gate.run_next()
    for said in (
        protocol.Welcome(fail_open_after_seconds=30),
        protocol.Ping(),
        protocol.Wait(container="log", state=StartState.DOWNLOADING),
        protocol.Granted(container="web", start=2),
    ):
        fields = json.loads(protocol.encode_line(said))
        link.say(fields.pop("type"), fields.pop("container", ""), **fields)
    gate.run_next()
    assert (tmp_path / "web.env").exists()
    clock.now += 16
    gate.run_next()
    told = [protocol.from_gate(json.dumps(message).encode()) for message in link.sent]
    assert told[2:] == [protocol.Pong(), protocol.StartRequest(container="log")]
    assert told[0] == protocol.StartRequest(container="web")
