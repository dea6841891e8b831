"""Our side of `benchmarks.reading`, in a process of its own: the reflector and the operator's sink, until it is synced.

Prints one line of JSON: pods, CPU seconds of the whole process from the start of the reflector on, memory.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

from benchmarks.usage import usage
from benchmarks.verify import verify
from slack.cluster.wire import Node, Pod
from slack.kube.connection import Connection
from slack.kube.kubeconfig import connect
from slack.kube.paths import UNFINISHED_PODS, resource_path
from slack.kube.reflector import Reflector
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NodeSink, PodSink

TIMEOUT_SECONDS = 180.0


def read(connection: Connection, watch_list: bool) -> dict[str, object]:
    """Read nodes, then pods, and return what the pods took."""
    view = ClusterView("resource-slack", lambda: None)
    nodes = Reflector(connection, resource_path("v1", "nodes"), Node, NodeSink(view), watch_list=watch_list)
    pods = Reflector(
        connection,
        resource_path("v1", "pods"),
        Pod,
        PodSink(view),
        field_selector=UNFINISHED_PODS,
        watch_list=watch_list,
    )
    nodes.start()
    if not nodes.wait_synced(TIMEOUT_SECONDS):
        raise TimeoutError(f"the nodes were not read within {TIMEOUT_SECONDS:.0f} s: {nodes.last_error}")
    began, cpu = time.monotonic(), time.process_time()
    pods.start()
    if not pods.wait_synced(TIMEOUT_SECONDS):
        raise TimeoutError(f"the pods were not read within {TIMEOUT_SECONDS:.0f} s: {pods.last_error}")
    cpu, wall = time.process_time() - cpu, time.monotonic() - began
    pods.stop()
    nodes.stop()
    verify(view.columns)
    return {
        "pods": len(view.columns.pods.rows),
        "nodes": len(view.columns.nodes.rows),
        "cpuSeconds": cpu,
        "wallSeconds": wall,
        "rssBytes": usage(os.getpid()).rss_bytes,
        "peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> int:
    """Read a cluster once."""
    options = argparse.ArgumentParser(description="Read a cluster's pods into the columns.")
    options.add_argument("--kubeconfig", type=Path, required=True)
    options.add_argument("--pages", action="store_true", help="LIST in pages; else WatchList")
    asked = options.parse_args()
    connection = connect(asked.kubeconfig, None)
    connection.request("GET", "/version")  # TLS is set up and credentials are read
    found = read(connection, watch_list=not asked.pages)
    connection.close()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
