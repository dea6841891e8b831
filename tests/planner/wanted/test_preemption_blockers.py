"""Pods that stand on every node already have no node left, whatever workloads and namespaces are beside them."""

import random

from slack.planner.domain.counting import counting_of
from slack.planner.domain.membership import divide
from slack.planner.model.plan_cache import PlanCache
from slack.planner.wanted.preemption_blockers import PreemptionBlocker, preemption_blockers
from tests.cases import run_for_each
from tests.cluster.build import NOW, Json, columns_of, node, pod
from tests.planner.scenes import policy_of

HOSTS = "kubernetes.io/hostname"


def apart(label: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"team": label}}, "topologyKey": HOSTS}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@run_for_each("seed", range(30))
def test_as_many_pods_as_there_are_nodes_that_avoid_one_another_have_none_left(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [f"n{number}" for number in range(rng.randint(2, 5))]
    objects: list[Json] = []
    standing: dict[tuple[str, str], int] = {}
    teams: dict[str, tuple[str, str]] = {}
    for number in range(rng.randint(3, 8)):
        namespace, team, name = rng.choice("ab"), rng.choice("xy"), f"w{number}"
        teams[name] = namespace, team
        for at in rng.sample(nodes, rng.randint(1, len(nodes))):
            standing[namespace, team] = standing.get((namespace, team), 0) + 1
            labels, owner = {"team": team}, ("ReplicaSet", name)
            objects.append(pod(f"{name}-{at}", ns=namespace, node=at, labels=labels, owner=owner, affinity=apart(team)))
    snapshot = columns_of(*(node(name) for name in nodes), *objects).snapshot(NOW)
    (domain,) = divide(snapshot, [policy_of()])
    cache, rows = PlanCache(), snapshot.kinds.constraint_id.argsort()
    found = dict(preemption_blockers(snapshot, domain, rows, counting_of(snapshot, domain, -10, cache), cache))
    full = {snapshot.kinds.workloads[k].name for k in found[PreemptionBlocker.NO_NODE_LEFT].tolist()}
    assert full == {name for name, own in teams.items() if standing[own] >= len(nodes)}
