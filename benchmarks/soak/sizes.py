"""How much a process keeps: the lengths of all maps and sequences that can be reached from its parts.

Attributes are found by themselves, so that a map that somebody adds later is counted too. Only objects of our own
classes are entered, and what their maps and sequences hold. Callbacks and library objects are not entered.
"""

import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

OURS: Final = ("slack.", "slack_operator.")
"""Packages whose objects are entered."""
SEQUENCE: Final = "[]"
"""At the end of a name: a list or deque, which may keep a bounded history of what is gone."""
_NO_ENTRY: Final = (type, types.ModuleType, types.FunctionType, types.MethodType, str, bytes, bytearray, memoryview)


def sizes(roots: Iterable[object]) -> dict[str, int]:
    """Return the lengths of all maps and sequences, added up by class and attribute.

    Args:
        roots: the parts of a process that live as long as it does.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    # Each entry keeps its object alive: an id must not be given to another object meanwhile.
    todo: list[tuple[str, object]] = [(type(root).__name__, root) for root in roots]
    kept = []
    while todo:
        name, value = todo.pop()
        if id(value) in seen or isinstance(value, _NO_ENTRY):
            continue
        seen.add(id(value))
        kept.append(value)
        if isinstance(value, Mapping | set | frozenset):
            found[name] += len(value)
            todo += [(name, item) for item in _items(value)]
        elif isinstance(value, list | tuple | deque):
            found[name + SEQUENCE] += len(value)
            todo += [(name, item) for item in tuple(value)]
        elif type(value).__module__.startswith(OURS):
            todo += [(f"{type(value).__name__}.{attribute}", item) for attribute, item in _attributes(value)]
    return dict(found)


def series(registry: CollectorRegistry) -> dict[str, int]:
    """Return the number of series of each metric family."""
    return {f"metric {family.name}": len(family.samples) for family in registry.collect()}


def files(folder: Path) -> dict[str, int]:
    """Return the bytes of each file below a folder."""
    return {f"file {path.relative_to(folder)}": path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _items(value: Any) -> list[object]:
    return [*value.keys(), *value.values()] if isinstance(value, Mapping) else list(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") else slot
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
