"""Which of many node classes some constraints admit: `admits` for all of them at once.

One pod that names a node by its host name makes a class of every node, and any tenant can invent thousands of
constraints. So what is asked of a label is looked up by its value instead of being asked of each class.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from slack.cluster.classes import DECLARED, Constraints, NodeClass, Requirement, Taint, admits, integer
from slack.cluster.snapshot import BoolArray, IntArray

_FEW = 16
"""Up to so many classes it is quicker to ask each."""
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NO_VALUES: Mapping[str, list[int]] = MappingProxyType({})


class ClassIndex:
    """Node classes by the values of their labels; indexed when a label is first asked for."""

    def __init__(self, classes: Sequence[NodeClass]) -> None:
        self._classes = tuple(classes)
        self._values: dict[str, dict[str, list[int]]] = {}
        self._present: dict[str, BoolArray] = {}
        self._numbers: dict[str, tuple[IntArray, IntArray]] = {}
        self._tainted: dict[tuple[Taint, ...], list[int]] = {}
        for row, node_class in enumerate(self._classes):
            self._tainted.setdefault(node_class.taints, []).append(row)

    def admitted(self, constraints: Constraints) -> BoolArray:
        """[NC] which classes they admit."""
        if len(self._classes) <= _FEW:
            return np.array([admits(constraints, node_class) for node_class in self._classes], dtype=bool)
        found = self._tolerated(constraints)
        for key, value in constraints.node_selector:
            found &= self._of_values(key, (value,))
        for name in constraints.features:
            found &= self._has(DECLARED + name)
        if constraints.node_affinity:
            some = np.zeros(len(found), dtype=bool)
            for term in constraints.node_affinity:
                if term:
                    some |= np.logical_and.reduce([self._met(requirement) for requirement in term])
            found &= some
        return found

    def _tolerated(self, constraints: Constraints) -> BoolArray:
        bare = Constraints(tolerations=constraints.tolerations)
        found = np.ones(len(self._classes), dtype=bool)
        for taints, rows in self._tainted.items():
            if not admits(bare, NodeClass((), taints)):
                found[rows] = False
        return found

    def _met(self, requirement: Requirement) -> BoolArray:
        """`meets` for all classes."""
        key, values = requirement.key, requirement.values
        one_field = not requirement.field or (len(values) == 1 and requirement.operator in ("In", "NotIn"))
        match requirement.operator:
            case "In" if one_field:
                return self._of_values(key, values)
            case "NotIn" if one_field and values:
                return ~self._of_values(key, values)
            case "Exists" if one_field and not values:
                return self._has(key).copy()
            case "DoesNotExist" if one_field and not values:
                return ~self._has(key)
            case "Gt" | "Lt" if one_field and len(values) == 1 and (bound := integer(values[0])) is not None:
                rows, numbers = self._numbers_of(key)
                return self._mask(rows[numbers > bound if requirement.operator == "Gt" else numbers < bound])
            case _:
                return self._mask(())

    def _of_values(self, key: str, values: Sequence[str]) -> BoolArray:
        rows = self._rows_of(key)
        return self._mask([row for value in values for row in rows.get(value, ())])

    def _has(self, key: str) -> BoolArray:
        if not (values := self._rows_of(key)):
            return self._mask(())
        if key not in self._present:
            self._present[key] = self._of_values(key, tuple(values))
        return self._present[key]

    def _numbers_of(self, key: str) -> tuple[IntArray, IntArray]:
        """Return the rows in which a label is a number, and the numbers."""
        if not self._rows_of(key):
            return _NO_ROWS, _NO_ROWS
        if key not in self._numbers:
            found = [
                (row, number)
                for value, rows in self._rows_of(key).items()
                if (number := integer(value)) is not None
                for row in rows
            ]
            pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
            self._numbers[key] = pairs[:, 0], pairs[:, 1]
        return self._numbers[key]

    def _rows_of(self, key: str) -> Mapping[str, list[int]]:
        """Return the rows of each value of a label; tenants may ask for any key, none is kept for it."""
        if not self._values:
            for row, node_class in enumerate(self._classes):
                for name, value in node_class.labels:
                    self._values.setdefault(name, {}).setdefault(value, []).append(row)
        return self._values.get(key, _NO_VALUES)

    def _mask(self, rows: Sequence[int] | IntArray) -> BoolArray:
        found = np.zeros(len(self._classes), dtype=bool)
        found[np.asarray(rows, dtype=np.int64)] = True
        return found
