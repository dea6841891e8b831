"""How each kind of pod counts: all combinations of what a pod can be, against the table that users read."""

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.capacity import base_of, ceiling_of, pending_requests
from slack.planner.domain.counting import counting_of
from slack.planner.domain.ladder import cluster_size
from slack.planner.domain.membership import divide
from slack.planner.model.plan_cache import PlanCache
from slack.planner.plan import plan
from slack.planner.wanted.demand import demand_of, pending_shares, pods_of
from slack.planner.wanted.reserve_limits import budget_of
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, node, pod
from tests.examples import by_profile
from tests.planner.pod_table import NODES, OF_NODES, OTHERS, PRIORITY, combinations, expected, table
from tests.planner.scenes import FREELY, plan_of, policy_of, replicas, snapshot_of


class Measured(NamedTuple):
    """What one pod changes."""

    free_millis: int
    """Of all nodes."""
    base_millis: int
    ladder_millis: int
    """How large the cluster is for a ladder by what is requested."""
    ladder_nodes: float
    """The same by nodes."""
    reservable_pods: int
    """How many placeholders all reservations may take."""
    pods: int
    """Of the policy's status."""
    covered: bool
    """The cover has room for it to make."""
    reserved: int
    """Placeholders that its workload gets for its annotation."""


def measured(item: Json | None, unbound_scheduler: str = "") -> Measured:
    """Return what a cluster comes to with this pod."""
    snapshot = snapshot_of(*NODES, *OTHERS, *([item] if item else []))
    policy = policy_of().model_copy(update={"unbound_scheduler": unbound_scheduler})
    (domain,), cache = divide(snapshot, [policy]), PlanCache()
    counting = counting_of(snapshot, domain, PRIORITY, cache)
    (pending,) = pending_shares(snapshot, (domain,), [counting], cache)
    demand = demand_of(
        snapshot,
        domain,
        priority=PRIORITY,
        counting=counting,
        mirrored=np.zeros(len(snapshot.kinds), dtype=bool),
        cache=cache,
    )
    size = cluster_size(snapshot, domain, pending_requests(snapshot, pending), counting)
    return Measured(
        free_millis=int(snapshot.nodes.free[:, 0].sum()),
        base_millis=int(base_of(snapshot, domain, pending, counting)[0]),
        ladder_millis=int(size.requested[0]),
        ladder_nodes=size.nodes,
        reservable_pods=int(budget_of(snapshot, domain, ceiling_of(snapshot, domain.policy), counting).most[-1]),
        pods=pods_of(snapshot, domain, pending, counting),
        covered=any(snapshot.kinds.workloads[k].name == "tried" and fits(snapshot, int(k)) for k in demand.rows),
        reserved=mirrors_of(unbound_scheduler, *NODES, *OTHERS, *([reserving(item)] if item else [])),
    )


def reserving(item: Json) -> Json:
    """Return the pod with an annotation that reserves one more of its kind."""
    annotations = {**(item["metadata"]["annotations"] or {}), "resource-slack.io/reserve": "1"}
    return {**item, "metadata": {**item["metadata"], "annotations": annotations}}


def mirrors_of(unbound_scheduler: str, *objects: Json) -> int:
    """Return how many placeholders are kept for workloads by name."""
    policy = policy_of(reserve=FREELY).model_copy(update={"unbound_scheduler": unbound_scheduler})
    item = plan(snapshot_of(*objects), [policy], now=NOW).items[0]
    return sum(s.count for s in item.shapes if s.role == "mirror")


def fits(snapshot: Snapshot, kind: int) -> bool:
    """Say whether one pod of a kind fits an empty node."""
    return bool((snapshot.kinds.requests[kind] <= snapshot.nodes.allocatable).all(axis=1).any())


@pytest.mark.parametrize("unbound_scheduler", ["", UNBOUND_SCHEDULER])
def test_every_combination_counts_as_the_table_says(unbound_scheduler: str) -> None:
    used, wrong, without = set[str](), [], measured(None)
    for names, item in islice(combinations(), 0, None, by_profile(13, 1)):
        used |= names
        says, found = expected(names, unbound=unbound_scheduler != ""), measured(item, unbound_scheduler)
        # Mirrors have their workload's tolerations, so pods on tainted nodes count for what these may take.
        bounds = expected(names - {"on a virtual or Fargate node"}).base and item["spec"]["nodeName"] is not None
        right = {
            "room": (found.free_millis < without.free_millis) == says.room,
            "base": (found.base_millis > without.base_millis) == says.base,
            "ladder": (found.ladder_millis > without.ladder_millis) == says.base,
            # What DaemonSets take leaves less of a node for the pods that fill it.
            "nodes": bool(names & OF_NODES) or (found.ladder_nodes > without.ladder_nodes + 1e-9) == says.base,
            "status": (found.pods > without.pods) == says.base,
            "budget": (found.reservable_pods > without.reservable_pods) == bounds,
            "cover": found.covered == says.cover,
            "reserve": (found.reserved > 0) == says.reserve,
        }
        wrong += [(sorted(names), what) for what, is_right in right.items() if not is_right]
    assert not wrong, f"{len(wrong)} kinds of pods count otherwise: {wrong[:9]}"
    assert used == set(table()), "the table has rows that no pod here is of"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"preemptionPolicy": "Never"}, "preemptionPolicy Never: its pods cannot take a placeholder's place"),
        ({"priority": -10}, "priority -10 is not above the placeholders': its pods cannot take their place"),
    ],
)
def test_a_reservation_that_no_pod_could_use_is_cut_with_the_reason(fields: Json, reason: str) -> None:
    item = reserving(pod("tried", cpu="1", node="n1", owner=("ReplicaSet", "tried"), **fields))
    made = plan(snapshot_of(*NODES, *OTHERS, item), [policy_of(reserve=FREELY)], now=NOW).items[0]
    assert [(cut.name, cut.granted, cut.reason) for cut in made.cut] == [("tried", 0, reason)]
    assert made.feasible


@run_for_each(
    "queued",
    [
        {"schedulingGates": [{"name": "queue"}]},
        {"schedulerName": "volcano"},
        {"priority": -100},
        {"priority": -10},
        {"nodeSelector": {"pool": "nowhere"}},
        {"extended": {"example.com/fpga": "1"}},
    ],
)
@run_for_each("spec", [{}, {"perDomain": "Zone"}, {"extraCapacity": {"ladder": [{"fromNodes": 2, "minRate": 0.9}]}}])
def test_a_queue_of_pods_that_cannot_start_raises_nothing(queued: dict[str, Any], spec: dict[str, Any]) -> None:
    nodes = [node(f"n{i}", labels={"topology.kubernetes.io/zone": "a"}) for i in range(2)]
    running = replicas(3, "api", "1", "1Gi", node="n0")
    queue = replicas(300, "job", "3", "4Gi", **queued)
    alone, beside = plan_of(*nodes, *running, **spec), plan_of(*nodes, *running, *queue, **spec)
    assert beside.pods == alone.pods
    assert (beside.base[:2] == alone.base[:2]).all()
    assert (beside.planned[:2] == alone.planned[:2]).all()
    assert [s.shape for s in beside.shapes] == [s.shape for s in alone.shapes]


def test_gated_pods_count_when_their_gates_are_removed() -> None:
    queue = replicas(8, "job", "1", "1Gi")
    gated = replicas(8, "job", "1", "1Gi", schedulingGates=[{"name": "queue"}])
    api, host = replicas(2, "api", "1", "1Gi", node="n0"), node("n0", cpu="32")
    half = plan_of(host, *api, *queue[:4], *gated[4:])
    assert half.base[0] == 6000
    assert half.pods == 6
    assert plan_of(host, *api, *queue).base[0] == 10_000


def test_a_reservation_in_percent_is_not_of_gated_pods() -> None:
    reserve = {"resource-slack.io/reserve": "50%"}
    running = replicas(4, "batch", "1", "1Gi", node="n0", owner=("Batch", "batch"), annotations=reserve)
    gates = [{"name": "queue"}]
    gated = [
        pod(f"g{i}", cpu="1", owner=("Batch", "batch"), annotations=reserve, schedulingGates=gates) for i in range(40)
    ]
    host = node("n0", cpu="64")
    assert mirrors(host, *running) == mirrors(host, *running, *gated) == 2


def mirrors(*objects: Json) -> int:
    """Return how many mirrors are planned."""
    free = {"maxShare": 10, "ceiling": {"cpu": "10000", "memory": "100Ti", "pods": "10000"}}
    item = plan(snapshot_of(*objects), [policy_of(reserve=free)], now=NOW).items[0]
    return sum(s.count for s in item.shapes if s.role == "mirror")


def test_bound_pods_below_the_placeholders_make_no_slack_that_would_preempt_them() -> None:
    api, host = replicas(4, "api", "1", "1Gi", node="n0"), node("n0", cpu="32")
    low = replicas(20, "batch", "1", "1Gi", node="n0", priority=-100)
    found = plan_of(host, *api, *low)
    assert (found.base[0], found.pods) == (4000, 4)


@pytest.mark.parametrize("priority", [-100, 0])
def test_a_pod_that_requests_anything_on_a_node_that_it_names_takes_nothing_off_the_others(priority: int) -> None:
    api, host = replicas(4, "api", "1", "1Gi", node="n0"), node("n0", cpu="32")
    huge = [pod(f"huge-{i}", cpu="9000000000000000", node="n0", priority=priority) for i in range(3000)]
    snapshot = snapshot_of(host, *api, *huge)
    (domain,), cache = divide(snapshot, [policy_of()]), PlanCache()
    counting = counting_of(snapshot, domain, PRIORITY, cache)
    base = base_of(snapshot, domain, np.zeros(0, dtype=np.int64), counting)
    assert 0 <= base[0] <= 32_000
    size = cluster_size(snapshot, domain, np.zeros(len(base), dtype=np.int64), counting)
    assert 0 <= size.nodes <= 1
    assert 0 <= budget_of(snapshot, domain, ceiling_of(snapshot, domain.policy), counting).most[0] <= 32_000
    pods = pods_of(snapshot, domain, np.zeros(0, dtype=np.int64), counting)
    assert pods == (4 if priority < 0 else 3004)
