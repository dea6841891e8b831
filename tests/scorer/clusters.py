"""Small clusters for the scorer's tests."""

from collections.abc import Sequence

import numpy as np

from slack.scorer.model import FloatArray, LoadColumns, RecentPods, ScoredNodes, WindowLoad

NOW = 1_800_000_000.0
GB = 1e9


def nodes(size: int, cpu_millis: float = 4000.0, memory_bytes: float = 8 * GB, **more: FloatArray) -> ScoredNodes:
    """N equal nodes."""
    capacity = np.full((2, size), [[cpu_millis], [memory_bytes]])
    names = tuple(f"n{row}" for row in range(size))
    return ScoredNodes.from_columns(names, capacity, **more)  # type: ignore[arg-type]  # by name, all are columns


def window(
    cpu: Sequence[float],
    memory: Sequence[float] | None = None,
    *,
    cpu_deviation: Sequence[float] | None = None,
    memory_deviation: Sequence[float] | None = None,
    seconds: float = 300.0,
    age: float | Sequence[float] = 0.0,
) -> WindowLoad:
    """A window of so many seconds that ended so long ago; nan for what it does not say."""
    unknown = [np.nan] * len(cpu)
    return WindowLoad(
        seconds,
        NOW - np.broadcast_to(np.asarray(age, dtype=np.float64), (len(cpu),)),
        np.array([cpu, unknown if memory is None else memory], dtype=np.float64),
        np.array(
            [
                unknown if cpu_deviation is None else cpu_deviation,
                unknown if memory_deviation is None else memory_deviation,
            ],
            dtype=np.float64,
        ),
    )


def load(*windows: WindowLoad, recent: RecentPods | None = None) -> LoadColumns:
    """What is known of the load."""
    return LoadColumns(windows, RecentPods.none() if recent is None else recent)


def recent(*pods: tuple[int, float, float]) -> RecentPods:
    """Pods by row of their node, seconds since they were bound, and millicores."""
    rows = np.array([row for row, _, _ in pods], dtype=np.int64)
    bound = np.array([NOW - ago for _, ago, _ in pods])
    return RecentPods(rows, bound, np.array([[millis for _, _, millis in pods], [0.0] * len(pods)]))
