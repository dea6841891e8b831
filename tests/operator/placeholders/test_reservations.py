"""A workload that gets less than it reserves is told, and the policy's status says so."""

import pytest

from slack.health.reasons import RESERVATION_CUT
from slack_operator.web import explaining
from tests.operator.fakes import World, pod, policy
from tests.operator.placeholders.test_loop import world
from tests.operator.web.test_web import none, watched


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


@pytest.mark.parametrize(("asked", "granted"), [("2", 2), ("1", 1), ("50%", 1), ("3", 2)])
def test_on_a_small_cluster_two_namespaces_get_what_they_reserve_and_a_cut_is_told_in_three_places(
    asked: str, granted: int
) -> None:
    """Two workloads of two pods each, the default policy: each may have as many again as run."""
    w = World(nodes=3, pods=0)
    for space in ("shop", "pay"):
        for number in range(2):
            item = pod(f"api-abc-{space}{number}", f"n{number}")
            item["metadata"] |= {"namespace": space, "annotations": {"resource-slack.io/reserve": asked}}
            w.api.put(f"/api/v1/namespaces/{space}/pods/{item['metadata']['name']}", item)
    w.apply_policy(policy("web"))
    board = watched(w)
    w.settle(8)
    status = w.status("web")
    mirrors = {tuple(shape["for"]): shape["count"] for shape in status["shapes"] if shape["role"] == "mirror"}
    assert mirrors == {(f"{space}/deploy/api",): granted for space in ("shop", "pay")}
    cut = asked == "3"
    assert [entry["workload"] for entry in status.get("cut", ())] == (
        ["pay/deploy/api", "shop/deploy/api"] if cut else []
    )
    told = [str(line) for line in w.recorder.lines if line[1] == RESERVATION_CUT]
    assert len(told) == (2 if cut else 0)
    reconciliation = board.last()[2]
    assert reconciliation is not None
    for space in ("shop", "pay"):
        answer = explaining.answer(reconciliation, "deploy", "api", space, none)
        line = "  less is kept than it reserves: policy web: spec.reserve.maxShare (100% of its running pods) allows 2"
        assert (line in answer.text) == cut
