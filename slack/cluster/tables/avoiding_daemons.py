"""Pods of DaemonSets that avoid others by required anti-affinity: they are in no kind. Owned by `ClusterColumns`."""

from collections.abc import Mapping

from slack.cluster import wire
from slack.cluster.avoidance import AvoidingPods
from slack.cluster.identity import workload_of
from slack.cluster.snapshot import Workload
from slack.cluster.tables.interning import ConstraintTable
from slack.cluster.tables.pod_table import NONE

_MARK = b'"podAntiAffinity"'
_NO_LABELS: Mapping[str, str] = {}


class AvoidingDaemons:
    """Such pods by row of the pod table; each holds its constraints, so that nodes are told apart by its terms."""

    def __init__(self, constraints: ConstraintTable) -> None:
        self._constraints = constraints
        self.rows: dict[int, tuple[AvoidingPods, int, int]] = {}
        """Who it is, the row of its node, the id of its constraints."""
        self._changed = True

    def read(self, spec: wire.PodSpec) -> int:
        """Return the id of a pod's constraints, which are held for `put`, if it avoids others; else -1.

        Raises:
            ValueError: when they cannot be read.
        """
        if not spec.node_name or spec.affinity is wire.ABSENT or _MARK not in bytes(spec.affinity):
            return NONE
        index = self._constraints.intern_spec(spec)
        self._constraints.retain(index)
        if self._constraints[index].anti_affinity:
            return index
        self._constraints.release(index)
        return NONE

    def put(self, row: int, metadata: wire.Metadata, node: int, index: int) -> None:
        """Write who a pod is; `index` is what `read` returned."""
        labels = metadata.labels or _NO_LABELS
        keys = self._constraints.label_keys[index]
        own = tuple(sorted((key, value) for key, value in labels.items() if key in keys))
        terms = self._constraints[index].anti_affinity
        value = AvoidingPods(Workload(*workload_of(metadata)), own, terms), node, index
        before, self.rows[row] = self.rows.get(row), value
        self._changed = self._changed or before != value
        if before is not None:
            self._constraints.release(before[2])

    def drop(self, row: int) -> None:
        """Forget a pod."""
        self._changed = True
        self._constraints.release(self.rows.pop(row)[2])

    def shown(self, before: tuple[tuple[AvoidingPods, int], ...] | None) -> tuple[tuple[AvoidingPods, int], ...]:
        """Return all of them with the rows of their nodes; what was returned before while none has changed."""
        if before is not None and not self._changed:
            return before
        self._changed = False
        return tuple(sorted((own, node) for own, node, _ in self.rows.values()))

    def held(self) -> list[int]:
        """Return the ids of constraints that are held, for self-checks."""
        return [index for _, _, index in self.rows.values()]
