"""Many distinct sizes are joined upwards: few vectors, none below a pod, and the same ones whatever else there is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.snapshot import Snapshot
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.objects.adoption import once_written
from slack.planner.plan import plan
from slack.planner.wanted import joining, part
from slack.planner.wanted.cover_choice import Items
from slack.planner.wanted.joining import LINES, WIDEST, rounded_up
from tests.cluster.build import NOW, Json, node, pod
from tests.examples import by_profile, examples
from tests.planner.scenes import policy_of, snapshot_of

GROUPS = [
    node("a", "4", "16Gi", labels={"pool": "web"}),
    node("b", "8", "32Gi", labels={"pool": "web"}, extended={"nvidia.com/gpu": "4"}),
    node("c", "2", "62Gi", labels={"pool": "data"}),
]
sizes = st.tuples(
    st.integers(1, 9000),
    st.integers(1, 70_000),
    st.sampled_from(["", "", "", "web", "data"]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.booleans(),
)
clusters = st.lists(sizes, min_size=1, max_size=40)


def jobs(drawn: list[tuple[int, int, str, int, bool]]) -> list[Json]:
    """Return a pending or running pod of each size."""
    return [
        pod(
            f"run-{i}",
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            owner=("Job", f"run-{i}"),
            node=("c" if pool == "data" else "b" if gpus else "a") if runs else None,
            nodeSelector={"pool": pool} if pool else None,
            extended={"nvidia.com/gpu": str(gpus)} if gpus else None,
        )
        for i, (cpu, memory, pool, gpus, runs) in enumerate(drawn)
    ]


def planned(snapshot: Snapshot, mode: str) -> PolicyPlan:
    cover = {"mode": mode, "maxShapes": 64, "coverage": 0.8}
    return plan(snapshot, [policy_of(cover=cover)], now=NOW).items[0]


def seen_items(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Items:
    """Return the items of a plan as they are after joining."""
    found: list[Items] = []

    def noted(*args: Any) -> Items:
        found.append(joining.joined(*args))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(part, "joined", noted)
        planned(snapshot, "Everything")
    return found[0]


def roomy(snapshot: Snapshot, item: PolicyPlan) -> set[int]:
    """Return the kinds for which a covering placeholder has room, by their exact requests."""
    vectors = {s.shape.name: s.shape.vector(snapshot.resources) for s in item.shapes if s.role is Role.COVER}
    rows = {row: vectors[name] for row, name in item.covered_by.items() if name in vectors}
    assert all((snapshot.kinds.requests[row] <= vector).all() for row, vector in rows.items())
    return set(rows)


@given(st.lists(st.integers(0, 1 << 53), min_size=1, max_size=20), st.integers(0, WIDEST))
def test_an_amount_is_rounded_up_on_nested_grids_by_at_most_two_percent(amounts: list[int], level: int) -> None:
    vector = np.array(amounts, dtype=np.int64)
    fine, wide = rounded_up(vector), rounded_up(vector, level)
    assert (fine >= vector).all()
    assert all(100 * int(line) <= 102 * amount for line, amount in zip(fine, amounts, strict=True))
    assert (rounded_up(fine) == fine).all()
    assert (rounded_up(fine, level) == wide).all()
    assert (wide[vector == 0] == 0).all()


def test_small_counts_are_lines_of_the_grid() -> None:
    assert set(range(1, 51)) <= set(LINES.tolist())


@examples(60)
@given(clusters, st.sampled_from([3, 8, 800]))
def test_whatever_the_exact_plan_covers_the_plan_of_joined_sizes_covers(
    drawn: list[tuple[int, int, str, int, bool]], most: int
) -> None:
    snapshot = snapshot_of(*GROUPS, *jobs(drawn))
    exact = planned(snapshot, "Everything")
    often = planned(snapshot, "Frequent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "MOST_EXACT", 0)
        patch.setattr(joining, "_MOST_JOINED", most)
        items = seen_items(snapshot, patch)
        joined, frequent = planned(snapshot, "Everything"), planned(snapshot, "Frequent")
    assert (items.vectors[items.kind_item] >= snapshot.kinds.requests[items.kinds]).all()
    assert roomy(snapshot, exact) <= roomy(snapshot, joined)
    assert {u.pod for u in joined.uncovered} == {u.pod for u in exact.uncovered}
    assert frequent.covered_share >= min(0.8, often.covered_share) - 1e-9
    assert joined.feasible == exact.feasible


@examples(40)
@given(clusters, clusters)
def test_what_a_vector_is_joined_to_follows_from_no_other_pod(
    drawn: list[tuple[int, int, str, int, bool]], others: list[tuple[int, int, str, int, bool]]
) -> None:
    found = []
    for kept in (drawn, [*drawn, *others]):
        snapshot = snapshot_of(*GROUPS, *jobs(kept))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joining, "MOST_EXACT", 0)
            items = seen_items(snapshot, patch)
        vectors = items.vectors[items.kind_item].tolist()
        names = [snapshot.kinds.workloads[k].name for k in items.kinds.tolist()]
        requests = snapshot.kinds.requests[items.kinds].tolist()
        columns = snapshot.resources
        found.append(
            {
                name: (dict(zip(columns, vector, strict=True)), dict(zip(columns, own, strict=True)))
                for name, vector, own in zip(names, vectors, requests, strict=True)
            }
        )
    for i in range(len(drawn)):
        assert found[0].get(f"run-{i}") == found[1].get(f"run-{i}")


def test_sizes_of_an_ordinary_cluster_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "joined", lambda *_: pytest.fail("joined"))
    drawn = [(100 + i, 64 + i, "", 0, True) for i in range(500)]
    item = planned(snapshot_of(*GROUPS, *jobs(drawn)), "Everything")
    assert dict(item.shapes[0].shape.requests) == {"cpu": 599, "memory": 563 << 20}


def test_thousands_of_sizes_are_few_vectors_of_which_the_frequent_keep_the_fine_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = np.random.default_rng(7)
    cpu, memory = chance.integers(10, 3900, 3000), chance.integers(16, 15_000, 3000)
    drawn = [(int(c), int(m), "", 0, True) for c, m in zip(cpu, memory, strict=True)]
    often = [pod(f"api-{i}", cpu="777m", memory="999Mi", owner=("StatefulSet", "api"), node="a") for i in range(50)]
    items = seen_items(snapshot_of(*GROUPS, *jobs(drawn), *often), monkeypatch)
    assert len(items) <= 800
    assert items.level > 0
    fine = rounded_up(np.array([777, 999 << 20])).tolist()
    assert fine in items.vectors[:, :2].tolist()


def test_a_job_more_leaves_the_shapes_as_they_are() -> None:
    chance = np.random.default_rng(3)
    drawn = [
        (int(c), int(m), "", 0, True)
        for c, m in zip(chance.integers(10, 3900, 1500), chance.integers(16, 15_000, 1500), strict=True)
    ]
    policy, cache = policy_of(), PlanCache()
    made = plan(snapshot_of(*GROUPS, *jobs(drawn)), [policy], now=NOW, cache=cache)
    first = {shape.shape.name for shape in made.items[0].shapes if shape.role is Role.COVER}
    for turn in range(1, by_profile(3, 6)):
        existing = tuple(once_written(item.policy, shape) for item in made.items for shape in item.shapes)
        drawn.append((int(chance.integers(10, 3900)), int(chance.integers(16, 15_000)), "", 0, True))
        made = plan(
            snapshot_of(*GROUPS, *jobs(drawn)),
            [policy],
            now=NOW + turn,
            existing=existing,
            state=made.state,
            cache=cache,
        )
        assert {shape.shape.name for shape in made.items[0].shapes if shape.role is Role.COVER} == first


def test_a_joined_shape_stays_when_fewer_sizes_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = snapshot_of(*GROUPS, *jobs([(777, 999, "", 0, True)]))
    monkeypatch.setattr(joining, "MOST_EXACT", 0)
    made = plan(snapshot, [policy_of()], now=NOW)
    existing = tuple(once_written("default", shape) for shape in made.items[0].shapes)
    monkeypatch.setattr(joining, "MOST_EXACT", 1000)
    later = plan(snapshot, [policy_of()], now=NOW + 10_000, existing=existing, state=made.state)
    assert [s.shape for s in later.items[0].shapes] == [s.shape for s in made.items[0].shapes]
