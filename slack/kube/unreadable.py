"""Objects of one collection that are there and cannot be read: named in the log once, and in metrics while they last.

Written by one thread, the one that reads the collection; `names` may be read by any.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from slack.kube.watch import Undecodable

log = logging.getLogger(__name__)

MOST_NAMES = 100
"""Whoever may make one such object can make thousands."""


class UnreadableObjects:
    """See the module's docstring."""

    def __init__(self, path: str) -> None:
        """Nothing has been read yet; the path of the collection is for the log."""
        self.count = 0
        """How often an object could not be read so far."""
        self.names: Mapping[str, str] = MappingProxyType({})
        """Those that are there now, with the reason, by namespace and name; a hundred at the most."""
        self._path = path
        self._listed: set[str] | None = None

    def begin(self) -> None:
        """A list begins, which names all of them again."""
        self._listed = set()

    def end(self) -> None:
        """The list is whole."""
        if self._listed is not None and self.names:
            self._keep(self._listed)
        self._listed = None

    def add_object(self, bad: Undecodable) -> None:
        """An object cannot be read."""
        self.count += 1
        name = bad.name
        if self._listed is not None:
            self._listed.add(name)
        if name not in self.names and len(self.names) >= MOST_NAMES:
            return
        if name not in self.names:
            log.warning("%s: %s is left out, because it cannot be read: %s", self._path, name, bad.why)
        self.names = MappingProxyType({**self.names, name: bad.why})

    def readable(self, items: Iterable[Any]) -> None:
        """These objects were read, or they are deleted."""
        if self.names:
            self._keep(self.names.keys() - {_name_of(item) for item in items})

    def _keep(self, names: Iterable[str]) -> None:
        self.names = MappingProxyType({name: self.names[name] for name in names if name in self.names})


def _name_of(item: Any) -> str:
    metadata = item.metadata
    if not isinstance(metadata, dict):
        metadata = {field: getattr(metadata, field, None) for field in ("namespace", "name")}
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return f"{namespace}/{name}" if namespace else str(name)
