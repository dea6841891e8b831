"""What the runs come to: the tables, and which of the wanted figures hold."""

from collections.abc import Sequence
from statistics import median

from benchmarks.holding.churn import Churn
from benchmarks.holding.loads import Case
from benchmarks.holding.runs import Point
from benchmarks.holding.search import Compared
from benchmarks.report import Report, Row

MOST_EACH, MOST_MEDIAN = 1.03, 1.00
"""Nodes at an equal share, unbound to bound."""
Found = Sequence[tuple[Case, Compared]]


def nodes(found: Found) -> Report:
    """Return the nodes of each case."""
    report = Report("Nodes on average at an equal share of pods without waiting")
    for case, compared in found:
        low, high = compared.interval
        report.rows.append(
            {
                "load": case.load,
                "pods": case.pods,
                "scores": case.scores,
                "none": f"{compared.none.nodes:.2f}",
                "bound": f"{compared.bound.nodes:.2f}",
                "unbound": f"{compared.unbound.nodes:.2f}",
                "unbound to bound": f"{compared.ratio:.3f}",
                "95 % interval": f"{low:.3f} to {high:.3f}",
                "share none": f"{compared.none.share:.2%}",
                "share bound": f"{compared.bound.share:.2%}",
                "share unbound": f"{compared.unbound.share:.2%}",
                "rate bound": f"{compared.bound.rate:g}",
                "rate unbound": f"{compared.unbound.rate:g}",
                "verdict": "ok" if compared.ratio <= MOST_EACH and compared.is_equal else "missed",
            }
        )
    return report


def movements(found: Found) -> Report:
    """Return what became of the placeholders at the equal share, per run."""
    report = Report("Placeholders preempted by the scheduler, and created in the place of others, per run")
    for case, compared in found:
        report.rows.append(
            {
                "load": case.load,
                "pods": case.pods,
                "scores": case.scores,
                "preempted bound": f"{compared.bound.preempted:.1f}",
                "preempted unbound": f"{compared.unbound.preempted:.1f}",
                "recreated bound": f"{compared.bound.recreated:.1f}",
                "recreated unbound": f"{compared.unbound.recreated:.1f}",
                **_taint_writes(case, compared.unbound),
            }
        )
    return report


def verdicts(found: Found, churns: Sequence[Churn]) -> Report:
    """Return what was wanted, what was found, and whether that is it."""
    report = Report("Wanted")
    held = [(case, compared) for case, compared in found if compared.bound.rate or compared.unbound.rate]
    ratios = [compared.ratio for _, compared in held]  # where no slack is needed nothing is compared
    if ratios:
        above = [f"{case.name} {compared.ratio:.3f}" for case, compared in held if compared.ratio > MOST_EACH]
        largest = f"largest {max(ratios):.3f}, {len(ratios) - len(above)} of {len(ratios)} hold"
        each = "nodes at an equal share, unbound to bound, each"
        report.rows.append(_row(each, f"at most {MOST_EACH:.2f}", largest, not above, "; ".join(above)))
        middle = median(ratios)
        whole = "the same, median"
        report.rows.append(_row(whole, f"at most {MOST_MEDIAN:.2f}", f"{middle:.3f}", round(middle, 3) <= MOST_MEDIAN))
        unequal = [case.name for case, compared in found if not compared.is_equal]
        told = f"{len(found) - len(unequal)} of {len(found)}"
        report.rows.append(_row("an equal share was reached", "all", told, not unequal, "; ".join(unequal)))
    for churn in (churn for churn in churns if churn.hold == "Unbound"):
        counted = f"{churn.recreated} recreated, {churn.preempted} preempted"
        report.rows.append(_row(churn.load, "0 recreated, 0 preempted", counted, not churn.recreated + churn.preempted))
    return report


def churn_table(churns: Sequence[Churn]) -> Report:
    """Return what became of placeholders where the load moves, all seeds together."""
    report = Report("Placeholders where the load moves, all seeds together")
    report.rows.extend(
        {
            "load": churn.load,
            "form": churn.hold,
            "pods": churn.pods,
            "created": churn.created,
            "recreated": churn.recreated,
            "preempted": churn.preempted,
            "made way": churn.made_way,
        }
        for churn in churns
    )
    return report


def _taint_writes(case: Case, point: Point) -> Row:
    return {"taint writes an hour": f"{point.taint_writes_per_hour:.1f}"} if case.soft_taint else {}


def _row(what: str, wanted: str, found: str, holds: bool, missed: str = "") -> Row:
    verdict = "ok" if holds else "missed"
    return {"what": what, "wanted": wanted, "found": found, "verdict": verdict, "missed by": missed or None}
