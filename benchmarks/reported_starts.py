"""What the throttler's controller keeps of a storm on thousands of nodes: reports as bytes, beside the same as objects.

Usage:
    python -m benchmarks.reported_starts                # 500 and 5,000 nodes, 30 containers that wait on each

Each side is a process of its own with the controller's modules loaded; memory is what the kernel says that it holds.
A turn sums all nodes up for three policies, after one node's labels have changed; a view is of one pod among all.
Times are CPU time. Target: the controller stays below 128 MiB.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.report import Report, Row, parser, say, show
from benchmarks.usage import usage
from slack.kube.watch import EventType
from slack.throttler.config import ThrottlePolicy, parse_throttle_policy
from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import ContainerRow, NodeReport, decode_report, encode
from slack.throttler.reports.summary import total
from slack_operator.runtime.callers import Caller
from slack_operator.runtime.report_receiver import Body
from slack_operator.throttler.controller import process as loaded
from slack_operator.throttler.controller.node_labels import NodeLabels, NodeRow, _Meta
from slack_operator.throttler.controller.starts import Starts

SIZES = (500, 5_000)
WAITING = 30
TARGET_MIB = 128.0
LABELS: Mapping[str, str] = MappingProxyType({f"node.example.com/label-{number}": "a-value" for number in range(12)})


def body(number: int) -> bytes:
    """Return a node's report as its agent sends it."""
    rows = tuple(
        ContainerRow(
            namespace=f"team-{number % 40}",
            pod=f"web-{number:05}-{at:02}-7d9c6b5f4-x{at:04}",
            uid=f"2f3c9d1e-7a4b-4c5d-8e9f-{number:06}{at:06}",
            container="app",
            state=StartState.PENDING if at else StartState.STARTING,
            since=1.7e9 + at,
            position=at,
            reason=f"{max(0, at - 1)} before it; 6 start, and 6 may",
            until=1.7e9 + at + 10,
        )
        for at in range(WAITING)
    )
    counts = {StartState.PENDING: WAITING - 1, StartState.STARTING: 1, StartState.READY: 20}
    return encode(
        NodeReport(node=f"n{number}", at=1.7e9 + 60, policy="default", slots=6, counts=counts, containers=rows)
    )


def policies() -> list[ThrottlePolicy]:
    """Return three, of which one selects all nodes."""
    return [
        parse_throttle_policy(
            {
                "apiVersion": "resource-slack.io/v1alpha1",
                "kind": "ThrottlePolicy",
                "metadata": {"name": name},
                "spec": {"nodeSelector": selector},
            },
            source=name,
        )
        for name, selector in (("default", {}), ("web", {"pool": "web"}), ("batch", {"pool": "batch"}))
    ]


def labelled(nodes: int) -> NodeLabels:
    """Return the cluster's nodes, a third in each pool."""
    found = NodeLabels()
    found.begin()
    pools = ("web", "batch", "other")
    found.apply(
        [
            (EventType.ADDED, NodeRow(_Meta(f"n{number}", {**LABELS, "pool": pools[number % 3]})))
            for number in range(nodes)
        ]
    )
    found.end()
    return found


def _spent(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def one_side(nodes: int, *, objects: bool) -> dict[str, float]:
    """Take all reports twice, as they come anew, and measure."""
    assert loaded.COMPONENT
    starts = Starts(lambda: None)
    kept: dict[str, NodeReport] = {}
    labels, wanted = labelled(nodes), policies()
    spent = []
    for _ in range(2):
        for number in range(nodes):
            data = body(number)
            began = time.process_time()
            if objects:
                kept[f"n{number}"] = decode_report(data)
            else:
                starts.accept_report(Caller("agent", f"n{number}"), Body(data, ""))
            spent.append(time.process_time() - began)
    labels.assigned(wanted)
    gc.collect()
    labels.apply([(EventType.MODIFIED, NodeRow(_Meta("n0", {"pool": "batch"})))])

    def turn() -> None:
        heard = starts.heard()
        for names in labels.assigned(wanted).nodes.values():
            total((heard[name][0] for name in names if name in heard), time.monotonic())

    found = {"take us": 1e6 * sum(spent) / len(spent), "turn s": _spent(turn)}
    found["MiB"] = usage(os.getpid()).rss_bytes / (1 << 20)
    found["view s"] = 0.0 if objects else _spent(lambda: starts.view(namespace="team-7", pod="nobody"))
    return found


def _measured(nodes: int, *, objects: bool) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.reported_starts", "--side", "objects" if objects else "bytes"]
    done = subprocess.run([*words, "--nodes", str(nodes)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _options() -> argparse.Namespace:
    found = parser("Agents' reports at the throttler's controller: kept as bytes, beside kept as objects.")
    found.add_argument("--side", choices=("bytes", "objects"), help=argparse.SUPPRESS)
    found.add_argument("--nodes", type=int, default=0, help=argparse.SUPPRESS)
    return found.parse_args()


def main() -> None:
    """Measure, and judge."""
    options = _options()
    if options.side:
        print(json.dumps(one_side(options.nodes, objects=options.side == "objects")))
        return
    rows: list[Row] = []
    for nodes in SIZES:
        say(f"{nodes} nodes")
        ours, theirs = _measured(nodes, objects=False), _measured(nodes, objects=True)
        rows.append(
            {
                "nodes": nodes,
                "waiting": nodes * WAITING,
                "controller MiB": ours["MiB"],
                "objects MiB": theirs["MiB"],
                "x": theirs["MiB"] / ours["MiB"],
                "take us": ours["take us"],
                "turn s": ours["turn s"],
                "view s": ours["view s"],
            }
        )
    good = float(str(rows[-1]["controller MiB"])) <= TARGET_MIB
    note = f"target: {TARGET_MIB:g} MiB with {SIZES[-1]:,} nodes, {'met' if good else 'NOT met'}"
    show([Report("Reports of a storm at the throttler's controller", rows, [note])], options.output)


if __name__ == "__main__":
    main()
