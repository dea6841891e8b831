"""The proxy of the fault tests: what it does not hold or refuse goes through as it came, streams as streams."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from e2e.harness.cluster.access import Access, write_kubeconfig
from e2e.harness.cluster.api_proxy import ApiProxy, Asked
from e2e.harness.cluster.certificates import Authority
from e2e.harness.errors import HarnessError
from e2e.harness.ports import LOOPBACK

more = threading.Event()


class _Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        more.wait(10)
        self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")

    def do_DELETE(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])) + self.headers["Authorization"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ApiProxy]:
    authority = Authority.create(tmp_path)
    pair = authority.issue("server", hosts=[LOOPBACK])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer((LOOPBACK, 0), _Upstream)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    more.clear()
    with ApiProxy(
        f"https://{LOOPBACK}:{server.server_address[1]}", authority.certificate_path, pair, tmp_path
    ) as found:
        yield found
    more.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def pool(proxy: ApiProxy, tmp_path: Path) -> Iterator[urllib3.PoolManager]:
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    with urllib3.PoolManager(maxsize=8, ssl_context=context, retries=False, timeout=10.0) as found:
        yield found


def delete(pool: urllib3.PoolManager, proxy: ApiProxy, path: str = "/pods/a") -> urllib3.BaseHTTPResponse:
    return pool.request("DELETE", f"{proxy.url}{path}?x=1", body=b"body", headers={"Authorization": "Bearer t"})


def is_delete(asked: Asked) -> bool:
    return asked.method == "DELETE"


def test_a_request_goes_through_with_its_credentials_and_a_stream_piece_by_piece(
    proxy: ApiProxy, pool: urllib3.PoolManager
) -> None:
    assert delete(pool, proxy).data == b"bodyBearer t"
    watch = pool.request("GET", f"{proxy.url}/watch", preload_content=False)
    assert watch.read1(100) == b"first"
    more.set()
    assert watch.read1(100) == b"last"
    watch.close()
    assert [asked.path for asked in proxy.asked(is_delete)] == ["/pods/a"]


def test_what_is_held_waits_until_it_is_let_go_or_never_comes(proxy: ApiProxy, pool: urllib3.PoolManager) -> None:
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(delete(pool, proxy).status)
        except urllib3.exceptions.ProtocolError:
            answers.append("broken")

    for end, answer in (("let_go", 200), ("drop", "broken")):
        hold = proxy.hold(is_delete, after=1)
        assert delete(pool, proxy).status == 200
        asking = threading.Thread(target=ask)
        asking.start()
        hold.wait_until_reached(10)
        assert not answers
        getattr(hold, end)()
        asking.join(10)
        assert [answers.pop()] == [answer]


def test_a_refusal_is_the_api_servers_and_ends(proxy: ApiProxy, pool: urllib3.PoolManager) -> None:
    with proxy.refusing(is_delete, 429, times=1):
        refused = delete(pool, proxy)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert refused.json()["reason"] == "TooManyRequests"
        assert delete(pool, proxy).status == 200
    with pytest.raises(HarnessError, match="nothing was refused"), proxy.refusing(is_delete, 503):
        pass


def test_an_identity_finds_the_proxy_by_its_own_kubeconfig(proxy: ApiProxy, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "https://server", tmp_path / "ca.crt", {"token": "t"})
    through = proxy.access(Access("user", path, None))  # type: ignore[arg-type]
    text = through.kubeconfig.read_text(encoding="utf-8")
    assert proxy.url in text
    assert "https://server" not in text
    assert through.kubeconfig.stat().st_mode & 0o077 == 0
