"""The storm on a real kubelet: 12 containers at once, without a gate and at several limits, beside the simulator.

Usage:
    make bench-starting                          # three minutes; root, containerd and runc

Each container takes 1.5 s of CPU time until it is ready, and with the watchdog ends itself if that takes more than
6 s. All sides are four pods on one node in one run: the kubelet as it is, and the same pods with their gates, an
agent with the chart's arguments and a ThrottlePolicy. The simulator plays the same scenario with this machine's cores
(examples/starting/storm.yaml). Grant to running is from the agent's journal to the first thing that a container does.
"""

import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import yaml

from benchmarks.report import Report, Row, parser, say, show
from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.node import images
from e2e.harness.node.cgroups import pids_below
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, shop
from e2e.harness.product.paced_node import PacedNode, paced_node
from slack.throttler.scenario import parse_scenario
from slack.throttler.simulate import compared, play

PODS, EACH, WORK_SECONDS, WATCHDOG_SECONDS = 4, 3, 1.5, 6
CONTAINERS = PODS * EACH
"""A kubelet starts the containers of one pod one after the other; pods start side by side."""
PATIENCE_SECONDS = 45.0
"""Without a gate it never ends."""
STORM = Path(__file__).parents[1] / "examples" / "starting" / "storm.yaml"
IDLE_SECONDS = 10.0
# CPU time is read of the shell itself, in hundredths; nothing is forked but at the end.
_SCRIPT = """\
read began _ < /proc/uptime; echo $began; began=${{began%.*}}${{began#*.}}
while :; do
  i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done
  read line < /proc/self/stat; set -- $line
  [ $((${{14}} + ${{15}})) -ge {work} ] && break
  read now _ < /proc/uptime; now=${{now%.*}}${{now#*.}}
  [ {watchdog} -gt 0 ] && [ $((now - began)) -gt {watchdog} ] && exit 1
done
echo > /tmp/up; trap 'exit 0' TERM; sleep 2147483647 & wait
"""


@dataclass
class Run:
    """What came of one storm."""

    ready: int = 0
    failures: int = 0
    makespan: float | None = None
    delays: list[float] = field(default_factory=list)
    """From each grant to running."""


def storm(name: str, watchdog: bool) -> Json:
    """Return the pod."""
    script = _SCRIPT.format(work=int(WORK_SECONDS * 100), watchdog=WATCHDOG_SECONDS * 100 * watchdog)
    made = [
        {
            "name": f"app-{number}",
            "image": images.BURNER,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", script],
            **PROBE,
        }
        for number in range(EACH)
    ]
    return shop(name, *made)


def measured(place: PacedNode, name: str, slots: int | None, watchdog: bool) -> Run:
    """Run one storm until all are ready, or no longer."""
    pods = [storm(f"{name}-{number}", watchdog) for number in range(PODS)]
    names = [str(pod["metadata"]["name"]) for pod in pods]
    if slots is not None:
        place.policy(slots)
    began, run = time.monotonic(), Run()
    for pod in pods:
        if slots is None:
            place.api.create(pod)
        else:
            place.create(pod)
    while run.ready < CONTAINERS and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.1)
        rows = [row for each in names for row in place.pod(each).get("status", {}).get("containerStatuses", ())]
        run.ready = sum(row["ready"] for row in rows)
        run.failures = sum(row["restartCount"] + ("terminated" in row["state"]) for row in rows)
    if run.ready == CONTAINERS:
        run.makespan = time.monotonic() - began
    if slots is not None and not run.failures:
        uids = {place.pod(each)["metadata"]["uid"]: each for each in names}
        grants = [grant for grant in place.grants() if grant["uid"] in uids]
        run.delays = [place.began(uids[grant["uid"]], grant["container"]) - grant["at"] for grant in grants]
    return run


def simulated(slots: int | None, watchdog: bool) -> float | None:
    """Return the makespan that the simulator says."""
    document = yaml.safe_load(STORM.read_text(encoding="utf-8")) | {"cores": os.cpu_count() or 1}
    if not watchdog:
        del document["watchdog"]
    scenario = parse_scenario(document, source=STORM.name)
    return play(scenario, compared(scenario, slots)).makespan


def resident(pid: int) -> float:
    """Return a process's resident memory, MiB (proc(5), VmRSS)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has taken (proc(5), utime and stime)."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def gates(place: PacedNode) -> list[int]:
    """Return the processes of gates on the node."""
    kubepods = Path("/sys/fs/cgroup/cpu") / place.node.cgroup_root.lstrip("/") / "kubepods"
    found = pids_below(kubepods)
    return [pid for pid in found if b"slack_operator.throttler.gate" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def footprint(place: PacedNode) -> Row:
    """Return what agent and gate take while nothing changes."""
    pids = {"agent": place.agent.program.pid, "gate": gates(place)[0]}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(IDLE_SECONDS)
    row: dict[str, float] = {}
    for name, pid in pids.items():
        row[f"{name} MiB"] = resident(pid)
        row[f"{name} CPU % ratio"] = 100 * (cpu_seconds(pid) - before[name]) / IDLE_SECONDS
    return row


def main() -> None:
    """Measure, and judge."""
    arguments = parser("The storm on a real kubelet, without a gate and at several limits.")
    arguments.add_argument(
        "--shares",
        type=int,
        help="cpu.shares of all pods; a kubelet gives 1024 a core, the suites more, as the control plane is here too",
    )
    options = arguments.parse_args()
    rows: list[Row] = []
    runs: dict[tuple[int | None, bool], Run] = {}
    try:
        with tempfile.TemporaryDirectory() as folder, paced_node(Path(folder)) as place:
            if options.shares:
                place.node.set_shares(options.shares)
            for slots, watchdog in ((None, False), (None, True), (2, True), (4, True), (6, True), (6, False)):
                say(f"limit {slots or 'none'}, watchdog {'on' if watchdog else 'off'}")
                name = f"storm-{slots or 'none'}-{'on' if watchdog else 'off'}"
                runs[slots, watchdog] = run = measured(place, name, slots, watchdog)
                said = simulated(slots, watchdog)
                rows.append(
                    {
                        "limit": str(slots or "none"),
                        "watchdog": "6 s" if watchdog else "off",
                        "ready": run.ready,
                        "failures": run.failures,
                        "makespan s": run.makespan,
                        "simulated s": said,
                        "simulated by real ratio": said / run.makespan if said and run.makespan else None,
                    }
                )
                if (slots, watchdog) == (6, False):
                    usage = footprint(place)
                place.remove(*(f"{name}-{number}" for number in range(PODS)))
    except UnavailableError as error:
        sys.exit(f"no real node here: {error}")
    delays = sorted(delay for run in runs.values() for delay in run.delays)
    cuts = quantiles(delays, n=100, method="inclusive")
    free, six = runs[None, False].makespan, runs[6, True].makespan
    ratio = six / free if free and six else None
    failed = sum(run.failures for (slots, _), run in runs.items() if slots is not None)
    note = (
        f"makespan at 6 by that without a gate and watchdog: {ratio or 0:.2f} (at most 1.15); {failed} failures gated"
    )
    latency: Row = {"grants": len(delays), "p50 s": cuts[49], "p99 s": cuts[98], "worst s": delays[-1]}
    target = "targets: p50 0.7 s, p99 1.5 s; a key of a ConfigMap that nobody tells of: 11 s"
    shown = [
        Report(f"The storm: {CONTAINERS} containers in namespace {NAMESPACE}, {os.cpu_count()} cores", rows, [note]),
        Report("From a grant to a running container", [latency], [target]),
        Report("While nothing changes", [usage], ["targets: agent 70 MiB and 1 %, gate 20 MiB and nothing"]),
    ]
    show(shown, options.output)


if __name__ == "__main__":
    main()
