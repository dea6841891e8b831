"""A tenant's pod with thousands of invented resources, on real components: a burst starts in the slack all the same."""

import os
from collections.abc import Iterable
from pathlib import Path

from e2e.harness.api import Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import deployment, pod, pods, wait_until
from e2e.harness.product.full_machines import create_three_busy_nodes
from e2e.harness.product.operator import (
    Operator,
    binding_seconds,
    placeholders,
    policy,
    status,
    wait_until_placed,
)

NAMES = 5_000
MIB = 1 << 20
PLANS = 5
SLOWER = 10
LEAST_SECONDS = 0.05
"""Of a usual plan: a few milliseconds say nothing on a busy machine. With a column a name one took over a minute."""


def wide_pod(name: str) -> Json:
    """Return a pod that requests resources which no node has; an extended resource has equal limits."""
    made = pod(name, labels={"app": "wide"})
    invented = {f"evil.example/r{i}": "1" for i in range(NAMES)}
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m", **invented}, "limits": invented}
    return made


def resident_bytes(operator: Operator) -> int:
    """Return the memory that the operator has."""
    statm = Path(f"/proc/{operator.program.pid}/statm").read_text(encoding="utf-8")
    return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def seconds_a_plan(operator: Operator) -> float:
    """Return the average of the next few plans."""
    name = "slack_plan_duration_seconds"
    count, total = operator.metric(f"{name}_count"), operator.metric(f"{name}_sum")
    wait_until(lambda: operator.metric(f"{name}_count") >= count + PLANS, 120, f"{PLANS} further plans")
    return (operator.metric(f"{name}_sum") - total) / (operator.metric(f"{name}_count") - count)


def uids(found: Iterable[Json]) -> set[str]:
    """Return what tells one pod from another of the same name."""
    return {made["metadata"]["uid"] for made in found}


def test_a_tenants_wide_pods_cost_the_operator_nothing_while_a_burst_is_served(cluster: Backend) -> None:
    api = cluster.api
    create_three_busy_nodes(api)  # slack takes exactly what is left
    with Operator(cluster, "--no-make-way") as operator:  # what the scheduler does alone
        operator.wait_until_ready()
        api.create(policy("default", extraCapacity={"minRate": 0.25}))
        wait_until_placed(api, "default")
        before = uids(placeholders(api))
        assert len(before) == 3
        usual = seconds_a_plan(operator)
        memory = resident_bytes(operator)

        for i in range(3):
            api.create(wide_pod(f"wide-{i}"))
        wait_until(
            lambda: "evil.example/r0" in str(status(api, "default").get("conditions")),
            60,
            "the status to name what no node has",
            state=lambda: status(api, "default"),
        )
        wide = seconds_a_plan(operator)
        assert uids(placeholders(api)) == before, "wide pods neither displace placeholders nor ask for others"

        # No node has room: two pods are bound only in the place of two placeholders.
        started = binding_seconds(
            api, lambda: api.create(deployment("burst", 2, cpu="800m", memory="1Gi")), 2, 60, "burst"
        )
        assert len(before & uids(placeholders(api, bound=True))) == 1, "the third placeholder stays"
        # The burst counts in the base, so there may be more than before; they wait for a node.
        wait_until(
            lambda: len(placeholders(api, bound=False)) >= 2,
            60,
            "the displaced placeholders to be replaced",
            state=lambda: status(api, "default"),
        )
        assert len(before & uids(placeholders(api, bound=True))) == 1
        assert not any(made["spec"].get("nodeName") for made in pods(api, "default", labelSelector="app=wide"))

        grown = resident_bytes(operator) - memory
        print(
            f"\nburst bound in {started[-1]:.1f} s; with 3 pods of {NAMES} resources a plan takes {wide * 1e3:.0f} ms"
            f" ({usual * 1e3:.0f} ms before), {grown / MIB:.0f} MiB more"
        )
        assert wide <= SLOWER * max(usual, LEAST_SECONDS)
        assert grown < 100 * MIB
        assert operator.get("/readyz")[0] == 200
