"""What is served: the newest windows, each encoded once a fetch and not with each question; shorter ones when asked.

The watcher's thread puts a view up, those that serve read it; a view never changes.
"""

import gzip
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slack.loadwatcher.encoding import ReportFormat, encode
from slack.loadwatcher.node_names import AsTheyAre, NodeNames
from slack.loadwatcher.payload import LoadReport, RollupWindow
from slack.loadwatcher.reports import choose
from slack.loadwatcher.verdicts import Verdicts
from slack.loadwatcher.verdicts import encode as encode_verdicts

_GZIP_LEVEL = 1
"""A full reply of 5,000 nodes: a tenth of the bytes, in 30 ms."""


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """What is known after a fetch."""

    reports: Mapping[RollupWindow, LoadReport] = field(default_factory=dict)
    names: NodeNames = field(default_factory=AsTheyAre)
    verdicts: Verdicts | None = None


class ReportStore:
    """The view that is up, and its encoded replies."""

    def __init__(self, style: ReportFormat, *, max_age_seconds: float, clock: Callable[[], float]) -> None:
        self._style = style
        self._max_age = max_age_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._view = LoadSnapshot()
        self._bodies: dict[tuple[RollupWindow, bool], bytes] = {}

    @property
    def view(self) -> LoadSnapshot:
        """What is up."""
        return self._view

    def publish(self, view: LoadSnapshot) -> None:
        """Show another view."""
        longest = next((report for window in RollupWindow if (report := view.reports.get(window)) is not None), None)
        bodies = {} if longest is None else {(longest.window.duration, False): encode(longest, self._style)}
        with self._lock:
            self._view, self._bodies = view, bodies

    def report(self, asked: RollupWindow = RollupWindow.FIFTEEN_MINUTES, node: str | None = None) -> LoadReport | None:
        """Return the report that answers a question; None where nothing does."""
        view = self._view
        found = self._choose(view, asked, node)
        if found is None and node is not None and (known := view.names.node(node)) not in (None, node):
            found = self._choose(view, asked, known)
        return found

    def body(self, asked: RollupWindow, node: str | None, *, gzipped: bool) -> bytes | None:
        """Return the encoded answer to a question; None where there is none."""
        report = self.report(asked, node)
        if report is None:
            return None
        if node is not None:
            body = encode(report, self._style)
            return gzip.compress(body, _GZIP_LEVEL) if gzipped else body
        key = report.window.duration, gzipped
        with self._lock:
            found = self._bodies.get(key)
            plain = self._bodies.get((key[0], False))
        if found is None:
            plain = encode(report, self._style) if plain is None else plain
            found = gzip.compress(plain, _GZIP_LEVEL) if gzipped else plain
            with self._lock:
                if self._view.reports.get(key[0]) is report:
                    self._bodies[key] = found
        return found

    def analysis(self) -> bytes | None:
        """Return the encoded verdicts of the analyser."""
        verdicts = self._view.verdicts
        return None if verdicts is None else encode_verdicts(verdicts)

    def _choose(self, view: LoadSnapshot, asked: RollupWindow, node: str | None) -> LoadReport | None:
        return choose(view.reports, asked, now=self._clock(), max_age_seconds=self._max_age, node=node)
