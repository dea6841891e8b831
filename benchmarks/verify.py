"""Recompute from the rows what the columns keep incrementally, and compare: for tests and benchmarks only.

A difference is a bug of ours, never the cluster's fault. It costs some tens of milliseconds for 150,000 pods.
"""

from collections import Counter

import numpy as np

from slack.cluster.columns import ClusterColumns
from slack.cluster.identity import DAEMON, PLACEHOLDER
from slack.cluster.tables.interning import grown
from slack.cluster.tables.label_sets import UNREAD


def verify(columns: ClusterColumns) -> None:
    """Compare every aggregate with one made from scratch.

    Raises:
        RuntimeError: names the aggregate that differs.
    """
    _verify_nodes(columns)
    _verify_holders(columns)
    pods = columns.pods
    live = {key: row for row, key in enumerate(pods.keys) if key}
    _same("rows by name", pods.rows, live)
    _same("placeholders", set(columns.placeholders.rows), _placeholder_rows(columns))


def _verify_nodes(columns: ClusterColumns) -> None:
    pods, nodes = columns.pods, columns.nodes
    size, width = nodes.known.size, len(columns.resources.names)
    node, role = pods.node[: pods.size], pods.role[: pods.size]
    vectors = grown(columns.requests.matrix, 0, width)
    for sort, kept in nodes.requested.items():
        rows = np.flatnonzero((role == sort) & (node >= 0))
        made = np.zeros((size, width), dtype=np.int64)
        np.add.at(made, node[rows], vectors[pods.requests[rows]])
        _same(f"requests of role {sort} per node", grown(kept, size, width)[:size].tolist(), made.tolist())
    bound = node[node >= 0]
    _same("pods per node", nodes.pod_count.tolist(), np.bincount(bound, minlength=size).tolist())
    daemons = node[(node >= 0) & (role == DAEMON)]
    _same("daemon pods per node", nodes.daemon_count.tolist(), np.bincount(daemons, minlength=size).tolist())
    wanted = {nodes.names[row] for row in np.flatnonzero(nodes.known | (nodes.pod_count > 0)).tolist()}
    _same("node rows", set(nodes.rows), wanted)


def _verify_holders(columns: ClusterColumns) -> None:
    pods, kinds = columns.pods, columns.kinds
    kind = pods.kind[: pods.size]
    arrivals = columns.arrivals.held()
    counts = columns.arrivals.counts(max(kinds.capacity, 1))
    _same("arrivals", {int(row): int(counts[row]) for row in np.flatnonzero(counts)}, arrivals)
    held = Counter(kind[kind >= 0].tolist())
    held.update(arrivals)
    _same("holders of kinds", kinds.holders(), {kinds[index]: count for index, count in held.items()})
    requests = Counter(pods.requests[: pods.size][pods.role[: pods.size] > 0].tolist())
    constraints: Counter[int] = Counter()
    for index in kinds.ids():
        requests[kinds[index].requests] += 1
        constraints[kinds[index].constraints] += 1
    constraints.update(columns.daemons.held())
    for record in columns.reserved.records.values():
        requests[record.requests] += 1
        constraints[record.constraints] += 1
    sets = Counter(pods.labels[: pods.size][pods.labels[: pods.size] >= 0].tolist()) + Counter([UNREAD])
    known_sets = columns.label_sets
    _same("holders of labels", known_sets.holders(), {known_sets[index]: count for index, count in sets.items()})
    table = columns.requests
    _same("holders of requests", table.holders(), {table[index]: count for index, count in requests.items()})
    known = columns.constraints
    _same("holders of constraints", known.holders(), {known[index]: count for index, count in constraints.items()})


def _placeholder_rows(columns: ClusterColumns) -> set[int]:
    pods = columns.pods
    return {int(row) for row in np.flatnonzero(pods.role[: pods.size] == PLACEHOLDER)}


def _same(what: str, kept: object, made: object) -> None:
    if kept != made:
        raise RuntimeError(f"columns disagree with their rows in {what}: kept {kept!r:.300}, recomputed {made!r:.300}")
