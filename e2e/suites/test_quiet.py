"""A steady cluster: nothing is written but the lease."""

import os
import time

from e2e.harness import audit, kwok
from e2e.harness.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, wait_for_running, wait_until
from e2e.harness.operator import Operator, policy, wait_until_placed
from slack_operator.status import COUNTERS_SECONDS

SECONDS = float(os.environ.get("QUIET_SECONDS", "300"))


def test_five_minutes_of_a_steady_cluster_write_nothing_but_the_lease(cluster: Backend) -> None:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)])
    # A pod that is bound while its node still counts as not ready may be evicted for it five minutes later.
    wait_until(lambda: not any(node["spec"].get("taints") for node in nodes(cluster.api)), 60, "nodes without taints")
    cluster.api.create(deployment("api", 16, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 16, 60)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        cluster.api.create(policy("default", extraCapacity={"minRate": 0.2}))
        wait_until_placed(cluster.api, "default", 60)
        # counters that moved while all came up are due a minute after the write before
        time.sleep(COUNTERS_SECONDS + 10)
        mark, began = cluster.audit_mark(), time.monotonic()
        while time.monotonic() - began < SECONDS:
            time.sleep(1)
            assert operator.program.running
        writes = cluster.audit_entries(user=operator.user, verbs=audit.WRITES, since=mark)
        leases = [e for e in writes if e.resource == "coordination.k8s.io/leases"]
        others = [e for e in writes if e.resource != "coordination.k8s.io/leases"]
        print(f"\nwrites in {SECONDS:.0f} s: {len(leases)} to the lease, {len(others)} others")
        assert leases, "the audit log must have seen the operator"
        assert not others, "\n".join(str(entry) for entry in others)
