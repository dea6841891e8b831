"""The number of standard placeholders that a policy with a fixed number tells to who scales it."""

from slack.planner.model.result import PolicyPlan
from tests.cases import run_for_each
from tests.cluster.build import Json, node, placeholder
from tests.planner.scenes import ZONE, as_existing, plan_of, replicas

NODES = [node(name, cpu="16", memory="64Gi", labels={ZONE: f"zone-{name}"}) for name in ("n", "m")]
PODS = replicas(6, "api", "500m", "1Gi", node="n")


def carried_out(item: PolicyPlan, node_name: str = "n") -> list[Json]:
    """Return the placeholder pods of a plan, on a node or, without a name, on none."""
    where: Json = {"node": node_name} if node_name else {}
    found = []
    for shape in item.shapes:
        amounts = dict(shape.shape.requests)
        cpu, memory = f"{amounts['cpu']}m", str(amounts["memory"])
        name = shape.shape.name
        found += [placeholder(f"{name}-{i}", cpu, memory, shape=name, **where) for i in range(shape.count)]
    return found


@run_for_each("zones", ["None", "Zone"])
@run_for_each("mode", ["None", "Frequent", "Everything", "Largest"])
@run_for_each("asked", [0, 1, 4, 9])
def test_a_plan_that_is_carried_out_has_the_replicas_that_were_asked_for(mode: str, asked: int, zones: str) -> None:
    spec: Json = {"extraCapacity": {"replicas": asked}, "cover": {"mode": mode}, "perDomain": zones}
    first = plan_of(*NODES, *PODS, **spec)
    assert first.replicas == 0
    then = plan_of(*NODES, *PODS, *carried_out(first), existing=as_existing(first), **spec)
    assert then.replicas is not None
    assert then.replicas >= asked
    if mode == "None":
        assert then.replicas == (asked if zones == "None" else asked + asked % 2)


def test_placeholders_that_wait_for_a_node_are_replicas_as_those_of_a_deployment_are() -> None:
    spec: Json = {"extraCapacity": {"replicas": 3}}
    first = plan_of(*NODES, *PODS, **spec)
    then = plan_of(*NODES, *PODS, *carried_out(first, ""), existing=as_existing(first), **spec)
    assert (then.replicas, int(then.reserved[0])) == (3, 0)


def test_a_rate_has_no_number_and_a_window_with_a_rate_keeps_that_of_the_policy() -> None:
    assert plan_of(*NODES, *PODS).replicas is None
    window = {"start": "2020-01-01T00:00:00Z", "until": "2120-01-01T00:00:00Z", "minRate": 0.5}
    spec: Json = {"extraCapacity": {"replicas": 3, "schedule": [window]}}
    first = plan_of(*NODES, *PODS, **spec)
    then = plan_of(*NODES, *PODS, *carried_out(first), existing=as_existing(first), **spec)
    assert (then.rate, then.replicas is None) == (0.5, False)
