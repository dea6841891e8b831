import json
from datetime import timedelta

import pytest

from slack.simulator.autoscalers import ClusterAutoscaler, Karpenter
from slack.simulator.scenario import BadScenario, Policies, Scheduler, parse_scenario
from tests.simulator.build import Json, at, group, scenario, workload


def _problems(**changes: object) -> str:
    document: Json = {"nodeGroups": [group()], "workloads": [workload()], **changes}
    with pytest.raises(BadScenario) as caught:
        parse_scenario(document, source="file.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nodeGroup": []}, "nodeGroup: unknown field"),
        ({"duration": "-5m"}, "duration: '-5m' is not a duration"),
        ({"duration": "0s"}, "duration: must be longer than 0s"),
        ({"duration": "1h", "warmUp": "2h"}, "warmUp: is not shorter than duration"),
        ({"nodeGroups": []}, "nodeGroups: is empty"),
        ({"nodeGroups": [group(min=3, max=2, initial=2)]}, "nodeGroups[0]: min (3) is above max (2)"),
        ({"nodeGroups": [group(), group()]}, "nodeGroups[1].name: 'a' is given twice"),
        ({"nodeGroups": [group(allocatable={"cpu": "4"})]}, "nodeGroups[0]: allocatable needs memory"),
        (
            {"nodeGroups": [group(startUp={"kind": "constant", "seconds": -1})]},
            "nodeGroups[0].startUp.seconds: input should be greater than or equal to 0, not -1",
        ),
        ({"workloads": [workload(arrivals={"kind": "poisson", "perMinut": 1})]}, "arrivals.perMinut: unknown field"),
        ({"workloads": [workload(arrivals=at(-1))]}, "workloads[0].arrivals.rows[0][0]: input should be greater"),
        ({"workloads": [workload(cpu="5")]}, "workloads[0].requests: its pods fit no node group (a: cpu is more"),
        (
            {"workloads": [workload(nodeSelector={"pool": "x"})]},
            "fit no node group (a: node selector pool=x is not met)",
        ),
        ({"workloads": [workload(reserve="2")]}, "workloads[0]: reserve needs arrivals of kind deployment"),
        ({"slack": {"kind": "policies", "policies": [{}, {}]}}, "slack: two policies have the same name"),
        (
            {"slack": {"kind": "policies", "policies": [{"spec": {"extraCapacity": {"minRate": "5%"}}}]}},
            "slack.policies[0].spec.extraCapacity.minRate: '5%' is text; write a number, 0.05",
        ),
        ({"slack": {"kind": "static", "count": 1, "requests": {"cpu": "9"}}}, "slack.requests: its pods fit no"),
        ({"slack": {"kind": "proportional", "requests": {}}}, "slack: give coresPerReplica or nodesPerReplica"),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "expanderPriorities": {"b": 1}}},
            "autoscaler.expanderPriorities.b: there is no such node group",
        ),
    ],
)
def test_a_bad_scenario_is_refused_with_the_fields_path(changes: Json, text: str) -> None:
    assert text in _problems(**changes)


def test_every_problem_is_named() -> None:
    text = _problems(seed=-1, duration="x", workloads=[workload(), workload()])
    assert "seed:" in text
    assert "duration:" in text


def test_constants_have_their_upstream_defaults() -> None:
    autoscaler, karpenter, scheduler = ClusterAutoscaler(), Karpenter(kind="karpenter"), Scheduler()
    assert autoscaler.scan_interval_seconds == 10
    assert autoscaler.expendable_pods_priority_cutoff == -10
    assert autoscaler.expander == "leastWaste"
    assert autoscaler.scale_down_unneeded_time == autoscaler.scale_down_delay_after_add == timedelta(minutes=10)
    assert autoscaler.scale_down_utilization_threshold == 0.5
    assert (autoscaler.max_drain_parallelism, autoscaler.max_scale_down_parallelism) == (1, 10)
    assert (karpenter.batch_idle_seconds, karpenter.batch_max_seconds) == (1, 10)
    assert (scheduler.pod_initial_backoff_seconds, scheduler.pod_max_backoff_seconds) == (1, 10)


def test_every_field_says_what_it_is() -> None:
    for model in (ClusterAutoscaler, Karpenter, Scheduler):
        assert all(field.description for name, field in model.model_fields.items() if name != "kind")


def test_the_built_in_policy_is_the_default_and_a_scenario_survives_json() -> None:
    one = parse_scenario({"nodeGroups": [group()], "workloads": [workload()]}, source="x")
    assert isinstance(one.slack, Policies)
    assert [p.name for p in one.slack.planned()] == ["default"]
    again = parse_scenario(json.loads(json.dumps({"nodeGroups": [group()], "workloads": [workload()]})), source="x")
    assert again == one
    assert scenario().slack.kind == "none"
