"""Gangs: pods with a schedulingGroup, which start together or not at all."""

from typing import Any

from slack.planner.model.result import PolicyPlan
from slack.planner.model.shape import Role
from slack.planner.objects.manifests import pod_spec
from tests.cluster.build import Json, node, workload
from tests.planner.scenes import FREELY, plan_of, replicas, sizes

NODES = [node(name, cpu="16", memory="64Gi") for name in "abcd"]


def gang(count: int, name: str = "train", group: str | None = "run-1", **more: Any) -> list[Json]:
    pods = replicas(count, name, "4", "4Gi", **more)
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {} if group is None else {"podGroupName": group}
    return pods


def said(item: PolicyPlan) -> dict[str, str]:
    return {uncovered.pod.rpartition("/")[2]: uncovered.reason for uncovered in item.uncovered}


def test_a_gang_that_all_slack_cannot_hold_whole_is_named_and_how_much_of_it_would_fit() -> None:
    item = plan_of(*NODES, *gang(8), extraCapacity={"minRate": 0, "floor": {"cpu": "12", "memory": "12Gi"}})
    assert said(item)["train"] == (
        "its gang run-1 is 8 pods, which start together or not at all, and all slack wanted here has room for 3 of "
        "them: annotate it with resource-slack.io/reserve for room for all"
    )


def test_slack_that_holds_the_gang_whole_covers_it() -> None:
    item = plan_of(*NODES, *gang(3), extraCapacity={"minRate": 0, "floor": {"cpu": "12", "memory": "12Gi"}})
    assert said(item) == {}


def test_pods_without_a_group_or_alone_in_it_start_one_by_one() -> None:
    more: Any = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "4", "memory": "4Gi"}}}
    assert said(plan_of(*NODES, *replicas(8, "api", "4", "4Gi"), **more)) == {}
    assert said(plan_of(*NODES, *gang(8, group=None), **more)) == {}
    assert said(plan_of(*NODES, *gang(1), **more)) == {}


def test_gangs_are_told_apart_by_name_and_namespace() -> None:
    more: Any = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "12", "memory": "12Gi"}}}
    pods = [pod for number in range(4) for pod in gang(2, f"train{number}", f"run-{number}")]
    assert said(plan_of(*NODES, *pods, **more)) == {}
    together = [pod for number in range(4) for pod in gang(2, f"train{number}")]
    assert set(said(plan_of(*NODES, *together, **more))) == {f"train{number}" for number in range(4)}


def test_a_reserve_for_less_than_the_gang_is_named_and_one_for_all_of_it_is_not() -> None:
    for reserve, expected in (("2", {"train"}), ("8", set())):
        annotated = gang(8, annotations={"resource-slack.io/reserve": reserve})
        item = plan_of(*NODES, *annotated, extraCapacity={"minRate": 0}, reserve=FREELY)
        assert [count for count, *_ in sizes(item, Role.MIRROR)] == [int(reserve)]
        assert set(said(item)) == expected


def test_what_is_kept_for_others_is_no_room_for_a_gang() -> None:
    others = replicas(8, "api", "4", "4Gi", annotations={"resource-slack.io/reserve": "8"})
    assert "train" in said(plan_of(*NODES, *gang(4), *others, extraCapacity={"minRate": 0}, reserve=FREELY))


def test_the_group_is_never_copied_to_a_placeholder() -> None:
    job = workload("Job", "train", replicas=4, cpu="4", annotations={"resource-slack.io/reserve": "4"})
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "run-1"}
    item = plan_of(*NODES, job, *gang(4, annotations={"resource-slack.io/reserve": "4"}), reserve=FREELY)
    assert item.shapes
    for shape in item.shapes:
        assert "schedulingGroup" not in pod_spec("web", shape.shape, "pause")


def test_a_gang_that_can_displace_nobody_is_named_for_that() -> None:
    pods = gang(8)
    for pod in pods:
        pod["spec"]["preemptionPolicy"] = "Never"
    item = plan_of(*NODES, *pods)
    assert "preemptionPolicy Never" in said(item)["train"]
