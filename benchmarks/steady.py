"""`python -m benchmarks.steady`: what a real operator writes to a real API server while nothing needs to be done.

First nothing happens at all, then pods are replaced one after the other, which changes no total for long. Requests are
counted in the API server's own audit log.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import create_all, deployment, pods, wait_for_running
from e2e.harness.product.operator import Operator, policy, wait_until_placed
from slack_operator.placeholders.report.status import HEARTBEAT_SECONDS

NODES, REPLICAS = 30, 80
POLICIES = ("default", "zone-a", "zone-b")
SETTLE_SECONDS = 75.0
"""Counters of the first minute are written at its end."""
REPLACE_SECONDS = 2.0
LEASES = "coordination.k8s.io/leases"
STATUS = "resource-slack.io/slackpolicies/status"


@dataclass(frozen=True, slots=True)
class Writes:
    """What was written in one phase, by verb and resource."""

    phase: str
    seconds: float
    counts: dict[str, int]

    def of(self, resource: str) -> int:
        """Return how many writes there were of a resource."""
        return sum(count for name, count in self.counts.items() if name.partition(" ")[2] == resource)

    @property
    def status_per_policy_minute(self) -> float:
        """Return status writes, by policy and minute."""
        return self.of(STATUS) / len(POLICIES) / (self.seconds / 60)

    def __str__(self) -> str:
        lines = [
            f"{self.phase}, {self.seconds:.0f} s",
            *(f"  {name:<48}{count:>8}{count / self.seconds * 3600:>12.0f} an hour" for name, count in self.rows()),
            f"  status writes a policy and minute{'':<15}{self.status_per_policy_minute:>8.2f}",
        ]
        return "\n".join(lines)

    def rows(self) -> list[tuple[str, int]]:
        """Return all that was written, and the kinds that matter even when they were not."""
        missing = [(kind, 0) for kind in ("apps/replicasets", "pods", STATUS) if not self.of(kind)]
        written = [(f"{name.partition(' ')[2]}, {name.partition(' ')[0]}", n) for name, n in self.counts.items()]
        return sorted(missing + written)


def phase(cluster: Backend, operator: Operator, name: str, seconds: float, act: Callable[[], None]) -> Writes:
    """Call `act` again and again for so long, and return what the operator wrote."""
    mark, began = cluster.audit_mark(), time.monotonic()
    while (past := time.monotonic() - began) < seconds:
        act()
        time.sleep(min(REPLACE_SECONDS, seconds - past))
        if not operator.program.running:
            raise RuntimeError("the operator has ended")
    entries = cluster.audit_entries(user=operator.user, verbs=audit_log.WRITES, since=mark)
    counts = Counter(f"{entry.verb} {entry.resource}" for entry in entries)
    return Writes(name, time.monotonic() - began, dict(counts))


def measure(seconds: float) -> list[Writes]:
    """Run both phases."""
    with tempfile.TemporaryDirectory(prefix="resource-slack-steady-") as folder, ControlPlane(Path(folder)) as cluster:
        create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(NODES)])
        cluster.api.create(deployment("api", REPLICAS, cpu="800m", memory="1Gi"))
        wait_for_running(cluster.api, REPLICAS, 90)
        with Operator(cluster) as operator:
            operator.wait_until_ready()
            cluster.api.create(policy("default", extraCapacity={"minRate": 0.2}))
            for name in POLICIES[1:]:
                cluster.api.create(policy(name, nodeSelector={"topology.kubernetes.io/zone": name}))
            for name in POLICIES:
                wait_until_placed(cluster.api, name, 60)
            _say(f"settling for {SETTLE_SECONDS:.0f} s")
            time.sleep(SETTLE_SECONDS)

            def replace() -> None:
                oldest = min(pods(cluster.api, "default"), key=lambda pod: pod["metadata"]["creationTimestamp"])
                cluster.api.delete(f"/api/v1/namespaces/default/pods/{oldest['metadata']['name']}")

            found = []
            for name, act in (("nothing happens", lambda: None), ("a pod is replaced every two seconds", replace)):
                _say(f"{name}: {seconds:.0f} s")
                found.append(phase(cluster, operator, name, seconds, act))
            return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print, and end with 1 if a steady cluster was written to, heartbeats apart."""
    parser = argparse.ArgumentParser(description="What the operator writes while nothing needs to be done.")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each phase")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    if arguments.seconds < 10:
        parser.error("--seconds: must be at least 10")
    found = measure(arguments.seconds)
    if arguments.output == "json":
        print(json.dumps([asdict(minute) for minute in found]))
    else:
        print(
            f"{NODES} nodes, {REPLICAS} pods, {len(POLICIES)} policies; writes of the operator by verb and resource\n"
        )
        print("\n\n".join(map(str, found)))
    quiet, busy = found
    minutes_begun = int(busy.seconds // 60) + 1
    heartbeats = quiet.of(STATUS)
    good = sum(quiet.counts.values()) - heartbeats == quiet.of(LEASES) > 0
    good = good and heartbeats <= len(POLICIES) * (quiet.seconds // (0.8 * HEARTBEAT_SECONDS) + 1)
    return 0 if good and busy.of(STATUS) <= len(POLICIES) * minutes_begun else 1


if __name__ == "__main__":
    sys.exit(main())
