"""The form of placeholders under `spec.hold: Auto`: chosen by the autoscaler, kept over restarts, given up in time."""

from typing import Any

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack_operator.placeholders.autoscalers import Autoscaler, Recognition
from tests.operator.fakes import World, policy

SLACK: dict[str, Any] = {"extraCapacity": {"minRate": 0.5}, "stabilization": {"shrinkDelay": "0s"}}


def world_of(**spec: Any) -> World:
    world = World(nodes=3, pods=9)
    world.apply_policy(policy("web", **(SLACK | spec)))
    return world


def turn(world: World, turns: int = 6, *, seconds: float = 10.0) -> None:
    for _ in range(turns):
        world.reconcile(seconds=seconds)
        world.observe()
        world.unbound.turn()


def test_a_restart_keeps_the_form_until_the_autoscaler_is_looked_for() -> None:
    world = world_of(hold="Auto")
    world.autoscaler = Autoscaler("Karpenter", "NodePool general")
    turn(world)
    uids = {pod["metadata"]["uid"] for pod in world.placeholders().values()}
    world.autoscaler, world.recognition_lasts = None, False
    world.restart()
    turn(world, 12)
    assert {pod["metadata"]["uid"] for pod in world.placeholders().values()} == uids
    world.recognition_lasts = True
    turn(world, 20)
    assert all(pod["spec"].get("nodeName") for pod in world.placeholders().values())


def test_nothing_is_planned_before_the_first_look_for_an_autoscaler() -> None:
    world = world_of(hold="Auto")
    found = Recognition(Autoscaler("Karpenter", "NodePool general"), lasting=True)
    looked: list[Recognition] = []
    world.loop._forms._recognised = lambda: looked[-1] if looked else None
    turn(world)
    assert not world.placeholders()
    looked.append(found)
    turn(world)
    assert all(pod["spec"]["schedulerName"] == UNBOUND_SCHEDULER for pod in world.placeholders().values())
