"""How many chunks a buffer asks for, case by case."""

from typing import Any

import msgspec
import pytest

from slack.capacity_buffers.api import BufferSpec
from slack.capacity_buffers.sizes import LARGEST_COUNT, InvalidSize, percentage_of, size_of
from tests.cases import run_for_each

GIB = 1 << 30
CHUNK = {"cpu": 500, "memory": GIB * 1000}
"""500m and 1Gi, in thousandths."""


def _spec(**fields: Any) -> BufferSpec:
    return msgspec.convert(fields, BufferSpec)


@run_for_each(
    ("fields", "replicas", "size"),
    [
        ({"replicas": 3}, None, 3),
        ({"replicas": 0}, None, 0),
        ({"replicas": -2}, None, 0),
        ({"replicas": 3, "percentage": 50}, None, 3),  # a PodTemplate has no replicas
        ({"percentage": 20}, 10, 2),
        ({"percentage": 20}, 11, 3),  # rounded up
        ({"percentage": 1}, 1, 1),
        ({"percentage": 0}, 10, 0),
        ({"percentage": -5}, 10, 0),
        ({"percentage": 20}, 0, 0),
        ({"percentage": 250}, 3, 8),  # may exceed 100
        ({"replicas": 2, "percentage": 20}, 100, 20),  # the larger of both
        ({"replicas": 30, "percentage": 20}, 100, 30),
        ({"replicas": 2, "percentage": 20}, 0, 2),
        ({"limits": {"cpu": "2"}}, None, 4),
        ({"limits": {"cpu": "2400m"}}, None, 4),
        ({"limits": {"cpu": "400m"}}, None, 0),
        ({"limits": {"cpu": "0"}}, None, 0),
        ({"limits": {"memory": "3500Mi"}}, None, 3),
        ({"limits": {"cpu": "2", "memory": "3Gi"}}, None, 3),  # the scarcest
        ({"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}, None, 4),  # what no chunk requests says nothing
        ({"limits": {"cpu": 2}}, None, 4),  # a number, as hand-written
        ({"limits": {"cpu": "-1", "memory": "2Gi"}}, None, 2),  # a negative limit says nothing
        ({"replicas": 10, "limits": {"cpu": "2"}}, None, 4),
        ({"replicas": 1, "limits": {"cpu": "2"}}, None, 1),
        ({"replicas": 0, "limits": {"cpu": "2"}}, None, 0),
        ({"percentage": 50, "limits": {"cpu": "2"}}, 100, 4),
        ({"percentage": 50, "limits": {"cpu": "2"}}, 0, 0),  # and not as many as fit
        ({"percentage": 20, "replicas": 2, "limits": {"cpu": "16", "memory": "64Gi"}}, 40, 8),
        ({"replicas": LARGEST_COUNT, "limits": {"cpu": "9223372036854775807"}}, None, LARGEST_COUNT),
    ],
)
def test_a_size_is_the_larger_of_replicas_and_percentage_within_limits(
    fields: Any, replicas: int | None, size: int
) -> None:
    assert size_of(_spec(**fields), CHUNK, replicas) == size


@run_for_each(
    ("fields", "replicas", "complaint"),
    [
        ({}, 10, "none of spec.replicas, spec.percentage and spec.limits"),
        ({"percentage": 20}, None, "none of spec.replicas"),
        ({"limits": {"nvidia.com/gpu": "4"}}, None, "a chunk requests none of these resources: nvidia.com/gpu"),
        ({"replicas": 3, "limits": {"nvidia.com/gpu": "4"}}, None, "a chunk requests none of these resources"),
        ({"limits": {}}, None, "a chunk requests none of these resources: nothing"),
        ({"limits": {"cpu": "-1"}}, None, "a chunk requests none of these resources"),
        ({"limits": {"cpu": "two"}}, None, "spec.limits.cpu: 'two' is not a quantity"),
    ],
)
def test_a_spec_without_a_size_is_refused(fields: Any, replicas: int | None, complaint: str) -> None:
    with pytest.raises(InvalidSize, match=complaint):
        size_of(_spec(**fields), CHUNK, replicas)


def test_a_chunk_that_requests_nothing_is_within_no_limit() -> None:
    with pytest.raises(InvalidSize):
        size_of(_spec(limits={"cpu": "1"}), {}, None)

    assert size_of(_spec(replicas=2), {}, None) == 2


def test_a_percentage_is_bounded_by_the_type_of_the_field() -> None:
    assert percentage_of(LARGEST_COUNT, LARGEST_COUNT) == LARGEST_COUNT
