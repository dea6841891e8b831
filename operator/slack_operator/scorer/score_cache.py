"""What stands between two refreshes: one immutable basis of scores, swapped by a thread that watches and load wake.

The extender's thread reads `current` once a request and computes from it alone: it never waits for a watch, a fetch or
a lock. A refresh comes at once when something changed, but not more often than its own cost allows, and each second
all the same, for figures age.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slack.loadwatcher.payload import LoadReport
from slack.scorer.extender import ScoreReplies
from slack.scorer.inputs.load_reader import window_load
from slack.scorer.inputs.node_names import NodeRowsByName
from slack.scorer.model import LoadColumns, ScoredNodes, Weighted, WindowLoad
from slack.scorer.rules import MetricRules
from slack.scorer.scoring import Basis, prepare
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.runtime.load_source import LoadSource
from slack_operator.scorer.cluster_view import ScorerView

log = logging.getLogger(__name__)

AGING_SECONDS = 1.0
PAUSE_SECONDS = 0.02
"""Less than a binding takes to be seen, and each refresh takes the processor and the interpreter from answers."""
REST = 4.0
"""Between two refreshes, so many times what the last one took: at most a fifth of a core."""
STUCK_SECONDS = 60.0
TIDY_SECONDS = 60.0
Windows = tuple[tuple[WindowLoad, ...], tuple[str, ...]]
"""In the order of the nodes, and the names that no node has."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBasis:
    """All that a request is answered from."""

    basis: Basis
    replies: ScoreReplies
    unmatched: tuple[str, ...]
    """Names that the load watcher has and no node."""


class Refresher:
    """Makes `current` anew from the view and the load, in a thread of its own; `touch` from any thread."""

    def __init__(
        self,
        view: ScorerView,
        algorithms: Sequence[Weighted],
        rules: MetricRules,
        *,
        whole: Callable[[], bool],
        on_refresh: Callable[[ScoreBasis, float], None] = lambda *_: None,
        tidy: Callable[[], None] = lambda: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing stands yet.

        Args:
            view: of the cluster.
            algorithms: what scores.
            rules: what holds when metrics are missing.
            whole: whether the view is whole; before, there is nothing to score by.
            on_refresh: told what stands now, and how long it took.
            tidy: called each minute, to forget what is gone.
            wall: Unix seconds.
        """
        self.current: ScoreBasis | None = None
        self.load: LoadSource | None = None
        self._view = view
        self._algorithms = tuple(algorithms)
        self._rules = rules
        self._whole = whole
        self._on_refresh = on_refresh
        self._tidy = tidy
        self._tidied_at = -math.inf
        self._wall = wall
        self._touched = threading.Event()
        self._ended = threading.Event()
        self._aliases: tuple[tuple[str, ...], Mapping[str, str]] | None = None
        self._known: tuple[tuple[str, ...], tuple[LoadReport, ...], Windows] | None = None
        heart = Heartbeat("the thread that refreshes", STUCK_SECONDS)
        self._thread = SupervisedThread(self._run, name="refresh", heart=heart)

    def touch(self) -> None:
        """Something changed."""
        self._touched.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """End; nothing where it was never started."""
        self._thread.dismiss()
        self._ended.set()
        self._touched.set()
        self._thread.join(timeout)

    def unhealthy(self) -> str | None:
        """Return why nothing is refreshed any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def refresh(self) -> None:
        """Make what stands anew, once."""
        if not self._whole() and self.current is None:
            return
        began = time.perf_counter()
        now = self._wall()
        with self._view.lock:
            nodes = self._view.state.nodes()
            recent = self._view.state.recent(now)
            if self._aliases is None or self._aliases[0] is not nodes.names:
                self._aliases = nodes.names, self._view.state.aliases()
            aliases = self._aliases[1]
        windows, unmatched = self._windows(nodes, aliases)
        before = self.current
        load = LoadColumns(windows, recent)
        basis = prepare(self._algorithms, nodes, load, now, self._rules, before.basis if before is not None else None)
        same = before is not None and before.basis.nodes.names is nodes.names
        replies = before.replies if before is not None and same else ScoreReplies(nodes.names)
        self.current = ScoreBasis(basis, replies, unmatched)
        self._on_refresh(self.current, time.perf_counter() - began)

    def _windows(self, nodes: ScoredNodes, aliases: Mapping[str, str]) -> Windows:
        """Return the reports in the order of the nodes; worked out anew when there are other reports or other nodes."""
        reports = tuple(self.load.reports.values()) if self.load is not None else ()
        known = self._known
        if known is not None and known[0] is nodes.names and list(map(id, known[1])) == list(map(id, reports)):
            return known[2]
        names = NodeRowsByName(nodes.row_of, aliases)
        found = [window_load(report, names, len(nodes)) for report in reports]
        unmatched = dict.fromkeys(name for _, unknown in found for name in unknown)
        windows = tuple(window for window, _ in found), tuple(unmatched)
        self._known = nodes.names, reports, windows
        return windows

    def _run(self) -> None:
        while not self._ended.is_set():
            self._touched.wait(AGING_SECONDS)
            self._touched.clear()
            began = time.perf_counter()
            try:
                self.refresh()
                if time.monotonic() - self._tidied_at >= TIDY_SECONDS:
                    self._tidied_at = time.monotonic()
                    self._tidy()
                self._thread.heart.beat()
            except Exception:
                log.exception("scores could not be refreshed; those of before stand")
            self._ended.wait(max(PAUSE_SECONDS, REST * (time.perf_counter() - began)))
