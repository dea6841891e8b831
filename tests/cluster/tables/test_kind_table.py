"""Pods that say the same are of one kind, and what is remembered of their words ends with them."""

from typing import Any

import pytest

from slack.cluster.columns import ClusterColumns
from tests.cluster.build import NAMESPACE, NOW, Json, apply, node, pod

HOST = "kubernetes.io/hostname"
LATER = NOW + 86_400.0
"""When no arrival of the tests counts any more."""


def spread(key: str, **more: Any) -> Json:
    """Return a required anti-affinity to pods with some value of a label."""
    expression = {"key": key, "operator": "Exists"}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [expression]}, **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def web(name: str, labels: dict[str, str] | None, key: str = "app", owner: str = "web") -> Json:
    return pod(name, node="n0", owner=("StatefulSet", owner), labels=labels, affinity=spread(key))


def filled(*pods: Json) -> ClusterColumns:
    columns = ClusterColumns(NAMESPACE)
    apply(columns, "ADDED", node("n0"), *pods)
    return columns


def kinds(columns: ClusterColumns) -> list[tuple[tuple[tuple[str, str], ...], int]]:
    """Return labels and pods of each kind."""
    found = columns.snapshot(NOW).kinds
    return sorted(zip(found.labels, found.running.tolist(), strict=True))


def test_labels_at_which_terms_look_tell_kinds_apart_and_others_do_not() -> None:
    columns = filled(
        web("a", {"app": "x", "pod": "a"}),
        web("b", {"app": "x", "pod": "b"}),
        web("c", {"app": "y", "pod": "c"}),
        web("d", {"pod": "d"}),
        web("e", None),
    )
    assert kinds(columns) == [((), 2), ((("app", "x"),), 2), ((("app", "y"),), 1)]


def test_a_label_that_changes_moves_the_pod_to_another_kind_and_back() -> None:
    columns = filled(web("a", {"app": "x"}), web("b", {"app": "x"}))
    apply(columns, "MODIFIED", web("b", {"app": "y"}))
    assert kinds(columns) == [((("app", "x"),), 1), ((("app", "y"),), 1)]
    apply(columns, "MODIFIED", web("b", {"app": "x"}))
    assert kinds(columns) == [((("app", "x"),), 2)]


def test_equal_terms_of_other_owners_and_other_keys_are_kept_apart() -> None:
    labels = {"app": "x", "tier": "x"}
    columns = filled(web("a", labels), web("b", labels, owner="other"), web("c", labels, key="tier"))
    assert kinds(columns) == [((("app", "x"),), 1), ((("app", "x"),), 1), ((("tier", "x"),), 1)]


@pytest.mark.parametrize("first", ["x", "y"])
def test_the_words_of_a_kind_are_forgotten_with_it_whichever_kind_brought_them(first: str) -> None:
    other = "y" if first == "x" else "x"
    columns = filled(web("a", {"app": first}), web("b", {"app": other}))
    texts = columns.kinds.texts
    known = len(texts)
    apply(columns, "DELETED", web("a", {"app": first}))
    columns.snapshot(LATER)
    apply(columns, "MODIFIED", web("b", {"app": other, "pod": "b"}))
    assert kinds(columns) == [((("app", other),), 1)]
    assert len(texts) == known - 1, "the text of both, and that of the kind that is left"
    apply(columns, "DELETED", web("b", {"app": other}))
    columns.snapshot(LATER)
    assert not len(texts)


def test_kinds_that_come_and_go_beside_one_that_stays_leave_nothing() -> None:
    columns = filled(web("stays", {"app": "stays"}))
    texts = columns.kinds.texts
    for round_ in range(50):
        passing = web(f"p{round_}", {"app": f"x{round_}"})
        apply(columns, "ADDED", passing)
        apply(columns, "DELETED", passing)
        columns.snapshot(LATER)
        apply(columns, "MODIFIED", web("stays", {"app": "stays", "round": str(round_)}))
        assert len(texts) == 2
    assert sum(map(len, texts._texts.values())) == 2


def test_a_pod_with_another_port_or_claim_than_its_like_is_of_another_kind() -> None:
    plain, claims, ports = (pod(name, node="n0", owner=("StatefulSet", "web")) for name in "abc")
    claims["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    ports["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    found = filled(plain, claims, ports).snapshot(NOW).kinds
    assert sorted(found.unchecked) == [(), ("host ports",), ("volume claims",)]
