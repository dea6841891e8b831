"""Which placeholders leave for a burst: the fewest and cheapest that let in the most of it."""

import pytest

from slack.cluster.classes import Constraints
from slack.planner.burst_eviction.burst import LeftAlone
from slack.planner.burst_eviction.choice import MOST_BURSTS, ExpectedPods, choose_evictions
from tests.planner.burst_eviction.capacities import Node, Ph, burst, room


def test_as_many_placeholders_leave_as_pods_lack_room_where_both_are_equal() -> None:
    (own,) = choose_evictions(room(*[Node(placeholders=[Ph(500)] * 4)] * 10), [burst(12)]).served

    assert (own.free, own.let_in, own.without, len(own.leaving)) == (0, 12, 0, 12)


def test_what_fits_into_free_room_lacks_nothing() -> None:
    (own,) = choose_evictions(room(Node(1500, placeholders=[Ph(500)] * 4)), [burst(5)]).served

    assert (own.free, own.let_in, len(own.leaving)) == (3, 2, 2)
    assert own.seats == (ExpectedPods("n0", 5),)


@pytest.mark.parametrize("why", [LeftAlone.GATED, LeftAlone.SCHEDULER])
def test_a_queue_that_the_scheduler_does_not_consider_takes_no_free_room(why: LeftAlone) -> None:
    queue = burst(300, key="queue", priority=1000, left_alone=why)
    waiting, own = choose_evictions(room(Node(2000, placeholders=[Ph(500)] * 4)), [queue, burst(4)]).served

    assert (waiting.free, waiting.left_alone) == (0, why)
    assert (own.free, own.leaving) == (4, ())


def test_a_lone_pod_is_left_to_the_scheduler() -> None:
    (own,) = choose_evictions(room(Node(500, placeholders=[Ph(500)] * 4)), [burst(2)]).served

    assert (own.leaving, own.left_alone, own.without) == ((), LeftAlone.LONE, 1)


def test_a_placeholder_as_large_as_four_pods_leaves_for_four() -> None:
    (own,) = choose_evictions(room(*[Node(placeholders=[Ph(2000)])] * 5), [burst(10)]).served

    assert (own.let_in, len(own.leaving)) == (10, 3)


def test_several_placeholders_of_one_node_leave_for_a_large_pod() -> None:
    scattered = [Node(placeholders=[Ph(500)])] * 6
    (own,) = choose_evictions(room(*scattered, *[Node(placeholders=[Ph(500)] * 3)] * 2), [burst(2, cpu=1500)]).served

    assert own.leaving == (6, 7, 8, 9, 10, 11)
    assert own.seats == (ExpectedPods("n6", 1), ExpectedPods("n7", 1))


def test_nothing_leaves_for_pods_that_would_not_fit_afterwards() -> None:
    (own,) = choose_evictions(room(*[Node(placeholders=[Ph(500)] * 2)] * 6), [burst(4, cpu=1500)]).served

    assert (own.leaving, own.left_alone, own.without) == ((), LeftAlone.NO_FIT, 4)


def test_nodes_where_the_rest_fits_come_first() -> None:
    nodes = [Node(placeholders=[Ph(500)] * 2), Node(400, placeholders=[Ph(500)]), Node(400, placeholders=[Ph(500)])]
    (own,) = choose_evictions(room(*nodes), [burst(2, cpu=900)]).served

    assert own.leaving == (2, 3)


def test_the_policy_of_the_lowest_priority_gives_first() -> None:
    nodes = [Node(placeholders=[Ph(500, priority=-5, policy="web")] * 3), Node(placeholders=[Ph(500)] * 3)]
    (own,) = choose_evictions(room(*nodes), [burst(4)]).served

    assert own.leaving == (3, 4, 5, 0)


def test_no_placeholder_leaves_whose_priority_is_not_below_the_pods() -> None:
    (own,) = choose_evictions(room(Node(placeholders=[Ph(500)] * 4)), [burst(3, priority=-10)]).served

    assert (own.leaving, own.left_alone) == ((), LeftAlone.PRIORITY)


def test_only_nodes_to_which_the_pods_may_go_are_made_free() -> None:
    nodes = [Node(placeholders=[Ph(500)] * 4), Node(placeholders=[Ph(500)] * 4, labels=(("pool", "web"),))]
    web = Constraints(node_selector=(("pool", "web"),))
    (own,) = choose_evictions(room(*nodes), [burst(6, constraints=web)]).served

    assert (own.leaving, own.let_in, own.without) == ((4, 5, 6, 7), 4, 2)


def test_a_gang_that_does_not_fit_whole_takes_nothing() -> None:
    nodes = room(*[Node(placeholders=[Ph(500)] * 4)] * 2)
    gang, other = choose_evictions(nodes, [burst(9, whole=True, priority=5), burst(3, key="shop/deploy/other")]).served

    assert (gang.leaving, gang.without) == ((), 9)
    assert other.let_in == 3


def test_pods_for_which_no_way_is_made_take_free_room_before_others_of_lower_priority() -> None:
    first = burst(2, priority=1, key="shop/job/first", left_alone=LeftAlone.NEVER_PREEMPTS)
    own = choose_evictions(room(Node(1000, placeholders=[Ph(500)] * 4)), [burst(2), first]).served

    assert [(s.free, s.let_in) for s in own] == [(0, 2), (2, 0)]


def test_pods_that_avoid_one_another_get_a_node_each() -> None:
    nodes = [Node(placeholders=[Ph(500)] * 4)] * 3
    (own,) = choose_evictions(room(*nodes), [burst(5, one_a_node=True, barred=frozenset({"n1"}))]).served

    assert (own.leaving, own.without) == ((0, 8), 3)


def test_room_that_an_earlier_burst_gets_is_not_given_again() -> None:
    nodes = room(*[Node(placeholders=[Ph(500)] * 4)] * 2)
    first, second = choose_evictions(nodes, [burst(6), burst(6, key="shop/deploy/other", cpu=400)]).served

    assert (first.let_in, second.let_in, second.without) == (6, 2, 4)
    assert not set(first.leaving) & set(second.leaving)


def test_placeholders_on_their_way_out_are_free_room() -> None:
    nodes = room(*[Node(placeholders=[Ph(500)] * 4)] * 2)
    first = choose_evictions(nodes, [burst(5)])
    gone = {nodes.standing.uid[row] for row in first.leaving}
    (again,) = choose_evictions(nodes.without(gone), [burst(5)]).served

    assert (again.free, again.leaving) == (5, ())


def test_pods_of_many_sizes_do_not_make_a_choice_long() -> None:
    there = room(*[Node(placeholders=[Ph(500)] * 4)] * 20)
    bursts = [burst(2, cpu=400 + number, key=f"shop/pod/{number}") for number in range(MOST_BURSTS + 3)]
    served = choose_evictions(there, bursts).served

    assert [own.left_alone for own in served] == [None] * MOST_BURSTS + [LeftAlone.CROWDED] * 3
    assert sum(own.let_in for own in served) == 2 * MOST_BURSTS


def test_a_pod_slot_is_room_too() -> None:
    (own,) = choose_evictions(room(*[Node(4000, placeholders=[Ph(500)] * 2, slots=0)] * 2), [burst(3)]).served

    assert (own.let_in, len(own.leaving), own.without) == (3, 3, 0)


def test_a_placeholder_stays_that_those_of_a_higher_priority_have_made_superfluous() -> None:
    """The lower one lets in a pod, but no second; for two the higher one has to go, and is enough."""
    (own,) = choose_evictions(room(Node(placeholders=[Ph(400), Ph(600, priority=-5)])), [burst(2, cpu=300)]).served

    assert (own.leaving, own.let_in) == ((1,), 2)
