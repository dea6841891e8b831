"""A steady cluster: nothing is written but the lease and heartbeats, also where specs have times and steps in them.

A whole hour by a clock that is moved: tests/operator/placeholders/test_quiet_hour.py; `QUIET_SECONDS=3600` has it here.
"""

import os
import time

import pytest

from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, wait_for_running, wait_until
from e2e.harness.product.operator import Operator, policy, wait_until_placed
from slack.cluster.hold import Hold
from slack_operator.placeholders.report.status import COUNTERS_SECONDS, HEARTBEAT_SECONDS

SECONDS = float(os.environ.get("QUIET_SECONDS", "300"))
EVERY_MINUTE = {"cron": "* * * * *", "duration": "30m", "minRate": 0.2}
"""A window that begins each minute, while the ones before are open still."""
SIZES = {
    "zone-a": {"minRate": 0.2},
    "zone-b": {"ladder": [{"fromNodes": 0, "minRate": 0.2}, {"fromNodes": 3, "minRate": 0.1}]},
    "zone-c": {"minRate": 0.1, "schedule": [EVERY_MINUTE]},
}
"""By zone."""
MOST_STARTS = 3


@pytest.mark.timeout(MOST_STARTS * (SECONDS + 300))
def test_five_minutes_of_a_steady_cluster_write_only_the_lease_and_heartbeats(cluster: Backend, hold: Hold) -> None:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(6)])
    # A pod that is bound while its node still counts as not ready may be evicted for it five minutes later.
    wait_until(lambda: not any(node["spec"].get("taints") for node in nodes(cluster.api)), 60, "nodes without taints")
    cluster.api.create(deployment("api", 16, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 16, 60)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        for name, size in SIZES.items():
            zone = {"topology.kubernetes.io/zone": name}
            cluster.api.create(policy(name, hold=hold, nodeSelector=zone, extraCapacity=size))
        for name in SIZES:
            wait_until_placed(cluster.api, name, 60)
        mark = _quiet_from(cluster, operator)
        writes = cluster.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
        leases = [e for e in writes if e.resource == "coordination.k8s.io/leases"]
        heartbeats = [e for e in writes if e.resource == "resource-slack.io/slackpolicies/status"]
        others = [e for e in writes if e not in leases and e not in heartbeats]
        said = f"{len(leases)} to the lease, {len(heartbeats)} heartbeats, {len(others)} others"
        print(f"\nwrites in {SECONDS:.0f} s: {said}")
        assert leases, "the audit log must have seen the operator"
        assert len(heartbeats) <= len(SIZES) * (SECONDS // (0.8 * HEARTBEAT_SECONDS) + 1)
        assert not others, "\n".join(str(entry) for entry in others)


def _quiet_from(cluster: Backend, operator: Operator) -> int:
    """Let it run; returns the place in the audit log where the time that is judged begins.

    Where the machine stood still for as long as the lease lasts, it has ended as it should, and is started again as a
    kubelet would; then the time begins anew.
    """
    for _ in range(MOST_STARTS):
        # counters that moved while all came up are due a minute after the write before
        time.sleep(COUNTERS_SECONDS + 10)
        mark, began = cluster.audit_mark(), time.monotonic()
        while operator.program.running:
            if time.monotonic() - began >= SECONDS:
                return mark
            time.sleep(1)
        assert "the lease is lost" in operator.program.log_tail(), operator.program.log_tail()
        print(f"\nonce more: {operator.program.log_tail(3)}")
        operator.start()
        operator.wait_until_ready()
    raise AssertionError(f"the lease was lost {MOST_STARTS} times. {operator.program.log_tail()}")
