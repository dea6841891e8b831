"""Reports to a controller: by a token that rotates, to nobody else, and never more than one waiting."""

import gzip
import http.server
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.audit.api import messages as wire
from slack.audit.api.encoding import decode_report, encode
from slack.audit.api.messages import AgentReport, ControllerAnswer, PodName, Row, WindowReport
from slack.audit.findings.sample import CgroupLevel
from slack.process.outages import Outages
from slack.process.reporting import posting
from slack.process.reporting.packing import unpack
from slack.process.reporting.posting import NotSent
from slack.process.reporting.pushing import Pusher
from slack_operator.auditor.agent import process
from slack_operator.auditor.agent.process import Controller

REPORT = AgentReport(node="node-1")
LARGE = AgentReport(
    node="node-1",
    windows={"5m": WindowReport(rows=tuple(Row(level=CgroupLevel.POD, path=f"/kubepods/pod{i}") for i in range(500)))},
)
ANSWER = ControllerAnswer(names={"1": PodName(namespace="shop", name="api-0")})


@dataclass
class Fake:
    """A controller that does what the test says, and keeps what it was sent."""

    url: str = ""
    status: int = 200
    body: bytes = field(default_factory=lambda: encode(ANSWER))
    headers: dict[str, str] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    reports: list[AgentReport] = field(default_factory=list)


def served(fake: Fake, context: ssl.SSLContext | None = None) -> http.server.HTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            encoding = self.headers.get("Content-Encoding", "")
            fake.tokens.append(self.headers["Authorization"])
            fake.paths.append(self.path)
            fake.encodings.append(encoding)
            fake.reports.append(decode_report(unpack(data, encoding, wire.MAX_REPORT_BYTES)))
            self.send_response(fake.status)
            for name, value in fake.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(fake.body)))
            self.end_headers()
            self.wfile.write(fake.body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    server = served(made)
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("first-secret\n")
    return file


def refusal(controller: Controller, report: AgentReport = REPORT) -> NotSent:
    with pytest.raises(NotSent) as caught:
        controller.send(report)
    assert "first-secret" not in str(caught.value)
    return caught.value


def test_a_report_arrives_and_the_answer_comes_back(fake: Fake, token: Path) -> None:
    assert Controller(fake.url, None, token).send(REPORT) == ANSWER
    assert fake.reports == [REPORT]
    assert fake.paths == ["/v1/reports"]
    assert fake.tokens == ["Bearer first-secret"]


def test_the_token_is_read_anew_for_each_report(fake: Fake, token: Path) -> None:
    controller = Controller(fake.url, None, token)
    controller.send(REPORT)
    token.write_text("second-secret")
    controller.send(REPORT)
    assert fake.tokens == ["Bearer first-secret", "Bearer second-secret"]


def test_a_large_report_is_sent_gzipped_and_so_may_an_answer_be(fake: Fake, token: Path) -> None:
    fake.body, fake.headers = gzip.compress(encode(ANSWER)), {"Content-Encoding": "gzip"}
    assert Controller(fake.url, None, token).send(LARGE) == ANSWER
    assert fake.encodings == ["gzip"]
    assert fake.reports == [LARGE]


def test_a_proxy_of_the_environment_does_not_get_the_token(
    fake: Fake, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert Controller(fake.url, None, token).send(REPORT) == ANSWER


def test_a_redirect_is_not_followed(fake: Fake, token: Path) -> None:
    elsewhere = Fake()
    server = served(elsewhere)
    fake.status, fake.headers = 307, {"Location": f"{elsewhere.url}/v1/reports"}
    assert "HTTP 307" in str(refusal(Controller(fake.url, None, token)))
    assert elsewhere.tokens == []
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "outcome", "words"),
    [
        (401, b"the token has expired\n", "refused", "HTTP 401 the token has expired"),
        (403, b"not about this node", "refused", "HTTP 403 not about this node"),
        (413, b"", "refused", "HTTP 413"),
        (429, b"later", "failed", "HTTP 429 later"),
        (503, b"a standby:\x1b[2J pod-2 leads", "failed", "HTTP 503 a standby: [2J pod-2 leads"),
        (200, b"<html>", "failed", "its answer cannot be read"),
        (200, b'{"names": 5}', "failed", "$.names"),
    ],
)
def test_what_is_no_answer_is_told_in_words(
    fake: Fake, token: Path, status: int, body: bytes, outcome: str, words: str
) -> None:
    fake.status, fake.body = status, body
    problem = refusal(Controller(fake.url, None, token))
    assert words in str(problem)
    assert problem.outcome == outcome


def test_an_answer_without_end_is_given_up(fake: Fake, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_ANSWER_BYTES", 1000)
    fake.body = b" " * 100_000
    assert "longer than 1000 bytes" in str(refusal(Controller(fake.url, None, token)))


def test_nobody_listening_is_no_answer(token: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert str(refusal(Controller(f"http://127.0.0.1:{port}", None, token))) == "no answer: Connection refused"


def test_a_host_that_no_name_service_can_be_asked_for_is_no_answer(token: Path) -> None:
    assert str(refusal(Controller(f"https://{'a' * 70}.svc", None, token))).startswith("no answer: ")


def test_who_accepts_and_says_nothing_is_given_up(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "timed out" in str(refusal(Controller(f"http://127.0.0.1:{silent.getsockname()[1]}", None, token)))


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b"", "holds no token"), (b"\xff", "is no text"), (b"a\r\nHost: b", "holds no token")],
)
def test_a_token_file_without_a_token_is_told(fake: Fake, token: Path, content: bytes | None, words: str) -> None:
    token.unlink()
    if content is not None:
        token.write_bytes(content)
    problem = refusal(Controller(fake.url, None, token))
    assert str(problem).startswith(f"token file {token}: ")
    assert words in str(problem)
    assert fake.tokens == []


def test_https_trusts_only_the_authority_that_it_was_given(token: Path, tmp_path: Path) -> None:
    for name in ("ours", "another"):
        (tmp_path / name).mkdir()
    ours, another = Authority.create(tmp_path / "ours"), Authority.create(tmp_path / "another")
    pair = ours.issue("resource-slack-audit", hosts=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    fake = Fake()
    server = served(fake, context)
    assert Controller(fake.url, ours.certificate_path, token).send(REPORT) == ANSWER
    assert "its certificate is not trusted" in str(refusal(Controller(fake.url, another.certificate_path, token)))
    assert "its certificate is not trusted" in str(refusal(Controller(fake.url, None, token)))
    assert str(refusal(Controller(fake.url, token, token))) == f"CA file {token}: holds no certificate"
    assert "No such file" in str(refusal(Controller(fake.url, tmp_path / "absent", token)))
    assert fake.tokens == ["Bearer first-secret"]
    server.shutdown()
    server.server_close()


class Line:
    """What a pusher talks to: answers in turn, and what it made, took and counted."""

    def __init__(self, *answers: ControllerAnswer | NotSent) -> None:
        self.answers = list(answers)
        self.made = 0
        self.sent: list[AgentReport] = []
        self.taken: list[ControllerAnswer] = []
        self.outcomes: list[str] = []
        self.pusher = Pusher(
            self.send,
            self.make,
            self.taken.append,
            interval_seconds=60.0,
            count=self.outcomes.append,
            spread=lambda _, most: most,
        )

    def make(self) -> AgentReport:
        self.made += 1
        return AgentReport(node="n", at_unix=float(self.made))

    def send(self, report: AgentReport) -> ControllerAnswer:
        self.sent.append(report)
        answer = self.answers.pop(0)
        if isinstance(answer, NotSent):
            raise answer
        return answer


def test_reports_go_every_interval_give_or_take_a_tenth() -> None:
    line = Line(ANSWER, ANSWER)
    assert [line.pusher.push(), line.pusher.push()] == [pytest.approx(66.0)] * 2
    assert line.outcomes == ["sent", "sent"]
    assert line.taken == [ANSWER, ANSWER]


def test_while_nobody_answers_it_asks_ever_more_rarely_and_then_sends_the_newest_only() -> None:
    line = Line(*[NotSent("no answer")] * 7, ANSWER)
    assert [line.pusher.push() for _ in range(7)] == [15.0, 30.0, 60.0, 120.0, 240.0, 300.0, 300.0]
    line.pusher.push()
    assert line.taken == [ANSWER]
    assert line.sent[-1].at_unix == 8.0
    assert len(line.sent) == 8


def test_a_refusal_is_told_once_a_cause_and_so_is_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    expired, foreign = NotSent("HTTP 401 expired", "refused"), NotSent("HTTP 403 not your node", "refused")
    line = Line(expired, expired, foreign, expired, foreign, ANSWER, expired)
    with caplog.at_level(logging.INFO):
        for _ in range(7):
            line.pusher.push()
    told = [message.rpartition(": ")[2] for message in caplog.messages]
    over = "the controller takes reports again"
    assert told == ["HTTP 401 expired", "HTTP 403 not your node", over, "HTTP 401 expired"]
    assert line.outcomes == ["refused"] * 5 + ["sent", "refused"]


def test_a_standby_is_asked_again_soon_for_a_service_may_lead_elsewhere() -> None:
    standby = NotSent("HTTP 503 a standby", status=503)
    line = Line(*[standby] * 12, ANSWER, standby)
    assert [line.pusher.push() for _ in range(14)] == [1.5] * 10 + [15.0, 30.0, pytest.approx(66.0), 1.5]


def test_an_answer_may_say_when_the_next_report_is_wanted() -> None:
    line = Line(ANSWER)
    line.pusher = Pusher(
        line.send, line.make, lambda _: 10.0, interval_seconds=60.0, count=line.outcomes.append, spread=max
    )
    assert line.pusher.push() == pytest.approx(11.0)


def test_who_hurries_it_need_not_wait_for_the_interval() -> None:
    line = Line(ANSWER)
    pusher = line.pusher = Pusher(
        line.send, line.make, line.taken.append, interval_seconds=600.0, count=line.outcomes.append, spread=max
    )
    pusher.start()
    pusher.hurry()
    deadline = time.monotonic() + 10
    while not line.taken and time.monotonic() < deadline:
        time.sleep(0.01)
    pusher.stop(timeout=5.0)
    assert line.taken == [ANSWER]
    assert pusher.unhealthy() is None, "its end was asked for"


def test_before_the_first_sample_there_is_nothing_to_send() -> None:
    line = Line()
    line.pusher = Pusher(line.send, lambda: None, line.taken.append, interval_seconds=60.0, count=line.outcomes.append)
    assert line.pusher.push() == 1.0
    assert line.sent == []


def test_causes_are_told_again_after_an_hour_and_never_without_end() -> None:
    now = 0.0
    outages = Outages(lambda: now)
    assert [outages.is_new("a"), outages.is_new("a")] == [True, False]
    now = 3601.0
    assert outages.is_new("a")
    assert sum(outages.is_new(f"port {i}") for i in range(1000)) < 100
