"""Print docs/pictures/audit.svg: ten busy threads under a limit of two cores on a node of sixteen CPUs.

Usage:
    python docs/pictures/make_audit.py > docs/pictures/audit.svg     # make pictures

The counters are those that such a container has after 100 enforcement periods; the same counters draw the same bytes.
"""

import sys
from datetime import UTC, datetime

from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.results.audit_result import evaluate
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.explain import draw, explain

THREADS, CPUS = 10, 16
QUOTA_US, PERIOD_US, PERIODS = 200_000, 100_000, 100
STOP_NS = (PERIOD_US - QUOTA_US // THREADS) * 1000
UID = "4c1f0a2b-1c2d-4e5f-8a9b-0c1d2e3f4a5b"


def main() -> None:
    """Sample twice, explain, draw."""
    path = f"/kubepods/burstable/pod{UID}/{'0' * 64}"
    target = CgroupTarget(
        CgroupLevel.CONTAINER, path, pod_uid=UID, namespace="shop", pod="api-7d9f8b6c5-x2x4z", container="main"
    )
    nodes = {"": CgroupNodeFacts(CPUS, "6.12.0", "", "v2")}
    seconds = PERIODS * PERIOD_US / 1e6
    before = Sample(target, 0.0, QUOTA_US, PERIOD_US, 0, 0, 0, usage_ns=0)
    after = Sample(
        target,
        seconds,
        QUOTA_US,
        PERIOD_US,
        PERIODS,
        PERIODS,
        PERIODS * THREADS * STOP_NS,
        usage_ns=PERIODS * QUOTA_US * 1000,
    )
    at = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
    found = evaluate(SourceKind.CGROUPS, Sampled((before,), nodes), Sampled((after,), nodes), None, at)
    sys.stdout.buffer.write(draw(explain(found, path, "", THREADS), "svg"))


if __name__ == "__main__":
    main()
