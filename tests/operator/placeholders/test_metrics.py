"""What Prometheus is told: a policy's series come with its plan and go with it, and a standby has none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slack.planner.objective.amount import SizingReason
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.report.metrics import Metrics, WatchRestarts, described
from slack_operator.runtime.conditions import rfc3339
from slack_operator.runtime.debounce import Debouncer
from tests.operator.fakes import Clock, World, pod, policy
from tests.planner.objects.test_decide import policy_plan, shape_plan


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def of_policies(metrics: Metrics) -> set[str]:
    return {
        sample.labels["policy"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if "policy" in sample.labels
    }


def world(**spec: Any) -> World:
    made = World()
    made.apply_policy(policy("web", **({"extraCapacity": {"minRate": 0.4}} | spec)))
    return made


def test_figures_are_in_cores_and_bytes_and_other_resources_stand_beside_them() -> None:
    metrics = Metrics()
    amounts = np.array([1500, 1 << 30, 2], dtype=np.int64)
    plan = replace(
        policy_plan(shape_plan(1)), resources=("cpu", "memory", "nvidia.com/gpu"), desired=amounts, reserved=amounts * 0
    )
    metrics.show([plan])
    assert value(metrics, "slack_desired_cpu_cores", policy="web") == 1.5
    assert value(metrics, "slack_reserved_memory_bytes", policy="web") == 0
    gpu = {"policy": "web", "resource": "nvidia.com/gpu"}
    assert value(metrics, "slack_desired_extended_resources", **gpu) == 2
    assert value(metrics, "slack_reserved_extended_resources", **gpu) == 0
    metrics.show([replace(plan, desired=amounts * 0)])
    assert value(metrics, "slack_desired_extended_resources", **gpu) is None, "nobody wants or has it any more"


def test_what_buffers_keep_of_the_slack_is_shown_while_there_are_some() -> None:
    metrics = Metrics()
    plan = policy_plan(shape_plan(1))
    metrics.show([replace(plan, buffered=np.array([2500, 4 << 30]))])
    assert value(metrics, "slack_buffered_cpu_cores", policy="web") == 2.5
    assert value(metrics, "slack_buffered_memory_bytes", policy="web") == 4 << 30
    metrics.show([plan])
    assert value(metrics, "slack_buffered_cpu_cores", policy="web") is None


def test_everything_of_a_policy_goes_with_it() -> None:
    metrics = Metrics()
    metrics.show([policy_plan(shape_plan(1))])
    metrics.show_conditions("web", [StatusCondition("Ready", True, "SlackIsThere", "")])
    metrics.show_displaced({("web", "Deleted"): 1})
    metrics.started("web", 0.1, in_slack=True)
    assert of_policies(metrics) == {"web"}
    metrics.keep_only(["batch"])
    assert of_policies(metrics) == set()


def test_what_is_taken_back_for_a_policy_that_is_gone_leaves_no_series() -> None:
    metrics = Metrics()
    metrics.took_back("gone", "pods")
    metrics.took_back("web", "pods")
    metrics.took_back("", "globalDefault")
    metrics.keep_only(["web"])
    assert of_policies(metrics) == {"web", ""}
    assert value(metrics, "slack_ownership_taken_back_total", policy="web", part="pods") == 1


def test_the_displaced_counter_begins_at_zero_and_follows_the_view() -> None:
    metrics = Metrics()
    metrics.show([policy_plan(shape_plan(1))])
    assert value(metrics, "slack_displaced_total", policy="web", cause="PreemptionByScheduler") == 0
    metrics.show_displaced({("web", "Deleted"): 2})
    metrics.show_displaced({("web", "Deleted"): 3})
    assert value(metrics, "slack_displaced_total", policy="web", cause="Deleted") == 3


def test_causes_that_somebody_made_up_are_one_label_value() -> None:
    metrics = Metrics()
    metrics.show([policy_plan(shape_plan(1))])
    metrics.show_displaced({("web", "Whim-1"): 2, ("web", "Whim-2"): 1})
    assert value(metrics, "slack_displaced_total", policy="web", cause="Other") == 3


def test_a_policy_that_comes_back_goes_on_from_the_views_count() -> None:
    metrics = Metrics()
    metrics.show([policy_plan(shape_plan(1))])
    metrics.show_displaced({("web", "Deleted"): 2})
    metrics.keep_only([])
    metrics.show([policy_plan(shape_plan(1))])
    metrics.show_displaced({("web", "Deleted"): 5})
    assert value(metrics, "slack_displaced_total", policy="web", cause="Deleted") == 5


def test_a_turn_tells_placeholders_coverage_conditions_and_the_time() -> None:
    w = world()
    w.settle()
    assert value(w.metrics, "slack_bound_placeholders", policy="web") == 4
    assert value(w.metrics, "slack_pending_placeholders", policy="web") == 0
    assert value(w.metrics, "slack_coverage_ratio", policy="web") == 1
    assert value(w.metrics, "slack_plan_timestamp_seconds") == w.wall.now
    ready = {"policy": "web", "type": "Ready"}
    assert value(w.metrics, "slack_policy_condition", status="true", **ready) == 1
    assert value(w.metrics, "slack_policy_condition", status="false", **ready) == 0
    stuck = {"policy": "web", "type": "PreemptionStuck"}
    assert value(w.metrics, "slack_policy_condition", status="true", **stuck) == 0


def test_coverage_is_the_share_that_the_condition_names() -> None:
    w = world(cover={"coverage": 0.5, "maxShapes": 1})
    for number in range(5):  # too large for any placeholder that the ceiling of one shape leaves
        w.api.put(f"/api/v1/namespaces/shop/pods/big-{number}", pod(f"big-{number}", "n0", memory="12Gi"))
    w.settle()
    share = value(w.metrics, "slack_coverage_ratio", policy="web")
    assert share is not None
    assert share == pytest.approx(10 / 15)
    assert w.condition("web", "Covered")["message"].startswith(f"{share:.1%} of arrivals")


def test_nothing_to_cover_is_covered() -> None:
    w = World(pods=0)
    w.apply_policy(policy("web"))
    w.settle()
    assert value(w.metrics, "slack_coverage_ratio", policy="web") == 1


def test_a_policy_that_fits_no_node_covers_nothing() -> None:
    w = world(nodeSelector={"pool": "nowhere"})
    w.settle()
    assert value(w.metrics, "slack_coverage_ratio", policy="web") == 0
    assert value(w.metrics, "slack_policy_condition", policy="web", type="Covered", status="false") == 1


def test_an_invalid_policy_has_its_condition_and_no_figures() -> None:
    w = world(granularity=-1)
    w.settle()
    assert value(w.metrics, "slack_policy_condition", policy="web", type="Ready", status="false") == 1
    assert value(w.metrics, "slack_desired_cpu_cores", policy="web") is None


def test_a_dry_run_is_marked() -> None:
    w = world(dryRun=True)
    w.settle()
    assert value(w.metrics, "slack_policy_dry_run", policy="web") == 1


def test_a_standby_shows_no_figures_of_policies() -> None:
    w = world()
    w.settle()
    w.leading = False
    w.reconcile()
    assert of_policies(w.metrics) == set()
    assert value(w.metrics, "slack_leader") == 0
    w.leading = True
    w.reconcile()
    assert of_policies(w.metrics) == {"web"}


def test_a_view_that_is_not_whole_is_a_condition_and_the_last_plan_grows_old() -> None:
    w = world()
    w.settle()
    planned = w.wall.now
    w.fresh.text = "pods are not listed yet"
    w.settle(8)
    assert value(w.metrics, "slack_policy_condition", policy="web", type="ViewStale", status="true") == 1
    assert value(w.metrics, "slack_plan_timestamp_seconds") == planned
    w.fresh.text = ""
    w.reconcile()
    assert value(w.metrics, "slack_policy_condition", policy="web", type="ViewStale", status="true") == 0


def test_starts_are_measured_from_creation_to_binding() -> None:
    w = world()
    w.settle()
    path = "/api/v1/namespaces/shop/pods/new"
    new = pod("new")
    new["metadata"]["creationTimestamp"] = rfc3339(w.wall.now)  # it is seen in a list, where this is all that is known
    w.api.put(path, new)
    w.observe()
    w.clock.now += 1.5
    w.api.put(path, pod("new", "n1") | {"metadata": w.api.objects[path]["metadata"]})
    w.reconcile(seconds=0.0)
    labels = {"policy": "web", "in_slack": "false"}
    assert value(w.metrics, "slack_instant_start_seconds_count", **labels) == 1
    assert value(w.metrics, "slack_instant_start_seconds_bucket", le="2.0", **labels) == 1
    assert value(w.metrics, "slack_instant_start_seconds_bucket", le="1.0", **labels) == 0


def test_the_time_to_ready_has_its_stages_and_goes_with_the_policy() -> None:
    w = world()
    w.settle()
    path = "/api/v1/namespaces/shop/pods/new"
    w.api.put(path, pod("new"))
    w.observe()
    stored = w.api.objects[path]["metadata"]
    w.api.put(path, pod("new", "n1") | {"metadata": stored})
    w.reconcile(seconds=1.0)
    ready: dict[str, Any] = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "started": True}],
    }
    w.api.put(path, pod("new", "n1", **ready) | {"metadata": w.api.objects[path]["metadata"]})
    w.reconcile(seconds=5.0)
    w.reconcile(seconds=5.0)
    w.reconcile(seconds=61.0)  # a figure that has moved is written once a minute
    for stage, count in (("bound", 1), ("image", 0), ("started", 1), ("ready", 1)):
        assert value(w.metrics, "slack_time_to_ready_seconds_count", policy="web", stage=stage) == count, stage
    found = w.status("web")["timeToReady"]
    assert found["pods"] == 1
    assert [one["workload"] for one in found["workloads"]] == ["shop/deploy/api"]
    w.metrics.keep_only(())
    assert of_policies(w.metrics) == set()


def test_the_lag_counts_from_the_first_change_that_no_plan_has_seen() -> None:
    clock = Clock(0.0)
    wake = Debouncer(10.0, clock)
    wake.plan_started()
    assert wake.lag_seconds == 0.0
    clock.now = 3.0
    wake.touch()
    clock.now = 3.5
    wake.touch()
    clock.now = 4.0
    wake.plan_started()
    assert wake.lag_seconds == 1.0
    clock.now = 15.0
    wake.plan_started()
    assert wake.lag_seconds == 1.0, "the interval was over at 14"


def test_descriptions_are_what_is_exported() -> None:
    """The reference page, the rules and the dashboard are checked against `described`."""
    metrics = Metrics()
    metrics.registry.register(WatchRestarts(lambda: {"/api/v1/pods": 1}))
    exported = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation)
        for family in metrics.registry.collect()
        if not family.name.startswith("process_")
    }
    assert exported == {(family.name, family.type, family.help) for family in described()}
    for family in described():
        assert not family.unit or family.name.endswith(family.unit)


def test_an_objectives_figures_come_with_it_and_go_with_it_and_with_its_policy() -> None:
    metrics = Metrics()
    plan = policy_plan(shape_plan(1))
    why = SizingReason(0.99, known=True, late_today=3, started_today=400, window_seconds=95.0, price_per_hour=0.5)
    metrics.show([replace(plan, why=why)])
    names = ("ratio", "reached_ratio", "late_pods", "window_seconds", "price_per_hour")
    found = [value(metrics, f"slack_objective_{name}", policy="web") for name in names]
    assert found == [0.99, pytest.approx(0.9925), 3, 95.0, 0.5]
    metrics.show([replace(plan, why=replace(why, started_today=0, price_per_hour=None))])
    found = [value(metrics, f"slack_objective_{name}", policy="web") for name in names]
    assert found == [0.99, None, 3, 95.0, None], "of no pods there is no share"
    metrics.show([plan])
    assert [value(metrics, f"slack_objective_{name}", policy="web") for name in names] == [None] * 5
    metrics.show([replace(plan, why=why)])
    metrics.keep_only(())
    assert of_policies(metrics) == set()
