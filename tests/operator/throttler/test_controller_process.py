"""The controller's process on sockets: the webhook over TLS, files that change, an API server that is too old."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.certificates import Authority
from slack.process.running import CannotStart
from slack.process.stopping import Stopping
from slack_operator.runtime.policy_source import PolicySource
from slack_operator.runtime.process import Process
from slack_operator.throttler.controller import env_files, process
from slack_operator.throttler.controller.admission import Outcome
from slack_operator.throttler.controller.env_files import EnvFiles
from slack_operator.throttler.controller.late_pods import LatePods
from slack_operator.throttler.controller.process import build
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings
from slack_operator.throttler.controller.webhook import MAX_REVIEW_BYTES, Webhook
from tests.kube.fake_api import FakeApi, Reply
from tests.operator.throttler.test_admission import RULES, a_pod, a_review, operations

HOST = "resource-slack-throttler.resource-slack.svc"
TAKEN = Reply(201, {"template": {"spec": {"containers": [{"env": [{"valueFrom": {"fileKeyRef": {}}}]}]}}})
Json = dict[str, Any]


@dataclass
class Place:
    """One controller, its API server and its certificates."""

    api: FakeApi
    process: Process
    authority: Authority
    folder: Path

    @property
    def port(self) -> int:
        server = self.process.components.servers[0].component
        assert isinstance(server, Webhook)
        return server.port

    def ask(self, pod: Any) -> Json:
        """Ask as the API server does; returns its answer."""
        tls = ssl.create_default_context(cafile=str(self.authority.certificate_path))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=tls)
        # the certificate is for the Service's name
        connection.sock = tls.wrap_socket(_dialled(self.port), server_hostname=HOST)
        try:
            connection.request("POST", "/mutate", body=a_review(pod), headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200
            response: Json = json.loads(answer.read())["response"]
            return response
        finally:
            connection.close()

    def page(self, path: str) -> tuple[int, str]:
        """Ask what probes and Prometheus ask."""
        connection = http.client.HTTPConnection("127.0.0.1", self.process.health.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def _dialled(port: int) -> Any:
    import socket

    return socket.create_connection(("127.0.0.1", port), timeout=10)


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def settings(folder: Path, **more: Any) -> ThrottlerControllerSettings:
    given: Json = {
        "listen": "127.0.0.1:0",
        "webhook_listen": "127.0.0.1:0",
        "reports_listen": "127.0.0.1:0",
        "interval": 1.0,
        "gate_image": "slack:1",
        "agent_ca_file": folder / "ca.crt",
        "tls_cert_file": folder / "tls.crt",
        "tls_key_file": folder / "tls.key",
    }
    return ThrottlerControllerSettings(**(given | more))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    authority = Authority.create(tmp_path / "one")
    pair = authority.issue("controller", hosts=[HOST])
    for name, source in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.certificate_path)):
        (tmp_path / name).write_bytes(source.read_bytes())
    with ExitStack() as stack:
        api = stack.enter_context(FakeApi())
        api.script("post", TAKEN)
        monkeypatch.setattr(process, "connected", lambda settings, on_request: api.connection(on_request))
        # another has the lease: the webhook is served all the same
        lease = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2999-01-01T00:00:00.000000Z"}
        path = "/apis/coordination.k8s.io/v1/namespaces/resource-slack/leases/resource-slack-throttler"
        api.put(path, apiVersion="coordination.k8s.io/v1", kind="Lease", spec=lease)
        made = build(settings(tmp_path), Stopping())
        made.start()
        stack.callback(made.stop)
        yield Place(api, made, authority, tmp_path)


def test_pods_are_gated_over_tls_by_a_replica_that_does_not_lead_and_it_is_ready(place: Place) -> None:
    response = place.ask(a_pod("web"))
    gate = next(entry["value"][0] for entry in operations(response) if entry["path"] == "/spec/initContainers")
    told = {entry["name"]: entry.get("value") for entry in gate["env"]}
    assert gate["image"] == "slack:1"
    assert told["THROTTLER_AGENT_CA"] == place.authority.certificate_path.read_text().strip()
    assert place.page("/readyz")[0] == 200
    assert place.page("/healthz")[0] == 200
    page = place.page("/metrics")[1]
    assert 'slack_throttler_admissions_total{outcome="Gated"} 1.0' in page
    assert place.api.count("put") == 0, "the lease is another's"
    assert "slack_throttler_admission_seconds_count 1.0" in page
    assert "slack_throttler_unsupported 0.0" in page


def test_late_pods_are_evicted_by_a_view_of_policies_and_labels_that_is_fresh(place: Place) -> None:
    made = build(settings(place.folder, evict_late_pods=True), Stopping())
    late_pods = next(worker for worker in made.components.workers if isinstance(worker, LatePods))
    assert late_pods._stale() == "throttlepolicies are not listed yet"
    assert isinstance(made.components.policies, PolicySource)
    made.components.policies.reconcile()
    assert late_pods._stale() == "/api/v1/nodes is not listed yet"
    made.stop()


def test_a_new_authority_of_the_agents_goes_into_the_next_gate_and_a_bad_one_into_none(place: Place) -> None:
    other = Authority.create(place.folder / "two").certificate_path.read_text().strip()

    def told() -> str:
        return json.dumps(operations(place.ask(a_pod("web"))))

    (place.folder / "ca.crt").write_text("nothing of the kind")
    time.sleep(1.5)
    former = json.dumps(place.authority.certificate_path.read_text().strip())
    assert former in told()
    (place.folder / "ca.crt").write_text(other)
    wait_until(lambda: json.dumps(other) in told())


def test_an_api_server_that_does_not_take_such_variables_makes_pods_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_files, "AGAIN_SECONDS", 0.0)
    with FakeApi() as api:
        checker = EnvFiles(api.connection(), "resource-slack")
        api.script("post", Reply.status(422, "Invalid"))
        checker.refresh()
        assert "1.35 or newer" in (checker.problem or "")
        api.script("post", Reply(201, {"template": {"spec": {}}}))
        checker.refresh()
        assert "EnvFiles" in (checker.problem or "")
        api.script("post", Reply.status(400))
        checker.refresh()
        assert checker.problem is not None, "who does not answer says nothing new"
        api.script("post", TAKEN)
        checker.refresh()
        assert checker.problem is None
        asked = [seen for seen in api.seen if seen.path.endswith("/podtemplates")]
        assert {seen.query.get("dryRun") for seen in asked} == {"All"}


@pytest.mark.parametrize(("version", "works"), [("v1.33.4", False), ("v1.34.9+k3s1", False), ("v1.36.3", True)])
def test_who_may_not_ask_goes_by_the_version(version: str, works: bool) -> None:
    with FakeApi() as api:
        checker = EnvFiles(api.connection(), "resource-slack")
        api.script("post", Reply.status(403, "Forbidden"))
        api.script("version", Reply(200, {"gitVersion": version}))
        checker.refresh()
        assert (checker.problem is None) is works


@pytest.fixture
def plain() -> Iterator[Webhook]:
    seen: list[Outcome] = []
    server = Webhook(
        "127.0.0.1", 0, rules=lambda: RULES, on_admission=lambda outcome, _: seen.append(outcome), tls=None
    )
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/mutate", b"{}", {}, 400),
        ("POST", "/mutate", b"not json", {}, 400),
        ("POST", "/mutate", a_review(None), {"Content-Encoding": "gzip"}, 415),
        ("POST", "/mutate", b"", {"Content-Length": str(MAX_REVIEW_BYTES + 1)}, 413),
        ("GET", "/mutate", b"", {}, 405),
        ("POST", "/other", b"{}", {}, 404),
    ],
)
def test_what_no_api_server_sends_is_refused_before_it_is_judged(
    plain: Webhook, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", plain.port, timeout=10)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    assert answer.status == status
    assert b"Traceback" not in answer.read()
    connection.close()


def test_a_body_without_a_length_is_read_as_far_as_it_may_go(plain: Webhook) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", plain.port, timeout=10)
    chunks = (b"x" * (1 << 20) for _ in range((MAX_REVIEW_BYTES >> 20) + 2))
    try:
        connection.request(
            "POST", "/mutate", body=chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        status = connection.getresponse().status
    except ConnectionError:  # it was closed while it was still being sent
        status = 413
    assert status == 413
    connection.close()


def test_reviews_of_many_pods_that_are_created_at_once_are_all_answered(plain: Webhook) -> None:
    """A review that is cut off is not repeated: its pod would start without a gate."""
    connections = [http.client.HTTPConnection("127.0.0.1", plain.port, timeout=30) for _ in range(300)]
    for connection in connections:
        connection.connect()
    for connection in connections:
        connection.request("POST", "/mutate", body=a_review(None))
    assert [connection.getresponse().status for connection in connections] == [200] * len(connections)
    for connection in connections:
        connection.close()


def test_without_the_agents_authority_or_with_a_bad_certificate_it_does_not_start(place: Place) -> None:
    with pytest.raises(CannotStart, match="--agent-ca-file"):
        build(settings(place.folder, agent_ca_file=place.folder / "nowhere"), Stopping())
    (place.folder / "tls.key").write_text("")
    with pytest.raises(CannotStart, match=r"tls\.key"):
        build(settings(place.folder), Stopping())


def test_with_an_authority_of_callers_who_has_none_of_its_certificates_is_not_answered(place: Place) -> None:
    place.api.script("post", TAKEN)
    made = build(settings(place.folder, webhook_client_ca_file=place.folder / "ca.crt"), Stopping())
    server = made.components.servers[0].component
    assert isinstance(server, Webhook)
    server.start()
    try:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Place(place.api, made, place.authority, place.folder).ask(a_pod("web"))
    finally:
        server.stop()
