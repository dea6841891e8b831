"""Whose figures are whose: the names that a report may have for a node."""

import pytest

from slack.scorer.inputs.node_names import NodeRowsByName

NAMES = NodeRowsByName({"n1": 0, "n2": 1, "n3": 2}, {"10.0.0.3": "n3", "10.0.0.9": "gone", "n1": "n2"})


@pytest.mark.parametrize(("name", "row"), [("n1", 0), ("n2:9100", 1), ("10.0.0.3:9100", 2), ("10.0.0.3", 2)])
def test_a_node_is_found_by_its_own_name_first_then_without_a_port_and_by_other_names(name: str, row: int) -> None:
    assert NAMES.get(name) == row


@pytest.mark.parametrize("name", ["who", "10.0.0.9", "", "n1:x", "[n1"])
def test_a_name_that_no_node_has_is_nobodys(name: str) -> None:
    assert NAMES.get(name) is None


def test_it_counts_nodes_and_not_names() -> None:
    assert (len(NAMES), list(NAMES)) == (3, ["n1", "n2", "n3"])
