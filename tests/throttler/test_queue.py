"""The queue is what a sorted list would be, with less work."""

from hypothesis import given
from hypothesis import strategies as st

from slack.throttler.queue import Key, PendingQueue
from tests.examples import examples

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "remove", "park", "unpark", "order"]),
        st.integers(0, 19),
        st.sampled_from([0.0, 1.0, 2.0]),
    ),
    max_size=120,
)


@examples(300, quick=10)
@given(OPERATIONS, st.booleans())
def test_first_head_and_places_are_those_of_a_sorted_list(
    operations: list[tuple[str, int, float]], by_priority: bool
) -> None:
    def rank(key: Key) -> int:
        return -(int(key.pod[1:]) % 4)

    queue = PendingQueue(by_priority=by_priority)
    model: dict[Key, tuple[int, float, int]] = {}
    parked: set[str] = set()
    for what, index, since in operations:
        key, namespace = Key(f"p{index}", "c"), f"n{index % 3}"
        if what == "add" and key not in queue:
            queue.add_container(key, namespace, since, arrival=index, declared=0, priority=index % 4)
            model[key] = (rank(key) if by_priority else 0, since, index)
        elif what == "remove" and key in queue:
            queue.remove(key)
            del model[key]
        elif what == "order":
            by_priority = index % 2 == 0
            queue.order(by_priority=by_priority)
            model = {key: (rank(key) if by_priority else 0, *place[1:]) for key, place in model.items()}
        elif what == "park":
            queue.park(namespace)
            parked.add(namespace)
        elif what == "unpark":
            queue.unpark(namespace)
            parked.discard(namespace)
        ordered = sorted(model, key=model.__getitem__)
        free = [each for each in ordered if f"n{int(each.pod[1:]) % 3}" not in parked]
        assert len(queue) == len(model)
        assert queue.first() == (ordered[0] if ordered else None)
        assert queue.head() == (free[0] if free else None)
        assert [queue.position(each) for each in ordered] == list(range(1, len(ordered) + 1))
    assert queue.position(Key("absent", "c")) == 0


def test_the_dead_are_cleared_away() -> None:
    queue = PendingQueue()
    queue.add_container(Key("first", "c"), "a", 0.0, arrival=0, declared=0)
    for turn in range(1000):
        queue.add_container(Key("next", "c"), "b", 1.0, arrival=turn, declared=0)
        queue.park("b")
        queue.unpark("b")
        queue.remove(Key("next", "c"))
    assert len(queue._all) < 100
    assert len(queue._heads) < 100
    assert queue.first() == queue.head() == Key("first", "c")


def test_the_dead_of_one_namespace_are_cleared_away() -> None:
    queue = PendingQueue()
    queue.add_container(Key("first", "c"), "a", 0.0, arrival=0, declared=0)
    for turn in range(1000):
        queue.add_container(Key("next", "c"), "a", 1.0, arrival=turn, declared=0)
        queue.remove(Key("next", "c"))
    assert len(queue._of["a"]) < 100
