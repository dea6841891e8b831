"""The soft taint of nodes: written, kept beside the taints of others, taken away, and what is said where it may not."""

from typing import Any

from slack.cluster.labels import SOFT_TAINT
from slack.kube.errors import ApiError
from slack_operator.placeholders.act.soft_tainting import FORBIDDEN_SECONDS, TAINT
from tests.operator.fakes import Json, World, policy

SLACK: dict[str, Any] = {
    "hold": "Unbound",
    "extraCapacity": {"minRate": 0.5},
    "stabilization": {"shrinkDelay": "0s"},
}
OTHERS: Json = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}


class _Tainted(World):
    soft_taint = True

    def __init__(self, *, soft_taint: bool = True) -> None:
        self.soft_taint = soft_taint
        super().__init__(4, 8)
        self.apply_policy(policy("web", **SLACK))

    def turns(self, count: int = 4, seconds: float = 10.0) -> None:
        for _ in range(count):
            self.reconcile(seconds=seconds)
            self.tainting.write_due()
            self.unbound.write_due()

    def taints(self) -> dict[str, list[Json]]:
        found = {name: item.get("spec", {}).get("taints", []) for name, item in self.api.items("nodes").items()}
        return {name: taints for name, taints in found.items() if taints}

    def tainted(self) -> set[str]:
        return {name for name, taints in self.taints().items() if TAINT in taints}

    def writes_of_nodes(self) -> int:
        return sum(path.startswith("/api/v1/nodes/") for _, path in self.api.log)

    def put_taints(self, name: str, taints: list[Json]) -> None:
        item = self.api.items("nodes")[name]
        item.setdefault("spec", {})["taints"] = taints
        self.api._bump(item)


def test_few_nodes_are_tainted_once_and_placeholders_tolerate_it() -> None:
    world = _Tainted()
    world.turns()
    assert 0 < len(world.tainted()) < 4
    (template,) = (item["spec"]["template"]["spec"] for item in world.api.items("replicasets").values())
    assert {"key": SOFT_TAINT, "operator": "Exists", "effect": "PreferNoSchedule"} in template["tolerations"]
    writes = world.writes_of_nodes()
    assert writes == len(world.tainted())
    world.turns(10)
    assert world.writes_of_nodes() == writes
    assert world.condition("web", "SoftTaintBlocked") == {}


def test_it_goes_with_the_policy_and_another_s_taint_stays() -> None:
    world = _Tainted()
    world.turns()
    (name, *_) = sorted(world.tainted())
    world.put_taints(name, [OTHERS, TAINT])
    del world.api.objects["/apis/resource-slack.io/v1alpha1/slackpolicies/web"]
    for path in [path for path in world.api.objects if "/replicasets/" in path or "/pods/slack-" in path]:
        del world.api.objects[path]
    world.turns(2)
    assert world.taints() == {name: [OTHERS]}


def test_a_write_of_somebody_else_in_between_is_not_lost() -> None:
    world = _Tainted()
    intruded: list[str] = []

    def intrude(verb: str, path: str) -> ApiError | None:
        if path.startswith("/api/v1/nodes/") and not intruded:
            intruded.append(path.rpartition("/")[2])
            world.put_taints(intruded[0], [OTHERS])
        return None

    world.api.refuse = intrude
    world.turns(6)
    assert world.taints()[intruded[0]] == [OTHERS, TAINT]


def test_the_form_bound_takes_it_away() -> None:
    world = _Tainted()
    world.turns()
    assert world.tainted()
    world.apply_policy(policy("web", generation=2, **{**SLACK, "hold": "Bound"}))
    world.turns(12)
    assert world.tainted() == set()


def test_taints_of_an_earlier_process_go_where_the_setting_is_off() -> None:
    world = _Tainted()
    world.turns()
    assert world.tainted()
    world.soft_taint = False
    world.restart()
    world.turns(2)
    assert world.tainted() == set()


def test_off_nothing_is_written() -> None:
    world = _Tainted(soft_taint=False)
    world.turns()
    assert world.writes_of_nodes() == 0
    assert "tolerations" not in next(iter(world.api.items("replicasets").values()))["spec"]["template"]["spec"]


def test_placeholders_without_the_toleration_keep_taints_from_being_written() -> None:
    world = _Tainted()
    world.reconcile(seconds=10)
    for item in world.api.items("pods").values():
        item["spec"].pop("tolerations", None)
    world.turns(1)
    assert world.tainted() == set()


def test_without_the_right_the_policy_says_so_and_it_is_tried_again_later() -> None:
    world = _Tainted()
    world.api.refuse = lambda _, path: (
        ApiError(403, "Forbidden", "nodes is forbidden: may not patch") if path.startswith("/api/v1/nodes/") else None
    )
    world.turns()
    found = world.condition("web", "SoftTaintBlocked")
    assert (found["status"], found["reason"]) == ("True", "TaintNotPermitted")
    assert "may not patch" in found["message"]
    tries = world.writes_of_nodes()
    assert tries == 1
    world.api.refuse = lambda _verb, _path: None
    world.turns(3, seconds=FORBIDDEN_SECONDS / 2)
    assert world.tainted()
    assert world.condition("web", "SoftTaintBlocked") == {}


def test_a_node_whose_taint_somebody_takes_away_each_time_is_left_alone() -> None:
    world = _Tainted()
    for _ in range(10):
        world.turns(1)
        for name in world.tainted():
            world.put_taints(name, [])
        world.turns(1, seconds=15)
    found = world.condition("web", "SoftTaintBlocked")
    assert found["reason"] == "WrittenBack"
    assert SOFT_TAINT in found["message"]
