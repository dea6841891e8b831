"""How often the stock scheduler forgets preemptors, and what the rescue makes of it: `python -m e2e.hangs`.

    python -m e2e.hangs [--bursts 200] [--rescue off --rescue 15] [--scheduler BINARY] [-o json]
    python -m e2e.hangs --pods 400 --bursts 1 --rescue off --rescue 5 --rescue 15

A burst is pods that need all placeholders of their nodes; one that is not bound after `HUNG_SECONDS` hangs. Every run
is a control plane of its own with asynchronous preemption on, as it is by default; `--rescue` says how many seconds
after the last victim the operator frees a pod, `off` that it does not. This command's are the figures of
docs/details/troubleshooting.md, "Pods hang after a preemption". A race decides: the shares depend on the machine and
its load.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from e2e.harness import build
from e2e.harness.api import Api
from e2e.harness.cluster import kwok
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import create_all, pod, pods, wait_until
from e2e.harness.pod_times import PodClock, percentile
from e2e.harness.product.operator import Operator, placeholders, policy

HUNG_SECONDS = 10.0
"""Longer than any burst of three that works; without the rescue such a burst is given up."""
GIVE_UP_SECONDS = 120.0
PODS_A_NODE = 3
RESCUES = "slack_preemption_rescues_total"


@dataclass(slots=True)
class Run:
    """Bursts of one kind against one scheduler."""

    version: str
    rescue: str
    pods: int
    hung: int = 0
    """Bursts with a pod that was not bound after HUNG_SECONDS."""
    rescues: int = 0
    displaced: int = 0
    """Placeholders, one a pod where nothing is done twice."""
    left: int = 0
    """Pods that were never bound."""
    seconds: list[float] = field(default_factory=list)
    """Of each burst until its last pod was bound, or given up."""
    pod_seconds: list[float] = field(default_factory=list)
    """Of each pod that was bound."""

    @property
    def share(self) -> float:
        """Of the bursts, those that hung."""
        return self.hung / len(self.seconds) if self.seconds else 0.0


def _version(scheduler: Path) -> str:
    answer = subprocess.run([str(scheduler), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[-1]


def _operator(cluster: ControlPlane, rescue: str) -> Operator:
    if rescue == "off":
        return Operator(cluster, "--no-make-way", "--no-rescue-stuck-preemptors")
    patched = (
        f"from slack_operator.placeholders.view import hangs; hangs.PATIENCE_SECONDS = {float(rescue)}; "
        "from slack.cli.main import main; main()"
    )
    return Operator(cluster, "--no-make-way", program=[sys.executable, "-c", patched])


def _pending(api: Api) -> int:
    return sum(not p["spec"].get("nodeName") for p in pods(api, "default", labelSelector="app=burst"))


def _burst(api: Api, run: Run, number: int) -> None:
    whole = run.pods
    wait_until(lambda: len(placeholders(api, bound=True)) == whole, 120, "slack to be whole", every=0.2)
    manifests = [pod(f"burst-{number}-{i}", cpu="3", memory="1Gi", labels={"app": "burst"}) for i in range(whole)]
    with PodClock(api, "default") as clock:
        began = time.monotonic()
        create_all(api, manifests)
        limit = HUNG_SECONDS if run.rescue == "off" and whole <= PODS_A_NODE else GIVE_UP_SECONDS
        while (pending := _pending(api)) and time.monotonic() - began < limit:
            time.sleep(0.1 if time.monotonic() - began < 5 else 0.5)
        run.seconds.append(time.monotonic() - began)
        times = [entry for entry in clock.times(app="burst") if entry.created >= began]
        bound = [entry.bind_seconds for entry in times if entry.bind_seconds is not None]
    run.pod_seconds += bound
    run.left += pending
    run.hung += bool(pending) or max(bound, default=0.0) >= HUNG_SECONDS
    for manifest in manifests:
        api.delete(f"/api/v1/namespaces/default/pods/{manifest['metadata']['name']}", grace_seconds=0)


def measure(scheduler: Path, rescue: str, bursts: int, count: int, console: Console) -> Run:
    """Play bursts of `count` pods on a cluster of its own."""
    run = Run(_version(scheduler), rescue, count)
    options = Options(scheduler_gates={"SchedulerAsyncPreemption": True}, scheduler_binary=scheduler)
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-hangs-") as folder,
        ControlPlane(Path(folder), options) as cluster,
    ):
        api, machines = cluster.api, -(-count // PODS_A_NODE)
        create_all(api, [kwok.node(f"node-{i}", cpu="12") for i in range(machines)])
        with _operator(cluster, rescue) as operator:
            operator.wait_until_ready()
            floor = {"cpu": str(3 * count), "memory": f"{count}Gi"}
            # one placeholder is a quarter of a node: what a pod of a burst needs
            spec = {"extraCapacity": {"minRate": 0, "floor": floor}, "cover": {"mode": "None"}, "granularity": 4}
            api.create(policy("default", **spec))
            wait_until(lambda: len(placeholders(api, bound=True)) == count, 120, "placeholders", every=0.5)
            # What the placeholders leave is taken, so that a burst must displace them all.
            create_all(api, [pod(f"filler-{i}", cpu="3", memory="1Gi") for i in range(machines)])
            for number in range(bursts):
                _burst(api, run, number)
                if (number + 1) % 50 == 0:
                    console.print(f"  {number + 1} bursts, {run.hung} hung")
            time.sleep(5)  # the metrics follow with a turn of the loop
            run.rescues = int(operator.metric(RESCUES))
            run.displaced = int(operator.metric("slack_displaced_total", cause="PreemptionByScheduler"))
    return run


def _table(runs: Sequence[Run]) -> Table:
    table = Table(box=None)
    for title in (
        "Kubernetes",
        "rescue after",
        "bursts of",
        "bursts",
        "hung",
        "share",
        "rescued",
        "displaced",
        "left",
        "p50",
        "max",
    ):
        table.add_column(title, justify="left" if title == "Kubernetes" else "right", no_wrap=True)
    for run in runs:
        table.add_row(
            run.version,
            run.rescue if run.rescue == "off" else f"{run.rescue} s",
            str(run.pods),
            str(len(run.seconds)),
            str(run.hung),
            f"{100 * run.share:.1f} %",
            str(run.rescues),
            str(run.displaced),
            str(run.left),
            f"{percentile(run.pod_seconds, 50):.2f} s" if run.pod_seconds else "",
            f"{max(run.pod_seconds, default=0.0):.1f} s",
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 1 when a component failed."""
    parser = argparse.ArgumentParser(prog="python -m e2e.hangs", description="How often preemptors are forgotten.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--bursts", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--pods", type=int, default=PODS_A_NODE, help="of one burst, three on each node (default 3)")
    parser.add_argument("--rescue", action="append", metavar="SECONDS|off", help="default: off, and 15")
    parser.add_argument("--scheduler", type=Path, action="append", help="binary of kube-scheduler; default: the built")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True, stderr=given.output == "json")
    runs: list[Run] = []
    try:
        for scheduler in given.scheduler or [build.ensure(["kube-scheduler"])["kube-scheduler"]]:
            for rescue in given.rescue or ["off", "15"]:
                console.print(f"{_version(scheduler)}, rescue: {rescue} ...")
                runs.append(measure(scheduler, rescue, given.bursts, given.pods, console))
                console.print(_table(runs[-1:]))
    except HarnessError as error:
        console.print(f"the measurement stopped: {error}")
        return 1
    finally:
        if given.output == "json":
            print(json.dumps([{**asdict(run), "share": run.share} for run in runs], indent=2))
        elif len(runs) > 1:
            console.print(_table(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
