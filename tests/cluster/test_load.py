import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import load_list
from slack.cluster.load import InvalidSnapshot, read_cluster
from slack.cluster.snapshot import Snapshot
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, node, pod, priority_class, workload

ITEMS = [node("n1"), pod("a", node="n1", owner=("ReplicaSet", "api-1"))]


def listed(*items: Json) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(items)})


def read(data: bytes) -> Snapshot:
    return read_cluster(data, source="cluster.json", now=NOW).snapshot(NOW)


def problem(data: bytes) -> str:
    with pytest.raises(InvalidSnapshot) as error:
        read_cluster(data, source="cluster.json", now=NOW)
    assert error.value.source == "cluster.json"
    return str(error.value)


def test_kubectls_list_is_read() -> None:
    snapshot = read(listed(*ITEMS))
    assert snapshot.nodes.names == ("n1",)
    assert str(snapshot.kinds.workloads[0]) == "shop/rs/api-1"


@run_for_each(
    "data",
    [
        b"\n".join(listed(item) for item in ITEMS),
        b"\n".join(msgspec.json.encode(item) for item in ITEMS),
        msgspec.json.encode(ITEMS),
        msgspec.json.encode([{"kind": "List", "items": ITEMS}]),
        b"\xef\xbb\xbf  " + listed(*ITEMS),
        listed(*ITEMS).decode().encode("utf-16"),
        b"\xfe\xff" + listed(*ITEMS).decode().encode("utf-16-be"),
        yaml.safe_dump({"kind": "List", "items": ITEMS}).encode("utf-16"),
        yaml.safe_dump({"kind": "List", "items": ITEMS}).encode(),
        yaml.safe_dump_all([*ITEMS, None]).encode(),
        b"".join(
            msgspec.json.encode(
                {"kind": f"{item['kind']}List", "items": [{k: v for k, v in item.items() if k != "kind"}]}
            )
            for item in ITEMS
        ),
    ],
    ids=[
        "lists",
        "objects",
        "array",
        "array of lists",
        "byte order mark",
        "utf-16",
        "utf-16 be",
        "yaml in utf-16",
        "yaml",
        "yaml documents",
        "typed lists",
    ],
)
def test_every_form_gives_the_same_snapshot(data: bytes) -> None:
    assert read(data).kinds.workloads == read(listed(*ITEMS)).kinds.workloads
    assert read(data).nodes.real.tolist() == [[500, 1 << 30]]


def _nested(objects: list[Json]) -> st.SearchStrategy[Json]:
    """Return Lists of these objects in their order, each alone or in a List, a typed one or one of Lists."""
    if len(objects) == 1:
        (item,) = objects
        bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
        typed = {"apiVersion": item["apiVersion"], "kind": f"{item['kind']}List", "items": [bare]}
        return st.sampled_from([item, typed, {"kind": "List", "items": [item]}, {"kind": "List", "items": [typed]}])
    return st.integers(1, len(objects) - 1).flatmap(
        lambda cut: st.tuples(_nested(objects[:cut]), _nested(objects[cut:])).map(
            lambda parts: {"apiVersion": "v1", "kind": "List", "items": list(parts)}
        )
    )


@given(_nested([{"apiVersion": "v1", **item} for item in [*ITEMS, node("n2"), pod("b", node="n2")]]))
def test_lists_in_lists_are_read_to_their_last_object(document: Json) -> None:
    found = read(msgspec.json.encode(document))
    assert found.nodes.names == ("n1", "n2")
    assert found.nodes.pod_count.tolist() == [1, 1]


def test_json_in_utf_16_is_read_as_json_and_a_half_of_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.cluster.load_yaml.MOST_YAML_BYTES", 10)
    data = listed(*ITEMS).decode().encode("utf-16")
    assert read(data).nodes.names == ("n1",)
    assert "it is not UTF-16, as which it begins" in problem(data[:-1])


def test_timestamps_that_yaml_would_take_for_dates_stay_text() -> None:
    text = yaml.safe_dump(node("n1")).replace("'2027-01-15T07:00:00Z'", "2027-01-15T07:00:00Z")
    assert "creationTimestamp: 2027-" in text
    assert read(text.encode()).node_start_seconds == 60.0


def test_all_kinds_that_matter_are_read_and_others_passed_over() -> None:
    reserve = {"resource-slack.io/reserve": "2"}
    kinds = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob")
    workloads = [workload(kind, kind.lower(), annotations=reserve) for kind in kinds]
    high = pod("high", priorityClassName="high")
    others: list[Json] = [{"kind": "Service", "spec": {"ports": 1}}, {"kind": "Secret"}]
    snapshot = read(listed(*ITEMS, *workloads, *others, priority_class("high", 1000), high))
    assert len(snapshot.reserved) == 5
    assert snapshot.kinds.priority.tolist() == [1000, 0]


def test_a_file_cut_in_half_is_refused_with_the_position() -> None:
    data = listed(*ITEMS)
    text = problem(data[: len(data) // 2])
    assert text.startswith("cluster.json: line 1, column ")
    assert f"of {len(data) // 2}" in text
    assert "kubectl get nodes,pods -A -o json" in text


@run_for_each(
    ("data", "expected"),
    [
        (b"  \n", "it is empty"),
        (listed(), "it has no nodes (found: nothing); include them: kubectl get nodes,pods -A -o json"),
        (listed(ITEMS[1]), "it has no nodes (found: 1 Pod)"),
        (b"{}", "$: it has no `kind`"),
        (listed({"metadata": {}}), "$.items[0]: it has no `kind`"),
        (listed(ITEMS[0], {"kind": 5}), "$.items[1].kind: Expected `str | null`, got `int`"),
        (b'{"kind": "List", "items": 5}', "$.items: Expected `array | null`, got `int`; expected a Kubernetes object"),
        (listed(ITEMS[0], pod("b", tolerations={"a": 1})), "$.items[1]: Pod shop/b: scheduling constraints: "),
        (listed(ITEMS[0], {"kind": "Pod", "metadata": {"name": "b"}, "spec": {"priority": "high"}}),
         "$.items[1].spec.priority: Expected `int | null`, got `str` (a Pod)"),
        (listed(ITEMS[0], pod("b", cpu="lots")),
         "$.items[1]: Pod shop/b: spec.containers[0]: 'lots' is not a quantity such as 500m"),
        (listed(node("n1", cpu="x")), "$.items[0]: Node n1: status.allocatable: 'x' is not a quantity"),
        (listed(ITEMS[0], workload("Deployment", "d", cpu="x", annotations={"resource-slack.io/reserve": "1"})),
         "$.items[1]: Deployment shop/d: spec.containers[0]: 'x' is not a quantity"),
        (b'{"kind": "List"} {"kind": ', "line 1, column "),
        (b'{"a": "\xff', "byte 7: it is not UTF-8"),
        (b"a: [1", "it is neither JSON nor YAML"),
        (b"hello", "$: expected a Kubernetes object or List, got 'hello'"),
        (b"[1]", "$: Expected `object`, got `int`; expected a Kubernetes object or List"),
        (b"kind: List\ntrue: 1", "$: Only dicts with str-like"),
        (b"a: &a [*a]", "line 1: a[0]: an alias stands within what it stands for"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_place(data: bytes, expected: str) -> None:
    assert problem(data).startswith(f"cluster.json: {expected}")


def test_a_list_of_known_kinds_is_gone_through_once_and_gives_what_the_careful_way_gives() -> None:
    policy = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": "a"}, "spec": {}}
    items = [*ITEMS, priority_class("high", 1000), workload("Deployment", "api"), policy]
    seen: dict[int, list[tuple[str, str, object]]] = {}
    snapshots = []
    for number, more in enumerate(([], [{"kind": "Service", "metadata": {"name": "not-read"}}])):
        data = listed(*items, *more)
        assert (load_list.listed(data) is None) == bool(more)
        seen[number] = []

        def also(path: str, kind: str, item: object, to: list[tuple[str, str, object]] = seen[number]) -> None:
            to.append((path, kind, msgspec.json.decode(item) if isinstance(item, bytes | msgspec.Raw) else None))

        snapshots.append(read_cluster(data, source="cluster.json", now=NOW, also=also).snapshot(NOW))
    once, carefully = snapshots
    assert once.kinds.workloads == carefully.kinds.workloads
    assert once.nodes.real.tolist() == carefully.nodes.real.tolist()
    assert [(path, kind) for path, kind, _ in seen[0]] == [(path, kind) for path, kind, _ in seen[1][:-1]]
    assert seen[0][-1][2] == seen[1][-2][2] == policy


@pytest.mark.parametrize(
    "items",
    [
        [{**ITEMS[0], "kind": "Gadget"}],
        [{**ITEMS[0], "metadata": 5}],
        [{"kind": "SlackPolicy", "speck": {}}],
        [{key: value for key, value in ITEMS[0].items() if key != "kind"}],
        [None],
    ],
    ids=["an unknown kind", "a mistake", "a field nobody knows", "no kind", "nothing"],
)
def test_what_is_not_known_in_one_pass_is_left_to_the_careful_way(items: list[Json]) -> None:
    assert load_list.listed(listed(*items)) is None


def test_a_file_that_is_longer_than_memory_likes_is_read_one_object_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_list.listed(listed(*ITEMS)) is not None
    monkeypatch.setattr(load_list, "MOST_BYTES", 10)
    assert load_list.listed(listed(*ITEMS)) is None
