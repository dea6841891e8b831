from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from kubernetes.client import Configuration

from slack.kube.connection import Connection
from slack.kube.errors import ApiError, ConnectionFailed, Unreachable
from slack.kube.kubeconfig import connect
from slack.kube.paths import resource_path
from tests.kube.fake_api import FakeApi, Reply, eventually


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def kubeconfig(path: Path, server: str, *, current: str = "main", user: Mapping[str, object] | None = None) -> Path:
    document = {
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": dict(user) if user else {"token": "s3cret"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("main", "other")],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_kubeconfig_gives_server_token_and_our_user_agent(api: FakeApi, tmp_path: Path) -> None:
    counted: list[tuple[str, int]] = []
    file = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{api.port}")
    connection = connect(file, None, on_request=lambda verb, code: counted.append((verb, code)))
    assert connection.server_version() == "v1.99.0"
    assert api.seen[0].headers["authorization"].endswith("s3cret")
    assert api.seen[0].headers["User-Agent"].startswith("resource-slack/")
    assert counted == [("get", 200)]
    connection.close()


def test_a_path_beats_kubeconfig_beats_the_service_account_beats_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = kubeconfig(tmp_path / "flag", "http://flag")
    variable = kubeconfig(tmp_path / "variable", "http://variable")
    kubeconfig(tmp_path / ".kube" / "config", "http://home")
    assert connect(None, None).host == "http://home"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConnectionFailed, match="service account"):
        connect(None, None)
    assert connect(None, "other").host == "http://home", "a context is never the service account"
    monkeypatch.setenv("KUBECONFIG", f"{variable}:{flag}")
    assert connect(None, None).host == "http://variable"
    assert connect(flag, None).host == "http://flag"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        ("{unclosed: token-abc", "not YAML (line"),
        ("", "a mapping with contexts"),
        ("- a", "a mapping with contexts"),
        ("contexts: 7", "contexts must be a list"),
        ("contexts: [{}]", "contexts must be a list of entries with a name"),
        ("contexts: [{name: a, context: {}}]", "no current-context; pass --context (there are: a)"),
        ("current-context: b\ncontexts: [{name: a, context: {}}]", "no context 'b' (there are: a)"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: x}}]\nclusters: []", "context 'a'"),
        ("current-context: a\ncontexts: [{name: a}]\nclusters: 7", "clusters must be a list of entries with a name"),
    ],
)
def test_a_bad_kubeconfig_is_named_with_what_would_be_right(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "bad.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConnectionFailed) as caught:
        connect(file, None)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    assert "token-abc" not in str(caught.value)


@pytest.mark.parametrize(
    "server", ["127.0.0.1:6443", "http://[::1", "https://", "", "ftp://x", "http://x:99999", f"https://x:{'9' * 5000}"]
)
def test_a_server_that_is_no_address_is_named_with_its_cluster_and_not_by_a_library(
    tmp_path: Path, server: str, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(ConnectionFailed, match=r"server of cluster 'c': .* is no address such as https://") as caught:
        connect(kubeconfig(tmp_path / "config", server), None)
    assert len(str(caught.value)) < 400
    assert not recwarn.list


def test_a_password_in_a_servers_address_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed) as caught:
        connect(kubeconfig(tmp_path / "config", "ftp://me:hunter2@x"), None)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_context_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match=r"no context 'prod' \(there are: main, other\)"):
        connect(kubeconfig(tmp_path / "config", "http://x"), "prod")


def test_a_credential_plugin_that_gives_nothing_is_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugin = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such", "interactiveMode": "Never"}
    }
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(ConnectionFailed, match="/no/such"):
        connect(kubeconfig(tmp_path / "config", "http://x", user=plugin), None)


def test_no_configuration_at_all_says_what_can_be_given() -> None:
    with pytest.raises(ConnectionFailed, match="--kubeconfig FILE, set KUBECONFIG"):
        connect(None, None)


def test_a_refusal_becomes_an_error_with_reason_causes_and_retry_after(api: FakeApi, connection: Connection) -> None:
    causes = [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}]
    api.script("get", Reply.status(422, "Invalid", retry_after=3, causes=causes))
    with pytest.raises(ApiError) as caught:
        connection.request("GET", "/api/v1/nodes/a")
    error = caught.value
    assert (error.status, error.reason, error.retry_after_seconds) == (422, "Invalid", 3.0)
    assert error.causes[0].field == "spec.x"
    assert str(error) == "GET /api/v1/nodes/a: 422 Invalid: said the fake"


def test_a_proxy_that_answers_in_html_is_readable_too(api: FakeApi, connection: Connection) -> None:
    api.script("get", Reply(502, b"<html>bad gateway</html>"))
    with pytest.raises(ApiError, match=r"502 Bad Gateway: <html>bad gateway"):
        connection.request("GET", "/api/v1/nodes/a")


def test_what_authenticates_us_is_made_sure_of_once_a_second_and_not_for_each_request(api: FakeApi) -> None:
    made: list[str] = []

    def refresh(configuration: Configuration) -> None:
        made.append(f"token-{len(made)}")
        configuration.api_key["BearerToken"] = made[-1]

    now = [0.0]
    configuration = Configuration(host=f"http://127.0.0.1:{api.port}", api_key={"BearerToken": "old"})
    setattr(configuration, "refresh_api_key_hook", refresh)  # noqa: B010 - declared as None, and meant to be set
    connection = Connection(configuration, clock=lambda: now[0])
    for now[0] in (0.0, 0.5, 0.9, 1.0, 1.5):
        connection.request("GET", "/api/v1/nodes")
        assert made[-1].encode() in connection.message("GET", "/api/v1/nodes", b"", "", "*/*")
    connection.close()
    assert [seen.headers["authorization"] for seen in api.seen] == ["token-0"] * 3 + ["token-1"] * 2
    assert made == ["token-0", "token-1"]


def test_a_redirect_is_not_followed_with_our_token(api: FakeApi, connection: Connection) -> None:
    api.script("get", Reply(302, b"", {"Location": "/api/v1/nodes/b"}))
    with pytest.raises(ApiError, match="302"):
        connection.request("GET", "/api/v1/nodes/a")
    assert len(api.seen) == 1


def test_a_server_that_is_not_there_or_silent_is_unreachable(api: FakeApi) -> None:
    counted: list[tuple[str, int]] = []
    connection = api.connection(lambda verb, code: counted.append((verb, code)))
    api.script("get", Reply(hang=True), Reply(cut=True, body=b"x"))
    with pytest.raises(Unreachable) as caught:
        connection.request("GET", "/api/v1/nodes/a", timeout=(1.0, 0.1))
    assert caught.value.timed_out
    with pytest.raises(Unreachable):
        connection.request("GET", "/api/v1/nodes/a")
    api.stop()
    with pytest.raises(Unreachable, match="refused") as caught:
        connection.request("GET", "/api/v1/nodes/a", verb="custom")
    assert not caught.value.timed_out
    assert counted[-1] == ("custom", 0)
    connection.close()


def test_abort_frees_a_blocked_reader_at_once(api: FakeApi, connection: Connection) -> None:
    api.script("get", Reply(body=b"x", hang=True))
    got: list[bytes] = []
    stream = connection.stream("/api/v1/nodes/a", timeout=30.0)

    def read() -> None:
        try:
            got.extend(stream.chunks())
        except Unreachable:
            got.append(b"broken")

    thread = threading.Thread(target=read)
    thread.start()
    eventually(lambda: got == [b"x"])
    began = time.monotonic()
    stream.abort()
    thread.join(5)
    assert time.monotonic() - began < 0.5
    stream.close()
    stream.abort()


def test_queries_leave_out_what_is_empty_and_write_booleans_as_json_does(api: FakeApi, connection: Connection) -> None:
    connection.request("GET", "/api/v1/nodes", query={"a": None, "b": "", "c": True, "d": 0, "e": "x=y,z"})
    assert api.seen[0].query == {"c": "true", "d": "0", "e": "x=y,z"}


def test_a_body_is_compact_json_or_the_bytes_given(api: FakeApi, connection: Connection) -> None:
    for body in ({"metadata": {"name": "a"}}, b'{"metadata":{"name":"b"}}'):
        connection.request("POST", "/api/v1/nodes", body=body)
    assert [json.loads(seen.body)["metadata"]["name"] for seen in api.seen] == ["a", "b"]
    assert b" " not in api.seen[0].body


def test_paths() -> None:
    assert resource_path("v1", "nodes") == "/api/v1/nodes"
    assert (
        resource_path("apps/v1", "replicasets", namespace="n", name="a") == "/apis/apps/v1/namespaces/n/replicasets/a"
    )
    assert resource_path("rbac/v1", "roles", name="system:x/y") == "/apis/rbac/v1/roles/system%3Ax%2Fy"


def test_a_home_that_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(ConnectionFailed, match=r"\.kube/config: cannot be read: Permission denied"):
        connect(None, None)
