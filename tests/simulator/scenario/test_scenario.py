import json
from datetime import timedelta

import pytest

from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import InvalidScenario, parse_scenario, warnings_of
from slack.simulator.scenario.slack_kinds import Policies
from tests.cases import run_for_each
from tests.simulator.build import Json, at, group, replicas, scenario, workload

_LOAD = {"kind": "sine", "mean": 1}


def _problems(**changes: object) -> str:
    document: Json = {"nodeGroups": [group()], "workloads": [workload()], **changes}
    with pytest.raises(InvalidScenario) as caught:
        parse_scenario(document, source="file.yaml")
    return str(caught.value)


@run_for_each(
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
            "nodeGroups[0].startUp.seconds: must be at least 0, not -1",
        ),
        (
            {"workloads": [workload(arrivals={"kind": "poisson", "perMinut": 1})]},
            "arrivals.perMinut: unknown field; did you mean perMinute?",
        ),
        ({"workloads": [workload(arrivals=at(-1))]}, "workloads[0].arrivals.rows[0][0]: must be at least 0, not -1"),
        ({"workloads": [workload(cpu="5")]}, "workloads[0].requests.cpu: its pods fit no node group (a: cpu is more"),
        (
            {"workloads": [workload(nodeSelector={"pool": "x"})]},
            "workloads[0].nodeSelector: its pods fit no node group (a: node selector pool=x is not met)",
        ),
        ({"workloads": [workload(reserve="2")]}, "workloads[0]: reserve needs arrivals of kind deployment"),
        ({"slack": {"kind": "policies", "policies": [{}, {}]}}, "slack: two policies have the same name"),
        (
            {"slack": {"kind": "policies", "policies": [{"spec": {"extraCapacity": {"minRate": "5%"}}}]}},
            "slack.policies[0].spec.extraCapacity.minRate: '5%' is text; write a number, 0.05",
        ),
        ({"slack": {"kind": "static", "count": 1, "requests": {"cpu": "9"}}}, "slack.requests.cpu: its pods fit no"),
        ({"slack": {"kind": "proportional", "requests": {}}}, "slack: give coresPerReplica or nodesPerReplica"),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "expander": "priority", "expanderPriorities": {"b": 1}}},
            "autoscaler.expanderPriorities.b: there is no such node group",
        ),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "expander": "priority"}},
            "autoscaler.expanderPriorities: expander priority needs it; give a priority by node group, such as a: 10",
        ),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "expanderPriorities": {"a": 1}}},
            "autoscaler.expanderPriorities: only expander priority reads it, and the expander is leastWaste",
        ),
        ({"name": "a\x1b[31mred\nnewline"}, "name: 'a\\x1b[31mred\\nnewline' is not one line of letters"),
        ({"name": "\u202eabc"}, "name: '\\u202eabc' is not one line of letters, digits, signs and blanks"),
        ({"name": "  "}, "name: '  ' is not one line of letters"),
        ({"name": ""}, "name: is empty"),
        ({"nodeGroups": [group(pricePerHour=1e308)]}, "nodeGroups[0].pricePerHour: must be at most 1000000000, not 1e"),
        (
            {"nodeGroups": [group(daemonRequests={"pods": "1"})]},
            "nodeGroups[0]: daemonRequests.pods is no request; write daemonPods",
        ),
        ({"workloads": [workload(ownerKind="deployment")]}, "ownerKind: 'deployment' is written deploy here"),
        (
            {"workloads": [workload(requests={"cpu": "1", "pods": "3"})]},
            "workloads[0].requests.pods: is no request; each pod takes one slot of its node, leave it out",
        ),
        (
            {"slack": {"kind": "static", "count": 1, "requests": {"pods": "1"}}},
            "slack.requests.pods: is no request",
        ),
    ],
)
def test_a_bad_scenario_is_refused_with_the_fields_path(changes: Json, text: str) -> None:
    assert text in _problems(**changes)


@pytest.mark.parametrize(
    ("where", "field"),
    [
        *(("autoscaler", field) for field in ("scanIntervalSeconds",)),
        *(("karpenter", field) for field in ("batchIdleSeconds", "batchMaxSeconds", "pollSeconds")),
        *(("scheduler", field) for field in ("podInitialBackoffSeconds", "podMaxBackoffSeconds")),
        ("operator", "debounceSeconds"),
        ("slack", "pollPeriodSeconds"),
        ("hpa", "syncPeriodSeconds"),
    ],
)
def test_what_comes_again_and_again_has_a_shortest_period(where: str, field: str) -> None:
    def changes(seconds: float) -> Json:
        match where:
            case "autoscaler":
                return {"autoscaler": {"kind": "clusterAutoscaler", field: seconds}}
            case "karpenter":
                return {"autoscaler": {"kind": "karpenter", field: seconds}}
            case "slack":
                return {"slack": {"kind": "proportional", "requests": {}, "nodesPerReplica": 1, field: seconds}}
            case "hpa":
                return {"workloads": [workload(arrivals=replicas(1, targetPerPod=1, load=_LOAD, **{field: seconds}))]}
        return {where: {field: seconds}}

    for seconds in (1e-9, 0.09):
        assert f"{field}: must be at least 0.1, not {seconds}" in _problems(**changes(seconds))
    document = {"nodeGroups": [group()], "workloads": [workload()], **changes(0.1)}
    if where != "scheduler":  # there one bounds the other
        assert parse_scenario(document, source="x").name == "scenario"


@pytest.mark.parametrize(
    ("hpa", "text"),
    [
        ({"targetPerPod": 1e-9, "load": {"kind": "sine", "mean": 1}}, "targetPerPod: must be at least 0.000001, not 1"),
        (
            {"targetPerPod": 1, "load": {"kind": "sine", "mean": 1e300}},
            "hpa.load.mean: must be at most 1000000000000000, not 1e+300",
        ),
        (
            {"targetPerPod": 1, "load": {"kind": "points", "points": [[0, 1e300]]}},
            "hpa.load.points[0][1]: must be at most 1000000000000000",
        ),
        (
            {"targetPerPod": 1, "load": {"kind": "sine", "mean": 1, "peakAtSeconds": 1e308}},
            "hpa.load.peakAtSeconds: must be at most 10000000000, not 1e+308",
        ),
        (
            {"targetPerPod": 1, "load": {"kind": "sine", "mean": 1, "periodSeconds": 1e-300}},
            "hpa.load.periodSeconds: must be at least 0.1, not 1e-300",
        ),
        (
            {"targetPerPod": 1, "load": {"kind": "sine", "mean": 1}, "maxReplicas": 10**9},
            "hpa.maxReplicas: must be at most 100000, not 1000000000",
        ),
        (
            {"targetPerPod": 1, "load": {"kind": "sine", "mean": 1}, "scaleUpPods": 0, "scaleUpPercent": 0},
            "hpa.scaleUpPods: is 0 as scaleUpPercent is, and it could never scale up; give one of them",
        ),
    ],
)
def test_an_hpa_that_no_cluster_could_have_is_refused(hpa: Json, text: str) -> None:
    assert text in _problems(workloads=[workload(arrivals=replicas(1, **hpa))])


def test_the_largest_load_and_the_smallest_target_are_played() -> None:
    hpa = {"targetPerPod": 1e-6, "load": {"kind": "sine", "mean": 1e15, "periodSeconds": 0.1}, "maxReplicas": 3}
    found = simulate(scenario(duration="5m", workloads=[workload(arrivals=replicas(1, **hpa))]))
    assert found.total.bound == 3


def test_owners_of_other_kinds_are_told_and_kept() -> None:
    document = {"nodeGroups": [group()], "workloads": [workload(ownerKind="zebra")]}
    (warning,) = warnings_of(parse_scenario(document, source="x"))
    assert (
        "workloads[0].ownerKind: 'zebra' is none of deploy, rs, sts, job, cronjob, ds, actpool, pod; it is taken"
        in warning
    )


def test_an_empty_list_of_policies_is_the_built_in_one_as_for_the_operator() -> None:
    assert scenario(slack={"kind": "policies", "policies": []}).slack == Policies()


def test_every_problem_is_named() -> None:
    text = _problems(seed=-1, duration="x", workloads=[workload(), workload()])
    assert "seed:" in text
    assert "duration:" in text


def _arrivals(**arrivals: object) -> Json:
    return {"duration": "1h", "workloads": [workload(arrivals=arrivals)]}


def _load(*points: list[float]) -> Json:
    hpa = {"targetPerPod": 1, "load": {"kind": "points", "points": points}}
    return _arrivals(kind="deployment", hpa=hpa)


@run_for_each(
    ("changes", "text"),
    [
        ({"workloads": None}, "workloads: is null; write a list"),
        (
            {"slack": None},
            "slack: is null; write a mapping with its kind: none, policies, static, proportional, or leave",
        ),
        ({"scheduler": "fast"}, "scheduler: must be a mapping with fields such as scoring, podsPerSecond"),
        ({"duration": "9000h"}, "duration: 9000h is longer than 366 days (8784h)"),
        ({"duration": "99999999999999999h"}, "duration: '99999999999999999h' is longer than any clock counts"),
        ({"startsAt": 5}, "startsAt: 5 is no time"),
        ({"startsAt": "9999-12-31T00:00:00Z"}, "startsAt: is too far away; write a year from 1970 to 9996"),
        ({"seed": True}, "seed: must be a number, not true"),
        ({"instantSeconds": float("inf")}, "instantSeconds: must be a finite number, not inf"),
        ({"instantSeconds": "2s"}, "instantSeconds: must be a number, not '2s'; write 2, in seconds"),
        ({"nodeGroups": [group(name="A")]}, "nodeGroups[0].name: 'A' is not a name of lowercase letters"),
        ({"nodeGroups": [group(zone=1)]}, "nodeGroups[0].zone: must be text, not 1; put it in quotes"),
        (
            {"nodeGroups": [group(allocatable={"cpu": "4", "memory": "x"})]},
            "nodeGroups[0].allocatable.memory: 'x' is not a",
        ),
        (
            {"nodeGroups": [group(allocatable={"cpu": "4", "memory": "4Ei"})]},
            "allocatable.memory: 4Ei times max (1000) is too",
        ),
        (
            {"nodeGroups": [group(startUp={"seconds": 1})]},
            "startUp.kind: is missing; write one of constant, uniform, lognormal",
        ),
        ({"nodeGroups": [{**group(), "start_up": {}}]}, "nodeGroups[0].start_up: is given twice, as startUp too"),
        ({"autoscaler": {"kind": "karpenter", "budgetShare": "10%"}}, "must be a number, not '10%'; write 0.1"),
        ({"autoscaler": {"kind": "keda"}}, "autoscaler.kind: 'keda' is none of clusterAutoscaler, karpenter, none"),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "expander": "price"}},
            "'price' is none of leastWaste, random, priority",
        ),
        (
            {"autoscaler": {"kind": "clusterAutoscaler", "scanInterval": 1}},
            "unknown field; did you mean scanIntervalSeconds?",
        ),
        (_arrivals(kind="replay", rows=[]), "workloads[0].arrivals.rows: is empty"),
        (_arrivals(kind="replay", rows=[[1]]), "workloads[0].arrivals.rows[0][1]: is missing"),
        (
            _arrivals(kind="bursts", size=1, at=["1h", "2h"]),
            "arrivals.at: none of the bursts comes within the duration, 1h",
        ),
        (_arrivals(kind="jobs", parallelism=1, every="1m", firstAt="90m"), "arrivals.firstAt: 1h30m is not within"),
        (_arrivals(kind="replay", rows=[[3600, None]]), "arrivals.rows: none of them is within the duration, 1h"),
        (_load([3600, 1], [7200, 2]), "hpa.load.points: none of them is within the duration, 1h; the load would never"),
        (
            _arrivals(kind="jobs", parallelism=100_000, every="1s"),
            "workloads[0].arrivals: some 360,000,000 pods would come within the duration, and some 360,000,000 with",
        ),
        (
            {"nodeGroups": [group(taints=[{"key": "k"}])]},
            "workloads[0].tolerations: its pods fit no node group (a: taint k:NoSchedule is not tolerated)",
        ),
        (
            {"nodeGroups": [group(), group("b", taints=[{"key": "k"}])], "workloads": [workload(cpu="9")]},
            "workloads[0].requests.cpu: its pods fit no node group (a: cpu is more than a node has to give; b: taint",
        ),
    ],
)
def test_a_refusal_says_what_would_be_right(changes: Json, text: str) -> None:
    assert text in _problems(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            _arrivals(kind="bursts", size=1, at=["10m", "60m", "2h"]),
            "workloads[0].arrivals.at[1]: 2 of 3 come after the duration, 1h, and are not played",
        ),
        (_arrivals(kind="replay", rows=[[9000, None], [1, None]]), "workloads[0].arrivals.rows[0]: 1 of 2 come after"),
        (_load([0, 1], [7200, 5], [9000, 9]), "arrivals.hpa.load.points[2]: 1 of 3 lie after the duration, 1h"),
    ],
)
def test_arrivals_that_partly_lie_beyond_the_end_are_told(changes: Json, text: str) -> None:
    (warning,) = warnings_of(parse_scenario({"nodeGroups": [group()], **changes}, source="x"))
    assert text in warning


@pytest.mark.parametrize(
    "changes",
    [
        _arrivals(kind="bursts", size=1, at=["2h"], every="10m"),
        _load([0, 1], [7200, 5]),
        _arrivals(kind="diurnal", meanPerMinute=1, peakAt="14h"),
    ],
)
def test_what_still_comes_within_the_run_is_accepted(changes: Json) -> None:
    assert parse_scenario({"nodeGroups": [group()], **changes}, source="x").duration == timedelta(hours=1)


def test_the_built_in_policy_is_the_default_and_a_scenario_survives_json() -> None:
    parsed = parse_scenario({"nodeGroups": [group()], "workloads": [workload()]}, source="x")
    assert isinstance(parsed.slack, Policies)
    assert [p.name for p in parsed.slack.planned()] == ["default"]
    again = parse_scenario(json.loads(json.dumps({"nodeGroups": [group()], "workloads": [workload()]})), source="x")
    assert again == parsed
    assert scenario().slack.kind == "none"
