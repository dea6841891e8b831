"""A workload that gets less than it reserves is told, and the policy's status says so."""

from slack.process.reasons import RESERVATION_CUT
from tests.operator.placeholders.test_loop import world


def test_a_reservation_that_is_cut_is_said_once_on_the_workload_and_in_status() -> None:
    w = world()
    for item in w.api.items("pods").values():
        item["metadata"].setdefault("annotations", {})["resource-slack.io/reserve"] = "1000"
    w.settle(5)
    said = [line for line in w.recorder.lines if line[1] == RESERVATION_CUT]
    assert len(said) == 1
    assert "of the 1000 reserved placeholders, policy web" in str(said[0])
    (cut,) = w.status("web")["cut"]
    assert cut["asked"] == 1000
    assert cut["granted"] < 1000
    assert "spec.reserve" in cut["reason"]


def test_a_namespace_that_is_relabelled_while_the_operator_runs_may_reserve_from_then_on_or_no_more() -> None:
    chosen = {"namespaces": {"matchLabels": {"tier": "gold"}}, "maxShare": 1}
    w = world(reserve=chosen | {"ceiling": {"cpu": "9", "memory": "9Gi", "pods": "9"}})
    for item in w.api.items("pods").values():
        item["metadata"].setdefault("annotations", {})["resource-slack.io/reserve"] = "1"
        space = item["metadata"]["namespace"]

    def not_selected(*labels: str) -> bool:
        found = {"metadata": {"name": space, "labels": dict.fromkeys(labels, "gold")}}
        w.api.put(f"/api/v1/namespaces/{space}", found)
        w.settle(8)
        return any("does not select" in cut["reason"] for cut in w.status("web").get("cut", ()))

    assert [not_selected(), not_selected("tier"), not_selected()] == [True, False, True]
