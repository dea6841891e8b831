"""The rival of `benchmarks.coldstart`: an operator with one kopf handler on pods, until it has seen so many.

What most operators in Python begin with. Prints one line of JSON: pods seen, CPU seconds of the process from the start
of kopf on, wall seconds. Nothing is written to the cluster.
"""

import argparse
import asyncio
import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import Any

import kopf

from slack.kube.kubeconfig import connect
from slack_operator.runtime.kopf_operator import kopf_credentials, kopf_settings

TIMEOUT_SECONDS = 600.0


async def see(kubeconfig: Path, pods: int, namespaces: list[str]) -> dict[str, float]:
    """Run kopf until its handler has been called for so many pods."""
    connection = connect(kubeconfig, None)
    registry, seen, enough = kopf.OperatorRegistry(), set[str](), asyncio.Event()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf_credentials(connection)

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod(event: Any, **_: Any) -> None:
        seen.add(event["object"]["metadata"]["uid"])
        if len(seen) >= pods:
            enough.set()

    settings = kopf_settings()
    where: dict[str, Any] = {"namespaces": namespaces} if namespaces else {"clusterwide": True}
    began, cpu = time.monotonic(), time.process_time()
    stop = asyncio.Event()
    task = asyncio.create_task(kopf.operator(registry=registry, settings=settings, stop_flag=stop, **where))
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await enough.wait()
        found = {"pods": len(seen), "cpuSeconds": time.process_time() - cpu, "wallSeconds": time.monotonic() - began}
    finally:
        stop.set()
        await asyncio.wait([task], timeout=5.0)
        connection.close()
    return found | {"peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main() -> int:
    """See pods once."""
    logging.basicConfig(level=logging.ERROR)
    options = argparse.ArgumentParser(description="See pods through a kopf handler.")
    options.add_argument("--kubeconfig", type=Path, required=True)
    options.add_argument("--pods", type=int, required=True, help="how many to see")
    options.add_argument("--namespace", action="append", default=[], help="look only there; may be given several times")
    asked = options.parse_args()
    print(json.dumps(asyncio.run(see(asked.kubeconfig, asked.pods, asked.namespace))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
