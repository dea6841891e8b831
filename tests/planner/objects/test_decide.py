"""The diff of a plan against what is there, case by case."""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from slack.cluster import wire
from slack.cluster.labels import LABEL_SHAPE
from slack.planner.model.result import PolicyPlan, ShapeChange, ShapePlan
from slack.planner.model.shape import Role, Shape
from slack.planner.objects import decide as decisions
from slack.planner.objects import manifests
from slack.planner.objects.actions import Action, Apply, DeletePod, DeleteSet, Present, SetCost, Stop, Taken
from slack.planner.objects.adoption import existing_shape, existing_shapes
from slack.planner.objects.decide import decide, decided_by, digest, orphans, stamped
from slack.planner.objects.drift import OwnedField
from slack.planner.objects.manifests import replica_set, replica_set_name
from slack.planner.policy.placeholders import Placeholders
from slack.planner.removal.reasons import RemovalReason

SHAPE = Shape(requests=(("cpu", 1000), ("memory", 1 << 30)))
NAME = replica_set_name("web", SHAPE)
OWNER = {"apiVersion": "v1", "kind": "SlackPolicy", "name": "web", "uid": "u", "controller": True}
NOW = 100.0


def shape_plan(replicas: int, count: int | None = None, victims: tuple[str, ...] = ()) -> ShapePlan:
    count = replicas if count is None else count
    return ShapePlan(SHAPE, Role.COVER, count, replicas, (), ShapeChange(0, 0, 0), 0, 0, victims=victims)


def policy_plan(*shapes: ShapePlan, act: bool = True, pushed_out: tuple[str, ...] = ()) -> PolicyPlan:
    zero = np.zeros(2, dtype=np.int64)
    return PolicyPlan(
        policy="web",
        resources=("cpu", "memory"),
        nodes=1,
        rate=0.1,
        base=zero,
        desired=zero,
        asked=zero,
        planned=zero,
        reserved=zero,
        shapes=shapes,
        pushed_out=pushed_out,
        uncovered=(),
        conditions=(),
        covered_share=1.0,
        covered_by={},
        dry_run=False,
        act=act,
        burst_chunks=0,
        sustained_chunks_per_minute=0.0,
    )


def manifest(shape: ShapePlan) -> dict[str, Any]:
    return replica_set("web", shape.shape, shape.role, shape.replicas, namespace="slack", owner=OWNER, image="pause")


def item_there(
    replicas: int, *, uid: str = "u", status: int | None = None, kind: str = "SlackPolicy"
) -> dict[str, Any]:
    item = stamped(manifest(shape_plan(replicas)))
    item["metadata"] |= {"uid": "rs", "ownerReferences": [{**OWNER, "uid": uid, "kind": kind}] if uid else []}
    item["status"] = {"replicas": replicas if status is None else status}
    copied: dict[str, Any] = json.loads(json.dumps(item))
    return copied


def read(item: dict[str, Any]) -> wire.OwnReplicaSet:
    return msgspec.json.decode(json.dumps(item).encode(), type=wire.OwnReplicaSet)


def there(replicas: int, *, uid: str = "u", status: int | None = None, kind: str = "SlackPolicy") -> wire.OwnReplicaSet:
    return read(item_there(replicas, uid=uid, status=status, kind=kind))


def held_by(manager: str, fields: dict[str, Any], subresource: str = "") -> list[dict[str, Any]]:
    """managedFields with one other writer."""
    entry = {"manager": manager, "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}
    ours = {"manager": "resource-slack", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return [ours, entry | ({"subresource": subresource} if subresource else {})]


def placeholder(name: str, node: str | None = "n1", cost: int | None = None) -> wire.Pod:
    annotations = {} if cost is None else {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    metadata = wire.Metadata(
        name=name,
        uid=f"uid-{name}",
        labels={"resource-slack.io/policy": "web", LABEL_SHAPE: SHAPE.name},
        annotations=annotations,
        owner_references=[wire.OwnerReference(kind="ReplicaSet", name=NAME, uid="rs", controller=True)],
    )
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    container = wire.Container(resources=msgspec.Raw(msgspec.json.encode(resources)))
    spec = wire.PodSpec(node_name=node, containers=[container], priority_class_name="resource-slack")
    return wire.Pod(metadata=metadata, spec=spec)


def present(found: wire.OwnReplicaSet | None = None, *pods: wire.Pod) -> Present:
    return Present({} if found is None else {found.metadata.name: found}, {pod.metadata.name: pod for pod in pods})


def decided(plan: PolicyPlan, now_there: Present, marked: dict[str, float] | None = None) -> list[object]:
    found = decide(plan, now_there, owner_uid="u", manifest=manifest, marked_since=marked or {}, now=NOW)
    return [(a.before, a.after) if isinstance(a, Apply) else a for a in found]


@pytest.mark.parametrize(
    ("plan", "now_there", "expected"),
    [
        pytest.param(policy_plan(shape_plan(2)), present(), [(None, 2)], id="new"),
        pytest.param(policy_plan(shape_plan(0, 3)), present(), [], id="new but held back"),
        pytest.param(policy_plan(shape_plan(2)), present(there(2)), [], id="as planned"),
        pytest.param(policy_plan(shape_plan(3)), present(there(2)), [(2, 3)], id="raise"),
        pytest.param(policy_plan(replace(shape_plan(9), at_first=1)), present(), [(None, 1)], id="the first one alone"),
        pytest.param(policy_plan(replace(shape_plan(9), at_first=0)), present(), [], id="others wait for the first"),
        pytest.param(policy_plan(replace(shape_plan(9), at_first=1)), present(there(1)), [], id="the first one comes"),
        pytest.param(policy_plan(shape_plan(3), act=False), present(there(2)), [], id="may not act"),
        pytest.param(policy_plan(shape_plan(3)), present(there(2, uid="other")), [], id="another owner's"),
        pytest.param(
            policy_plan(shape_plan(1)),
            present(there(2), placeholder("a"), placeholder("b", node=None)),
            [(2, 1)],
            id="the pending one goes by itself",
        ),
        pytest.param(
            policy_plan(shape_plan(0)), present(there(0), placeholder("a")), [], id="retired, its pod is still there"
        ),
        pytest.param(policy_plan(shape_plan(0)), present(there(0, status=1)), [], id="retired, not counted down yet"),
        pytest.param(
            policy_plan(shape_plan(0)), present(there(0)), [DeleteSet(NAME, "rs", "retired")], id="retired and empty"
        ),
        pytest.param(policy_plan(shape_plan(0, 3)), present(there(0)), [], id="held back to nothing, not retired"),
        pytest.param(
            policy_plan(shape_plan(1)),
            present(there(1), placeholder("a", cost=-1000)),
            [SetCost("a", NAME, None)],
            id="a left-over cost goes",
        ),
        pytest.param(
            policy_plan(shape_plan(1)),
            present(there(1), placeholder("a", cost=-1000), placeholder("b")),
            [],
            id="a cost stays until the controller has taken the pod",
        ),
        pytest.param(
            policy_plan(shape_plan(1), pushed_out=("a", "gone")),
            present(there(1), placeholder("a")),
            [DeletePod("a", "uid-a", RemovalReason.PUSHED_OUT)],
            id="pushed out",
        ),
    ],
)
def test_the_difference_is_written_and_nothing_else(
    plan: PolicyPlan, now_there: Present, expected: list[object]
) -> None:
    assert decided(plan, now_there) == expected


def test_victims_are_marked_before_the_count_is_lowered() -> None:
    plan = policy_plan(shape_plan(1, victims=("c", "a")))
    pods = [placeholder("a"), placeholder("b"), placeholder("c")]
    marks = [SetCost("c", NAME, -1000), SetCost("a", NAME, -999)]
    assert decided(plan, present(there(3), *pods)) == marks
    assert decided(plan, present(there(3), *pods), {NAME: NOW - 1}) == marks
    shown = [placeholder("a", cost=-999), placeholder("b"), placeholder("c", cost=-1000)]
    assert decided(plan, present(there(3), *shown), {NAME: NOW - 1}) == [(3, 1)]


def test_what_is_pushed_out_goes_first_needs_no_mark_and_is_not_refilled() -> None:
    pods = [placeholder(name) for name in "abcd"]
    plan = policy_plan(shape_plan(2, victims=("a", "c")), pushed_out=("a", "b"))
    assert decided(plan, present(there(4), *pods)) == [
        DeletePod("a", "uid-a", RemovalReason.PUSHED_OUT),
        DeletePod("b", "uid-b", RemovalReason.PUSHED_OUT),
        (4, 2),
    ]


def test_marks_that_never_show_do_not_hold_the_shrink_up_for_good() -> None:
    plan = policy_plan(shape_plan(1, victims=("c", "a")))
    pods = [placeholder("a"), placeholder("b"), placeholder("c")]
    assert decided(plan, present(there(3), *pods), {NAME: NOW - 5}) == [(3, 1)]


def test_another_image_is_applied_without_touching_the_count() -> None:
    found = there(2)
    assert found.metadata.annotations is not None
    found.metadata.annotations["resource-slack.io/applied"] = "of an older version"
    assert decided(policy_plan(shape_plan(2)), present(found)) == [(2, 2)]


def writes(plan: PolicyPlan, now_there: Present, held: dict[str, frozenset[OwnedField]] | None = None) -> list[Action]:
    return list(decide(plan, now_there, owner_uid="u", manifest=manifest, marked_since={}, now=NOW, held=held or {}))


def changed(replicas: int, change: Callable[[dict[str, Any]], None]) -> wire.OwnReplicaSet:
    """A ReplicaSet of ours as somebody has left it."""
    item = item_there(replicas)
    change(item)
    return read(item)


def template(item: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


CHANGES = {
    "other requests": lambda i: template(i)["containers"][0]["resources"]["requests"].update(cpu="10m"),
    "a request is gone": lambda i: template(i)["containers"][0]["resources"]["requests"].pop("cpu"),
    "a request too many": lambda i: template(i)["containers"][0]["resources"]["requests"].update({"x.io/y": "1"}),
    "requests that cannot be read": lambda i: template(i)["containers"][0]["resources"]["requests"].update(cpu="what"),
    "another priority class": lambda i: template(i).update(priorityClassName="high"),
    "another image": lambda i: template(i)["containers"][0].update(image="miner"),
    "another container": lambda i: template(i)["containers"].append({"name": "more", "image": "more"}),
    "a node selector": lambda i: template(i).update(nodeSelector={"pool": "gpu"}),
    "a toleration more": lambda i: template(i)["tolerations"].append({"operator": "Exists"}),
    "a grace period": lambda i: template(i).update(terminationGracePeriodSeconds=30),
    "an annotation of its pods": lambda i: i["spec"]["template"]["metadata"]["annotations"].update(
        {"karpenter.sh/do-not-disrupt": "true"}
    ),
    "no label": lambda i: i["metadata"].update(labels={}),
    "another policy's label": lambda i: i["metadata"]["labels"].update({"resource-slack.io/policy": "other"}),
    "no owner": lambda i: i["metadata"].update(ownerReferences=[]),
    "no role": lambda i: i["metadata"]["annotations"].pop("resource-slack.io/role"),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
@pytest.mark.parametrize("planned", [1, 2, 3])
def test_whatever_somebody_changes_is_written_again_with_the_count_that_is_planned(
    change: Callable[[dict[str, Any]], None], planned: int
) -> None:
    (again,) = writes(policy_plan(shape_plan(planned)), present(changed(2, change)))
    assert isinstance(again, Apply)
    assert (again.before, again.after) == (2, planned)
    assert again.manifest == stamped(manifest(shape_plan(planned)))
    assert again.taken


ADDITIONS = {
    "a request too many": {"containers": template(item_there(2))["containers"]},
    "another container": {"containers": template(item_there(2))["containers"]},
    "a node selector": {"nodeSelector": None},
    "a toleration more": {"tolerations": template(item_there(2))["tolerations"]},
}


@pytest.mark.parametrize("name", ADDITIONS)
def test_what_somebody_adds_to_a_template_is_taken_away_by_a_patch_for_an_apply_leaves_it(name: str) -> None:
    (again,) = writes(policy_plan(shape_plan(2)), present(changed(2, CHANGES[name])))
    assert isinstance(again, Apply)
    assert (again.patch, again.uid) == ({"spec": {"template": {"spec": ADDITIONS[name]}}}, "rs")


def test_a_template_as_the_api_server_fills_it_in_is_left_alone() -> None:
    def fill_in(item: dict[str, Any]) -> None:
        item["spec"]["template"]["metadata"]["creationTimestamp"] = None
        template(item)["dnsPolicy"] = "ClusterFirst"
        template(item)["containers"][0] |= {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        template(item)["containers"][0]["resources"]["requests"]["cpu"] = "1000m"
        item["metadata"]["annotations"]["somebody's"] = "note"
        item["metadata"]["labels"]["argocd.argoproj.io/instance"] = "cluster"

    assert writes(policy_plan(shape_plan(2)), present(changed(2, fill_in))) == []


def test_a_policy_that_may_not_act_takes_nothing_back() -> None:
    found = changed(2, CHANGES["other requests"])
    assert writes(policy_plan(shape_plan(2), act=False), present(found)) == []


def test_a_changed_template_does_not_keep_a_retired_set_alive() -> None:
    found = changed(0, CHANGES["other requests"])
    assert writes(policy_plan(shape_plan(0)), present(found)) == [DeleteSet(NAME, "rs", "retired")]


def scaled(item: dict[str, Any]) -> None:
    item["spec"]["replicas"] = 500
    item["metadata"]["managedFields"] = held_by("kubectl", {"f:spec": {"f:replicas": {}}}, "scale")


def test_a_count_that_somebody_raises_is_lowered_at_once_and_the_pending_surplus_goes_before_any_mark() -> None:
    pods = [placeholder(f"old-{i}") for i in range(3)] + [placeholder(f"new-{i:03}", node=None) for i in range(40)]
    pods += [placeholder(f"room-{i}") for i in range(2)]
    plan = policy_plan(shape_plan(3, victims=("old-0", "old-1")))
    stop, lower, *rest = writes(plan, present(changed(4, scaled), *pods))
    assert stop == Stop("resource-slack")
    assert isinstance(lower, Apply)
    assert (lower.before, lower.after) == (500, 5)
    assert lower.taken == (Taken(OwnedField.REPLICAS, "kubectl (scale)"),)
    gone = [action.name for action in rest if isinstance(action, DeletePod)]
    assert sorted(gone) == [f"new-{i:03}" for i in range(40)]
    assert rest[len(gone) :] == [SetCost("room-1", NAME, -1000), SetCost("room-0", NAME, -999)], "the last that came"


def test_a_count_that_somebody_lowers_to_nothing_is_raised_at_once() -> None:
    def pause(item: dict[str, Any]) -> None:
        item["spec"]["replicas"] = 0
        item["metadata"]["managedFields"] = held_by("keda", {"f:spec": {"f:replicas": {}}})

    (more,) = writes(policy_plan(shape_plan(3)), present(changed(3, pause), placeholder("a")))
    assert isinstance(more, Apply)
    assert (more.before, more.after, more.taken) == (0, 3, (Taken(OwnedField.REPLICAS, "keda"),))


def test_pending_placeholders_that_are_still_there_when_the_count_is_right_are_deleted_the_newest_first() -> None:
    pods = [placeholder("a"), *(placeholder(f"p{i}", node=None) for i in range(3))]
    assert [
        a.name for a in writes(policy_plan(shape_plan(2)), present(there(2), *pods)) if isinstance(a, DeletePod)
    ] == [
        "p2",
        "p1",
    ]


def test_a_few_pending_ones_of_our_own_shrinking_are_the_controllers() -> None:
    pods = [placeholder("a"), *(placeholder(f"p{i}", node=None) for i in range(3))]
    assert decided(policy_plan(shape_plan(1)), present(there(4), *pods)) == [(4, 1)]


def test_what_another_controller_has_adopted_is_taken_back_with_its_owner() -> None:
    foreign = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs", "uid": "d", "controller": True}
    found = changed(2, lambda item: item["metadata"].update(ownerReferences=[{**OWNER, "controller": False}, foreign]))
    (back,) = writes(policy_plan(shape_plan(2)), present(found))
    assert isinstance(back, Apply)
    assert back.patch == {"metadata": {"ownerReferences": [OWNER]}}
    assert Taken(OwnedField.OWNER, "Deployment/theirs") in back.taken


def test_what_a_writer_is_left_is_written_as_it_is_found() -> None:
    def fight(item: dict[str, Any]) -> None:
        scaled(item)
        template(item)["priorityClassName"] = "high"

    found = changed(2, fight)
    pods = [placeholder(f"p{i}", node=None) for i in range(60)]
    held = {NAME: frozenset({OwnedField.REPLICAS})}
    (back,) = writes(policy_plan(shape_plan(2)), present(found, *pods), held)
    assert isinstance(back, Apply)
    assert (back.manifest["spec"]["replicas"], back.after) == (500, 500)
    assert back.manifest["spec"]["template"] == manifest(shape_plan(2))["spec"]["template"]
    held = {NAME: frozenset({OwnedField.TEMPLATE})}
    (_, lower, *_) = writes(policy_plan(shape_plan(2)), present(found, *pods), held)
    assert isinstance(lower, Apply)
    assert (lower.after, lower.manifest["spec"]["template"]) == (2, found.template)
    assert (
        writes(
            policy_plan(shape_plan(2)), present(found), {NAME: frozenset({OwnedField.REPLICAS, OwnedField.TEMPLATE})}
        )
        == []
    )


def otherwise(name: str, **of_spec: Any) -> wire.Pod:
    found = placeholder(name)
    assert found.spec is not None
    for field, value in of_spec.items():
        setattr(found.spec, field, value)
    return found


def test_placeholders_made_from_a_changed_template_are_replaced_and_what_admission_adds_is_no_reason() -> None:
    small = msgspec.Raw(b'{"requests": {"cpu": "10m", "memory": "1Gi"}}')
    sidecar = wire.Container(name=msgspec.Raw(b'"proxy"'), resources=msgspec.Raw(b'{"requests": {"cpu": "100m"}}'))
    more = placeholder("more")
    assert more.spec is not None
    more.spec.containers = [*(more.spec.containers or ()), sidecar]
    pods = [
        otherwise("less", containers=[wire.Container(resources=small)]),
        otherwise("higher", priority_class_name="high"),
        otherwise("elsewhere", scheduler_name="other"),
        more,
    ]
    found = writes(policy_plan(shape_plan(4)), present(there(4), *pods))
    assert [a.name for a in found if isinstance(a, DeletePod)] == ["elsewhere", "higher", "less"]
    assert writes(policy_plan(shape_plan(4)), present(there(4), *pods), {NAME: frozenset({OwnedField.PODS})}) == []


def orphan(name: str, **labels: str) -> wire.Pod:
    found = placeholder(name)
    found.metadata.owner_references = None
    found.metadata.labels = {**(found.metadata.labels or {}), **labels}
    return found


def test_a_placeholder_that_no_replica_set_will_take_in_is_deleted() -> None:
    adopted, stray = orphan("orphan"), orphan("stray", **{LABEL_SHAPE: "00000000"})
    found = writes(policy_plan(shape_plan(2)), present(None, adopted, stray))
    assert [a.name for a in found if isinstance(a, DeletePod)] == ["stray"]
    lost = orphan("lost", **{"resource-slack.io/policy": "gone"})
    assert [a.name for a in orphans(present(None, adopted, lost), {"web": "u"}) if isinstance(a, DeletePod)] == ["lost"]


def test_a_replica_set_whose_label_names_another_policy_is_no_orphan_while_its_owner_is_there() -> None:
    found = changed(2, CHANGES["another policy's label"])
    assert orphans(present(found), {"web": "u"}) == ()
    assert [e.policy for e in existing_shapes([found], {"web": "u"})] == ["web"]


def test_the_digest_knows_everything_but_the_count() -> None:
    two, three = manifest(shape_plan(2)), manifest(shape_plan(3))
    assert digest(two) == digest(three)
    assert digest(two) != digest({**two, "metadata": {**two["metadata"], "ownerReferences": []}})


@pytest.mark.parametrize(
    ("found", "policies", "gone"),
    [
        pytest.param(there(1), {"web": "u"}, False, id="its policy is there"),
        pytest.param(there(1), {"web": "new"}, False, id="of an earlier policy: the garbage collector's"),
        pytest.param(there(1), {"other": "x"}, True, id="of a policy that is no more"),
        pytest.param(there(1, uid=""), {"other": "x"}, True, id="nobody's"),
        pytest.param(there(1, uid=""), {"web": "u"}, False, id="nobody's, but the policy takes it in"),
        pytest.param(there(1, kind="PriorityClass"), {"other": "x"}, True, id="the built-in policy's"),
        pytest.param(
            there(1, kind="PriorityClass"), {"web": "u"}, False, id="the built-in policy's, which is in force"
        ),
    ],
)
def test_orphans_are_what_nobody_else_takes_away(
    found: wire.OwnReplicaSet, policies: dict[str, str], gone: bool
) -> None:
    assert bool(orphans(present(found), policies)) is gone


def test_a_shape_is_read_back_from_its_replica_set() -> None:
    found = existing_shape(there(3), "web")
    assert found is not None
    assert (found.policy, found.shape, found.role, found.replicas, found.retiring) == (
        "web",
        SHAPE,
        Role.COVER,
        3,
        False,
    )


def test_only_our_own_policies_shapes_are_adopted() -> None:
    assert existing_shapes([there(1, uid="other")], {"web": "u"}) == ()
    assert existing_shapes([there(1)], {"other": "u"}) == ()
    assert [e.replicas for e in existing_shapes([there(1)], {"web": "u"})] == [1]


def test_where_nobody_knows_the_owner_the_label_decides() -> None:
    assert [e.replicas for e in existing_shapes([there(1, uid="other")], {"web": None})] == [1]


def test_the_name_tells_the_shape_whatever_became_of_the_label() -> None:
    """It is what `decide` finds the ReplicaSet by; were it not read, all its placeholders would go at once."""
    edited = there(3)
    edited.metadata.labels = {**(edited.metadata.labels or {}), LABEL_SHAPE: "00000000"}
    assert existing_shape(edited, "web") == existing_shape(there(3), "web")


def test_victims_that_are_marked_stay_chosen_when_the_order_is_another_by_then() -> None:
    plan = policy_plan(shape_plan(2, victims=("a",)))
    shown = [placeholder("a"), placeholder("b"), placeholder("c", cost=-1000)]
    assert decided(plan, present(there(3), *shown), {NAME: NOW - 1}) == [(3, 2)]


def test_what_a_policy_gives_placeholders_goes_into_the_template_and_takes_no_placeholder_away() -> None:
    """Those that are there stay as they are; it is our own doing, so nothing was taken from anybody."""
    extras = Placeholders.model_validate(
        {
            "labels": {"team": "a"},
            "annotations": {"b": "c"},
            "limits": "Requests",
            "imagePullSecrets": [{"name": "corp"}],
        }
    )

    def given(shape: ShapePlan) -> dict[str, Any]:
        return replica_set("web", SHAPE, shape.role, shape.replicas, namespace="slack", owner=OWNER, extras=extras)

    def plain(shape: ShapePlan) -> dict[str, Any]:
        return replica_set("web", SHAPE, shape.role, shape.replicas, namespace="slack", owner=OWNER)

    def written(before: Callable[[ShapePlan], Any], after: Callable[[ShapePlan], Any]) -> tuple[Action, ...]:
        item = stamped(before(shape_plan(2)))
        item["metadata"] |= {"uid": "rs"}
        now_there = present(read(item), placeholder("a"), placeholder("b"))
        plan = policy_plan(shape_plan(2))
        return decide(plan, now_there, owner_uid="u", manifest=after, marked_since={}, now=NOW)

    for before, after in ((plain, given), (given, plain)):
        (write,) = written(before, after)
        assert isinstance(write, Apply)
        assert (write.name, write.before, write.after, write.taken) == (NAME, 2, 2, ())
        assert write.manifest["spec"]["template"] == after(shape_plan(2))["spec"]["template"]
        assert written(after, after) == ()


def test_what_decides_is_all_of_a_plan_that_decisions_are_made_from() -> None:
    class Noted:
        """Notes which fields of a value are read."""

        def __init__(self, value: Any) -> None:
            self.value, self.read = value, set[str]()

        def __getattr__(self, name: str) -> Any:
            self.read.add(name)
            return getattr(self.value, name)

    shape = Noted(shape_plan(1))
    whole: Any = Noted(policy_plan())
    whole.value = SimpleNamespace(policy="web", dry_run=False, act=True, pushed_out=(), shapes=(shape,))
    decided_by(whole)
    by_shape, by_plan = shape.read, whole.read
    source = inspect.getsource(decisions) + inspect.getsource(manifests)
    fields_of_shape = {field.name for field in fields(ShapePlan)} - by_shape
    assert {name for name in fields_of_shape if re.search(rf"\bshape\.{name}\b", source)} == set()
    fields_of_plan = {field.name for field in fields(PolicyPlan)} - by_plan
    assert {name for name in fields_of_plan if re.search(rf"\bplan\.{name}\b", source)} == set()
    assert fields_of_shape == {"workloads", "change", "bound", "pending"}
