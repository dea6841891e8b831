"""How much memory the audit controller's view of the cluster takes: `python -m benchmarks.audit_view`.

Made-up pods of two containers each, decoded from JSON as the watch brings them; only names, limits, owner and container
ids are kept. The process's own resident size is measured before and after.
"""

import json
import time
from pathlib import Path

import msgspec

from benchmarks.report import Report, parser, say, show
from slack.audit.sources.pod_objects import AuditedPod
from slack_operator.auditor.controller.cluster_view import AuditedClusterView

PAGE_BYTES = 4096
_DECODER = msgspec.json.Decoder(AuditedPod)


def main() -> None:
    """Fill a view and say what it took."""
    options = parser("Memory of the audit controller's view of pods.")
    options.add_argument("--pods", type=int, default=150_000, help="how many; default 150000")
    chosen = options.parse_args()
    view = AuditedClusterView()
    say(f"{chosen.pods} pods")
    before, seconds = resident_mib(), 0.0
    for number in range(chosen.pods):
        body = pod(number)
        began = time.perf_counter()
        view.put_pod(_DECODER.decode(body))
        seconds += time.perf_counter() - began
    after = resident_mib()
    row = {
        "pods": chosen.pods,
        "view MiB": after - before,
        "process MiB": after,
        "a pod KiB": (after - before) * 1024 / chosen.pods,
        "a pod us": seconds * 1e6 / chosen.pods,
    }
    show([Report("the view of pods", [row])], chosen.output)


def resident_mib() -> float:
    """Return the resident size of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


def pod(number: int) -> bytes:
    """Return one pod of a cluster with 5,000 nodes, 300 namespaces and 3,000 Deployments."""
    workload = number % 3000
    owner = {"kind": "ReplicaSet", "name": f"api-{workload}-6d4b75cb6d", "uid": "77", "controller": True}
    resources = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    names = ("api", "proxy")
    return json.dumps(
        {
            "metadata": {
                "name": f"api-{workload}-6d4b75cb6d-{number:05x}",
                "namespace": f"namespace-{number % 300}",
                "uid": f"4c1f0a3e-7d52-4b6e-9a51-{number:012x}",
                "labels": {"pod-template-hash": "6d4b75cb6d", "app": "api"},
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": f"node-{number % 5000}",
                "containers": [
                    {"name": name, "image": f"registry.example/{name}-{workload}:1", "resources": resources}
                    for name in names
                ],
            },
            "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {"name": name, "containerID": f"containerd://{number * 2 + at:064x}"}
                    for at, name in enumerate(names)
                ],
            },
        }
    ).encode()


if __name__ == "__main__":
    main()
