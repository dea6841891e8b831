"""Labels of real pods as integers: pods of one workload share theirs, so there are few of them.

Other pods' anti-affinity looks at these, whatever its keys are. Labels that each pod of a workload has otherwise are
left out: the next pod will have others. Owned by `ClusterColumns`.
"""

from collections.abc import Mapping

from slack.cluster.labels import LABELS_OF_ONE_POD
from slack.cluster.tables.interning import Interner

UNREAD = 0
"""The id of labels that are not kept: there are too many of them."""
MOST_LABELS = 64
"""Of one pod; more are not read."""
LONGEST_LABELS = 8192
"""Characters of one pod's labels; longer ones are not read."""
MOST_CHARACTERS = 4 * 1024 * 1024
"""Of all labels together: some 16 MiB. Whoever may make pods can give each of them others."""

_Items = tuple[tuple[str, str], ...]
_NO_LABELS: Mapping[str, str] = {}


class LabelSets(Interner[_Items]):
    """Distinct labels by id; a set lives as long as a pod holds it."""

    def __init__(self) -> None:
        super().__init__(self._forget)
        self.labels: list[Mapping[str, str] | None] = []
        """[id] None for `UNREAD`, and for ids that are not live."""
        self.changes: dict[int, Mapping[str, str] | None] = {}
        """What has come (None: gone) since somebody took these."""
        self._characters = 0
        self.intern((("", ""),))  # no label has an empty key
        self.retain(UNREAD)
        self.labels.append(None)

    def replace(self, before: int, after: int) -> None:
        """Hold one id for a pod in place of another; -1 stands for none."""
        if after >= 0:
            self._holders[after] += 1
        if before >= 0:
            self._holders[before] -= 1
            if not self._holders[before]:
                self._holders[before] += 1
                self.release(before)

    def id_of(self, labels: Mapping[str, str] | None) -> int:
        """Return the id of a pod's labels, held by nobody yet."""
        labels = labels or _NO_LABELS
        if not LABELS_OF_ONE_POD.isdisjoint(labels):
            labels = {key: value for key, value in labels.items() if key not in LABELS_OF_ONE_POD}
        length = sum(map(len, labels)) + sum(map(len, labels.values()))
        if len(labels) > MOST_LABELS or length > LONGEST_LABELS:
            return UNREAD
        items = tuple(sorted(labels.items()))
        found = self._ids.get(items)
        if found is not None:
            return found
        if self._characters + length > MOST_CHARACTERS:
            return UNREAD
        index = self.intern(items)
        self._characters += length
        if index == len(self.labels):
            self.labels.append(None)
        self.labels[index] = self.changes[index] = dict(items)
        return index

    def _forget(self, index: int, items: _Items) -> None:
        self._characters -= sum(len(key) + len(value) for key, value in items)
        self.labels[index] = self.changes[index] = None
