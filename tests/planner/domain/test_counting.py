"""How each kind of pod counts: all combinations of what a pod can be, against the table that users read."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.snapshot import Snapshot
from slack.planner.domain.capacity import base_of
from slack.planner.domain.counting import counting_of
from slack.planner.domain.membership import divide
from slack.planner.model.plan_cache import PlanCache
from slack.planner.plan import plan
from slack.planner.wanted.demand import demand_of, pending_shares, pods_of
from tests.cluster.build import NOW, Json, node, pod
from tests.planner.scenes import plan_of, policy_of, replicas, snapshot_of

_PAGE = Path(__file__).parents[3] / "docs/how-it-works.md"
_PRIORITY = -10
_VIRTUAL = {"key": "virtual-kubelet.io/provider", "value": "cloud", "effect": "NoSchedule"}
_NODES = (
    node("n1", cpu="8"),
    node("cordoned", cpu="8", unschedulable=True),
    node("not-ready", cpu="8", ready=False),
    node("virtual", cpu="8", taints=[_VIRTUAL]),
)
_OTHERS = replicas(4, "api", "1", "1Gi", node="n1")

_Attribute = tuple[str, dict[str, Any]]
_BOUND: tuple[_Attribute, ...] = (("running", {}), ("running, being deleted", {"deleted": "2027-01-15T07:59:00Z"}))
_UNBOUND: tuple[_Attribute, ...] = (
    ("pending", {}),
    ("behind scheduling gates", {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
    ("larger than any node", {"cpu": "9"}),
    ("pending, being deleted", {"deleted": "2027-01-15T07:59:00Z"}),
)
_FINISHED: tuple[_Attribute, ...] = (("finished", {"phase": "Succeeded"}), ("finished", {"phase": "Failed"}))
_PLACES: tuple[_Attribute, ...] = (
    ("", {"node": "n1"}),
    ("on a cordoned node", {"node": "cordoned"}),
    ("on a node that is not ready", {"node": "not-ready"}),
    ("on a virtual or Fargate node", {"node": "virtual"}),
)
_OWNERS: tuple[_Attribute, ...] = (
    ("", {"owner": ("ReplicaSet", "tried")}),
    ("of a DaemonSet", {"owner": ("DaemonSet", "tried")}),
    (
        "of a DaemonSet",
        {
            "owner": ("ExtendedDaemonSetReplicaSet", "tried"),
            "annotations": {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"},
        },
    ),
    ("static", {"owner": ("Node", "n1"), "annotations": {"kubernetes.io/config.mirror": "x"}}),
)
_SCHEDULERS: tuple[_Attribute, ...] = (("", {}), ("of another scheduler", {"schedulerName": "volcano"}))
_PRIORITIES: tuple[_Attribute, ...] = (
    ("", {"priority": 0}),
    ("of the placeholders' priority", {"priority": _PRIORITY}),
    ("below the placeholders' priority", {"priority": _PRIORITY - 1}),
)
_PREEMPTION: tuple[_Attribute, ...] = (("", {}), ("that never preempts", {"preemptionPolicy": "Never"}))
_SPLIT = {"of another scheduler", "of the placeholders' priority", "below the placeholders' priority"}
"""Rows of which the table has one for pods on nodes and one for pods without."""


class Counts(NamedTuple):
    """Where a pod counts."""

    room: bool
    base: bool
    cover: bool


def combinations() -> Iterator[tuple[frozenset[str], Json]]:
    """Yield each kind of pod with the rows of the table that describe it."""
    kinds = [_OWNERS, _SCHEDULERS, _PRIORITIES, _PREEMPTION]
    here = (*product(_BOUND, _PLACES, *kinds), *product(_FINISHED, _PLACES[:1], *kinds))  # a finished one is nowhere
    for chosen in (*here, *product(_UNBOUND, *kinds)):
        names = {name for name, _ in chosen if name}
        fields: dict[str, Any] = {"tolerations": [{"key": _VIRTUAL["key"], "operator": "Exists"}]}
        for _, more in chosen:
            fields |= more
        where = "running" if "node" in fields else "pending"
        rows = frozenset(f"{name}, {where}" if name in _SPLIT else name for name in names)
        yield rows, pod("tried", cpu=fields.pop("cpu", "1"), **fields)


def table() -> dict[str, Counts]:
    """Return the rows of the page's table."""
    section = _PAGE.read_text().split("## Which pods count", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| (yes|no) \| (yes|no) \| (yes|no) \|", section, flags=re.MULTILINE)
    return {name: Counts(*(word == "yes" for word in words)) for name, *words in rows}


def measured(item: Json | None, unbound_scheduler: str = "") -> tuple[int, int, bool]:
    """Return the free millicores of all nodes, the base's, and whether the cover has room for the pod to make."""
    snapshot = snapshot_of(*_NODES, *_OTHERS, *([item] if item else []))
    policy = policy_of().model_copy(update={"unbound_scheduler": unbound_scheduler})
    (domain,), cache = divide(snapshot, [policy]), PlanCache()
    counting = counting_of(snapshot, domain, _PRIORITY, cache)
    (pending,) = pending_shares(snapshot, (domain,), [counting], cache)
    base = base_of(snapshot, domain, pending, counting)
    demand = demand_of(
        snapshot,
        domain,
        priority=_PRIORITY,
        counting=counting,
        mirrored=np.zeros(len(snapshot.kinds), dtype=bool),
        cache=cache,
    )
    covered = any(snapshot.kinds.workloads[k].name == "tried" and fits(snapshot, int(k)) for k in demand.rows)
    return int(snapshot.nodes.free[:, 0].sum()), int(base[0]), covered


def fits(snapshot: Snapshot, kind: int) -> bool:
    """Say whether one pod of a kind fits an empty node."""
    return bool((snapshot.kinds.requests[kind] <= snapshot.nodes.allocatable).all(axis=1).any())


@pytest.mark.parametrize("unbound_scheduler", ["", UNBOUND_SCHEDULER])
def test_every_combination_counts_as_the_table_says(unbound_scheduler: str) -> None:
    rows = table()
    if unbound_scheduler:  # as the page says below the table
        rows["that never preempts"] = rows["that never preempts"]._replace(cover=True)
    free, base, _ = measured(None, unbound_scheduler)
    used, wrong = set[str](), []
    for names, item in combinations():
        used |= names
        expected = Counts(*(all(column) for column in zip(*(rows[name] for name in names), strict=True)))
        free_with, base_with, covered = measured(item, unbound_scheduler)
        found = Counts(free_with < free, base_with > base, covered)
        if found != expected:
            wrong.append((sorted(names), found, expected))
    assert not wrong, f"{len(wrong)} kinds of pods count otherwise: {wrong[:5]}"
    assert used == set(rows), "the table has rows that no pod here is of"


@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
    "spec", [{}, {"perDomain": "Zone"}, {"extraCapacity": {"ladder": [{"fromNodes": 2, "minRate": 0.9}]}}]
)
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


def test_a_pod_that_requests_anything_on_a_node_that_it_names_takes_nothing_off_the_others() -> None:
    api, host = replicas(4, "api", "1", "1Gi", node="n0"), node("n0", cpu="32")
    huge = [pod(f"huge-{i}", cpu="9000000000000000", node="n0", priority=-100) for i in range(300)]
    snapshot = snapshot_of(host, *api, *huge)
    (domain,), cache = divide(snapshot, [policy_of()]), PlanCache()
    counting = counting_of(snapshot, domain, _PRIORITY, cache)
    base = base_of(snapshot, domain, np.zeros(0, dtype=np.int64), counting)
    assert 0 <= base[0] <= 32_000
    assert pods_of(snapshot, domain, np.zeros(0, dtype=np.int64), counting) == 4
