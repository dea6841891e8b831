import msgspec
import pytest

from slack.cluster import interning, view, wire
from slack.cluster.freshness import NO_VERSION, Tombstones, version_number
from slack.cluster.interning import ConstraintTable, Interner
from tests.cluster.build import NOW, columns_of, node, pod


def spec(text: str) -> wire.PodSpec:
    return msgspec.json.decode(text, type=wire.PodSpec)


def test_ids_are_recycled_when_nobody_holds_them() -> None:
    table: Interner[str] = Interner()
    a, b = table.intern("a"), table.intern("b")
    table.retain(a)
    table.retain(b)
    table.release(a)
    with pytest.raises(KeyError):
        table[a]
    assert table.intern("c") == a
    assert (table[a], table[b], len(table), table.capacity) == ("c", "b", 2, 2)


def test_the_same_constraints_in_other_words_have_one_id_until_the_last_holder_goes() -> None:
    table = ConstraintTable()
    one = table.intern_spec(spec('{"nodeSelector": {"a": "1"}}'))
    assert table.intern_spec(spec('{"nodeSelector": { "a":"1" }, "schedulerName": "default-scheduler"}')) == one
    table.retain(one)
    assert list(table.needs) == [("a", None)]
    before = table.needs_version
    table.release(one)
    assert list(table.needs) == []
    assert table.needs_version > before
    table.retain(table.intern_spec(spec('{"nodeSelector": {"b": "1"}}')))
    assert list(table.needs) == [("b", None)]


def test_texts_of_constraints_that_live_for_ever_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "_RAW_TEXTS", 3)
    table = ConstraintTable()
    for weight in range(10):
        soft = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight}]}}
        index = table.intern_spec(spec(msgspec.json.encode({"affinity": soft}).decode()))
        table.retain(index)
        assert index == 0
    table.release(0, 10)
    assert len(table) == 0


def test_presence_is_the_same_counted_densely_or_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [node("n1"), node("n2", labels={"pool": "web"}), *(pod(f"p{i}", node=f"n{i % 2 + 1}") for i in range(9))]
    objects.append(pod("q", nodeSelector={"pool": "web"}))
    dense = columns_of(*objects).snapshot(NOW).presence
    monkeypatch.setattr(view, "_DENSE", 0)
    sparse = columns_of(*objects).snapshot(NOW).presence
    assert dense.count.sum() == 9
    for name in ("kind", "node_class", "count"):
        assert getattr(dense, name).tolist() == getattr(sparse, name).tolist()


def test_the_oldest_tombstones_are_forgotten_first() -> None:
    stones = Tombstones(limit=2)
    for uid in (1, 2, 1, 3):
        stones.add(uid, 10)
    assert [stones.buries(uid, 10) for uid in (1, 2, 3)] == [True, False, True]
    assert not stones.buries(1, 11)
    assert not stones.buries(1, NO_VERSION)
    stones.clear()
    assert not stones.buries(1, 10)


def test_versions_that_are_no_numbers_are_not_compared() -> None:
    assert [version_number(text) for text in ("12", None, "", "abc", "9" * 30)] == [12, *[NO_VERSION] * 4]
