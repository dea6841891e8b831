"""The set of placeholders stays as it is: load that moves, a second policy, other nodes and a restart exchange none.

Ten minutes beside the stock autoscaler when its binary is there (`CLUSTER_AUTOSCALER`), else a minute on nodes that
stay. How each placeholder ended is read in the API server's audit log: the scheduler preempted it, it made way, its
node was drained, or its ReplicaSet had one too many. Only the last is ours to explain, and none is too many while
the shrink delay, which is longer than the test, has not passed.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest

from e2e.harness.api import Api
from e2e.harness.autoscalers.cluster_autoscaler import VARIABLE, ClusterAutoscaler, NodeGroup
from e2e.harness.cluster import kwok
from e2e.harness.cluster.audit_log import WRITES, AuditEntry
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, scale, wait_for_running, wait_until
from e2e.harness.product.burst_log import KUBELETS, REPLICA_SETS, SCHEDULER
from e2e.harness.product.operator import (
    NAMESPACE,
    POLICIES,
    USER,
    Operator,
    held,
    placeholders,
    policy,
    replica_sets,
    status,
    wait_until_placed,
)
from slack.cluster.hold import Hold

AUTOSCALER = bool(os.environ.get(VARIABLE))
SECONDS = float(os.environ.get("STABLE_SECONDS", "600" if AUTOSCALER else "60"))
"""For all that must change nothing: moves of the load take the first 7 parts of 10, three accidents one part each."""
PODS, JOBS = 20, 3
MOVES = (24, 16, 20)
"""A fifth up, a fifth down, and back."""
POLICY_LABEL = "resource-slack.io/policy"
MAKE_WAY = "slack_made_way_total"


@dataclass(frozen=True, slots=True)
class Ends:
    """How placeholders ended since a mark in the audit log: names, by who ended them."""

    displaced: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)
    """Their ReplicaSet or the operator deleted them: they made way, were one too many, or were exchanged.

    Only of those that held capacity: while room is lent a ReplicaSet may make one anew and take it away again.
    """
    drained: set[str] = field(default_factory=set)
    made: int = 0
    steps: list[str] = field(default_factory=list)
    """What was done to them and to their ReplicaSets, as the API server tells it: when, by whom, to which."""

    def __str__(self) -> str:
        return (
            f"{self.made} made, {len(self.displaced)} displaced, {len(self.drained)} drained, {len(self.ours)} of ours"
        )


def ends(entries: list[AuditEntry], there: Collection[str]) -> Ends:
    """Read how each placeholder ended since it was bound, or autoscalers were told of it; who asked first decides it.

    Args:
        entries: of the audit log since a mark.
        there: names of those that held capacity by then.
    """
    displaced: set[str] = set()
    ours: set[str] = set()
    drained: set[str] = set()
    steps: list[str] = []
    made, seen, bound = 0, set[str](), set(there)
    for entry in sorted(entries, key=lambda entry: entry.time):
        if entry.namespace != NAMESPACE or not 200 <= entry.code < 300 or entry.dry_run:
            continue
        made += (entry.verb, entry.resource) == ("create", "pods")
        if entry.resource.startswith(("pods", "apps/replicasets")) and entry.user != KUBELETS and entry.verb in WRITES:
            steps.append(f"{entry.time} {entry.user} {entry.verb} {entry.resource} {entry.name}")
        told_of = (entry.verb, entry.resource, entry.user) == ("patch", "pods/status", USER)
        if told_of or (entry.verb, entry.resource) == ("create", "pods/binding"):
            bound.add(entry.name)
        evicted = (entry.verb, entry.resource) == ("create", "pods/eviction")
        deleted = (entry.verb, entry.resource) == ("delete", "pods") and entry.user != KUBELETS
        if entry.name in seen or not (evicted or deleted):
            continue
        seen.add(entry.name)
        if evicted:
            drained.add(entry.name)
        elif entry.user == SCHEDULER:
            displaced.add(entry.name)
        elif entry.user in (REPLICA_SETS, USER):
            if entry.name in bound:
                ours.add(entry.name)
        else:
            drained.add(entry.name)  # by who collects the pods of nodes that are gone
    return Ends(displaced, ours, drained, made, steps)


@contextmanager
def machines(cluster: Backend) -> Iterator[None]:
    """Nodes that come and go with what is asked for, or six that stay."""
    if not AUTOSCALER:
        create_all(cluster.api, [kwok.node(f"node-{number}") for number in range(6)])
    groups = [NodeGroup("general", max_count=10, boot_seconds=2)]
    with ClusterAutoscaler(cluster, groups) if AUTOSCALER else nullcontext():
        yield


def of_data(api: Api) -> int:
    """Return how many placeholders the second policy has."""
    return len([pod for pod in placeholders(api) if pod["metadata"]["labels"][POLICY_LABEL] == "data"])


def names(api: Api) -> dict[str, str]:
    """Return the names of the placeholders that hold capacity, of either form, and the UID of each."""
    found = [*held(api, Hold.BOUND), *held(api, Hold.UNBOUND)]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


@pytest.mark.timeout(SECONDS + 540)
def test_load_that_moves_a_second_policy_another_size_and_a_restart_exchange_no_placeholder(
    cluster: Backend, hold: Hold
) -> None:
    api = cluster.api
    with machines(cluster):
        with Operator(cluster, name="operator-stable") as operator:
            operator.wait_until_ready()
            create_all(
                api,
                [
                    deployment("api", PODS, cpu="500m", memory="1Gi"),
                    deployment("job", JOBS, cpu="1500m", memory="2Gi"),
                    policy("main", hold=hold, extraCapacity={"minRate": 0.3}, stabilization={"shrinkDelay": "60m"}),
                ],
            )
            wait_for_running(api, PODS + JOBS, 120)
            wait_until_placed(api, "main", 120)
            time.sleep(10)  # what the last pods that came want more of is asked for, and placed
            wait_until_placed(api, "main", 120)
            mark, first = cluster.audit_mark(), names(api)
            assert len(first) >= 4

            move_load(api, SECONDS * 0.7)
            made_way = operator.metric(MAKE_WAY)
            told("the load moved", cluster, mark, first)
            nothing_exchanged(cluster, mark, made_way, first)

            create_all(api, [kwok.node(f"data-{n}", labels={"team": "data"}) for n in range(2)])
            api.create(policy("data", hold=hold, nodeSelector={"team": "data"}, extraCapacity={"minRate": 0.1}))
            stand_still(cluster, operator, "a second policy took two empty nodes")
            api.create(kwok.node("small", cpu="2", memory="8Gi"))
            stand_still(cluster, operator, "a node of another size came")
            made_way = operator.metric(MAKE_WAY)
            nothing_exchanged(cluster, mark, made_way, first)
            operator.stop()
        with Operator(cluster, name="operator-stable-again") as operator:
            operator.wait_until_ready()
            stand_still(cluster, operator, "the operator was started again")
            nothing_exchanged(cluster, mark, made_way + operator.metric(MAKE_WAY), first)
            only_what_is_too_much_leaves(cluster, operator)


def move_load(api: Api, seconds: float) -> None:
    """Scale the Deployment up and down by a fifth until the time is over, and back."""
    until, move = time.monotonic() + seconds, 0
    pause = 15.0 if AUTOSCALER else 5.0
    while time.monotonic() < until or move % len(MOVES):
        count = MOVES[move % len(MOVES)]
        scale(api, "api", count)
        wait_for_running(api, count, 120, labelSelector="app=api")
        time.sleep(pause)
        move += 1


def stand_still(cluster: Backend, operator: Operator, why: str) -> None:
    """Let time pass after something happened; whoever was bound then is there, unless a node was drained meanwhile."""
    api = cluster.api
    mark, before, made_way = cluster.audit_mark(), names(api), operator.metric(MAKE_WAY)
    time.sleep(SECONDS / 10)
    found, after = ends(cluster.audit_entries(since=mark), before), names(api)
    told(why, cluster, mark, before)
    assert len(found.ours) <= operator.metric(MAKE_WAY) - made_way, why
    gone = {name for name, uid in before.items() if after.get(name) != uid}
    assert gone <= found.drained | found.displaced | found.ours, why
    assert AUTOSCALER or gone == set(), why


def nothing_exchanged(cluster: Backend, mark: int, made_way: float, first: dict[str, str]) -> None:
    """Whoever is gone was displaced or drained, or made way: no more than the operator tells of are ended by us."""
    found, now = ends(cluster.audit_entries(since=mark), first), names(cluster.api)
    assert len(found.ours) <= made_way, "\n".join(
        (f"{found}; {made_way:g} made way; shapes {shapes(cluster.api)}", f"ours: {sorted(found.ours)}", *found.steps)
    )
    gone = {name for name, uid in first.items() if now.get(name) != uid}
    assert gone <= found.displaced | found.drained | found.ours


def only_what_is_too_much_leaves(cluster: Backend, operator: Operator) -> None:
    """Less load for longer than the shrink delay: some leave, none is made for them, and the rest is enough."""
    api = cluster.api
    scale(api, "api", 10)
    wait_for_running(api, 10, 120, labelSelector="app=api")
    mark, began, before, there = cluster.audit_mark(), operator.metric(MAKE_WAY), of_data(api), names(api)

    def made_way() -> float:
        """For pods of nodes that the autoscaler drains."""
        return operator.metric(MAKE_WAY) - began

    def now() -> Ends:
        return ends(cluster.audit_entries(since=mark), there)

    api.patch(f"{POLICIES}/main", {"spec": {"stabilization": {"shrinkDelay": "5s"}}})
    wait_until(
        lambda: len(now().ours) > made_way(),
        90,
        "what is too much to leave",
        state=lambda: (str(now()), status(api, "main")),
        every=1.0,
    )
    time.sleep(8)
    wait_until_placed(api, "main", 120)
    found = now()
    told("less was wanted for the whole shrink delay", cluster, mark, there)
    others = len(found.displaced) + len(found.drained) + made_way()
    others += max(of_data(api) - before, 0)  # a drained pod that came to its nodes is one to keep room for
    assert found.made <= others, f"{found}: none is made for what was too much"
    assert names(api)


def told(what: str, cluster: Backend, mark: int, there: Collection[str]) -> None:
    """Print what a step did to the placeholders."""
    found = ends(cluster.audit_entries(since=mark), there)
    print(f"\n{what}: {found}; {len(names(cluster.api))} there on {len(nodes(cluster.api))} nodes", flush=True)


def shapes(api: Api) -> list[str]:
    """Return counts and requests of all ReplicaSets, for a failure's text."""
    return [
        f"{rs['metadata']['name']} {rs['spec']['replicas']} x "
        f"{rs['spec']['template']['spec']['containers'][0]['resources']['requests']}"
        for rs in replica_sets(api)
    ]
