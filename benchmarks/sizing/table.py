"""What the runs of a case come to: the table, and which of the wanted figures hold."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from benchmarks.report import Report, Row, Value
from benchmarks.sizing.cases import Case
from benchmarks.sizing.runs import Point
from benchmarks.sizing.search import GOALS, KINDS, cheapest

Points = Mapping[str, Point]
"""By word: the runs of one case."""
_CONSTANT = ("static", "rate")
_NOTHING = 1e-9
_WITHIN = 0.01 + _NOTHING
"""So far from its objective a share may be."""


def costs(cases: Sequence[tuple[Case, Points]]) -> Report:
    """Return what each kind costs beyond no slack, to reach each goal."""
    report = Report("Cost beyond no slack, in % of the cost without, to reach so many instant starts")
    for case, points in cases:
        none = points["none"]
        for goal in GOALS:
            row: dict[str, Value] = {"load": case.name, "goal": f"{goal:.0%}", "none instant": f"{none.share:.1%}"}
            for kind in KINDS:
                extra = extra_cost(points, kind, goal)
                row[kind] = None if extra is None else f"{extra / none.cost:.1%}"
            ratio = objective_ratio(points, goal)
            row["objective against the better ratio"] = ratio
            for kind in ("static", "rate"):
                best = cheapest(points.values(), kind, goal)
                row[f"{kind}'s size"] = best.word.partition("=")[2] if best and none.share < goal else None
            report.rows.append(row)
    report.notes.append("-: no size reaches it, or the kind was not asked for; 0.0%: it is reached without slack.")
    return report


def objectives(cases: Sequence[tuple[Case, Points]]) -> Report:
    """Return what an objective has reached, and what became of placeholders under it and under the cheapest rate."""
    report = Report("What objectives reached, and placeholders made for no reason (% of those for a reason)")
    for case, points in cases:
        for point in (point for point in points.values() if point.kind == "objective"):
            aim = _aim(point)
            rate = cheapest(points.values(), "rate", min(aim, GOALS[-1]))
            report.rows.append(
                {
                    "load": case.name,
                    "objective": f"{aim:.1%}",
                    "reached": f"{point.share:.1%}",
                    "points": f"{100 * (point.share - aim):+.1f}",
                    "extra cost": f"{(point.cost - points['none'].cost) / points['none'].cost:.1%}",
                    "created": point.created,
                    "displaced": point.displaced,
                    "drained": point.drained,
                    "grown": point.grown,
                    "other": f"{_other(point):.1%}",
                    "other at the rate": None if rate is None else f"{_other(rate):.1%}",
                }
            )
    return report


def regrets(cases: Sequence[tuple[Case, Points]]) -> Report:
    """Return cost, share and regret of each kind: how many points more the best constant of its cost has."""
    report = Report(
        "Regret: points by which the best rate or number of pause pods of the same cost has more instant starts"
    )
    for case, points in cases:
        none = points["none"]
        cheapest_ones = (
            cheapest(points.values(), kind, goal) for goal in GOALS for kind in KINDS if kind != "objective"
        )
        kept = {point.word: point for point in cheapest_ones if point is not None}
        kept |= {point.word: point for point in points.values() if point.kind == "objective"}
        for point in kept.values():
            best = constant_share(points, point)
            report.rows.append(
                {
                    "load": case.name,
                    "slack": point.word,
                    "extra cost": f"{(point.cost - none.cost) / none.cost:.1%}",
                    "instant": f"{point.share:.1%}",
                    "best constant of that cost": None if best is None else f"{best:.1%}",
                    "regret": None if best is None else f"{100 * (best - point.share):+.1f}",
                }
            )
    report.notes.append("Between the sizes that were run the constant's share is a straight line over the cost.")
    return report


def constant_share(points: Points, point: Point) -> float | None:
    """Return the share that the better of pause pods and a rate has at a cost; None where neither was run."""
    none = points["none"]
    found = []
    for kind in _CONSTANT:
        sizes = sorted((other.cost, other.share) for other in points.values() if other.kind == kind)
        if sizes:
            costs, shares = zip((none.cost, none.share), *(size for size in sizes if size[0] > none.cost), strict=True)
            found.append(float(np.interp(point.cost, costs, np.maximum.accumulate(shares))))
    return max(found, default=None)


def verdicts(cases: Sequence[tuple[Case, Points]]) -> Report:
    """Return what was wanted, what was found, and whether that is it."""
    report = Report("Wanted")
    for pattern, wanted in ((True, 0.7), (False, 1.05)):
        ratios = [
            (ratio, f"{case.name} at {goal:.0%}")
            for case, points in cases
            if case.has_pattern is pattern
            for goal in GOALS
            if (ratio := objective_ratio(points, goal)) is not None
        ]
        missed = [f"{name} {ratio:.2f}" for ratio, name in ratios if ratio > wanted]
        what = f"objective against the better of static and rate, load {'with a' if pattern else 'without'} pattern"
        mean = f"mean {fmean(ratio for ratio, _ in ratios):.2f}" if ratios else "nothing to compare"
        report.rows.append(_verdict(what, f"at most {wanted:g}", mean, missed, bool(ratios)))
    behind = [
        f"{case.name} {100 * (best - point.share):+.1f} at {_aim(point):.1%}"
        for case, points in cases
        for point in points.values()
        if point.kind == "objective"
        and (best := constant_share(points, point)) is not None
        and best - point.share > _WITHIN
    ]
    compared = any(constant_share(points, point) is not None for _, points in cases for point in _objectives(points))
    what = "regret of objectives against the best constant of their cost"
    report.rows.append(_verdict(what, "at most 1 point", f"{len(behind)} above", behind, compared))
    far = [
        f"{case.name} {100 * (point.share - _aim(point)):+.1f} at {_aim(point):.1%}"
        for case, points in cases
        for point in points.values()
        if point.kind == "objective" and reachable(points, _aim(point)) and abs(_missing(points, point)) > _WITHIN
    ]
    some = [point for _, points in cases for point in _objectives(points)]
    mean = f"mean distance {100 * fmean(abs(p.share - _aim(p)) for p in some):.1f} points" if some else "none"
    report.rows.append(_verdict("reached share less objective", "within 1 point", mean, far, bool(some)))
    kept = [point for _, points in cases for point in _chosen(points)]
    churned = [f"{name} {_other(point):.0%}" for name, point in _named(cases) if _other(point) > 0.02 + _NOTHING]
    total = sum(p.other for p in kept) / max(sum(p.displaced + p.drained + p.grown for p in kept), 1.0)
    what = "created beyond displaced, drained and growth"
    report.rows.append(_verdict(what, "at most 2 %", f"{total:.1%} in all", churned, bool(kept)))
    return report


def extra_cost(points: Points, kind: str, goal: float) -> float | None:
    """Return what the cheapest size of a kind that reaches a goal costs beyond no slack; None where none does."""
    if points["none"].share >= goal:
        return 0.0
    best = cheapest(points.values(), kind, goal)
    return None if best is None else best.cost - points["none"].cost


def objective_ratio(points: Points, goal: float) -> float | None:
    """Return an objective's extra cost to the lower of static's and a rate's; None where one is not known."""
    others = [extra for kind in ("static", "rate") if (extra := extra_cost(points, kind, goal)) is not None]
    own = extra_cost(points, "objective", goal)
    if own is None or not others or min(others) <= _NOTHING:
        return None
    return own / min(others)


def reachable(points: Points, goal: float) -> bool:
    """Whether any size of any kind reaches a goal."""
    return any(point.share >= goal - _NOTHING for point in points.values())


def _objectives(points: Points) -> list[Point]:
    return [point for point in points.values() if point.kind == "objective"]


def _missing(points: Points, point: Point) -> float:
    """Return how far a share is from its objective; more than it is no fault where less slack reaches that, too."""
    return point.share - max(_aim(point), points["none"].share)


def _chosen(points: Points) -> list[Point]:
    rates = [best for goal in GOALS if (best := cheapest(points.values(), "rate", goal)) is not None]
    return [*{point.word: point for point in rates}.values(), *(p for p in points.values() if p.kind == "objective")]


def _named(cases: Iterable[tuple[Case, Points]]) -> list[tuple[str, Point]]:
    return [(f"{case.name} {point.word}", point) for case, points in cases for point in _chosen(points)]


def _aim(point: Point) -> float:
    return float(point.word.partition("=")[2])


def _other(point: Point) -> float:
    return point.other / max(point.displaced + point.drained + point.grown, 1.0)


def _verdict(what: str, wanted: str, found: str, missed: Sequence[str], is_known: bool) -> Row:
    verdict = "unknown" if not is_known else "missed" if missed else "ok"
    return {"what": what, "wanted": wanted, "found": found, "verdict": verdict, "missed by": "; ".join(missed) or None}
