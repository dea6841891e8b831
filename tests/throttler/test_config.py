"""A ThrottlePolicy and the study's MinionConfig: what is taken, what it comes to, what is refused in which words."""

from typing import Any

import pytest

from slack.throttler.config import (
    InvalidThrottlePolicy,
    ThrottlePolicy,
    TimeoutAction,
    choose,
    parse_minion_config,
    parse_throttle_policy,
)
from slack.throttler.fields import NOT_PER_CORE
from slack.throttler.limits import Limits
from tests.cases import run_for_each

STUDY = {
    "kind": "MinionConfig",
    "apiVersion": "v1beta1",
    "throttling": {
        "maxStartingContainersPerCore": "3",
        "maxLoadAverageMulitplier": "1.5",
        "maxCPU": "80%",
        "minRate": "0.1",
        "maxRate": "10",
    },
}


def policy(name: str = "default", created: str | None = None, **spec: Any) -> ThrottlePolicy:
    metadata = {"name": name} | ({} if created is None else {"creationTimestamp": created})
    document = {"apiVersion": "resource-slack.io/v1alpha1", "kind": "ThrottlePolicy", "metadata": metadata}
    return parse_throttle_policy(document | {"spec": spec}, source="policy.yaml")


def problems(**spec: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidThrottlePolicy) as found:
        policy(**spec)
    return found.value.problems


def test_an_empty_spec_has_the_study_s_values() -> None:
    study = parse_minion_config(STUDY, source="m1_config.json").limits(2)
    assert policy().spec.limits(2) == study
    assert study == Limits(
        slots=6,
        namespace_slots=None,
        max_load1=3.0,
        max_cpu=0.8,
        max_cpu_pressure=None,
        max_io_pressure=0.4,
        force_after_seconds=10.0,
        gap_seconds=0.1,
        start_timeout_seconds=300.0,
        delete_late=False,
        no_probe_hold_seconds=5.0,
        fail_open_after_seconds=60.0,
        average_over_seconds=10.0,
        gate_restarts=True,
        by_priority=False,
    )


@run_for_each(
    ("per_core", "cores", "slots"),
    [
        ("3", 2, 6),
        ("0.3", 2, 1),
        ("0.5", 3, 1),
        ("0.29", 100, 29),
        ("1.5", 0.5, 1),
        ("0.33", 6, 1),
        ("1/3", 6, 2),
        ("2/3", 3, 2),
        ("1/3", 2, 1),
        ("1/7", 0.5, 1),
    ],
)
def test_slots_are_rounded_down_exactly_and_are_at_least_one(per_core: str, cores: float, slots: int) -> None:
    assert policy(maxStartingContainersPerCore=per_core).spec.limits(cores).slots == slots


def test_by_priority_is_a_limit_of_the_node() -> None:
    assert policy(byPriority=True).spec.limits(2).by_priority
    assert not policy().spec.limits(2).by_priority


def test_null_turns_a_limit_off() -> None:
    off = ("maxStartingContainersPerCore", "maxLoadAverageMultiplier", "maxCPU", "maxIOPressure", "minRate", "maxRate")
    spec: dict[str, Any] = dict.fromkeys(off)
    limits = policy(**spec).spec.limits(4)
    assert (limits.slots, limits.namespace_slots, limits.max_load1, limits.max_cpu) == (None, None, None, None)
    assert (limits.max_io_pressure, limits.force_after_seconds, limits.gap_seconds) == (None, None, 0.0)


def test_the_study_s_misspelling_is_read_too() -> None:
    assert policy(maxLoadAverageMulitplier="2").spec.limits(2).max_load1 == 4.0
    assert policy(maxLoadAverageMulitplier=None).spec.limits(2).max_load1 is None
    assert policy(maxLoadAverageMulitplier=None, maxLoadAverageMultiplier="2").spec.limits(2).max_load1 == 4.0
    (problem,) = problems(maxLoadAverageMulitplier="2", maxLoadAverageMultiplier="3")
    assert problem == "spec: maxLoadAverageMulitplier and maxLoadAverageMultiplier are the same; give one"


def test_a_rate_that_was_not_given_bends_to_the_one_that_was() -> None:
    slow, fast = policy(maxRate="0.05").spec.limits(1), policy(minRate="20").spec.limits(1)
    assert (slow.force_after_seconds, slow.gap_seconds) == (20.0, 20.0)
    assert (fast.force_after_seconds, fast.gap_seconds) == (0.05, 0.05)


def test_one_namespace_has_its_share_of_the_slots_and_at_least_one() -> None:
    assert policy(maxShare=0.5).spec.limits(2).namespace_slots == 3
    assert policy(maxShare=0.01).spec.limits(2).namespace_slots == 1


def test_who_is_late_may_lose_the_pod() -> None:
    late = policy(startTimeout={"after": "90s", "then": "Delete"}).spec
    assert (late.start_timeout.then, late.limits(1).start_timeout_seconds) == (TimeoutAction.DELETE, 90.0)
    assert late.limits(1).delete_late


NUMBER = 'must be a number above 0, in quotes, such as "3" or "0.5", not '
SHARE = 'must be a percentage above 0% and at most 100%, in quotes, such as "80%", not '


@run_for_each(
    ("spec", "problem"),
    [
        ({"minRate": "10", "maxRate": "0.1"}, "spec: minRate is above maxRate"),
        ({"maxCPU": "180%"}, f"spec.maxCPU: {SHARE}'180%'"),
        ({"maxCPU": "0%"}, f"spec.maxCPU: {SHARE}'0%'"),
        ({"maxIOPressure": "0.4"}, f"spec.maxIOPressure: {SHARE}'0.4'"),
        ({"maxCPUPressure": 60}, f"spec.maxCPUPressure: {SHARE}60"),
        ({"minRate": "0"}, f"spec.minRate: {NUMBER}'0'"),
        ({"maxRate": "-1"}, f"spec.maxRate: {NUMBER}'-1'"),
        ({"maxRate": "nan"}, f"spec.maxRate: {NUMBER}'nan'"),
        ({"maxRate": "1" * 60}, f"spec.maxRate: {NUMBER}'{'1' * 39}..."),
        ({"maxStartingContainersPerCore": 3}, f"spec.maxStartingContainersPerCore: {NOT_PER_CORE}, not 3"),
        ({"maxStartingContainersPerCore": "1/0"}, f"spec.maxStartingContainersPerCore: {NOT_PER_CORE}, not '1/0'"),
        ({"maxStartingContainersPerCore": "0/3"}, f"spec.maxStartingContainersPerCore: {NOT_PER_CORE}, not '0/3'"),
        ({"averageOver": "1h"}, "spec.averageOver: averageOver must be from 1s to 5m"),
        ({"noProbeHold": "11m"}, "spec.noProbeHold: noProbeHold must be from 0s to 10m"),
        ({"failOpenAfter": "1s"}, "spec.failOpenAfter: failOpenAfter must be from 5s to 1h"),
        ({"startTimeout": {"after": "0s"}}, "spec.startTimeout.after: after must be from 1s to 24h"),
        ({"startTimeout": {"then": "Kill"}}, "spec.startTimeout.then: input should be 'Release' or 'Delete', not "),
        ({"maxShare": 0}, "spec.maxShare: input should be greater than 0, not 0"),
        ({"maxShare": "50%"}, "spec.maxShare: '50%' is no number; write one such as 0.5"),
        ({"gateRestarts": "yes"}, "spec.gateRestarts: 'yes' is neither true nor false"),
        ({"byPriority": 1}, "spec.byPriority: 1 is neither true nor false"),
        ({"maxCpu": "80%"}, "spec.maxCpu: unknown field; did you mean maxCPU?"),
        ({"nodeSelector": {"bad key": "x"}}, "spec.nodeSelector: 'bad key' is not a label key"),
    ],
)
def test_a_complaint_names_the_field_and_what_would_be_right(spec: dict[str, Any], problem: str) -> None:
    (found,) = problems(**spec)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": "Minion"}, "expected kind MinionConfig and apiVersion v1beta1"),
        ({"throttling": {"maxIO": "40%"}}, "throttling.maxIO: unknown field"),
        ({"throttling": {"minRate": "0"}}, f"throttling.minRate: {NUMBER}'0'"),
        ({"throttling": {"minRate": "2", "maxRate": "1"}}, "throttling: minRate is above maxRate"),
        ({"throttling": None}, "throttling: is null; leave it out, or give it fields such as"),
        ({"colour": "red"}, "colour: unknown field"),
    ],
)
def test_a_minion_config_is_refused_by_field(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidThrottlePolicy) as found:
        parse_minion_config(STUDY | change, source="m1_config.json")
    assert found.value.problems[0].startswith(problem)


def test_the_more_specific_selector_has_the_node_and_then_the_older() -> None:
    all_nodes = policy("all")
    young = policy("a", "2026-02-01T00:00:00Z", nodeSelector={"pool": "web"})
    old = policy("b", "2026-01-01T00:00:00Z", nodeSelector={"pool": "web"})
    chosen = choose([all_nodes, young, old], {"pool": "web"})
    assert (chosen.policy, chosen.yielded, chosen.conflicts) == (old, ("all",), ("a",))
    assert choose([all_nodes, young, old], {"pool": "db"}).policy == all_nodes
    assert choose([young], {}).policy is None
