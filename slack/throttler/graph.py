"""Which containers of a pod wait for which: a graph without cycles, declared in any order.

The study's rule, that a container may name only those declared before it, is enough and not needed: what is refused
here is a cycle, told with its members, a name that no container has, and one that two have.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from slack.errors import InvalidInput
from slack.schema.did_you_mean import did_you_mean

MAX_BYTES = 64 << 10
"""Of the annotation."""
MAX_NAMES = 2000
"""In the annotation, the same one each time that it is there."""
_SHOWN = 20
"""Problems that are told."""
_SUGGESTED, _COMPARED = 3, 100
"""So many unknown names are compared with so many containers: each comparison takes a tenth of a millisecond."""
_LONGEST_NAME = 63
"""Of a container; of what is longer the beginning is told."""


class InvalidGraph(InvalidInput):
    """Dependencies that cannot be kept; each problem says where, what, and what would be right."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Dependencies that hold: each name once, in the order of declaration, and no cycle."""

    depends_on: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_dependencies(
        cls, containers: Sequence[str], depends_on: Mapping[str, Iterable[str]], init: Collection[str] = ()
    ) -> "Graph":
        """Check dependencies.

        Args:
            containers: names in the order of declaration.
            depends_on: by container, those that must be ready before it starts.
            init: names of the pod's init containers, which no dependency may name.

        Raises:
            InvalidGraph: a name is unknown or there twice, or there is a cycle.
        """
        known = dict.fromkeys(containers)
        edges = {
            name: tuple(other for other in dict.fromkeys(depends_on.get(name, ())) if other in known) for name in known
        }
        problems = tuple(islice(_problems(containers, known, depends_on, edges, init), _SHOWN))
        if problems:
            raise InvalidGraph(problems)
        return cls(edges)

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Return who may start at once: a level needs only those before it; each in the order of declaration."""
        depth = _depths(self.depends_on)
        levels: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for name in self.depends_on:
            levels[depth[name]].append(name)
        return tuple(map(tuple, levels))


def _problems(
    containers: Sequence[str],
    known: Mapping[str, None],
    depends_on: Mapping[str, Iterable[str]],
    edges: Mapping[str, tuple[str, ...]],
    init: Collection[str],
) -> Iterator[str]:
    """Give problems one by one, so that work is done only for those that are shown."""
    compared, suggestions = tuple(islice(known, _COMPARED)), iter(range(_SUGGESTED))

    def unknown(name: str) -> str:
        if name in init:
            return "it is an init container: those start before all containers and are never gated; leave it out"
        suggestion = did_you_mean(name, compared) if next(suggestions, None) is not None else ""
        return f"no container is called so{suggestion}"

    for name in _twice(containers):
        yield f"{_short(name)}: two containers are called so"
    for name in depends_on:
        if name not in known:
            yield f"{_short(name)}: {unknown(name)}"
    for name in known:
        needed = tuple(depends_on.get(name, ()))
        for other in _twice(needed):
            yield f"{_short(name)}: depends on {_short(other)!r} twice"
        for other in dict.fromkeys(needed):
            if other not in known:
                yield f"{_short(name)}: depends on {_short(other)!r}, and {unknown(other)}"
    for cycle in _cycles(edges):
        yield f"{_short(cycle[0])}: depends on itself: {' -> '.join(map(_short, cycle))}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def parse_depends_on(text: str, containers: Sequence[str], init: Collection[str] = ()) -> Graph:
    """Read the annotation: a JSON object with, by container, a list of the containers that it waits for.

    Raises:
        InvalidGraph: it is no such object, or no graph that can be kept.
    """
    if len(text) > MAX_BYTES:
        raise InvalidGraph((f"is longer than {MAX_BYTES} bytes",))
    try:
        found = json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise InvalidGraph((f'is no JSON object such as {{"app_b": ["app_a"]}}: {str(error)[:200]}',)) from None
    if not isinstance(found, dict):
        raise InvalidGraph(('is no JSON object such as {"app_b": ["app_a"]}',))
    names = 0
    for name, needed in found.items():
        names += 1 + (len(needed) if isinstance(needed, list) else 0)
        if names > MAX_NAMES:
            raise InvalidGraph((f"names more than {MAX_NAMES} containers",))
        if not isinstance(needed, list) or not all(isinstance(other, str) for other in needed):
            raise InvalidGraph((f'{_short(name)}: is no list of containers such as ["app_a"]',))
    return Graph.from_dependencies(containers, found, init)


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    for name in _twice([name for name, _ in pairs]):
        raise ValueError(f"{_short(name)!r} is there twice")
    return dict(pairs)


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


def _depths(edges: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the level of each that is on no cycle and above none (Kahn, 1962)."""
    waits = {name: len(needed) for name, needed in edges.items()}
    dependents: dict[str, list[str]] = {name: [] for name in edges}
    for name, needed in edges.items():
        for other in needed:
            dependents[other].append(name)
    depth = {name: 0 for name, count in waits.items() if not count}
    ready = list(depth)
    for other in ready:
        for name in dependents[other]:
            waits[name] -= 1
            if not waits[name]:
                depth[name] = 1 + max(depth[needed] for needed in edges[name])
                ready.append(name)
    return depth


def _cycles(edges: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Give cycles until none is left, the first member last again, none sharing a member with another."""
    left = dict(edges)
    while left:
        inner = {name: tuple(other for other in needed if other in left) for name, needed in left.items()}
        done = _depths(inner)
        left = {name: needed for name, needed in inner.items() if name not in done}
        if not left:
            break
        path: dict[str, None] = {}
        name = next(iter(left))
        while name not in path:
            path[name] = None
            name = next(other for other in left[name] if other in left)
        members = list(path)
        cycle = members[members.index(name) :]
        yield (*cycle, name)
        left = {member: needed for member, needed in left.items() if member not in cycle}
