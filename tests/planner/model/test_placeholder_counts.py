"""Counts of placeholders are those that one gets who looks at each of them."""

import random
from collections import Counter

from slack.cluster.snapshot import Placeholder
from slack.planner.model.placeholder_counts import alike_of, by_policy, requested
from slack.planner.rollout.backoff import pods_by_shape
from tests.cases import run_for_each

NOW = 1000.0


def some(seed: int) -> tuple[Placeholder, ...]:
    rng = random.Random(seed)
    return tuple(
        Placeholder(
            uid=str(number),
            name=f"p{number}",
            policy=rng.choice("ab"),
            shape=rng.choice("xyz"),
            replica_set="",
            node=rng.choice((-1, 0, 5)),
            created_seconds=float(rng.choice((10, 500, 2000))),
            deletion_cost=0,
            unschedulable=rng.random() < 0.5,
            requests=rng.choice((None, (("cpu", 1),), (("cpu", 2),))),
            unbound=rng.random() < 0.5,
        )
        for number in range(rng.randint(0, 60))
    )


@run_for_each("seed", range(20))
def test_counts_are_those_of_single_placeholders(seed: int) -> None:
    placeholders = some(seed)
    for policy, own in by_policy(placeholders):
        assert own == tuple(pod for pod in placeholders if pod.policy == policy)
        alike = alike_of(own)
        assert sum(each.count for each in alike) == len(own)
        found = pods_by_shape(alike, NOW)
        assert list(found) == sorted({pod.shape for pod in own})
        for name, pods in found.items():
            mine = [pod for pod in own if pod.shape == name]
            waiting = [pod for pod in mine if pod.node < 0]
            assert pods.bound == len(mine) - len(waiting)
            assert pods.pending == len(waiting)
            ages = [max(NOW - pod.created_seconds, 0.0) if pod.unschedulable else 0.0 for pod in waiting]
            assert pods.oldest_pending_seconds == max(ages, default=0.0)
            assert pods.untold == sum(pod.node >= 0 and not pod.is_held for pod in mine)
            assert pods.told == sum(pod.unbound and pod.unschedulable for pod in mine)
        assert sum(each.count for each in alike if each.held) == sum(pod.is_held for pod in own)
        assert requested(alike) == Counter((pod.shape, pod.requests) for pod in own if pod.requests is not None)
