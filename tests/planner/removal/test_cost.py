"""What a placeholder costs is what it takes of the largest node, in millionths."""

import numpy as np

from slack.planner.removal.cost import removal_costs


def test_resources_are_added_up_and_one_that_no_node_has_costs_nothing() -> None:
    requests = np.array([[1000, 1, 0], [1000, 0, 7], [0, 2, 0]])
    assert removal_costs(requests, np.array([4000, 3, 0])).tolist() == [250_000 + 333_333, 250_000, 666_667]
    assert removal_costs(requests[:0], np.array([4000, 3, 0])).tolist() == []
