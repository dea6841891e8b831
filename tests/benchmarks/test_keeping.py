"""When the benchmark of slack beside real autoscalers calls a figure reached, and what it makes of an audit log."""

from dataclasses import replace

import pytest

from benchmarks.keeping.load import Waits, waits_of
from benchmarks.keeping.stage import Autoscaler, Form, Kept
from benchmarks.keeping.verdict import judge, table
from e2e.harness.cluster.audit_log import AuditEntry

STATUS = {"patch resource-slack.io/slackpolicies/status": 4}
GOOD = Kept(
    node_seconds=12.0,
    reserved_seconds=17.0,
    refill_seconds=26.9,
    refill_writes=STATUS,
    small=Waits((0.1, 0.2)),
    large=Waits((0.1,)),
    nodes=6.1,
    preempted=0,
    created=2,
    deleted=0,
    writes=STATUS,
)
BOUND = replace(GOOD, nodes=6.0, preempted=9, created=9, deleted=9)


def verdicts(unbound: Kept) -> dict[str, bool]:
    found = {(Autoscaler.KARPENTER, Form.BOUND): BOUND, (Autoscaler.KARPENTER, Form.UNBOUND): unbound}
    return {str(row["what"]): row[""] == "ok" for row in judge(found)}


def test_everything_wanted_is_reached_and_what_bound_placeholders_do_is_not_judged() -> None:
    figures = verdicts(GOOD)
    assert len(figures) == 8
    assert all(figures.values())
    assert judge({(Autoscaler.KARPENTER, Form.BOUND): BOUND}) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"reserved_seconds": 17.1}, "helm install to reserved, Karpenter"),
        ({"refill_seconds": 27.1}, "refill, Karpenter"),
        ({"refill_writes": {**STATUS, "patch apps/replicasets": 1}}, "writes except status, refill, Karpenter"),
        ({"preempted": 1}, "preemptions while the load moves, Karpenter"),
        ({"deleted": 1}, "placeholders recreated while the load moves, Karpenter"),
        ({"nodes": 6.19}, "nodes, unbound / bound, Karpenter"),
        ({"small": Waits((0.1, 2.1))}, "small pods without waiting, Karpenter"),
        ({"large": Waits((2.1,))}, "large pods without waiting, Karpenter"),
    ],
)
def test_each_figure_can_be_missed(change: dict[str, object], what: str) -> None:
    figures = verdicts(replace(GOOD, **change))  # type: ignore[arg-type]  # each value is of its field's type
    assert [name for name, ok in figures.items() if not ok] == [what]


def test_the_cluster_autoscaler_has_no_ten_seconds_to_look_again() -> None:
    rows = judge({(Autoscaler.CLUSTER_AUTOSCALER, Form.UNBOUND): GOOD})
    assert [row["what"] for row in rows if row[""] == "missed"] == ["refill, Cluster Autoscaler"]


def test_placeholders_by_which_the_amount_grows_are_not_recreated() -> None:
    assert replace(GOOD, created=5, deleted=2).recreated == 2
    assert table({(Autoscaler.KARPENTER, Form.UNBOUND): GOOD})[0]["writes but status"] == 0


def test_waits_are_those_of_one_deployment() -> None:
    def entry(second: float, resource: str, name: str) -> AuditEntry:
        stamp = f"2026-01-01T00:00:{second:09.6f}Z"
        return AuditEntry("u", "create", resource, "default", name, 201, stamp, "", answered=stamp)

    log = [
        entry(1.0, "pods", "small-1"),
        entry(1.5, "pods/binding", "small-1"),
        entry(1.0, "pods", "large-1"),
        entry(4.0, "pods/binding", "large-1"),
        entry(4.0, "pods/binding", "small-0"),
    ]
    assert waits_of(log, "small").seconds == (0.5,)
    assert waits_of(log, "large").at_once == 0.0
