"""Objects that a real API server takes and that readers may fail at: long ones, and ones that are nested deeply."""

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from e2e.harness.cluster.backend import Backend
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import wait_until
from e2e.harness.product.operator import install
from slack.cluster import wire
from slack.cluster.labels import ACTIVATION_POOLS, API_VERSION
from slack.demand.policy import POOL_KIND, ActivationPool, parse_pool
from slack.kube.connection import Connection
from slack.kube.kubeconfig import connect
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack_operator.placeholders.policies import SLACK_POLICY, DesiredPolicies
from slack_operator.runtime.desired import Desired
from slack_operator.runtime.kopf_watch import Kind
from slack_operator.runtime.policy_source import PolicySource

NAMESPACE = "hostile"
DEPLOYMENTS = resource_path("apps/v1", "deployments")
POOLS = resource_path(API_VERSION, ACTIVATION_POOLS)
LONG = "<" * 1_450_000
"""Just below what etcd holds of one object, 1.5 MiB. Go's JSON writes six bytes for each."""
MEBIBYTE = 1 << 20
GROUP = API_VERSION.partition("/")[0]


class Names:
    """A sink that keeps names, and those of objects that cannot be read."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.kept: set[str] = set()
        self.changed = threading.Condition()

    def begin(self) -> None:
        self.names = set()

    def apply(self, events: Sequence[tuple[EventType, Any]]) -> None:
        with self.changed:
            for kind, item in events:
                (self.names.discard if kind is EventType.DELETED else self.names.add)(item.metadata.name)
            self.changed.notify_all()

    def keep(self, who: ObjectName) -> None:
        self.kept.add(str(who))

    def end(self) -> None:
        pass

    def waits_for(self, name: str) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: name in self.names, 30.0 * time_scale())


@pytest.fixture
def connection(cluster: Backend) -> Iterator[Connection]:
    install(cluster)
    found = connect(cluster.kubeconfig, None)
    found.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
    yield found
    found.close()


def create_deployment(connection: Connection, name: str, text: str = "run") -> None:
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "pause", "args": [text]}]}
    connection.request(
        "POST",
        resource_path("apps/v1", "deployments", namespace=NAMESPACE),
        body={
            "metadata": {"name": name},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    )


@pytest.mark.parametrize("watch_list", [True, False])
@pytest.mark.parametrize("most_bytes", [None, MEBIBYTE])
def test_a_deployment_as_long_as_etcd_lets_it_be_stops_nobody(
    connection: Connection, watch_list: bool, most_bytes: int | None
) -> None:
    create_deployment(connection, "first")
    bound: Any = {} if most_bytes is None else {"max_line_bytes": most_bytes}
    sink = Names()
    reflector = Reflector(connection, DEPLOYMENTS, wire.Deployment, sink, watch_list=watch_list, **bound)
    reflector.start()
    try:
        assert reflector.wait_synced(30.0 * time_scale())
        create_deployment(connection, "long", LONG)
        create_deployment(connection, "last")
        assert sink.waits_for("last")
        lists = reflector.counters.lists + reflector.counters.watchlists
        assert (reflector.synced, lists) == (True, 1)
        assert ("long" in sink.names, list(reflector.unreadable.names)) == (
            (True, []) if most_bytes is None else (False, [f"{NAMESPACE}/long"])
        )
    finally:
        reflector.stop()
    path = resource_path("apps/v1", "deployments", namespace=NAMESPACE, name="long")
    length = len(connection.request("GET", path))
    assert 8 * MEBIBYTE < length < 10 * MEBIBYTE, "what the bound of a line is made for"


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_new_list_with_a_long_deployment_is_whole_and_names_it(connection: Connection, watch_list: bool) -> None:
    create_deployment(connection, "first")
    create_deployment(connection, "long", LONG)
    sink = Names()
    options: Any = {"max_line_bytes": MEBIBYTE}
    reflector = Reflector(connection, DEPLOYMENTS, wire.Deployment, sink, watch_list=watch_list, **options)
    reflector.start()
    try:
        assert reflector.wait_synced(30.0 * time_scale())
        assert "first" in sink.names
        # A page is read as a whole, and bounded by itself.
        assert sink.kept == ({f"{NAMESPACE}/long"} if watch_list else set())
    finally:
        reflector.stop()


def pool(name: str, deep: int = 0) -> bytes:
    template = {"spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"memory": "64Mi"}}}]}}
    document = {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": template},
    }
    raw = json.dumps(document).encode()
    nested = b'"x":' + b'{"x":' * deep + b"1" + b"}" * deep + b',"containers"'
    return raw.replace(b'"containers"', nested) if deep else raw


@pytest.fixture
def deep_pool(connection: Connection) -> Iterator[str]:
    """Give the collection that has one; it is taken away, for the harness's decoder cannot read it either."""
    path = resource_path(API_VERSION, ACTIVATION_POOLS, namespace=NAMESPACE)
    connection.request("POST", path, body=pool("good"))
    connection.request("POST", path, body=pool("bad", deep=1500))
    yield path
    connection.request("DELETE", f"{path}/bad")


@pytest.mark.parametrize("watch_list", [True, False])
def test_a_pool_that_is_nested_deeply_stops_nobody(connection: Connection, deep_pool: str, watch_list: bool) -> None:
    sink = Names()
    reflector = Reflector(connection, POOLS, wire.ActivationPoolObject, sink, watch_list=watch_list)
    reflector.start()
    try:
        assert reflector.wait_synced(30.0 * time_scale())
        connection.request("POST", deep_pool, body=pool("later"))
        assert sink.waits_for("later")
        assert sink.names == {"good", "later"}
        assert list(reflector.unreadable.names) == [f"{NAMESPACE}/bad"]
    finally:
        reflector.stop()


def test_a_pool_that_is_nested_deeply_is_named_and_the_others_are_followed(
    connection: Connection, deep_pool: str
) -> None:
    desired: Desired[ActivationPool] = Desired(lambda: None, parse_pool, POOL_KIND.lower())
    source = PolicySource(connection, desired, Kind(API_VERSION, POOL_KIND, ACTIVATION_POOLS, "-"))
    source.start()
    try:
        wait_until(lambda: len(desired.entries()) == 2, 30.0 * time_scale(), "both pools to be known")
        connection.request("POST", deep_pool, body=pool("later"))
        wait_until(lambda: len(desired.entries()) == 3, 30.0 * time_scale(), "the third pool to be known")
        usable = {entry.name: entry.policy is not None for entry in desired.entries()}
        assert usable == {"bad": False, "good": True, "later": True}
        assert list(*source.unreadable().values()) == [f"{NAMESPACE}/bad"]
        assert source.unhealthy() is None
    finally:
        source.stop()


def test_a_version_that_is_served_no_more_costs_no_policy(connection: Connection) -> None:
    policies = resource_path(API_VERSION, "slackpolicies")
    document = {"apiVersion": API_VERSION, "kind": "SlackPolicy", "metadata": {"name": "web"}, "spec": {}}
    connection.request("POST", policies, body=document)
    now = [0.0]
    desired = DesiredPolicies(lambda: None)
    source = PolicySource(connection, desired, SLACK_POLICY, lambda: now[0])
    source.reconcile()
    assert [entry.name for entry in desired.entries()] == ["web"]
    definition = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=f"slackpolicies.{GROUP}")
    (version,) = json.loads(connection.request("GET", definition))["spec"]["versions"]
    other = {**version, "name": "v1beta1", "storage": False}

    def serve(*versions: dict[str, Any]) -> None:
        body = {"spec": {"versions": list(versions)}}
        connection.request("PATCH", definition, body=body, content_type="application/merge-patch+json")

    serve({**version, "served": False}, other)
    try:
        for _ in range(20):
            source.reconcile()
            now[0] += 3600.0
        assert [entry.name for entry in desired.entries()] == ["web"]
    finally:
        serve(version)
        source.stop()
