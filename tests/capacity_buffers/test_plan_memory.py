"""Plans made with a memory of earlier ones: the same as without, and the same objects where nothing has changed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slack.capacity_buffers.api import CapacityBuffer, PodTemplateObject, ScaledTarget
from slack.capacity_buffers.ceiling import BufferCeiling
from slack.capacity_buffers.plan import BufferPlan, plan_buffers
from slack.capacity_buffers.plan_memory import PlanMemory
from slack.cluster import wire
from slack.cluster.columns import ClusterColumns
from slack.cluster.labels import ZONE
from tests.capacity_buffers.scenes import buffer, inputs, pod_spec, quota, template
from tests.cluster.build import as_pod, columns_of, node, pod

NOW = 1_800_000_000.0
NODES = [node(f"n{i}", cpu="8", memory="32Gi", labels={ZONE: f"z{i % 3}"}) for i in range(3)]
SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
}


def _web(number: int, cpu: str, created: str) -> Any:
    labels = {"pod-template-hash": "1", "app": "web"}
    owner = ("ReplicaSet", "web-1")
    return pod(f"web-{number}", cpu=cpu, owner=owner, labels=labels, created=created, node=f"n{number % 3}")


class _World:
    """Objects as watches keep them: what changes is replaced, the rest stays the same object."""

    def __init__(self) -> None:
        self.buffers: dict[str, CapacityBuffer] = {}
        self.templates: dict[str, PodTemplateObject] = {"chunk": template(), "spread": _spread_template()}
        self.target = ScaledTarget(4, pod_spec(cpu="250m"), {"app": "web"})
        self.quotas: list[wire.ResourceQuota] = []
        self.columns: ClusterColumns = columns_of(*NODES)
        self.columns.dates_pods = True
        self.number = 0

    def plan(self, memory: PlanMemory, ceiling: BufferCeiling) -> tuple[BufferPlan, ...]:
        targets = dict.fromkeys((f"shop/{own.metadata.name}" for own in self.buffers.values()), self.target)
        found = inputs(list(self.templates.values()), targets, self.quotas, ceiling, memory=memory)
        return plan_buffers(self.columns.snapshot(NOW), list(self.buffers.values()), found)

    def change(self, what: int, amount: int) -> None:
        self.number += 1
        name = f"cb{amount % 3}"
        match what:
            case 0:
                self.buffers[name] = buffer(name, age=amount, podTemplateRef={"name": "chunk"}, replicas=amount)
            case 1:
                reference = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
                self.buffers[name] = buffer(name, scalableRef=reference, percentage=25 * amount)
            case 2:
                self.buffers.pop(name, None)
            case 3:
                self.templates["chunk"] = template(generation=self.number, cpu=f"{100 + amount}m")
            case 4:
                self.target = ScaledTarget(amount, pod_spec(cpu=f"{100 * (1 + amount)}m"), {"app": "web"})
            case 5:
                self.quotas = [quota({"pods": str(amount), "requests.cpu": str(1 + 2 * amount)})]
            case 6:
                created = f"2027-01-15T07:{self.number % 60:02}:00Z"
                self.columns.apply_pods([("ADDED", as_pod(_web(self.number, f"{100 * (1 + amount)}m", created)))])
            case 7:
                self.buffers[name] = buffer(name, podTemplateRef={"name": "spread"}, replicas=amount, status={"a": 1})
            case _:
                self.templates.pop("chunk", None)


def _spread_template() -> PodTemplateObject:
    made = template("spread", **SPREAD)
    assert made.template is not None
    made.template.metadata = wire.Metadata(name="", labels={"app": "spread"})
    return made


def _said(plan: BufferPlan) -> tuple[object, ...]:
    requests = None if plan.chunk is None else plan.chunk.requests
    size = (plan.asked, plan.replicas, plan.limits, plan.parts, plan.template, plan.template_generation)
    return (plan.buffer, plan.problem, plan.is_waiting, plan.shape, requests, size)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), min_size=1, max_size=8),
    st.sampled_from([BufferCeiling(), BufferCeiling(cpu=3000, namespace_share=0.5)]),
)
def test_a_plan_with_memory_is_the_plan_without(changes: list[tuple[int, int]], ceiling: BufferCeiling) -> None:
    world, memory = _World(), PlanMemory()
    for what, amount in changes:
        world.change(what, amount)
        with_memory, without = world.plan(memory, ceiling), world.plan(PlanMemory(), ceiling)
        assert [_said(plan) for plan in with_memory] == [_said(plan) for plan in without]


@pytest.mark.parametrize("ceiling", [BufferCeiling(), BufferCeiling(cpu=100_000)])
def test_what_has_not_changed_is_the_same_object(ceiling: BufferCeiling) -> None:
    world, memory = _World(), PlanMemory()
    world.change(6, 3)
    for what, amount in ((0, 3), (1, 1), (7, 5)):
        world.change(what, amount)
    before = world.plan(memory, ceiling)
    assert sorted(plan.asked for plan in before) == [1, 3, 5]

    assert all(one is other for one, other in zip(before, world.plan(memory, ceiling), strict=True))
    world.change(6, 3)  # one more pod of the same kind
    world.change(5, 20)  # a quota that cuts nothing
    after = world.plan(memory, ceiling)
    assert [one is other for one, other in zip(before, after, strict=True)] == [True] * len(before)
    world.change(4, 5)
    changed = [one is not other for one, other in zip(after, world.plan(memory, ceiling), strict=True)]
    assert changed.count(True) == sum(plan.template is None for plan in after)


def test_an_edit_of_a_template_that_gives_no_size_is_told_of() -> None:
    world, memory = _World(), PlanMemory()
    world.buffers["cb"] = buffer(podTemplateRef={"name": "chunk"}, limits={"nvidia.com/gpu": "1"})
    told = []
    for generation in (1, 2):
        world.templates["chunk"] = template(generation=generation)
        (plan,) = world.plan(memory, BufferCeiling())
        told.append((plan.problem is not None, plan.template, plan.template_generation))
    assert told == [(True, "chunk", 1), (True, "chunk", 2)]
