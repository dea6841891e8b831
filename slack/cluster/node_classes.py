"""Which class each node is of: nodes that the same pods may go to are one class, whatever they are called (R1-1).

Made when a snapshot is, as the labels that matter depend on the pods there are. Owned by `SnapshotBuilder`.
"""

import numpy as np

from slack.cluster.classes import DECLARED, NODE_NAME, NodeClass
from slack.cluster.labels import ARCH, OS, ZONE
from slack.cluster.snapshot import IndexArray
from slack.cluster.tables.interning import Interner, Needs
from slack.cluster.tables.node_table import NodeFacts

ALWAYS_RELEVANT = (ZONE, ARCH, OS)
"""Labels by which policies and manifests tell nodes apart even where no pod does."""


class NodeClasses:
    """Classes by id, and of every node by its row."""

    def __init__(self) -> None:
        self.classes: Interner[NodeClass] = Interner()
        self.version = 0
        """Grows when a node's class changes."""
        self._facts: list[NodeFacts | None] = []
        self._ids: list[int] = []
        self._needs: Needs = frozenset()
        self._asked = False

    def update(self, names: list[str], facts: list[NodeFacts | None], needs: Needs) -> None:
        """Give every known node its class: all of them when the labels that matter have changed, else the new ones.

        Args:
            names: [node row]
            facts: [node row] None for nodes that are not known; the list is kept, nobody changes it.
            needs: labels that pods and policies look at.
        """
        if facts is self._facts and needs is self._needs:
            return
        # Where no node declares anything, the scheduler does not ask: KEP-5328's gate is off, or all is older.
        asked = any(own is not None and own.declares for own in facts)
        if needs != self._needs or asked != self._asked:
            self._facts = []
        self._needs, self._asked = needs, asked
        granted = () if asked else tuple((key, "") for key, _ in needs if key.startswith(DECLARED))
        wanted = needs | {(key, None) for key in ALWAYS_RELEVANT}
        whole = {key for key, value in wanted if value is None}
        before = self._facts + [None] * (len(facts) - len(self._facts))
        self._ids += [-1] * (len(facts) - len(self._ids))
        for row, (old, own) in enumerate(zip(before, facts, strict=True)):
            if own is old and (own is not None or self._ids[row] < 0):
                continue
            labels = () if own is None else ((NODE_NAME, names[row]), *own.labels.items(), *granted)
            relevant = [(key, value) for key, value in labels if key in whole or (key, value) in wanted]
            self._put(row, None if own is None else NodeClass(tuple(sorted(relevant)), own.taints))
        self._facts = facts

    def ids(self) -> IndexArray:
        """[node row] id of its class, -1 for nodes that are not known."""
        return np.array(self._ids, dtype=np.int32)

    def _put(self, row: int, node_class: NodeClass | None) -> None:
        old = self._ids[row]
        new = -1 if node_class is None else self.classes.intern(node_class)
        if new == old:
            return
        if new >= 0:
            self.classes.retain(new)
        if old >= 0:
            self.classes.release(old)
        self._ids[row] = new
        self.version += 1
