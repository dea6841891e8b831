"""The whole operator's memory after it has read a cluster, beside client-go's informer caches of the same objects.

Usage:
    python -m benchmarks.memory                  # at 1/25, 1/5 and the whole of 5,000 nodes and 150,000 pods

`resource-slack operator` really runs, with all that it watches, decides and writes; its peak is that of its whole life.
The informers hold pods and nodes only. Both ask the same local server (`benchmarks.apiserver.server`), as no etcd takes
150,000 pods in the time here; it speaks JSON, which informers keep no fatter than protobuf.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import urllib3

from benchmarks import informers
from benchmarks.apiserver.server import Server
from benchmarks.decoding import SHARES
from benchmarks.generator import Size, scaled
from benchmarks.report import Report, Row, parser, say, show
from benchmarks.usage import Usage, usage
from e2e.harness.errors import HarnessError
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

TARGET_MIB = 250
TARGET_SHARE = 10
SYNC_SECONDS = 300.0
SETTLE_SECONDS = 15.0
"""For some more plans, so that what only the first one needs has been given back or shows."""
_MIB = 2**20


def operator(server: Server, folder: Path) -> tuple[Usage, float]:
    """Run the operator until it has planned and settled; return what it uses, and the seconds to its first plan."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("resource-slack")),
        *(
            "operator",
            f"--kubeconfig={server.kubeconfig}",
            f"--listen={LOOPBACK}:{port}",
            "--interval=2s",
            "--built-in-policy",
        ),
    ]
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), str(root / "operator")])
    program = Program("operator", command, folder, {"PYTHONPATH": path}).start()
    http = urllib3.PoolManager(timeout=5.0, retries=False)
    began = time.monotonic()

    def planned() -> bool:
        try:
            answer = http.request("GET", f"http://{LOOPBACK}:{port}/metrics")
        except urllib3.exceptions.HTTPError:
            return False
        lines = answer.data.decode().splitlines()
        counts = [line.split()[1] for line in lines if line.startswith("slack_plan_duration_seconds_count")]
        return any(float(count) > 0 for count in counts)

    try:
        program.wait_until_ready(planned, SYNC_SECONDS)
        seconds = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        return usage(program.pid), seconds
    finally:
        program.stop(seconds=15.0)


def measure(size: Size, *, with_informers: bool) -> Row:
    """Measure one size."""
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-memory-") as folder,
        Server(Path(folder), size) as server,
    ):
        say(f"{size.pods} pods: the operator")
        used, seconds = operator(server, Path(folder))
        row: dict[str, str | int | float | None] = {
            "nodes": size.nodes,
            "pods": size.pods,
            "first plan s": seconds,
            "CPU s": used.cpu_seconds,
            "operator MiB": used.rss_bytes / _MIB,
            "peak MiB": used.peak_bytes / _MIB,
            "client-go heap MiB": None,
            "client-go MiB": None,
            "heap / operator x": None,
        }
        if with_informers:
            say(f"{size.pods} pods: client-go's informers")
            theirs = informers.run(server.kubeconfig, nodes=True)
            if theirs.pods != size.pods:
                raise informers.NoInformer(f"the informer has {theirs.pods} of {size.pods} pods")
            row |= {
                "client-go heap MiB": theirs.heap_in_use_bytes / _MIB,
                "client-go MiB": theirs.rss_bytes / _MIB,
                "heap / operator x": theirs.heap_in_use_bytes / used.rss_bytes,
            }
        return row


def main(arguments: Sequence[str] = ()) -> int:
    """Print one line a size."""
    asked = _arguments(arguments)
    report = Report("memory of the whole operator, and of client-go's informers with the same pods and nodes")
    try:
        informers.ensure()
        report.rows.append(measure(Size(1, 1, 1), with_informers=False))
        for share in asked.share or SHARES:
            report.rows.append(measure(scaled(share), with_informers=True))
    except (HarnessError, informers.NoInformer) as error:
        say(str(error))
        return 1
    report.notes += [
        f"(wanted at full size: under {TARGET_MIB} MiB, and under 1/{TARGET_SHARE} of client-go's)",
        "(operator: resident memory after some plans, and the peak of its life; heap: in use after garbage collection)",
    ]
    show([report], asked.output)
    return 0


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser("Measure the operator's memory beside client-go's informers.")
    options.add_argument("--share", type=float, action="append", help="of 150,000 pods; may be given several times")
    found = options.parse_args(arguments)
    if any(not 0 < share <= 1 for share in found.share or ()):
        options.error("--share: must be above 0 and at most 1")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
