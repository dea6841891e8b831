"""The names that a node may have in a load watcher's report: its own, its host name, its addresses; also with a port.

A watcher that matches names itself says nodes' own; others say what a metrics provider has, such as `10.0.0.2:9100`.
"""

from collections.abc import Iterator, Mapping

from slack.scorer.inputs.objects import without_port


class NodeRowsByName(Mapping[str, int]):
    """Rows of nodes by any of their names; looks up only what is asked for."""

    def __init__(self, row_of: Mapping[str, int], aliases: Mapping[str, str]) -> None:
        """Know the names of all nodes.

        Args:
            row_of: rows by the nodes' own names.
            aliases: own names by the other names, without ports.
        """
        self._row_of = row_of
        self._aliases = aliases

    def __getitem__(self, name: str) -> int:
        row = self._row_of.get(name)
        if row is not None:
            return row
        bare = without_port(name)
        row = self._row_of.get(bare)
        return self._row_of[self._aliases[bare]] if row is None else row

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)
