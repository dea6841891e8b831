"""The agent's process on sockets: a policy of the API server, a gate's link, metrics, certificates that change."""

import ast
import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.certificates import Authority
from e2e.harness.json_patch import patched
from e2e.harness.product.gate_link import ConnectedLink
from slack.process.running import CannotStart
from slack.process.stopping import Stopping
from slack.throttler.injection import patch
from slack.throttler.protocol import AUDIENCE
from slack_operator.runtime.certificates import InvalidCertificate
from slack_operator.throttler.agent import grant_coordinator, process
from slack_operator.throttler.agent.process import ThrottlerAgent
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.authority import authority_of
from slack_operator.throttler.gate.agent_link import LinkDown
from slack_operator.throttler.gate.gate import Gate
from slack_operator.throttler.gate.settings import GateSettings
from tests.kube.fake_api import FakeApi, Reply
from tests.operator.throttler.test_gate_server import read
from tests.operator.throttler.test_grant_coordinator import HELD, OPTIONS

NAME = "resource-slack-throttler-agent"
POLICY = "/apis/resource-slack.io/v1alpha1/throttlepolicies/default"


@dataclass
class Place:
    """One agent, its API server and its certificates."""

    api: FakeApi
    agent: ThrottlerAgent
    authority: Authority
    folder: Path

    def pod(self, name: str, *containers: str) -> str:
        """Have a gated pod whose containers are held; returns its uid."""
        bare: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": found} for found in containers]}}
        rows = [{"name": found, "state": HELD, "ready": False} for found in containers]
        made = self.api.put(
            f"/api/v1/namespaces/shop/pods/{name}",
            spec=patched(bare, patch(bare, OPTIONS))["spec"],
            status={"phase": "Pending", "containerStatuses": rows},
        )
        return str(made["metadata"]["uid"])

    def link(self, uid: str, authority: str | None = None) -> ConnectedLink:
        """Connect as the gate of a pod does."""
        user = {"extra": {"authentication.kubernetes.io/pod-uid": [uid]}}
        review = {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user}}
        self.api.script("post", Reply(201, review))
        token = self.folder / "token"
        token.write_text("a-token")
        pem = authority or self.authority.certificate_path.read_text()
        return ConnectedLink("127.0.0.1", self.agent.agent.port, NAME, pem, str(token))

    def wait_until_known(self, uid: str) -> None:
        """Wait until the desk, in its own thread, goes by the policy, sees the node's pods and has this one."""
        agent = self.agent.agent
        desk = agent._desk
        wait_until(lambda: desk.throttle.limits.slots == 1 and agent._blind() is None and desk.pod(uid) is not None)

    def get(self, path: str) -> tuple[int, str]:
        """Ask what probes and Prometheus ask."""
        connection = http.client.HTTPConnection("127.0.0.1", self.agent.health.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def wait_until(what: Callable[[], bool]) -> None:
    """Wait for what comes by itself."""
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(grant_coordinator, "GRACE_SECONDS", 0.0)
    authority = Authority.create(tmp_path / "one")
    pair = authority.issue("agent", hosts=[NAME])
    for name, source in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.certificate_path)):
        (tmp_path / name).write_bytes(source.read_bytes())
    settings = ThrottlerAgentSettings(
        node="n1",
        proc=tmp_path / "proc",
        state_dir=tmp_path / "state",
        listen="127.0.0.1:0",
        gates_listen="127.0.0.1:0",
        tls_cert_file=tmp_path / "tls.crt",
        tls_key_file=tmp_path / "tls.key",
        ca_file=tmp_path / "ca.crt",
    )
    with ExitStack() as stack:
        api = stack.enter_context(FakeApi())
        api.put("/api/v1/nodes/n1", metadata={"labels": {}})
        spec = {"maxStartingContainersPerCore": "0.001", "minRate": None, "maxRate": None, "failOpenAfter": "9s"}
        api.put(POLICY, apiVersion="resource-slack.io/v1alpha1", kind="ThrottlePolicy", spec=spec)
        monkeypatch.setattr(process, "connected", lambda settings, on_request: api.connection(on_request))
        agent = ThrottlerAgent(settings, Stopping())
        agent.start()
        stack.callback(agent.stop)
        wait_until(lambda: agent.unhealthy() is None and agent.policy.applied is not None)
        yield Place(api, agent, authority, tmp_path)


def test_a_gate_is_told_the_policy_and_let_in_by_it_and_metrics_count(place: Place) -> None:
    uid = place.pod("web", "a", "b")
    place.wait_until_known(uid)
    link = place.link(uid)
    welcome = read(link)[0]
    assert welcome["fail_open_after_seconds"] == 9.0
    assert welcome["authority"] == place.authority.certificate_path.read_text().strip()
    for name in "ab":
        link.send({"type": "ask", "container": name})
    told = read(link, 3)
    assert [message["container"] for message in told if message["type"] == "granted"] == ["a"], "one slot"
    wait_until(lambda: 'slack_throttler_grants_total{forced="false"} 1.0' in place.get("/metrics")[1])
    page = place.get("/metrics")[1]
    for line in (
        'slack_throttler_containers{state="starting"} 1.0',
        "slack_throttler_slots 1.0",
        "slack_throttler_gates 1.0",
        "slack_throttler_policy_known 1.0",
        "slack_throttler_wait_seconds_count 1.0",
        'slack_throttler_usage_unknown{figure="load1"} 1.0',
    ):
        assert line in page, line
    assert place.get("/healthz")[0] == 200
    wait_until(lambda: place.get("/readyz")[0] == 200)
    assert len((place.folder / "state" / "grants").read_text().splitlines()) == 2
    link.close()


def test_a_policy_that_changes_reaches_gates_and_loses_no_grant(place: Place) -> None:
    uid = place.pod("web", "a", "b", "c")
    place.wait_until_known(uid)
    link = place.link(uid)
    read(link)
    for name in "abc":
        link.send({"type": "ask", "container": name})
    read(link, 4)
    place.api.put(POLICY, spec={"maxStartingContainersPerCore": None, "minRate": None, "maxRate": None})
    told = read(link, 3)
    assert told[0]["type"] == "welcome"
    assert sorted(str(message["container"]) for message in told[1:] if message["type"] == "granted") == ["b", "c"]
    link.send({"type": "ask", "container": "a"})
    assert read(link)[0]["type"] == "granted", "as before"
    link.close()


def test_a_gate_that_is_connected_trusts_the_next_authority_and_one_that_is_begun_anew_does(place: Place) -> None:
    uid = place.pod("web", "a")
    old = place.link(uid)
    read(old)
    renewed = Authority.create(place.folder / "two")
    pair = renewed.issue("agent", hosts=[NAME])
    (place.folder / "ca.crt").write_bytes(renewed.certificate_path.read_bytes() + b"\nnot a certificate\n")
    (place.folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (place.folder / "tls.key").write_bytes(pair.key.read_bytes())
    place.agent.reload_files()
    welcome = read(old)[0]
    assert welcome["authority"] == renewed.certificate_path.read_text().strip()
    with pytest.raises(LinkDown):
        place.link(uid)
    place.api.scripted.clear()
    environment = environment_of(place, place.authority, place.folder)

    def a_gate() -> Gate:
        settings = GateSettings(environment)
        settings.doorbell_port = 0
        return Gate(settings)

    gate = a_gate()
    gate._take(welcome)
    gate._take({"type": "welcome", "authority": "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----"})
    gate.close()
    successor = a_gate()
    link = place.link(uid, f"{environment['THROTTLER_AGENT_CA']}\n{successor._learnt}")
    assert read(link)[0]["type"] == "welcome"
    link.close()
    successor.close()
    old.close()


def test_only_certificates_of_the_file_are_told_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    pem = authority.certificate_path.read_text()
    file = tmp_path / "bundle"
    file.write_text(f"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n{pem}\n{pem}")
    assert authority_of(file) == f"{pem.strip()}\n{pem.strip()}"
    for text in ("", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", pem * 30):
        file.write_text(text)
        with pytest.raises(InvalidCertificate, match="bundle"):
            authority_of(file)
    with pytest.raises(InvalidCertificate, match="absent"):
        authority_of(tmp_path / "absent")


def test_a_port_that_is_taken_and_a_certificate_that_is_none_end_it_by_the_flag(place: Place) -> None:
    settings = place.agent._settings
    taken = {**vars(settings), "gates_listen": f"127.0.0.1:{place.agent.agent.port}"}
    other = ThrottlerAgent(ThrottlerAgentSettings(**taken), Stopping())
    with pytest.raises(CannotStart, match=r"--gates-listen 127\.0\.0\.1:\d+: cannot listen"):
        other.start()
    other.stop()
    absent = {**vars(settings), "tls_key_file": place.folder / "absent"}
    with pytest.raises(CannotStart, match=r"--tls-cert-file, --tls-key-file: .*absent: cannot be read"):
        ThrottlerAgent(ThrottlerAgentSettings(**absent), Stopping())


def test_a_state_directory_that_cannot_be_made_holds_nothing_up(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    settings = {**vars(place.agent._settings), "state_dir": place.folder / "tls.crt" / "below"}
    other = ThrottlerAgent(ThrottlerAgentSettings(**settings), Stopping())
    other._make_state_dir()
    assert "grants will not outlive this agent" in caplog.text
    other.stop()


def test_nothing_that_the_agent_decides_asks_the_wall_clock() -> None:
    folder = Path(process.__file__).parent
    asked = {
        f"{path.name}: {ast.unparse(node)}"
        for path in folder.glob("*.py")
        # What is said to people has a time of day, which is read by nobody here; and a token ends at a time of day.
        if path.name not in ("node_report.py", "gate_server.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "time.time_ns", "datetime.now")
    }
    assert asked == set(), "a wall clock that jumps would lose slots or give them twice"


@pytest.mark.thorough
def test_the_agent_is_light_and_what_it_decides_by_the_more() -> None:
    code = (
        "import sys; import slack.throttler.decision, slack.throttler.injection\n"
        "assert 'pydantic' not in sys.modules\n"
        "import slack_operator.throttler.agent.process\n"
        "print([name for name in ('kopf', 'aiohttp', 'numpy', 'typer', 'rich') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[]\n"


def environment_of(place: Place, authority: Authority, folder: Path, **told: str) -> dict[str, str]:
    """Return what a gate of a container `a` is told."""
    folder.mkdir(exist_ok=True)
    return {
        "THROTTLER_AGENT_HOST": "127.0.0.1",
        "THROTTLER_AGENT_PORT": str(place.agent.agent.port),
        "THROTTLER_AGENT_NAME": NAME,
        "THROTTLER_AGENT_CA": authority.certificate_path.read_text(),
        "THROTTLER_CONTAINERS": "a",
        "THROTTLER_FAIL_OPEN_AFTER": "60",
        "THROTTLER_DOORBELL_HOST": "127.0.0.1",
        "THROTTLER_DOORBELL_PORT": "1",
        "THROTTLER_FOLDER": str(folder),
        "THROTTLER_TOKEN_FILE": str(place.folder / "token"),
    } | told


def test_an_agent_whose_watch_is_refused_says_that_it_is_blind_and_that_it_sees_again(place: Place) -> None:
    uid = place.pod("web", "a")
    place.wait_until_known(uid)
    link = place.link(uid)
    read(link)
    place.api.script("watch", *[Reply.status(403, "Forbidden")] * 3)
    place.api.script("list", *[Reply.status(403, "Forbidden")] * 3)
    place.api.end_watches()
    wait_until(lambda: place.agent.agent.pods.forbidden)
    link.send({"type": "ask", "container": "a"})
    told = read(link)[0]
    assert told["type"] == "blind"
    assert "may not be watched" in str(told["reason"])
    applied = place.agent.policy.applied
    assert applied is not None
    report = place.agent.agent.report("n1", applied, 2.0)
    assert report is not None
    assert "may not be watched" in report.blind, "the controller hears of it as well"
    wait_until(lambda: "slack_throttler_blind 1.0" in place.get("/metrics")[1])
    place.pod("other", "a")  # the watch is open again, and brings something
    wait_until(lambda: not place.agent.agent.pods.forbidden)
    assert read(link)[0]["type"] == "welcome", "a gate asks anew for that"
    link.send({"type": "ask", "container": "a"})
    assert read(link)[0]["type"] in ("wait", "granted")
    link.close()


def test_a_gate_that_trusts_the_authority_of_a_release_that_is_gone_lets_its_containers_start(place: Place) -> None:
    """After a reinstall the agents have certificates of another authority: that gate can never ask one again."""
    (place.folder / "token").write_text("a-token")
    former = Authority.create(place.folder / "former")
    folder = place.folder / "permits"
    settings = GateSettings(environment_of(place, former, folder, THROTTLER_FAIL_OPEN_AFTER="1"))
    settings.doorbell_port = 0
    gate = Gate(settings)
    gate._take({"type": "withdraw", "container": "a", "instance": "a1"})
    began = time.monotonic()
    while not (folder / "a.env").exists():
        gate.run_next()
        assert time.monotonic() - began < 10
    assert time.monotonic() - began >= 0.9
    gate.close()
