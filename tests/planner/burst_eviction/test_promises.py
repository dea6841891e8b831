"""How many pods an owner is about to make, held to what the controllers of Kubernetes 1.36 do."""

from typing import Any, TypeVar

import msgspec
import pytest

from slack.cluster import wire
from slack.cluster.identity import workload_of
from slack.planner.burst_eviction.promises import (
    DESIRED,
    MOST,
    MOST_AT_ONCE,
    REVISION,
    of_deployment,
    of_job,
    of_replica_set,
    of_stateful_set,
    surge_of,
)

T = TypeVar("T")
TEMPLATE = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}]}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def _read(kind: type[T], document: Any) -> T:
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


def _replica_set(wanted: int, *, revision: int = 1, desired: int | None = None, **status: Any) -> wire.ReplicaSet:
    scaled = {} if desired is None else {DESIRED: str(desired), MOST: str(desired + -(-desired // 4))}
    annotations = {REVISION: str(revision), **scaled}
    metadata = {"name": f"api-{revision}", "namespace": "shop", "uid": f"rs{revision}", "annotations": annotations}
    spec = {"replicas": wanted, "template": TEMPLATE}
    return _read(wire.ReplicaSet, {"metadata": metadata, "spec": spec, "status": status})


def _deployment(replicas: int | None, strategy: Any = ROLLING, **fields: Any) -> wire.Deployment:
    spec = {"replicas": replicas, "template": TEMPLATE, "strategy": strategy, **fields}
    return _read(wire.Deployment, {"metadata": {"name": "api", "namespace": "shop", "uid": "d"}, "spec": spec})


def _promised(deployment: wire.Deployment, *sets: wire.ReplicaSet, **there: int) -> dict[str, int]:
    return {own.owner_uid: own.count for own in of_deployment(deployment, sets, there)}


def test_a_deployment_that_is_scaled_up_promises_before_its_replica_set_is_raised() -> None:
    assert _promised(_deployment(110), _replica_set(10, replicas=10), rs1=10) == {"rs1": 100}


def test_a_replica_set_that_was_raised_already_is_not_counted_twice() -> None:
    assert _promised(_deployment(110), _replica_set(110, replicas=10), rs1=10) == {"rs1": 100}


def test_pods_that_are_there_are_promised_no_more_even_before_the_status_says_so() -> None:
    assert _promised(_deployment(110), _replica_set(110, replicas=10), rs1=64) == {"rs1": 46}


def test_a_watch_of_pods_that_is_late_makes_no_promise_of_pods_that_the_status_counts() -> None:
    assert _promised(_deployment(10), _replica_set(10, replicas=10)) == {}


def test_a_new_deployment_promises_its_pods_before_it_has_a_replica_set() -> None:
    assert _promised(_deployment(40)) == {"d": 40}
    assert _promised(_deployment(None)) == {"d": 1}


def test_a_paused_deployment_gets_no_replica_set_but_is_scaled() -> None:
    assert _promised(_deployment(40, paused=True)) == {}
    assert _promised(_deployment(40, paused=True), _replica_set(10, replicas=10), rs1=10) == {"rs1": 30}


def test_a_rollout_promises_no_more_than_its_surge() -> None:
    old, new = _replica_set(100, replicas=100, desired=100), _replica_set(0, revision=2, desired=100)

    # NewRSNewReplicas: 100 + 25 in all, 100 of them are there
    assert _promised(_deployment(100), old, _replica_set(1, revision=2, desired=100), rs1=100) == {"rs2": 25}
    # without a pod of the new one, the old is the only active one: no scaling, and the new one is raised by its own
    assert _promised(_deployment(100), old, new, rs1=100) == {}
    assert _promised(_deployment(100), old, _replica_set(25, revision=2, desired=100), rs1=100) == {"rs2": 25}


def test_a_rollout_that_is_paused_half_way_promises_nothing_of_the_new_template() -> None:
    old, new = _replica_set(80, replicas=80, desired=100), _replica_set(25, revision=2, desired=100, replicas=25)

    assert _promised(_deployment(100, paused=True), old, new, rs1=80, rs2=25) == {}
    assert _promised(_deployment(100), old, new, rs1=80, rs2=25) == {"rs2": 20}


def test_scaling_in_the_middle_of_a_rollout_is_shared_out_in_proportion() -> None:
    old, new = _replica_set(80, replicas=80, desired=100), _replica_set(45, revision=2, desired=100, replicas=45)

    # sync.go scale: 250 may be there, of 125 before: each twice as many
    assert _promised(_deployment(200), old, new, rs1=80, rs2=45) == {"rs1": 80, "rs2": 45}


def test_what_rounding_leaves_of_a_scaling_goes_to_the_largest() -> None:
    old, new = _replica_set(8, replicas=8, desired=10), _replica_set(5, revision=2, desired=10, replicas=5)

    # 15 may be there: 8/13 * 15 = 9.2 and 5/13 * 15 = 5.8
    assert _promised(_deployment(12), old, new, rs1=8, rs2=5) == {"rs1": 1, "rs2": 1}


@pytest.mark.parametrize("text", ["", "-3", "1e9", "٣", "99999999999999999999"])
def test_an_annotation_that_anybody_has_written_is_no_number(text: str) -> None:
    old, new = _replica_set(8, replicas=8, desired=10), _replica_set(5, revision=2, desired=10, replicas=5)
    assert old.metadata.annotations is not None
    old.metadata.annotations |= {DESIRED: text, MOST: text, REVISION: text}

    assert sum(_promised(_deployment(12), old, new, rs1=8, rs2=5).values()) == 2


def test_recreate_promises_nothing_while_old_pods_are_there() -> None:
    recreate = {"type": "Recreate"}
    old, new = _replica_set(10, replicas=10, desired=10), _replica_set(0, revision=2, desired=10)

    assert _promised(_deployment(10, recreate), old, new, rs1=10) == {}
    # scaled down to none and still terminating: the newest is the one that is raised, by the controller itself
    down = _replica_set(0, desired=10)
    assert _promised(_deployment(10, recreate), down, _replica_set(10, revision=2), rs1=0) == {"rs2": 10}


def test_recreate_promises_nothing_while_the_pods_of_its_last_replica_set_end() -> None:
    recreate = {"type": "Recreate"}
    down, earlier = _replica_set(0, revision=2, desired=10), _replica_set(0, desired=4)

    assert _promised(_deployment(10, recreate), down) == {}
    assert _promised(_deployment(10, recreate), down, earlier) == {}
    # scaled from none, no rollout: its ReplicaSet was told 0 for 0
    assert _promised(_deployment(10, recreate), _replica_set(0, revision=2, desired=0), earlier) == {"rs2": 10}
    # the same annotations with a strategy that waits for no pod
    assert _promised(_deployment(10), down) == {"rs2": 10}


def test_a_deployment_that_is_scaled_down_takes_back_what_its_replica_set_still_asks_for() -> None:
    assert _promised(_deployment(12), _replica_set(110, replicas=10), rs1=10) == {"rs1": 2}


def test_an_owner_whose_pods_are_refused_promises_nothing() -> None:
    failing: dict[str, Any] = {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]}

    assert _promised(_deployment(50), _replica_set(50, replicas=10, **failing), rs1=10) == {}
    assert of_replica_set(_replica_set(50, **failing), 0) is None


def test_no_owner_promises_more_than_its_controller_makes_in_one_go() -> None:
    promise = of_replica_set(_replica_set(5000), 0)

    assert promise is not None
    assert promise.count == MOST_AT_ONCE


@pytest.mark.parametrize(
    ("surge", "replicas", "pods"), [("25%", 10, 3), (5, 10, 5), ("0%", 10, 0), (None, 4, 1), ("100%", 7, 7), (-1, 4, 0)]
)
def test_surge_is_rounded_up(surge: int | str | None, replicas: int, pods: int) -> None:
    assert surge_of(wire.Strategy("RollingUpdate", wire.RollingUpdate(max_surge=surge)), replicas) == pods


def _stateful_set(wanted: int, policy: str | None, **status: Any) -> wire.StatefulSet:
    metadata = {"name": "pg", "namespace": "db", "uid": "sts"}
    spec = {"replicas": wanted, "template": TEMPLATE, "podManagementPolicy": policy}
    return _read(wire.StatefulSet, {"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("policy", "there", "promised"),
    [("OrderedReady", 3, 1), ("Parallel", 3, 17), (None, 3, 1), ("Parallel", 20, 0), ("OrderedReady", 20, 0)],
)
def test_a_stateful_set_makes_one_pod_at_a_time_unless_in_parallel(
    policy: str | None, there: int, promised: int
) -> None:
    promise = of_stateful_set(_stateful_set(20, policy, replicas=there, readyReplicas=there), there)

    assert (promise.count if promise is not None else 0) == promised
    assert promise is None or promise.key == "db/sts/pg"


def test_an_ordered_stateful_set_promises_nothing_beside_a_pod_that_its_status_does_not_count_yet() -> None:
    assert of_stateful_set(_stateful_set(20, None, replicas=3, readyReplicas=3), 4) is None


def test_an_ordered_stateful_set_makes_the_next_pod_when_the_last_one_is_ready() -> None:
    assert of_stateful_set(_stateful_set(20, None, replicas=3, readyReplicas=2), 3) is None
    promise = of_stateful_set(_stateful_set(20, None, replicas=3, readyReplicas=3), 3)
    assert promise is not None
    assert promise.count == 1


def _job(there: int, status: Any = None, **spec: Any) -> int:
    job = {"metadata": {"name": "sum", "namespace": "ops", "uid": "j"}, "spec": {"template": TEMPLATE, **spec}}
    promise = of_job(_read(wire.Job, {**job, "status": status or {}}), there)
    return promise.count if promise is not None else 0


def test_a_job_makes_as_many_as_run_in_parallel_and_are_left_to_complete() -> None:
    # job_controller.go manageJob
    assert _job(0, parallelism=50, completions=200) == 50
    assert _job(20, parallelism=50, completions=200) == 30
    assert _job(0, {"succeeded": 190}, parallelism=50, completions=200) == 10
    assert _job(0, parallelism=50) == 50
    assert _job(0) == 1


def test_a_job_whose_pods_fail_waits_before_it_makes_others_and_promises_none() -> None:
    assert _job(0, {"failed": 1}, parallelism=50, completions=200) == 0


def test_a_job_that_replaces_only_what_has_failed_waits_for_what_is_terminating() -> None:
    assert _job(0, {"terminating": 40}, parallelism=50, podReplacementPolicy="Failed") == 10
    assert _job(0, {"terminating": 40}, parallelism=50, podReplacementPolicy="TerminatingOrFailed") == 50


def test_a_work_queue_of_which_one_pod_has_succeeded_makes_no_more() -> None:
    assert _job(3, {"succeeded": 1}, parallelism=50) == 0


def test_pods_that_have_finished_and_are_not_counted_yet_are_not_promised_again() -> None:
    assert _job(0, {"active": 100}, parallelism=100, completions=100) == 0


@pytest.mark.parametrize("spec", [{"suspend": True}, {"managedBy": "kueue.x-k8s.io/multikueue"}])
def test_a_job_that_waits_or_is_anothers_promises_nothing(spec: Any) -> None:
    assert _job(0, parallelism=50, **spec) == 0


@pytest.mark.parametrize("ended", ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"])
def test_a_job_that_has_ended_promises_nothing(ended: str) -> None:
    assert _job(0, {"conditions": [{"type": ended, "status": "True"}]}, parallelism=50) == 0


@pytest.mark.parametrize(("name", "key"), [("sum", "ops/job/sum"), ("sum-29512345", "ops/cronjob/sum")])
def test_pods_of_a_job_are_promised_by_the_name_that_they_will_have_themselves(name: str, key: str) -> None:
    job = _read(wire.Job, {"metadata": {"name": name, "namespace": "ops", "uid": "j"}, "spec": {"template": TEMPLATE}})
    promise = of_job(job, 0)
    owner = wire.OwnerReference(kind="Job", name=name, controller=True)
    pod = wire.Metadata(name=f"{name}-x", namespace="ops", owner_references=[owner])
    assert promise is not None
    assert promise.key == "/".join(workload_of(pod)) == key
