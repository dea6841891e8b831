"""One window of a node, summed up for its report.

What was throttled, and what shares a pod or a way up with it, are rows; of all else there are counts.
"""

from collections.abc import Iterable, Iterator

from slack.audit.api.messages import MAX_PATH, MAX_PODS, MAX_ROWS, PodCounts, Row, WindowReport
from slack.audit.findings.sample import CgroupLevel
from slack.audit.findings.window import Window, Windows, WindowState


def window_report(windows: Windows) -> WindowReport:
    """Sum up one window of one node; of more rows than `MAX_ROWS` those with the most throttled time stay."""
    states: dict[WindowState, int] = {}
    pods: dict[str, dict[str, int]] = {}
    concerned: set[str] = set()
    worst: list[Window] = []
    for window in windows.windows:
        target = window.target
        states[window.state] = states.get(window.state, 0) + 1
        if window.throttled or window.throttled_ns or window.inherited_ns:
            worst.append(window)
            if target.pod_uid:
                concerned.add(target.pod_uid)
        if (
            target.level is CgroupLevel.CONTAINER
            and target.pod_uid
            and (target.pod_uid in pods or len(pods) < MAX_PODS)
        ):
            counts = pods.setdefault(target.pod_uid, {})
            name = _COUNTED.get(window.state, "other")
            counts[name] = counts.get(name, 0) + 1
    rows = _rows(windows.windows, worst, concerned)
    rows.sort(key=lambda window: (-(window.throttled_ns or window.inherited_ns or 0), window.target.path))
    return WindowReport(
        seconds=round(windows.seconds, 3),
        states=states,
        pods={uid: PodCounts(**counts) for uid, counts in pods.items()},
        rows=tuple(Row.from_window(window) for window in rows[:MAX_ROWS]),
        left_out=max(0, len(rows) - MAX_ROWS),
    )


_COUNTED = {WindowState.MEASURED: "measured", WindowState.NO_LIMIT: "no_limit", WindowState.TOO_FEW: "too_few"}


def _rows(windows: Iterable[Window], worst: Iterable[Window], pods: set[str]) -> list[Window]:
    """Choose what was throttled, its pods whole, what is below, and the levels above that have a quota."""
    chosen = {window.target.path for window in worst}
    above = {start for path in chosen for start in _starts(path)}
    over_pods = {window.target.path for window in worst if window.throttled and not window.target.pod_uid}
    return [
        window
        for window in windows
        if len(window.target.path) <= MAX_PATH
        and (
            window.target.path in chosen
            or window.target.pod_uid in pods
            or (window.target.path in above and window.limited)
            or (over_pods and not over_pods.isdisjoint(_starts(window.target.path)))
        )
    ]


def _starts(path: str) -> Iterator[str]:
    """Yield the paths of the cgroups above one, without the root."""
    return (path[:at] for at in range(1, len(path)) if path[at] == "/")
