"""A dry run starts from what the operator would, and comes to the same plan: the same objects through all three doors.

The operator's watches, a dry run's file, and a dry run's lists of a live cluster.
"""

import json
import tempfile
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from slack.cli.inputs.dry_run import gather
from slack.cluster import wire
from slack.cluster.labels import (
    ANNOTATION_RETIRING,
    ANNOTATION_SPEC,
    LABEL_PLACEHOLDER,
    LABEL_POLICY,
    LABEL_SHAPE,
    PRIORITY_CLASS,
    ZONE,
)
from slack.kube.access import ClusterAccess
from slack.kube.deadline import Deadline
from slack.kube.watch import EventType
from slack.planner.domain.membership import node_labels
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ConditionType, ExistingShape, Plan
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.adoption import existing_shapes
from slack.planner.objects.manifests import pod_spec, priority_class, replica_set
from slack.planner.output import document
from slack_operator.placeholders.planned_policies import owners_of, plan_for, planned_policies_of
from slack_operator.placeholders.policies import DesiredPolicies
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NodeSink, OwnSetSink, PodSink, PriorityClassSink
from tests.cluster.build import NOW, Json, node, pod
from tests.examples import examples

NAMESPACE = "resource-slack"
RATE = 0.1
POLICIES = ("default", "web", "data")
CLASSES: dict[str, Json] = {
    "good": {"value": -5, "preemptionPolicy": "Never"},
    "too-high": {"value": 100, "preemptionPolicy": "Never"},
    "global": {"value": -5, "preemptionPolicy": "Never", "globalDefault": True},
    "preempting": {"value": -5, "preemptionPolicy": "PreemptLowerPriority"},
}
"""All there are beside ours: what a PriorityClass can be like."""
COLLECTIONS = {
    "Node": "nodes",
    "Pod": "pods",
    "PriorityClass": "priorityclasses",
    "ReplicaSet": "replicasets",
    "SlackPolicy": "slackpolicies",
}
SHAPES = tuple(
    Shape((("cpu", cpu), ("memory", memory << 20)), node_selector=selector)
    for cpu, memory in ((500, 1024), (1000, 2048), (100, 256))
    for selector in ((), (("pool", "web"),), (("pool", "data"),))
)


@st.composite
def policies(draw: st.DrawFn) -> list[Json]:
    """SlackPolicy objects as a list has them; some are being deleted, some share their nodes."""
    found = []
    for name in draw(st.lists(st.sampled_from(POLICIES), unique=True)):
        spec: Json = {
            "extraCapacity": {"minRate": draw(st.sampled_from([0.0, 0.2, 1.0]))},
            "cover": {"mode": draw(st.sampled_from(["Frequent", "Everything", "Largest", "None"]))},
            "perDomain": draw(st.sampled_from(["None", "Zone"])),
            "dryRun": draw(st.integers(0, 7)) == 0,
        }
        if priority := draw(st.sampled_from([None, *CLASSES, "absent"])):
            event(f"PriorityClass {priority}")
            spec["priorityClassName"] = priority
        if name != "default" or draw(st.booleans()):
            spec["nodeSelector"] = {"pool": draw(st.sampled_from(["web", "data"]))}
        metadata: Json = {"name": name, "uid": f"uid-{name}", "generation": 1}
        metadata["creationTimestamp"] = f"2027-01-1{draw(st.integers(0, 4))}T07:00:00Z"
        if draw(st.integers(0, 7)) == 0:
            metadata["deletionTimestamp"] = "2027-01-15T07:00:00Z"
        found.append(
            {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": metadata, "spec": spec}
        )
    return found


def _edited(item: Json, change: str) -> None:
    """Do to a ReplicaSet what upgrades, users and other controllers do."""
    metadata = item["metadata"]
    match change:
        case "retiring":
            metadata["annotations"][ANNOTATION_RETIRING] = "true"
        case "retiring in other words":
            metadata["annotations"][ANNOTATION_RETIRING] = "yes"
        case "renamed":
            metadata["name"] += "-old"
        case "foreign owner":
            metadata["ownerReferences"][0]["uid"] = "uid-of-another"
        case "an owner that does not control":
            metadata["ownerReferences"][0] |= {"uid": "uid-of-another", "controller": False}
        case "no owner":
            del metadata["ownerReferences"]
        case "other policy":
            metadata["labels"][LABEL_POLICY] = "web" if metadata["labels"][LABEL_POLICY] != "web" else "data"
        case "no policy":
            del metadata["labels"][LABEL_POLICY]
        case "other shape":
            metadata["labels"][LABEL_SHAPE] = "00000000"
        case "no placeholder":
            del metadata["labels"][LABEL_PLACEHOLDER]
        case "going":
            metadata["deletionTimestamp"] = "2027-01-15T07:00:00Z"
        case "unreadable":
            metadata["annotations"][ANNOTATION_SPEC] = '{"requests": 3}'
        case "no annotations":
            del metadata["annotations"]
        case "elsewhere":
            metadata["namespace"] = "shop"
        case "default replicas":
            del item["spec"]["replicas"]


CHANGES = (
    *("as written",) * 6,
    "retiring",
    "retiring in other words",
    "renamed",
    "foreign owner",
    "an owner that does not control",
    "no owner",
    "other policy",
    "no policy",
    "other shape",
    "no placeholder",
    "going",
    "unreadable",
    "no annotations",
    "elsewhere",
    "default replicas",
)


@st.composite
def replica_sets(draw: st.DrawFn) -> list[Json]:
    """ReplicaSets of some policies' shapes, and what became of them."""
    found: dict[str, Json] = {}
    chosen = st.tuples(st.sampled_from(POLICIES), st.sampled_from(SHAPES), st.sampled_from(list(Role)[:2]))
    for policy, shape, role in draw(st.lists(chosen, max_size=8)):
        built_in = policy == "default" and draw(st.booleans())
        owner = {
            "apiVersion": "v1",
            "kind": "PriorityClass" if built_in else "SlackPolicy",
            "name": PRIORITY_CLASS if built_in else policy,
            "uid": "uid-of-the-class" if built_in else f"uid-{policy}",
            "controller": True,
        }
        item = deepcopy(replica_set(policy, shape, role, draw(st.integers(0, 4)), namespace=NAMESPACE, owner=owner))
        item["metadata"]["uid"] = f"uid-set-{len(found)}"
        change = draw(st.sampled_from(CHANGES))
        event(change)
        _edited(item, change)
        found[f"{item['metadata']['namespace']}/{item['metadata']['name']}"] = item
    return list(found.values())


@st.composite
def priority_classes(draw: st.DrawFn, *, ours_may_be_absent: bool) -> list[Json]:
    """All of CLASSES, and ours as it was made, or as somebody else has made it."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    others: list[Json] = [
        {**kind, "metadata": {"name": name, "uid": f"uid-{name}"}, **CLASSES[name]} for name in CLASSES
    ]
    looks = draw(st.sampled_from(["as made", "as made", "as made", *CLASSES, *["absent"] * ours_may_be_absent]))
    event(f"our PriorityClass: {looks}")
    if looks == "absent":
        return others
    ours = priority_class() | CLASSES.get(looks, {})
    ours["metadata"]["uid"] = "uid-of-the-class"
    return [ours, *others]


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    """Nodes, pods, placeholders, PriorityClasses, policies and ReplicaSets, as `kubectl get -o json` lists them."""
    nodes = [
        node(f"n{i}", cpu=draw(st.sampled_from(["2", "4"])), labels={"pool": pool, ZONE: zone})
        for i, (pool, zone) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from(["web", "data"]), st.sampled_from("ab")), min_size=1, max_size=4))
        )
    ]
    names = [None, *(item["metadata"]["name"] for item in nodes)]
    sizes = st.tuples(st.sampled_from(["100m", "500m", "1"]), st.sampled_from(["256Mi", "1Gi", "3Gi"]))
    pods = [
        pod(f"p{i}", cpu=cpu, memory=memory, node=at, owner=("ReplicaSet", f"app{i % 3}"), priority=(0, -7, 0)[i % 3])
        for i, ((cpu, memory), at) in enumerate(draw(st.lists(st.tuples(sizes, st.sampled_from(names)), max_size=6)))
    ]
    sets = draw(replica_sets())
    for item in sets:
        shape = next(shape for shape in SHAPES if shape.name == item["spec"]["selector"]["matchLabels"][LABEL_SHAPE])
        template = item["spec"]["template"]["metadata"]
        for number in range(draw(st.integers(0, 2))):
            placeholder: Json = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **template,
                    "name": f"{item['metadata']['name']}-{number}",
                    "namespace": item["metadata"]["namespace"],
                    "uid": f"uid-{item['metadata']['name']}-{number}",
                    "creationTimestamp": "2027-01-15T07:00:00Z",
                },
                "spec": pod_spec("web", shape, "pause"),
                "status": {},
            }
            if at := draw(st.sampled_from(names)):
                placeholder["spec"]["nodeName"] = at
            pods.append(placeholder)
    found = draw(policies())
    # While there is no policy at all our PriorityClass owns the placeholders; without it the operator takes none in.
    alive = any("deletionTimestamp" not in policy["metadata"] for policy in found)
    return [*nodes, *pods, *draw(priority_classes(ours_may_be_absent=alive)), *sets, *found]


def by_the_operator(objects: list[Json]) -> tuple[tuple[ExistingShape, ...], Plan]:
    """Feed the watches' sinks, and plan as a turn of the loop does."""
    view = ClusterView(NAMESPACE, lambda: None, clock=lambda: NOW, wall=lambda: NOW)
    kinds: tuple[tuple[str, Any, Any], ...] = (
        ("PriorityClass", wire.PriorityClass, PriorityClassSink(view)),
        ("Node", wire.Node, NodeSink(view)),
        ("ReplicaSet", wire.OwnReplicaSet, OwnSetSink(view)),
        ("Pod", wire.Pod, PodSink(view)),
    )
    for kind, struct, sink in kinds:
        found = [item for item in objects if item["kind"] == kind]
        if kind == "ReplicaSet":  # this watch has a namespace
            found = [item for item in found if item["metadata"]["namespace"] == NAMESPACE]
        sink.begin()
        sink.apply([(EventType.ADDED, msgspec.json.decode(msgspec.json.encode(item), type=struct)) for item in found])
        sink.end()
    desired = DesiredPolicies(lambda: None)
    assert desired.replace_all([item for item in objects if item["kind"] == "SlackPolicy"], events_before=0)
    entries = desired.entries()
    view.columns.require_labels(node_labels(entry.policy for entry in entries if entry.policy is not None))
    seen = view.observe(NOW)
    planned_policies = planned_policies_of(entries, seen.priority_classes, built_in=True)
    existing = existing_shapes(seen.present.sets.values(), owners_of(planned_policies))
    return existing, plan_for(planned_policies, seen, now=NOW, state={}, default_rate=RATE, cache=PlanCache())


def dry_run(snapshot: Path | None) -> tuple[tuple[ExistingShape, ...], Plan]:
    """Plan as `resource-slack plan` does; without a file of a live cluster."""
    inputs = gather([], snapshot, ClusterAccess(), datetime.fromtimestamp(NOW, UTC).isoformat(), NAMESPACE)
    return inputs.existing, inputs.plan(RATE)


def by_a_file(objects: list[Json]) -> tuple[tuple[ExistingShape, ...], Plan]:
    """Read what kubectl has written, as `plan --snapshot` does."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "cluster.json"
        snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return dry_run(snapshot)


class Lists:
    """A connection to an API server that has these objects; items of its lists carry no kind."""

    address = "https://api.example"

    def __init__(self, objects: list[Json]) -> None:
        self._objects = objects
        self.deadline: Deadline | None = None

    def server_version(self) -> str:
        return "v1.36.3"

    def request(self, method: str, path: str, *, query: object, verb: str, most_bytes: int) -> bytes:
        assert (method, verb) == ("GET", "list")
        collection = path.rpartition("/")[2]
        found = [item for item in self._objects if COLLECTIONS[item["kind"]] == collection]
        items = [{key: item[key] for key in item if key not in ("apiVersion", "kind")} for item in found]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()

    def close(self) -> None:
        pass


def by_lists(objects: list[Json]) -> tuple[tuple[ExistingShape, ...], Plan]:
    """Read an API server, as `plan` does without a file."""
    with mock.patch("slack.kube.kubeconfig.connect_with", return_value=Lists(objects)):
        return dry_run(None)


def told(plan: Plan) -> dict[str, Any]:
    """Return all that a plan says of each policy, as values that compare."""
    documents = {item["policy"]: item for item in document(plan)["items"]}
    return {
        item.policy: (
            item.act,
            item.conditions,
            documents[item.policy],
            [(s.shape, s.replicas, s.retiring, s.victims) for s in item.shapes],
            item.pushed_out,
        )
        for item in plan.items
    }


@examples(500, quick=10)
@given(objects=clusters())
def test_a_dry_run_and_the_operator_agree_on_what_is_there_and_on_the_plan(objects: list[Json]) -> None:
    operators, carried_out = by_the_operator(deepcopy(objects))
    listed, live = by_lists(objects)
    assert listed == operators
    assert told(live) == told(carried_out)
    read, shown = by_a_file(objects)
    assert read == operators
    # A file need not have every PriorityClass: one that is not in it is no mistake there. Such a policy is planned for
    # as if the class were like ours, so that policies beside it may be planned for in another way than without it.
    used = {item["spec"].get("priorityClassName") for item in objects if item["kind"] == "SlackPolicy"}
    if "absent" in used:
        there = {**priority_class(), "metadata": {"name": "absent", "uid": "uid-absent"}}
        _, carried_out = by_the_operator([*deepcopy(objects), there])
    assert told(shown) == told(carried_out)


@pytest.mark.parametrize("name", [*CLASSES, "absent"])
def test_a_policy_is_not_acted_upon_where_its_priority_class_will_not_do(name: str) -> None:
    metadata = {"name": "web", "uid": "uid-web", "generation": 1, "creationTimestamp": "2027-01-10T07:00:00Z"}
    kind = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy"}
    policy = {**kind, "metadata": metadata, "spec": {"priorityClassName": name}}
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": other, "uid": f"uid-{other}"}, **CLASSES[other]}
        for other in CLASSES
    ]
    objects = [node("n"), pod("p", node="n"), *classes, policy]
    for _, found in (by_the_operator(deepcopy(objects)), by_lists(objects)):
        (item,) = found.items
        assert (item.act, item.feasible) == (name == "good", name == "good")
        assert (item.condition(ConditionType.READY).reason == "BadPriorityClass") is (name != "good")
