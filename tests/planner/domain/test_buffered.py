"""`spec.capacityBuffers`: with Count the larger of buffers and policy is kept, never the sum; else they are beside."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slack.planner.domain.buffered import counted_chunks
from slack.planner.domain.membership import divided, node_view
from slack.planner.explain import explain, target
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.plan import plan
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, node, placeholder
from tests.planner.scenes import GI, plan_of, policy_of, replicas, snapshot_of

TOLD = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
NONE: Json = {"cover": {"mode": "None"}}


def chunks(count: int, cpu: str = "1", memory: str = "1Gi", buffer: str = "b", **rest: Any) -> list[Json]:
    """Return the unbound placeholders of one buffer."""
    labels = {"resource-slack.io/hold": "Unbound", "resource-slack.io/buffer": buffer, "resource-slack.io/shape": "s"}
    return [
        placeholder(
            f"{buffer}-{n}",
            cpu,
            memory,
            policy="",
            labels=labels,
            owner=("ReplicaSet", buffer),
            schedulerName="resource-slack.io/unbound",
            status=TOLD,
            **rest,
        )
        for n in range(count)
    ]


def own(item: PolicyPlan) -> list[int]:
    """Return cpu and memory of the policy's own placeholders."""
    vectors = [s.count * s.shape.vector(item.resources)[:2] for s in item.shapes if not s.retiring]
    return [int(amount) for amount in sum(vectors, np.zeros(2, dtype=np.int64))]


FIXED: Json = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "6", "memory": "6Gi"}}, **NONE}


@run_for_each(
    "said,there,kept,planned",
    [
        ("Ignore", 4, [6000, 6 * GI], [6000, 6 * GI]),
        ("Count", 0, [6000, 6 * GI], [6000, 6 * GI]),
        ("Count", 4, [2000, 2 * GI], [6000, 6 * GI]),
        ("Count", 6, [0, 0], [6000, 6 * GI]),
        ("Count", 9, [0, 0], [9000, 9 * GI]),
    ],
)
def test_the_larger_is_kept_and_never_the_sum(said: str, there: int, kept: list[int], planned: list[int]) -> None:
    nodes = [node(f"n{i}", "5", "5Gi") for i in range(4)]
    item = plan_of(*nodes, *replicas(4, "web", "1", "1Gi", node="n0"), *chunks(there), **FIXED, capacityBuffers=said)
    assert (own(item), item.planned.tolist()) == (kept, planned)
    counted = item.buffered is not None
    assert counted == (said == "Count" and there > 0)


def test_each_resource_is_looked_at_by_itself() -> None:
    nodes = [node(f"n{i}", "5", "5Gi") for i in range(4)]
    pods = replicas(1, "web", "1", "1Gi", node="n0")
    cpu, memory = own(plan_of(*nodes, *pods, *chunks(8, "1", "256Mi"), **FIXED, capacityBuffers="Count"))
    assert (cpu, memory) == (0, 4 * GI)  # the buffers' 8 cores are more than the 6 wanted, their 2 GiB are less


def test_what_waits_counts_until_the_policy_gives_up_and_never_if_no_node_could_hold_it() -> None:
    def waiting(cpu: str, since: float) -> list[int]:
        objects = [node("n", "5", "5Gi"), *replicas(4, "web", "1", "1Gi", node="n"), *chunks(4, cpu)]
        snapshot = snapshot_of(*objects)
        policy = policy_of(**FIXED, capacityBuffers="Count", stabilization={"giveUpAfter": "20m"})
        return own(plan(snapshot, [policy], now=NOW + since).items[0])

    assert waiting("2", 0) == [0, 2 * GI]
    assert waiting("2", 1300) == [6000, 6 * GI]
    assert waiting("6", 0) == [6000, 6 * GI]


def test_chunks_count_for_the_policy_that_has_their_node() -> None:
    nodes = [node(f"{pool}{i}", "5", "5Gi", labels={"pool": pool}) for pool in ("web", "batch") for i in range(3)]
    pods = [*replicas(2, "web", "1", "1Gi", node="web0"), *replicas(2, "job", "1", "1Gi", node="batch0")]
    policies = [
        policy_of(name, nodeSelector={"pool": name}, **FIXED, capacityBuffers="Count") for name in ("web", "batch")
    ]
    held = chunks(5, nodeSelector={"pool": "batch"})
    found = {item.policy: own(item)[0] for item in plan(snapshot_of(*nodes, *pods, *held), policies, now=NOW).items}
    assert found == {"web": 6000, "batch": 1000}


def test_each_buffer_is_said_to_count_where_it_does() -> None:
    nodes = [node(f"{pool}{i}", "5", "5Gi", labels={"pool": pool}) for pool in "ab" for i in range(2)]
    there = [
        *chunks(3, buffer="mine", nodeSelector={"pool": "a"}),
        *chunks(2, cpu="3", buffer="beside", nodeSelector={"pool": "b"}),
        *chunks(2, cpu="4", buffer="waits", nodeSelector={"pool": "b"}),
    ]
    policies = tuple(
        policy_of(name=pool, nodeSelector={"pool": pool}, capacityBuffers=said)
        for pool, said in (("a", "Count"), ("b", "Ignore"))
    )
    both = policies[0], policy_of(name="b", nodeSelector={"pool": "b"}, capacityBuffers="Count")
    snapshot = snapshot_of(*nodes, *there)
    for counting, buffer, expected in (
        (policies, "mine", {"a": 3}),
        (policies, "beside", {}),
        (both, "beside", {"b": 2}),
        (both, "waits", {"b": 2}),
        (policies, "gone", {}),
    ):
        domains = divided(node_view(snapshot), counting)
        assert counted_chunks(snapshot, domains, frozenset({buffer}), NOW) == expected, buffer


def test_zones_count_their_own_chunks() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node(f"n{z}{i}", "5", "5Gi", labels={zone: z}) for z in "ab" for i in range(2)]
    pods = [pod for z in "ab" for pod in replicas(2, f"web-{z}", "1", "1Gi", node=f"n{z}0")]
    item = plan_of(
        *nodes, *pods, *chunks(3, nodeSelector={zone: "a"}), **FIXED, perDomain="Zone", capacityBuffers="Count"
    )
    by_zone = {dict(s.shape.node_selector)[zone]: s.count * dict(s.shape.requests)["cpu"] for s in item.shapes}
    assert by_zone == {"b": 3000}


def test_pods_that_fit_into_the_capacity_of_chunks_need_no_placeholder() -> None:
    objects = [
        node("n", "16", "64Gi"),
        *replicas(4, "web", "2", "2Gi", node="n"),
        *replicas(1, "big", "4", "4Gi", node="n"),
    ]
    spec: Json = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "1", "memory": "1Gi"}}, "cover": {"coverage": 1.0}}
    snapshot, policy = snapshot_of(*objects, *chunks(3)), policy_of(**spec, capacityBuffers="Count")
    found = plan(snapshot, [policy], now=NOW)
    assert {
        cpu for _, cpu, _ in [(s.count, *s.shape.vector(snapshot.resources)[:2]) for s in found.items[0].shapes]
    } == {4000}
    snapshot = snapshot_of(*objects[:-1], *chunks(3))
    told = explain(snapshot, plan(snapshot, [policy], now=NOW), [policy], target("rs", "web", "shop"), priorities={})
    assert "CapacityBuffers keep capacity for it" in " ".join(told.reasons), told
    beside = plan_of(*objects, *chunks(3), **spec)
    assert own(beside)[0] >= 4000
    assert beside.held_by_buffers == frozenset()


def test_the_condition_says_what_buffers_keep_and_that_they_wait() -> None:
    pods = replicas(2, "web", "1", "1Gi", node="n0")
    spec: Json = {**FIXED, "capacityBuffers": "Count"}
    full = plan_of(node("n0", "16", "64Gi"), *pods, *chunks(6), **spec)
    said = full.condition(ConditionType.SLACK_SATISFIED)
    assert (said.status, said.reason) == (True, "Reserved")
    assert said.message.endswith("CapacityBuffers keep 6 cores and 6Gi of memory of it")
    short = plan_of(node("n0", "4", "64Gi"), *pods, *chunks(6), **spec).condition(ConditionType.SLACK_SATISFIED)
    assert (short.status, short.reason) == (False, "Refilling")
    assert "CapacityBuffers that count wait for nodes" in short.message


@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(250, 4000), st.integers(256, 8192)), max_size=5),
    st.integers(0, 12),
    st.sampled_from(["None", "Frequent"]),
)
def test_buffers_never_add_up(buffers: list[tuple[int, int, int]], floor: int, mode: str) -> None:
    """Of each resource no more is kept than the policy alone or the buffers alone, but for what covers larger pods."""
    nodes = [node(f"n{i}", "32", "128Gi") for i in range(4)]
    pods = replicas(6, "web", "250m", "256Mi", node="n0")
    kept = [
        chunk
        for i, (count, cpu, memory) in enumerate(buffers)
        for chunk in chunks(count, f"{cpu}m", f"{memory}Mi", buffer=f"b{i}")
    ]
    spec: Json = {
        "extraCapacity": {"minRate": 0, "floor": {"cpu": str(floor), "memory": f"{floor}Gi"}},
        "cover": {"mode": mode},
    }
    alone = plan_of(*nodes, *pods, **spec)
    both = plan_of(*nodes, *pods, *kept, **spec, capacityBuffers="Count")
    of_buffers = np.array([0, 0]) if both.buffered is None else both.buffered[:2]
    assert of_buffers.tolist() == [sum(n * c for n, c, _ in buffers), sum(n * m for n, _, m in buffers) << 20]
    # A standard placeholder is whole, so the last one of either plan may be more than was missing.
    chunk = max((int(s.shape.vector(both.resources)[0]) for s in both.shapes), default=0)
    assert both.planned[0] <= max(alone.planned[0], of_buffers[0]) + chunk
    assert both.planned[0] >= min(alone.planned[0], alone.desired[0])
