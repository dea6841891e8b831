"""Gates over TLS: the real gate's link against the real server, and strangers that are not let in."""

import asyncio
import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.certificates import Authority
from e2e.harness.product.gate_link import ConnectedLink
from slack.throttler import protocol
from slack.throttler.protocol import AUDIENCE, FromAgent, Granted, StartRequest, Wait, Welcome
from slack_operator.runtime.tokens import KEPT_SECONDS, claims_of, pod_uid_of
from slack_operator.throttler.agent import gate_server
from slack_operator.throttler.agent.gate_server import (
    MAX_KEPT,
    MAX_STRANGERS,
    REVIEWERS,
    GateServer,
    InvalidToken,
    NotLetIn,
    Reviews,
    pod_uid,
)
from slack_operator.throttler.gate.agent_link import LinkDown
from tests.operator.fakes import Clock

NAME = "resource-slack-throttler-agent"


@dataclass
class Place:
    """A server in a thread of its own, and what a gate needs to find it."""

    server: GateServer
    loop: asyncio.AbstractEventLoop
    port: int
    authority: str
    folder: Path
    asked: list[tuple[str, str]] = field(default_factory=list)

    def link(self, token: str = "token-u1", name: str = NAME, authority: str | None = None) -> ConnectedLink:
        """Connect as a gate does."""
        path = self.folder / "token"
        path.write_text(token)
        return ConnectedLink("127.0.0.1", self.port, name, authority or self.authority, str(path))

    def tell(self, uid: str, message: FromAgent) -> bool:
        """Push a message."""
        done: asyncio.Future[bool] = asyncio.run_coroutine_threadsafe(self._tell(uid, message), self.loop)  # type: ignore[assignment]
        return bool(done.result())

    async def _tell(self, uid: str, message: FromAgent) -> bool:
        return self.server.send_to_gate(uid, message)


def judge(token: str) -> str:
    """Know tokens by their text."""
    if not token.startswith("token-"):
        raise NotLetIn("the token is not valid for the audience throttler")
    return token.removeprefix("token-")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def place(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(gate_server, "BETWEEN_SECONDS", 0.0)
    pair = authority.issue("agent", hosts=[NAME])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    asked: list[tuple[str, str]] = []

    def answer(uid: str, ask: StartRequest) -> FromAgent:
        asked.append((uid, ask.container))
        return Wait(container=ask.container)

    loop = asyncio.new_event_loop()
    server = GateServer(judge, answer, welcome=lambda: Welcome(fail_open_after_seconds=7.0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0, tls), loop).result()
    yield Place(server, loop, port, authority.certificate_path.read_text(), tmp_path, asked)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def read(link: ConnectedLink, count: int = 1) -> list[dict[str, object]]:
    """Wait for that many messages."""
    link.socket.settimeout(10)
    found: list[dict[str, object]] = []
    while len(found) < count:
        piece = link.socket.recv(10_000)
        if not piece:
            raise LinkDown("closed")
        link._buffer += piece
        link.socket.setblocking(False)
        found += link.receive()
        link.socket.settimeout(10)
    return found


def test_a_gate_asks_and_is_answered_and_told_more_later(place: Place) -> None:
    link = place.link()
    link.send({"type": "ask", "container": "a"})
    welcome, wait = read(link, 2)
    assert welcome == {"type": "welcome", "fail_open_after_seconds": 7.0}
    assert wait == {"type": "wait", "container": "a"}
    assert place.asked == [("u1", "a")], "by its token, whatever it says"
    assert place.tell("u1", Granted(container="a"))
    assert read(link) == [{"type": "granted", "container": "a"}]
    assert not place.tell("u2", Granted(container="a"))
    link.close()


def test_a_gate_that_comes_anew_takes_the_place_of_its_former_connection(place: Place) -> None:
    former = place.link()
    read(former)
    link = place.link()
    read(link)
    assert place.tell("u1", Granted(container="a"))
    assert read(link) == [{"type": "granted", "container": "a"}]
    with pytest.raises(LinkDown):
        read(former)
    former.close()
    link.close()


def test_a_token_that_is_no_good_is_refused_and_asks_nothing(place: Place) -> None:
    link = place.link("stolen")
    refused = read(link)[0]
    assert refused["type"] == "refused"
    assert "stolen" not in str(refused)
    assert place.asked == []
    assert place.server.refused == 1
    link.close()


def test_gates_that_come_again_and_again_are_logged_once_and_counted(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        link = place.link("a token of nobody")
        assert read(link)[0]["type"] == "refused"
        link.close()
    assert place.server.refused == 5
    assert sum("a gate was not let in" in record.message for record in caplog.records) == 1


def test_garbage_ends_its_own_connection_only(place: Place) -> None:
    good = place.link()
    read(good)
    for junk in (b"junk\n", b"{}\n", b"x" * (protocol.MAX_LINE_BYTES + 10)):
        bad = place.link("token-u2")
        read(bad)
        bad.socket.settimeout(10)
        bad.socket.sendall(junk)
        with pytest.raises((LinkDown, OSError)):
            read(bad)
        bad.close()
    good.send({"type": "ping"})
    assert read(good) == [{"type": "pong"}]
    good.close()


def test_a_gate_talks_to_nobody_but_the_agent(place: Place, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other").certificate_path.read_text()
    with pytest.raises(LinkDown):
        place.link(authority=other)
    with pytest.raises(LinkDown):
        place.link(name="another-name")


def review(**status: Any) -> dict[str, Any]:
    """Return what the API server answers."""
    return {"status": {"authenticated": True, "audiences": [AUDIENCE], **status}}


def test_only_a_token_for_us_that_is_bound_to_a_pod_names_one() -> None:
    extra = {"extra": {"authentication.kubernetes.io/pod-uid": ["u1"]}}
    assert pod_uid(review(user=extra)) == "u1"
    for bad, why in (
        (review(user={}), "bound to no pod"),
        (review(audiences=["other"], user=extra), "audience"),
        (review(authenticated=False, user=extra), "audience"),
        ({}, "audience"),
    ):
        with pytest.raises(NotLetIn, match=why):
            pod_uid(bad)


def test_gates_that_are_silent_are_cut_off_when_the_agent_ends(place: Place) -> None:
    links = [place.link(f"token-u{number}") for number in range(3)]
    for link in links:
        read(link)
    asyncio.run_coroutine_threadsafe(place.server.stop(), place.loop).result(0.9)
    assert asyncio.all_tasks(place.loop) == set()
    assert place.server.gates == 0
    for link in links:
        link.close()


@pytest.mark.parametrize("count", [MAX_STRANGERS + 8, 10 * MAX_STRANGERS])
def test_strangers_have_few_places_from_accept_on_and_a_gate_is_let_in_beside_them(place: Place, count: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", place.port), 5) for _ in range(count)]
    acceptor = place.server._acceptor
    assert acceptor is not None
    try:
        deadline = time.monotonic() + 20
        while not any(_has_ended(wire) for wire in silent) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(acceptor._strangers) <= MAX_STRANGERS
        link = place.link()
        assert read(link)[0]["type"] == "welcome"
        link.close()
        assert place.server.unhealthy() is None
    finally:
        for wire in silent:
            wire.close()


def _has_ended(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        return wire.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_token_that_was_refused_costs_no_second_review(place: Place) -> None:
    asked: list[str] = []

    def refuse(token: str) -> str:
        asked.append(token)
        raise InvalidToken("the token is not valid")

    place.server._judge = refuse
    for _ in range(3):
        link = place.link("invented")
        assert read(link)[0]["type"] == "refused"
        link.close()
    assert asked == ["invented"]


def test_gates_that_wait_for_their_review_keep_their_places(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All gates of a node come back at once after a restart of the agent, and reviews take their time."""
    judged: list[str] = []

    def judge_slowly(token: str) -> str:
        judged.append(token)
        time.sleep(0.2)
        return judge(token)

    monkeypatch.setattr(place.server, "_judge", judge_slowly)
    links = [place.link(f"token-u{number}") for number in range(3 * MAX_STRANGERS)]
    try:
        assert [read(link)[0]["type"] for link in links] == ["welcome"] * len(links)
    finally:
        for link in links:
            link.close()
    assert len(judged) == len(links), "no review is wasted"


def of_pod(uid: str, number: int = 0) -> str:
    """Return a token that claims to be of a pod."""
    claims = {"sub": "system:serviceaccount:shop:api", "kubernetes.io": {"pod": {"uid": uid}}, "jti": number}
    return "e30." + base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") + ".c2ln"


class ApiServer:
    """Knows all tokens, and says whose they are as they claim it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, method: str, path: str, *, body: Any, verb: str) -> bytes:
        assert (method, path, verb) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "create")
        token = body["spec"]["token"]
        self.asked.append(token)
        extra = {"authentication.kubernetes.io/pod-uid": [pod_uid_of(claims_of(token))]}
        return json.dumps(review(user={"extra": extra})).encode()


def test_a_gate_that_comes_again_and_again_costs_one_review() -> None:
    server, clock = ApiServer(), Clock()
    reviews = Reviews(server, clock=clock, wall=lambda: 0.0)  # type: ignore[arg-type]  # all that it is asked for
    assert reviews.known(of_pod("u1")) is None
    assert [reviews(of_pod("u1")), reviews.known(of_pod("u1"))] == ["u1", "u1"]
    clock.now += KEPT_SECONDS + 1
    assert reviews.known(of_pod("u1")) is None, "a pod that is gone is not known for ever"
    for number in range(MAX_KEPT + 5):
        reviews(of_pod("u2", number))
    assert len(reviews._kept) == MAX_KEPT


def test_a_valid_token_is_let_in_again_without_a_review(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    api = ApiServer()
    reviews = Reviews(api)  # type: ignore[arg-type]  # all that it is asked for
    monkeypatch.setattr(place.server, "_judge", reviews)
    monkeypatch.setattr(place.server, "_known", reviews.known)
    for _ in range(20):
        link = place.link(of_pod("u1"))
        assert read(link)[0]["type"] == "welcome"
        link.close()
    assert api.asked == [of_pod("u1")]


def test_tokens_of_strangers_delay_no_gate_of_the_node(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server hangs for a while, and another node's pods show one valid token after the other."""
    judged: list[str] = []
    leave = threading.Event()

    def judge_late(token: str) -> str:
        leave.wait(60)
        judged.append(pod_uid_of(claims_of(token)))
        return judged[-1]

    monkeypatch.setattr(place.server, "_judge", judge_late)
    monkeypatch.setattr(place.server, "_expects", lambda token: pod_uid_of(claims_of(token)) == "u1")
    strangers = [place.link(of_pod(f"stranger-{number}")) for number in range(40)]
    link = place.link(of_pod("u1"))
    try:
        deadline = time.monotonic() + 30
        while len(place.server._reviews) < 41 - REVIEWERS and time.monotonic() < deadline:
            time.sleep(0.01)
        leave.set()
        assert read(link)[0]["type"] == "welcome"
        for stranger in strangers:
            read(stranger)
    finally:
        for each in (*strangers, link):
            each.close()
    assert judged.index("u1") <= 2 * REVIEWERS, "only those that were under way come before it"
