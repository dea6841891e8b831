"""The two forms of placeholders in a model, and that the modelled autoscalers keep nodes for unbound ones."""

from typing import Any

import numpy as np
import pytest

from slack.simulator.autoscaling.packing import Space
from slack.simulator.model.forms import TELL_SECONDS, planned
from slack.simulator.model.kinds import PodRole
from slack.simulator.model.state import READY, STARTING
from slack.simulator.runs.engine import Simulation
from tests.simulator.build import advance, at, group, scenario, simulation, workload

CLUSTER_AUTOSCALER = {"kind": "clusterAutoscaler", "scaleDownUnneededTime": "60s", "scaleDownDelayAfterAdd": "60s"}
KARPENTER = {"kind": "karpenter", "consolidateAfterSeconds": 5}
AUTOSCALERS = pytest.mark.parametrize("autoscaler", [CLUSTER_AUTOSCALER, KARPENTER], ids=lambda given: given["kind"])


def _policies(cores: int) -> dict[str, Any]:
    """One-core placeholders, as many as there are cores."""
    extra = {"floor": {"cpu": str(cores), "memory": "1Gi"}, "minRate": 0}
    spec = {"extraCapacity": extra, "cover": {"mode": "None"}, "granularity": 4}
    return {"kind": "policies", "policies": [{"name": "default", "spec": spec}]}


def _held(
    autoscaler: dict[str, Any], *arrivals: Any, cores: int = 4, duration: str = "1h", **changes: Any
) -> Simulation:
    """A node of four cores that real pods fill, and four cores held beside it."""
    standing = workload("api", cpu="1", arrivals={"kind": "deployment", "replicas": 4})
    return simulation(
        nodeGroups=[group(min=1, max=9)],
        workloads=[standing, *arrivals],
        autoscaler=autoscaler,
        operator={"hold": "Unbound", **changes},
        slack=_policies(4),
    )


def _nodes(sim: Simulation) -> int:
    return len(sim.cluster.rows(READY)) + len(sim.cluster.rows(STARTING))


def _placeholders(sim: Simulation) -> list[int]:
    kinds = sim.cluster.kinds
    return [pod for pod in sim.cluster.alive() if kinds[sim.cluster.kind_of[pod]].role is PodRole.PLACEHOLDER]


def _numbers(sim: Simulation) -> set[int]:
    return {sim.cluster.number[pod] for pod in _placeholders(sim)}


@AUTOSCALERS
def test_a_node_is_added_for_unbound_placeholders_and_kept_although_it_is_empty(autoscaler: dict[str, Any]) -> None:
    sim = _held(autoscaler)

    advance(sim, 30)
    assert _nodes(sim) == 2  # one node more, within an autoscaler's time
    advance(sim, 3000)

    assert _nodes(sim) == 2
    assert all(sim.cluster.node_of[pod] < 0 for pod in _placeholders(sim))
    assert [len(sim.cluster.pods_on[node]) for node in sim.cluster.rows(READY).tolist()].count(0) == 1
    assert sim.meter.counters["drained"] == 0


@AUTOSCALERS
def test_what_a_burst_takes_is_refilled_by_the_autoscaler_alone(autoscaler: dict[str, Any]) -> None:
    burst = workload("burst", cpu="1", life={"kind": "constant", "seconds": 600}, arrivals=at(1200, size=4))
    sim = _held(autoscaler, burst)
    advance(sim, 1199)
    before = _numbers(sim)

    advance(sim, 1202)
    assert sim.cluster.running[1] == 4  # at once, into the empty node
    advance(sim, 1230)

    assert _nodes(sim) == 3  # the refill: the same pods fit nowhere
    assert _numbers(sim) == before
    assert sim.meter.counters["displaced"] == sim.meter.counters["made_way"] == 0
    advance(sim, 3500)
    assert _nodes(sim) == 2  # the burst has gone, and with it the node that it needed
    assert _numbers(sim) == before


@AUTOSCALERS
def test_nodes_go_when_the_placeholders_go(autoscaler: dict[str, Any]) -> None:
    sim = _held(autoscaler)
    advance(sim, 1200)
    assert _nodes(sim) == 2

    (kind,) = (kind for kind in sim.cluster.kinds.table if kind.role is PodRole.PLACEHOLDER)
    sim.clock.after(0.0, lambda _: sim.sets.scale(kind, 0, sim.clock.now))
    advance(sim, 1500)

    assert _nodes(sim) == 1
    assert sim.meter.counters["placeholders_drained"] == 0


@AUTOSCALERS
def test_the_node_that_holds_placeholders_is_tainted_once_and_karpenter_takes_the_taint_for_a_strict_one(
    autoscaler: dict[str, Any],
) -> None:
    sim = _held(autoscaler, softTaint=True)
    cluster = sim.cluster

    advance(sim, 3000)
    assert _nodes(sim) == 2, "placeholders tolerate it, so no node is added for them"
    tainted = np.flatnonzero(cluster.softly_tainted[: cluster.size]).tolist()
    assert tainted == [node for node in cluster.rows(READY).tolist() if not cluster.pods_on[node]]
    assert sim.meter.counters["taint_writes"] == 1
    real, placeholder = cluster.kinds[0], cluster.kinds[cluster.kind_of[_placeholders(sim)[0]]]
    lenient, strict = Space(cluster), Space(cluster, strict_taints=True)
    assert (lenient.room(real)[tainted] > 0).all()
    assert not strict.room(real).any()
    assert (strict.room(placeholder)[tainted] > 0).all()


def test_placeholders_are_told_one_after_the_other() -> None:
    sim = _held(CLUSTER_AUTOSCALER)

    advance(sim, 1.5 * TELL_SECONDS)
    assert sum(len(pods) for pods in sim.scheduler.refused.values()) == 1
    advance(sim, 4.5 * TELL_SECONDS)
    assert sum(len(pods) for pods in sim.scheduler.refused.values()) == 4


def test_the_timeline_counts_unbound_placeholders_that_fit_as_bound() -> None:
    rows = _held(CLUSTER_AUTOSCALER).run().timeline

    assert rows[-1].slack_bound_cpu_millis == 4000
    assert rows[-1].slack_pending_cpu_millis == 0


@pytest.mark.parametrize(
    ("autoscaler", "default", "own", "unbound"),
    [
        ("clusterAutoscaler", "Auto", None, True),
        ("karpenter", "Auto", None, True),
        ("none", "Auto", None, False),
        ("none", "Unbound", None, True),
        ("karpenter", "Bound", None, False),
        ("karpenter", "Bound", "Unbound", True),
        ("karpenter", "Unbound", "Bound", False),
        ("none", "Unbound", "Auto", False),
    ],
)
def test_a_policy_has_the_form_that_the_operator_would_give_it(
    autoscaler: str, default: str, own: str | None, unbound: bool
) -> None:
    spec = {} if own is None else {"hold": own}
    given = scenario(
        autoscaler={"kind": autoscaler},
        operator={"hold": default},
        slack={"kind": "policies", "policies": [{"name": "a", "spec": spec}]},
    )

    assert [bool(policy.unbound_scheduler) for policy in planned(given)] == [unbound]


def test_way_is_made_only_where_a_policy_has_bound_placeholders() -> None:
    assert _held(CLUSTER_AUTOSCALER).way is None
    bound = simulation(operator={"hold": "Bound"}, slack=_policies(4))
    assert bound.way is not None
