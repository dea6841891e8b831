"""The extender over HTTP, as the scheduler's client meets it."""

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.harness.cluster.certificates import Authority, Pair
from slack.cluster.wire import Pod
from slack.process import accepting
from slack.process.running import CannotStart
from slack.scorer.asgi import Extender, NotKnown
from slack.scorer.extender import ScoreReplies
from slack_operator.runtime.certificates import Certificate
from slack_operator.scorer.serving import KEEP_ALIVE_SECONDS, ExtenderServer

HOST = "127.0.0.1"
GO_IDLE_SECONDS = 90


class _Scores:
    def prioritize(self, pod: Pod, names: Sequence[str]) -> bytes:
        if pod.metadata.name == "bad":
            raise RuntimeError("a mistake")
        return ScoreReplies(names).reply(names, [len(name) for name in names])

    def refused(self, pod: Pod, names: Sequence[str], *, nominated: str = "") -> Mapping[str, str]:
        return {"hot": f"too hot for {pod.metadata.name}"} if nominated != "hot" else {}

    def explain(self, namespace: str, pod: str) -> Mapping[str, object]:
        if pod != "api-x":
            raise NotKnown(f"nothing is known of pod {namespace}/{pod}")
        return {"pod": f"{namespace}/{pod}"}


@contextmanager
def _served(filters: bool = False, tls: Certificate | None = None, most: int = 1 << 20) -> Iterator[int]:
    server = ExtenderServer(HOST, 0, Extender(_Scores(), filters=filters, most_bytes=most), tls=tls)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with _served() as served:
        yield served


def _args(name: str = "api-x", names: Sequence[str] = ("n1", "node-2")) -> bytes:
    return json.dumps({"Pod": {"metadata": {"name": name}}, "Nodes": None, "NodeNames": list(names)}).encode()


def _ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def test_scores_come_with_their_length_on_one_connection(port: int) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    places = set()
    for count in (2, 500, 5_000):  # Go's client drops a connection after a chunked answer of 500 nodes
        names = [f"node-{number}" for number in range(count)]
        connection.request("POST", "/prioritize", _args(names=names))
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200
        assert answer.getheader("Content-Length") == str(len(body))
        assert answer.getheader("Transfer-Encoding") is None
        assert json.loads(body) == [{"Host": name, "Score": len(name)} for name in names]
        places.add(connection.sock.getsockname())
    connection.close()
    assert len(places) == 1


def test_connections_are_kept_for_longer_than_the_scheduler_keeps_them() -> None:
    assert KEEP_ALIVE_SECONDS > GO_IDLE_SECONDS


def test_an_answer_ends_its_connection_where_few_places_are_left(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "CROWDED_SHARE", 0.0)
    with socket.create_connection((HOST, port), 10) as connection:
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while piece := connection.recv(10_000):
            answer += piece
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/prioritize", b"{", 400, "no ExtenderArgs"),
        ("POST", "/prioritize", b"x" * (1 << 20) + b"x", 413, "longer than"),
        ("POST", "/prioritize", _args("bad"), 500, "its log says more"),
        ("GET", "/prioritize", None, 405, "/prioritize takes POST"),
        ("POST", "/filter", _args(), 404, "there is no '/filter' here"),
        ("POST", "/bind", _args(), 404, "known are /prioritize, /explain"),
        ("GET", "/explain", None, 400, "say which pod"),
        ("GET", "/explain?pod=other", None, 404, "default/other"),
        ("GET", f"/explain?pod={'x' * 2048}", None, 414, "the query is too long"),
        ("HEAD", "/explain?pod=api-x", None, 405, ""),
        ("GET", "/explain?namespace=shop&pod=pod/api-x", None, 200, '{"pod": "shop/api-x"}'),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(
    port: int, method: str, path: str, body: bytes | None, status: int, said: str
) -> None:
    found, headers, text = _ask(port, method, path, body)
    assert (found, said in text) == (status, True), text
    assert headers["content-length"] == str(len(text)) or method == "HEAD"


def test_a_compressed_body_and_one_that_says_it_is_huge_are_refused_unread(port: int) -> None:
    status, _, text = _ask(port, "POST", "/prioritize", b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert (status, text) == (415, "the body must not be compressed\n")
    status, _, text = _ask(port, "POST", "/prioritize", b"{", {"Content-Length": str(1 << 40)})
    assert (status, "longer than" in text) == (413, True)


def test_a_body_that_is_cut_short_or_no_http_ends_its_own_connection_only(port: int) -> None:
    for sent in (
        b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"\x16\x03\x01\x00\xa5\x01\r\n\r\n",
    ):
        with socket.create_connection((HOST, port), timeout=10) as raw:
            raw.sendall(sent)
    assert _ask(port, "POST", "/prioritize", _args())[0] == 200


def test_a_filter_is_there_where_it_is_configured() -> None:
    with _served(filters=True) as port:
        answer = json.loads(_ask(port, "POST", "/filter", _args(names=["cold", "hot"]))[2])
    assert answer["NodeNames"] == ["cold"]
    assert answer["FailedAndUnresolvableNodes"] == {"hot": "too hot for api-x"}


def test_preemption_is_told_the_nodes_that_the_filter_refuses() -> None:
    victims = {name: {"Pods": [{"UID": name}], "NumPDBViolations": 0} for name in ("cold", "hot")}
    body = json.dumps({"Pod": {"metadata": {"name": "api-x"}}, "NodeNameToMetaVictims": victims}).encode()
    with _served(filters=True) as port:
        answer = json.loads(_ask(port, "POST", "/preempt", body)[2])
    assert answer == {"NodeNameToMetaVictims": {"cold": victims["cold"]}}
    with _served() as port:
        assert _ask(port, "POST", "/preempt", body)[0] == 404


def test_over_tls_only_a_certificate_of_the_authority_is_answered(tmp_path: Path) -> None:
    ours, others = Authority.create(tmp_path / "ours"), Authority.create(tmp_path / "others")
    server, client, stranger = ours.issue("scorer", hosts=[HOST]), ours.issue("scheduler"), others.issue("scheduler")

    def ask(served: int, pair: Pair | None) -> int:
        context = ssl.create_default_context(cafile=ours.certificate_path)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection(HOST, served, timeout=10, context=context)
        try:
            connection.request("POST", "/prioritize", _args())
            return int(connection.getresponse().status)
        finally:
            connection.close()

    with _served(tls=Certificate.from_files(server.certificate, server.key, ours.certificate_path)) as served:
        assert ask(served, client) == 200
        for refused in (None, stranger):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask(served, refused)


def test_an_authority_that_is_none_is_named(tmp_path: Path) -> None:
    pair = Authority.create(tmp_path).issue("scorer", hosts=[HOST])
    with pytest.raises(CannotStart, match=r"^\S*nowhere\.crt: no certificate of an authority: No such file"):
        Certificate.from_files(pair.certificate, pair.key, tmp_path / "nowhere.crt")


def test_an_address_that_is_taken_is_an_error_at_the_start(port: int) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        ExtenderServer(HOST, port, Extender(_Scores())).start()


@pytest.mark.parametrize("silent", [64, 640])
def test_clients_that_send_no_whole_request_shut_no_scheduler_out(silent: int) -> None:
    with _served() as port, contextlib.ExitStack() as held:
        for number in range(silent):
            wire = held.enter_context(socket.create_connection((HOST, port), 5))
            wire.sendall(b"POST /prioritize HTTP/1.1\r\n" if number % 2 else b"P")
        assert _ask(port, "POST", "/prioritize", _args())[0] == 200


@pytest.mark.parametrize(("verb", "kept"), [("/filter", ["cold", "hot"]), ("/preempt", ["cold"])])
def test_the_node_that_others_were_evicted_from_is_refused_to_preemption_alone(verb: str, kept: list[str]) -> None:
    pod = {"metadata": {"name": "api-x"}, "status": {"nominatedNodeName": "hot"}}
    victims = {name: {"Pods": [{"UID": name}], "NumPDBViolations": 0} for name in ("cold", "hot")}
    body = {"Pod": pod, "NodeNames": list(victims)} if verb == "/filter" else {"Pod": pod}
    with _served(filters=True) as port:
        text = json.dumps(body | ({} if verb == "/filter" else {"NodeNameToMetaVictims": victims}))
        answer = json.loads(_ask(port, "POST", verb, text.encode())[2])
    assert list(answer.get("NodeNames") or answer["NodeNameToMetaVictims"]) == kept
