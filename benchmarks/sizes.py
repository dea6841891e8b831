"""Many distinct request vectors, and one pod with thousands of invented resources: memory, plans, and who waits.

Sizes: 5,000 nodes and 150,000 pods, of which 20,000 are jobs whose requests were computed, all different; the others
belong to 3,000 workloads of 36 sizes. Pods come and go by the operator's own sink, in a thread of its own, while the
operator's view is copied and planned from again and again, each time after a job with a size of its own has come. Each
size has a process of its own. The other side is the same without joining, which needs the square of the sizes: both
sides are measured at a fifth of it, over fewer plans.

The wide pod: 200 nodes, and a pending pod that requests 5,000 resources that no node has; before it, with it, after it.
"""

import gc
import json
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain
from statistics import median
from typing import TypeVar

import msgspec

from benchmarks.report import Report, Row, parser, say, show
from benchmarks.usage import usage
from slack.cluster.wire import Node, Pod
from slack.kube.watch import EventType
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ExistingShape, PlannerState
from slack.planner.objects.adoption import once_written
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy, PolicySpec
from slack.planner.wanted import joining
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.sinks import NodeSink, PodSink

NOW = 1_800_000_000.0
T = TypeVar("T")
NODES, PODS, WORKLOADS, VECTORS = 5_000, 150_000, 3_000, 20_000
PLANS, COMPARED_PLANS = 40, 10
COMPARED = ("MiB", "from nothing ms", "after a change ms", "at worst ms")
CHUNK = 20
"""Events that the sink applies at once."""
MIB = 1 << 20
NAMESPACE = "resource-slack"
_node_decoder = msgspec.json.Decoder(Node)
_pod_decoder = msgspec.json.Decoder(Pod)


class MeasuredLock:
    """The view's lock; it notes how long others than the planning thread waited for it, and how long that held it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._began = 0.0
        self.planner = threading.get_ident()
        self.waits: list[float] = []
        self.holds: list[float] = []

    def __enter__(self) -> None:
        """Take it."""
        asked = time.perf_counter()
        self._lock.acquire()
        self._depth += 1
        if threading.get_ident() != self.planner:
            self.waits.append(time.perf_counter() - asked)
        elif self._depth == 1:
            self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        if threading.get_ident() == self.planner and self._depth == 1:
            self.holds.append(time.thread_time() - self._began)
        self._depth -= 1
        self._lock.release()


def node(i: int) -> Node:
    """Return a node of one of four zones."""
    allocatable = {"cpu": "15890m", "memory": f"{60 * 1024 * 1024 + i % 7}Ki", "pods": "110"}
    return _node_decoder.decode(
        json.dumps(
            {
                "metadata": {
                    "name": f"n{i}",
                    "uid": f"n{i}",
                    "resourceVersion": "1",
                    "labels": {"topology.kubernetes.io/zone": "abcd"[i % 4]},
                },
                "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    )


def pod(name: str, owner: tuple[str, str], requests: dict[str, str], at: str | None, age_seconds: float) -> Pod:
    """Return a pod, running on a node or pending."""
    created = datetime.fromtimestamp(NOW - age_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reference = {"kind": owner[0], "name": owner[1], "uid": owner[1], "controller": True}
    return _pod_decoder.decode(
        json.dumps(
            {
                "metadata": {
                    "name": name,
                    "namespace": "batch",
                    "uid": name,
                    "resourceVersion": "1",
                    "creationTimestamp": created,
                    "ownerReferences": [reference],
                },
                "spec": {
                    "containers": [{"name": "c", "resources": {"requests": requests}}],
                    "priority": 0,
                    "preemptionPolicy": "PreemptLowerPriority",
                    **({"nodeName": at} if at else {}),
                },
                "status": {"phase": "Running" if at else "Pending"},
            }
        )
    )


def job(i: int, chance: random.Random) -> Pod:
    """Return a job's pod; its memory was computed, and no other requests the same."""
    cpu = chance.choice((100, 250, 500, 1000, 2000, 4000)) + 10 * chance.randrange(10)
    memory = int(chance.lognormvariate(20.8, 0.9)) // 1024 * 1024 + i % 1024  # 1 GiB, half to twice as much for most
    requests = {"cpu": f"{cpu}m", "memory": str(min(memory, 40 << 30))}
    return pod(f"run-{i}", ("Job", f"run-{i}"), requests, f"n{i % NODES}", i % 21_000)


def others(count: int) -> Iterator[Pod]:
    """Yield pods of ordinary workloads."""
    for i in range(count):
        own = i % WORKLOADS
        requests = {"cpu": f"{100 * (1 + own % 6)}m", "memory": f"{128 << (own // 6 % 6)}Mi"}
        yield pod(f"w{own}-{i}", ("StatefulSet", f"w{own}"), requests, f"n{i % NODES}", 100_000)


class Planner:
    """Plans as the operator's loop does, with what it remembers and what it wrote."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._cache = PlanCache()
        self._state: PlannerState = {}
        self._existing: tuple[ExistingShape, ...] = ()
        self._policies = [Policy(name="default", spec=PolicySpec())]
        self.resources: tuple[str, ...] = ()

    def turn(self) -> float:
        """Observe and plan; return the CPU time of this thread."""
        began = time.thread_time()
        seen = self._view.observe(NOW)
        made = plan(
            seen.snapshot, self._policies, now=NOW, existing=self._existing, state=self._state, cache=self._cache
        )
        spent = time.thread_time() - began
        self._state = made.state
        self._existing = tuple(once_written(item.policy, shape) for item in made.items for shape in item.shapes)
        self.resources = seen.snapshot.resources
        return spent


def filled(nodes: int, pods: Iterator[Pod]) -> tuple[ClusterView, PodSink]:
    """Return a view that has seen these objects through the operator's sinks."""
    view = ClusterView(NAMESPACE, lambda: None, wall=lambda: NOW)
    NodeSink(view).apply([(EventType.ADDED, node(i)) for i in range(nodes)])
    sink = PodSink(view)
    for each in pods:
        sink.apply([(EventType.ADDED, each)])
    return view, sink


def many_sizes(vectors: int, pods_in_all: int, *, join: bool, plans: int = PLANS) -> Row:
    """Measure so many distinct vectors; in this process alone."""
    if not join:
        joining.MOST_EXACT = 1 << 40
    chance = random.Random(1)
    say(f"sizes: reading {pods_in_all} pods, {vectors} of them jobs")
    jobs = (job(i, chance) for i in range(vectors))
    view, sink = filled(pods_in_all * NODES // PODS, chain(jobs, others(pods_in_all - vectors)))
    gc.collect()
    read = usage(os.getpid()).rss_bytes
    planner = Planner(view)
    first = planner.turn()
    planner.turn()
    lock = MeasuredLock()
    view.lock = lock  # type: ignore[assignment]  # the same, measured
    stop = threading.Event()
    events = 0

    def churn() -> None:
        nonlocal events
        own, turn = random.Random(2), 0
        while not stop.is_set():
            coming = [job(vectors + CHUNK * turn + i, own) for i in range(CHUNK)]
            sink.apply([(EventType.ADDED, p) for p in coming[:-1]])
            sink.apply([(EventType.DELETED, p) for p in coming[:-1]])
            events += 2 * (CHUNK - 1)
            turn += 1
            stop.wait(0.02)

    thread = threading.Thread(target=churn)
    thread.start()
    after = []
    for i in range(plans):
        sink.apply([(EventType.ADDED, job(vectors * 10 + i, chance))])
        after.append(planner.turn())
    stop.set()
    thread.join()
    used = usage(os.getpid())
    return {
        "pods": pods_in_all,
        "vectors": vectors,
        "joined": "yes" if join else "no",
        "read MiB": read / MIB,
        "MiB": used.rss_bytes / MIB,
        "peak MiB": used.peak_bytes / MIB,
        "from nothing ms": first * 1e3,
        "after a change ms": median(after) * 1e3,
        "at worst ms": max(after) * 1e3,
        "lock held ms": f"{max(lock.holds) * 1e3:.1f}",
        "longest wait ms": f"{max(lock.waits) * 1e3:.1f}",
        "waits": len(lock.waits),
        "events meanwhile": events,
    }


def wide(names: int) -> list[Row]:
    """Measure plans before a wide pod, with it, and after it; in this process alone."""
    view, sink = filled(200, others(800))
    planner = Planner(view)
    rows: list[Row] = []

    def turn(when: str, *events: tuple[EventType, Pod]) -> None:
        sink.apply(events)
        spent = planner.turn()
        peak = usage(os.getpid()).peak_bytes / MIB
        rows.append({"when": when, "plan ms": spent * 1e3, "columns": len(planner.resources), "peak MiB": peak})

    evil = pod("evil", ("Job", "evil"), {"cpu": "1m", **{f"evil.example/r{k}": "1" for k in range(names)}}, None, 60)
    small = [pod(f"small{i}", ("Job", f"small{i}"), {"cpu": f"{101 + i}m"}, "n1", 60) for i in range(3)]
    turn("from nothing")
    turn("before", (EventType.ADDED, small[0]))
    turn(f"with {names} names", (EventType.ADDED, evil))
    turn("a pod later", (EventType.ADDED, small[1]))
    turn("after it has gone", (EventType.DELETED, evil), (EventType.ADDED, small[2]))
    return rows


def alone(measure: Callable[..., T], *args: object, **more: object) -> T:
    """Run a measurement in a fresh process: memory that another has used would count."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, args, more)


def ratios(joined: Row, exact: Row) -> Row:
    """Return how many times as much the side without joining takes."""
    same = {name: exact[name] for name in ("pods", "vectors")}
    return {**same, **{f"{name}, times": float(exact[name] or 0) / float(joined[name] or 1) for name in COMPARED}}


def main() -> None:
    """Print a row a number of sizes, what joining saves, and a row a plan around the wide pod."""
    asked = parser(__doc__ or "").parse_args()
    pair = [alone(many_sizes, VECTORS // 5, PODS // 5, join=join, plans=COMPARED_PLANS) for join in (True, False)]
    rows = [alone(many_sizes, VECTORS, PODS, join=True), *pair]
    sizes = Report("plans of pods of many sizes, one policy, CPU time; sinks by the wall clock", rows)
    saved = Report("without joining, as a multiple of the same with it", [ratios(*pair)])
    around = Report("plans around one pod of invented resources, 200 nodes, CPU time", alone(wide, 5_000))
    show([sizes, saved, around], asked.output)


if __name__ == "__main__":
    main()
