"""A plan against a straightforward loop over pods and nodes, at 1/25, 1/5 and the whole of R10's cluster.

After a change: an event of a pod into the columns, a snapshot, the plan of four policies with what the last plan
remembers and has kept. The pods are taken from all over the list; one that goes or comes changes what its own policy
plans. After many: the events of as many pods as `MANY` at once, which change several policies. From nothing: the
first snapshot and plan after all pods and nodes were read, when nothing is kept yet.

With --ablate: what a change costs with the whole plan cache, and with one cached function at a time made anew.
"""

import cProfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from operator import sub
from statistics import median
from types import MappingProxyType
from typing import ClassVar, ParamSpec, TypeVar

import msgspec
from msgspec import structs

from benchmarks.decoding import top_lines
from benchmarks.generator import NOW, Json, Size, node_pages, nodes, pod_pages, pods, scaled
from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.columns import ClusterColumns
from slack.cluster.quantity import base_units, cpu_millis
from slack.cluster.snapshot import Snapshot
from slack.cluster.wire import Node, Pod
from slack.kube.paging import PageDecoder
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ExistingShape, Plan, PlannerState
from slack.planner.objects.adoption import once_written
from slack.planner.plan import plan
from slack.planner.policy.spec import Cover, CoverMode, Policy, PolicySpec, TolerationSpec

P = ParamSpec("P")
T = TypeVar("T")
SHARES = (1 / 25, 1 / 5, 1.0)
CHANGES, MANY = 20, 10
WARM = 2
"""Plans that are made before it counts: the first ones work everything out."""
NAIVE_NODES, NAIVE_PODS = 200, 1000
"""For how many the loop is really run; its time is scaled up to all of them, for at full size it takes minutes."""


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def filled(size: Size) -> tuple[ClusterColumns, Sequence[Pod]]:
    """Return columns that have seen the generated cluster, and some running pods from all over its list."""
    columns = ClusterColumns("resource-slack")
    node_decoder, pod_decoder = PageDecoder(Node), PageDecoder(Pod)
    for page in node_pages(size):
        columns.apply_nodes([("ADDED", node) for node in node_decoder.decode(page)[0]])
    some: list[Pod] = []
    for page in pod_pages(size):
        columns.apply_pods([("ADDED", pod) for pod in pod_decoder.decode(page)[0]])
        some += ordinary(page)
    return columns, some[:: max(1, len(some) // (CHANGES * (1 + MANY)))]


def ordinary(page: bytes) -> Iterator[Pod]:
    """Yield every tenth pod of a page where it is running and of no DaemonSet; copies that do not hold the page."""
    for raw in msgspec.json.decode(page, type=_Items).items[::10]:
        pod = msgspec.json.decode(bytes(raw), type=Pod)
        owner = pod.metadata.controller()
        running = pod.spec and pod.spec.node_name and pod.status and pod.status.phase == "Running"
        if running and owner is not None and owner.kind != "DaemonSet":
            yield pod


def naive(cluster_pods: Sequence[Json], cluster_nodes: Sequence[Json]) -> tuple[int, int]:
    """Sum requests and find the largest pod that fits some node, pod by pod and node by node, as R1 forbids."""
    total, largest = 0, 0
    for pod in cluster_pods:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        cpu, memory = cpu_millis(requests["cpu"]), base_units(requests["memory"])
        total += cpu
        selector = pod["spec"].get("nodeSelector") or {}
        for node in cluster_nodes:
            labels, room = node["metadata"]["labels"], node["status"]["allocatable"]
            if any(labels.get(key) != value for key, value in selector.items()):
                continue
            if cpu <= cpu_millis(room["cpu"]) and memory <= base_units(room["memory"]):
                largest = max(largest, cpu)
    return total, largest


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of an action; the machine is shared, so the wall says little."""
    began = time.process_time()
    action()
    return time.process_time() - began


def made_again(pod: Pod) -> Pod:
    """Return the pod with a version after its deletion; with the old one its addition would be no news."""
    version = str(int(pod.metadata.resource_version or 0) + 1_000_000_000)
    return structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version=version))


def policies() -> tuple[Policy, ...]:
    """Four policies that divide the cluster by pools: the frontier cover by weight in three, the whole one in one."""

    def of_pool(pool: str, taint: str = "", mode: CoverMode = CoverMode.FREQUENT) -> Policy:
        tolerations = (TolerationSpec(key=taint, operator="Exists"),) if taint else ()
        spec = PolicySpec(node_selector={"pool": pool}, tolerations=tolerations, cover=Cover(mode=mode))
        return Policy(name=pool, spec=spec)

    return (
        of_pool("general"),
        of_pool("memory", mode=CoverMode.EVERYTHING),
        of_pool("batch", "dedicated"),
        of_pool("gpu", "example.com/gpu"),
    )


def there(planned: Plan) -> tuple[ExistingShape, ...]:
    """Return the ReplicaSets that a plan asks for, as if they had been made: what the operator plans with next."""
    return tuple(once_written(item.policy, shape) for item in planned.items for shape in item.shapes)


class Remembering:
    """Plans again and again with what the last plan remembers and keeps."""

    def __init__(self, chosen: Sequence[Policy], cache: PlanCache) -> None:
        """Begin with nothing but an empty cache."""
        self._chosen = chosen
        self._cache = cache
        self._state: PlannerState = MappingProxyType({})
        self._existing: tuple[ExistingShape, ...] = ()

    def plan(self, snapshot: Snapshot) -> None:
        """Make a plan and carry it out."""
        planned = plan(snapshot, self._chosen, now=NOW, existing=self._existing, state=self._state, cache=self._cache)
        self._state, self._existing = planned.state, there(planned)


def measure(size: Size, profile: cProfile.Profile | None = None) -> Row:
    """Measure one size and return its row of the table; what follows a change goes into the profile, too."""
    say(f"planning: reading {size.pods} pods")
    (columns, some), chosen = filled(size), policies()
    columns.require_labels(key for policy in chosen for key in policy.spec.node_selector)
    planner = Remembering(chosen, PlanCache())

    def look_and_plan() -> None:
        planner.plan(columns.snapshot(NOW))

    nothing = cpu_seconds(look_and_plan)
    look_and_plan()  # the first with what it asked for

    def change(event: str, *changed: Pod) -> None:
        before = columns.changed
        columns.apply_pods([(event, pod) for pod in changed])
        if columns.changed < before + len(changed):
            raise AssertionError(f"{event} has changed nothing: it is not what this measures")
        look_and_plan()

    # each takes its pods from all over the list, and none twice
    first, *rest = (some[i :: 1 + MANY] for i in range(1 + MANY))
    many = list(zip(*rest, strict=False))
    with profile if profile is not None else nullcontext():
        changes = [cpu_seconds(partial(change, "DELETED", pod)) for pod in first]
        changes += [cpu_seconds(partial(change, "ADDED", made_again(pod))) for pod in first]
    of_many = [cpu_seconds(partial(change, "DELETED", *several)) for several in many]
    snapshots = [cpu_seconds(lambda: columns.snapshot(NOW)) for _ in range(CHANGES)]
    snapshot = columns.snapshot(NOW)
    some_nodes, some_pods = list(islice(nodes(size), NAIVE_NODES)), list(islice(pods(size), NAIVE_PODS))
    part = cpu_seconds(lambda: naive(some_pods, some_nodes))
    loop = part * size.pods / len(some_pods) * size.nodes / len(some_nodes)
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "kinds": len(snapshot.kinds),
        "shapes": len({tuple(row) for row in snapshot.kinds.requests.tolist()}),
        "from nothing ms": nothing * 1e3,
        "after a change ms": median(changes) * 1e3,
        f"after {MANY} ms": median(of_many) * 1e3,
        "its snapshot ms": median(snapshots) * 1e3,
        "loop s": loop,
        "loop / change x": loop / median(changes),
    }


def report(shares: Sequence[float] = SHARES, profile: cProfile.Profile | None = None) -> Report:
    """Measure every size."""
    found = Report(
        "plan of four policies, frontier cover, CPU time; against a loop over pods x nodes",
        [measure(scaled(share), profile) for share in shares],
        [f"(the loop is run on at most {NAIVE_PODS} pods and {NAIVE_NODES} nodes and scaled up)"],
    )
    if profile is not None:
        found.notes += ["", *top_lines(profile)]
    return found


class Ablated(PlanCache):
    """A cache that makes what one function returns anew each time; with None it notes which functions there are."""

    without: ClassVar[str | None] = None
    seen: ClassVar[set[str]] = set()

    def compute(self, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the value, a kept one unless this function is the one without."""
        self.seen.add(make.__name__)
        return make(*args, **kwargs) if make.__name__ == self.without else super().compute(make, *args, **kwargs)

    def part(self, name: str) -> PlanCache:
        """Return the cache of a part, which is ablated as well."""
        self._asked.add(name)
        return self._parts.setdefault(name, Ablated())


def ablation(size: Size) -> Report:
    """Measure the plan after a change with each cached function switched off in turn.

    All of them plan after the same event, one after the other and each in its turn first: the machine is shared, so
    what is compared must be measured at the same time.
    """
    say(f"ablation: reading {size.pods} pods")
    (columns, some), chosen = filled(size), policies()
    columns.require_labels(key for policy in chosen for key in policy.spec.node_selector)
    Ablated.without = None
    plan(columns.snapshot(NOW), chosen, now=NOW, cache=Ablated())
    planners = {name: Remembering(chosen, Ablated()) for name in (None, *sorted(Ablated.seen))}
    times: dict[str | None, list[float]] = {name: [] for name in planners}
    turns = list(planners)

    def change(event: str, pod: Pod) -> None:
        columns.apply_pods([(event, pod)])
        snapshot = columns.snapshot(NOW)
        for name in turns:
            Ablated.without = name
            times[name].append(cpu_seconds(partial(planners[name].plan, snapshot)))
        turns.append(turns.pop(0))

    for pod in some[: 3 * CHANGES]:
        change("DELETED", pod)
        change("ADDED", made_again(pod))
    middle = {name: median(measured[WARM:]) * 1e3 for name, measured in times.items()}
    paid = {name: median(map(sub, times[name][WARM:], times[None][WARM:])) * 1e3 for name in planners}
    return Report(
        f"the plan after a change, {size.pods} pods: {middle[None]:.2f} ms of CPU time with all that is kept",
        [
            {"made anew": name, "its plan (ms)": f"{middle[name]:.2f}", "more (ms)": f"{paid[name]:+.2f}"}
            for name in sorted(filter(None, planners), key=paid.__getitem__, reverse=True)
        ],
    )


def main() -> None:
    """Print one row a size, or one a cached function."""
    options = parser(__doc__ or "")
    options.add_argument("--profile", action="store_true", help="the full size alone, and where its time goes")
    options.add_argument("--ablate", action="store_true", help="the full size alone, each cached function switched off")
    asked = options.parse_args()
    if asked.ablate:
        found = ablation(scaled(SHARES[-1]))
    else:
        found = report(SHARES[-1:], cProfile.Profile()) if asked.profile else report()
    show([found], asked.output)


if __name__ == "__main__":
    main()
