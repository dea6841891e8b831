"""Generated clusters: that a real API server could have sent them, and that nothing in them contradicts the rest."""

import base64
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Any

import msgspec
import pytest
from kubernetes import client

from benchmarks.generator import FULL, Churn, Size, node_pages, nodes, pod_pages, pods, scaled, watch_lines
from benchmarks.generator.fields import owned, roots
from benchmarks.generator.lists import layout_of
from benchmarks.verify import verify
from slack.cluster.columns import ClusterColumns
from slack.cluster.requests import allocatable_amounts, effective_requests
from slack.cluster.wire import Node, Pod
from tests.examples import by_profile

Json = dict[str, Any]
SMALL = scaled(by_profile(1 / 100, 1 / 50))
EVENTS = 6_000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Page(msgspec.Struct):
    items: list[Pod]


@cache
def listed(seed: int = 1) -> tuple[Json, ...]:
    return tuple(pods(SMALL, seed))


def key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


@pytest.mark.thorough
def test_same_seed_same_bytes_and_another_seed_others() -> None:
    def everything(seed: int) -> tuple[bytes, ...]:
        layout_of.cache_clear()
        return tuple(
            b"".join(part) for part in (pod_pages(SMALL, seed), node_pages(SMALL, seed), watch_lines(SMALL, seed, 500))
        )

    first, again, other = everything(1), everything(1), everything(2)
    assert first == again
    assert all(before != another for before, another in zip(first, other, strict=True))


@pytest.mark.parametrize("size", [Size(1, 1, 1), Size(1, 3, 9), Size(3, 40, 4), Size(40, 100, 200), scaled(1 / 100)])
def test_there_are_as_many_as_asked_for(size: Size) -> None:
    assert sum(1 for _ in nodes(size)) == size.nodes
    assert sum(1 for _ in pods(size)) == size.pods
    assert len(list(islice(watch_lines(size, 1, 50), 50))) in (0, 50)


@pytest.mark.thorough
def test_pages_are_the_list_cut_as_the_server_cuts_it() -> None:
    limit, last = 7 * SMALL.pods // 30, SMALL.pods // 15
    pages = [json.loads(page) for page in pod_pages(SMALL, limit=limit)]
    assert [len(page["items"]) for page in pages] == [limit, limit, limit, limit, last]
    assert [pod for page in pages for pod in page["items"]] == list(listed())
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [
        *(rest * limit + last for rest in (3, 2, 1, 0)),
        None,
    ]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    token = pages[0]["metadata"]["continue"]
    place = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert place["start"] == f"/{key(pages[0]['items'][-1])}\0"
    assert "continue" not in pages[-1]["metadata"]


def test_the_list_is_in_the_order_of_its_keys_and_no_name_or_version_comes_twice() -> None:
    keys = [key(pod) for pod in listed()]
    assert keys == sorted(set(keys))
    for field in ("uid", "resourceVersion"):
        assert len({pod["metadata"][field] for pod in listed()}) == SMALL.pods
    versions = [int(pod["metadata"]["resourceVersion"]) for pod in listed()]
    assert max(versions) < int(json.loads(next(pod_pages(SMALL)))["metadata"]["resourceVersion"])


def test_objects_are_as_large_as_real_ones() -> None:
    sizes = [len(msgspec.json.encode(pod)) for pod in listed()]
    cuts = statistics.quantiles(sizes, n=20)
    assert 6_000 < statistics.mean(sizes) < 8_000
    assert 5_000 < cuts[0] < 7_000
    assert 8_000 < cuts[-1] < 10_000
    assert 11_000 < statistics.mean(len(msgspec.json.encode(node)) for node in nodes(SMALL)) < 14_000


def test_our_structs_read_every_pod_and_node() -> None:
    columns = ClusterColumns("resource-slack")
    columns.apply_nodes([("ADDED", msgspec.convert(node, Node)) for node in nodes(SMALL)])
    for page in pod_pages(SMALL):
        columns.apply_pods([("ADDED", pod) for pod in msgspec.json.decode(page, type=Page).items])
    verify(columns)
    assert len(columns.pods.rows) == SMALL.pods


def test_the_official_client_reads_a_page_and_writes_the_same_back() -> None:
    """Its models know every field that there is, so a field misspelt or misplaced would be lost on the way."""
    api: Any = client.ApiClient(client.Configuration())
    one_per_kind = list({_kind(pod): pod for pod in listed()}.values())
    for kind, found in (("V1Pod", one_per_kind), ("V1Node", list(islice(nodes(SMALL), 0, None, 20)))):
        for manifest in found:
            read = api.deserialize(json.dumps(manifest), kind, "application/json")
            written = json.dumps(api.sanitize_for_serialization(read)).replace("+00:00", "Z")
            assert _without_empty(json.loads(written)) == _without_empty(manifest)


def test_managed_fields_are_derived_as_the_server_derives_them() -> None:
    container = {
        "name": "main",
        "image": "a:1",
        "args": ["x"],
        "env": [{"name": "A", "value": "b"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }
    own: Json = {".": {}}
    assert roots(spec={"restartPolicy": "Always", "securityContext": {}, "containers": [container]}) == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"main"}': {
                    ".": {},
                    "f:args": {},
                    "f:env": own | {'k:{"name":"A"}': own | {"f:name": {}, "f:value": {}}},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": own
                    | {'k:{"containerPort":80,"protocol":"TCP"}': own | {"f:containerPort": {}, "f:protocol": {}}},
                }
            },
            "f:restartPolicy": {},
            "f:securityContext": {},
        }
    }
    assert owned([{"uid": "1", "kind": "Job"}], "ownerReferences") == own | {'k:{"uid":"1"}': {}}
    assert owned(["a/b"], "finalizers") == own | {'v:"a/b"': {}}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (2, 3))])
def test_pods_fit_their_nodes_and_keep_their_constraints(seed: int) -> None:
    hard = _assert_consistent(listed(seed), seed)
    assert hard or seed != 1, (
        "the first cluster has pods with hard constraints; another seed may draw none among so few"
    )


@pytest.mark.thorough
def test_the_mix_is_what_is_promised() -> None:
    size = scaled(1 / 5)
    kinds, selective, spread, hard, extra, pending, terminating = Counter[str](), 0, 0, 0, 0, 0, 0
    workloads: dict[str, Json] = {}
    for pod in pods(size):
        kinds[_kind(pod)] += 1
        pending += "nodeName" not in pod["spec"]
        terminating += "deletionTimestamp" in pod["metadata"]
        workloads.setdefault(pod["metadata"]["labels"]["app"], pod)
    for pod in workloads.values():
        spec, affinity = pod["spec"], pod["spec"].get("affinity", {})
        selective += "nodeSelector" in spec or "nodeAffinity" in affinity
        spread += "podAntiAffinity" in affinity or "topologySpreadConstraints" in spec
        hard += REQUIRED in affinity.get("podAntiAffinity", {})
        extra += "initContainers" in spec or "example.com/gpu" in spec["containers"][0]["resources"]["requests"]
    assert set(kinds) == {"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod"}
    assert kinds["DaemonSet"] >= 4 * size.nodes
    assert len(workloads) == size.workloads
    assert 0.15 < selective / len(workloads) < 0.35
    assert 0.15 < spread / len(workloads) < 0.30
    assert hard
    assert 0.01 < extra / len(workloads) < 0.08
    assert 0.004 < pending / size.pods < 0.01
    assert 0 < terminating / size.pods < 0.01


@pytest.mark.thorough
def test_a_watch_replayed_onto_the_list_gives_the_list_that_comes_after_it() -> None:
    churn = Churn(SMALL, 1)
    state = {key(pod): pod for pod in listed()}
    version = int(json.loads(next(pod_pages(SMALL)))["metadata"]["resourceVersion"])
    seen = Counter[str]()
    for line in churn.lines(EVENTS):
        assert line.endswith(b"}\n")
        event = json.loads(line)
        pod = event["object"]
        assert (pod.pop("kind"), pod.pop("apiVersion")) == ("Pod", "v1")
        assert int(pod["metadata"]["resourceVersion"]) > version
        version = int(pod["metadata"]["resourceVersion"])
        seen[event["type"]] += 1
        before = state.get(key(pod))
        if event["type"] == "ADDED":
            assert before is None
            assert "nodeName" not in pod["spec"]
        else:
            assert before is not None
            assert before["metadata"]["uid"] == pod["metadata"]["uid"]
            assert before["spec"].get("nodeName") in (None, pod["spec"].get("nodeName"))
        if event["type"] == "DELETED":
            del state[key(pod)]
        else:
            state[key(pod)] = pod
    assert min(seen.values()) > EVENTS / 20
    pages = [json.loads(page) for page in churn.pages()]
    assert [pod for page in pages for pod in page["items"]] == [state[name] for name in sorted(state)]
    assert pages[0]["metadata"]["resourceVersion"] == str(version)
    assert _assert_consistent(state.values(), 1, skew=2)


@pytest.mark.thorough
def test_a_watch_brings_what_happens_to_pods() -> None:
    phases, reasons = set(), set()
    for line in watch_lines(SMALL, 1, EVENTS):
        pod = json.loads(line)["object"]
        phases.add(pod["status"]["phase"])
        reasons |= {entry["reason"] for entry in pod["status"].get("conditions", ()) if "reason" in entry}
    assert phases == {"Pending", "Running", "Succeeded"}
    assert {"ContainersNotReady", "PodCompleted"} <= reasons


def test_lines_go_on_where_they_stopped() -> None:
    whole, parts = Churn(SMALL, 1), Churn(SMALL, 1)
    assert list(whole.lines(300)) == [*parts.lines(100), *parts.lines(200)]


def test_full_size_is_what_the_operator_is_built_for() -> None:
    assert Size(nodes=5_000, pods=150_000, workloads=3_000) == FULL
    assert scaled(1) == FULL
    assert scaled(0) == Size(1, 1, 1)


def _kind(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences")
    return str(owners[0]["kind"]) if owners else "Pod"


def _without_empty(value: Any) -> Any:
    """Drop nulls and empty objects: the official client writes no null, and the server keeps `{}` where it is sent."""
    if isinstance(value, dict):
        parts = {name: _without_empty(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, {})}
    return [_without_empty(part) for part in value] if isinstance(value, list) else value


def _assert_consistent(found: Iterable[Json], seed: int, skew: int = 1) -> bool:
    """Assert that bound pods fit, and that constraints hold; says whether there were hard ones."""
    machines = {node["metadata"]["name"]: node for node in nodes(SMALL, seed)}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    hosts, zones = defaultdict[str, list[str]](list), defaultdict[str, Counter[str]](Counter)
    for pod in found:
        if "nodeName" not in pod["spec"] or pod["status"]["phase"] == "Succeeded":
            continue
        node = machines[pod["spec"]["nodeName"]]
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        used[name].update(effective_requests(msgspec.json.decode(msgspec.json.encode(pod), type=Pod).spec))
        used[name]["pods"] += 1
        assert pod["spec"].get("nodeSelector", {}).items() <= labels.items()
        required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
        for term in required.get("nodeSelectorTerms", ()):
            for wanted in term.get("matchExpressions", ()):
                assert labels[wanted["key"]] in wanted["values"]
            for wanted in term.get("matchFields", ()):
                assert wanted["values"] == [name]
        for taint in node["spec"].get("taints", ()):
            assert any(entry.get("key") in (None, taint["key"]) for entry in pod["spec"]["tolerations"]), key(pod)
        app = pod["metadata"]["labels"]["app"]
        if REQUIRED in pod["spec"].get("affinity", {}).get("podAntiAffinity", {}):
            hosts[app].append(name)
        for spread in pod["spec"].get("topologySpreadConstraints", ()):
            if spread["whenUnsatisfiable"] == "DoNotSchedule":
                zones[app][labels["topology.kubernetes.io/zone"]] += 1
    for name, total in used.items():
        room = allocatable_amounts(machines[name]["status"]["allocatable"])
        assert all(amount <= room.get(resource, 0) for resource, amount in total.items()), (name, total, room)
    assert all(len(on) == len(set(on)) for on in hosts.values())
    assert all(max(counts.values()) - min(counts.values()) <= skew for counts in zones.values() if len(counts) == 3)
    return bool(hosts or zones)
