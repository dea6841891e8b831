"""The workloads of a cluster: how many replicas, of what size, where to and how spread.

Replica counts are Pareto's: half of the workloads have a handful of pods, a few have thousands.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from benchmarks.generator.pools import ZONES, BoolArray, IntArray, NodeColumns
from benchmarks.generator.requests import draw, smaller
from benchmarks.generator.size import Size

NAMESPACES = tuple(f"team-{number:02}" for number in range(40))
SYSTEM_NAMESPACE = "kube-system"


class Kind(StrEnum):
    """What owns the pods; bare pods have no owner."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"
    CRON_JOB = "CronJob"
    BARE = "Pod"


class Spread(StrEnum):
    """What keeps a workload's pods apart."""

    NONE = "none"
    APART = "required anti-affinity by host"
    PREFER_APART = "preferred anti-affinity by host"
    ZONES = "hard topology spread by zone"
    PREFER_ZONES = "soft topology spread by zone"


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a workload's pods may go, and which field says so."""

    pools: tuple[str, ...] = ()
    """None: every pool whose taints it tolerates."""
    zones: tuple[int, ...] = ()
    by_affinity: bool = False
    """By required node affinity; else by node selector."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload and all that its pods have in common."""

    number: int
    kind: Kind
    namespace: str
    name: str
    """Ends with the number, so that no name begins with another: names sort as their pods do."""
    replicas: int
    cpu_millis: int
    """Of the first container."""
    memory_mebibytes: int
    reach: Reach = Reach()
    spread: Spread = Spread.NONE
    gpus: int = 0
    second_container: bool = False
    native_sidecar: bool = False
    init_container: bool = False
    priority_class: str = ""

    @property
    def pod_cpu_millis(self) -> int:
        """Effective request: containers and native sidecars; the init container asks for less."""
        return self.cpu_millis + SIDE_CPU_MILLIS * (self.second_container + self.native_sidecar)

    @property
    def pod_memory_mebibytes(self) -> int:
        """As `pod_cpu_millis`."""
        return self.memory_mebibytes + SIDE_MEMORY_MEBIBYTES * (self.second_container + self.native_sidecar)

    @property
    def pools(self) -> tuple[str, ...]:
        """Return the pools that its pods can go to, taints considered."""
        if self.kind is Kind.DAEMON_SET:
            return self.reach.pools or ("general", "memory", "batch", "gpu")
        if self.gpus:
            return ("gpu",)
        return self.reach.pools or ("general", "memory")


SIDE_CPU_MILLIS, SIDE_MEMORY_MEBIBYTES = 50, 64
_APPS = ("api", "web", "worker", "gateway", "search", "cart", "ledger", "feed", "mailer", "index", "cache", "etl")
_DAEMONS = (("logs", 100, 128), ("network", 100, 64), ("metrics", 50, 64), ("storage", 25, 64))
_KINDS = {Kind.DEPLOYMENT: 66, Kind.STATEFUL_SET: 14, Kind.JOB: 7, Kind.CRON_JOB: 9, Kind.BARE: 4}
_PARETO = 1.05
_MOST = {Kind.DEPLOYMENT: 1, Kind.STATEFUL_SET: 9, Kind.JOB: 400, Kind.CRON_JOB: 3, Kind.BARE: 1}
"""Replicas; Deployments share what the others leave, at first one each."""
_LARGEST_SHARE = 0.03
"""Of all Deployments' pods that one of them may have, in a cluster of many."""
_FULL_SHARE = 0.62
"""Of a pool's allocatable that may be requested."""


def draw_workloads(size: Size, seed: int, nodes: NodeColumns) -> list[Workload]:
    """Return the workloads, in the order of the server's list; their replicas add up to `size.pods`."""
    rng = random.Random(f"workloads of {seed}")
    daemons = _daemon_sets(size, nodes)
    rest = max(size.pods - sum(workload.replicas for workload in daemons), 0)
    count = min(max(size.workloads - len(daemons), 1), rest)
    kinds = [rng.choices(list(_KINDS), list(_KINDS.values()))[0] for _ in range(count)]
    if Kind.DEPLOYMENT not in kinds and kinds:
        kinds[0] = Kind.DEPLOYMENT  # takes what the others leave
    replicas = _replicas(rng, kinds, rest)
    budget = _Budget(nodes)
    # The many first: a workload of thousands must find its room, one of three always does.
    order = sorted(range(count), key=lambda place: -replicas[place])
    drawn = [_draw(rng, len(daemons) + place, kinds[place], replicas[place], nodes, budget) for place in order]
    return sorted(daemons + drawn, key=lambda workload: (workload.namespace, workload.name))


def _daemon_sets(size: Size, nodes: NodeColumns) -> list[Workload]:
    each = min(len(_DAEMONS), int(size.pods / size.nodes * 0.15))
    found = [
        Workload(
            number,
            Kind.DAEMON_SET,
            SYSTEM_NAMESPACE,
            f"{name}-{number:04}",
            size.nodes,
            cpu,
            memory,
            init_container=number == 1,
            priority_class="system-node-critical",
        )
        for number, (name, cpu, memory) in enumerate(_DAEMONS[:each])
    ]
    gpus = int(nodes.in_pools(("gpu",)).sum())
    if found and gpus:
        plugin = replace(
            found[0], number=each, name=f"gpu-{each:04}", replicas=gpus, reach=Reach(("gpu",)), init_container=False
        )
        found.append(plugin)
    return found


def _replicas(rng: random.Random, kinds: Sequence[Kind], total: int) -> list[int]:
    counts = [min(int(rng.paretovariate(_PARETO) * (10 if kind is Kind.JOB else 1)), _MOST[kind]) for kind in kinds]
    large = [place for place, kind in enumerate(kinds) if kind is Kind.DEPLOYMENT]
    small = sum(count for place, count in enumerate(counts) if kinds[place] is not Kind.DEPLOYMENT)
    if small > total - len(large):  # a tiny cluster: one pod each, and the Deployments take the rest
        counts = [1] * len(counts)
        small = len(counts) - len(large)
    weights = [rng.paretovariate(_PARETO) for _ in large]
    for _ in range(3):  # cutting the largest makes the others' share greater
        weights = [min(weight, sum(weights) * max(_LARGEST_SHARE, 2 / len(large))) for weight in weights]
    scale = (total - small - len(large)) / sum(weights)
    for place, weight in zip(large, weights, strict=True):
        counts[place] = 1 + int(weight * scale)
    for turn in range(total - sum(counts)):
        counts[large[turn % len(large)]] += 1
    return counts


class _Budget:
    """CPU, memory and GPUs that may still be requested, by pool."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._left: dict[str, list[float]] = {}
        for pool in ("general", "memory", "batch", "gpu"):
            room: IntArray = nodes.free[nodes.in_pools((pool,))].sum(axis=0)
            self._left[pool] = [share * _FULL_SHARE for share in (room[0], room[1] / 1024, room[3])]

    def take(self, workload: Workload) -> bool:
        """Take the workload's share of each of its pools, by their room; False when it is not there."""
        each = (workload.pod_cpu_millis, workload.pod_memory_mebibytes, workload.gpus)
        pools = [self._left[pool] for pool in workload.pools]
        rooms = [sum(pool[resource] for pool in pools) for resource in range(len(each))]
        wanted = [workload.replicas * amount for amount in each]
        if any(room < amount for room, amount in zip(rooms, wanted, strict=True)):
            return False
        for resource, amount in enumerate(wanted):
            for pool in pools:
                pool[resource] -= amount * pool[resource] / max(rooms[resource], 1)
        return True


def _draw(rng: random.Random, number: int, kind: Kind, replicas: int, nodes: NodeColumns, budget: _Budget) -> Workload:
    cpu, memory = draw(rng, replicas)
    wanted = Workload(
        number,
        kind,
        rng.choice(NAMESPACES),
        f"{rng.choice(_APPS)}-{number:04}",
        replicas,
        cpu,
        memory,
        reach=_reach(rng, kind),
        spread=_spread(rng, kind, replicas),
        second_container=rng.random() < 0.12,
        native_sidecar=rng.random() < 0.015,
        init_container=rng.random() < 0.012,
        priority_class=rng.choices(("", "business", "urgent", "whenever"), (80, 12, 3, 5))[0],
    )
    if rng.random() < 0.01:
        gpus = rng.choice((1, 1, 2, 4))
        if 0 < replicas * gpus * 3 < int(nodes.free[:, 3].sum()):
            wanted = replace(wanted, gpus=gpus, reach=Reach(), spread=Spread.NONE)
    return _fitted(wanted, nodes, budget)


def _fitted(wanted: Workload, nodes: NodeColumns, budget: _Budget) -> Workload:
    """Cut the workload down until it fits the budget and the pools that there are."""
    hosts = eligible(wanted, nodes).sum()
    if hosts == 0:
        wanted = replace(wanted, reach=Reach(), gpus=0)
        hosts = eligible(wanted, nodes).sum()
    if wanted.spread is Spread.APART and wanted.replicas * 3 > hosts:
        wanted = replace(wanted, spread=Spread.PREFER_APART)
    while not budget.take(wanted):
        cpu, memory = smaller(wanted.cpu_millis, wanted.memory_mebibytes)
        if (cpu, memory) != (wanted.cpu_millis, wanted.memory_mebibytes):
            wanted = replace(wanted, cpu_millis=cpu, memory_mebibytes=memory)
        elif wanted.reach != Reach() or wanted.gpus:
            wanted = replace(wanted, reach=Reach(), gpus=0)
        else:
            break  # the cluster is too small for so many pods: some will be pending
    return wanted


def eligible(workload: Workload, nodes: NodeColumns) -> BoolArray:
    """Return which nodes the workload's constraints and tolerations let its pods onto."""
    mask = nodes.in_pools(workload.pools)
    return mask & nodes.in_zones(workload.reach.zones) if workload.reach.zones else mask


def _reach(rng: random.Random, kind: Kind) -> Reach:
    if kind in (Kind.JOB, Kind.CRON_JOB) and rng.random() < 0.6:
        return Reach(("batch",))
    chance = rng.random()
    if chance < 0.10:
        return Reach((rng.choices(("general", "memory"), (2, 1))[0],))
    if chance < 0.12:
        return Reach(zones=(rng.randrange(len(ZONES)),))
    if chance < 0.15:
        return Reach((rng.choice(("general", "memory")),), by_affinity=True)
    if chance < 0.17:
        return Reach(("batch",))
    if chance < 0.20:
        return Reach(zones=tuple(sorted(rng.sample(range(len(ZONES)), 2))), by_affinity=True)
    return Reach()


def _spread(rng: random.Random, kind: Kind, replicas: int) -> Spread:
    if kind not in (Kind.DEPLOYMENT, Kind.STATEFUL_SET) or replicas < 2:
        return Spread.NONE
    weights = (45, 40, 5, 5, 5) if kind is Kind.STATEFUL_SET else (74, 4, 9, 5, 8)
    return rng.choices(list(Spread), weights)[0]
