"""Which shape loses placeholders: by a number, by an amount, by the number of shapes, by a ceiling."""

import numpy as np
import pytest

from slack.planner.model.added import NO_ADDITIONS
from slack.planner.model.shape import Role, Shape
from slack.planner.removal.shapes import (
    CountedShape,
    ShapeLimit,
    StandardPlaceholders,
    limit_count,
    limit_shapes,
    limit_to_ceiling,
    release_pending,
    retained_counts,
)

RARE, MANY, USED_UP = (Shape((("cpu", cpu),)) for cpu in (100, 200, 300))


def standing() -> list[StandardPlaceholders]:
    """Return the shapes in another order than that in which they lose."""
    return [
        StandardPlaceholders(MANY, np.array([200]), 5),
        StandardPlaceholders(RARE, np.array([100]), 2),
        StandardPlaceholders(USED_UP, np.array([300]), 9, refilled=False),
    ]


def counts(found: list[StandardPlaceholders]) -> dict[str, int]:
    names = {MANY.name: "many", RARE.name: "rare", USED_UP.name: "used up"}
    return {names[there.shape.name]: there.count for there in found}


def test_limits_are_numbered_in_the_order_in_which_they_are_applied() -> None:
    assert [limit.value for limit in ShapeLimit] == list(range(1, len(ShapeLimit) + 1))


def test_what_is_not_refilled_loses_first_then_the_rarest() -> None:
    assert counts(limit_count(standing(), 16)) == {"used up": 9, "rare": 2, "many": 5}
    assert counts(limit_count(standing(), 6)) == {"used up": 0, "rare": 1, "many": 5}
    assert counts(limit_shapes(standing(), 1)) == {"used up": 0, "rare": 0, "many": 5}


def test_only_what_is_beyond_the_need_or_the_ceiling_goes() -> None:
    plenty = np.array([10_000])
    assert counts(retained_counts(standing(), np.array([1500]), plenty, NO_ADDITIONS)) == {
        "used up": 1,
        "rare": 2,
        "many": 5,
    }
    assert counts(retained_counts(standing(), plenty, np.array([900]), NO_ADDITIONS)) == {
        "used up": 0,
        "rare": 0,
        "many": 4,
    }


@pytest.mark.parametrize(
    ("replicas", "at_once", "left"), [(15, False, 15), (16, False, 8), (15, True, 8)], ids=["few", "many", "at once"]
)
def test_pending_ones_go_at_once_where_far_fewer_are_wanted(replicas: int, at_once: bool, left: int) -> None:
    assert release_pending(replicas, 5, replicas=replicas, bound=8, at_once=at_once) == left


def test_above_a_ceiling_shapes_that_are_given_up_lose_first_then_fill_before_cover() -> None:
    def shape(count: int, wanted: int, role: Role, *, retiring: bool = False) -> CountedShape:
        return CountedShape(np.array([100]), count, wanted, role, retiring)

    shapes = [shape(3, 3, Role.COVER), shape(3, 3, Role.FILL), shape(3, 0, Role.COVER, retiring=True)]
    nothing, planned = np.array([0]), np.array([900])
    assert limit_to_ceiling(shapes, planned, nothing, np.array([900])) == [3, 3, 3]
    assert limit_to_ceiling(shapes, planned, nothing, np.array([400])) == [3, 1, 0]
    assert limit_to_ceiling(shapes, planned, np.array([100]), np.array([900])) == [3, 3, 2]
