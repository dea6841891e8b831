"""The page's server: who may read, what browsers are told, and clients that do not keep up."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from slack_operator.placeholders.view.displaced import Displacement
from slack_operator.web import explaining, failures, server
from slack_operator.web.guard import InvalidTokenFile, RequestGuard, read_token
from slack_operator.web.load import LoadBoard
from slack_operator.web.page_state import PageState
from slack_operator.web.server import STATIC, WebServer
from tests.operator.web.test_web import ABOUT, settled

TOKEN = "correct-horse-battery-staple"


@contextmanager
def serving(
    board: PageState | None = None, *, host: str = "127.0.0.1", token: str | None = None, load: LoadBoard | None = None
) -> Iterator[WebServer]:
    made = WebServer(host, 0, board=board or PageState(ABOUT), token=token, load=load, quotas_of=lambda _: ())
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Answer:
    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.body = raw.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    server: WebServer,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def wait_until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_page_and_all_that_it_names_are_served_from_here() -> None:
    with serving() as web:
        page = ask(web, "/")
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        text = page.body.decode()
        assert "http:" not in text
        assert "https:" not in text
        assert "<script>" not in text
        assert " style=" not in text
        for file in STATIC.iterdir():
            if file.suffix != ".html":
                answer = ask(web, f"/static/{file.name}")
                assert (answer.status, answer.body) == (200, file.read_bytes())


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/nodes", "/static/app.js", "/static/none.js", "/nowhere"])
def test_every_answer_carries_what_browsers_must_know(path: str) -> None:
    with serving() as web:
        headers = ask(web, path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == ("no-cache" if path == "/static/app.js" else "no-store")
    assert headers["Server"] is None


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e%2fserver.py", "/static/index.html", "/x"])
def test_nothing_but_the_pages_own_files_is_served(path: str) -> None:
    with serving() as web:
        assert ask(web, path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_possible(method: str) -> None:
    with serving() as web:
        answer = ask(web, "/api/state", method=method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert ask(web, "/login", method="POST", body="token=x").status in (404, 415)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8081", 200),
        ("127.0.0.1", 200),
        ("[::1]:8081", 200),
        ("evil.example:8081", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_a_foreign_name_for_this_machine_is_refused(host: str, status: int) -> None:
    with serving() as web:
        assert ask(web, "/api/state", headers={"Host": host}).status == status


def test_other_sites_may_not_read_in_a_readers_name() -> None:
    with serving() as web:
        assert ask(web, "/api/state", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
        assert ask(web, "/api/state", headers={"Sec-Fetch-Site": "same-origin"}).status == 200
        assert ask(web, "/", headers={"Sec-Fetch-Site": "cross-site"}).status == 200  # a link to the page
    with serving(token=TOKEN) as web:
        assert ask(web, "/login", headers={"Sec-Fetch-Site": "cross-site"}).status == 200
        assert ask(web, "/login", method="POST", headers={"Sec-Fetch-Site": "cross-site"}).status == 403


def test_the_host_that_was_configured_is_right_and_any_name_where_all_addresses_are_listened_on() -> None:
    assert RequestGuard("10.0.0.7", TOKEN).right_host("10.0.0.7:8081")
    assert not RequestGuard("10.0.0.7", TOKEN).right_host("slack.example")
    assert RequestGuard("0.0.0.0", TOKEN).right_host("slack.example")
    assert not RequestGuard("0.0.0.0", None).right_host("slack.example")


def test_with_a_token_nothing_is_told_without_it() -> None:
    with serving(token=TOKEN) as web:
        page = ask(web, "/")
        assert (page.status, page.headers["Location"]) == (303, "/login")
        for path in ("/api/state", "/api/nodes", "/api/events", "/api/explain?namespace=a&workload=b"):
            answer = ask(web, path)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert ask(web, "/login").status == 200
        assert ask(web, "/static/app.css").status == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_bearer_may_read(scheme: str) -> None:
    with serving(token=TOKEN) as web:
        assert ask(web, "/api/state", headers={"Authorization": f"{scheme} {TOKEN}"}).status == 200
        assert ask(web, "/api/state", headers={"Authorization": f"{scheme} {TOKEN}x"}).status == 401
        assert ask(web, "/api/state", headers={"Authorization": f"Basic {TOKEN}"}).status == 401


def test_the_form_gives_a_session_and_the_token_is_neither_in_it_nor_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failures, "WRONG_TOKEN_SECONDS", 0.0)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with serving(token=TOKEN) as web, caplog.at_level("DEBUG"):
        wrong = ask(web, "/login", method="POST", body="token=guess-guess-guess", headers=form)
        assert (wrong.status, wrong.headers["Location"], wrong.headers["Set-Cookie"]) == (303, "/login?wrong", None)
        right = ask(web, "/login", method="POST", body=f"token={TOKEN}", headers=form)
        cookie = right.headers["Set-Cookie"]
        assert (right.status, right.headers["Location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        session = cookie.partition(";")[0]
        assert ask(web, "/api/state", headers={"Cookie": session}).status == 200
        assert ask(web, "/api/state", headers={"Cookie": session + "x"}).status == 401
        secure = ask(web, "/login", method="POST", body=f"token={TOKEN}", headers=form | {"X-Forwarded-Proto": "https"})
        assert "Secure" in secure.headers["Set-Cookie"].split("; ")
    assert "a wrong token was given" in caplog.text
    assert TOKEN not in caplog.text
    assert "guess" not in caplog.text


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def guess(web: WebServer) -> int:
    return ask(web, "/api/state", headers={"Authorization": "Bearer guess-guess-guess"}).status


def test_a_wrong_bearer_waits_and_is_logged_and_a_right_one_is_not_held_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failures, "WRONG_TOKEN_SECONDS", 0.4)
    with serving(token=TOKEN) as web, caplog.at_level("INFO"):
        began = time.monotonic()
        assert guess(web) == 401
        assert time.monotonic() - began >= 0.4
        held = threading.Thread(target=guess, args=(web,))
        held.start()
        wait_until(lambda: web._failures._held == 1)
        began = time.monotonic()
        assert ask(web, "/api/state", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
        assert ask(web, "/api/state").status == 401  # no token at all is no guess
        assert ask(web, "/api/state", headers={"Cookie": "resource-slack=ended"}).status == 401
        assert web._failures._held == 1
        held.join()
    (line,) = [record for record in caplog.records if "wrong token" in record.getMessage()]
    assert line.slack_fields == {"times": 1, "last_peer": "127.0.0.1"}  # type: ignore[attr-defined]  # `fields` set it
    assert "guess" not in caplog.text


def test_wrong_tokens_are_logged_once_an_interval_with_their_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failures, "WRONG_TOKEN_SECONDS", 0.0)
    monkeypatch.setattr(failures, "LOG_SECONDS", 0.5)

    def times() -> list[int]:
        lines = [record for record in caplog.records if "wrong token" in record.getMessage()]
        return [line.slack_fields["times"] for line in lines]  # type: ignore[attr-defined]  # `fields` set it

    with serving(token=TOKEN) as web, caplog.at_level("INFO"):
        for _ in range(3):
            assert guess(web) == 401
            assert ask(web, "/login", method="POST", body="token=guess", headers=FORM).status == 303
        wait_until(lambda: sum(times()) == 6)
        assert times()[0] == 1
        assert len(times()) <= 3
        wait_until(lambda: web._failures._quiet is None)
        assert sum(times()) == 6


def test_wrong_tokens_are_held_back_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "WRONG_TOKEN_SECONDS", 5.0)
    monkeypatch.setattr(failures, "MAX_HELD", 1)
    with serving(token=TOKEN) as web:
        waiting = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
        waiting.request("GET", "/api/state", headers={"Authorization": "Bearer guess-guess-guess"})
        wait_until(lambda: web._failures._held == 1)
        assert guess(web) == 429
        form = ask(web, "/login", method="POST", body="token=guess", headers=FORM)
        assert (form.status, form.headers["Retry-After"]) == (429, "1")
        right = ask(web, "/login", method="POST", body=f"token={TOKEN}", headers=FORM)
        assert (right.status, right.headers["Location"]) == (303, "/")
        waiting.close()  # who has gone is not waited for
        wait_until(lambda: web._failures._held == 0)


def test_sessions_end_and_are_bounded() -> None:
    now = [0.0]
    guard = RequestGuard("0.0.0.0", TOKEN, clock=lambda: now[0])
    names = [guard.open_session(TOKEN) for _ in range(300)]
    assert len(set(names)) == 300
    assert len(guard._sessions) == 256
    now[0] = 13 * 3600.0
    assert guard.open_session(TOKEN) is not None
    assert len(guard._sessions) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"short\n", "holds 5 characters; at least 16 are needed"),
        (b"two words that are long", "no single token"),
        ("pässword-pässword".encode(), "other signs than ASCII"),
    ],
)
def test_a_token_file_that_will_not_do_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidTokenFile, match=words) as error:
        read_token(file)
    assert str(file) in str(error.value)


def test_a_token_is_read_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN


def test_state_and_nodes_are_json_and_compressed_for_those_who_can() -> None:
    _, board = settled()
    with serving(board) as web:
        first = ask(web, "/api/state").json
        assert first["state"]["policies"][0]["name"] == "web"
        assert len(first["timeline"]["at"]) == len(first["timeline"]["policies"]["web"]) > 1
        nodes = ask(web, "/api/nodes")
        assert nodes.json["version"] == first["state"]["nodesVersion"] == 1
        packed = ask(web, "/api/state", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert packed.body[:2] == b"\x1f\x8b"
        assert abs(first["state"]["now"] - time.time()) < 10
        assert first["state"]["port"] == web.port


def test_who_begins_to_lead_gets_nodes_that_are_divided() -> None:
    world, board = settled()
    world.leading = False
    world.reconcile()
    with serving(board) as web:
        standby = ask(web, "/api/nodes").json
        assert (standby["divided"], set(standby["policy"])) == (False, {-1})
        world.leading = True
        world.reconcile()
        leader = ask(web, "/api/nodes").json
        assert (leader["divided"], set(leader["policy"])) == (True, {0})


def test_nodes_get_another_version_only_when_they_look_otherwise() -> None:
    world, board = settled()
    with serving(board) as web:
        assert ask(web, "/api/nodes").json["version"] == 1
        world.reconcile()
        assert ask(web, "/api/nodes").json["version"] == 1
        world.api.objects["/api/v1/nodes/n0"]["spec"] = {"unschedulable": True}
        world.reconcile()
        assert ask(web, "/api/state").json["state"]["nodesVersion"] == 2
        assert ask(web, "/api/nodes").json["flags"] == [1, 3, 3]


def test_nodes_before_the_first_look_are_not_there_yet() -> None:
    with serving() as web:
        assert ask(web, "/api/nodes").status == 503


def test_explain_answers_and_names_the_field_that_is_wrong() -> None:
    _, board = settled()
    with serving(board) as web:
        answer = ask(web, "/api/explain?namespace=shop&workload=deploy/api").json
        assert (answer["found"], answer["ready"]) == (True, True)
        assert "its next pod starts there without waiting" in answer["text"]
        bad = ask(web, "/api/explain?namespace=shop&workload=%3Cscript%3E")
        assert (bad.status, bad.json["error"]) == (400, "workload: write KIND/NAME, such as deploy/api")
        assert ask(web, "/api/explain").status == 400


def test_explain_is_bounded_in_time_and_in_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    _, board = settled()
    go_on = threading.Event()

    def slow(*_asked: object) -> explaining.ExplanationAnswer:
        go_on.wait(10)
        return explaining.ExplanationAnswer(found=True, ready=True, text="late")

    monkeypatch.setattr(explaining, "answer", slow)
    monkeypatch.setattr(server, "EXPLAIN_SECONDS", 0.05)
    path = "/api/explain?namespace=shop&workload=deploy/api"
    with serving(board) as web:
        assert [ask(web, path).status for _ in range(3)] == [504, 504, 503]
        go_on.set()
        wait_until(lambda: web._explains == 0)
        assert ask(web, path).status == 200


class Stream:
    """A client of the event stream that reads line by line."""

    def __init__(self, web: WebServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=10)
        self._connection.request("GET", "/api/events")
        self.answer = self._connection.getresponse()

    def state(self) -> Any:
        while True:
            line = self.answer.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                return json.loads(line.removeprefix(b"data: "))

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_the_stream_brings_each_turn_and_the_displaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.01)
    world, board = settled()
    with serving(board) as web:
        stream = Stream(web)
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        first = stream.state()
        del world.api.objects[f"/api/v1/namespaces/resource-slack/pods/{min(world.placeholders())}"]
        world.reconcile()
        second = stream.state()
        assert second["version"] > first["version"]
        assert [displaced["number"] for displaced in second["displaced"]] == [1]
        stream.close()
        wait_until(lambda: web.streams == 0)


def test_a_stream_without_news_says_so_where_a_script_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.01)
    monkeypatch.setattr(server, "ALIVE_SECONDS", 0.05)
    with serving() as web:
        stream = Stream(web)
        stream.state()
        lines = [stream.answer.readline() for _ in range(4)]
        assert lines[1:3] == [b"event: alive\n", b"data: -\n"]
        stream.close()


def test_streams_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_STREAMS", 2)
    with serving() as web:
        streams = [Stream(web), Stream(web)]
        refused = ask(web, "/api/events")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
        for stream in streams:
            stream.close()
        wait_until(lambda: web.streams == 0)


def test_a_client_that_takes_nothing_is_dropped_and_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.0)
    monkeypatch.setattr(server, "SLOW_SECONDS", 0.2)
    _, board = settled()
    reconciliation = board.last()[1]
    assert reconciliation is not None
    assert reconciliation.observation is not None
    many = tuple(Displacement(number, 0.0, "web", "Deleted", "p" * 5000, "n0") for number in range(100))
    reconciliation = replace(
        reconciliation, observation=replace(reconciliation.observation, displacements=many)
    )  # states that fill the socket soon
    with serving(board) as web, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", web.port))
        slow.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: web.streams == 1)
        until = time.monotonic() + 20
        while web.streams:
            board.show(reconciliation)
            time.sleep(0.01)
            assert time.monotonic() < until
        stream = Stream(web)
        assert stream.state()["policies"]
        stream.close()


def test_an_open_stream_does_not_keep_the_server_from_stopping() -> None:
    with serving() as web:
        stream = Stream(web)
        began = time.monotonic()
        web.stop()
        assert time.monotonic() - began < 3.0
        assert not web._thread.alive
        stream.close()


def test_an_address_in_use_is_told() -> None:
    with serving() as web:
        other = WebServer("127.0.0.1", web.port, board=PageState(ABOUT))
        with pytest.raises(OSError, match="in use"):
            other.start()


def test_the_pages_files_are_in_the_wheel() -> None:
    root = Path(__file__).parents[3]
    packed = {file.distribution_path for file in WheelBuilder(str(root)).recurse_included_files()}
    assert {f"slack_operator/web/static/{file.name}" for file in STATIC.iterdir()} <= packed
