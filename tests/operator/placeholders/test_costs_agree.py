"""The three costs of a policy, which people compare: `status`, `.status.cost` and the metric are one amount."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from slack.cli.status.answer_text import print_answer
from slack.cluster.hold import Hold
from slack.cluster.labels import INSTANCE_TYPE
from slack.cluster.node_prices import NO_PRICES, NodePrices, parse_prices
from slack.cluster.quantity import base_units, cpu_millis
from slack.health.answer import Health
from slack.health.observation import StatusObservation
from slack.health.verdict import assess
from slack.planner.model.cost import figure
from tests.cases import run_for_each
from tests.health.build import lease
from tests.operator.fakes import NAMESPACE, World, policy
from tests.operator.fakes import node as node_of

BY_AMOUNT = parse_prices({"currency": "EUR", "cpu": 0.03, "memory": 0.004})
BY_TYPE = parse_prices({"currency": "USD", "instanceTypes": {"large": 0.4, "small": 0.05}})
NO_CURRENCY = parse_prices({"instanceTypes": {"large": 0.4}})


@dataclass(frozen=True)
class Scene:
    """A cluster of so many nodes and pods."""

    nodes: int
    pods: int
    rate: float
    prices: NodePrices = NO_PRICES
    hold: Hold = Hold.BOUND
    displaced: int = 0
    """Placeholders that have just left, so that what is held and what is planned differ."""


SIZES = ((1, 2, 0.5), (3, 10, 0.4), (6, 36, 0.2))
PRICES = (NO_PRICES, BY_AMOUNT, BY_TYPE, NO_CURRENCY)
STATES = ((Hold.BOUND, 0), (Hold.BOUND, 1), (Hold.UNBOUND, 0))
SCENES = [
    Scene(*size, prices, *STATES[(row + column) % 3])
    for row, size in enumerate(SIZES)
    for column, prices in enumerate(PRICES)
] + [Scene(3, 0, 0.4, BY_TYPE)]


def world_of(scene: Scene) -> World:
    made = World(scene.nodes, scene.pods)
    made.prices, made.hold = scene.prices, scene.hold
    for number in range(scene.nodes):  # a third of them has no price by type
        kind = ("large", "small", "unheard-of")[number % 3]
        made.api.put(f"/api/v1/nodes/n{number}", node_of(f"n{number}", **{INSTANCE_TYPE: kind}))
    made.restart()
    made.apply_policy(policy("web", extraCapacity={"minRate": scene.rate}))
    made.settle(3)
    for name in sorted(made.placeholders())[: scene.displaced]:
        del made.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"]
    if scene.displaced:
        made.reconcile(seconds=3.0)
        made.loop.publish_held()
    return made


def price_by_amount(world: World) -> float:
    """Return what the placeholders cost that are held, by their own requests: counted here, not by the product."""
    total = 0.0
    for shape in world.status("web")["shapes"]:
        cpu, memory = cpu_millis(shape["requests"]["cpu"]), base_units(shape["requests"]["memory"])
        total += shape["bound"] * (cpu / 1000 * 0.03 + memory / (1 << 30) * 0.004)
    return total


def health_of(world: World) -> Health:
    """Return what `status` prints, for a policy whose operator runs."""
    now = datetime.fromtimestamp(world.wall.now, UTC)
    document = world.api.items("slackpolicies")["web"]
    seen = StatusObservation((document,), True, None, lease(now=now), True, 1, ())
    return assess(seen, now=world.wall.now, namespace=NAMESPACE, lease_name=NAMESPACE)


@run_for_each("scene", SCENES)
def test_status_and_its_cost_and_the_metric_are_one_amount(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    world = world_of(scene)
    cost = world.status("web")["cost"]
    metric = world.metrics.registry.get_sample_value
    per_hour = metric("slack_cost_per_hour", {"policy": "web", "currency": scene.prices.currency})
    nodes = metric("slack_cost_nodes", {"policy": "web"})
    assert nodes is not None
    assert (nodes > 0) == any(shape["bound"] for shape in world.status("web").get("shapes", ()))
    assert (nodes > 0) or scene.displaced or not scene.pods
    assert cost["nodeHoursPerHour"] == figure(nodes)
    assert cost.get("perHour") == (None if per_hour is None else figure(per_hour))
    assert cost.get("currency", "") == (scene.prices.currency if per_hour is not None else "")
    if scene.prices is BY_AMOUNT:
        assert per_hour == pytest.approx(price_by_amount(world))

    capsys.readouterr()
    print_answer(health_of(world), wide=False)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  costs ")]
    assert line == f"  costs     {cost['text']}"
    now = cost["text"].partition(" now; ")[0]
    plural = "" if cost["nodeHoursPerHour"] == "1" else "s"
    assert f"{cost['nodeHoursPerHour']} node{plural}" in now
    if per_hour is not None:
        unit = f" {cost['currency']}" if cost.get("currency") else ""
        assert now.startswith(f"{cost['perHour']}{unit} per hour, {cost['perMonth']}{unit} per month (")
