"""The words of an explanation, line by line, and amounts as people read them."""

from dataclasses import replace

import pytest

from slack.cluster.hold import ReleaseNodes
from slack.planner.explain import HeldCapacity, WorkloadExplanation
from slack.planner.explain_text import lines
from slack.planner.model.amount_text import resources_text
from slack.planner.model.shape import Role

REQUESTS = (("cpu", 500), ("memory", 1 << 30))


def room(*, bound: int = 0, pending: int = 0) -> HeldCapacity:
    on = tuple((f"n{i}", 1) for i in range(bound))
    return HeldCapacity("web", "9f3c2a", Role.COVER, REQUESTS, 2, bound, pending, on)


def test_the_way_in_which_nodes_are_released_is_named_once_for_a_policy() -> None:
    ways = {
        ReleaseNodes.LABEL: "by the label resource-slack.io/release on the node (Label)",
        ReleaseNodes.MARKER_POD: "by a marker pod on the node (MarkerPod)",
        ReleaseNodes.OFF: "by nobody: it stays while placeholders hold it (Off)",
    }
    for way, said in ways.items():
        held = replace(room(bound=1), unbound=True, release_nodes=way)
        found = lines(explanation(held, held))
        assert [line for line in found if "released" in line] == [f"    a node that must go is released {said}"]
    assert "released" not in "\n".join(lines(explanation(room(bound=1))))


def explanation(
    *rooms: HeldCapacity, pods: int = 3, reasons: tuple[str, ...] = (), warnings: tuple[str, ...] = ()
) -> WorkloadExplanation:
    return WorkloadExplanation("shop/deploy/api", pods, REQUESTS, rooms, reasons, warnings)


def test_room_that_stands_is_where_the_next_pod_starts() -> None:
    assert lines(explanation(room(bound=1, pending=1))) == [
        "shop/deploy/api: 3 pods, 500m cpu, 1Gi memory each",
        "  policy web keeps capacity for it:",
        "    2 x 9f3c2a (cover), 500m cpu, 1Gi memory each; 1 on n0; 1 pending",
        "  its next pod starts there without waiting",
    ]


def test_room_that_is_only_planned_is_said_to_be() -> None:
    assert lines(explanation(room(), pods=1))[0] == "shop/deploy/api: 1 pod, 500m cpu, 1Gi memory each"
    assert lines(explanation(room()))[-1] == "  none of them exists yet; the operator would create them"


def test_a_warning_keeps_the_promise_back() -> None:
    found = lines(explanation(room(bound=1), warnings=("its preemptionPolicy is Never",)))
    assert found[-1] == "  but its preemptionPolicy is Never"
    assert "  its next pod starts there without waiting" not in found


def test_what_is_not_checked_is_said_in_place_of_the_promise() -> None:
    found = WorkloadExplanation(
        "shop/deploy/api", 3, REQUESTS, (room(bound=1),), (), (), ("it takes host ports", "it spreads")
    )
    assert lines(found)[-1] == ("  whether its next pod starts there is not known: it takes host ports; it spreads")
    assert not found.ready


def test_no_room_has_its_reasons() -> None:
    assert lines(explanation(reasons=("it is excluded by annotation",)))[1:] == [
        "  no capacity is kept for it",
        "  because it is excluded by annotation",
    ]


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ((), "no requests"),
        ((("cpu", 0),), "no requests"),
        ((("cpu", 1500), ("memory", 1288490189)), "1500m cpu, 1.2Gi memory"),
        ((("cpu", 12_500), ("memory", 3 << 40)), "12.5 cpu, 3Ti memory"),
        ((("ephemeral-storage", 2 << 10), ("hugepages-2Mi", 64 << 20)), "2Ki ephemeral-storage, 64Mi hugepages-2Mi"),
        ((("memory", 100), ("nvidia.com/gpu", 2)), "100 memory, 2 nvidia.com/gpu"),
    ],
)
def test_amounts_read_as_people_write_them(amounts: tuple[tuple[str, int], ...], text: str) -> None:
    assert resources_text(amounts) == text


def test_a_policy_with_an_objective_says_why_it_keeps_this_much() -> None:
    text = lines(explanation(room(bound=2)), {"web": "it is enough", "another": "of no concern"})
    assert "    why this much: it is enough" in text
    assert not any("concern" in line for line in text)
