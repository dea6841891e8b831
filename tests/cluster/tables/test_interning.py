import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import snapshot_builder as view
from slack.cluster import wire
from slack.cluster.freshness import NO_VERSION, Freshness, version_number
from slack.cluster.requests import effective_requests
from slack.cluster.tables import interning
from slack.cluster.tables.interning import ConstraintTable, CountedResources, Interner, RequestTable
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
    monkeypatch.setattr(interning, "_TEXTS", 3)
    table = ConstraintTable()
    for weight in range(10):
        soft = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight}]}}
        index = table.intern_spec(spec(msgspec.json.encode({"affinity": soft}).decode()))
        table.retain(index)
        assert index == 0
    table.release(0, 10)
    assert len(table) == 0


BOXES = st.sampled_from(["", '{"requests":{"cpu":"1"}}', '{"requests":{"cpu":"2"}}', '{"limits":{"cpu":"3"}}', "null"])
QUANTITIES = st.sampled_from(["", '{"cpu":"1"}', '{"cpu":"4"}', "null"])
CONDITIONS = st.sampled_from(
    ["", "[]", "null"]
    + [f'[{{"type":"PodResizePending","reason":"{reason}"}}]' for reason in ("Infeasible", "Deferred")]
)


@st.composite
def pod_texts(draw: st.DrawFn) -> tuple[wire.PodSpec, wire.PodStatus]:
    """A pod whose few values come in many places, so that texts which must differ are nearly alike."""
    names = draw(st.permutations(["a", "b"]))[: draw(st.integers(1, 2))]

    def fields(**values: str) -> str:
        return ",".join(f'"{name}":{value}' for name, value in values.items() if value)

    def container(name: str) -> str:
        return f"{{{fields(name=chr(34) + name + chr(34), resources=draw(BOXES))}}}"

    def status_of(name: str) -> str:
        values = {"name": f'"{name}"', "resources": draw(BOXES), "allocatedResources": draw(QUANTITIES)}
        return f"{{{fields(**values)}}}"

    lists = [f"[{','.join(map(container, names))}]", f"[{container('i')[:-1]},{draw(RESTART)}}}]"]
    spec = {"containers": lists[0], "resources": draw(BOXES), "overhead": draw(QUANTITIES)}
    if draw(st.booleans()):
        spec["initContainers"] = lists[1]
    status = {
        "conditions": draw(CONDITIONS),
        "containerStatuses": f"[{','.join(map(status_of, sorted(names)))}]",
        "resources": draw(BOXES),
        "allocatedResources": draw(QUANTITIES),
    }
    return (
        msgspec.json.decode(f"{{{fields(**spec)}}}", type=wire.PodSpec),
        msgspec.json.decode(f"{{{fields(**status)}}}", type=wire.PodStatus),
    )


RESTART = st.sampled_from(['"restartPolicy":"Always"', '"restartPolicy":null'])


@given(st.lists(pod_texts(), min_size=1, max_size=8))
def test_requests_that_are_known_by_their_text_are_those_that_would_be_read(
    pods: list[tuple[wire.PodSpec, wire.PodStatus]],
) -> None:
    table = RequestTable(CountedResources())
    for spec, status in pods * 2:
        index = table.intern_pod(spec, status)
        table.retain(index)
        assert dict(table[index]) == effective_requests(spec, status)


def test_the_text_of_requests_goes_with_their_last_holder() -> None:
    table = RequestTable(CountedResources())
    spec = msgspec.json.decode('{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}', type=wire.PodSpec)
    other = msgspec.json.decode('{"containers":[{"resources":{"requests":{"cpu":"2"}}}]}', type=wire.PodSpec)
    first = table.intern_pod(spec, wire.PodStatus())
    table.retain(first)
    table.release(first)
    second = table.intern_pod(other, wire.PodStatus())
    table.retain(second)
    assert first == second
    assert table[table.intern_pod(spec, wire.PodStatus())] == (("cpu", 1000),)


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
    pods = Freshness(tombstones=2)
    for uid in (1, 2, 1, 3):
        pods.deleted(uid, "10")
    assert [pods.news(uid, "10", None) for uid in (1, 2, 3)] == [None, 10, None]
    assert pods.news(1, "11", None) == 11
    assert pods.news(1, None, None) == NO_VERSION
    pods.begin()
    pods.end()
    assert pods.news(1, "10", None) == 10


def test_versions_that_are_no_numbers_are_not_compared() -> None:
    assert [version_number(text) for text in ("12", None, "", "abc", "9" * 30)] == [12, *[NO_VERSION] * 4]
