"""Every process ends within a second of SIGTERM while it waits for something that does not answer."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.cluster.certificates import Authority
from e2e.harness.ports import free_port
from slack_operator.throttler.gate.settings import PREFIX

PROGRAM = Path(sys.executable).parent / "resource-slack"
START_SECONDS = 60.0
"""Until a process has begun to wait, on a machine that does much else."""


@dataclass
class Silent:
    """Takes connections, and never answers."""

    taken: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.taken.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self.socket.close()
        for taken in self.taken:
            taken.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    authority = Authority.create(folder / "one")
    pair = authority.issue("a", hosts=["localhost"])
    for name, source in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.certificate_path)):
        (folder / name).write_bytes(source.read_bytes())
    (folder / "token").write_text("a-token")
    (folder / "cgroup").mkdir()
    return folder


def _kubeconfig(folder: Path, port: int) -> Path:
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


LISTEN = ["--listen", "127.0.0.1:0"]
TLS = ["--tls-cert-file", "{files}/tls.crt", "--tls-key-file", "{files}/tls.key"]
API = ["--kubeconfig", "{kubeconfig}"]
PROXY = ["demand", "proxy", "--mode", "wait", "--queues", "act.a.b", *LISTEN]
COMMANDS = {
    "operator": ["operator", *API, *LISTEN],
    "audit controller": ["audit", "controller", "--reports-listen", "127.0.0.1:0", *API, *LISTEN],
    "audit agent": [
        *("audit", "agent", "--node", "n", "--controller", "http://127.0.0.1:{port}", "--token-file"),
        *("{files}/token", "--push-interval", "5s", *LISTEN),
    ],
    "throttler agent": [
        *("throttler", "agent", "--node", "n", "--gates-listen", "127.0.0.1:0", "--state-dir", "{files}/state"),
        *(*TLS, *API, *LISTEN),
    ],
    "throttler controller": [
        *("throttler", "controller", "--webhook-listen", "127.0.0.1:0", "--reports-listen", "127.0.0.1:0"),
        *("--agent-ca-file", "{files}/ca.crt", "--gate-image", "i", *TLS, *API, *LISTEN),
    ],
    "scorer": [
        *("scorer", "serve", "--extender-listen", "127.0.0.1:0", "--load-watcher", "http://127.0.0.1:{port}"),
        *(*API, *LISTEN),
    ],
    "load watcher, nodes": [
        *("load-watcher", "serve", "--provider", "metrics-server", "--api-listen", "127.0.0.1:0"),
        *(*API, *LISTEN),
    ],
    "load watcher, Prometheus": [
        *("load-watcher", "serve", "--provider", "prometheus", "--address", "http://127.0.0.1:{port}"),
        *("--no-match-nodes", "--api-listen", "127.0.0.1:0", *LISTEN),
    ],
    "load watcher, InfluxDB": [
        *("load-watcher", "serve", "--provider", "influxdb", "--address", "http://127.0.0.1:{port}"),
        *("--no-match-nodes", "--api-listen", "127.0.0.1:0", *LISTEN),
    ],
    "demand controller": [
        *("demand", "controller", "--broker-url", "nats://127.0.0.1:{port}", "--proxy-image", "i", *API, *LISTEN),
    ],
    "demand proxy, NATS": [*PROXY, "--broker-url", "nats://127.0.0.1:{port}"],
    "demand proxy, Redis": [*PROXY, "--broker-url", "redis://127.0.0.1:{port}"],
}


QUICK = ("operator",)
"""`make test` starts this one, and a proxy below; each costs an interpreter and its imports."""


@pytest.fixture(scope="module")
def most_seconds() -> float:
    """Return a second, or more on a machine so busy that an interpreter takes long to start and to end."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio, ssl"], check=True)
    return max(1.0, 8 * (time.monotonic() - began))


def _seconds_to_end(process: "subprocess.Popen[Any]") -> float:
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    return time.monotonic() - began


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough) for name in COMMANDS]
)
def test_a_process_that_waits_for_a_silent_server_ends_within_a_second(
    name: str, silent: Silent, files: Path, tmp_path: Path, most_seconds: float
) -> None:
    names = {"files": files, "port": silent.port, "kubeconfig": _kubeconfig(tmp_path, silent.port)}
    command = [str(PROGRAM), *(word.format(**names) for word in COMMANDS[name])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not silent.taken and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.3)
            seconds = _seconds_to_end(process)
        finally:
            process.kill()
        assert process.stdout is not None
        said = process.stdout.read()
    assert silent.taken, said
    assert process.returncode == 0, said
    assert seconds < most_seconds, said


@pytest.mark.thorough
def test_a_gate_whose_agent_is_silent_ends_within_a_second(
    silent: Silent, files: Path, tmp_path: Path, most_seconds: float
) -> None:
    settings = {
        "AGENT_HOST": "127.0.0.1",
        "AGENT_PORT": str(silent.port),
        "AGENT_NAME": "localhost",
        "AGENT_CA": (files / "ca.crt").read_text(),
        "CONTAINERS": "a",
        "FAIL_OPEN_AFTER": "3600",
        "DOORBELL_HOST": "127.0.0.1",
        "DOORBELL_PORT": str(free_port()),
        "FOLDER": str(tmp_path),
        "TOKEN_FILE": str(files / "token"),
    }
    environment = os.environ | {f"{PREFIX}{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "slack_operator.throttler.gate"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not silent.taken and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.3)
            seconds = _seconds_to_end(process)
        finally:
            process.kill()
        assert process.stderr is not None
        said = process.stderr.read()
    assert silent.taken, said
    assert process.returncode == 0, said
    assert seconds < most_seconds, said


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["operator", "throttler controller", "demand controller", "scorer"])
def test_a_process_whose_api_server_hangs_ends_within_a_second(
    name: str, silent: Silent, files: Path, tmp_path: Path, most_seconds: float
) -> None:
    served = [sys.executable, "-m", "benchmarks.apiserver.server", "--share", "0.002"]
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen(served, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        names = {"files": files, "port": silent.port, "kubeconfig": json.loads(server.stdout.readline())["kubeconfig"]}
        words = [word.format(**names) for word in COMMANDS[name]]
        words[words.index("--listen") + 1] = address
        log = tmp_path / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen([str(PROGRAM), *words], stdout=output, stderr=output) as process,
        ):
            try:
                _wait_until_ready(address, log)
                server.send_signal(signal.SIGSTOP)
                seconds = _seconds_to_end(process)
            finally:
                process.kill()
                server.send_signal(signal.SIGCONT)
                server.terminate()
    assert process.returncode == 0, log.read_text()
    assert seconds < most_seconds, log.read_text()


def _wait_until_ready(address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/readyz", timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.mark.parametrize("scheme", ["nats", pytest.param("redis", marks=pytest.mark.thorough)])
def test_a_proxy_whose_broker_is_away_ends_within_a_second(scheme: str, most_seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [str(PROGRAM), *PROXY, "--broker-url", f"{scheme}://127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said = next((line for line in process.stdout if "no messages" in line), "")
            seconds = _seconds_to_end(process)
        finally:
            process.kill()
    assert said
    assert process.returncode == 0
    assert seconds < most_seconds
