"""R3: when the last real pod has gone, slack goes to its floor, though arrivals are remembered for hours."""

from slack.cluster.labels import API_VERSION
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ExistingShape
from slack.planner.plan import plan
from slack.planner.policy.spec import KIND, Policy, parse_policy
from tests.cluster.build import NOW, Json, apply, columns_of, node, placeholder, pod


def _policy() -> Policy:
    spec: Json = {"extraCapacity": {"minRate": 0.25}}
    return parse_policy(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "default"}, "spec": spec}, source="test"
    )


def test_slack_shrinks_to_nothing_after_the_delay_when_the_last_pod_has_gone() -> None:
    owner = ("ReplicaSet", "api-abc")
    pods = [pod(f"api-{i}", cpu="700m", node=f"n{i % 3}", owner=owner) for i in range(10)]
    columns = columns_of(*(node(f"n{i}") for i in range(3)), *pods)
    policies = [_policy()]
    first = plan(columns.snapshot(NOW), policies, now=NOW)
    (made,) = first.items[0].shapes
    existing = [ExistingShape("default", made.shape, made.role, made.replicas)]
    placed = [
        placeholder(f"p-{i}", cpu="700m", node=f"n{i}", shape=made.shape.name, owner=("ReplicaSet", "slack"))
        for i in range(made.replicas)
    ]
    apply(columns, "ADDED", *placed)
    apply(columns, "DELETED", *pods)
    memory = first.state
    seen = []
    for after in (1.0, 300.0, 602.0):
        now = NOW + after
        current = plan(columns.snapshot(now), policies, now=now, existing=existing, state=memory)
        memory = current.state
        seen.append(current.items[0].shapes[0].replicas)
    assert columns.snapshot(NOW + 602).kinds.arrivals.sum() == 10, "the arrivals are still in the window"
    assert seen == [made.replicas, made.replicas, 0]


def test_a_workload_that_has_gone_is_in_no_condition_though_its_arrivals_count() -> None:
    api = [pod(f"api-{i}", cpu="700m", node="n0", owner=("ReplicaSet", "api-abc")) for i in range(2)]
    huge = [pod(f"huge-{i}", cpu="64", owner=("ReplicaSet", "huge-abc")) for i in range(3)]
    columns, cache = columns_of(node("n0"), *api, *huge), PlanCache()

    def said(after_seconds: float) -> tuple[dict[str, str], tuple[str, ...]]:
        now = NOW + after_seconds
        (found,) = plan(columns.snapshot(now), [_policy()], now=now, cache=cache).items
        reasons = {str(condition.type): condition.reason for condition in found.conditions}
        return reasons, tuple(left.pod for left in found.uncovered)

    reasons, uncovered = said(0.0)
    assert (reasons["Feasible"], reasons["Covered"]) == ("ShapeFitsNowhere", "CoverageMissed")
    assert uncovered == ("shop/rs/huge-abc",)
    apply(columns, "DELETED", *huge)
    reasons, uncovered = said(2.0)
    assert (reasons["Feasible"], reasons["Covered"], uncovered) == ("EveryShapeFits", "CoverageReached", ())
