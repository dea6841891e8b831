"""Scenarios played: the reference's storm and cache, the study's flows, and what a step of load does."""

from typing import Any

import pytest

from slack.throttler.scenario import InvalidThrottleScenario, StartScenario, parse_scenario
from slack.throttler.simulate import Played, StartEventType, compared, play

NO_METRICS: dict[str, Any] = {"maxLoadAverageMultiplier": None, "maxCPU": None, "maxIOPressure": None}


def scenario(policy: dict[str, Any] | None = None, **fields: Any) -> StartScenario:
    return parse_scenario({"policy": NO_METRICS | (policy or {})} | fields, source="storm.yaml")


STORM: dict[str, Any] = {
    "work": "Shared",
    "watchdog": 6,
    "probePeriod": 1,
    "startDelay": 0.5,
    "until": 60,
    "containers": [{"pod": "storm", "name": "app", "replicas": 12, "work": 1.5}],
}
IO: dict[str, Any] = {
    "work": "Shared",
    "cache": {"memory": 500, "workingSet": 200},
    "containers": [{"pod": "io", "name": "reader", "replicas": 8, "work": 1.68}],
}


def at(found: StartScenario, slots: int | None) -> Played:
    return play(found, compared(found, slots), is_gated=slots is not None)


def test_without_a_gate_the_storm_never_converges_and_with_one_nothing_fails() -> None:
    storm = scenario(**STORM)
    free = at(storm, None)
    assert (free.ready, free.failures, free.makespan, free.most) == (0, 36, None, 12)
    paced = [at(storm, slots) for slots in (2, 4, 6)]
    assert [(played.ready, played.failures, played.most) for played in paced] == [(12, 0, 2), (12, 0, 4), (12, 0, 6)]


def test_the_storm_s_makespans_are_within_a_fifth_of_the_real_kubelet_s() -> None:
    measured = {2: 14.7, 4: 12.0, 6: 11.0}
    storm = scenario(**STORM)
    assert {slots: at(storm, slots).makespan for slots in measured} == pytest.approx(measured, rel=0.2)
    assert at(scenario(**STORM | {"watchdog": None}), None).makespan == pytest.approx(11.8, rel=0.2)


def test_the_cache_storm_is_best_where_the_working_sets_fit() -> None:
    io = scenario(**IO)
    makespans = {slots: at(io, slots).makespan for slots in (2, 4, None)}
    assert makespans == pytest.approx({2: 6.7, 4: 12.6, None: 17.9}, rel=0.05)
    best = min(range(1, 9), key=lambda slots: at(io, slots).makespan or 0.0)
    assert best == 500 // 200


UNLUCKY: list[dict[str, Any]] = [
    {"name": "b", "needs": ["a"], "work": 1},
    {"name": "c", "needs": ["a"], "work": 1},
    {"name": "a", "work": 1},
]


def test_the_lucky_flow_ends_by_itself() -> None:
    lucky = [UNLUCKY[0], UNLUCKY[2], UNLUCKY[1]]
    played = play(scenario({"maxStartingContainersPerCore": "1", "maxRate": None}, containers=lucky))
    assert [(event.at, event.container, event.event.value) for event in played.events] == [
        (0.0, "b", "start"),
        (0.0, "a", "start"),
        (1.0, "a", "ready"),
        (1.0, "c", "start"),
        (2.0, "b", "ready"),
        (2.0, "c", "ready"),
    ]


def test_the_unlucky_flow_is_a_dead_lock_that_each_of_three_things_ends() -> None:
    one_a_core: dict[str, Any] = {"maxStartingContainersPerCore": "1", "minRate": None, "maxRate": None}
    dead = one_a_core | {"startTimeout": {"after": "24h"}}
    assert play(scenario(dead, containers=UNLUCKY)).ready == 0
    forced = play(scenario(dead | {"minRate": "0.1"}, containers=UNLUCKY))
    assert (forced.makespan, [event.container for event in forced.events if event.forced]) == (12.0, ["a"])
    released = play(scenario(one_a_core | {"startTimeout": {"after": "1m"}}, containers=UNLUCKY))
    assert (released.makespan, released.failures) == (62.0, 2)
    declared = [spec | {"dependsOn": spec.get("needs", [])} for spec in UNLUCKY]
    assert play(scenario(dead, containers=declared)).makespan == 2.0


def test_the_study_s_graph_with_one_slot_declared_backwards() -> None:
    needs = {"e": ["c", "d"], "d": ["b"], "c": ["b"], "b": ["a"], "a": []}
    containers = [{"name": name, "dependsOn": needed, "work": 1} for name, needed in needs.items()]
    played = play(scenario({"maxStartingContainersPerCore": "0.5"}, containers=containers))
    assert played.order == ("pod/a", "pod/b", "pod/d", "pod/c", "pod/e")
    assert (played.most, played.makespan, played.mean_ready) == (1, 5.0, 3.0)


def test_a_busy_node_starts_by_the_minimum_rate_until_it_is_idle_again() -> None:
    containers = [{"name": "a", "replicas": 4, "work": 1}]
    usage = [{"at": 0, "cpu": 0.9}, {"at": 15, "cpu": 0.1}]
    played = play(scenario({"maxCPU": "80%", "maxRate": None}, containers=containers, usage=usage))
    starts = [(event.at, event.forced) for event in played.events if event.event is StartEventType.START]
    assert starts == [(10.0, True), (15.0, False), (15.0, False), (15.0, False)]


def starts(played: Played) -> list[tuple[float, bool]]:
    return [(round(event.at, 3), event.forced) for event in played.events if event.event is StartEventType.START]


def test_containers_that_start_hold_others_back_by_the_cpu_that_they_use() -> None:
    containers = [{"name": "a", "replicas": 4, "work": 30}]
    policy = {"maxCPU": "80%", "maxRate": None, "maxStartingContainersPerCore": "1"}
    # Two of them take both cores, so from the third on each is forced, one in ten seconds.
    played = play(scenario(policy, work="Shared", containers=containers))
    assert starts(played) == [(0.0, False), (0.0, False), (10.0, True), (20.0, True)]
    unread = play(scenario(policy | {"maxCPU": None}, work="Shared", containers=containers))
    assert starts(unread) == [(0.0, False), (0.0, False), (10.0, True), (20.0, True)], "two slots, which are taken"
    short = [{"name": "a", "replicas": 4, "work": 1}]
    assert starts(play(scenario(policy | {"maxCPU": None}, work="Shared", containers=short)))[2:] == [(1.0, False)] * 2
    at_once = starts(play(scenario(policy | {"averageOver": "1s"}, work="Shared", containers=short)))
    assert at_once[2:] == [(1.5, False), (1.5, False)], "looked at again each half second while the reading is too high"


def test_what_a_node_reads_is_an_average_over_the_policy_s_time() -> None:
    policy = {"maxCPU": "50%", "maxRate": None, "minRate": None, "averageOver": "10s"}
    containers = [{"name": "first", "work": 4, "threads": 2}, {"name": "second", "work": 1, "arrival": 3}]
    # Both cores are busy from 0 to 2 and one is from then on: 20 % of ten seconds, so the second starts when it comes.
    idle = play(scenario(policy, work="Shared", containers=containers))
    assert starts(idle) == [(0.0, False), (3.0, False)]
    # With half of the node busy the average is at 60 % at 3, and falls below 50 % nowhere before others stop.
    usage = [{"at": 0, "cpu": 0.49}, {"at": 30, "cpu": 0.1}]
    busy = play(scenario(policy, work="Shared", containers=containers, usage=usage))
    second = starts(busy)[1][0]
    assert 10.0 <= second <= 18.0  # ten seconds after the first was done, and the reading is taken each 2.5 s


@pytest.mark.parametrize(("busy", "makespan"), [(0.0, 9.0), (0.5, 9.5), (1.0, 10.0)])
def test_other_load_on_the_node_shares_the_cpus(busy: float, makespan: float) -> None:
    usage = [{"at": 0, "cpu": busy}]
    twenty = scenario(work="Shared", containers=[{"name": "a", "replicas": 18, "work": 1}], usage=usage, cores=2)
    assert play(twenty, is_gated=False).makespan == pytest.approx(makespan)


def test_a_storm_on_a_half_busy_node_takes_longer_by_the_minimum_rate() -> None:
    paced: dict[str, Any] = {"policy": {"maxLoadAverageMultiplier": None, "maxIOPressure": None}}
    containers = [{"pod": f"p{i}", "name": "app", "work": 12.5} for i in range(24)]
    whole = {"work": "Shared", "until": 3600, "containers": containers}
    free = parse_scenario({**whole, "policy": NO_METRICS}, source="s")
    busy = parse_scenario({**whole, **paced, "usage": [{"cpu": 0.5}]}, source="s")
    unpaced, on_busy = play(free).makespan, play(busy).makespan
    assert unpaced == pytest.approx(151, rel=0.02)
    assert on_busy == pytest.approx(195, rel=0.02)
    assert [forced for _, forced in starts(play(busy))] == [False] * 6 + [True] * 18


def test_restarts_that_are_not_gated_go_at_once() -> None:
    containers = [{"pod": "crashing", "name": "a", "work": 100}, {"pod": "q", "name": "b", "work": 8, "arrival": 9}]
    policy = {"maxStartingContainersPerCore": "0.5", "maxRate": None, "minRate": None}
    fields: dict[str, Any] = {"containers": containers, "watchdog": 9, "until": 25}
    free = play(scenario(policy | {"gateRestarts": False}, **fields))
    assert [(e.at, e.container) for e in free.events if e.event is StartEventType.START] == [
        (0, "a"),
        (9, "b"),
        (19, "a"),
    ]
    assert free.most == 1
    late = {"containers": [containers[0], {**containers[1], "work": 8.5, "arrival": 12}]}
    free = play(scenario(policy | {"gateRestarts": False}, **fields | late))
    assert [(e.at, e.container) for e in free.events if e.event is StartEventType.START] == [
        (0, "a"),
        (12, "b"),
        (19, "a"),
    ]
    assert free.most == 2, "a restart takes a slot, though none is free"
    gated = play(scenario(policy, **fields | late))
    assert [(e.at, e.container) for e in gated.events if e.event is StartEventType.START] == [
        (0, "a"),
        (12, "b"),
        (20.5, "a"),
    ]


def test_the_policy_says_whether_priority_comes_first() -> None:
    containers = [{"pod": "low", "name": "a", "work": 1}, {"pod": "high", "name": "b", "work": 1, "priority": 1000}]
    one: dict[str, Any] = {"maxStartingContainersPerCore": "0.5"}
    assert play(scenario(one, containers=containers)).order == ("low/a", "high/b")
    assert play(scenario(one | {"byPriority": True}, containers=containers)).order == ("high/b", "low/a")


def test_a_pod_that_is_late_may_be_deleted_and_its_slots_are_free() -> None:
    policy = {"maxStartingContainersPerCore": "0.5", "startTimeout": {"after": "5s", "then": "Delete"}, "minRate": None}
    containers = [{"pod": "stuck", "name": "a"}, {"pod": "stuck", "name": "b"}, {"pod": "p", "name": "c", "work": 1}]
    played = play(scenario(policy, containers=containers))
    assert [(event.at, event.pod, event.event.value) for event in played.events] == [
        (0.0, "stuck", "start"),
        (5.0, "stuck", "failed"),
        (5.0, "p", "start"),
        (6.0, "p", "ready"),
    ]
    assert (played.containers, played.ready, played.makespan) == (3, 1, None)


def test_threads_take_more_of_the_cores() -> None:
    containers = [{"name": "a", "replicas": 2, "work": 3, "threads": 3}]
    played = play(scenario(cores=3, work="Shared", containers=containers), is_gated=False)
    assert played.makespan == 2.0


def test_progress_is_told_as_containers_become_ready() -> None:
    told: list[int] = []
    play(scenario(containers=[{"name": "a", "replicas": 2, "work": 1, "pull": 1, "arrival": 1}]), progress=told.append)
    assert told == [1, 2]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"containers": []}, "containers: tuple should have at least 1 item"),
        ({"containers": [{"name": "a", "work": "1s"}]}, "containers[0].work: '1s' is no number; write seconds such"),
        ({"containers": [{"name": "a", "colour": "red"}]}, "containers[0].colour: unknown field"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, "containers of pod pod: dependsOn: a: two containers are"),
        ({"containers": [{"name": "a", "dependsOn": ["a"]}]}, "containers of pod pod: dependsOn: a: depends on itself"),
        ({"containers": [{"name": "a", "needs": ["x"]}]}, "containers of pod pod: needs: a: no container is called"),
        ({"containers": [{"name": "a", "replicas": 3000}] * 2}, "containers: more than 5000, replicas counted"),
        ({"containers": [{"name": "a"}], "usage": [{"at": 2}, {"at": 1}]}, "usage: steps must be in the order of"),
        ({"containers": [{"name": "a"}], "policy": {"maxCPU": "180%"}}, "policy.maxCPU: must be a percentage above 0%"),
    ],
)
def test_a_bad_scenario_is_refused_with_the_field(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidThrottleScenario) as found:
        parse_scenario(fields, source="storm.yaml")
    assert found.value.problems[0].startswith(problem)


def test_a_scenario_is_an_object() -> None:
    with pytest.raises(InvalidThrottleScenario, match="expected a scenario with containers, found list"):
        parse_scenario([], source="storm.yaml")
