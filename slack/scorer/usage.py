"""What is used on each node as far as can be told: which window tells, whether it is new enough, what it does not show.

Per resource the first window in the order of `MetricRules.window_seconds` that is new enough and has a mean. Recent
pods come on top, each with what of it the window cannot show yet: all of it while the window ends before the pod's
use is reported, then less and less, and nothing when the window has taken in five minutes of it. A node that was just
made, without metrics and without older pods, uses nothing but by its recent pods. A node whose memory is known and
whose CPU is not is not known either. Everything else is not known.

Windows come each quarter of a minute, pods at any moment: what windows say (`SaidByWindows`) is worked out once for as
long as it holds, and pods come on top of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.scorer.model import (
    CPU,
    RESOURCES,
    BoolArray,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeUsage,
    RecentPods,
    ScoredNodes,
    UsageState,
    WindowLoad,
)
from slack.scorer.rules import MetricRules

HOLDS_SECONDS = 1.0
"""For how long what windows say holds; limits of age are minutes."""


def in_order(windows: Sequence[WindowLoad], first_seconds: float) -> list[WindowLoad]:
    """Return windows in the order in which they are asked: the wanted one, shorter ones, then longer ones."""
    return sorted(
        windows,
        key=lambda window: (
            window.window_seconds > first_seconds,
            abs(window.window_seconds - first_seconds),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SaidByWindows:
    """What windows say at one moment, NaN where they say nothing; [2, N] but for the age, which is of a node."""

    windows: tuple[WindowLoad, ...]
    rules: MetricRules
    now: float
    mean: FloatArray
    deviation: FloatArray
    window_seconds: FloatArray
    end: FloatArray
    newest_age: FloatArray
    measured: BoolArray

    def holds(self, windows: tuple[WindowLoad, ...], rules: MetricRules, now: float) -> bool:
        """Return whether it may be told again: of the same windows, and hardly older than limits of age are exact."""
        return windows is self.windows and rules is self.rules and 0.0 <= now - self.now < HOLDS_SECONDS


def said_by(windows: tuple[WindowLoad, ...], count: int, rules: MetricRules, now: float) -> SaidByWindows:
    """Ask the windows about `count` nodes at `now` (Unix seconds)."""
    shape = len(RESOURCES), count
    mean, deviation, window_seconds, end = (np.full(shape, np.nan) for _ in range(4))
    newest_age = np.full(count, np.nan)
    for window in in_order(windows, rules.window_seconds):
        age = now - window.end_seconds
        newest_age = np.fmin(newest_age, np.where(_has_mean(window).any(axis=0), age, np.nan))
        use = _has_mean(window) & (age <= rules.most_age_seconds) & (age >= -rules.most_ahead_seconds) & np.isnan(mean)
        mean[use] = window.mean_percent[use]
        deviation[use] = window.deviation_percent[use]
        window_seconds[use] = window.window_seconds
        end[use] = np.broadcast_to(window.end_seconds, shape)[use]
    measured = np.isfinite(mean)
    return SaidByWindows(
        windows,
        rules,
        now,
        mean=np.where(measured, mean, 0.0),
        deviation=_with_deviation(measured, deviation),
        window_seconds=window_seconds,
        end=end,
        newest_age=newest_age,
        measured=measured,
    )


def usage_of(
    nodes: ScoredNodes, load: LoadColumns, rules: MetricRules, now: float, said: SaidByWindows | None = None
) -> NodeUsage:
    """Tell what is used on each node at `now` (Unix seconds); `said`: by the windows, where that is known already."""
    if said is None:
        said = said_by(load.windows, len(nodes), rules, now)
    measured, newest_age = said.measured, said.newest_age + (now - said.now)
    if measured[CPU].all():
        state, known = np.full(len(nodes), UsageState.MEASURED, dtype=np.uint8), measured
    else:
        new = np.isnan(newest_age) & _is_new(nodes, load.recent, rules, now)
        known = measured | new
        state = np.select(
            [measured[CPU], measured.any(axis=0), new, np.isnan(newest_age), newest_age > 0],
            [UsageState.MEASURED, UsageState.NO_CPU, UsageState.NEW, UsageState.NO_METRICS, UsageState.STALE],
            UsageState.FUTURE,
        ).astype(np.uint8)
    return NodeUsage(
        state=state,
        known=known,
        mean_percent=said.mean,
        deviation_percent=said.deviation,
        missing=_missing(load.recent, said.end, said.window_seconds, rules, now),
        age_seconds=newest_age,
        window_seconds=said.window_seconds,
    )


def _has_mean(window: WindowLoad) -> BoolArray:
    return np.isfinite(window.mean_percent) & (window.mean_percent >= 0.0)


def _is_new(nodes: ScoredNodes, recent: RecentPods, rules: MetricRules, now: float) -> BoolArray:
    lately = now - recent.bound_seconds <= rules.recent_seconds
    count: IntArray = np.bincount(recent.node[lately], minlength=len(nodes))
    young = now - nodes.created_seconds <= rules.new_node_seconds  # of a time that is not known: no
    is_new: BoolArray = young & (nodes.pod_count <= count)
    return is_new


def _with_deviation(measured: BoolArray, deviation: FloatArray) -> FloatArray:
    """Fill what is not known: as risky as the riskiest node, so that who says nothing is not taken for calm."""
    known = measured & np.isfinite(deviation) & (deviation >= 0.0)
    largest = np.where(known, deviation, 0.0).max(axis=1, initial=0.0, keepdims=True)
    filled: FloatArray = np.where(known, deviation, np.where(measured, largest, 0.0))
    return filled


def _missing(
    recent: RecentPods, end: FloatArray, window_seconds: FloatArray, rules: MetricRules, now: float
) -> FloatArray:
    missing = np.zeros(end.shape)
    for resource in range(len(RESOURCES)):
        own_end, own_window = end[resource][recent.node], window_seconds[resource][recent.node]
        taken_in_over = np.fmin(own_window, rules.recent_seconds)
        shown = np.clip((own_end - rules.reporting_seconds - recent.bound_seconds) / taken_in_over, 0.0, 1.0)
        # Without a window nothing shows the pod; then it counts for as long as it is recent.
        late = now - recent.bound_seconds > rules.recent_seconds
        unseen = np.where(np.isnan(own_end), np.where(late, 0.0, 1.0), 1.0 - shown)
        missing[resource] = np.bincount(recent.node, recent.use[resource] * unseen, minlength=end.shape[1])
    return missing
