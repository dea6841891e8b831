"""The figures that are wanted of making way and of unbound placeholders, each beside what was found: ok or missed."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.bursts.case import Burst, Case, Kind, Owner
from benchmarks.bursts.scatter import Ratio, compare
from benchmarks.report import Row

AT_ONCE_WANTED = {100: 1.0, 200: 1.0, 400: 0.98}
RATIO_SIZES = (10, 50, 100, 200, 400)
OWNED_RATIO, BARE_RATIO = 1.7, 5.0
UNBOUND_RATIO = 1.15
IN_VAIN_SHARE = 0.05
CPU_SIZE = 500
CPU_SECONDS = {Kind.WAY: 0.5, Kind.UNBOUND: 0.3, Kind.BUFFER: 0.3}
STATUS_WRITES = (
    "resource-slack.io/slackpolicies/status",
    "autoscaling.x-k8s.io/capacitybuffers/status",
    "pods/status",
)
"""Resources that an operator may write while a burst takes the capacity of unbound placeholders."""
LONE_NOISE = 1.1
STEADY_NOISE_SHARE = 0.002
"""Of a core: what two looks at the same idle process differ by."""

Found = Mapping[Case, Sequence[Burst]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One wanted figure."""

    what: str
    wanted: str
    found: str
    ok: bool
    undecided: bool = False
    """Not ok, but by so little that its noise can be the reason."""

    def row(self) -> Row:
        """Return it as a line of a table."""
        verdict = "ok" if self.ok else "undecided" if self.undecided else "missed"
        return {"what": self.what, "wanted": self.wanted, "found": self.found, "": verdict}


def middle(bursts: Sequence[Burst], of: Callable[[Burst], float]) -> float:
    """Return the median over the runs of a case."""
    return median(map(of, bursts))


def ratio(found: Found, case: Case) -> float | None:
    """Return a case's p99 over that of free capacity with the same pods; None if that was not played."""
    free = found.get(Case(case.pods, case.owner, Kind.FREE))
    if not free:
        return None
    return middle(found[case], lambda burst: burst.seconds(99)) / middle(free, lambda burst: burst.seconds(99))


def judge(found: Found, steady: Mapping[Kind, float]) -> list[Figure]:
    """Return every wanted figure that was measured: times for each size of placeholders, of the rest the worst."""
    ways = [case for case in found if case.kind is Kind.WAY]
    owned = [case for case in ways if case.owner is Owner.DEPLOYMENT]
    figures = [*_at_once(found, owned)]
    for owner, limit in ((Owner.DEPLOYMENT, OWNED_RATIO), (Owner.NONE, BARE_RATIO)):
        figures += _ratios(found, [case for case in ways if case.owner is owner], limit)
    figures += _lone(found, owned)
    for owner in Owner:
        figures += _vain(found, [case for case in ways if case.owner is owner], owner)
    figures += _cpu(found, owned, Kind.WAY)
    for kind in (Kind.UNBOUND, Kind.BUFFER):
        figures += _of_unbound(found, kind)
    for kind in (Kind.WAY, Kind.UNBOUND, Kind.BUFFER):
        if kind in steady and Kind.BOUND in steady:
            bound, share = steady[Kind.BOUND], steady[kind]
            ok = share <= bound + STEADY_NOISE_SHARE
            figures.append(Figure(f"steady CPU, of a core, {kind}", f"{bound:.2%}, as bound", f"{share:.2%}", ok))
    return figures


def _of_unbound(found: Found, kind: Kind) -> Iterable[Figure]:
    """Judge unbound placeholders, of a policy or of a buffer: the time of each owner and size, and side effects."""
    cases = [case for case in found if case.kind is kind]
    if not cases:
        return
    yield from _scattered_ratios(found, kind, cases)
    bursts = [burst for case in cases for burst in found[case]]
    never = sum(burst.unbound for burst in bursts)
    yield Figure(f"pods that were never bound, {kind}", "0", str(never), never == 0)
    for what, count in (
        ("preemptions", sum(burst.preempted for burst in bursts)),
        ("placeholders deleted", sum(burst.gone for burst in bursts)),
        ("placeholders recreated", sum(burst.recreated for burst in bursts)),
        ("writes by the operator except status", sum(map(_other_writes, bursts))),
    ):
        yield Figure(f"{what}, {kind}, {len(bursts)} bursts", "0", str(count), count == 0)
    yield from _cpu(found, cases, kind)


def _scattered_ratios(found: Found, kind: Kind, cases: Iterable[Case]) -> Iterable[Figure]:
    """Judge each owner and size, then all owners of a size together: that mean scatters less than each of them."""
    for pods in RATIO_SIZES:
        pairs = {}
        for case in cases:
            free = found.get(Case(case.pods, case.owner, Kind.FREE))
            if case.pods == pods and free:
                pairs[case.owner] = _p99s(found[case]), _p99s(free)
        for owner, pair in pairs.items():
            yield _scattered(f"p99 of {pods} {_who(owner)}", kind, compare([pair]))
        if len(pairs) > 1:
            yield _scattered(f"p99 of {pods} pods, mean over owners", kind, compare(list(pairs.values())))


def _p99s(bursts: Sequence[Burst]) -> list[float]:
    return [burst.seconds(99) for burst in bursts]


def _scattered(what: str, kind: Kind, ratio: Ratio | None) -> Figure:
    name, wanted = f"{what}, of free capacity, {kind}", f"{UNBOUND_RATIO:g}x"
    if ratio is None:
        return Figure(name, wanted, "never", ok=False)
    return Figure(name, wanted, str(ratio), ratio.times <= UNBOUND_RATIO, ratio.low <= UNBOUND_RATIO)


def _other_writes(burst: Burst) -> int:
    return sum(count for name, count in burst.writes.items() if name.partition(" ")[2] not in STATUS_WRITES)


def _at_once(found: Found, ways: Iterable[Case]) -> Iterable[Figure]:
    for pods, wanted in AT_ONCE_WANTED.items():
        shares = [_share(found[case]) for case in ways if case.pods == pods]
        if shares:
            share, free = min(shares), found.get(Case(pods, Owner.DEPLOYMENT, Kind.FREE))
            beside = f" (free capacity {_share(free):.1%})" if free else ""
            yield Figure(f"instant starts, of {pods} pods", f"{wanted:.0%}", f"{share:.1%}{beside}", share >= wanted)


def _share(bursts: Sequence[Burst]) -> float:
    return min(burst.at_once for burst in bursts)


def _who(owner: Owner) -> str:
    named = {Owner.NONE: "bare pods", Owner.DEPLOYMENT: "pods", Owner.TEN: "pods of ten owners"}
    return named.get(owner, f"pods of a {owner}")


def _ratios(found: Found, cases: Iterable[Case], limit: float) -> Iterable[Figure]:
    """Judge each size of placeholders by itself: larger ones are fewer deletions for the same burst."""
    for case in sorted(cases, key=lambda case: (case.pods, case.chunk)):
        times = ratio(found, case)
        if case.pods in RATIO_SIZES and times is not None:
            least = Case(case.pods, case.owner, Kind.FLOOR)
            floor = ratio(found, least) if least in found and case.chunk == 1 else None
            told = f"{times:.1f}x" if floor is None else f"{times:.1f}x (floor {floor:.1f}x)"
            what = f"p99 of {case.pods} {_who(case.owner)}, of free capacity, {case.kind} of {case.chunk}"
            yield Figure(what, f"{limit:g}x", told, times <= limit)


def _lone(found: Found, ways: Iterable[Case]) -> Iterable[Figure]:
    for case in ways:
        alone = found.get(Case(case.pods, case.owner, Kind.BOUND, case.chunk))
        if case.pods == 1 and alone:
            way, today = (middle(bursts, lambda burst: burst.seconds(50)) for bursts in (found[case], alone))
            what = f"a lone pod, placeholders as large as {case.chunk}"
            yield Figure(what, f"{today:.3f} s, as without", f"{way:.3f} s", way <= LONE_NOISE * today)


def _vain(found: Found, ways: Iterable[Case], owner: Owner) -> Iterable[Figure]:
    """Judge each case by itself: those where nothing goes in vain do not make up for those where much does."""
    shares: dict[int, list[float]] = {}
    for case in ways:
        gone, vain = (sum(map(of, found[case])) for of in (lambda burst: burst.gone, lambda burst: burst.in_vain))
        shares.setdefault(case.pods, []).append(vain / gone if gone else 0.0)
    for pods, cases in shares.items():
        worst = max(cases)
        what = f"gone in vain for {pods} {_who(owner)}"
        yield Figure(what, f"{IN_VAIN_SHARE:.0%}", f"{worst:.1%}", worst <= IN_VAIN_SHARE)


def _cpu(found: Found, cases: Iterable[Case], kind: Kind) -> Iterable[Figure]:
    seconds = [middle(found[case], lambda burst: burst.burst_cpu_seconds) for case in cases if case.pods == CPU_SIZE]
    if seconds:
        worst, limit = max(seconds), CPU_SECONDS[kind]
        what = f"operator's CPU for {CPU_SIZE} pods beyond the steady one, {kind}"
        yield Figure(what, f"{limit:g} s", f"{worst:.2f} s", worst <= limit)


def table(found: Found) -> list[Row]:
    """Return a row for each case: medians over its runs, counts of all runs together."""
    return [_row(found, case, bursts) for case, bursts in found.items()]


def _row(found: Found, case: Case, bursts: Sequence[Burst]) -> Row:
    free = case.kind is Kind.FREE

    def total(of: Callable[[Burst], float]) -> float | None:
        return None if free else sum(map(of, bursts))

    p99 = middle(bursts, lambda burst: burst.seconds(99))
    return {
        "pods": case.pods,
        "owner": str(case.owner),
        "into": f"{case.kind}, of {case.chunk}" if case.kind.operated else str(case.kind),
        "p50 s": round(middle(bursts, lambda burst: burst.seconds(50)), 4),
        "p99 s": round(p99, 4) if math.isfinite(p99) else "never",
        "of free ratio": None if free else ratio(found, case),
        "instant": f"{_share(bursts):.1%}",
        "gone": total(lambda burst: burst.gone),
        "preempted": total(lambda burst: burst.preempted),
        "by the ReplicaSet": total(lambda burst: burst.lowered),
        "in vain": total(lambda burst: burst.in_vain),
        "made anew": total(lambda burst: burst.made_anew),
        "recreated": total(lambda burst: burst.recreated),
        "short": total(lambda burst: burst.short),
        "CPU s": None if not case.kind.operated else middle(bursts, lambda burst: burst.cpu_seconds),
        "of it steady s": None if not case.kind.operated else middle(bursts, lambda burst: burst.steady_seconds),
    }
