"""How many pods of a kind came together lately: known from events and from lists, in steps, for days."""

from datetime import UTC, datetime
from itertools import permutations

import numpy as np

from slack.cluster.columns import ClusterColumns
from slack.cluster.together import mark_of, steps_of, until_of
from tests.cluster.build import NAMESPACE, NOW, Json, apply, columns_of, node, pod

DAY = 86_400.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def some(count: int, seconds: float, name: str = "job") -> list[Json]:
    """Pods of one kind, created together."""
    return [pod(f"{name}-{seconds:.0f}-{i}", owner=("ReplicaSet", name), created=at(seconds)) for i in range(count)]


def together(columns: ClusterColumns, days: float = 0.0) -> list[int]:
    found: list[int] = columns.snapshot(NOW + days * DAY).kinds.together.tolist()
    return found


def left_of(number: int, days: float) -> int:
    return int(steps_of(np.array([mark_of(number, NOW)]), NOW + days * DAY)[0])


def test_a_burst_is_told_in_steps_and_fades_in_days() -> None:
    assert [left_of(number, 0) for number in (1, 2, 3, 5, 7, 8, 50)] == [1, 2, 4, 4, 8, 8, 8]
    assert [left_of(8, days) for days in (0.9, 2, 4, 6, 60)] == [8, 4, 2, 1, 1]
    assert [left_of(64, days) for days in (6.9, 9, 10.9)] == [8, 4, 2]


def test_when_a_burst_fades_is_known_beforehand() -> None:
    for number in (1, 2, 3, 8, 50):
        mark, now = mark_of(number, NOW), NOW
        while (until := until_of(mark, now)) < float("inf"):
            before, after = (int(steps_of(np.array([mark]), until + seconds)[0]) for seconds in (-1, 1))
            assert before == int(steps_of(np.array([mark]), now)[0]) == 2 * after
            now = until + 1
        assert int(steps_of(np.array([mark]), now + 90 * DAY)[0]) == int(steps_of(np.array([mark]), now)[0]) == 1


def test_ten_thousand_tiny_pods_are_remembered_no_longer_than_sixty_four() -> None:
    assert mark_of(10_000, NOW) == mark_of(64, NOW)


def test_pods_that_came_one_by_one_are_no_burst() -> None:
    apart = [item for i in range(10) for item in some(1, -3600 + 301 * i)]
    assert together(columns_of(node("n0"), *apart)) == [1]
    assert together(columns_of(node("n0"), *some(10, -3600))) == [8]


def test_the_order_of_bursts_does_not_matter() -> None:
    bursts = [some(3, -20_000), some(9, -15_000), some(2, -100)]
    found = [together(columns_of(*(item for burst in order for item in burst))) for order in permutations(bursts)]
    assert found == [[8]] * 6


def test_a_burst_whose_pods_have_gone_is_remembered_as_long_as_another_pod_of_the_kind_is_there() -> None:
    first, *others = some(20, -60)
    columns = columns_of(node("n0"), first, *others)
    apply(columns, "DELETED", *others)
    assert together(columns, days=2) == [8]
    apply(columns, "DELETED", first)
    columns.snapshot(NOW + DAY)
    apply(columns, "ADDED", *some(1, DAY))
    assert together(columns, days=1) == [1], "another kind has its place now"


def test_a_restart_knows_old_bursts_by_the_pods_that_are_left_of_them() -> None:
    columns = ClusterColumns(NAMESPACE)
    columns.begin_pods()
    apply(columns, "ADDED", *some(12, -2 * DAY), *some(1, -DAY), *some(1, -DAY, name="other"))
    columns.end_pods()
    assert together(columns) == [8, 1]
    kinds = columns.snapshot(NOW).kinds
    assert kinds.arrivals.tolist() == [0, 0], "they are too old to count as arrivals"
