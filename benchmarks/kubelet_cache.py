"""The page-cache storm on a real kubelet: eight processes that read 200 MiB each, in 500 MiB of memory.

Usage:
    make bench-starting                          # three minutes; root, containerd and runc

One pod of eight containers with a memory limit of its own (pod-level resources). Each container reads its file again
and again, in another order each time, and is ready then: two files fit, more push one another out of the cache. Before
each run the files are dropped from the cache (posix_fadvise(2)). The sides are the kubelet as it is and the same pod
with a gate, in one run. The simulator plays the same with what the run at limit 1 tells of one container alone: how
long it takes, and how much longer it would if every pass were as its first, which finds nothing in the cache.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import yaml

from benchmarks.report import Report, Row, parser, say, show
from e2e.harness.api import Json
from e2e.harness.errors import UnavailableError
from e2e.harness.node import gate_image
from e2e.harness.product.gated_pods import NAMESPACE, PROBE, shop
from e2e.harness.product.paced_node import PacedNode, paced_node
from slack.throttler.scenario import parse_scenario
from slack.throttler.simulate import compared, play

CONTAINERS, WORKING_SET_MIB, MEMORY_MIB = 8, 200, 500
PASSES, BLOCK_KIB = 40, 64
LIMITS = (1, 2, 4, None)
TARGET = 0.6
"""Makespan at limit 2 by that without a gate, at most."""
PATIENCE_SECONDS = 180.0
CACHE = Path(__file__).parents[1] / "examples" / "starting" / "cache.yaml"
_BOTH = ("makespan s", "simulated s")
_SCRIPT = f"""\
import os, time
print(time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
size, spent = {BLOCK_KIB} << 10, []
file = os.open("/files/" + os.environ["FILE"], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for _ in range({PASSES}):
    began = time.monotonic()
    for block in sorted(range(({WORKING_SET_MIB} << 20) // size), key=lambda _: os.urandom(4)):
        hash(os.pread(file, size, block * size))
    spent.append(time.monotonic() - began)
print(spent[0], sum(spent), flush=True)
open("/tmp/up", "w").close()
os.execv("/bin/sleep", ["sleep", "2147483647"])
"""


@dataclass
class Run:
    """What came of one storm."""

    makespan: float | None = None
    failures: int = 0
    delays: list[float] = field(default_factory=list)
    """From each grant to running."""
    first: float = 0.0
    """A container's first pass, seconds, median."""
    whole: float = 0.0
    """All of a container's passes, seconds, median."""


@contextmanager
def files(parent: Path) -> Iterator[list[Path]]:
    """Write what the containers read, and take it away again."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        Path(folder).chmod(0o755)
        paths = [Path(folder) / f"file-{number}" for number in range(CONTAINERS)]
        for path in paths:
            with path.open("wb") as file:
                for _ in range(WORKING_SET_MIB):
                    file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())  # what is not on the disk yet cannot be dropped
        yield paths


def drop(paths: list[Path]) -> None:
    """Have nothing of the files in the page cache."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def storm(name: str, folder: Path) -> Json:
    """Return the pod."""
    made = [
        {
            "name": f"reader-{number}",
            "image": gate_image.NAME,
            "imagePullPolicy": "Never",
            "command": ["/bin/python", "-I", "-S", "-c", _SCRIPT],
            "env": [{"name": "FILE", "value": f"file-{number}"}],
            "securityContext": {"runAsUser": 0},
            "volumeMounts": [{"name": "files", "mountPath": "/files", "readOnly": True}],
            **PROBE,
        }
        for number in range(CONTAINERS)
    ]
    limit = {"limits": {"memory": f"{MEMORY_MIB}Mi"}}
    return shop(name, *made, resources=limit, volumes=[{"name": "files", "hostPath": {"path": str(folder)}}])


def measured(place: PacedNode, name: str, slots: int | None, paths: list[Path]) -> Run:
    """Run one storm until all are ready, or no longer."""
    pod, run, ready = storm(name, paths[0].parent), Run(), 0
    if slots is not None:
        place.policy(slots)
    drop(paths)
    began = time.monotonic()
    if slots is None:
        place.api.create(pod)
    else:
        place.create(pod)
    while ready < CONTAINERS and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.1)
        rows = place.pod(name).get("status", {}).get("containerStatuses", ())
        ready = sum(row["ready"] for row in rows)
        run.failures = sum(row["restartCount"] + ("terminated" in row["state"]) for row in rows)
    if ready < CONTAINERS or run.failures:
        return run
    run.makespan = time.monotonic() - began
    if slots is not None:
        uid = place.pod(name)["metadata"]["uid"]
        grants = [grant for grant in place.grants() if grant["uid"] == uid]
        run.delays = [place.began(name, grant["container"]) - grant["at"] for grant in grants]
    names = [f"reader-{number}" for number in range(CONTAINERS)]
    url = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log?container="
    told = [place.api.text(url + each).split() for each in names]
    run.first, run.whole = (median(float(words[place]) for words in told) for place in (1, 2))
    return run


def simulated(slots: int | None, alone: Run) -> float | None:
    """Return the makespan that the simulator says, from what one container alone takes."""
    document = yaml.safe_load(CACHE.read_text(encoding="utf-8"))
    dearer = PASSES * alone.first / alone.whole - 1
    document |= {"cores": os.cpu_count() or 1, "probePeriod": 1, "startDelay": median(alone.delays)}
    document["cache"] = {"memory": MEMORY_MIB, "workingSet": WORKING_SET_MIB, "k": dearer}
    document["containers"] = [{"pod": "cache", "name": "reader", "replicas": CONTAINERS, "work": alone.whole}]
    scenario = parse_scenario(document, source=CACHE.name)
    return play(scenario, compared(scenario, slots), is_gated=slots is not None).makespan


def report(runs: dict[int | None, Run]) -> Report:
    """Judge."""
    alone = runs[1]
    rows: list[Row] = []
    for slots, run in runs.items():
        said = simulated(slots, alone) if alone.makespan else None
        rows.append(
            {
                "limit": str(slots or "none"),
                "failures": run.failures,
                "makespan s": run.makespan,
                "simulated s": said,
                "simulated by real ratio": said / run.makespan if said and run.makespan else None,
                "first pass s": run.first,
                "all passes s": run.whole,
            }
        )
    whole = [row for row in rows if row["simulated s"] is not None and row["makespan s"] is not None]
    orders = [[row["limit"] for row in sorted(whole, key=lambda row: float(str(row[by])))] for by in _BOTH]
    same = "the same" if orders[0] == orders[1] else f"NOT the same: {', '.join(map(str, orders[1]))} simulated"
    apart = max((abs(float(str(row["simulated by real ratio"])) - 1) for row in whole), default=0.0)
    order = f"limits by makespan, best first: {', '.join(map(str, orders[0]))}; {same}"
    near = f"simulated makespans are at most {apart:.0%} off (20 % are allowed), {len(whole)} of {len(rows)} limits"
    two, free = runs[2].makespan, runs[None].makespan
    ratio = two / free if two and free else None
    judged = "not all were ready" if ratio is None else f"{ratio:.2f}, {'met' if ratio <= TARGET else 'NOT met'}"
    title = f"The page-cache storm: {CONTAINERS} x {WORKING_SET_MIB} MiB in {MEMORY_MIB} MiB, {os.cpu_count()} cores"
    return Report(title, rows, [f"makespan at 2 by that without a gate (at most {TARGET}): {judged}", order, near])


def main() -> None:
    """Measure, and judge."""
    options = parser("The page-cache storm on a real kubelet, without a gate and at several limits.").parse_args()
    runs: dict[int | None, Run] = {}
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            paced_node(Path(folder)) as place,
            files(Path("/var/tmp")) as paths,  # on a disk; /tmp may be memory
        ):
            for slots in LIMITS:
                say(f"limit {slots or 'none'}")
                name = f"cache-{slots or 'none'}"
                runs[slots] = measured(place, name, slots, paths)
                say(f"{runs[slots]}")
                place.remove(name)
    except UnavailableError as error:
        sys.exit(f"no real node here: {error}")
    show([report(runs)], options.output)


if __name__ == "__main__":
    main()
