"""The benchmarks' API server is one that the operator's own reflector can follow, whatever happens to its streams."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.apiserver.controllers import Controllers
from benchmarks.apiserver.server import Break, Server
from benchmarks.fingerprint import differences, fingerprint, listed
from benchmarks.generator import NOW, Size
from slack.kube.apply import Writer
from slack.kube.connection import Connection
from slack.kube.errors import ApiError
from slack.kube.kubeconfig import connect
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.watches import OperatorWatches

SIZE = Size(nodes=20, pods=600, workloads=40)
NAMESPACE = "resource-slack"
LATER = NOW + 30 * 86_400


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, SIZE) as running:
        yield running


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    opened = connect(server.kubeconfig, None)
    yield opened
    opened.close()


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.mark.thorough
def test_an_operators_view_follows_through_broken_watches_and_compaction(
    server: Server, connection: Connection
) -> None:
    view = ClusterView(NAMESPACE, lambda: None)
    watches = OperatorWatches(connection, view)
    watches.start()
    try:
        eventually(lambda: not watches.stale())
        for how in Break:
            with server.store.changed:
                server.store.advance(200)
            server.break_watches(how)
            with server.store.changed:
                server.store.advance(50)
        for name in ("zoo", "attic"):  # a list has them in another order
            body = {"metadata": {"name": name, "labels": {"team": name}}}
            kind = "application/apply-patch+yaml"
            connection.request("PATCH", f"/api/v1/namespaces/{name}", body=body, content_type=kind)
        server.compact()
        server.watch_list = False
        server.break_watches(Break.END)
        with server.store.changed:
            server.store.touch_node(3, cordoned=True)
            server.store.advance(100)

        def followed() -> bool:
            with view.lock:
                kept = fingerprint(view.columns, LATER)
            return not differences(kept, fingerprint(listed(connection, NAMESPACE, ()), LATER))

        eventually(lambda: not watches.stale() and followed())
    finally:
        watches.stop()
    assert server.opened["list pods"] > 0  # WatchList was refused


def test_a_fingerprint_tells_which_part_differs(connection: Connection) -> None:
    first, other = (listed(connection, NAMESPACE, ()) for _ in range(2))
    assert differences(fingerprint(first, LATER), fingerprint(other, LATER)) == []
    row = other.nodes.rows[other.nodes.names[0]]
    other.nodes.resource_version[row] += 1
    assert differences(fingerprint(first, LATER), fingerprint(other, LATER)) == ["node versions"]


def test_placeholders_follow_their_replica_set(server: Server, connection: Connection) -> None:
    Controllers(server.store)
    requests = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [requests]}}
    writer = Writer(connection, threading.Event())
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/one"
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "one"}}

    def counts(replicas: int) -> int:
        writer.apply(path, {**head, "spec": {"replicas": replicas, "template": template}})
        pods = json.loads(connection.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        assert all(pod["spec"]["nodeName"] for pod in pods)
        return len(pods)

    assert [counts(3), counts(5), counts(1), counts(0)] == [3, 5, 1, 0]


def test_what_has_not_changed_is_not_written_again(server: Server, connection: Connection) -> None:
    path = "/apis/apps/v1/namespaces/default/replicasets/one"
    body = {"metadata": {"name": "one"}, "spec": {"replicas": 1}}
    first, second = (
        json.loads(connection.request("PATCH", path, body=body, content_type="application/apply-patch+yaml"))
        for _ in range(2)
    )
    assert first == second
    changed = {**body, "spec": {"replicas": 2}}
    third = json.loads(connection.request("PATCH", path, body=changed, content_type="application/apply-patch+yaml"))
    assert third["metadata"]["generation"] == 2


def test_a_page_can_be_asked_for_again_and_a_forgotten_list_is_gone(server: Server, connection: Connection) -> None:
    first = json.loads(connection.request("GET", "/api/v1/pods", query={"limit": 100}))
    token = first["metadata"]["continue"]
    with server.store.changed:
        server.store.advance(300)  # the list is as of its beginning
    second, again = (
        json.loads(connection.request("GET", "/api/v1/pods", query={"limit": 100, "continue": token})) for _ in range(2)
    )
    assert second == again
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert len(first["items"]) == len(second["items"]) == 100
    with pytest.raises(ApiError) as refused:
        connection.request("GET", "/api/v1/pods", query={"limit": 100, "continue": "99:1"})
    assert refused.value.expired
