"""The tables that make up the columns: `ClusterColumns` fills them, copies are taken of them.

Not thread-safe: whoever shares them holds a lock.
"""

from collections.abc import Mapping

from slack.cluster.classes import NO_SELECTORS
from slack.cluster.tables.avoiding_daemons import AvoidingDaemons
from slack.cluster.tables.interning import ConstraintTable, CountedResources, RequestTable, grown
from slack.cluster.tables.kind_table import Arrivals, KindTable
from slack.cluster.tables.label_sets import LabelSets
from slack.cluster.tables.marker_table import MarkerTable
from slack.cluster.tables.node_table import NodeTable
from slack.cluster.tables.placeholder_table import PlaceholderTable
from slack.cluster.tables.pod_table import PodTable
from slack.cluster.tables.reserved_table import ReservedTable

WINDOW_SECONDS = 21_600.0


class ColumnTables:
    """Nodes, pods, workloads, priority classes and namespaces, as tables."""

    def __init__(self, placeholder_namespace: str, window_seconds: float = WINDOW_SECONDS) -> None:
        self.placeholder_namespace = placeholder_namespace
        self.window_seconds = window_seconds
        self.changed = 0
        """Grows with every event that changes what a snapshot would show."""
        self.resources = CountedResources()
        self.requests = RequestTable(self.resources)
        self.constraints = ConstraintTable()
        self.kinds = KindTable(self.requests, self.constraints)
        self.arrivals = Arrivals(self.kinds, window_seconds)
        self.nodes = NodeTable(self.resources)
        self.pods = PodTable()
        self.label_sets = LabelSets()
        self.daemons = AvoidingDaemons(self.constraints)
        self.reserved = ReservedTable(self.requests, self.constraints)
        self.dates_pods = False
        """Whether snapshots say when the newest pod of each kind was created, also while no workload is reserved."""
        self.priorities: dict[str, tuple[int, bool]] = {}
        """Value and whether its pods may preempt, by class name."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        """Labels by name."""
        self._namespaces_copied: Mapping[str, Mapping[str, str]] | None = None
        self.placeholders = PlaceholderTable()
        self.markers = MarkerTable()
        self.required_labels: frozenset[str] = frozenset()
        self.node_selectors = NO_SELECTORS

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of each namespace, the same value while none changes."""
        if self._namespaces_copied is None:
            self._namespaces_copied = dict(self._namespaces)
        return self._namespaces_copied

    def settle_resources(self) -> None:
        """Let the columns follow what nodes have."""
        old, new = self.resources.settle()
        if old or new:
            self.requests.resettle(old, new)
            role, node, requests = (
                cells[: self.pods.size] for cells in (self.pods.role, self.pods.node, self.pods.requests)
            )
            vectors = grown(self.requests.matrix, 0, len(self.resources.names))[:, list(new.values())]
            self.nodes.resettle(old, new, role, node, vectors.take(requests, axis=0, mode="clip"))
