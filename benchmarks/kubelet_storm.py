"""The storm on a real kubelet: 12 containers at once, without a gate and at several limits, beside the simulator.

Usage:
    make bench-starting                          # five minutes; root, containerd and runc

Each container takes 1.5 s of CPU time until it is ready, and with the watchdog ends itself if that takes more than
6 s. All sides are four pods on one node in one run: the kubelet as it is, and the same pods with their gates, an
agent with the chart's arguments and a ThrottlePolicy; then the same with permits in ConfigMaps, and a controller. The
simulator plays the same scenario (examples/starting/storm.yaml) with this machine's cores, and with two times of each
run: from creation to the first permit, and from a permit to running (median), which is from the agent's journal to the
first thing that a container does. Without a gate: to the first container, and from there to each.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import yaml

from benchmarks.report import Report, Row, parser, say, show
from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.node import images
from e2e.harness.node.cgroups import pids_below
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, shop, status_of
from e2e.harness.product.paced_node import PacedNode, keyed_node, paced_node
from slack.throttler.scenario import parse_scenario
from slack.throttler.simulate import compared, play
from slack_operator.throttler.agent.grant_coordinator import GRACE_SECONDS

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
    """From each grant to running; without a gate from the first container to each."""
    first: float = 0.0
    """From the pods' creation to the first grant; without a gate to the first that runs."""


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


def storm_pods(name: str, watchdog: bool) -> list[Json]:
    """Return the pods of one storm."""
    return [storm(f"{name}-{number}", watchdog) for number in range(PODS)]


def measured(
    place: PacedNode, pods: Sequence[Json], slots: int | None, patience_seconds: float = PATIENCE_SECONDS
) -> Run:
    """Run one storm until all are ready, or no longer. Each container prints /proc/uptime first of all."""
    names = {str(pod["metadata"]["name"]): [row["name"] for row in pod["spec"]["containers"]] for pod in pods}
    containers = sum(len(each) for each in names.values())
    if slots is not None:
        place.policy(slots)
    began, run = time.monotonic(), Run()
    for pod in pods:
        if slots is None:
            place.api.create(pod)
        else:
            place.create(pod)
    while run.ready < containers and time.monotonic() - began < patience_seconds:
        time.sleep(0.1)
        found = {name: place.pod(name) for name in names}
        rows = [status_of(found[name], each) for name, inside in names.items() for each in inside]
        run.ready = sum(row.get("ready", False) for row in rows)
        run.failures = sum(row["restartCount"] + ("terminated" in row["state"]) for row in rows if row)
    if run.ready == containers:
        run.makespan = time.monotonic() - began
    if run.failures:
        return run
    starts = {(name, each): place.began(name, each) for name, inside in names.items() for each in inside}
    if slots is None:
        first = min(starts.values())
        run.first, run.delays = first - began, [start - first for start in starts.values()]
        return run
    uids = {place.pod(name)["metadata"]["uid"]: name for name in names}
    grants = [grant for grant in place.grants() if grant["uid"] in uids]
    run.first = min(grant["at"] for grant in grants) - began
    run.delays = [starts[uids[grant["uid"]], grant["container"]] - grant["at"] for grant in grants]
    return run


def simulated(slots: int | None, watchdog: bool, run: Run) -> float | None:
    """Return the makespan that the simulator says, with what this run's kubelet took beside the work."""
    document = yaml.safe_load(STORM.read_text(encoding="utf-8")) | {"cores": os.cpu_count() or 1}
    if not watchdog:
        del document["watchdog"]
    (storming,) = document["containers"]
    document["containers"] = [storming | {"pull": round(run.first, 3)}]
    document["startDelay"] = round(median(run.delays), 3) if run.delays else 0
    scenario = parse_scenario(document, source=STORM.name)
    return play(scenario, compared(scenario, slots), is_gated=slots is not None).makespan


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


BACKENDS = ("file", "configmap")
LIMITS = ((None, False), (None, True), (2, True), (4, True), (6, True), (6, False))
"""With the watchdog or without."""


@dataclass
class Side:
    """What came of all storms with one backend."""

    rows: list[Row] = field(default_factory=list)
    runs: dict[tuple[int | None, bool], Run] = field(default_factory=dict)
    usage: Row = field(default_factory=dict)

    @property
    def latency(self) -> Row:
        """From grants to running."""
        delays = sorted(delay for (slots, _), run in self.runs.items() if slots for delay in run.delays)
        cuts = quantiles(delays, n=100, method="inclusive")
        return {"grants": len(delays), "p50 s": cuts[49], "p99 s": cuts[98], "worst s": delays[-1]}


def side(made: AbstractContextManager[PacedNode], backend: str, shares: int | None) -> Side:
    """Run all storms of one backend on a node of their own; those without a gate with the first one."""
    found = Side()
    with made as place:
        if shares:
            place.node.set_shares(shares)
        time.sleep(GRACE_SECONDS)  # an agent that has just begun grants nothing
        for slots, watchdog in LIMITS:
            if slots is None and backend != BACKENDS[0]:
                continue
            say(f"{backend}: limit {slots or 'none'}, watchdog {'on' if watchdog else 'off'}")
            name = f"storm-{slots or 'none'}-{'on' if watchdog else 'off'}"
            found.runs[slots, watchdog] = run = measured(place, storm_pods(name, watchdog), slots)
            said = simulated(slots, watchdog, run)
            found.rows.append(
                {
                    "backend": backend if slots else "no gate",
                    "limit": str(slots or "none"),
                    "watchdog": "6 s" if watchdog else "off",
                    "ready": run.ready,
                    "failures": run.failures,
                    "first s": run.first,
                    "makespan s": run.makespan,
                    "simulated s": said,
                    "simulated by real ratio": said / run.makespan if said and run.makespan else None,
                }
            )
            if (slots, watchdog) == (6, False) and backend == BACKENDS[0]:
                found.usage = footprint(place)
            place.remove(*(f"{name}-{number}" for number in range(PODS)))
    return found


def main() -> None:
    """Measure, and judge."""
    arguments = parser("The storm on a real kubelet, without a gate and at several limits.")
    arguments.add_argument(
        "--shares",
        type=int,
        help="cpu.shares of all pods; a kubelet gives 1024 a core, the suites more, as the control plane is here too",
    )
    options = arguments.parse_args()
    sides: dict[str, Side] = {}
    try:
        for backend, made in zip(BACKENDS, (paced_node, keyed_node), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                sides[backend] = side(made(Path(folder)), backend, options.shares)
    except UnavailableError as error:
        sys.exit(f"no real node here: {error}")
    free = sides[BACKENDS[0]].runs[None, False].makespan
    notes = []
    for backend, found in sides.items():
        failed = sum(run.failures for (slots, _), run in found.runs.items() if slots is not None)
        for watchdog in (True, False):
            six = found.runs[6, watchdog].makespan
            ratio = f"{six / free:.2f}" if free and six else "none"
            words = "with" if watchdog else "without"
            notes.append(f"{backend}: makespan at 6 {words} a watchdog, by that without gate and watchdog: {ratio}")
        notes.append(f"{backend}: {failed} failures")
    notes.append("targets: at most 1.15, no failure with a gate, simulated within 20 % of real")
    target = "targets: p50 0.7 s, p99 1.5 s; a key of a ConfigMap that nobody tells of: 11 s"
    rows = [row for found in sides.values() for row in found.rows]
    shown = [
        Report(f"The storm: {CONTAINERS} containers in namespace {NAMESPACE}, {os.cpu_count()} cores", rows, notes),
        Report(
            "From a grant to a running container",
            [{"backend": backend, **found.latency} for backend, found in sides.items()],
            [target],
        ),
        Report(
            "While nothing changes",
            [sides[BACKENDS[0]].usage],
            ["targets: agent 70 MiB and 1 %, gate 20 MiB and nothing"],
        ),
    ]
    show(shown, options.output)


if __name__ == "__main__":
    main()
