"""When the benchmark of slack beside real autoscalers calls a figure reached, and what it makes of an audit log."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.keeping.installation import Installation, InstallationClock
from benchmarks.keeping.load import Waits, waits_of
from benchmarks.keeping.stage import Autoscaler, Form, Kept
from benchmarks.keeping.verdict import judge, steps, table
from e2e.harness.cluster.audit_log import AuditEntry

STATUS = {"patch resource-slack.io/slackpolicies/status": 4}
INSTALLED = Installation(container=2.0, ready=3.5, created=3.9, told=4.1, node_made=6.0, node_ready=16.5, reserved=17.0)
GOOD = Kept(
    node_seconds=12.0,
    installation=INSTALLED,
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
        ({"installation": replace(INSTALLED, reserved=17.1)}, "helm install to reserved, Karpenter"),
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


def test_an_installation_is_printed_step_by_step() -> None:
    row = steps({(Autoscaler.KARPENTER, Form.UNBOUND): GOOD})[0]
    assert (row["operator ready s"], row["reserved s"], row["beyond a node s"]) == (3.5, 17.0, 5.0)


class Watched:
    """An API server that has one node and no pod, and sends events of both."""

    _path = ""

    def get(self, path: str) -> dict[str, object]:
        items = [{"metadata": {"name": "old"}}] if path.endswith("nodes") else []
        return {"metadata": {"resourceVersion": "1"}, "items": items}

    def watch(self, path: str, version: str) -> "Watched":
        assert version == "1"
        found = Watched()
        found._path = path
        return found

    def __iter__(self) -> Iterator[dict[str, object]]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        labels = {"resource-slack.io/placeholder": "true"}
        told = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        events: list[dict[str, object]] = [
            {"metadata": {"name": "old"}, "status": ready},
            {"metadata": {"name": "new"}},
            {"metadata": {"name": "new"}, "status": ready},
        ]
        if self._path.endswith("pods"):
            events = [
                {"metadata": {"name": "other"}, "spec": {"nodeName": "old"}},
                {"metadata": {"name": "slack", "labels": labels}, "spec": {}, "status": {}},
                {"metadata": {"name": "slack", "labels": labels}, "spec": {}, "status": told},
            ]
        return iter([{"type": "MODIFIED", "object": found} for found in events])

    def stop(self) -> None:
        pass


def test_steps_are_those_of_placeholders_and_of_nodes_that_came() -> None:
    began = time.monotonic()
    with InstallationClock(Watched()) as clock:  # type: ignore[arg-type]  # all that is asked of an API server
        assert clock._threads
    found = clock.installation(began, container=0.0, ready=0.0, reserved=9.0)
    assert 0 < found.created <= found.told < 5
    assert 0 < found.node_made <= found.node_ready < 5
    assert set(clock._made) == {"new"}
    assert set(clock._created) == {"slack"}


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
