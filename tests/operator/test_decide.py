"""The diff of a plan against what is there, case by case."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from slack.cluster import wire
from slack.planner.manifests import replica_set, replica_set_name
from slack.planner.outcome import Change, PolicyPlan, ShapePlan
from slack.planner.shape import Role, Shape
from slack_operator.adopt import existing_shape, existing_shapes
from slack_operator.decide import Apply, DeletePod, DeleteSet, Present, SetCost, decide, digest, orphans, stamped

SHAPE = Shape(requests=(("cpu", 1000), ("memory", 1 << 30)))
NAME = replica_set_name("web", SHAPE)
OWNER = {"apiVersion": "v1", "kind": "SlackPolicy", "name": "web", "uid": "u", "controller": True}
NOW = 100.0


def shape_plan(replicas: int, count: int | None = None, victims: tuple[str, ...] = ()) -> ShapePlan:
    count = replicas if count is None else count
    return ShapePlan(SHAPE, Role.COVER, count, replicas, (), Change(0, 0, 0), 0, 0, victims=victims)


def policy_plan(*shapes: ShapePlan, act: bool = True, pushed_out: tuple[str, ...] = ()) -> PolicyPlan:
    zero = np.zeros(2, dtype=np.int64)
    return PolicyPlan(
        policy="web",
        resources=("cpu", "memory"),
        nodes=1,
        rate=0.1,
        base=zero,
        desired=zero,
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


def there(replicas: int, *, uid: str = "u", status: int | None = None, kind: str = "SlackPolicy") -> wire.ReplicaSet:
    item = stamped(manifest(shape_plan(replicas)))
    item["metadata"] |= {"uid": "rs", "ownerReferences": [{**OWNER, "uid": uid, "kind": kind}] if uid else []}
    item["status"] = {"replicas": replicas if status is None else status}
    return msgspec.json.decode(json.dumps(item).encode(), type=wire.ReplicaSet)


def placeholder(name: str, node: str | None = "n1", cost: int | None = None) -> wire.Pod:
    annotations = {} if cost is None else {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    metadata = wire.Metadata(
        name=name,
        uid=f"uid-{name}",
        labels={"resource-slack.io/policy": "web"},
        annotations=annotations,
        owner_references=[wire.OwnerReference(kind="ReplicaSet", name=NAME, uid="rs", controller=True)],
    )
    return wire.Pod(metadata=metadata, spec=wire.PodSpec(node_name=node))


def present(found: wire.ReplicaSet | None = None, *pods: wire.Pod) -> Present:
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
            [DeletePod("a", "uid-a")],
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


def test_marks_that_never_show_do_not_hold_the_shrink_up_for_good() -> None:
    plan = policy_plan(shape_plan(1, victims=("c", "a")))
    pods = [placeholder("a"), placeholder("b"), placeholder("c")]
    assert decided(plan, present(there(3), *pods), {NAME: NOW - 5}) == [(3, 1)]


def test_another_image_is_applied_without_touching_the_count() -> None:
    found = there(2)
    assert found.metadata.annotations is not None
    found.metadata.annotations["resource-slack.io/applied"] = "of an older version"
    assert decided(policy_plan(shape_plan(2)), present(found)) == [(2, 2)]


def drifted(replicas: int, cpu: str | None = "10m", priority_class: str = "resource-slack") -> wire.ReplicaSet:
    found = there(replicas)
    assert found.spec is not None
    requests: wire.Quantities = {"memory": "1Gi"}
    if cpu is not None:
        requests["cpu"] = cpu
    container = wire.Container(resources=msgspec.Raw(msgspec.json.encode({"requests": requests})))
    spec = wire.PodSpec(containers=[container], priority_class_name=priority_class)
    found.spec.template = wire.PodTemplate(spec=spec)
    return found


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(drifted(2), id="other requests"),
        pytest.param(drifted(2, cpu=None), id="a request is gone"),
        pytest.param(drifted(2, cpu="what"), id="requests that cannot be read"),
        pytest.param(drifted(2, cpu="1", priority_class="high"), id="another priority class"),
    ],
)
def test_a_template_that_somebody_changed_is_applied_again_by_force_and_keeps_the_count(
    found: wire.ReplicaSet,
) -> None:
    for planned in (1, 2, 3):
        made = decide(
            policy_plan(shape_plan(planned)),
            present(found),
            owner_uid="u",
            manifest=manifest,
            marked_since={},
            now=NOW,
        )
        (again,) = [a for a in made if isinstance(a, Apply) and a.force]
        assert (again.before, again.after, again.manifest["spec"]["replicas"]) == (2, 2, 2)
        assert made[0] == again
        assert [(a.before, a.after) for a in made[1:] if isinstance(a, Apply)] == [(2, planned)] * (planned != 2)


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        pytest.param(policy_plan(shape_plan(2)), drifted(2, cpu="1000m"), id="the same, written otherwise"),
        pytest.param(policy_plan(shape_plan(2), act=False), drifted(2), id="may not act"),
    ],
)
def test_a_template_that_requests_the_same_is_left_alone(plan: PolicyPlan, found: wire.ReplicaSet) -> None:
    assert decided(plan, present(found)) == []


def test_a_changed_template_does_not_keep_a_retired_set_alive() -> None:
    assert decided(policy_plan(shape_plan(0)), present(drifted(0))) == [DeleteSet(NAME, "rs", "retired")]


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
def test_orphans_are_what_nobody_else_takes_away(found: wire.ReplicaSet, policies: dict[str, str], gone: bool) -> None:
    assert bool(orphans(present(found), policies)) is gone


def test_a_shape_is_read_back_from_its_replica_set() -> None:
    found = existing_shape(there(3))
    assert found is not None
    assert (found.policy, found.shape, found.role, found.replicas, found.retiring) == (
        "web",
        SHAPE,
        Role.COVER,
        3,
        False,
    )


def test_only_our_own_policies_shapes_are_adopted() -> None:
    assert existing_shapes({NAME: there(1, uid="other")}, {"web": "u"}) == ()
    assert [e.replicas for e in existing_shapes({NAME: there(1)}, {"web": "u"})] == [1]
