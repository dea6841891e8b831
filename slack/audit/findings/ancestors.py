"""Which levels lie above a cgroup, nearest first: by its path, and a container's pod by its uid or name.

A quota at any of them stops everything below. Sources that make paths of names may have a pod beside its containers,
not above them, so a pod is found both ways.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from slack.audit.findings.sample import CgroupLevel, CgroupTarget

V = TypeVar("V")


class Ancestors(Generic[V]):
    """Values of some targets, to be found from the targets below them."""

    def __init__(self, items: Iterable[tuple[CgroupTarget, V]]) -> None:
        self._by_path: dict[tuple[str, str], V] = {}
        self._pods: dict[tuple[str, str, str], V] = {}
        for target, value in items:
            self._by_path[target.key] = value
            if target.level is CgroupLevel.POD:
                for pod in _pod_keys(target):
                    self._pods[pod] = value

    def values_above(self, target: CgroupTarget) -> Iterator[V]:
        """Values of the levels above `target`, the nearest first."""
        found: list[V] = []
        if target.level is CgroupLevel.CONTAINER:
            found.extend(self._pods[pod] for pod in _pod_keys(target) if pod in self._pods)
        found.extend(
            self._by_path[target.node, path] for path in _above(target.path) if (target.node, path) in self._by_path
        )
        seen: set[int] = set()
        for value in found:
            if id(value) not in seen:
                seen.add(id(value))
                yield value


def _pod_keys(target: CgroupTarget) -> list[tuple[str, str, str]]:
    keys = []
    if target.pod_uid:
        keys.append((target.node, "", target.pod_uid))
    if target.pod:
        keys.append((target.node, target.namespace, target.pod))
    return keys


def _above(path: str) -> Iterator[str]:
    while path not in ("", "/"):
        path = path.rstrip("/").rpartition("/")[0]
        yield path or "/"
