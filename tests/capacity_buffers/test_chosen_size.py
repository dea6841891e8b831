"""The size of a buffer that holds an amount: enough chunks by each resource, and the percentage that comes to them."""

import pytest

from slack.capacity_buffers.api import BufferSpec
from slack.capacity_buffers.chosen_size import ChosenSize, choose_size
from slack.capacity_buffers.plan import MOST_CHUNKS
from slack.capacity_buffers.sizes import size_of
from tests.cases import run_for_each

GI = 1 << 30


@run_for_each(
    "wanted,chunk,pods,chosen",
    [
        ({"cpu": 3500, "memory": 2 * GI}, {"cpu": 1000, "memory": GI}, 10, ChosenSize(4, 40)),
        ({"cpu": 1000, "memory": 5 * GI}, {"cpu": 1000, "memory": GI}, 3, ChosenSize(5, 167)),
        ({"cpu": 1000, "memory": 5 * GI}, {"cpu": 500}, None, ChosenSize(2, None)),
        ({"cpu": 0, "memory": 0}, {"cpu": 500}, 8, ChosenSize(0, 0)),
        ({"cpu": 10**9}, {"cpu": 1}, 0, ChosenSize(MOST_CHUNKS, None, is_cut=True)),
    ],
)
def test_it_is_enough_of_each_resource(
    wanted: dict[str, int], chunk: dict[str, int], pods: int | None, chosen: ChosenSize
) -> None:
    assert choose_size(wanted, chunk, pods) == chosen
    if pods and chosen.percentage is not None:
        thousandths = {"cpu": 1000}
        assert size_of(BufferSpec(percentage=chosen.percentage), thousandths, pods) >= chosen.replicas


def test_a_chunk_that_requests_nothing_holds_nothing() -> None:
    with pytest.raises(ValueError, match="neither cpu nor memory"):
        choose_size({"cpu": 1}, {"pods": 1}, 1)
