"""What is done about each buffer: references, live pods, defaults, and bounds that all buffers share."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slack.capacity_buffers.api import BufferReason, CapacityBuffer, ScaledTarget
from slack.capacity_buffers.ceiling import BufferCeiling
from slack.capacity_buffers.plan import (
    MOST_CHUNKS,
    MOST_OF_NAMESPACE,
    BufferInputs,
    BufferPlan,
    Unresolved,
    plan_buffers,
)
from slack.cluster import wire
from slack.cluster.labels import HOSTNAME, KARPENTER_NODE_POOL, ZONE
from slack.cluster.snapshot import Snapshot
from tests.capacity_buffers.scenes import buffer, inputs, pod_spec, quota, template
from tests.cases import run_for_each
from tests.cluster.build import columns_of, node, pod
from tests.planner.scenes import snapshot_of

CHUNK: dict[str, Any] = {"podTemplateRef": {"name": "chunk"}}
WEB: dict[str, Any] = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
NODES = [node("n1", cpu="8", memory="32Gi")]
NEWEST = "2027-01-15T07:59:00Z"


def _plan(own: CapacityBuffer, found: BufferInputs, snapshot: Snapshot | None = None) -> BufferPlan:
    (plan,) = plan_buffers(snapshot or snapshot_of(*NODES), [own], found)
    return plan


def _live(*pods: Any) -> Snapshot:
    columns = columns_of(*NODES, *pods)
    columns.dates_pods = True
    return columns.snapshot(1_800_000_000.0)


def _web(name: str, cpu: str, created: str, **fields: Any) -> Any:
    labels = {"pod-template-hash": "1", "app": "web"}
    return pod(name, cpu=cpu, owner=("ReplicaSet", "web-1"), labels=labels, created=created, node="n1", **fields)


def test_a_template_gives_chunks_and_says_its_name_and_generation() -> None:
    plan = _plan(buffer(**CHUNK, replicas=3), inputs([template(generation=7)]))

    assert (plan.problem, plan.asked, plan.replicas, plan.limits) == (None, 3, 3, ())
    assert (plan.template, plan.template_generation) == ("chunk", 7)
    assert plan.shape is not None
    assert plan.shape.requests == (("cpu", 500), ("memory", 1 << 30))
    assert plan.shape.unbound_scheduler
    assert plan.shape.reserved_for == ""


def test_an_edited_template_with_equal_requests_is_the_same_shape() -> None:
    first, second = (
        _plan(buffer(**CHUNK, replicas=1), inputs([template(generation=number, priorityClassName=name)])).shape
        for number, name in ((1, "a"), (2, "b"))
    )

    assert first == second


def test_a_reference_that_is_missing_waits_and_then_is_a_problem() -> None:
    gone = {"shop/cb": Unresolved(BufferReason.SCALABLE_REF_NOT_FOUND, "there is no Deployment web")}
    for spec, reason in ((CHUNK, BufferReason.POD_TEMPLATE_NOT_FOUND), (WEB, BufferReason.SCALABLE_REF_NOT_FOUND)):
        own = buffer(**spec, replicas=1)
        assert _plan(own, inputs(targets=gone, missing_seconds=9.9)).is_waiting
        late = _plan(own, inputs(targets=gone, missing_seconds=10.0))
        assert not late.is_waiting
        assert late.problem is not None
        assert late.problem.reason is reason
        assert late.replicas == 0


def test_a_target_that_nobody_has_asked_for_yet_is_waited_for_however_long() -> None:
    assert _plan(buffer(**WEB, replicas=1), inputs(missing_seconds=1e6)).is_waiting


def test_what_gives_no_chunk_or_no_size_is_a_problem_at_once() -> None:
    cases: list[tuple[CapacityBuffer, BufferInputs, str]] = [
        (buffer(replicas=1), inputs(), "neither spec.podTemplateRef nor spec.scalableRef"),
        (buffer(**CHUNK, limits={"nvidia.com/gpu": "1"}), inputs([template()]), "a chunk requests none of these"),
        (buffer(**WEB), inputs(targets={"shop/cb": ScaledTarget(3, pod_spec())}), "none of spec.replicas"),
        (buffer(**CHUNK, replicas=1), inputs([template(cpu="x")]), "the pods cannot be read"),
        (buffer(**WEB, replicas=1), inputs(targets={"shop/cb": ScaledTarget(3)}), "no live pod"),
        (
            buffer(**WEB, replicas=1),
            inputs(targets={"shop/cb": Unresolved(BufferReason.RESOLUTION_FAILED, "this kind is not listed")}),
            "not listed",
        ),
    ]
    for own, found, text in cases:
        plan = _plan(own, found)
        assert plan.problem is not None, text
        assert plan.problem.reason is BufferReason.RESOLUTION_FAILED, text
        assert text in plan.problem.message


def test_a_workload_without_pods_is_as_its_template_is_with_the_defaults_of_its_namespace() -> None:
    item = {"type": "Container", "defaultRequest": {"cpu": "250m", "memory": "2Gi"}}
    ranges = [msgspec.convert({"metadata": {"name": "r"}, "spec": {"limits": [item]}}, wire.LimitRange)]
    raw = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}
    spec = msgspec.json.decode(msgspec.json.encode(raw), type=wire.PodSpec)

    plan = _plan(buffer(**WEB, percentage=50), inputs(targets={"shop/cb": ScaledTarget(5, spec)}, ranges=ranges))

    assert plan.replicas == 3
    assert plan.chunk is not None
    assert plan.chunk.requests == {"cpu": 1000, "memory": 2 << 30}


def test_the_newest_live_pod_decides_over_the_template() -> None:
    target = ScaledTarget(10, pod_spec(cpu="100m"), {"app": "web"})
    snapshot = _live(
        _web("a", "400m", "2027-01-15T07:00:00Z"),
        _web("b", "400m", "2027-01-15T07:01:00Z"),
        _web("c", "700m", NEWEST),
    )

    plan = _plan(buffer(**WEB, percentage=20, limits={"cpu": "1"}), inputs(targets={"shop/cb": target}), snapshot)

    assert plan.chunk is not None
    assert plan.chunk.is_live
    assert plan.chunk.requests["cpu"] == 700
    assert plan.asked == 1  # 20 % of 10 are 2, of which one is within 1 core


def test_a_percentage_is_of_the_pods_that_are_there_and_without_a_live_one_of_those_asked_for() -> None:
    target = ScaledTarget(6, pod_spec(), {"app": "web"}, observed=2)
    found = inputs(targets={"shop/cb": target})

    assert _plan(buffer(**WEB, percentage=100), found).asked == 6
    assert _plan(buffer(**WEB, percentage=100), found, _live(_web("a", "400m", NEWEST))).asked == 2


def test_pods_that_avoid_one_another_have_chunks_that_avoid_them_and_one_another() -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    target = ScaledTarget(2, pod_spec(affinity=affinity), {"app": "web"})

    plan = _plan(buffer(**WEB, replicas=2), inputs(targets={"shop/cb": target}))

    assert plan.shape is not None
    assert plan.shape.reserved_for == "shop/deploy/web"
    assert plan.shape.anti_affinity.count(HOSTNAME) == 2


ZONED = [node(f"n{i}", cpu="8", memory="32Gi", labels={ZONE: f"z{i % 3}"}) for i in range(3)]
OVER_ZONES: dict[str, Any] = {
    "topologyKey": ZONE,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def test_chunks_that_must_spread_over_zones_are_divided_where_the_next_pods_go() -> None:
    target = ScaledTarget(2, pod_spec(topologySpreadConstraints=[OVER_ZONES]), {"app": "web"})
    live = [_web(name, "500m", NEWEST, topologySpreadConstraints=[OVER_ZONES]) for name in ("a", "b")]
    columns = columns_of(*ZONED, *live)
    columns.dates_pods = True
    columns.require_labels([ZONE])

    plan = _plan(buffer(**WEB, replicas=4), inputs(targets={"shop/cb": target}), columns.snapshot(1_800_000_000.0))

    zones = {dict(shape.node_selector)[ZONE]: count for shape, count in plan.parts}
    assert zones == {"z0": 2, "z2": 2}, "two pods are in z1"
    assert {shape.topology_spread for shape, _ in plan.parts} == {""}


def test_chunks_stay_in_the_zones_where_they_are() -> None:
    target = ScaledTarget(2, pod_spec(topologySpreadConstraints=[OVER_ZONES]), {"app": "web"})
    found = inputs(targets={"shop/cb": target}, standing=lambda _, shape: dict(shape.node_selector)[ZONE] == "z2")

    plan = _plan(buffer(**WEB, replicas=1), found, snapshot_of(*ZONED))

    assert [dict(shape.node_selector)[ZONE] for shape, _ in plan.parts] == ["z2"]


@run_for_each(
    ("pods", "made_by_karpenter", "refused"),
    [
        ({"nodeSelector": {HOSTNAME: "n1"}}, True, True),
        ({"nodeSelector": {HOSTNAME: "n1"}}, False, False),
        ({"nodeSelector": {"pool": "a"}}, True, False),
    ],
)
def test_karpenter_keeps_no_node_for_pods_that_name_a_host(pods: Any, made_by_karpenter: bool, refused: bool) -> None:
    labels = {KARPENTER_NODE_POOL: "default"} if made_by_karpenter else {}
    snapshot = snapshot_of(node("n1", cpu="8", memory="32Gi", labels=labels), labels=(KARPENTER_NODE_POOL,))

    plan = _plan(buffer(**CHUNK, replicas=2), inputs([template(**pods)]), snapshot)

    assert plan.replicas == (0 if refused else 2)
    if refused:
        assert plan.problem is not None
        assert "requires kubernetes.io/hostname: Karpenter brings no node" in plan.problem.message


def test_buffers_share_quotas_by_age_and_then_by_name() -> None:
    found = inputs([template()], quotas=[quota({"requests.cpu": "3"}, {"requests.cpu": "500m"})])
    buffers = [
        buffer("young", **CHUNK, replicas=4),
        buffer("b", age=50, **CHUNK, replicas=3),
        buffer("a", age=50, **CHUNK, replicas=1),
    ]

    plans = plan_buffers(snapshot_of(*NODES), buffers, found)

    assert [(p.buffer.metadata.name, p.replicas) for p in plans] == [("a", 1), ("b", 3), ("young", 1)]
    assert [p.limits for p in plans] == [(), (), ("quotas: q",)]


def test_the_default_priority_class_counts_for_a_quota_of_classes() -> None:
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": ["usual"]}
    quotas = [quota({"pods": "1"}, scopeSelector={"matchExpressions": [selector]})]

    assert _plan(buffer(**CHUNK, replicas=3), inputs([template()], quotas=quotas)).replicas == 3
    assert _plan(buffer(**CHUNK, replicas=3), inputs([template()], quotas=quotas, default_class="usual")).replicas == 1


def test_a_namespace_without_a_pod_left_gets_no_chunk() -> None:
    plan = _plan(buffer(**CHUNK, replicas=3), inputs([template()], quotas=[quota({"pods": "5"}, {"pods": "5"})]))

    assert (plan.replicas, plan.limits) == (0, ("quotas: q",))


def test_the_overhead_of_a_runtime_class_counts_but_is_not_asked_for_a_second_time() -> None:
    own = template(runtimeClassName="kata", overhead={"cpu": "250m"})  # admission has written it into a copied spec
    found = inputs([own], quotas=[quota({"cpu": "4500m"})], overhead_of={"kata": {"cpu": "250m"}}.get)
    plan = _plan(buffer(**CHUNK, replicas=9), found)
    assert (plan.replicas, plan.limits) == (6, ("quotas: q",))
    assert plan.shape is not None
    assert (dict(plan.shape.requests)["cpu"], plan.shape.runtime_class) == (500, "kata")
    assert _plan(buffer(**CHUNK, limits={"cpu": "3"}), found).asked == 4
    assert _plan(buffer(**CHUNK, replicas=1), inputs([own], overhead_of=lambda _: None)).is_waiting
    gone = Unresolved(BufferReason.RESOLUTION_FAILED, "there is no RuntimeClass kata")
    assert _plan(buffer(**CHUNK, replicas=1), inputs([own], overhead_of=lambda _: gone)).problem == gone


def test_a_template_that_a_limit_range_refuses_gives_no_chunk() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}
    ranges = [msgspec.convert({"metadata": {"name": "small"}, "spec": {"limits": [item]}}, wire.LimitRange)]
    plan = _plan(buffer(**CHUNK, replicas=1), inputs([template(cpu="3")], ranges=ranges))
    assert plan.problem == Unresolved(BufferReason.RESOLUTION_FAILED, "a LimitRange admits no such pod: small")
    assert _plan(buffer(**CHUNK, replicas=1), inputs([template(cpu="1")], ranges=ranges)).replicas == 1


def test_one_namespace_gets_so_many_chunks_at_most() -> None:
    buffers = [buffer(f"b{number}", age=-number, **CHUNK, replicas=MOST_CHUNKS) for number in range(7)]
    other = buffer("other", "side", age=-9, **CHUNK, replicas=3)
    found = inputs([template(), template(namespace="side")])
    plans = plan_buffers(snapshot_of(*NODES), [*buffers, other], found)
    assert [plan.replicas for plan in plans] == [*[MOST_CHUNKS] * 5, 0, 0, 3]
    assert plans[5].limits == (f"resource-slack: {MOST_OF_NAMESPACE} chunks a namespace at most",)


def test_the_ceiling_and_our_own_bound_cut_and_say_so() -> None:
    cut = _plan(buffer(**CHUNK, replicas=9), inputs([template()], ceiling=BufferCeiling(cpu=2000)))
    assert (cut.asked, cut.replicas, cut.limits) == (9, 4, ("capacityBuffers.ceiling: cpu",))

    many = _plan(buffer(**CHUNK, replicas=2_000_000_000), inputs([template()]))
    assert (many.replicas, many.limits) == (MOST_CHUNKS, (f"resource-slack: {MOST_CHUNKS} chunks a buffer at most",))


BUFFERS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12
)


@given(drawn=BUFFERS, cpu=st.integers(0, 30), used=st.integers(0, 20), pods=st.integers(0, 25), share=st.floats(0, 1))
def test_no_tenant_gets_more_than_its_quota_the_ceiling_and_its_share(
    drawn: list[tuple[str, int, int, int]], cpu: int, used: int, pods: int, share: float
) -> None:
    sizes = (1, 2, 3, 4)
    templates = [template(f"t{n}", namespace, cpu=str(n)) for namespace in "abc" for n in sizes]
    quotas = [
        quota({"requests.cpu": "20", "pods": str(pods)}, {"requests.cpu": str(used)}, namespace) for namespace in "ab"
    ]
    buffers = [
        buffer(f"cb{i}", namespace, age, podTemplateRef={"name": f"t{size}"}, replicas=count)
        for i, (namespace, count, size, age) in enumerate(drawn)
    ]
    ceiling = BufferCeiling(cpu=cpu * 1000, namespace_share=share)

    plans = plan_buffers(snapshot_of(*NODES), buffers, inputs(templates, quotas=quotas, ceiling=ceiling))

    held = {
        namespace: sum(
            plan.replicas * int((plan.template or "t0")[1:]) for plan in plans if plan.buffer.namespace == namespace
        )
        for namespace in "abc"
    }
    assert sum(held.values()) <= cpu
    for namespace, cores in held.items():
        assert cores <= cpu * share + 1e-6
        if namespace in "ab":
            assert cores <= max(20 - used, 0)
            assert sum(p.replicas for p in plans if p.buffer.namespace == namespace) <= pods
    for plan in plans:
        assert plan.replicas <= plan.asked
        assert bool(plan.limits) == (plan.replicas < plan.asked)
